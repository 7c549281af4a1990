//! Records of reports as Arrow tables.

use anyhow::Result;
use arrow_array::RecordBatch;
use etlink_analysis::Records;
use etlink_tables::RecordTable;
use serde::Serialize;

/// Makes a table of records that contain their rank, if they have one. A blank record declares the
/// columns.
pub(crate) fn records_table<T: Serialize>(blank: Option<&T>, all: &[T]) -> Result<RecordBatch> {
    let mut table = RecordTable::default();
    if let Some(blank) = blank {
        table.declare(false, serde_json::to_value(blank)?)?;
    }
    for record in all {
        table.push(None, serde_json::to_value(record)?)?;
    }
    Ok(table.finish()?)
}

/// Makes a table of the records of all ranks.
pub(crate) fn ranked_table<'r>(
    blank: Option<Records<'_>>,
    ranks: impl Iterator<Item = (Option<i64>, Option<Records<'r>>)>,
) -> Result<RecordBatch> {
    let mut table = RecordTable::default();
    for record in blank.into_iter().flatten() {
        table.declare(true, record?)?;
    }
    for (rank, records) in ranks {
        for record in records.into_iter().flatten() {
            table.push(Some(rank), record?)?;
        }
    }
    Ok(table.finish()?)
}
