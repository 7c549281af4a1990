//! What `top` prints, as a table.

use crate::op_tables::{OpTableConfig, RunTables, read_tables};
use crate::run_query::RunQuery;
use anyhow::Result;
use arrow_array::RecordBatch;
use etlink_analyze::top::KeyAverage;
use etlink_tables::RecordTable;

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
        [&self.0.notes[..], &self.0.errors].concat()
    }

    /// The rows of all ranks.
    ///
    /// # Errors
    /// Not by anything in it.
    pub fn table(&self) -> Result<RecordBatch> {
        let mut table = RecordTable::default();
        table.declare(true, &KeyAverage::default())?;
        for rank in &self.0.tables {
            for row in &rank.top.rows {
                table.push(Some(rank.rank), row)?;
            }
        }
        Ok(table.finish()?)
    }
}
