//! Findings in SARIF 2.1.0, which code hosts and editors show next to files.
//!
//! Specification: <https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>.

use super::Checked;
use etlink_chakra::check::{CheckRule, RULES};
use etlink_chakra::finding::{EXAMPLES, Finding, FindingExample};
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns one log with one run: all rules, and a result per finding.
pub(super) fn sarif_log(checked: &[Checked]) -> Value {
    let results: Vec<Value> = checked
        .iter()
        .flat_map(|file| file.findings.iter().map(|finding| result(file, finding)))
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "etlink",
                "version": env!("ETLINK_VERSION"),
                "rules": RULES.iter().map(rule).collect::<Vec<_>>(),
            }},
            "results": results,
        }],
    })
}

fn rule(rule: &CheckRule) -> Value {
    let help = format!(
        "{} Chakra's feeder and ASTRA-sim: {}. chakra_converter and et_replay: {}.",
        rule.reason, rule.feeder, rule.others
    );
    json!({
        "id": rule.id,
        "shortDescription": { "text": rule.title },
        "fullDescription": { "text": rule.reason },
        "help": { "text": help },
        "defaultConfiguration": { "level": rule.level },
    })
}

fn result(file: &Checked, finding: &Finding) -> Value {
    let places: Vec<Value> = finding
        .examples
        .iter()
        // JSON has all of them
        .take(EXAMPLES)
        .map(|example| location(&file.file, example))
        .collect();
    let detail = finding
        .examples
        .first()
        .map_or("", |example| &example.detail);
    let detail = if detail.is_empty() {
        String::new()
    } else {
        format!(" (first: {detail})")
    };
    let (first, related) = match places.split_first() {
        Some((first, related)) => (first.clone(), related.to_vec()),
        None => (location(&file.file, &FindingExample::default()), vec![]),
    };
    let rule = RULES.iter().position(|rule| rule.id == finding.rule);
    json!({
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "level": rule.map_or("error", |at| RULES[at].level),
        "message": { "text": format!("{}: {}{detail}", finding.count, finding.kind.describe()) },
        "occurrenceCount": finding.count.max(1),
        "locations": [first],
        "relatedLocations": related,
    })
}

fn location(file: &str, example: &FindingExample) -> Value {
    let mut physical = json!({ "artifactLocation": { "uri": file_uri(file) } });
    if let Some(offset) = example.offset {
        physical["region"] = json!({ "byteOffset": offset, "byteLength": 0 });
    }
    let mut location = json!({ "physicalLocation": physical });
    if let Some(id) = example.id {
        let name = if example.name.is_empty() {
            format!("node {id}")
        } else {
            format!("node {id} ({})", example.name)
        };
        location["logicalLocations"] = json!([{ "name": name, "kind": "element" }]);
    }
    if !example.detail.is_empty() {
        location["message"] = json!({ "text": example.detail });
    }
    if !example.nodes.is_empty() {
        // the format leaves this field to its writers
        location["properties"] = json!({ "nodes": example.nodes });
    }
    location
}

/// Converts a path to a reference as in RFC 3986, with reserved characters escaped.
fn file_uri(path: &str) -> String {
    let mut uri = String::new();
    if path.starts_with('/') {
        uri.push_str("file://");
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped() {
        assert_eq!(file_uri("a b/c#1.et"), "a%20b/c%231.et");
        assert_eq!(file_uri("/x/é:*.et"), "file:///x/%C3%A9%3A%2A.et");
    }
}
