//! Tables as Arrow batches.

use super::TopDocument;
use anyhow::Result;
use arrow_array::RecordBatch;
use etlink_analyze::top::KeyAverage;
use etlink_tables::RecordTable;

impl TopDocument {
    /// Returns the rows of all ranks.
    ///
    /// # Errors
    /// Never fails because of the content.
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
