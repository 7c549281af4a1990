//! Tables as Arrow batches.

use super::super::NotCompared;
use super::super::waits::RankUtilization;
use super::RanksDocument;
use crate::record_tables::records_table;
use anyhow::{Result, bail};
use arrow_array::RecordBatch;
use etlink_link::ranks::{
    CollectiveSkew, JoinProblem, JoinProblemKind, PairBytes, RankClock, StepStragglers,
    StragglerStats, TransferTotals,
};

impl RanksDocument {
    /// Returns one of the tables.
    ///
    /// # Errors
    /// There is no table of this name.
    pub fn table(&self, name: &str) -> Result<RecordBatch> {
        let report = &self.0;
        match name {
            "clocks" => records_table(Some(&RankClock::default()), &report.clocks),
            "ranks" => records_table(Some(&StragglerStats::default()), &report.ranks),
            "utilization" => records_table(Some(&RankUtilization::default()), &report.utilization),
            "steps" => records_table(Some(&StepStragglers::default()), &report.steps),
            "problems" => records_table(Some(&blank_problem()), &report.problems),
            "not_compared" => records_table(Some(&NotCompared::default()), &report.not_compared),
            "collectives" => records_table(Some(&CollectiveSkew::default()), &report.collectives),
            "bandwidth" => records_table(Some(&TransferTotals::default()), &report.bandwidth),
            "pair_bytes" => records_table(Some(&PairBytes::default()), &report.pair_bytes),
            _ => bail!("ranks has no table {name}"),
        }
    }
}

/// Makes a blank record that provides the names of columns; its values are ignored.
fn blank_problem() -> JoinProblem {
    JoinProblem {
        kind: JoinProblemKind::GlooUnrecorded,
        count: 0,
        examples: vec![],
    }
}
