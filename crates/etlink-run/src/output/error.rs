//! Why a result cannot be written.

use crate::file_error::FileError;
use etlink_model::{Setting, advice};
use std::path::PathBuf;

/// Standard output could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub struct StdoutError(#[source] pub std::io::Error);

impl StdoutError {
    /// Whether nobody reads it any more.
    pub fn is_closed_pipe(&self) -> bool {
        self.0.kind() == std::io::ErrorKind::BrokenPipe
    }
}

/// Why a result cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A file or folder cannot be read or changed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Standard output cannot be written.
    #[error(transparent)]
    Stdout(#[from] StdoutError),
    /// There is no target.
    #[error("there is nowhere to write to")]
    NoTarget,
    /// Pieces are for files, not for pipes and devices.
    #[error("cannot write beside {}", path.display())]
    NoPlaceForPieces {
        /// The target.
        path: PathBuf,
    },

    /// Standard output is no folder.
    #[error("standard output cannot take several files{}", advice(self.remedy()))]
    FolderOnStdout,
    /// Standard output has no name that tells the format.
    #[error("standard output has no name to tell the format{}", advice(self.remedy()))]
    NoFormat,
    /// The name does not tell the format.
    #[error(
        "{}: the name's ending does not tell the format{}",
        path.display(),
        advice(self.remedy())
    )]
    UnknownEnding {
        /// The target.
        path: PathBuf,
    },
    /// The name is not that of a trace for Perfetto.
    #[error(
        "{}: replay writes a trace for Perfetto{}",
        path.display(),
        advice(self.remedy())
    )]
    NotForPerfetto {
        /// The target.
        path: PathBuf,
    },
    /// The name is not that of Chrome's trace events.
    #[error("{}: a timeline of Chrome's trace events{}", path.display(), advice(self.remedy()))]
    NotChrome {
        /// The target.
        path: PathBuf,
    },
    /// The name is not that of a page.
    #[error("{}: a report is a page{}", path.display(), advice(self.remedy()))]
    NotAPage {
        /// The target.
        path: PathBuf,
    },

    /// The target is read too.
    #[error("{} is an input too{}", path.display(), advice(self.remedy()))]
    IsInput {
        /// The input.
        path: PathBuf,
    },
    /// The folder of the target is not there.
    #[error(
        "cannot write {}: there is no folder {}{}",
        path.display(),
        folder.display(),
        advice(self.remedy())
    )]
    NoFolder {
        /// The target.
        path: PathBuf,
        /// Its folder.
        folder: PathBuf,
    },
    /// The target is a folder.
    #[error("{} is a folder{}", path.display(), advice(self.remedy()))]
    IsFolder {
        /// The target.
        path: PathBuf,
    },
    /// The target is there and must not be replaced.
    #[error("{} exists already{}", path.display(), advice(self.remedy()))]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// A file would have to go that etlink did not write.
    #[error(
        "{} has the name of an output, but etlink did not write it, and {} does not remove it: {}",
        path.display(),
        Setting::Overwrite,
        self.remedy().unwrap_or_default()
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
    },

    /// The files of some ranks were to replace those of an earlier run of more ranks, and their
    /// process groups are numbered in another way.
    #[error(
        "{} would no longer fit the files of the ranks that {} does not name: {}",
        path.display(),
        Setting::Ranks,
        self.remedy().unwrap_or_default()
    )]
    GroupsOfOthers {
        /// The list of groups.
        path: PathBuf,
    },
    /// A file that another run's ranks need would be replaced.
    #[error(
        "{} would no longer fit {other} beside it, which is of another run: {}",
        path.display(),
        self.remedy().unwrap_or_default()
    )]
    BesideOtherRun {
        /// The list of groups, or a file of a simulator.
        path: PathBuf,
        /// The file of a rank of the other run.
        other: String,
    },
    /// Some ranks were to be written for a simulator, and the files of other ranks that lie there
    /// would not fit them.
    #[error(
        "{} is of a rank that {} does not name, and a simulation has all its ranks from one \
         merge: {}",
        path.display(),
        Setting::Ranks,
        self.remedy().unwrap_or_default()
    )]
    SimulatedWithOthers {
        /// The file of the other rank.
        path: PathBuf,
    },
    /// A part of the ranks was to be written, and would make a rank of an earlier run of one that was
    /// not joined with it.
    #[error(
        "{} was not joined with the ranks whose files stay, and none of those is merged with it now: {}",
        path.display(),
        self.remedy().unwrap_or_default()
    )]
    NotJoinedBefore {
        /// The file of the rank.
        path: PathBuf,
    },
    /// Another process writes the target.
    #[error(
        "{} is being written by another etlink{}: {}",
        path.display(),
        process_note(*process),
        self.remedy().unwrap_or_default()
    )]
    Busy {
        /// The target.
        path: PathBuf,
        /// The process, if its number is known.
        process: Option<u32>,
    },
    /// A process may write the target: the file system has no locks that would say so.
    #[error(
        "{} is perhaps being written by another etlink: this file system has no locks{}",
        path.display(),
        advice(self.remedy())
    )]
    NoLocks {
        /// The target.
        path: PathBuf,
        /// Its work folder.
        work: PathBuf,
    },
    /// The target's work folder cannot be made.
    #[error("cannot write {}", path.display())]
    NoWorkFolder {
        /// The target.
        path: PathBuf,
        /// What cannot be done.
        source: FileError,
    },
    /// Files of two runs lie in a folder, because they are being replaced or that was cut.
    #[error(
        "{}: its files are being replaced by another etlink{}, or that was cut: {}",
        folder.display(),
        process_note(*process),
        self.remedy().unwrap_or_default()
    )]
    BeingReplaced {
        /// The folder.
        folder: PathBuf,
        /// The process, if its number is known.
        process: Option<u32>,
    },

    /// The journal of a replacement cannot be read.
    #[error("{} is damaged", path.display())]
    DamagedJournal {
        /// The journal.
        path: PathBuf,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// The journal of a replacement has what this program does not write.
    #[error("{} is of another etlink, or damaged", path.display())]
    ForeignJournal {
        /// The journal.
        path: PathBuf,
    },
    /// A replacement that an earlier run began would reach through a link.
    #[error(
        "{}: {} is a link, and an earlier run did not make it: remove {}, or the link",
        journal.display(),
        link.display(),
        journal.display()
    )]
    LinkedFolder {
        /// The journal.
        journal: PathBuf,
        /// The link.
        link: PathBuf,
    },
    /// A replacement that an earlier run began cannot be finished.
    #[error(
        "{}: an earlier run was cut while it replaced files here, and this cannot be finished",
        folder.display()
    )]
    CutReplacement {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        source: Box<OutputError>,
    },
    /// Files could not be replaced: all is as before.
    #[error("nothing in {} was replaced", folder.display())]
    NothingReplaced {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        source: Box<OutputError>,
    },
    /// Some objects of a set have their names and some not.
    #[error(
        "{}: {done} of {all} objects are written, and not the others: mend the cause and repeat the \
         command with {}",
        folder.display(),
        Setting::Overwrite
    )]
    SomeObjects {
        /// Where they are.
        folder: PathBuf,
        /// How many have their names.
        done: usize,
        /// How many there are.
        all: usize,
        /// Why.
        source: Box<OutputError>,
    },
    /// Some files were replaced and some not.
    #[error(
        "{}: not all files are replaced: mend the cause and repeat the command, which finishes it \
         first",
        folder.display()
    )]
    PartlyReplaced {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: Box<OutputError>,
    },
}

