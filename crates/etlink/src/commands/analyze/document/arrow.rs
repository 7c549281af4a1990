//! Tables as Arrow batches.

use super::super::Analyzed;
use super::super::requests::RequestLatency;
use super::super::results::Ranked;
use super::AnalyzeDocument;
use crate::record_tables::RankRecords;
use anyhow::{Context, Result};
use arrow_array::RecordBatch;
use etlink_analyze::{RankAnalysis, RunMetric};
use etlink_link::ranks::StragglerStats;
use etlink_tables::RecordTable;

impl AnalyzeDocument {
    /// Returns a table of all ranks.
    ///
    /// # Errors
    /// There is no table of this name.
    pub fn table(&self, name: &str) -> Result<RecordBatch> {
        let Analyzed {
            told,
            total,
            stragglers,
            requests,
            ..
        } = &self.0;
        let mut table = RecordTable::default();
        match name {
            "metrics" => {
                table.declare(false, &RunMetric::default())?;
                for metric in &total.metrics {
                    table.push(None, metric)?;
                }
            }
            "stragglers" => {
                table.declare(false, &StragglerStats::default())?;
                for rank in stragglers {
                    table.push(None, rank)?;
                }
            }
            "requests" => {
                table.declare(false, &RequestLatency::default())?;
                for latency in requests {
                    table.push(None, latency)?;
                }
            }
            name => push_ranks(&mut table, &told.ranks, name)?,
        }
        Ok(table.finish()?)
    }
}

fn push_ranks(table: &mut RecordTable, ranks: &[Ranked<RankAnalysis>], name: &str) -> Result<()> {
    let mut blank = RankRecords::blank(table);
    let is_known = RankAnalysis::blank().visit_table(name, &mut blank)?;
    is_known
        .then_some(())
        .with_context(|| format!("analyze has no table {name}"))?;
    for rank in ranks {
        let mut records = RankRecords::of_rank(table, rank.said.rank);
        rank.said.visit_table(name, &mut records)?;
    }
    Ok(())
}
