//! Errors of phases.

use super::shard::Shard;
use crate::text::file_name;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::Setting;
use std::path::{Path, PathBuf};

/// Prefix of the names of files that a join writes.
pub(crate) const AGREEMENT: &str = "agreement";

/// Error of a shard on a rank, as stored for the join.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, thiserror::Error)]
#[error("{message}")]
pub struct StoredError {
    /// The error and its causes.
    pub message: String,
    /// Remedy for the user.
    pub remedy: Option<String>,
    /// File of the error, if there is a single one.
    pub file: Option<String>,
    /// Position in the file, if known.
    pub place: Option<String>,
    /// True if a trace was refused because of damage.
    pub is_refused: bool,
}

/// Earlier phase with which a phase continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierPhase {
    /// Summaries of shards.
    Summaries,
    /// The join, of the current summaries.
    Join,
    /// A join that is outdated, because the shard was summarized again.
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

/// Error of a phase.
#[derive(Debug, thiserror::Error)]
pub enum PhaseError {
    /// A file of an earlier phase is missing or cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file of an earlier phase is missing or not a regular file.
    #[error("{}: there is no such file: {}", path.display(), write_again(path))]
    NoFile {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file of an earlier phase has another format, or comes from another version of etlink.
    #[error(
        "{}: another version of etlink wrote it, or something else did: run all phases with one \
         version",
        path.display()
    )]
    OtherVersion {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file of an earlier phase is truncated or modified.
    #[error("{}: it is damaged: {}", path.display(), write_again(path))]
    Damaged {
        /// Path of the file.
        path: PathBuf,
    },
    /// The result of a rank cannot be stored.
    #[error("{}: cannot be stored", path.display())]
    CannotStore {
        /// Path of the file.
        path: PathBuf,
        /// Error of the encoder.
        source: std::io::Error,
    },
    /// No shard was summarized.
    #[error(
        "{}: no summaries in it: run `--phase summaries` for each shard first",
        folder.display()
    )]
    NoSummaries {
        /// Folder of the phases.
        folder: PathBuf,
    },
    /// Some shards have no summaries.
    #[error(
        "{} of {count} shards have no summaries: {}; run `--phase summaries --shard {}/{count}`",
        missing.len(),
        first_numbers(missing),
        missing.first().copied().unwrap_or(0)
    )]
    MissingShards {
        /// Numbers of the missing shards.
        missing: Vec<u32>,
        /// Total number of shards.
        count: u32,
    },
    /// The folder has summaries for different total numbers of shards.
    #[error(
        "{}: summaries of {one} shards and of {other}: remove those that are not meant",
        folder.display()
    )]
    SeveralCounts {
        /// Folder of the phases.
        folder: PathBuf,
        /// One total number of shards.
        one: u32,
        /// Another total number of shards.
        other: u32,
    },
    /// The ranks or their files have changed since an earlier phase.
    #[error(
        "the traces have changed since shard {shard} was {}: {change}; {}",
        phase.done(),
        phase.repeat()
    )]
    OtherTraces {
        /// Shard of the earlier phase.
        shard: Shard,
        /// The earlier phase.
        phase: EarlierPhase,
        /// Description of the first change.
        change: String,
    },
    /// A shard was summarized or joined with other options.
    #[error("shard {shard} was run with another {option}: give all phases the same options")]
    OtherOption {
        /// Shard of the earlier phase.
        shard: Shard,
        /// Name of the option that differs.
        option: String,
    },
    /// Some ranks failed, and files of an earlier run would stay in their places.
    #[error(
        "{}: {failed} ranks failed, and {file} of an earlier run would stay beside the others: \
         fix the errors above, write to another folder, or remove the file",
        folder.display()
    )]
    EarlierRankStays {
        /// Folder of the run.
        folder: PathBuf,
        /// Number of failed ranks.
        failed: usize,
        /// Name of a file of the earlier run.
        file: String,
    },
    /// A rank cannot be written because it failed before the join.
    #[error("it failed when it was summarized: {message}; mend that and run all phases again")]
    FailedBefore {
        /// Error of the rank.
        message: String,
    },
    /// A rank cannot be written because it was refused as damaged.
    #[error(
        "its traces are damaged and were refused when it was summarized: mend them, or run all \
         phases again without {}",
        Setting::Strict
    )]
    RefusedBefore,
    /// Ranks cannot be written because their shard was not joined.
    #[error(
        "{}: shard {shard} has not been joined: run `--phase join`, with as many shards in all \
         phases",
        folder.display()
    )]
    NotJoined {
        /// Folder of the phases.
        folder: PathBuf,
        /// The shard that was not joined.
        shard: Shard,
    },
    /// A whole report is requested from a query of a single shard.
    #[error("only a shard is summarized: the join makes the report")]
    OnlyShard,
    /// A report on one trace is requested in phases.
    #[error("phases are for the ranks of a folder: leave --phase out for one trace")]
    OneTrace,
    /// One file of all ranks is requested, which no shard can write.
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

/// Returns the remedy for a shard's file: the join writes the files of the last phase for all
/// shards.
fn write_again(path: &Path) -> &'static str {
    if file_name(path).starts_with(AGREEMENT) {
        "run `--phase join` again"
    } else {
        "run its phase for this shard again"
    }
}

/// Returns the first of many numbers, separated by commas.
fn first_numbers(numbers: &[u32]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = numbers.iter().take(SHOWN).map(u32::to_string).collect();
    let rest = if numbers.len() > SHOWN { ", …" } else { "" };
    shown.join(", ") + rest
}
