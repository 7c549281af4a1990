//! Compares the events per category, counted in the recording's JSON by another parser, with
//! Perfetto's.

use super::open_plain;
use super::reader::PerfettoContent;
use anyhow::{Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Number of ranges and instants per category; the category is empty if an event has none.
type CategoryCounts = BTreeMap<String, usize>;

/// Reports a category with a different count as an error; otherwise describes the total.
pub(super) fn compare_counts(device: &Path, found: &PerfettoContent) -> Result<String> {
    let mut text = vec![];
    open_plain(device)?.read_to_end(&mut text)?;
    // Kineto does not escape names: invalid JSON is only compared with our reader.
    let Ok(document) = serde_json::from_slice::<Value>(&text) else {
        return Ok("the recording is no JSON, its categories are not counted".to_owned());
    };
    let events = document.get("traceEvents").unwrap_or(&document);
    let mut recorded = CategoryCounts::new();
    for event in events.as_array().into_iter().flatten() {
        // The reader drops and counts events without a time.
        let is_shown = matches!(event["ph"].as_str(), Some("X" | "i" | "C"));
        if is_shown && !event["ts"].is_null() {
            let category = event["cat"].as_str().unwrap_or_default();
            *recorded.entry(category.to_owned()).or_default() += 1;
        }
    }
    let mut shown = CategoryCounts::new();
    for (.., category) in &found.slices {
        let category = category.clone().unwrap_or_default();
        // These are drawn by etlink, not recorded.
        if !matches!(&category[..], "node" | "transfer" | "step" | "delay") {
            *shown.entry(category).or_default() += 1;
        }
    }
    ensure!(
        recorded == shown,
        "the recording has {recorded:?}, Perfetto {shown:?}"
    );
    Ok(format!("categories {shown:?}"))
}
