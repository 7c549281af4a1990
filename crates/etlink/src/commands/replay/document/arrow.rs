//! Tables as Arrow batches.

use super::ReplayDocument;
use crate::record_tables::records_table;
use anyhow::{Context, Result};
use arrow_array::RecordBatch;

impl ReplayDocument {
    /// Returns the nodes of the critical path, in order.
    ///
    /// # Errors
    /// The critical path was not requested.
    pub fn path_table(&self) -> Result<RecordBatch> {
        let path = self.0.critical_path.as_ref();
        let path = path.context("the critical path was not requested")?;
        records_table(None, &path.steps)
    }
}
