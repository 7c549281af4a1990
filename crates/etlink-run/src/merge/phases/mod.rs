//! `merge` in three phases, for many machines that share a folder.
//!
//! ```text
//! summaries, shard 0 ──┐                     ┌── write, shard 0
//! summaries, shard 1 ──┼── join (one place) ─┼── write, shard 1
//! summaries, shard 2 ──┘                     └── write, shard 2
//! ```
//! Each shard links its ranks and keeps of them what the join needs. The join decides what every
//! rank is written with. Then each shard links its ranks again and writes them. The files are those
//! that [`merge`](super::merge) writes, byte for byte. A phase can be run again at any time.

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

/// What a shard did.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShardReport {
    /// Its number, from 0.
    pub shard: u32,
    /// How many there are.
    pub shards: u32,
    /// What became of its ranks.
    pub ranks: Vec<MergedRank>,
    /// Its summaries; of the last phase none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summaries: Option<PathBuf>,
}

/// Removes what the phases of an earlier merge handed to each other in an output folder.
///
/// # Errors
/// The folder cannot be listed, or a file of it not removed.
pub fn remove_phase_files(output: &Path) -> Result<(), RunError> {
    for kind in [PhaseFile::Summaries, PhaseFile::Agreement] {
        for shard in kind.shards(output)? {
            kind.remove(output, shard)?;
        }
    }
    let folder = output.join(PHASE_FOLDER);
    RunListing::remove(&folder)?;
    // a folder that has something else stays
    let _ = storage::remove_empty_folder(&folder);
    Ok(())
}

fn check_options(runs: &RunSet, options: &MergeOptions) -> Result<(), RunError> {
    if options.is_timeline() {
        return Err(PhaseError::OneFile.into());
    }
    super::check_source(runs, options)
}
