//! Identity of a phase's traces and options: later phases refuse results of others.

use super::error::{EarlierPhase, PhaseError};
use super::listing::{FileState, FolderState};
use super::shard::Shard;
use crate::run_files::RankFiles;
use crate::storage::shown_path;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// Traces and options of summaries; equal in all phases and shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PhaseIdentity {
    /// Ranks of the source, in their order.
    pub(crate) ranks: Vec<RankIdentity>,
    /// Options that affect the stored results, with their values.
    pub(crate) settings: Vec<(String, String)>,
}

/// A rank and the state of its files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RankIdentity {
    /// Folder of the rank's run.
    folder: String,
    /// Prefix of the run's output files.
    name: String,
    label: String,
    files: Vec<FileState>,
    /// Paths of the files; not stored, and known only for the current files.
    #[serde(skip)]
    paths: Vec<PathBuf>,
}

impl PartialEq for RankIdentity {
    fn eq(&self, other: &RankIdentity) -> bool {
        self.is_same_rank(other) && self.name == other.name && self.files == other.files
    }
}

impl Eq for RankIdentity {}

impl RankIdentity {
    /// Creates the identity of a rank; `state` is the state of the folder that contains its files.
    pub(crate) fn new(
        folder: &Path,
        name: &str,
        files: &RankFiles,
        state: &FolderState,
    ) -> RankIdentity {
        let paths = [&files.host, &files.device, &files.capture];
        let more = [&files.flight, &files.metrics, &files.graph];
        let paths: Vec<PathBuf> = paths.into_iter().chain(more).flatten().cloned().collect();
        RankIdentity {
            folder: folder.display().to_string(),
            name: name.to_owned(),
            label: files.label.clone(),
            files: paths.iter().map(|path| state.file(path)).collect(),
            paths,
        }
    }

    fn is_same_rank(&self, other: &RankIdentity) -> bool {
        self.folder == other.folder && self.label == other.label
    }

    /// Returns the rank's name, unique among all runs.
    fn full_name(&self) -> String {
        let whole = Path::new(&self.folder).join(&self.label);
        whole.display().to_string()
    }

    /// Describes the change of a rank since this state.
    fn change(&self, now: &RankIdentity) -> String {
        let files = self.files.iter().zip(&now.files).zip(&now.paths);
        let mut changes = files.filter_map(|((then, now), path)| {
            let change = then.change(now)?;
            Some(format!("{} {change}", shown_path(path)))
        });
        match changes.next() {
            _ if self.files.len() != now.files.len() => {
                format!("rank {} has other files", now.full_name())
            }
            Some(change) => change,
            None => format!("the run of {} was called {}", now.full_name(), self.name),
        }
    }
}

impl PhaseIdentity {
    /// Creates the identity of ranks, and of options with their values.
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

    /// Refuses results of an earlier phase of a shard with other traces or options.
    pub(crate) fn check(
        &self,
        shard: Shard,
        phase: EarlierPhase,
        now: &PhaseIdentity,
    ) -> Result<(), PhaseError> {
        // options first: `--ranks` determines the ranks
        for (before, after) in self.settings.iter().zip(&now.settings) {
            if before != after {
                return Err(PhaseError::OtherOption {
                    shard,
                    option: after.0.clone(),
                });
            }
        }
        match self.change(now) {
            Some(change) => Err(PhaseError::OtherTraces {
                shard,
                phase,
                change,
            }),
            None => Ok(()),
        }
    }

    /// Describes the first change of the ranks.
    fn change(&self, now: &PhaseIdentity) -> Option<String> {
        let all = self.ranks.iter().zip(&now.ranks);
        let differing = all.clone().find(|(then, now)| then != now);
        if self.ranks.len() == now.ranks.len()
            && let Some((then, now)) = differing
            && then.is_same_rank(now)
        {
            return Some(then.change(now));
        }
        let (then, now) = (&self.ranks, &now.ranks);
        let first_of = |ranks: &[RankIdentity], others: &[RankIdentity]| {
            // both lists have the same order
            let at = ranks
                .iter()
                .zip(others)
                .take_while(|(a, b)| a.is_same_rank(b));
            ranks.get(at.count()).map(RankIdentity::full_name)
        };
        let counts = || format!("{} ranks then, {} now", then.len(), now.len());
        match then.len().cmp(&now.len()) {
            Ordering::Greater => Some(format!(
                "rank {} is gone; {}",
                first_of(then, now)?,
                counts()
            )),
            Ordering::Less => Some(format!(
                "rank {} has come; {}",
                first_of(now, then)?,
                counts()
            )),
            Ordering::Equal => {
                let (then, now) = differing?;
                Some(format!(
                    "rank {} is where rank {} was",
                    now.full_name(),
                    then.full_name()
                ))
            }
        }
    }
}
