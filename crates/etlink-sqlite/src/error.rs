//! Why a database could not be read.

use etlink_model::advice;
use rusqlite::ErrorCode;

/// Why a database could not be read. Damage inside a table is no error: see
/// [`scan_rows`](crate::scan_rows).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its first page is none of SQLite, or nothing of its list of tables can be read.
    #[error("no SQLite database, or its list of tables is damaged{}", advice(self.remedy()))]
    NotDatabase {
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// Another program holds a lock.
    #[error("another program is writing this database{}", advice(self.remedy()))]
    Locked {
        /// What was to be read.
        place: String,
    },
    /// Its newest rows are not in it, but in the write-ahead log beside it.
    #[error(
        "another program is writing this database, or ended before all rows were in it: some are in \
         the -wal file beside it alone{}",
        advice(self.remedy())
    )]
    PendingLog,
    /// A table that a reader cannot do without.
    #[error("the database has no table {table}: {meaning}{}", advice(self.remedy()))]
    NoTable {
        /// The table.
        table: String,
        /// What that means.
        meaning: String,
        /// What helps.
        remedy: String,
    },
    /// Anything else that SQLite refuses.
    #[error("SQLite fails at {place}")]
    Failed {
        /// What was to be read.
        place: String,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

impl Error {
    /// An error of SQLite, by what the user can do about it.
    pub fn of(place: &str, source: rusqlite::Error) -> Error {
        let place = place.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Locked { place },
            // What takes more steps than its rows can cause has pages that name each other.
            Some(
                ErrorCode::NotADatabase
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::OperationInterrupted,
            ) => Error::NotDatabase { source },
            _ => Error::Failed { place, source },
        }
    }

    /// What the user can do.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Error::NotDatabase { .. } => Some("export or copy it again".to_owned()),
            Error::Locked { .. } => Some("wait until that has ended, or read a copy".to_owned()),
            // <https://sqlite.org/pragma.html#pragma_wal_checkpoint>
            Error::PendingLog => Some(
                "wait until that has ended; where none is running, copy both files and take the rows \
                 into the copy: `sqlite3 COPY 'PRAGMA wal_checkpoint(TRUNCATE)'`"
                    .to_owned(),
            ),
            Error::NoTable { remedy, .. } => Some(remedy.clone()).filter(|text| !text.is_empty()),
            Error::Failed { .. } => None,
        }
    }
}

/// What SQLite gives; `None` where the file is damaged, or has nothing of what was asked for.
///
/// # Errors
/// The fault is not the file's: the disk fails, another program holds a lock, there is no memory.
pub fn unless_damaged<T>(place: &str, result: rusqlite::Result<T>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_outside_file(&error) => Err(Error::of(place, error)),
        Err(_) => Ok(None),
    }
}

/// Whether an error is damage of the file, before which all rows are good.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    is_cut(error)
        || matches!(
            code,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TooBig)
        )
}

/// Whether a page is behind the end of the file. Other failures of input are those of a disk.
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
    /// Whether the fault is not the file's, so that it may be read another time.
    pub fn is_outside_file(&self) -> bool {
        match self {
            Error::Locked { .. } => true,
            Error::Failed { source, .. } => is_outside_file(source),
            _ => false,
        }
    }
}

/// Whether a query took more steps than [`limit_steps`](crate::query_steps::limit_steps) allows.
pub(crate) fn is_endless(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}
