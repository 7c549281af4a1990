//! Records of reports as Arrow tables.

use anyhow::Result;
use arrow_array::RecordBatch;
use etlink_analysis::Records;
use etlink_model::UnixNs;
use etlink_tables::RecordTable;
use serde::Serialize;
use serde_json::Value;

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

/// Makes times in these fields, which count from the origin of a trace, count from the Unix epoch, as
/// those of events and of joined ranks do.
pub(crate) fn count_from_epoch(record: &mut Value, fields: &[&str], origin: UnixNs) {
    for field in fields {
        if let Some(time) = record.get_mut(field)
            && let Some(ns) = time.as_i64()
        {
            *time = origin.shifted(ns).0.into();
        }
    }
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
