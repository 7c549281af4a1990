//! Written graphs: the files `<prefix>.<rank>.et` that `merge` writes for the ranks of a run.

use crate::Progress;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::file_kind::may_be_file;
use crate::input::{self, InputKind};
use crate::output::{Packing, is_work_folder};
use crate::storage;
use crate::text::file_name;
use crate::text::first_ranks;
use etlink_chakra::astra;
use etlink_chakra::convert::GroupList;
use etlink_model::{Diagnostic, Failure, GlobalRank, diagnostic};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

/// Endings of ranks' files. Simulators read the first one, which takes precedence if a rank has
/// several files.
const ENDINGS: [&str; 2] = [".et", ".json"];

/// Endings of the compressions that [`input::open`] unpacks.
const PACKED: [&str; 2] = [".gz", ".zst"];

/// Written graphs of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphSet {
    /// Common prefix of all files, with the folder.
    pub prefix: PathBuf,
    /// File of each rank that is read.
    pub ranks: BTreeMap<i64, PathBuf>,
    /// Other files of ranks that have several, which are not read.
    pub passed_by: BTreeMap<i64, Vec<PathBuf>>,
}

impl GraphSet {
    /// Returns a note on files that are not read because their ranks have several. All commands use
    /// the same rule, so that their answers are based on the same file.
    pub fn passed_by_note(&self) -> Option<Diagnostic> {
        let (rank, others) = self.passed_by.first_key_value()?;
        let taken = self.ranks.get(rank)?;
        let ranks = rank_numbers(&self.passed_by);
        let why = if is_merged(taken) {
            "has the op tree"
        } else {
            "is the graph itself"
        };
        let taken = file_name(taken);
        let others: Vec<String> = others.iter().map(|path| file_name(path)).collect();
        let are_not = match others.len() {
            1 => "is not",
            _ => "are not",
        };
        let others = others.join(" and ");
        let who = match ranks.len() {
            1 => format!("rank {} has", ranks[0]),
            _ => format!("ranks {} have", first_ranks(&ranks)),
        };
        Some(diagnostic!(
            FileLeftOut,
            "{who} several files: {taken} is read because it {why}; {others} {are_not} read"
        ))
    }
}

fn rank_numbers<F>(files: &BTreeMap<i64, F>) -> Vec<GlobalRank> {
    files.keys().map(|rank| GlobalRank(*rank)).collect()
}

/// Returns the prefix and the rank of a name such as `<prefix>.<rank>.et`.
pub fn prefix_and_rank(path: &Path) -> Option<(PathBuf, i64)> {
    let name = path.file_name()?.to_str()?;
    let plain = unpacked_name(name);
    let stem = ENDINGS
        .iter()
        .find_map(|ending| plain.strip_suffix(ending))?;
    // the last dot: prefixes are names of folders, which may contain dots
    let (prefix, rank) = stem.rsplit_once('.')?;
    // otherwise a dot before any number would match: `loss.-1.json`
    let rank: i64 = rank.parse().ok().filter(|rank| *rank >= 0)?;
    Some((path.with_file_name(prefix), rank))
}

/// Returns a file's name without the ending of a compression.
fn unpacked_name(name: &str) -> &str {
    let stem = PACKED.iter().find_map(|ending| name.strip_suffix(ending));
    stem.unwrap_or(name)
}

