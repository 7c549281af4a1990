//! Errors of writing results.

use crate::file_error::FileError;
use etlink_model::{Setting, advice};
use std::path::PathBuf;

/// Error of writing to standard output.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub struct StdoutError(#[source] pub std::io::Error);

impl StdoutError {
    /// Returns true if the reader has closed standard output.
    pub fn is_closed_pipe(&self) -> bool {
        self.0.kind() == std::io::ErrorKind::BrokenPipe
    }
}

/// Error of writing a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A file or folder cannot be read or changed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Standard output cannot be written.
    #[error(transparent)]
    Stdout(#[from] StdoutError),
    /// The run has no target.
    #[error("no output is given")]
    NoTarget,
    /// The target is a pipe or a device, which cannot be written in pieces.
    #[error("cannot write next to {}", path.display())]
    NoPlaceForPieces {
        /// Path of the target.
        path: PathBuf,
    },

    /// Standard output cannot take a folder of files.
    #[error("standard output cannot take several files{}", advice(self.remedy()))]
    FolderOnStdout,
    /// Standard output has no name that states the format.
    #[error("standard output has no file name to show the format{}", advice(self.remedy()))]
    NoFormat,
    /// The target's name does not state the format.
    #[error(
        "{}: the file name does not show the format{}",
        path.display(),
        advice(self.remedy())
    )]
    UnknownEnding {
        /// Path of the target.
        path: PathBuf,
    },
    /// The target's name does not fit a trace for Perfetto.
    #[error(
        "{}: the file name does not fit a Perfetto trace{}",
        path.display(),
        advice(self.remedy())
    )]
    NotForPerfetto {
        /// Path of the target.
        path: PathBuf,
    },
    /// The target's name does not fit Chrome trace events.
    #[error("{}: the file name does not fit Chrome trace events{}", path.display(), advice(self.remedy()))]
    NotChrome {
        /// Path of the target.
        path: PathBuf,
    },
    /// The target's name does not fit a page.
    #[error("{}: the file name does not fit an HTML page{}", path.display(), advice(self.remedy()))]
    NotAPage {
        /// Path of the target.
        path: PathBuf,
    },

    /// The output folder contains inputs, which its files would be mixed with.
    #[error(
        "{}: the output folder contains the input {}{}",
        path.display(),
        input.display(),
        advice(self.remedy())
    )]
    HoldsInput {
        /// Output folder.
        path: PathBuf,
        /// One of the inputs.
        input: PathBuf,
    },
    /// The target is also an input.
    #[error("{} is also an input{}", path.display(), advice(self.remedy()))]
    IsInput {
        /// Path of the input.
        path: PathBuf,
    },
    /// The folder of the target does not exist.
    #[error(
        "cannot write {}: folder {} does not exist{}",
        path.display(),
        folder.display(),
        advice(self.remedy())
    )]
    NoFolder {
        /// Path of the target.
        path: PathBuf,
        /// Path of the missing folder.
        folder: PathBuf,
    },
    /// The target is a folder.
    #[error("{} is a folder{}", path.display(), advice(self.remedy()))]
    IsFolder {
        /// Path of the target.
        path: PathBuf,
    },
    /// The target exists and must not be replaced.
    #[error("{} already exists{}", path.display(), advice(self.remedy()))]
    Exists {
        /// Path of the target.
        path: PathBuf,
    },
    /// A file with an output's name would be replaced, but etlink did not write it.
    #[error(
        "{} has the name of an output, but etlink did not write it, and {} does not remove it; {}",
        path.display(),
        Setting::Overwrite,
        self.remedy().unwrap_or_default()
    )]
    NotOurs {
        /// Path of the file.
        path: PathBuf,
    },

    /// A subset of ranks would replace files of an earlier run with more ranks, whose process
    /// groups are numbered differently.
    #[error(
        "{} would no longer fit the files of ranks not selected with {}; {}",
        path.display(),
        Setting::Ranks,
        self.remedy().unwrap_or_default()
    )]
    GroupsOfOthers {
        /// Path of the list of groups.
        path: PathBuf,
    },
    /// A file needed by the ranks of another run would be replaced.
    #[error(
        "{} would no longer fit {other} next to it, which is from another run; {}",
        path.display(),
        self.remedy().unwrap_or_default()
    )]
    BesideOtherRun {
        /// Path of the list of groups, or of a simulator's file.
        path: PathBuf,
        /// Name of a rank's file of the other run.
        other: String,
    },
    /// A subset of ranks would be written for a simulator, but other ranks' files do not fit it.
    #[error(
        "{} is from a rank not selected with {}, and a simulation needs all ranks from one \
         merge; {}",
        path.display(),
        Setting::Ranks,
        self.remedy().unwrap_or_default()
    )]
    SimulatedWithOthers {
        /// Path of the other rank's file.
        path: PathBuf,
    },
    /// A subset of ranks would add a rank to an earlier run that had excluded it.
    #[error(
        "{} was not joined with the ranks whose files stay, and this merge includes none of those ranks; {}",
        path.display(),
        self.remedy().unwrap_or_default()
    )]
    NotJoinedBefore {
        /// Path of the rank's file.
        path: PathBuf,
    },
    /// Another process is writing the target.
    #[error(
        "{} is being written by another etlink{}; {}",
        path.display(),
        process_note(*process),
        self.remedy().unwrap_or_default()
    )]
    Busy {
        /// Path of the target.
        path: PathBuf,
        /// Id of the process, if known.
        process: Option<u32>,
    },
    /// Another process may be writing the target: the file system has no locks to check this.
    #[error(
        "{} may be in use by another etlink: this file system has no locks{}",
        path.display(),
        advice(self.remedy())
    )]
    NoLocks {
        /// Path of the target.
        path: PathBuf,
        /// Path of the target's work folder.
        work: PathBuf,
    },
    /// The target's work folder cannot be created.
    #[error("cannot write {}", path.display())]
    NoWorkFolder {
        /// Path of the target.
        path: PathBuf,
        /// Error of the file system.
        source: FileError,
    },
    /// A folder contains files of two runs, because a replacement is in progress or was
    /// interrupted.
    #[error(
        "{}: another etlink{} is replacing its files, or was interrupted; {}",
        folder.display(),
        process_note(*process),
        self.remedy().unwrap_or_default()
    )]
    BeingReplaced {
        /// Path of the folder.
        folder: PathBuf,
        /// Id of the process, if known.
        process: Option<u32>,
    },

    /// Files could not be replaced; everything is unchanged.
    #[error("nothing in {} was replaced", folder.display())]
    NothingReplaced {
        /// Path of the folder.
        folder: PathBuf,
        /// Error that prevented it.
        source: Box<OutputError>,
    },
    /// Only some objects of a set got their names.
    #[error(
        "{}: only {done} of {all} objects are written; fix the cause and repeat the \
         command with {}",
        folder.display(),
        Setting::Overwrite
    )]
    SomeObjects {
        /// URL of the folder.
        folder: PathBuf,
        /// Number of objects that got their names.
        done: usize,
        /// Total number of objects.
        all: usize,
        /// Error of the first other object.
        source: Box<OutputError>,
    },
    /// Only some files were replaced.
    #[error(
        "{}: not all files are replaced; fix the cause and repeat the command with {}",
        folder.display(),
        Setting::Overwrite
    )]
    PartlyReplaced {
        /// Path of the folder.
        folder: PathBuf,
        /// Error that interrupted it.
        source: Box<OutputError>,
    },
}

