//! All tables as JSON, or the one that was asked for.

use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};

/// What is said of all runs; of the `tables` of each run, of its ranks and of all of them only the
/// one that is called `only`.
pub(super) fn select_tables(
    runs: &impl Serialize,
    tables: &[&str],
    only: Option<&str>,
) -> Result<Value> {
    let mut all = serde_json::to_value(runs)?;
    let Some(only) = only else { return Ok(all) };
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
