//! Finds the files that an earlier merge left in the folder of a run.

use super::{MergeOptions, names, simulator};
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::graphs::{is_graph_name, prefix_and_rank};
use crate::output::{FileSet, OutputFormat, Packing, not_ours};
use crate::storage;
use crate::text::file_name;
use crate::{Progress, input};
use etlink_chakra::astra::{self, file};
use etlink_model::{Failure, Setting};
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes within which every format names its writer.
const HEAD_BYTES: u64 = 4096;

/// Files that are removed when a run replaces an earlier one.
#[derive(Debug, Default)]
pub(crate) struct EarlierFiles {
    /// Files of joined ranks, or the timeline.
    pub(crate) ranks: Vec<String>,
    /// Files of ranks that were not joined with the others.
    pub(crate) not_joined: Vec<String>,
    /// List of process groups.
    pub(crate) groups: Option<String>,
    /// Files that only a simulator reads.
    pub(crate) simulator: Vec<String>,
    /// A rank's file of another run, which also uses the list of groups and the simulator's files.
    other_run: Option<PathBuf>,
}

impl EarlierFiles {
    /// Lists the earlier files in a folder. `name` is the prefix of ranks' files, and `outputs` are
    /// the names of the ranks' files, or of the timeline, to be written. `knows_groups`: the list
    /// of groups is etlink's even if the folder has no graph of etlink yet.
    ///
    /// # Errors
    /// Fails if a file has a name that may be written, but another program wrote it.
    pub(crate) fn find(
        options: &MergeOptions,
        folder: &Path,
        name: &str,
        outputs: &BTreeSet<String>,
        knows_groups: bool,
    ) -> Result<EarlierFiles, RunError> {
        let mut earlier = EarlierFiles::default();
        let mut other_graphs = vec![];
        for entry in storage::list(folder).with_path(FileAction::ReadFolder, folder)? {
            let is_file = entry.may_be_file();
            let path = entry.path;
            let file_name = path.file_name().and_then(|name| name.to_str());
            if !is_file {
                continue;
            }
            let Some(file_name) = file_name else {
                continue;
            };
            if outputs.contains(file_name) {
                // the name alone does not allow replacing a file: a user may have drawn it
                if !is_ours(&path) {
                    return Err(not_ours(&path));
                }
                earlier.ranks.push(file_name.to_owned());
            // other formats have no list of groups: an existing list is foreign
            } else if options.is_et() && file_name == file::GROUPS {
                earlier.groups = Some(file_name.to_owned());
            } else if is_packed_rank(options, &path, name) {
                // a file packed in another way is a user's copy
                if is_packed_by_us(&path) && is_ours(&path) {
                    earlier.ranks.push(file_name.to_owned());
                }
            } else if is_of_rank(options, &path, file_name, name) {
                // traces may have this name, and no reader takes them for ranks of this set
                if !options.is_et() && !is_ours(&path) {
                    continue;
                }
                if !is_ours(&path) {
                    return Err(not_ours(&path));
                }
                earlier.ranks.push(file_name.to_owned());
            } else if let Some(joined) = names::joined_name(file_name)
                && is_named(options, &path.with_file_name(joined), name)
            {
                if !is_ours(&path) {
                    return Err(not_ours(&path));
                }
                earlier.not_joined.push(file_name.to_owned());
            } else if is_graph_name(&path) {
                other_graphs.push(path);
            }
        }
        // JSON names no writer: the list is etlink's if the graphs are. Their prefix may differ if
        // the folder was renamed after they were merged
        let has_graphs = !earlier.ranks.is_empty() || other_graphs.iter().any(|path| is_ours(path));
        if !has_graphs
            && !knows_groups
            && let Some(groups) = earlier.groups.as_ref()
        {
            let path = folder.join(groups);
            return Err(not_ours(&path));
        }
        // the order of a listing is arbitrary, and messages name the first file
        earlier.ranks.sort();
        earlier.not_joined.sort();
        other_graphs.sort();
        if options.is_et() {
            earlier.simulator = simulator::earlier_files(options, folder)?;
        }
        if earlier.groups.is_some() || !earlier.simulator.is_empty() {
            earlier.other_run = other_graphs
                .into_iter()
                .find(|path| is_of_other_run(path, name) && is_ours(path));
        }
        Ok(earlier)
    }

