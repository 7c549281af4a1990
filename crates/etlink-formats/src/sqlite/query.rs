//! Rows of a reader's own SQL query.

use crate::sqlite::{Error, begin_query, unless_damaged};
use rusqlite::{Connection, Row};

/// Passes each row of a query to `take`. Damage ends the rows, and so does a query that does not
/// fit the file's columns; the scan of the tables counts such damage.
///
/// # Errors
/// The cause is outside the file, see [`unless_damaged`].
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
