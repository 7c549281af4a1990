//! What an earlier run left in the folder of a run.

use super::{MergeOptions, names, simulator};
use crate::file_error::{FileAction, FileContext};
use crate::graphs::{is_graph_name, prefix_and_rank};
use crate::input::InputError;
use crate::output::{FileSet, OutputError, OutputFormat, Packing};
use crate::storage;
use crate::text::file_name;
use crate::{Progress, input};
use etlink_chakra::astra::{self, file};
use etlink_perfetto::PerfettoOrigin;
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// All formats say within this who wrote them.
const HEAD_BYTES: u64 = 4096;

/// Names of the files that go when a run replaces an earlier one as a whole.
#[derive(Debug, Default)]
pub(crate) struct EarlierFiles {
    /// One for each rank, or the one of all.
    pub(crate) ranks: Vec<String>,
    /// Of ranks that were not joined with the others.
    pub(crate) not_joined: Vec<String>,
    /// The list of process groups.
    pub(crate) groups: Option<String>,
    /// What only a simulator reads.
    pub(crate) simulator: Vec<String>,
    /// A file of a rank of another run, which the list of groups and the simulator's files are of.
    other_run: Option<PathBuf>,
}

impl EarlierFiles {
    /// Looks for them; `name` is what files of ranks begin with, `outputs` are the names of those
    /// that will be written, of ranks or of the file of all. `knows_groups`: the list of groups is
    /// ours although no graph of ours lies beside it yet.
    ///
    /// # Errors
    /// If a file is named like one that may be written, but is not ours.
    pub(crate) fn find(
        options: &MergeOptions,
        folder: &Path,
        name: &str,
        outputs: &BTreeSet<String>,
        knows_groups: bool,
    ) -> Result<EarlierFiles, OutputError> {
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
                // a name alone is no reason to replace a file: somebody may have drawn or packed it
                if !is_ours(&path) {
                    return Err(OutputError::NotOurs { path });
                }
                earlier.ranks.push(file_name.to_owned());
            // other formats have no list of groups: one that lies there is of somebody else
            } else if options.is_et() && file_name == file::GROUPS {
                earlier.groups = Some(file_name.to_owned());
            } else if is_packed_rank(options, &path, name) {
                // a packed file that is not as we pack is somebody's copy
                if is_packed_by_us(&path) && is_ours(&path) {
                    earlier.ranks.push(file_name.to_owned());
                }
            } else if is_of_rank(options, &path, file_name, name) {
                // traces of that name may lie there, and nobody takes them for ranks of this set
                if !options.is_et() && !is_ours(&path) {
                    continue;
                }
                if !is_ours(&path) {
                    return Err(OutputError::NotOurs { path });
                }
                earlier.ranks.push(file_name.to_owned());
            } else if let Some(joined) = names::joined_name(file_name)
                && is_named(options, &path.with_file_name(joined), name)
            {
                if !is_ours(&path) {
                    return Err(OutputError::NotOurs { path });
                }
                earlier.not_joined.push(file_name.to_owned());
            } else if is_graph_name(&path) {
                other_graphs.push(path);
            }
        }
        // JSON has no mark of its writer: the list is ours where our graphs are. They may have the
        // name of another folder, from which they were merged before it was renamed
        let has_graphs = !earlier.ranks.is_empty() || other_graphs.iter().any(|path| is_ours(path));
        if !has_graphs
            && !knows_groups
            && let Some(groups) = earlier.groups.as_ref()
        {
            let path = folder.join(groups);
            return Err(OutputError::NotOurs { path });
        }
        // folders are listed in any order, and a message names the first
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

    /// What goes beside the files of ranks. What another run's ranks need stays.
    pub(super) fn beside(&self) -> impl Iterator<Item = &String> + Clone {
        let (groups, simulator) = if self.other_run.is_none() {
            (self.groups.as_ref(), &self.simulator[..])
        } else {
            (None, &[][..])
        };
        groups.into_iter().chain(simulator)
    }

    /// Whether the files of a simulation would replace those that another run's ranks need.
    ///
    /// # Errors
    /// They would.
    pub(super) fn check_other_run(&self, folder: &Path) -> Result<(), OutputError> {
        match (&self.other_run, self.simulator.first()) {
            (Some(other), Some(name)) => Err(OutputError::BesideOtherRun {
                path: folder.join(name),
                other: file_name(other),
            }),
            _ => Ok(()),
        }
    }

    /// Whether files of ranks that stay are part of another simulation.
    ///
    /// # Errors
    /// They are.
    pub(super) fn check_simulation(
        &self,
        folder: &Path,
        outputs: &BTreeSet<String>,
    ) -> Result<(), OutputError> {
        let idle = astra::idle_rank();
        for name in &self.ranks {
            let path = folder.join(name);
            // what an idle rank of an earlier run was is as good as what would be written
            if !outputs.contains(name) && !has_content(&path, &idle)? {
                return Err(OutputError::SimulatedWithOthers { path });
            }
        }
        Ok(())
    }

    /// Whether a part of the ranks would make a rank of the earlier run of one that was not joined
    /// with it. `joined`: the files of the part's ranks that are joined now. One of them that was
    /// joined before vouches for the others.
    ///
    /// # Errors
    /// It would.
    pub(super) fn check_part(
        &self,
        folder: &Path,
        joined: &BTreeSet<String>,
    ) -> Result<(), OutputError> {
        // merged JSON of both kinds is among the files of ranks
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
                let path = folder.join(file);
                Err(OutputError::NotJoinedBefore { path })
            }
            None => Ok(()),
        }
    }

    /// Whether files that stay would have another list of groups: those of another run, and where
    /// `is_part` of the ranks was written, those of the other ranks.
    ///
    /// # Errors
    /// They would.
    pub(super) fn check_groups(
        &self,
        set: &FileSet,
        groups: &BTreeMap<u32, Vec<u64>>,
        is_part: bool,
    ) -> Result<(), OutputError> {
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
        // groups are numbered among those of the ranks at hand: a number may mean another group
        match &self.other_run {
            _ if before == after => Ok(()),
            Some(other) => Err(OutputError::BesideOtherRun {
                path,
                other: file_name(other),
            }),
            None => Err(OutputError::GroupsOfOthers { path }),
        }
    }
}

