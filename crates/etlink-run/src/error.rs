//! Error of opening, linking, joining or writing a run.
//!
//! Most errors are a [`Failure`]: words, a file and a remedy. The other variants are those that
//! callers treat differently. The printed message is the error and its sources, separated by `: `,
//! see [`text::error_chain`](crate::text::error_chain).

use crate::cancel::Cancelled;
use crate::file_error::FileError;
use crate::output::StdoutError;
use crate::prepared::PreparedShard;
use crate::storage::shown_path;
use crate::text;
use etlink_model::{Anomalies, Failure, Setting, advice};
use std::error::Error;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Error of work on a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Something that nobody tells apart from other errors.
    // transparent: these errors name file and reason themselves, and a chain is printed as one line
    #[error(transparent)]
    // boxed, because every result of the library would otherwise be as large
    Failed(Box<Failure>),
    /// A file or folder cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Standard output cannot be written.
    #[error(transparent)]
    Stdout(#[from] StdoutError),
    /// Work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// Results were only to be prepared, and are now in the cache.
    #[error(transparent)]
    Prepared(Box<PreparedShard>),
    /// A caller's job on a rank failed.
    #[error(transparent)]
    // no type parameter, because every function that returns an error would need it too
    Job(Box<dyn Error + Send + Sync>),

    /// A folder has flight recorder dumps, but traces are needed.
    #[error(
        "{}: the folder has no host or device traces, only flight recorder dumps{}",
        folder.display(),
        advice(self.remedy())
    )]
    OnlyFlightDumps {
        /// Path of the folder.
        folder: PathBuf,
    },
    /// A folder has logs of NCCL's inspector, but traces are needed.
    #[error(
        "{}: the folder has no host or device traces, only NCCL inspector logs{}",
        folder.display(),
        advice(self.remedy())
    )]
    OnlyInspectorLogs {
        /// Path of the folder.
        folder: PathBuf,
    },
    /// A file is a snapshot of PyTorch's allocator, but a trace is needed.
    #[error("{name} is a snapshot of PyTorch's allocator{}", advice(self.remedy()))]
    MemorySnapshot {
        /// Name of the file.
        name: String,
    },
    /// The source has no trace of a requested rank.
    #[error("no traces for the ranks requested with {}", Setting::Ranks)]
    NoRankAsked,
    /// None of several traces could be used.
    #[error("none of {traces} traces can be used")]
    NoTraceTaken {
        /// Number of traces.
        traces: usize,
        /// Error of the first refused trace, or of the first trace if none was refused.
        #[source]
        first: Box<RunError>,
    },

    /// A file is empty.
    #[error("{name} is empty{}", advice(self.remedy()))]
    EmptyFile {
        /// Name of the file.
        name: String,
    },
    /// A trace is damaged, or its host trace is of another run, and such traces were to be refused.
    #[error("{file}: refused under {}: {what}", Setting::Strict)]
    Refused {
        /// Name of the file.
        file: String,
        /// Damage, or the mismatch of the two traces.
        what: String,
    },
    /// A file exists and must not be replaced.
    #[error("{} already exists{}", path.display(), advice(self.remedy()))]
    Exists {
        /// Path of the file.
        path: PathBuf,
    },
    /// A conversion loses data, and that was to be refused.
    #[error("nothing was written, because --strict refuses to lose: {losses}")]
    Lossy {
        /// Description of the losses.
        losses: String,
    },
}

impl From<Failure> for RunError {
    fn from(failure: Failure) -> RunError {
        RunError::Failed(Box::new(failure))
    }
}

impl From<PreparedShard> for RunError {
    fn from(prepared: PreparedShard) -> RunError {
        RunError::Prepared(Box::new(prepared))
    }
}

