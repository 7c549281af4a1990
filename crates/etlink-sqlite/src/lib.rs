//! What readers of SQLite files share: which tables and columns a database has, and its rows as
//! typed cells.
//!
//! ```text
//! open connection -> SqliteTables -> scan_rows -> RowCells (one, reused) -> columns of a reader
//! ```
//! Recorders that write SQLite differ in their tables from version to version, and users change
//! such files with other tools. So a reader asks for the columns that it knows. One that a file
//! lacks reads as NULL. A cell of a wrong type reads as NULL too, and is counted. Rows are streamed:
//! memory is that of one row and of SQLite's page cache, whatever the size of the file.
//!
//! This crate opens no file. It takes a connection, which [`set_safe_limits`] should have been given
//! before: a file of somebody else's can hold views and triggers.
//!
//! ```
//! use etlink_model::Anomalies;
//! use etlink_sqlite::{RowFilter, SqliteTables, scan_rows, set_safe_limits};
//!
//! let mut connection = rusqlite::Connection::open_in_memory()?;
//! connection.execute_batch("CREATE TABLE CALLS (start, name); INSERT INTO CALLS VALUES (5, 'f');")?;
//! set_safe_limits(&mut connection)?;
//! let tables = SqliteTables::probe(&connection)?;
//! let (mut anomalies, mut starts) = (Anomalies::default(), vec![]);
//! if let Some(calls) = tables.table("CALLS") {
//!     // no file has `end` here: it reads as NULL
//!     let columns = ["start", "end", "name"];
//!     scan_rows(&connection, calls, &columns, RowFilter::All, &mut anomalies, |cells| {
//!         assert_eq!(cells.text(2).as_deref(), Some("f"));
//!         starts.push((cells.int(0), cells.int(1)));
//!     })?;
//! }
//! assert_eq!(starts, [(Some(5), None)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cells;
mod error;
mod query;
mod query_steps;
mod scan;
mod stored_size;
mod tables;
#[cfg(test)]
mod tests;

pub use cells::RowCells;
pub use error::{Error, unless_damaged};
pub use query::scan_query;
pub use query_steps::begin_query;
pub use scan::{RowFilter, scan_rows};
pub use tables::{SqliteTable, SqliteTables};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use stored_size::stored_bytes;

/// A text or blob of more bytes is not read: no recorder writes such a one into a column that
/// readers want.
const MAX_CELL_BYTES: i32 = 64 << 20;
/// Texts that a query makes, of columns and names, are shorter.
const MIN_CELL_BYTES: i32 = 64 << 10;

/// Switches off what a file of somebody else's could do beyond holding rows: functions with side
/// effects in its views, writes to its schema, cells of a gigabyte, queries without end.
///
/// # Errors
/// The file is no database, or it is locked.
pub fn set_safe_limits(connection: &mut Connection) -> Result<(), Error> {
    // https://sqlite.org/security.html, "Untrusted SQLite Database Files"
    let settings = [
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
    ];
    for (setting, is_on) in settings {
        let set = connection.set_db_config(setting, is_on);
        set.map_err(|source| Error::of("settings", source))?;
    }
    let bytes = stored_bytes(connection).map_err(|source| Error::of("settings", source))?;
    // SQLite makes room for as much as a row says before it looks for the pages that have it.
    let cell_bytes = i32::try_from(bytes).unwrap_or(MAX_CELL_BYTES);
    let cell_bytes = cell_bytes.clamp(MIN_CELL_BYTES, MAX_CELL_BYTES);
    let set = connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, cell_bytes);
    set.map_err(|source| Error::of("settings", source))?;
    // SQLite then checks each page as it is loaded, so that damage is an error and not a wrong row.
    let set = connection.pragma_update(None, "cell_size_check", true);
    set.map_err(|source| Error::of("settings", source))?;
    query_steps::limit_steps(connection, bytes)
}