    /// Returns the files to remove next to the ranks' files, except files that another run needs.
    pub(super) fn beside(&self) -> impl Iterator<Item = &String> + Clone {
        let (groups, simulator) = if self.other_run.is_none() {
            (self.groups.as_ref(), &self.simulator[..])
        } else {
            (None, &[][..])
        };
        groups.into_iter().chain(simulator)
    }

    /// Checks that the files of a simulation replace none that another run needs.
    ///
    /// # Errors
    /// Fails if they would.
    pub(super) fn check_other_run(&self, folder: &Path) -> Result<(), RunError> {
        match (&self.other_run, self.simulator.first()) {
            (Some(other), Some(name)) => Err(beside_other_run(&folder.join(name), other)),
            _ => Ok(()),
        }
    }

    /// Checks that no remaining rank file belongs to another simulation.
    ///
    /// # Errors
    /// Fails on the first such file.
    pub(super) fn check_simulation(
        &self,
        folder: &Path,
        outputs: &BTreeSet<String>,
    ) -> Result<(), RunError> {
        let idle = astra::idle_rank();
        for name in &self.ranks {
            let path = folder.join(name);
            // an idle rank of an earlier run equals the one that would be written
            if !outputs.contains(name) && !has_content(&path, &idle)? {
                let what = format!(
                    " is from a rank not selected with {}, and a simulation needs all ranks from \
                     one merge",
                    Setting::Ranks
                );
                return Err(Failure::about(path.display(), what)
                    .advise(MERGE_ALL)
                    .into());
            }
        }
        Ok(())
    }

    /// Checks that a subset of ranks does not add a rank to the earlier run that had excluded it.
    /// `joined` are the files of the subset's ranks that are joined now. If one of them was already
    /// joined in the earlier run, the others may be added.
    ///
    /// # Errors
    /// Fails if an excluded rank would be added.
    pub(super) fn check_part(
        &self,
        folder: &Path,
        joined: &BTreeSet<String>,
    ) -> Result<(), RunError> {
        // merged JSON of both kinds is among `ranks`
        let before = || self.ranks.iter().chain(&self.not_joined);
        let is_apart = |file: &String| names::joined_name(file).is_some();
        let of_part: BTreeSet<String> = joined
            .iter()
            .flat_map(|file| names::all_names(file))
            .collect();
        let mut in_run = before().filter(|file| !is_apart(file)).peekable();
        if in_run.peek().is_none() || in_run.any(|file| of_part.contains(file)) {
            return Ok(());
        }
        match before().find(|file| is_apart(file) && of_part.contains(*file)) {
            Some(file) => {
                let what = " was not joined with the ranks whose files stay, and this merge \
                            includes none of those ranks";
                let remedy = format!(
                    "merge all ranks, write to another folder, or include it with {}",
                    Setting::AllowMismatch
                );
                let path = folder.join(file);
                Err(Failure::about(path.display(), what).advise(remedy).into())
            }
            None => Ok(()),
        }
    }

    /// Checks that the list of groups still fits the files that stay: files of another run, and, if
    /// `is_part` of the ranks was written, files of the remaining ranks.
    ///
    /// # Errors
    /// Fails if the list would change for them.
    pub(super) fn check_groups(
        &self,
        set: &FileSet,
        groups: &BTreeMap<u32, Vec<u64>>,
        is_part: bool,
    ) -> Result<(), RunError> {
        let is_alone = !is_part || self.ranks.iter().all(|name| set.has(name));
        if !set.has(file::GROUPS) {
            return Ok(());
        }
        let Some(name) = self.groups.as_ref() else {
            return Ok(());
        };
        if is_alone && self.other_run.is_none() {
            return Ok(());
        }
        let path = set.folder().join(name);
        let before = storage::read(&path).with_path(FileAction::Read, &path)?;
        let mut after = vec![];
        etlink_chakra::write_groups(groups, &mut after).with_path(FileAction::Read, &path)?;
        // groups are numbered within the joined ranks: the same number may mean another group
        match &self.other_run {
            _ if before == after => Ok(()),
            Some(other) => Err(beside_other_run(&path, other)),
            None => {
                let what = format!(
                    " would no longer fit the files of ranks not selected with {}",
                    Setting::Ranks
                );
                Err(Failure::about(path.display(), what)
                    .advise(MERGE_ALL)
                    .into())
            }
        }
    }
}

