//! A table of ours against one of HTA's, line by line.

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

pub type Line = BTreeMap<String, String>;

pub fn line(record: &Map<String, Value>) -> Line {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    record
        .iter()
        .map(|(key, value)| (key.clone(), text(value)))
        .collect()
}

/// A stored table, `None` where there is none.
pub fn stored(folder: &Path, name: &str) -> Result<Option<Vec<Line>>> {
    if let Ok(text) = std::fs::read(folder.join(format!("{name}.json"))) {
        let steps: Vec<Value> = serde_json::from_slice(&text)?;
        return Ok(Some(
            steps
                .iter()
                .map(|step| Line::from([("step".to_owned(), step.to_string())]))
                .collect(),
        ));
    }
    for file in [format!("{name}.csv"), format!("{name}.csv.gz")] {
        let path = folder.join(file);
        if path.is_file() {
            return lines(&super::read(&path)?)
                .map(Some)
                .with_context(|| path.display().to_string());
        }
    }
    Ok(folder.join(format!("{name}.none")).is_file().then(Vec::new))
}

fn lines(text: &[u8]) -> Result<Vec<Line>> {
    let mut reader = csv::Reader::from_reader(text);
    let head = reader.headers()?.clone();
    let line = |record: csv::StringRecord| {
        head.iter()
            .zip(record.iter())
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    };
    reader.records().map(|record| Ok(line(record?))).collect()
}

/// What stands otherwise, by lines of one key; lines of the same key in order. Numbers may differ
/// by the tolerance.
pub fn differences(key: &[&str], ours: &[Line], theirs: &[Line], tolerance: f64) -> Vec<String> {
    let by_key = |lines: &[Line]| {
        let mut all: BTreeMap<Vec<String>, Vec<Line>> = BTreeMap::new();
        for line in lines {
            let key = key
                .iter()
                .map(|key| line.get(*key).cloned().unwrap_or_default())
                .collect();
            all.entry(key).or_default().push(line.clone());
        }
        all.values_mut().for_each(|lines| lines.sort());
        all
    };
    let (ours, theirs) = (by_key(ours), by_key(theirs));
    let mut all = vec![];
    for key in ours
        .keys()
        .chain(theirs.keys().filter(|key| !ours.contains_key(*key)))
    {
        let (left, right) = (
            ours.get(key).map_or(&[][..], Vec::as_slice),
            theirs.get(key).map_or(&[][..], Vec::as_slice),
        );
        if left.len() != right.len() {
            // a category with a sum of nothing is as good as none
            let nothing = |lines: &[Line]| {
                lines.iter().all(|line| {
                    line.get("idle_time")
                        .is_some_and(|time| number(time) == Some(0.0))
                })
            };
            if !(nothing(left) && nothing(right)) {
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
                .filter(|(column, _)| left.contains_key(*column))
            {
                let found = &left[column];
                if !same(found, want, tolerance) {
                    all.push(format!("{} {column} {found}, HTA {want}", key.join(" ")));
                }
            }
        }
    }
    all
}

/// Idle time per rank and stream, whatever its cause.
pub fn idle(lines: &[Line]) -> Vec<Line> {
    let mut sums: BTreeMap<[String; 2], f64> = BTreeMap::new();
    for line in lines {
        let key = ["rank", "stream"].map(|key| line.get(key).cloned().unwrap_or_default());
        *sums.entry(key).or_default() += line
            .get("idle_time")
            .and_then(|time| number(time))
            .unwrap_or(0.0);
    }
    let line = |([rank, stream], sum): ([String; 2], f64)| {
        [
            ("rank", rank),
            ("stream", stream),
            ("idle_time", sum.to_string()),
        ]
    };
    sums.into_iter()
        .map(|one| {
            line(one)
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()
        })
        .collect()
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// Equal, but for the tolerance and what floating point sums in another order give.
fn same(found: &str, want: &str, tolerance: f64) -> bool {
    match (number(found), number(want)) {
        (Some(found), Some(want)) => (found - want).abs() <= tolerance.max(want.abs() * 1e-9),
        _ => found == want,
    }
}
