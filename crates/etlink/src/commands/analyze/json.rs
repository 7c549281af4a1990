//! All tables as JSON, or the one that was asked for.

use crate::commands::print_json;
use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};

/// Prints what is said of all runs; of the `tables` of each run, of its ranks and of all of them
/// only the one that is called `only`.
pub(super) fn print_tables(
    runs: &impl Serialize,
    tables: &[&str],
    only: Option<&str>,
) -> Result<()> {
    match only {
        // as values, each record would be a map of its own: several times the text's size
        None => print_json(runs),
        Some(only) => print_json(&select_table(runs, tables, only)?),
    }
}

fn select_table(runs: &impl Serialize, tables: &[&str], only: &str) -> Result<Value> {
    let mut all = serde_json::to_value(runs)?;
    for run in all
        .as_array_mut()
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
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
    Ok(all)
}

/// Removes all tables but one.
fn retain_table(map: &mut Map<String, Value>, tables: &[&str], only: &str) {
    map.retain(|name, _| name == only || !tables.contains(&name.as_str()));
}
