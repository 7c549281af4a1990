//! Tables as Arrow batches.

use super::HtaDocument;
use crate::record_tables::{RankRecords, records_table};
use anyhow::{Result, ensure};
use arrow_array::RecordBatch;
use etlink_hta::{HtaDetails, HtaTables, KernelType};
use etlink_tables::RecordTable;

impl HtaDocument {
    /// Returns a table of all ranks; `kernel_type_breakdown` is their sum.
    ///
    /// # Errors
    /// There is no table of this name.
    pub fn table(&self, name: &str) -> Result<RecordBatch> {
        let mut table = RecordTable::default();
        let mut blank = RankRecords::blank(&mut table);
        let is_known = HtaTables::blank().visit_table(name, &mut blank)?
            || HtaDetails::blank().visit_table(name, &mut blank)?;
        ensure!(is_known, "HTA has no table {name}");
        let mut tables = self.tables(&[name])?;
        if name == "kernel_type_breakdown" {
            let total = etlink_hta::run_tables(tables.iter().map(|(tables, _)| tables));
            let blank = KernelType::default();
            return records_table(Some(&blank), &total.kernel_type_breakdown);
        }
        etlink_hta::align_series(tables.iter_mut().map(|(tables, _)| tables));
        for (rank, (tables, details)) in self.ranks.iter().zip(&tables) {
            let mut records = RankRecords::of_rank(&mut table, Some(rank.rank));
            tables.visit_table(name, &mut records)?;
            details.visit_table(name, &mut records)?;
        }
        Ok(table.finish()?)
    }
}
