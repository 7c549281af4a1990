//! The results of `ranks`, as tables.

#[cfg(feature = "parquet")]
mod arrow;

use super::{RanksReport, compare_runs};
use crate::run_query::RunQuery;
use anyhow::Result;
use etlink_run::RunError;

/// Comparison of a run's ranks.
pub struct RanksDocument(RanksReport);

impl RanksDocument {
    /// Names of the tables: the same as of the lists in `--json`.
    pub const TABLES: [&str; 9] = [
        "clocks",
        "ranks",
        "utilization",
        "steps",
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

    /// Returns notes about the files and their content, including excluded ones.
    pub fn notes(&self) -> Vec<String> {
        self.0.notes.clone()
    }
}
