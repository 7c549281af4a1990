//! The results of `ranks`, as tables.

use super::{RanksReport, compare_runs};
use crate::run_query::RunQuery;
use anyhow::Result;
#[cfg(feature = "parquet")]
use etlink_link::ranks::{JoinProblem, JoinProblemKind};
use etlink_model::Diagnostic;
use etlink_run::RunError;

/// Comparison of a run's ranks.
pub struct RanksDocument(RanksReport);

impl RanksDocument {
    /// Names of the tables: the same as of the lists in `--json`.
    pub const TABLES: [&str; 10] = [
        "clocks",
        "ranks",
        "utilization",
        "steps",
        "longer_work",
        "problems",
        "not_compared",
        "collectives",
        "bandwidth",
        "pair_bytes",
    ];

    /// Reads a run and compares its ranks.
    ///
    /// # Errors
    /// The traces cannot be found.
    pub fn read(run: &RunQuery) -> Result<RanksDocument> {
        let mut compared = compare_runs(run.source.clone(), run.options.clone())?;
        // the query opens exactly one run
        Ok(RanksDocument(compared.pop().ok_or(RunError::NoRankAsked)?))
    }

    /// Returns one of the tables.
    ///
    /// # Errors
    /// There is no table of this name.
    #[cfg(feature = "parquet")]
    pub fn table(&self, name: &str) -> Result<arrow_array::RecordBatch> {
        use crate::record_tables::records_table;

        let report = &self.0;
        // only names the columns
        let problem = JoinProblem {
            kind: JoinProblemKind::GlooUnrecorded,
            count: 0,
            examples: vec![],
        };
        match name {
            "clocks" => records_table(Some(&Default::default()), &report.clocks),
            "ranks" => records_table(Some(&Default::default()), &report.ranks),
            "utilization" => records_table(Some(&Default::default()), &report.utilization),
            "steps" => records_table(Some(&Default::default()), &report.steps),
            "longer_work" => records_table(Some(&Default::default()), &report.longer_work),
            "problems" => records_table(Some(&problem), &report.problems),
            "not_compared" => records_table(Some(&Default::default()), &report.not_compared),
            "collectives" => records_table(Some(&Default::default()), &report.collectives),
            "bandwidth" => records_table(Some(&Default::default()), &report.bandwidth),
            "pair_bytes" => records_table(Some(&Default::default()), &report.pair_bytes),
            _ => anyhow::bail!("ranks has no table {name}"),
        }
    }

    /// Returns notes about the files and their content, including excluded ones.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.0.diagnostics.clone()
    }
}
