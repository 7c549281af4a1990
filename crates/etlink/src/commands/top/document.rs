//! The results of `top`, as a table.

use crate::op_tables::{OpTableConfig, RunTables, read_tables};
use crate::run_query::RunQuery;
use anyhow::Result;
use etlink_model::Diagnostic;

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

    /// Returns the rows of all ranks.
    ///
    /// # Errors
    /// Never fails because of the content.
    #[cfg(feature = "parquet")]
    pub fn table(&self) -> Result<arrow_array::RecordBatch> {
        use etlink_analysis::records;

        let ranks = self.0.tables.iter();
        let ranks = ranks.map(|rank| (rank.rank, Some(records(&rank.top.rows))));
        let blank = [etlink_analysis::top::KeyAverage::default()];
        crate::record_tables::ranked_table(Some(records(&blank)), ranks)
    }

    /// Returns notes about the folders, and the reasons why traces are left out.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.0.diagnostics.clone()
    }
}
