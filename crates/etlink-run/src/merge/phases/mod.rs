//! `merge` in three phases, for many machines that share a folder.
//!
//! ```text
//! summaries, shard 0 ──┐                     ┌── write, shard 0
//! summaries, shard 1 ──┼── join (one place) ─┼── write, shard 1
//! summaries, shard 2 ──┘                     └── write, shard 2
//! ```
//! Each shard links its ranks and stores the summaries that the join needs. The join decides the
//! contents that depend on other ranks. Then each shard links its ranks again and writes them. The
//! files equal the output of [`merge`](super::merge), byte for byte. Each phase can be repeated at
//! any time.

mod contents;
mod files;
mod join;
mod summarize;
mod write;

pub use files::PHASE_FOLDER;
pub use join::{JoinReport, join_shards};
pub use summarize::summarize_shard;
pub use write::write_shard;

use super::{MergeOptions, MergedRank};
use crate::error::RunError;
use crate::phases::{PhaseError, RunListing};
use crate::run::RunSet;
use crate::storage;
use files::PhaseFile;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Report of one shard in one phase.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShardReport {
    /// Number of the shard, from 0.
    pub shard: u32,
    /// Number of shards.
    pub shards: u32,
    /// Results of the shard's ranks.
    pub ranks: Vec<MergedRank>,
    /// File with the shard's summaries; `None` in the last phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summaries: Option<PathBuf>,
}

/// Removes the files that phases of an earlier merge exchanged in an output folder.
///
/// # Errors
/// Fails if the folder cannot be listed, or a file cannot be removed.
pub fn remove_phase_files(output: &Path) -> Result<(), RunError> {
    for kind in [PhaseFile::Summaries, PhaseFile::Agreement] {
        for shard in kind.shards(output)? {
            kind.remove(output, shard)?;
        }
    }
    let folder = output.join(PHASE_FOLDER);
    RunListing::remove(&folder)?;
    // a folder with other files stays
    let _ = storage::remove_empty_folder(&folder);
    Ok(())
}

fn check_options(runs: &RunSet, options: &MergeOptions) -> Result<(), RunError> {
    if options.is_timeline() {
        return Err(PhaseError::OneFile.into());
    }
    super::check_source(runs, options)
}
