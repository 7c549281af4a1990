//! A table of all ranks as CSV: run, rank, then the fields of the JSON, under the same names.

use super::requests::RequestLatency;
use super::results::AnalyzedRun;
use super::{Analyzed, AsHta};
use crate::table::CsvTable;
use anyhow::Result;
use etlink_analyze::{OpTotals, RankAnalysis, RankOps, RunMetric, RunTotals};
use etlink_hta::{HtaRunTables, HtaTables, PotentialStraggler};
use etlink_link::ranks::StragglerStats;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Formats one of our own tables.
pub(super) fn of_analyzed(all: &[Analyzed], table: &str) -> Result<String> {
    // one empty record, so that the head is complete even if no rank has a row
    let blank = RunTotals {
        metrics: vec![RunMetric::default()],
        ..RunTotals::default()
    };
    let stragglers =
        |ranks: &[StragglerStats]| serde_json::to_value(BTreeMap::from([(table, ranks)]));
    match table {
        "metrics" => write_csv(
            all.iter().map(|run| {
                (
                    run.told.run.as_str(),
                    "all".to_owned(),
                    serde_json::to_value(&run.total),
                )
            }),
            table,
            &blank,
        ),
        "stragglers" => {
            let ranks = all.iter().flat_map(|run| {
                run.stragglers
                    .iter()
                    .map(|rank| (run.told.run.as_str(), rank))
            });
            write_csv(
                ranks.map(|(run, rank)| (run, rank.rank.to_string(), stragglers(&[*rank]))),
                table,
                &stragglers(&[StragglerStats::default()])?,
            )
        }
        "requests" => {
            let tables =
                |run: &[RequestLatency]| serde_json::to_value(BTreeMap::from([(table, run)]));
            write_csv(
                all.iter().map(|run| {
                    (
                        run.told.run.as_str(),
                        "all".to_owned(),
                        tables(&run.requests),
                    )
                }),
                table,
                &tables(&[RequestLatency::default()])?,
            )
        }
        _ => write_csv(
            all.iter().flat_map(|run| rank_tables(&run.told)),
            table,
            &RankAnalysis::blank(),
        ),
    }
}

/// Formats one of HTA's tables.
pub(super) fn of_hta(all: &[AsHta], table: &str) -> Result<String> {
    if etlink_hta::RUN_TABLES.contains(&table) {
        let blank = HtaRunTables {
            potential_stragglers: vec![PotentialStraggler::default()],
            ..HtaRunTables::default()
        };
        return write_csv(
            all.iter().map(|run| {
                (
                    run.told.run.as_str(),
                    "all".to_owned(),
                    serde_json::to_value(&run.total),
                )
            }),
            table,
            &blank,
        );
    }
    write_csv(
        all.iter().flat_map(|run| rank_tables(&run.told)),
        table,
        &HtaTables::blank(),
    )
}

/// Formats the ops of all ranks.
pub(super) fn of_ops(all: &[AnalyzedRun<RankOps>]) -> Result<String> {
    let blank = RankOps {
        ops: vec![OpTotals::default()],
        ..RankOps::default()
    };
    write_csv(all.iter().flat_map(rank_tables), "ops", &blank)
}

fn rank_tables<T: Serialize>(run: &AnalyzedRun<T>) -> impl Iterator<Item = Said<'_>> {
    run.ranks.iter().map(|rank| {
        (
            run.run.as_str(),
            rank.label.clone(),
            serde_json::to_value(&rank.said),
        )
    })
}

/// Run, rank label, and tables of a rank.
type Said<'a> = (&'a str, String, serde_json::Result<Value>);

fn write_csv<'a>(
    all: impl Iterator<Item = Said<'a>>,
    table: &str,
    blank: &impl Serialize,
) -> Result<String> {
    let blank = serde_json::to_value(blank)?;
    // skip the rank's own field: the rank column already has it
    let head: Vec<&str> = table_records(&blank, table)
        .flat_map(Map::keys)
        .map(String::as_str)
        .filter(|name| *name != "rank")
        .collect();
    let mut out = CsvTable::new(["run", "rank"].iter().chain(&head))?;
    for (run, rank, said) in all {
        for record in table_records(&said?, table) {
            // by name: fields that serde skips because they are empty would shift the others
            let cells = head.iter().map(|name| match record.get(*name) {
                // a list is one cell
                Some(list @ (Value::Array(_) | Value::Object(_))) => list.to_string().into(),
                value => value.cloned().unwrap_or_default(),
            });
            out.add((run, &rank, cells.collect::<Vec<Value>>()))?;
        }
    }
    out.finish()
}

/// Returns the records of a table.
pub(super) fn table_records<'v>(
    said: &'v Value,
    table: &str,
) -> impl Iterator<Item = &'v Map<String, Value>> {
    said.get(table)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
}

/// Formats a value as text; empty for null or a missing value.
pub(super) fn value_text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
