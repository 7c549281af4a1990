//! Tables as Arrow batches.

use super::DiffDocument;
use crate::record_tables::records_table;
use anyhow::{Result, bail};
use arrow_array::RecordBatch;

impl DiffDocument {
    /// Returns one of the tables.
    ///
    /// # Errors
    /// There is no table of this name.
    pub fn table(&self, name: &str) -> Result<RecordBatch> {
        let diff = &self.diff;
        match name {
            "changes" => records_table(None, &diff.changes),
            "classes" => records_table(None, &diff.classes),
            "ops" => records_table(None, &diff.ops),
            "waiting" => records_table(None, &diff.waiting),
            _ => {
                let names = DiffDocument::TABLES.join(", ");
                bail!("there is no table {name}; tables of two runs: {names}")
            }
        }
    }
}
