//! The results of `top`, as a table.

#[cfg(feature = "parquet")]
mod arrow;

use crate::op_tables::{OpTableConfig, RunTables, read_tables};
use crate::run_query::RunQuery;
use anyhow::Result;

/// The profiler's tables of a run's ranks, with a row per name.
pub struct TopDocument(RunTables);

impl TopDocument {
    /// Reads a run.
    ///
    /// # Errors
    /// No rank of the run could be read.
    pub fn read(run: &RunQuery) -> Result<TopDocument> {
        let config = OpTableConfig::by_name(run.source.clone(), run.options.clone());
        Ok(TopDocument(read_tables(&config)?))
    }

    /// Returns notes about the folders, and the reasons why traces are left out.
    pub fn notes(&self) -> Vec<String> {
        self.0.notes.clone()
    }
}