/// Whether a graph is named as that of a rank of another run.
fn is_of_other_run(path: &Path, name: &str) -> bool {
    prefix_and_rank(path).is_some_and(|(prefix, _)| !prefix.ends_with(name))
}

/// Whether a file has the name that one of a rank has which is joined, packed or not.
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

/// Whether a file is named like a rank's, with the ending of a compression.
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

/// Whether etlink wrote a file: `.et` says it in its first message, merged JSON before its nodes,
/// what Perfetto reads before its events.
pub(super) fn is_ours(path: &Path) -> bool {
    let input = match input::open(path, &Progress::hidden()) {
        Ok(input) => input,
        // a timeline is no input
        Err(InputError::Perfetto { origin, .. }) => return origin != PerfettoOrigin::Foreign,
        Err(_) => return false,
    };
    // its content is read as the recording, which says nothing of etlink
    if input.is_read_back {
        return true;
    }
    let mut head = vec![];
    // what is cut says it too
    drop(input.content.take(HEAD_BYTES).read_to_end(&mut head));
    // two marks: `etlink ` alone may be a name in anybody's trace
    let keys = ["writer", "linked_by", "written_by"];
    has_mark(&head, "etlink ") && keys.into_iter().any(|key| has_mark(&head, key))
}

fn has_content(path: &Path, content: &[u8]) -> Result<bool, OutputError> {
    let size = storage::file_data(path)
        .with_path(FileAction::Read, path)?
        .bytes;
    // most are graphs of gigabytes: their size says enough
    if size != content.len() as u64 {
        return Ok(false);
    }
    let found = storage::read(path).with_path(FileAction::Read, path)?;
    Ok(found == content)
}

fn has_mark(head: &[u8], mark: &str) -> bool {
    memmem::find(head, mark.as_bytes()).is_some()
}
