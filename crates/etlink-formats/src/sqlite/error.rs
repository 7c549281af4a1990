//! Errors of reading a database.

use etlink_model::advice;
use rusqlite::ErrorCode;

/// Reason why a database could not be read. Damage inside a table is not an error: see
/// [`scan_rows`](crate::sqlite::scan_rows).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The first page is not SQLite's, or nothing of the list of tables can be read.
    #[error("not an SQLite database, or its list of tables is damaged{}", advice(self.remedy()))]
    NotDatabase {
        /// Error reported by SQLite.
        source: rusqlite::Error,
    },
    /// Another program holds a lock.
    #[error("another program is writing this database{}", advice(self.remedy()))]
    Locked {
        /// Part of the database that was requested.
        place: String,
    },
    /// The newest rows are not in the database itself, but in its write-ahead log.
    #[error(
        "another program is writing this database, or ended before it stored all rows: some rows are \
         only in the -wal file next to the database{}",
        advice(self.remedy())
    )]
    PendingLog,
    /// A table that the reader requires is missing.
    #[error("the database has no table {table}: {meaning}{}", advice(self.remedy()))]
    NoTable {
        /// Name of the table.
        table: String,
        /// Consequence for the user.
        meaning: String,
        /// Advice for the user.
        remedy: String,
    },
    /// Any other failure of SQLite.
    #[error("SQLite failed at {place}")]
    Failed {
        /// Part of the database that was requested.
        place: String,
        /// Error reported by SQLite.
        source: rusqlite::Error,
    },
}

impl Error {
    /// Classifies an error of SQLite by what the user can do about it.
    pub fn of(place: &str, source: rusqlite::Error) -> Error {
        let place = place.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Locked { place },
            // A query that takes more steps than its rows can cause reads pages that reference each
            // other.
            Some(
                ErrorCode::NotADatabase
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::OperationInterrupted,
            ) => Error::NotDatabase { source },
            _ => Error::Failed { place, source },
        }
    }

    /// Returns advice for the user; `None` if there is none.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Error::NotDatabase { .. } => Some("export or copy it again".to_owned()),
            Error::Locked { .. } => Some("wait until the program has ended, or read a copy".to_owned()),
            // <https://sqlite.org/pragma.html#pragma_wal_checkpoint>
            Error::PendingLog => Some(
                "wait until the program has ended. If none is running, copy both files and store the rows \
                 in the copy: `sqlite3 COPY 'PRAGMA wal_checkpoint(TRUNCATE)'`"
                    .to_owned(),
            ),
            Error::NoTable { remedy, .. } => Some(remedy.clone()).filter(|text| !text.is_empty()),
            Error::Failed { .. } => None,
        }
    }
}

/// Returns SQLite's result; `None` if the file is damaged or lacks what was requested.
///
/// # Errors
/// The cause is outside the file: the disk fails, another program holds a lock, or memory runs out.
pub fn unless_damaged<T>(place: &str, result: rusqlite::Result<T>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_outside_file(&error) => Err(Error::of(place, error)),
        Err(_) => Ok(None),
    }
}

/// Returns true if the error means damage of the file; rows read before it are good.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    is_cut(error)
        || matches!(
            code,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TooBig)
        )
}

/// Returns true if a page is beyond the end of the file. Other input errors come from the disk.
fn is_cut(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_IOERR_SHORT_READ)
}

fn is_outside_file(error: &rusqlite::Error) -> bool {
    !is_cut(error)
        && matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::SystemIoFailure
                    | ErrorCode::CannotOpen
                    | ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::OutOfMemory
            )
        )
}

impl Error {
    /// Returns true if the cause is outside the file, so that a later attempt may succeed.
    pub fn is_outside_file(&self) -> bool {
        match self {
            Error::Locked { .. } => true,
            Error::Failed { source, .. } => is_outside_file(source),
            _ => false,
        }
    }
}

/// Returns true if a query took more steps than [`limit_steps`](crate::sqlite::query_steps::limit_steps)
/// allows.
pub(crate) fn is_endless(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}
