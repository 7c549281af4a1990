//! The files that phases hand to each other: a line that says what and which version, then
//! [postcard](https://postcard.jamesmunns.com/wire-format) packed by zstd with a checksum.

use super::shard::Shard;
use crate::file_error::{FileAction, FileContext};
use crate::file_kind::may_be_file;
use crate::output::{OutputError, OutputFormat, Target};
use crate::storage;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Counted up whenever what is in the files changes.
const VERSION: u32 = 1;

/// Summaries of traces repeat themselves; higher levels take longer and win little.
const ZSTD_LEVEL: i32 = 3;

/// What is larger unpacked is no file of ours: summaries take some 40 bytes for each communication.
const MAX_UNPACKED_BYTES: u64 = 2 << 30;

/// Where they lie, in the output folder.
pub const PHASE_FOLDER: &str = ".etlink-phases";

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhaseFile {
    /// What the join needs to know of the ranks of a shard.
    Summaries,
    /// What the ranks of a shard are written with.
    Agreement,
}

impl PhaseFile {
    fn stem(self) -> &'static str {
        match self {
            PhaseFile::Summaries => "summaries",
            PhaseFile::Agreement => "agreement",
        }
    }

    /// The first line of the file.
    fn head(self) -> String {
        format!("etlink {} {VERSION}\n", self.stem())
    }

    /// `summaries.3-of-64`.
    pub(super) fn path(self, output: &Path, shard: Shard) -> PathBuf {
        output.join(PHASE_FOLDER).join(self.name(shard))
    }

    fn name(self, shard: Shard) -> String {
        let (index, count) = (shard.index(), shard.count());
        format!("{}.{index}-of-{count}", self.stem())
    }

    /// The shard that the file of this name is of; `None` if it is another file.
    fn shard_of(self, name: &str) -> Option<Shard> {
        let rest = name.strip_prefix(self.stem())?.strip_prefix('.')?;
        let (index, count) = rest.split_once("-of-")?;
        let shard = Shard::new(index.parse().ok()?, count.parse().ok()?).ok()?;
        // a number with zeros before it is nobody's name
        (self.name(shard) == name).then_some(shard)
    }

    /// The shards whose files lie in an output folder, in order; none where there is no folder.
    pub(super) fn shards(self, output: &Path) -> Result<Vec<Shard>, PhaseError> {
        let folder = output.join(PHASE_FOLDER);
        let entries = match storage::list(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(PhaseError::unreadable(&folder, error)),
        };
        let mut shards = vec![];
        for entry in entries {
            let name = entry.name();
            shards.extend(name.to_str().and_then(|name| self.shard_of(name)));
        }
        // folders are listed in any order
        shards.sort_unstable();
        Ok(shards)
    }

    /// Writes it; an earlier one is replaced as a whole.
    pub(super) fn write<T: Serialize>(
        self,
        output: &Path,
        shard: Shard,
        content: &T,
    ) -> Result<PathBuf, OutputError> {
        let path = self.path(output, shard);
        let folder = output.join(PHASE_FOLDER);
        storage::make_folders(&folder).with_path(FileAction::MakeFolder, &folder)?;
        let target = Target::new(&path, Some(OutputFormat::EtPlus), true)?;
        target.write(|out| {
            out.write_all(self.head().as_bytes())?;
            let mut packed = zstd::Encoder::new(out, ZSTD_LEVEL)?;
            packed.include_checksum(true)?;
            let bytes = postcard::to_stdvec(content).map_err(std::io::Error::other)?;
            packed.write_all(&bytes)?;
            packed.finish()?;
            Ok(())
        })?;
        Ok(path)
    }

    /// Removes it.
    pub(super) fn remove(self, output: &Path, shard: Shard) -> Result<(), OutputError> {
        let path = self.path(output, shard);
        storage::remove(&path).with_path(FileAction::Remove, &path)?;
        Ok(())
    }

    /// Reads it.
    pub(super) fn read<T: DeserializeOwned>(
        self,
        output: &Path,
        shard: Shard,
    ) -> Result<T, PhaseError> {
        let path = self.path(output, shard);
        // a pipe would be waited for
        if !may_be_file(&path) {
            return Err(PhaseError::NoFile { path });
        }
        let bytes = match storage::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => return Err(PhaseError::unreadable(&path, error)),
        };
        let Some(packed) = bytes.strip_prefix(self.head().as_bytes()) else {
            return Err(PhaseError::OtherVersion { path });
        };
        let content = unpack(packed).and_then(|bytes| postcard::from_bytes(&bytes).ok());
        content.ok_or(PhaseError::Damaged { path })
    }
}

/// What is packed; `None` where it is damaged.
fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    let unpacker = zstd::Decoder::new(packed).ok()?;
    let mut limited = unpacker.take(MAX_UNPACKED_BYTES);
    limited.read_to_end(&mut bytes).ok()?;
    Some(bytes)
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
    #[error("{}: there is no such file: run its phase for this shard again", path.display())]
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
    #[error("{}: it is damaged: run its phase for this shard again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
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
    /// A shard saw other ranks than there are now.
    #[error(
        "the traces have changed since shard {shard} was summarized, which saw {then} ranks where \
         there are {now} now, or other files: run all phases again"
    )]
    OtherRanks {
        /// The shard.
        shard: Shard,
        /// How many ranks it saw.
        then: usize,
        /// How many there are.
        now: usize,
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
         mend the traces, write to another folder, or remove the file",
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
    #[error("it failed when it was summarized: {message}; run all phases again")]
    FailedBefore {
        /// Why it failed.
        message: String,
    },
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
    /// All ranks are to be one file, which no shard can write.
    #[error("phases write a file for each rank: leave --phase out for one file of all ranks")]
    OneFile,
}

impl PhaseError {
    fn unreadable(path: &Path, source: std::io::Error) -> PhaseError {
        PhaseError::Unreadable {
            path: path.to_owned(),
            source,
        }
    }
}

/// The first of many numbers.
fn first_numbers(numbers: &[u32]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = numbers.iter().take(SHOWN).map(u32::to_string).collect();
    let rest = if numbers.len() > SHOWN { ", …" } else { "" };
    shown.join(", ") + rest
}
