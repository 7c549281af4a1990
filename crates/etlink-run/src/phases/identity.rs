//! What a phase was run on, and how: later phases refuse what was done otherwise.

use super::error::PhaseError;
use super::listing::{FileState, FolderState};
use super::shard::Shard;
use crate::run_files::RankFiles;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What was summarized, and how: the same in all phases and shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PhaseIdentity {
    /// Each rank of the source, in their order.
    pub(crate) ranks: Vec<RankIdentity>,
    /// Options that what is handed on depends on, with their values.
    pub(crate) settings: Vec<(String, String)>,
}

/// Which rank it is, and which state of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankIdentity {
    /// Folder of its run.
    folder: String,
    /// What its run's outputs begin with.
    name: String,
    label: String,
    files: Vec<FileState>,
}

impl RankIdentity {
    /// `state`: that of the folder in which its files were found.
    pub(crate) fn new(
        folder: &Path,
        name: &str,
        files: &RankFiles,
        state: &FolderState,
    ) -> RankIdentity {
        let paths = [&files.host, &files.device, &files.capture];
        let more = [&files.flight, &files.metrics, &files.graph];
        let paths = paths.into_iter().chain(more).flatten();
        RankIdentity {
            folder: folder.display().to_string(),
            name: name.to_owned(),
            label: files.label.clone(),
            files: paths.map(|path| state.file(path)).collect(),
        }
    }
}

impl PhaseIdentity {
    /// Of ranks that are summarized, and of options with their values.
    pub(crate) fn new<'o>(
        ranks: Vec<RankIdentity>,
        settings: impl IntoIterator<Item = (&'o str, String)>,
    ) -> PhaseIdentity {
        let settings = settings.into_iter();
        PhaseIdentity {
            ranks,
            settings: settings
                .map(|(option, value)| (option.to_owned(), value))
                .collect(),
        }
    }

    /// Refuses what a shard did on other traces, or with other options.
    pub(crate) fn check(&self, shard: Shard, now: &PhaseIdentity) -> Result<(), PhaseError> {
        if self.ranks != now.ranks {
            return Err(PhaseError::OtherRanks {
                shard,
                then: self.ranks.len(),
                now: now.ranks.len(),
            });
        }
        for (before, after) in self.settings.iter().zip(&now.settings) {
            if before != after {
                return Err(PhaseError::OtherOption {
                    shard,
                    option: after.0.clone(),
                });
            }
        }
        Ok(())
    }
}
