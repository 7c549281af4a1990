//! What `top` prints, as a table.

#[cfg(feature = "parquet")]
mod arrow;

use crate::op_tables::{OpTableConfig, RunTables, read_tables};
use crate::run_query::RunQuery;
use anyhow::Result;

/// The profiler's tables of a run's ranks, a row for each name.
pub struct TopDocument(RunTables);

impl TopDocument {
    /// Reads a run.
    ///
    /// # Errors
    /// No rank of it could be read.
    pub fn read(run: &RunQuery) -> Result<TopDocument> {
        let config = OpTableConfig::by_name(run.source.clone(), run.options.clone());
        Ok(TopDocument(read_tables(&config)?))
    }

    /// What is to be known of the folders, and why traces are not in it.
    pub fn notes(&self) -> Vec<String> {
        self.0.notes.clone()
    }
}
