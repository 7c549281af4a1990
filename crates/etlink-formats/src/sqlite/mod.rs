//! Shared parts of the readers of SQLite files: the tables and columns of a database, and its rows
//! as typed cells.
//!
//! ```text
//! open connection -> SqliteTables -> scan_rows -> RowCells (one, reused) -> columns of a reader
//! ```
//! Recorders that write SQLite change their tables from version to version, and users edit such
//! files with other tools. So a reader requests the columns that it knows. A column that the file
//! lacks reads as NULL. A cell of the wrong type reads as NULL too, and is counted. Rows are
//! streamed: memory is one row plus SQLite's page cache, whatever the size of the file.
//!
//! This crate opens no file. It takes a connection, which should have been passed to
//! [`set_safe_limits`] first: a file from an untrusted source can hold views and triggers.
//!
//! ```
//! use etlink_formats::sqlite::{RowFilter, SqliteTables, scan_rows, set_safe_limits};
//!
//! let mut connection = rusqlite::Connection::open_in_memory()?;
//! connection.execute_batch("CREATE TABLE CALLS (start, name); INSERT INTO CALLS VALUES (5, 'f');")?;
//! set_safe_limits(&mut connection)?;
//! let tables = SqliteTables::probe(&connection)?;
//! let mut starts = vec![];
//! if let Some(calls) = tables.table("CALLS") {
//!     // no file has `end` here: it reads as NULL
//!     let columns = ["start", "end", "name"];
//!     scan_rows(&connection, calls, &columns, RowFilter::All, |cells| {
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
pub use scan::{RowFilter, ScannedRows, scan_rows};
pub use tables::{SqliteTable, SqliteTables};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use stored_size::stored_bytes;

/// Upper limit of a text or blob in bytes: no recorder writes a larger one into a column that
/// readers need.
const MAX_CELL_BYTES: i32 = 64 << 20;
/// Lower bound of the cell limit: texts that queries build from columns and names are shorter.
const MIN_CELL_BYTES: i32 = 64 << 10;

/// Disables what an untrusted file could do beyond holding rows: functions with side effects in its
/// views, writes to its schema, gigabyte cells, endless queries.
///
/// # Errors
/// The file is not a database, or it is locked.
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
    // SQLite allocates as much as a row claims before it looks for the pages that hold it.
    let cell_bytes = i32::try_from(bytes).unwrap_or(MAX_CELL_BYTES);
    let cell_bytes = cell_bytes.clamp(MIN_CELL_BYTES, MAX_CELL_BYTES);
    let set = connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, cell_bytes);
    set.map_err(|source| Error::of("settings", source))?;
    // SQLite then checks each page as it is loaded, so damage becomes an error instead of a wrong
    // row.
    let set = connection.pragma_update(None, "cell_size_check", true);
    set.map_err(|source| Error::of("settings", source))?;
    query_steps::limit_steps(connection, bytes)
}