impl OutputError {
    /// What the user can do.
    pub fn remedy(&self) -> Option<String> {
        let remedy = match self {
            OutputError::FolderOnStdout => "name a folder",
            OutputError::NoFormat => "give --format",
            OutputError::UnknownEnding { .. } => {
                "use .et, .json, .trace.json or .pftrace (.gz behind it packs, .zst behind .et too), \
                 or --format"
            }
            OutputError::NotForPerfetto { .. } => {
                "use .pftrace, .pftrace.gz, .trace.json or .trace.json.gz"
            }
            OutputError::NotChrome { .. } => "use .trace.json, .json or one of them with .gz",
            OutputError::NotAPage { .. } => "use .html",
            OutputError::IsInput { .. } => "give the output another name",
            OutputError::NoFolder { .. } => "make it first",
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
                    "merge all ranks, write to another folder, or take it in by {}",
                    Setting::AllowMismatch
                ));
            }
            OutputError::BesideOtherRun { .. } => {
                "write to another folder, or remove the files of that run first"
            }
            OutputError::Busy { .. } => "wait for it, or write elsewhere",
            OutputError::NoLocks { work, .. } => {
                return Some(format!("if none runs, remove {}", work.display()));
            }
            OutputError::BeingReplaced { .. } => {
                "try again, and if this stays, repeat the command that wrote them, which finishes \
                 it first"
            }
            _ => return None,
        };
        Some(remedy.to_owned())
    }

    /// Whether nobody reads standard output any more.
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
