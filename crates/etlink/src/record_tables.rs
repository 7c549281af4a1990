//! Records of reports as Arrow tables.

use anyhow::Result;
use arrow_array::RecordBatch;
use etlink_analyze::RecordVisitor;
use etlink_tables::RecordTable;
use serde::Serialize;

/// Adds the records of a rank to a table.
pub(crate) struct RankRecords<'t> {
    table: &'t mut RecordTable,
    /// Rank of the records; `None` for blank records, which name the columns.
    rank: Option<Option<i64>>,
}

impl<'t> RankRecords<'t> {
    pub(crate) fn blank(table: &'t mut RecordTable) -> Self {
        RankRecords { table, rank: None }
    }

    pub(crate) fn of_rank(table: &'t mut RecordTable, rank: Option<i64>) -> Self {
        RankRecords {
            table,
            rank: Some(rank),
        }
    }
}

impl RecordVisitor for RankRecords<'_> {
    type Error = etlink_tables::Error;

    fn visit(&mut self, record: &impl Serialize) -> Result<(), Self::Error> {
        match self.rank {
            None => self.table.declare(true, record),
            rank => self.table.push(rank, record),
        }
    }
}

/// Makes a table of records that contain their rank, if they have one.
pub(crate) fn records_table<T: Serialize>(blank: Option<&T>, records: &[T]) -> Result<RecordBatch> {
    let mut table = RecordTable::default();
    if let Some(blank) = blank {
        table.declare(false, blank)?;
    }
    for record in records {
        table.push(None, record)?;
    }
    Ok(table.finish()?)
}
