//! Tests the rules of `etlink check` on the files of `testdata/check`.

use crate::tool::{Tool, pairs};
use etlink_chakra::check::RULES;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn corpus() -> PathBuf {
    pairs().join("../check")
}

/// Returns the cases with the ids of the rules that they break.
fn cases() -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(corpus().join("expected.txt")).expect("reads the list");
    let lines = text
        .lines()
        .map(|line| line.split_once(':').expect("a case"));
    lines
        .map(|(name, rules)| {
            let rules = rules.split_whitespace().map(str::to_owned).collect();
            (name.to_owned(), rules)
        })
        .collect()
}

/// Returns the ids of the rules that `check` finds broken.
fn broken_rules(document: &Value) -> Vec<String> {
    let files = document.as_array().expect("a list of files");
    let findings = files.iter().flat_map(|file| file["findings"].as_array());
    let rules: BTreeSet<String> = findings
        .flatten()
        .map(|finding| finding["rule"].as_str().expect("an id").to_owned())
        .collect();
    rules.into_iter().collect()
}

#[test]
fn each_rule_has_files_that_break_it_alone() {
    let tool = Tool::new();
    let mut first: BTreeSet<String> = BTreeSet::new();
    for (name, rules) in cases() {
        let path = corpus().join(&name);
        let ran = tool.run(&format!("check {} --json", path.display()));
        assert_eq!(broken_rules(&ran.files()), rules, "{name}");
        let is_error = |id: &String| {
            let rule = RULES.iter().find(|rule| rule.id == id);
            rule.is_some_and(|rule| rule.level == "error")
        };
        assert_eq!(ran.code, i32::from(rules.iter().any(is_error)), "{name}");
        // files are named after their rule
        first.extend(rules.into_iter().filter(|id| name.starts_with(&id[..])));
    }
    let all: BTreeSet<String> = RULES.iter().map(|rule| rule.id.to_owned()).collect();
    assert_eq!(first, all);
}

#[test]
fn rules_are_chosen_by_their_ids() {
    let tool = Tool::new();
    let folder = corpus().join("ET504-missing");
    let check = format!("check {}", folder.display());
    tool.run(&check).exits(1).says("ET504").says("ET509");
    let one = tool.run(&format!("{check} --rule et509")).exits(1);
    assert!(one.stdout.contains("error ET509") && !one.stdout.contains("error ET504"));
    tool.run(&format!("{check} --rule ET102,ET105")).exits(0);
    tool.run(&format!("{check} --rule ET999"))
        .exits(2)
        .complains(&["ET999", "etlink check --explain all"]);
}

#[test]
fn a_rule_is_explained() {
    let tool = Tool::new();
    tool.run("check --explain ET102")
        .exits(0)
        .says("ET102 (error)")
        .says("aborts at load");
    let all = tool.run("check --explain all").exits(0);
    for rule in RULES {
        assert!(all.stdout.contains(rule.id), "{}", rule.id);
    }
}

#[test]
fn findings_in_sarif_have_their_rules_and_places() {
    let tool = Tool::new();
    let file = corpus().join("ET007-undecodable.et");
    let ran = tool
        .run(&format!("check {} --format sarif", file.display()))
        .exits(1);
    let log = ran.other_json();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let result = &run["results"][0];
    assert_eq!(
        (&result["ruleId"], &result["level"]),
        (&"ET007".into(), &"error".into())
    );
    let index = result["ruleIndex"].as_u64().expect("an index") as usize;
    assert_eq!(run["tool"]["driver"]["rules"][index]["id"], "ET007");
    let place = &result["locations"][0]["physicalLocation"];
    let uri = place["artifactLocation"]["uri"].as_str().expect("a path");
    assert!(
        uri.starts_with("file:///") && uri.ends_with("ET007-undecodable.et"),
        "{uri}"
    );
    assert!(place["region"]["byteOffset"].as_u64() > Some(0));
    let good = corpus().join("good");
    let ran = tool
        .run(&format!("check {} --format sarif", good.display()))
        .exits(0);
    assert_eq!(
        ran.other_json()["runs"][0]["results"],
        serde_json::json!([])
    );
}
