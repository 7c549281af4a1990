//! A table of all ranks as CSV: run, rank, then the fields of the JSON, under the same names.

use super::requests::RequestLatency;
use super::results::AnalyzedRun;
use super::{Analyzed, AsHta};
use crate::table::CsvTable;
use anyhow::Result;
use etlink_analysis::hta::{HtaTables, PotentialStraggler};
use etlink_analysis::{OpTotals, RankAnalysis, RankOps, Records, RunMetric, records};
use etlink_link::ranks::StragglerStats;

/// Records of a table with their run and rank.
type Named<'a> = (&'a str, String, Option<Records<'a>>);

/// Formats one of our own tables.
pub(super) fn of_analyzed(all: &[Analyzed], table: &str) -> Result<String> {
    let of_all = |run, records| (run, "all".to_owned(), Some(records));
    match table {
        "metrics" => write_csv(
            Some(records(&[RunMetric::default()])),
            all.iter()
                .map(|run| of_all(&*run.told.run, records(&run.total.metrics))),
        ),
        "requests" => write_csv(
            Some(records(&[RequestLatency::default()])),
            all.iter()
                .map(|run| of_all(&*run.told.run, records(&run.requests))),
        ),
        "stragglers" => write_csv(
            Some(records(&[StragglerStats::default()])),
            all.iter().flat_map(|run| {
                let each = run.stragglers.chunks(1);
                each.map(|one| (&*run.told.run, one[0].rank.to_string(), Some(records(one))))
            }),
        ),
        _ => write_csv(
            RankAnalysis::blank().records(table),
            all.iter()
                .flat_map(|run| of_ranks(&run.told, |said| said.records(table))),
        ),
    }
}

/// Formats one of HTA's tables.
pub(super) fn of_hta(all: &[AsHta], table: &str) -> Result<String> {
    if etlink_analysis::hta::RUN_TABLES.contains(&table) {
        return write_csv(
            Some(records(&[PotentialStraggler::default()])),
            all.iter().map(|run| {
                let found = records(&run.total.potential_stragglers);
                (&*run.told.run, "all".to_owned(), Some(found))
            }),
        );
    }
    write_csv(
        HtaTables::blank().records(table),
        all.iter()
            .flat_map(|run| of_ranks(&run.told, |said| said.records(table))),
    )
}

/// Formats the ops of all ranks.
pub(super) fn of_ops(all: &[AnalyzedRun<RankOps>]) -> Result<String> {
    write_csv(
        Some(records(&[OpTotals::default()])),
        all.iter()
            .flat_map(|run| of_ranks(run, |said| Some(records(&said.ops)))),
    )
}

fn of_ranks<'a, T>(
    run: &'a AnalyzedRun<T>,
    table: impl Fn(&'a T) -> Option<Records<'a>>,
) -> impl Iterator<Item = Named<'a>> {
    let ranks = run.ranks.iter();
    ranks.map(move |rank| (&*run.run, rank.label.clone(), table(&rank.said)))
}

/// Writes a table, whose head a blank record completes, even if no rank has a record.
fn write_csv<'a>(
    blank: Option<Records<'_>>,
    all: impl Iterator<Item = Named<'a>>,
) -> Result<String> {
    let mut head = vec!["run".to_owned(), "rank".to_owned()];
    for record in blank.into_iter().flatten() {
        let record = record?;
        let names = record
            .as_object()
            .into_iter()
            .flat_map(|fields| fields.keys());
        // skip the rank's own field: the rank column already has it
        head.extend(names.filter(|name| *name != "rank").cloned());
    }
    let mut out = CsvTable::new(head)?;
    for (run, rank, records) in all {
        for record in records.into_iter().flatten() {
            out.add_record(&[&run, &rank], record?)?;
        }
    }
    out.finish()
}
