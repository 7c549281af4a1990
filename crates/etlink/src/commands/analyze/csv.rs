//! A table of all ranks as CSV: run, rank, then the fields that JSON has, by the same names.

use anyhow::Result;
use serde_json::{Map, Value};

/// Of what is said of each run and rank.
pub(super) fn csv<'a>(all: impl Iterator<Item = (&'a str, &'a str, serde_json::Result<Value>)>, table: &str) -> Result<String> {
    let mut out = csv::Writer::from_writer(vec![]);
    let mut head: Option<Vec<String>> = None;
    for (run, rank, said) in all {
        let said = said?;
        for record in records(&said, table) {
            let head = match &head {
                Some(head) => head,
                None => {
                    // a table that tells the rank itself is named by that
                    let names: Vec<String> = record.keys().filter(|name| *name != "rank").cloned().collect();
                    out.write_record(["run", "rank"].into_iter().chain(names.iter().map(String::as_str)))?;
                    head.insert(names)
                }
            };
            let cells = head.iter().map(|name| cell(record.get(name)));
            out.write_record([run.to_owned(), rank.to_owned()].into_iter().chain(cells))?;
        }
    }
    Ok(String::from_utf8(out.into_inner()?)?)
}

/// The lines of a table.
pub(super) fn records<'v>(said: &'v Value, table: &str) -> impl Iterator<Item = &'v Map<String, Value>> {
    said.get(table).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

/// A value as text; nothing for none.
pub(super) fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
