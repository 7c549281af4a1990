//! Why an export could not be read.

use etlink_model::advice;

/// Why an export of Nsight Systems could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be read.
    #[error(transparent)]
    Sqlite(#[from] etlink_sqlite::Error),
    /// It has other tables.
    #[error(
        "an SQLite database, but no export of Nsight Systems: it has no table StringIds beside \
         tables of events{}",
        advice(self.remedy())
    )]
    NotExport,
    /// Which one is wanted is not said.
    #[error(
        "{} processes of it have work on devices (pids {pids:?}): one trace is of one process{}",
        pids.len(), advice(self.remedy())
    )]
    SeveralProcesses {
        /// Their process ids.
        pids: Vec<i64>,
    },
    /// The wanted one is not there.
    #[error("no process {pid} of it has work on devices")]
    NoProcess {
        /// Its process id.
        pid: i64,
    },
    /// The thread that read the other half ended without a result.
    #[error("a thread of the reader ended without a result")]
    HalfLost,
    /// More rows than row numbers.
    #[error(
        "the report has more than {limit} events of one kind, more than one link can hold",
        limit = u32::MAX - 1
    )]
    TooManyRows,
}

impl Error {
    /// What the user can do.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Error::Sqlite(error) => error.remedy(),
            Error::NotExport => Some(
                "export the report with `nsys export --type sqlite`, which writes all tables"
                    .to_owned(),
            ),
            Error::SeveralProcesses { .. } => Some(
                "say by its rank which is meant, which `etlink inspect` lists; `etlink merge` makes a \
                 rank of each"
                    .to_owned(),
            ),
            Error::NoProcess { .. } | Error::HalfLost | Error::TooManyRows => None,
        }
    }
}
