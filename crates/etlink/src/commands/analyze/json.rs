//! All tables as JSON, or a single one.

use crate::envelope::{JsonReport, json_value, print_json, print_json_report};
use anyhow::Result;
use serde_json::{Map, Value};

/// Prints a report on all runs. `only` selects one of the `tables`, in each run, its ranks, and its
/// totals.
pub(super) fn print_tables<T: JsonReport>(
    report: &T,
    tables: &[&str],
    only: Option<&str>,
) -> Result<()> {
    match only {
        // without conversion to values: each record would be a map, several times the size of its
        // text
        None => print_json_report(report),
        Some(only) => print_json(&select_table(json_value(report)?, tables, only)),
    }
}

fn select_table(mut report: Value, tables: &[&str], only: &str) -> Value {
    let runs = report.get_mut("runs").and_then(Value::as_array_mut);
    for run in runs.into_iter().flatten().filter_map(Value::as_object_mut) {
        retain_table(run, tables, only);
        // totals have tables of the same names
        run.get_mut("total")
            .and_then(Value::as_object_mut)
            .into_iter()
            .for_each(|total| retain_table(total, tables, only));
        let ranks = run
            .get_mut("ranks")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        for rank in ranks.filter_map(Value::as_object_mut) {
            retain_table(rank, tables, only);
        }
    }
    report
}

/// Removes all tables except one.
fn retain_table(map: &mut Map<String, Value>, tables: &[&str], only: &str) {
    map.retain(|name, _| name == only || !tables.contains(&name.as_str()));
}