impl RunError {
    /// Creates the error of a file that a reader rejects for `cause`.
    pub(crate) fn unreadable(
        name: impl Display,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> RunError {
        Failure::unreadable(name, cause).into()
    }

    /// Creates the error for a trace that is refused for damage or for a host trace of another run.
    pub fn refused_trace(trace: &Path, anomalies: &Anomalies) -> RunError {
        let damage = text::damage(anomalies);
        RunError::Refused {
            file: trace.display().to_string(),
            what: damage.unwrap_or_else(|| "the two traces are from two runs".to_owned()),
        }
    }

    /// Returns the remedy of this error alone. For errors with a source, see [`remedy_of`].
    pub fn remedy(&self) -> Option<String> {
        let remedy = match self {
            RunError::Failed(failure) => failure.remedy()?,
            RunError::Job(error) => return remedy_of(&**error),
            RunError::OnlyFlightDumps { .. } => {
                "give them to `etlink ranks`, which reports where each rank hangs"
            }
            RunError::OnlyInspectorLogs { .. } => {
                "give them to `etlink ranks`, which reports sizes and times per communicator"
            }
            RunError::MemorySnapshot { .. } => "give it to `etlink analyze` or `etlink report`",
            RunError::EmptyFile { .. } => "record the trace again",
            RunError::Exists { .. } => {
                return Some(format!("{} replaces it", Setting::Overwrite));
            }
            _ => return None,
        };
        Some(remedy.to_owned())
    }

    /// Returns the file or folder of the error, if there is a single one.
    pub fn file(&self) -> Option<String> {
        match self {
            RunError::Failed(failure) => failure.file().map(str::to_owned),
            RunError::File(error) => Some(shown_path(&error.path)),
            RunError::NoTraceTaken { first, .. } => first.file(),
            RunError::Job(error) => error.downcast_ref::<RunError>()?.file(),
            RunError::EmptyFile { name: file }
            | RunError::MemorySnapshot { name: file }
            | RunError::Refused { file, .. } => Some(file.clone()),
            RunError::OnlyFlightDumps { folder: path }
            | RunError::OnlyInspectorLogs { folder: path }
            | RunError::Exists { path } => Some(path.display().to_string()),
            _ => None,
        }
    }

    /// Returns the position in the file, if known.
    pub fn place(&self) -> Option<String> {
        let cause = match self {
            RunError::NoTraceTaken { first, .. } => return first.place(),
            RunError::Job(error) => return error.downcast_ref::<RunError>()?.place(),
            RunError::Failed(failure) => failure.source()?,
            _ => return None,
        };
        match cause.downcast_ref()? {
            etlink_formats::Error::NotFound { bytes, .. } => Some(format!("byte {bytes}")),
            _ => None,
        }
    }

    /// Returns true if a trace was refused because of damage.
    pub fn is_refused(&self) -> bool {
        match self {
            RunError::Refused { .. } => true,
            RunError::NoTraceTaken { first, .. } => first.is_refused(),
            // a caller may have wrapped a `RunError`
            RunError::Job(error) => error
                .downcast_ref::<RunError>()
                .is_some_and(RunError::is_refused),
            _ => false,
        }
    }

    /// Returns true if the reader of standard output has closed it.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, RunError::Stdout(error) if error.is_closed_pipe())
    }

    /// Returns the failed call if the system refused it, unlike damage of the file.
    pub(crate) fn into_failed_call(self) -> Option<FileError> {
        match self {
            RunError::File(error) if error.is_failed_call() => Some(error),
            _ => None,
        }
    }

    /// Creates the error for a source without any readable trace. Contains the first refusal, or
    /// the first error if there is no refusal.
    pub fn no_trace_taken(mut errors: Vec<RunError>) -> RunError {
        let traces = errors.len();
        if traces == 0 {
            return RunError::NoRankAsked;
        }
        // prefers a refusal, because it determines the command's exit code
        let first = errors.iter().position(RunError::is_refused).unwrap_or(0);
        let first = errors.swap_remove(first);
        // "none of 1 traces" would add nothing to the reason
        if traces == 1 {
            return first;
        }
        RunError::NoTraceTaken {
            traces,
            first: Box::new(first),
        }
    }
}

/// Returns the remedy of the innermost source that has one, because nothing follows it in the
/// message.
pub fn remedy_of(error: &(dyn Error + 'static)) -> Option<String> {
    let mut found = None;
    let mut next = Some(error);
    while let Some(error) = next {
        found = own_remedy(error).or(found);
        next = error.source();
    }
    found
}

fn own_remedy(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.remedy().map(str::to_owned);
    }
    let known = [
        error.downcast_ref().map(RunError::remedy),
        error.downcast_ref().map(etlink_link::Error::remedy),
        error.downcast_ref().map(etlink_formats::Error::remedy),
        #[cfg(feature = "sqlite")]
        error
            .downcast_ref()
            .map(etlink_formats::sqlite::Error::remedy),
    ];
    known.into_iter().flatten().flatten().next()
}