/// Lists Chakra traces and merged traces in a folder and its subfolders, sorted. Skips other JSON,
/// but takes every file named `.et`, regardless of its content. Skips unreadable subfolders, which
/// [`unreadable_paths`](crate::discover::unreadable_paths) lists.
///
/// # Errors
/// Fails if the folder cannot be read, or files in it are being replaced.
pub fn written_files(root: &Path) -> Result<Vec<PathBuf>, RunError> {
    let mut folders = vec![root.to_owned()];
    let mut files = vec![];
    while let Some(folder) = folders.pop() {
        let entries = match storage::list(&folder) {
            // listed by `unreadable_paths`; the other files are still valid
            Err(_) if folder != root => continue,
            entries => entries.with_path(FileAction::ReadFolder, &folder)?,
        };
        for entry in entries {
            let is_file = entry.may_be_file();
            let path = entry.path;
            if entry.is_folder {
                if !is_work_folder(&path)? {
                    folders.push(path);
                }
            } else if is_file && is_written_graph(&path) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Other JSON files next to graphs.
const NO_GRAPHS: [&str; 4] = [
    astra::file::GROUPS,
    astra::file::SYSTEM,
    astra::file::NETWORK,
    astra::file::MEMORY,
];

fn is_written_graph(path: &Path) -> bool {
    let Some(name) = path.file_name() else {
        return false;
    };
    let name = name.to_string_lossy().to_lowercase();
    let plain = unpacked_name(&name);
    if plain.ends_with(".et") {
        return true;
    }
    // recordings have the same ending: only the content differs
    plain.ends_with(".json")
        && match input::open(path, &Progress::hidden()) {
            Ok(input) => input.kind.is_written_graph(),
            // reading it later reports the error
            Err(error) => error.into_failed_call().is_some() && !NO_GRAPHS.contains(&plain),
        }
}

/// Returns true if a file is named like a `.et`, compressed or not.
pub fn is_graph_name(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    Packing::of_name(&name).1.ends_with(".et")
}

/// Returns true if a file is merged JSON (ET+).
pub(crate) fn is_merged(path: &Path) -> bool {
    // files named `.et` are read as such
    !is_graph_name(path)
        && input::open(path, &Progress::hidden()).is_ok_and(|input| input.kind == InputKind::EtPlus)
}

/// Returns the runs of written graphs in a folder and its subfolders, by prefix. Among several
/// files of a rank, `.et` is taken.
///
/// # Errors
/// Fails if a folder cannot be read.
pub fn find_graph_sets(folder: &Path) -> Result<Vec<GraphSet>, RunError> {
    Ok(graph_sets(written_files(folder)?))
}

pub(crate) fn graph_sets(files: Vec<PathBuf>) -> Vec<GraphSet> {
    let mut sets: BTreeMap<PathBuf, GraphSet> = BTreeMap::new();
    for file in files {
        if let Some((prefix, rank)) = prefix_and_rank(&file) {
            let set = sets.entry(prefix.clone()).or_insert_with(|| GraphSet {
                prefix,
                ..GraphSet::default()
            });
            // sorted by name: `.et` precedes other forms
            match set.ranks.entry(rank) {
                Entry::Vacant(place) => drop(place.insert(file)),
                // plain and compressed copies count as one file
                Entry::Occupied(taken) if is_same_but_packed(taken.get(), &file) => {}
                Entry::Occupied(_) => set.passed_by.entry(rank).or_default().push(file),
            }
        }
    }
    sets.into_values().collect()
}

/// Returns true for a `.et` and its compressed copy. JSON files of one name may be of two kinds.
fn is_same_but_packed(a: &Path, b: &Path) -> bool {
    is_graph_name(a) && unpacked_name(&file_name(a)) == unpacked_name(&file_name(b))
}

/// Returns the groups in the `comm_group.json` next to files of this prefix, if it exists.
///
/// # Errors
/// Fails if the file cannot be read, or is not a list of ranks per group.
pub fn groups_beside(prefix: &Path) -> Result<Option<GroupList>, RunError> {
    // one list for all files of a folder, as simulators require
    let path = prefix.with_file_name(astra::file::GROUPS);
    if !may_be_file(&path) {
        return Ok(None);
    }
    let text = storage::read(&path).with_path(FileAction::Read, &path)?;
    let groups = etlink_json::from_slice(&text).map_err(|cause| {
        let what = ": not a list of ranks per group, such as {\"1\": [0, 1]}";
        Failure::about(path.display(), what).because(cause)
    })?;
    Ok(Some(groups))
}

/// Returns a note if the `system.json` next to files of this prefix turns on a tracker whose
/// attributes etlink does not write.
pub fn tracker_note(prefix: &Path) -> Option<Diagnostic> {
    let path = prefix.with_file_name(astra::file::SYSTEM);
    let text = storage::read(&path).ok()?;
    let system: serde_json::Value = etlink_json::from_slice(&text).ok()?;
    if system.get("track-local-mem")?.as_u64()? == 0 {
        return None;
    }
    let needed = diagnostic!(
        GraphLacks,
        "{} sets track-local-mem, which needs `inputs` and `outputs` attributes in every node; etlink \
         writes none, and no rank would finish",
        path.display()
    );
    Some(needed.advise("set it to 0"))
}

/// Returns the groups of a written graph's run; empty if no list is next to it.
///
/// # Errors
/// Fails like [`groups_beside`].
pub fn groups_of(path: &Path) -> Result<GroupList, RunError> {
    let Some((prefix, _)) = prefix_and_rank(path) else {
        return Ok(GroupList::new());
    };
    Ok(groups_beside(&prefix)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_in_the_names_of_written_graphs() {
        for (name, rank) in [
            ("run.0.et", Some(0)),
            ("run.v2.12.et.gz", Some(12)),
            ("run.3.json.gz", Some(3)),
            ("run.3.json", Some(3)),
            ("run.-1.et", None),
            ("run.et", None),
            ("kineto_trace_0.json", None),
        ] {
            let found = prefix_and_rank(&Path::new("folder").join(name));
            assert_eq!(found.as_ref().map(|(_, rank)| *rank), rank, "{name}");
            if let Some((prefix, _)) = found {
                assert!(prefix.starts_with("folder"), "{name}");
            }
        }
    }
}
