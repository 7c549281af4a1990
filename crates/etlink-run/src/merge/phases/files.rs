//! Names, reads and writes the files that phases of a merge exchange, in a folder of the output.

use crate::output::OutputError;
use crate::phases::{AGREEMENT, PhaseError, Shard, ShardFiles};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Version of the files, increased whenever their content changes.
const VERSION: u32 = 5;

/// Folder of the files, in the output folder.
pub const PHASE_FOLDER: &str = ".etlink-phases";

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhaseFile {
    /// Summaries of a shard's ranks for the join.
    Summaries,
    /// Decisions of the join for a shard's ranks.
    Agreement,
}

impl PhaseFile {
    fn stem(self) -> &'static str {
        match self {
            PhaseFile::Summaries => "summaries",
            PhaseFile::Agreement => AGREEMENT,
        }
    }

    fn in_folder(self, folder: &Path) -> ShardFiles<'_> {
        ShardFiles {
            folder,
            stem: self.stem(),
            version: VERSION,
        }
    }

    /// Returns the shards with a file of this kind, in order; none if the folder does not exist.
    pub(super) fn shards(self, output: &Path) -> Result<Vec<Shard>, PhaseError> {
        self.in_folder(&output.join(PHASE_FOLDER)).shards()
    }

    /// Like `shards`, but fails if one is missing.
    pub(super) fn all_shards(self, output: &Path) -> Result<Vec<Shard>, PhaseError> {
        self.in_folder(&output.join(PHASE_FOLDER)).all_shards()
    }

    /// Writes a shard's file. An earlier file is replaced atomically.
    pub(super) fn write<T: Serialize>(
        self,
        output: &Path,
        shard: Shard,
        content: &T,
    ) -> Result<PathBuf, OutputError> {
        let folder = output.join(PHASE_FOLDER);
        self.in_folder(&folder).write(shard, content)
    }

    /// Removes a shard's file.
    pub(super) fn remove(self, output: &Path, shard: Shard) -> Result<(), OutputError> {
        self.in_folder(&output.join(PHASE_FOLDER)).remove(shard)
    }

    /// Reads a shard's file.
    pub(super) fn read<T: DeserializeOwned>(
        self,
        output: &Path,
        shard: Shard,
    ) -> Result<T, PhaseError> {
        self.in_folder(&output.join(PHASE_FOLDER)).read(shard)
    }
}
