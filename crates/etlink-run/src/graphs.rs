//! Written graphs: the files that `merge` makes of the ranks of a run, `<prefix>.<rank>.et`.

use crate::Progress;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::file_kind::may_be_file;
use crate::input::{self, InputKind};
use crate::output::{Packing, is_work_folder};
use crate::storage;
use etlink_chakra::astra;
use etlink_chakra::convert::GroupList;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the name of a rank's file can end in. Simulators read the first, which comes before the
/// others where a rank has several files.
const ENDINGS: [&str; 2] = [".et", ".json"];

/// Endings of the compressions that [`input::open`] unpacks.
const PACKED: [&str; 2] = [".gz", ".zst"];

/// The written graphs of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphSet {
    /// What the names of all its files begin with, with the folder.
    pub prefix: PathBuf,
    /// The file of each rank.
    pub ranks: BTreeMap<i64, PathBuf>,
}

/// The prefix and the rank of a name such as `<prefix>.<rank>.et`.
pub fn prefix_and_rank(path: &Path) -> Option<(PathBuf, i64)> {
    let name = path.file_name()?.to_str()?;
    let plain = unpacked_name(name);
    let stem = ENDINGS
        .iter()
        .find_map(|ending| plain.strip_suffix(ending))?;
    // the last dot: prefixes are names of folders, which may have dots
    let (prefix, rank) = stem.rsplit_once('.')?;
    // a dot before any number would do else: `loss.-1.json`
    let rank: i64 = rank.parse().ok().filter(|rank| *rank >= 0)?;
    Some((path.with_file_name(prefix), rank))
}

/// A file's name without the ending of a compression.
fn unpacked_name(name: &str) -> &str {
    let stem = PACKED.iter().find_map(|ending| name.strip_suffix(ending));
    stem.unwrap_or(name)
}

/// Chakra traces and merged traces in a folder and its subfolders, sorted. Other JSON is passed
/// by; a file that is named `.et` is one whatever is in it. So are subfolders that cannot be read,
/// which [`unreadable_paths`](crate::discover::unreadable_paths) names.
///
/// # Errors
/// The folder cannot be read, or files in it are being replaced.
pub fn written_files(root: &Path) -> Result<Vec<PathBuf>, RunError> {
    let mut folders = vec![root.to_owned()];
    let mut files = vec![];
    while let Some(folder) = folders.pop() {
        let entries = match storage::list(&folder) {
            // named by `unreadable_paths`; the files beside it are still good
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

/// JSON that lies beside graphs.
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
    // recordings end so too: only the content tells them apart
    plain.ends_with(".json")
        && match input::open(path, 1, &Progress::hidden()) {
            Ok(input) => matches!(input.kind, InputKind::EtPlus | InputKind::ChakraJson),
            // who reads it tells why it cannot be read
            Err(error) => error.into_failed_call().is_some() && !NO_GRAPHS.contains(&plain),
        }
}

/// Whether a file is named as a `.et`, packed or not.
pub fn is_graph_name(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    Packing::of_name(&name).1.ends_with(".et")
}

/// Whether a file is merged JSON (ET+), which can have the traces that it was made from.
pub(crate) fn is_merged(path: &Path) -> bool {
    // a file that is named `.et` is read as one
    !is_graph_name(path)
        && input::open(path, 1, &Progress::hidden())
            .is_ok_and(|input| input.kind == InputKind::EtPlus)
}

/// The runs of written graphs in a folder and its subfolders, by prefix.
///
/// # Errors
/// A folder cannot be read.
pub fn find_graph_sets(folder: &Path) -> Result<Vec<GraphSet>, RunError> {
    Ok(graph_sets(written_files(folder)?))
}

/// Those of merged JSON alone.
///
/// # Errors
/// As those of [`find_graph_sets`].
pub(crate) fn find_merged_sets(folder: &Path) -> Result<Vec<GraphSet>, RunError> {
    let mut files = written_files(folder)?;
    files.retain(|file| is_merged(file));
    Ok(graph_sets(files))
}

fn graph_sets(files: Vec<PathBuf>) -> Vec<GraphSet> {
    let mut sets: BTreeMap<PathBuf, BTreeMap<i64, PathBuf>> = BTreeMap::new();
    for file in files {
        if let Some((prefix, rank)) = prefix_and_rank(&file) {
            // sorted by name: `.et` before its other forms
            let ranks = sets.entry(prefix).or_default();
            ranks.entry(rank).or_insert(file);
        }
    }
    let sets = sets.into_iter();
    sets.map(|(prefix, ranks)| GraphSet { prefix, ranks })
        .collect()
}

/// The groups in the `comm_group.json` beside files of this prefix, if there is one.
///
/// # Errors
/// It cannot be read, or is no list of ranks per group.
pub fn groups_beside(prefix: &Path) -> Result<Option<GroupList>, RunError> {
    // one list for all files of a folder, as simulators take it
    let path = prefix.with_file_name(astra::file::GROUPS);
    if !may_be_file(&path) {
        return Ok(None);
    }
    let text = storage::read(&path).with_path(FileAction::Read, &path)?;
    match etlink_json::from_slice(&text) {
        Ok(groups) => Ok(Some(groups)),
        Err(source) => Err(RunError::GroupList { path, source }),
    }
}

/// The groups of the run that a written graph is of, if they are listed beside it.
///
/// # Errors
/// Those of [`groups_beside`].
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
