//! Rows of a query of a reader's own.

use crate::{Error, begin_query, unless_damaged};
use rusqlite::{Connection, Row};

/// Gives `take` each row of a query. Damage ends the rows, and so does a query that the file's columns
/// do not allow; whoever scans the tables counts that.
///
/// # Errors
/// The fault is not the file's, see [`unless_damaged`].
pub fn scan_query(
    place: &str,
    connection: &Connection,
    query: &str,
    mut take: impl FnMut(&Row<'_>),
) -> Result<(), Error> {
    begin_query();
    let Some(mut query) = unless_damaged(place, connection.prepare(query))? else {
        return Ok(());
    };
    let Some(mut rows) = unless_damaged(place, query.query([]))? else {
        return Ok(());
    };
    while let Some(row) = unless_damaged(place, rows.next())?.flatten() {
        take(row);
    }
    Ok(())
}
