//! Scans the rows of a table.

use crate::sqlite::error::{is_damage, is_endless};
use crate::sqlite::stored_size::{LEAST_ROW_BYTES, stored_bytes};
use crate::sqlite::tables::{SqliteTable, quoted_name};
use crate::sqlite::{Error, RowCells, begin_query};
use etlink_model::{Anomalies, AnomalyKind};
use rusqlite::Connection;

/// Selection of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFilter<'a> {
    /// All rows.
    All,
    /// Rows with an integer column that equals a number, apart from its lowest bits.
    Equal {
        /// Name of the column.
        column: &'a str,
        /// Number of lowest bits to ignore; 0 compares all bits.
        ignored_bits: u32,
        /// Expected number, shifted right by `ignored_bits`.
        value: i64,
    },
}

/// Rows of a table that were passed on.
#[derive(Debug)]
pub struct ScannedRows {
    /// Number of rows.
    pub count: u64,
    /// Damage of the table and its cells.
    pub anomalies: Anomalies,
}

/// Passes each row of a table to `take`, in the table's order. Columns that the table lacks read as
/// NULL. O(rows); memory of one row.
///
/// If the table is damaged, the rows before the damage are passed, and
/// [`TableDamaged`](AnomalyKind::TableDamaged) is counted. A table with more rows than fit into the
/// file, because several pages reference the same one, counts as damaged too.
///
/// # Errors
/// The table is locked, or SQLite rejects the query.
pub fn scan_rows(
    connection: &Connection,
    table: &SqliteTable,
    columns: &[&str],
    filter: RowFilter<'_>,
    mut take: impl FnMut(&RowCells<'_, '_>),
) -> Result<ScannedRows, Error> {
    let mut anomalies = Anomalies::default();
    let failed = |source| Error::of(&table.name, source);
    begin_query();
    let mut query = match connection.prepare(&select(table, columns, filter)) {
        Ok(query) => query,
        Err(error) => {
            damaged(table, 0, error, &mut anomalies)?;
            let count = 0;
            return Ok(ScannedRows { count, anomalies });
        }
    };
    let most = stored_bytes(connection).map_err(failed)? / LEAST_ROW_BYTES;
    let mut rows = match filter {
        RowFilter::All => query.query([]),
        RowFilter::Equal { value, .. } => query.query([value]),
    }
    .map_err(failed)?;
    let (mut count, mut bad, mut first_bad) = (0, 0, None);
    loop {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => break,
            Err(error) => {
                damaged(table, count, error, &mut anomalies)?;
                break;
            }
        };
        if count >= most {
            note_damage(table, count, MORE_THAN_FIT, &mut anomalies);
            break;
        }
        let cells = RowCells::new(row);
        take(&cells);
        let (count_of_row, column) = cells.bad.get();
        if count_of_row > 0 {
            bad += count_of_row;
            let column = columns.get(column).copied().unwrap_or_default();
            first_bad.get_or_insert_with(|| format!("{}.{column}, row {count}", table.name));
        }
        count += 1;
    }
    anomalies.add(AnomalyKind::BadCell, bad, first_bad);
    Ok(ScannedRows { count, anomalies })
}

fn select(table: &SqliteTable, columns: &[&str], filter: RowFilter<'_>) -> String {
    let wanted: Vec<String> = columns
        .iter()
        .map(|column| {
            if table.has_column(column) {
                quoted_name(column)
            } else {
                // SQLite would take a quoted name that is not a column for a text.
                "NULL".to_owned()
            }
        })
        .collect();
    let mut query = format!(
        "SELECT {} FROM {}",
        wanted.join(", "),
        quoted_name(&table.name)
    );
    if let RowFilter::Equal {
        column,
        ignored_bits,
        ..
    } = filter
    {
        if !table.has_column(column) {
            // All rows match: such a table does not tell their owners apart.
            return query + " WHERE ?1 = ?1";
        }
        let column = quoted_name(column);
        query += &match ignored_bits {
            0 => format!(" WHERE {column} = ?1"),
            bits => format!(" WHERE ({column} >> {bits}) = ?1"),
        };
    }
    query
}

/// Message for a table with pages that several others reference.
const MORE_THAN_FIT: &str = "more rows than fit into the file";

/// Counts damage, beyond which nothing is read. Returns other failures as errors.
fn damaged(
    table: &SqliteTable,
    rows: u64,
    error: rusqlite::Error,
    anomalies: &mut Anomalies,
) -> Result<(), Error> {
    if is_endless(&error) {
        note_damage(table, rows, MORE_THAN_FIT, anomalies);
    } else if is_damage(&error) {
        note_damage(table, rows, &error.to_string(), anomalies);
    } else {
        return Err(Error::of(&table.name, error));
    }
    Ok(())
}

fn note_damage(table: &SqliteTable, rows: u64, reason: &str, anomalies: &mut Anomalies) {
    anomalies.note(AnomalyKind::TableDamaged, || {
        format!("{} after {rows} rows: {reason}", table.name)
    });
}
