//! A table of all ranks as CSV: run, rank, then the fields that JSON has, by the same names.

use super::Analyzed;
use anyhow::Result;
use serde_json::{Map, Value};

pub(super) fn csv(all: &[Analyzed], table: &str) -> Result<String> {
    let mut out = csv::Writer::from_writer(vec![]);
    let mut head: Option<Vec<String>> = None;
    for (run, rank) in all.iter().flat_map(|run| run.ranks.iter().map(move |rank| (run, rank))) {
        let analysis = serde_json::to_value(&rank.analysis)?;
        for record in records(&analysis, table) {
            let head = match &head {
                Some(head) => head,
                None => {
                    let names: Vec<String> = record.keys().cloned().collect();
                    out.write_record(["run", "rank"].into_iter().chain(names.iter().map(String::as_str)))?;
                    head.insert(names)
                }
            };
            let cells = head.iter().map(|name| cell(record.get(name)));
            out.write_record([run.run.clone(), rank.label.clone()].into_iter().chain(cells))?;
        }
    }
    Ok(String::from_utf8(out.into_inner()?)?)
}

fn records<'v>(analysis: &'v Value, table: &str) -> impl Iterator<Item = &'v Map<String, Value>> {
    analysis.get(table).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
