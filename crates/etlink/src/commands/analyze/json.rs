//! All tables as JSON, or the one that was asked for.

use crate::envelope::{JsonReport, json_value, print_json, print_json_report};
use anyhow::Result;
use serde_json::{Map, Value};

/// Prints what is said of all runs; of the `tables` of each run, of its ranks and of all of them
/// only the one that is called `only`.
pub(super) fn print_tables<T: JsonReport>(
    report: &T,
    tables: &[&str],
    only: Option<&str>,
) -> Result<()> {
    match only {
        // as values, each record would be a map of its own: several times the text's size
        None => print_json_report(report),
        Some(only) => print_json(&select_table(json_value(report)?, tables, only)),
    }
}

fn select_table(mut report: Value, tables: &[&str], only: &str) -> Value {
    let runs = report.get_mut("runs").and_then(Value::as_array_mut);
    for run in runs.into_iter().flatten().filter_map(Value::as_object_mut) {
        retain_table(run, tables, only);
        // sums over ranks have tables too, of the same names
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

/// Removes all tables but one.
fn retain_table(map: &mut Map<String, Value>, tables: &[&str], only: &str) {
    map.retain(|name, _| name == only || !tables.contains(&name.as_str()));
}
