//! Files found in a folder, kept in the cache: detecting the kinds of all files of two thousand ranks
//! takes longer than linking some of them.

use crate::discover::is_lost_and_found;
use crate::error::RunError;
use crate::manifest::MANIFEST;
use crate::output::is_work_folder;
use crate::read_cache::{ReadCache, is_settled};
use crate::run_files::RunFiles;
use crate::storage::{self, FileData, StoredKind};
use crate::stored::{read_stored, write_stored};
use borsh::{BorshDeserialize, BorshSerialize};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Runs found in a folder.
#[derive(BorshSerialize, BorshDeserialize)]
struct Listing {
    #[borsh(serialize_with = "write_stored", deserialize_with = "read_stored")]
    runs: Vec<RunFiles>,
}

/// Returns the runs of a folder: the cached ones if no file of the folder has changed since, or else
/// those that `find` returns. Written graphs are not cached.
///
/// # Errors
/// Returns the errors of `find`.
pub(crate) fn listed_runs(
    cache: &ReadCache,
    folder: &Path,
    find: impl FnOnce() -> Result<Vec<RunFiles>, RunError>,
) -> Result<Vec<RunFiles>, RunError> {
    let has_graphs = Cell::new(false);
    let facts = || {
        // whether graphs are taken depends on the command
        if has_graphs.get() {
            return None;
        }
        folder_state(folder).map(|state| format!("{state:016x}"))
    };
    let found = cache.listing(folder, facts, || {
        let runs = find()?;
        has_graphs.set(runs.iter().any(|run| run.prefix.is_some()));
        Ok(Listing { runs })
    })?;
    Ok(found.runs)
}

/// Returns a hash of the states of all files in a folder and its subfolders. `None` if a part cannot
/// be listed, or a file may change again without having another state. O(files).
fn folder_state(root: &Path) -> Option<u64> {
    let mut files: BTreeMap<PathBuf, FileData> = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match storage::list(&folder) {
            Ok(entries) => entries,
            Err(_) if is_lost_and_found(&folder) => continue,
            Err(_) => return None,
        };
        for entry in entries {
            if !entry.is_folder {
                files.insert(entry.path.clone(), entry.data().ok()?);
            } else if !is_work_folder(&entry.path).ok()? {
                folders.push(entry.path);
            }
        }
    }
    // the manifest of a cycle is in the folder above it
    let place = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    if let Some(manifest) = place.parent().map(|parent| parent.join(MANIFEST))
        && let Ok(data) = storage::file_data(&manifest)
    {
        files.insert(manifest, data);
    }
    files.retain(|_, data| data.kind == StoredKind::File);
    let mut hasher = DefaultHasher::new();
    for (path, data) in &files {
        if !is_settled(path, data) {
            return None;
        }
        (path, data.bytes, data.changed, data.tag).hash(&mut hasher);
    }
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    /// Returns the number of ranks in a folder, and true if the folder was searched.
    fn found(cache: &ReadCache, folder: &Path) -> (usize, bool) {
        let is_searched = Cell::new(false);
        let runs = listed_runs(cache, folder, || {
            is_searched.set(true);
            crate::discover::discover(folder)
        });
        (runs.expect("found")[0].ranks.len(), is_searched.get())
    }

    fn write_trace(path: &Path, number: u32, seconds: u64) {
        let trace = format!(
            "{{\"schemaVersion\": 1, \"traceEvents\": [], \"distributedInfo\": {{\"rank\": {number}}}}}"
        );
        fs::write(path, trace).expect("written");
        let file = File::options().append(true).open(path).expect("opens");
        let then = SystemTime::now() - Duration::from_secs(seconds);
        file.set_modified(then).expect("changes its time");
    }

    #[test]
    fn a_folder_is_searched_again_where_a_file_has_changed() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("run");
        let cache = ReadCache::new(place.path().join("cache")).with_results("one".to_owned());
        fs::create_dir(&folder).expect("a folder");
        write_trace(&folder.join("kineto_trace_0.json"), 0, 60);
        assert_eq!(found(&cache, &folder), (1, true));
        assert_eq!(found(&cache, &folder), (1, false));
        write_trace(&folder.join("kineto_trace_1.json"), 1, 60);
        assert_eq!(found(&cache, &folder), (2, true));
        assert_eq!(found(&cache, &folder), (2, false));
        // the same size, and another rank
        write_trace(&folder.join("kineto_trace_1.json"), 2, 50);
        assert_eq!(found(&cache, &folder), (2, true));
        // a file that may change again at the same time
        write_trace(&folder.join("kineto_trace_1.json"), 1, 0);
        assert_eq!(found(&cache, &folder), (2, true));
        // another folder
        let other = place.path().join("other");
        fs::create_dir(&other).expect("a folder");
        write_trace(&other.join("kineto_trace_0.json"), 0, 60);
        assert_eq!(found(&cache, &other), (1, true));
    }

    #[test]
    fn a_damaged_listing_is_none() {
        let place = tempfile::tempdir().expect("a folder");
        let (folder, kept) = (place.path().join("run"), place.path().join("cache"));
        let cache = ReadCache::new(kept.clone()).with_results("one".to_owned());
        fs::create_dir(&folder).expect("a folder");
        write_trace(&folder.join("kineto_trace_0.json"), 0, 60);
        found(&cache, &folder);
        let entry = kept.read_dir().expect("a folder").next();
        let path = entry.expect("an entry").expect("a name").path();
        let mut bytes = fs::read(&path).expect("read");
        bytes.truncate(bytes.len() - 9);
        fs::write(&path, bytes).expect("written");
        assert_eq!(found(&cache, &folder), (1, true));
        assert_eq!(found(&cache, &folder), (1, false));
    }
}
