//! What `analyze` prints, as tables.

#[cfg(feature = "parquet")]
mod arrow;

use super::load::AnalyzeConfig;
use super::{Analyzed, OF_ALL_RANKS, analyze_runs};
use crate::kernel_rules::read_rules;
use crate::run_query::RunQuery;
use anyhow::Result;
use etlink_analyze::{HardwarePeaks, Options};
use etlink_run::RunError;
use etlink_run::phases::Phased;

/// What to report besides the tables that are always made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnalyzeQuery {
    /// Kernel sequences of the ops whose names contain this.
    pub sequences_of: Option<String>,
    /// Each allocation and free.
    pub memory_timeline: bool,
}

/// What the traces of a run say.
pub struct AnalyzeDocument(Analyzed);

impl AnalyzeDocument {
    /// Reads a run and analyzes its ranks.
    ///
    /// # Errors
    /// No rank of it could be read.
    pub fn read(run: &RunQuery, query: &AnalyzeQuery) -> Result<AnalyzeDocument> {
        AnalyzeDocument::read_phase(run, query)?.whole()
    }

    /// The same in the phase that the query names.
    ///
    /// # Errors
    /// No rank of it could be read, or an earlier phase is missing or was run otherwise.
    pub fn read_phase(run: &RunQuery, query: &AnalyzeQuery) -> Result<Phased<AnalyzeDocument>> {
        let config = AnalyzeConfig::from_source(run.source.clone(), run.options.clone());
        let options = Options {
            sequences_of: query.sequences_of.clone(),
            memory_timeline: query.memory_timeline,
        };
        let runs = analyze_runs(config, (&read_rules(None)?, &options), None)?;
        runs.and_then(|mut runs| {
            // whoever asks has opened one run
            let only = runs.pop().ok_or(RunError::NoRankAsked)?;
            let peaks = HardwarePeaks::default();
            Ok(AnalyzeDocument(Analyzed::new(only, peaks)))
        })
    }

    /// The names of its tables.
    pub fn table_names() -> impl Iterator<Item = &'static str> {
        let of_ranks = etlink_analyze::TABLES.iter();
        of_ranks.chain(&OF_ALL_RANKS).copied()
    }

    /// What is to be known of the files, and which are left out.
    pub fn notes(&self) -> Vec<String> {
        self.0.told.notes_of()
    }
}
