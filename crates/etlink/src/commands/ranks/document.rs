//! What `ranks` prints, as tables.

#[cfg(feature = "parquet")]
mod arrow;

use super::{RanksReport, compare_runs};
use crate::run_query::RunQuery;
use anyhow::Result;
use etlink_run::RunError;
use etlink_run::phases::Phased;

/// How the ranks of a run met.
pub struct RanksDocument(RanksReport);

impl RanksDocument {
    /// The names of its tables: those of the lists that `--json` has.
    pub const TABLES: [&str; 7] = [
        "clocks",
        "ranks",
        "utilization",
        "steps",
        "problems",
        "not_compared",
        "collectives",
    ];

    /// Reads a run and compares its ranks.
    ///
    /// # Errors
    /// Its traces cannot be found.
    pub fn read(run: &RunQuery) -> Result<RanksDocument> {
        RanksDocument::read_phase(run)?.whole()
    }

    /// The same in the phase that the query names.
    ///
    /// # Errors
    /// Its traces cannot be found, or an earlier phase is missing or was run otherwise.
    pub fn read_phase(run: &RunQuery) -> Result<Phased<RanksDocument>> {
        let compared = compare_runs(run.source.clone(), run.options.clone())?;
        // whoever asks has opened one run
        compared.and_then(|mut compared| {
            Ok(RanksDocument(compared.pop().ok_or(RunError::NoRankAsked)?))
        })
    }

    /// What is odd about the files and in them, and which are left out.
    pub fn notes(&self) -> Vec<String> {
        self.0.notes.clone()
    }
}