/// Remedy for files that must be from one merge of all ranks.
const MERGE_ALL: &str = "merge all ranks, or write to another folder";

/// Creates the error for a file that a file of another run needs.
fn beside_other_run(path: &Path, other: &Path) -> RunError {
    let other = file_name(other);
    let what = format!(" would no longer fit {other} next to it, which is from another run");
    let remedy = "write to another folder, or first remove the files of that run";
    Failure::about(path.display(), what).advise(remedy).into()
}

/// Returns true if a graph has the name of a rank of another run.
fn is_of_other_run(path: &Path, name: &str) -> bool {
    prefix_and_rank(path).is_some_and(|(prefix, _)| !prefix.ends_with(name))
}

/// Returns true if a file has the name of a joined rank, compressed or not.
fn is_named(options: &MergeOptions, path: &Path, name: &str) -> bool {
    let file_name = path.file_name().map(|name| name.to_string_lossy());
    is_packed_rank(options, path, name)
        || file_name.is_some_and(|file_name| is_of_rank(options, path, &file_name, name))
}

fn is_of_rank(options: &MergeOptions, path: &Path, file_name: &str, name: &str) -> bool {
    match options.format {
        OutputFormat::Chakra => {
            path.extension().is_some_and(|ending| ending == "et")
                && prefix_and_rank(path).is_some_and(|(prefix, _)| prefix.ends_with(name))
        }
        OutputFormat::EtPlus => file_name
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".json.gz")),
        OutputFormat::Chrome | OutputFormat::Perfetto => false,
    }
}

/// Returns true if a file has the name of a rank plus the ending of a compression.
fn is_packed_rank(options: &MergeOptions, path: &Path, name: &str) -> bool {
    let endings = [Packing::Gzip, Packing::Zstd].map(Packing::ending);
    let file_name = path.to_string_lossy();
    let is_packed = endings
        .iter()
        .any(|ending| file_name.ends_with(&format!(".et{ending}")));
    let is_of_run = prefix_and_rank(path).is_some_and(|(prefix, _)| prefix.ends_with(name));
    options.is_et() && is_packed && is_of_run
}

fn is_packed_by_us(path: &Path) -> bool {
    let mut head = vec![];
    let file = storage::open(path);
    let read = file.and_then(|file| file.content.take(16).read_to_end(&mut head));
    read.is_ok() && Packing::is_own(&head)
}

/// Returns true if etlink wrote a file. A `.et` says so in its first message, merged JSON before
/// its nodes, and Perfetto formats before their events.
pub(super) fn is_ours(path: &Path) -> bool {
    let Ok(input) = input::open(path, &Progress::hidden()) else {
        return false;
    };
    let mut head = vec![];
    // a truncated file has the mark too
    drop(input.content.take(HEAD_BYTES).read_to_end(&mut head));
    // requires two marks: `etlink ` alone may be a name in any trace
    let keys = ["writer", "linked_by", "written_by"];
    has_mark(&head, "etlink ") && keys.into_iter().any(|key| has_mark(&head, key))
}

fn has_content(path: &Path, content: &[u8]) -> Result<bool, RunError> {
    let size = storage::file_data(path)
        .with_path(FileAction::Read, path)?
        .bytes;
    // most are graphs of gigabytes: their size suffices
    if size != content.len() as u64 {
        return Ok(false);
    }
    let found = storage::read(path).with_path(FileAction::Read, path)?;
    Ok(found == content)
}

fn has_mark(head: &[u8], mark: &str) -> bool {
    memmem::find(head, mark.as_bytes()).is_some()
}
