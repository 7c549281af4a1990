//! Errors of reading an export.

use etlink_model::advice;

/// Error of reading an export of Nsight Systems.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be read.
    #[error(transparent)]
    Sqlite(#[from] crate::sqlite::Error),
    /// The database has other tables.
    #[error(
        "an SQLite database, but not an export of Nsight Systems: it lacks the table StringIds or \
         tables of events{}",
        advice(self.remedy())
    )]
    NotExport,
    /// Several processes have device work and none was selected.
    #[error(
        "{} processes of the report have device work (pids {pids:?}), but a trace has one process{}",
        pids.len(), advice(self.remedy())
    )]
    SeveralProcesses {
        /// Process ids of the candidates.
        pids: Vec<i64>,
    },
    /// The wanted process has no device work or does not exist.
    #[error("the report has no process {pid} with device work")]
    NoProcess {
        /// Process id that was requested.
        pid: i64,
    },
    /// The thread that read the other half ended without a result.
    #[error("a thread of the reader ended without a result")]
    HalfLost,
    /// A table has more rows than there are row numbers.
    #[error(
        "the report has too many events of one kind (the limit is {limit})",
        limit = u32::MAX - 1
    )]
    TooManyRows,
}

impl Error {
    /// Returns advice for the user, if there is any.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Error::Sqlite(error) => error.remedy(),
            Error::NotExport => Some(
                "export the report with `nsys export --type sqlite`, which writes all tables"
                    .to_owned(),
            ),
            Error::SeveralProcesses { .. } => Some(
                "select one by its rank, as listed by `etlink inspect`. `etlink merge` reads each \
                 process as a rank"
                    .to_owned(),
            ),
            Error::NoProcess { .. } | Error::HalfLost | Error::TooManyRows => None,
        }
    }
}
