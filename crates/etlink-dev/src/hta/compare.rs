//! A table of ours against one of HTA's, line by line.

use crate::support::read_trace_text;
use anyhow::{Context, Result};
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

pub type TableLine = BTreeMap<String, String>;

pub fn line_from_record(record: &Map<String, Value>) -> TableLine {
    record
        .iter()
        .map(|(key, value)| (key.clone(), value_text(value)))
        .collect()
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // pandas leaves the field empty
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A stored table, `None` where there is none.
pub fn stored_table(folder: &Path, name: &str) -> Result<Option<Vec<TableLine>>> {
    // Older results have the steps, which are a list and no frame, as JSON.
    if let Ok(text) = std::fs::read(folder.join(format!("{name}.json"))) {
        let steps: Vec<Value> = serde_json::from_slice(&text)?;
        return Ok(Some(
            steps
                .iter()
                .map(|step| TableLine::from([("step".to_owned(), step.to_string())]))
                .collect(),
        ));
    }
    for file in [format!("{name}.csv"), format!("{name}.csv.gz")] {
        let path = folder.join(file);
        if path.is_file() {
            return lines_from_csv(&read_trace_text(&path)?)
                .map(Some)
                .with_context(|| path.display().to_string());
        }
    }
    // The recipe leaves this where HTA has no lines to give: none are wanted of us either.
    Ok(folder.join(format!("{name}.none")).is_file().then(Vec::new))
}

fn lines_from_csv(text: &[u8]) -> Result<Vec<TableLine>> {
    let mut reader = csv::Reader::from_reader(text);
    let head = reader.headers()?.clone();
    let mut lines = vec![];
    for record in reader.records() {
        let record = record?;
        let fields = head.iter().zip(record.iter());
        lines.push(
            fields
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        );
    }
    Ok(lines)
}

/// What stands otherwise, by lines of one key; lines of the same key in order. Numbers may differ
/// by the tolerance.
pub fn differences(
    key: &[&str],
    ours: &[TableLine],
    theirs: &[TableLine],
    tolerance: f64,
) -> Vec<String> {
    let (ours, theirs) = (lines_by_key(key, ours), lines_by_key(key, theirs));
    let mut all = vec![];
    for key in ours
        .keys()
        // Keys that only HTA has come last: what is missing here is as wrong as what is too much.
        .chain(theirs.keys().filter(|key| !ours.contains_key(*key)))
    {
        let (left, right) = (
            ours.get(key).map_or(&[][..], Vec::as_slice),
            theirs.get(key).map_or(&[][..], Vec::as_slice),
        );
        if left.len() != right.len() {
            // a category with a sum of nothing is as good as none
            if !(is_without_idle(left) && is_without_idle(right)) {
                all.push(format!(
                    "{}: {} lines here, {} there",
                    key.join(" "),
                    left.len(),
                    right.len()
                ));
            }
            continue;
        }
        for (left, right) in left.iter().zip(right) {
            for (column, want) in right
                .iter()
                // The recipe turns the index of a frame into columns, which our tables do not have.
                .filter(|(column, _)| left.contains_key(*column))
            {
                let found = &left[column];
                if !is_same_value(found, want, tolerance) {
                    all.push(format!("{} {column} {found}, HTA {want}", key.join(" ")));
                }
            }
        }
    }
    all
}

fn lines_by_key(key: &[&str], lines: &[TableLine]) -> BTreeMap<Vec<String>, Vec<TableLine>> {
    let mut all: BTreeMap<Vec<String>, Vec<TableLine>> = BTreeMap::new();
    for line in lines {
        let values = key.iter().map(|column| field_of(line, column));
        all.entry(values.collect()).or_default().push(line.clone());
    }
    // HTA leaves lines of one key in an order that its unstable sort happens to give.
    all.values_mut()
        .for_each(|lines| lines.sort_by(compare_lines));
    all
}

/// Field by field, numbers by their size: as texts, 9.5 would stand behind 10.25, and a line whose
/// time HTA's doubles moved a little would be compared with quite another.
fn compare_lines(one: &TableLine, other: &TableLine) -> Ordering {
    let fields = one.iter().zip(other);
    let each =
        fields.map(
            |((_, one), (_, other))| match (parse_number(one), parse_number(other)) {
                (Some(one), Some(other)) => one.total_cmp(&other),
                _ => one.cmp(other),
            },
        );
    each.fold(Ordering::Equal, Ordering::then)
}

/// Empty where the line has no such column.
fn field_of(line: &TableLine, column: &str) -> String {
    line.get(column).cloned().unwrap_or_default()
}

fn is_without_idle(lines: &[TableLine]) -> bool {
    lines
        .iter()
        .all(|line| line.get("idle_time").and_then(|time| parse_number(time)) == Some(0.0))
}

/// Idle time per rank and stream, whatever its cause.
pub fn idle_sums(lines: &[TableLine]) -> Vec<TableLine> {
    let mut sums: BTreeMap<[String; 2], f64> = BTreeMap::new();
    for line in lines {
        let key = ["rank", "stream"].map(|column| field_of(line, column));
        *sums.entry(key).or_default() += line
            .get("idle_time")
            .and_then(|time| parse_number(time))
            .unwrap_or(0.0);
    }
    let mut lines = vec![];
    for ([rank, stream], sum) in sums {
        let fields = [
            ("rank", rank),
            ("stream", stream),
            ("idle_time", sum.to_string()),
        ];
        lines.push(fields.map(|(key, value)| (key.to_owned(), value)).into());
    }
    lines
}

fn parse_number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// Equal, but for the tolerance and what floating point sums in another order give.
fn is_same_value(found: &str, want: &str, tolerance: f64) -> bool {
    match (parse_number(found), parse_number(want)) {
        (Some(found), Some(want)) => (found - want).abs() <= tolerance.max(want.abs() * 1e-9),
        _ => found == want,
    }
}
