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

/// Whether an error is damage of the file, before which all rows are good.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::SystemIoFailure
                | ErrorCode::TooBig
        )
    )
}

/// Whether a query took more steps than [`limit_steps`](crate::query_steps::limit_steps) allows.
pub(crate) fn is_endless(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}
