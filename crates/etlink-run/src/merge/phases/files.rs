//! The files that phases of a merge hand to each other, in a folder of the output.

use crate::output::OutputError;
use crate::phases::{AGREEMENT, PhaseError, Shard, ShardFiles};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Counted up whenever what is in the files changes.
const VERSION: u32 = 4;

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

    /// The shards whose files lie in an output folder, in order; none where there is no folder.
    pub(super) fn shards(self, output: &Path) -> Result<Vec<Shard>, PhaseError> {
        self.in_folder(&output.join(PHASE_FOLDER)).shards()
    }

    /// The same, where none is missing.
    pub(super) fn all_shards(self, output: &Path) -> Result<Vec<Shard>, PhaseError> {
        self.in_folder(&output.join(PHASE_FOLDER)).all_shards()
    }

    /// Writes it; an earlier one is replaced as a whole.
    pub(super) fn write<T: Serialize>(
        self,
        output: &Path,
        shard: Shard,
        content: &T,
    ) -> Result<PathBuf, OutputError> {
        let folder = output.join(PHASE_FOLDER);
        self.in_folder(&folder).write(shard, content)
    }

    /// Removes it.
    pub(super) fn remove(self, output: &Path, shard: Shard) -> Result<(), OutputError> {
        self.in_folder(&output.join(PHASE_FOLDER)).remove(shard)
    }

    /// Reads it.
    pub(super) fn read<T: DeserializeOwned>(
        self,
        output: &Path,
        shard: Shard,
    ) -> Result<T, PhaseError> {
        self.in_folder(&output.join(PHASE_FOLDER)).read(shard)
    }
}