impl OutputError {
    /// Returns the remedy.
    pub fn remedy(&self) -> Option<String> {
        let remedy = match self {
            OutputError::FolderOnStdout => "give a folder",
            OutputError::NoFormat => "give --format",
            OutputError::UnknownEnding { .. } => {
                "use .et, .json, .trace.json or .pftrace (append .gz to compress, or .zst after .et), \
                 or --format"
            }
            OutputError::NotForPerfetto { .. } => {
                "use .pftrace, .pftrace.gz, .trace.json or .trace.json.gz"
            }
            OutputError::NotChrome { .. } => "use .trace.json or .json, optionally with .gz",
            OutputError::NotAPage { .. } => "use .html",
            OutputError::IsInput { .. } => "give the output another name",
            OutputError::HoldsInput { .. } => "give the output a folder of its own",
            OutputError::NoFolder { .. } => "create it first",
            OutputError::IsFolder { .. } => "give a file name",
            OutputError::Exists { .. } => {
                return Some(format!("{} replaces it", Setting::Overwrite));
            }
            OutputError::NotOurs { .. } => "move it away",
            OutputError::GroupsOfOthers { .. } | OutputError::SimulatedWithOthers { .. } => {
                "merge all ranks, or write to another folder"
            }
            OutputError::NotJoinedBefore { .. } => {
                return Some(format!(
                    "merge all ranks, write to another folder, or include it with {}",
                    Setting::AllowMismatch
                ));
            }
            OutputError::BesideOtherRun { .. } => {
                "write to another folder, or first remove the files of that run"
            }
            OutputError::Busy { .. } => "wait for it to finish, or write elsewhere",
            OutputError::NoLocks { work, .. } => {
                return Some(format!(
                    "if no other etlink is running, remove {}",
                    work.display()
                ));
            }
            OutputError::BeingReplaced { .. } => {
                return Some(format!(
                    "try again. If the error persists, repeat the command that wrote the files with {}",
                    Setting::Overwrite
                ));
            }
            _ => return None,
        };
        Some(remedy.to_owned())
    }

    /// Returns true if the reader has closed standard output.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, OutputError::Stdout(error) if error.is_closed_pipe())
    }
}

fn process_note(process: Option<u32>) -> String {
    match process {
        Some(process) => format!(" (process {process})"),
        None => String::new(),
    }
}
