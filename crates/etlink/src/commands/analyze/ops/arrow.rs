//! The table as an Arrow batch.

use super::OpsDocument;
use anyhow::Result;
use arrow_array::RecordBatch;
use etlink_analyze::OpTotals;
use etlink_tables::RecordTable;

impl OpsDocument {
    /// Returns the ops of all ranks.
    ///
    /// # Errors
    /// Never fails because of the content.
    pub fn table(&self) -> Result<RecordBatch> {
        let mut table = RecordTable::default();
        table.declare(true, &OpTotals::default())?;
        for rank in &self.0.ranks {
            for op in &rank.said.ops {
                table.push(Some(rank.said.rank), op)?;
            }
        }
        Ok(table.finish()?)
    }
}
