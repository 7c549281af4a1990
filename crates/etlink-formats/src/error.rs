//! Errors of the readers.

use etlink_json::JsonReadError;
use etlink_model::{Failure, advice};

/// Reason why a file could not be read. Damage after the first data is not an error, but counted in
/// the anomalies of what was read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source failed before anything could be read.
    #[error("reading stopped at byte {offset}: {source}")]
    Io {
        /// Bytes read before the failure.
        offset: u64,
        /// Error of the source.
        source: std::io::Error,
    },
    /// The document could not be read.
    #[error(transparent)]
    Json(JsonReadError),
    /// The file lacks the data that every recording of its kind has.
    #[error(
        "no {} found ({bytes} bytes read): {}{}",
        sought.data,
        sought.meaning,
        advice(self.remedy())
    )]
    NotFound {
        /// Bytes searched.
        bytes: u64,
        /// Data that was searched for.
        sought: SoughtData,
    },
    /// The database could not be read.
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Sqlite(#[from] crate::sqlite::Error),
    /// Several processes have device work, and none was chosen.
    #[error(
        "{} processes of the report have device work (pids {pids:?}), but a trace has one process{}",
        pids.len(),
        advice(self.remedy())
    )]
    SeveralProcesses {
        /// Process ids of those processes.
        pids: Vec<i64>,
        /// Advice for the user.
        remedy: &'static str,
    },
    /// One kind of event exceeds the range of row numbers.
    #[error(
        "the trace has too many events of one kind (the limit is {limit})",
        limit = u32::MAX - 1
    )]
    TooManyRows,
    /// Any other failure.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Data that every recording of a kind has.
#[derive(Clone, Copy, Debug)]
pub struct SoughtData {
    /// Name of the data, such as a list.
    pub data: &'static str,
    /// Conclusion from its absence.
    pub meaning: &'static str,
    /// Advice for the user.
    pub remedy: &'static str,
}

impl SoughtData {
    /// Returns the error of a document: if it is readable, it lacks the data.
    pub(crate) fn error(self, error: JsonReadError) -> Error {
        match error {
            JsonReadError::NoArray { bytes, .. } => self.not_found(bytes),
            other => Error::Json(other),
        }
    }

    pub(crate) fn not_found(self, bytes: u64) -> Error {
        Error::NotFound {
            bytes,
            sought: self,
        }
    }
}

impl Error {
    /// Returns advice for the user; `None` if there is none.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Error::NotFound { sought, .. } => Some(sought.remedy.to_owned()),
            Error::SeveralProcesses { remedy, .. } => Some((*remedy).to_owned()),
            #[cfg(feature = "sqlite")]
            Error::Sqlite(error) => error.remedy(),
            Error::Failed(failure) => failure.remedy().map(str::to_owned),
            Error::Io { .. } | Error::Json(_) | Error::TooManyRows => None,
        }
    }
}
