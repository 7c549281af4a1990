//! Why a phase cannot go on.

use super::shard::Shard;
use crate::text::file_name;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::Setting;
use std::path::{Path, PathBuf};

/// What names of files begin with that a join writes.
pub(crate) const AGREEMENT: &str = "agreement";

/// What a shard failed with on a rank.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, thiserror::Error)]
#[error("{message}")]
pub struct StoredError {
    /// The error and its causes.
    pub message: String,
    /// What the user can do.
    pub remedy: Option<String>,
    /// The file that it is about, where it is about one.
    pub file: Option<String>,
    /// Where in the file, where that is known.
    pub place: Option<String>,
    /// Whether a trace was refused because it is damaged.
    pub is_refused: bool,
}

/// What a phase goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierPhase {
    /// The summaries.
    Summaries,
    /// The join, of summaries that are as old as it.
    Join,
    /// The join; since then the shard was summarized again.
    OldJoin,
}

impl EarlierPhase {
    fn done(self) -> &'static str {
        match self {
            EarlierPhase::Summaries => "summarized",
            EarlierPhase::Join | EarlierPhase::OldJoin => "joined",
        }
    }

    fn repeat(self) -> &'static str {
        match self {
            EarlierPhase::Summaries | EarlierPhase::Join => "run all phases again",
            EarlierPhase::OldJoin => "run the join and the write again",
        }
    }
}

/// Why a phase cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum PhaseError {
    /// A file of an earlier phase is not there, or cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of an earlier phase is not there, or is no file.
    #[error("{}: there is no such file: {}", path.display(), write_again(path))]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// A file of an earlier phase is no such file, or of another version of etlink.
    #[error(
        "{}: another version of etlink wrote it, or something else did: run all phases with one \
         version",
        path.display()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
    },
    /// A file of an earlier phase is cut or changed.
    #[error("{}: it is damaged: {}", path.display(), write_again(path))]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// What was made of a rank cannot be stored.
    #[error("{}: cannot be stored", path.display())]
    CannotStore {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No shard was summarized.
    #[error(
        "{}: no summaries in it: run `--phase summaries` for each shard first",
        folder.display()
    )]
    NoSummaries {
        /// The folder of the phases.
        folder: PathBuf,
    },
    /// Some shards were not summarized.
    #[error(
        "{} of {count} shards have no summaries: {}; run `--phase summaries --shard {}/{count}`",
        missing.len(),
        first_numbers(missing),
        missing.first().copied().unwrap_or(0)
    )]
    MissingShards {
        /// Their numbers.
        missing: Vec<u32>,
        /// How many shards there are.
        count: u32,
    },
    /// Summaries are there of several numbers of shards.
    #[error(
        "{}: summaries of {one} shards and of {other}: remove those that are not meant",
        folder.display()
    )]
    SeveralCounts {
        /// The folder of the phases.
        folder: PathBuf,
        /// A number of shards.
        one: u32,
        /// Another.
        other: u32,
    },
    /// A phase saw other ranks than there are now, or other files of them.
    #[error(
        "the traces have changed since shard {shard} was {}: {change}; {}",
        phase.done(),
        phase.repeat()
    )]
    OtherTraces {
        /// The shard.
        shard: Shard,
        /// Which phase it was.
        phase: EarlierPhase,
        /// What has changed first.
        change: String,
    },
    /// A shard was summarized, or joined, with other options.
    #[error("shard {shard} was run with another {option}: give all phases the same options")]
    OtherOption {
        /// The shard.
        shard: Shard,
        /// What differs.
        option: String,
    },
    /// Ranks failed, and files of an earlier run would stay where theirs belong.
    #[error(
        "{}: {failed} ranks failed, and {file} of an earlier run would stay beside the others: \
         do what is said of each, write to another folder, or remove the file",
        folder.display()
    )]
    EarlierRankStays {
        /// Folder of the run.
        folder: PathBuf,
        /// How many of its ranks failed.
        failed: usize,
        /// A file of the earlier run.
        file: String,
    },
    /// A rank is to be written that could not be joined, because it failed then.
    #[error("it failed when it was summarized: {message}; mend that and run all phases again")]
    FailedBefore {
        /// Why it failed.
        message: String,
    },
    /// A rank is to be written that was refused as damaged.
    #[error(
        "its traces are damaged and were refused when it was summarized: mend them, or run all \
         phases again without {}",
        Setting::Strict
    )]
    RefusedBefore,
    /// Ranks are to be written that were not joined.
    #[error(
        "{}: shard {shard} has not been joined: run `--phase join`, with as many shards in all \
         phases",
        folder.display()
    )]
    NotJoined {
        /// The folder of the phases.
        folder: PathBuf,
        /// The shard.
        shard: Shard,
    },
    /// A whole report is wanted of what does a shard alone.
    #[error("only a shard is summarized: the join makes the report")]
    OnlyShard,
    /// A report on one trace is to be made in phases.
    #[error("phases are for the ranks of a folder: leave --phase out for one trace")]
    OneTrace,
    /// All ranks are to be one file, which no shard can write.
    #[error("phases write a file for each rank: leave --phase out for one file of all ranks")]
    OneFile,
}

impl PhaseError {
    pub(crate) fn unreadable(path: &Path, source: std::io::Error) -> PhaseError {
        PhaseError::Unreadable {
            path: path.to_owned(),
            source,
        }
    }
}

/// What to do for the file of a shard: the join writes those for the last phase, for all shards.
fn write_again(path: &Path) -> &'static str {
    if file_name(path).starts_with(AGREEMENT) {
        "run `--phase join` again"
    } else {
        "run its phase for this shard again"
    }
}

/// The first of many numbers.
fn first_numbers(numbers: &[u32]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = numbers.iter().take(SHOWN).map(u32::to_string).collect();
    let rest = if numbers.len() > SHOWN { ", …" } else { "" };
    shown.join(", ") + rest
}
