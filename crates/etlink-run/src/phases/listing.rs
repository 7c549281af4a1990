//! Files found in a folder, stored for other shards: detecting the kinds of all files of two
//! thousand ranks takes a shard longer than linking some of them.

use super::files::{ShardFiles, pack};
use super::shard::Shard;
use crate::discover::is_lost_and_found;
use crate::error::RunError;
use crate::manifest::MANIFEST;
use crate::output::is_work_folder;
use crate::run_files::RunFiles;
use crate::storage::{self, FileData, FolderEntry, StoredKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Version of the file, increased whenever its content changes.
const VERSION: u32 = 2;

/// Stored size of a file, and its modification time in ns since the Unix epoch. Both are zero if
/// the system does not return them; reading the file then fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileState {
    bytes: u64,
    changed_ns: u64,
}

impl FileState {
    /// Returns the current state of a file.
    pub(crate) fn of(path: &Path) -> FileState {
        storage::file_data(path).map_or(FileState::default(), FileState::from)
    }

    /// Describes the change since this state, as the end of a sentence about the file.
    pub(crate) fn change(&self, now: &FileState) -> Option<String> {
        if self.bytes != now.bytes {
            return Some(format!(
                "had {} bytes and has {} now",
                self.bytes, now.bytes
            ));
        }
        let is_other = self.changed_ns != now.changed_ns;
        is_other.then(|| "has another time of its last change, and the same size".to_owned())
    }
}

impl From<FileData> for FileState {
    fn from(data: FileData) -> FileState {
        let since = data
            .changed
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        // 2^64 ns are 584 years
        let changed_ns = since.map_or(0, |since| since.as_nanos() as u64);
        FileState {
            bytes: data.bytes,
            changed_ns,
        }
    }
}

/// States of all files in a folder and its subfolders, without their contents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FolderState {
    files: BTreeMap<PathBuf, FileState>,
    /// True if a subfolder cannot be listed.
    is_partial: bool,
}

impl FolderState {
    /// Lists a folder and its subfolders; unreadable ones count as empty. O(files).
    pub(crate) fn of(root: &Path) -> FolderState {
        let mut state = FolderState::default();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = storage::list(&folder) else {
                state.is_partial |= !is_lost_and_found(&folder);
                continue;
            };
            for entry in entries {
                if !entry.is_folder {
                    state.add(&entry);
                } else if !is_work_folder(&entry.path).unwrap_or(true) {
                    folders.push(entry.path);
                }
            }
        }
        // the manifest of a cycle is in the folder above it
        let place = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        if let Some(manifest) = place.parent().map(|parent| parent.join(MANIFEST)) {
            let found = FileState::of(&manifest);
            state.files.insert(manifest, found);
        }
        state
    }

    fn add(&mut self, entry: &FolderEntry) {
        if let Ok(data) = entry.data()
            && data.kind == StoredKind::File
        {
            self.files.insert(entry.path.clone(), data.into());
        }
    }

    /// Returns the state of a file: as listed for files of the folder, or the current one for
    /// others.
    pub(crate) fn file(&self, path: &Path) -> FileState {
        let listed = self.files.get(path).copied();
        listed.unwrap_or_else(|| FileState::of(path))
    }
}

/// Runs found in a folder.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunListing {
    folder: PathBuf,
    state: FolderState,
    /// True if written graphs were skipped.
    traces_only: bool,
    runs: Vec<RunFiles>,
}

impl RunListing {
    /// Returns the runs of a folder in this state. Uses the listing that another shard has stored
    /// in the folder of the phases, if nothing has changed since. Otherwise calls `find` and stores
    /// its result.
    ///
    /// # Errors
    /// Returns the errors of `find`.
    pub(crate) fn runs(
        phases: &Path,
        folder: &Path,
        state: &FolderState,
        traces_only: bool,
        find: impl FnOnce() -> Result<Vec<RunFiles>, RunError>,
    ) -> Result<Vec<RunFiles>, RunError> {
        if let Some(listing) = RunListing::read(phases)
            && listing.is_of(folder, state, traces_only)
        {
            return Ok(listing.runs);
        }
        let listing = RunListing {
            folder: folder.to_owned(),
            state: state.clone(),
            traces_only,
            runs: find()?,
        };
        if !state.is_partial {
            // the listing only saves time: a failing write will be reported when there are results
            let _ = listing.write(phases);
        }
        Ok(listing.runs)
    }

    fn is_of(&self, folder: &Path, state: &FolderState, traces_only: bool) -> bool {
        let has_graphs = self.runs.iter().any(|run| run.prefix.is_some());
        self.folder == folder
            && self.state == *state
            && (self.traces_only == traces_only || !has_graphs)
    }

    /// Reads the stored listing; `None` if there is none of this version.
    fn read(phases: &Path) -> Option<RunListing> {
        let json = files(phases).read_packed(Shard::WHOLE).ok()?;
        serde_json::from_slice(&json).ok()
    }

    fn write(&self, phases: &Path) -> io::Result<()> {
        // JSON cannot contain paths that are not Unicode
        let json = serde_json::to_vec(self)?;
        let packed = pack(&json)?;
        let written = files(phases).write_with(Shard::WHOLE, |out| out.write_all(&packed));
        written.map(drop).map_err(io::Error::other)
    }

    /// Returns the path of the listing in the folder of the phases.
    pub(crate) fn path(phases: &Path) -> PathBuf {
        files(phases).path(Shard::WHOLE)
    }

    /// Removes the stored listing.
    ///
    /// # Errors
    /// Fails if the folder cannot be listed or the listing cannot be removed.
    pub(crate) fn remove(phases: &Path) -> Result<(), RunError> {
        let files = files(phases);
        for shard in files.shards()? {
            files.remove(shard)?;
        }
        Ok(())
    }
}

fn files(phases: &Path) -> ShardFiles<'_> {
    ShardFiles {
        folder: phases,
        stem: "listing",
        version: VERSION,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;

    /// Returns the runs of a folder, and true if the folder was searched.
    fn found(phases: &Path, folder: &Path, traces_only: bool) -> (Vec<RunFiles>, bool) {
        let is_searched = Cell::new(false);
        let state = FolderState::of(folder);
        let runs = RunListing::runs(phases, folder, &state, traces_only, || {
            is_searched.set(true);
            crate::discover::discover(folder)
        });
        (runs.expect("found"), is_searched.get())
    }

    fn trace(number: u32) -> String {
        format!(
            "{{\"schemaVersion\": 1, \"traceEvents\": [], \"distributedInfo\": {{\"rank\": {number}}}}}"
        )
    }

    #[test]
    fn a_folder_is_searched_again_where_a_file_has_changed() {
        let place = tempfile::tempdir().expect("a folder");
        let (folder, phases) = (place.path().join("run"), place.path().join("phases"));
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("kineto_trace_0.json"), trace(0)).expect("written");
        let (first, is_searched) = found(&phases, &folder, true);
        assert!(is_searched);
        for traces_only in [true, false] {
            let (again, is_searched) = found(&phases, &folder, traces_only);
            assert!(!is_searched);
            assert_eq!(again[0].ranks, first[0].ranks);
            assert_eq!(again[0].notes, first[0].notes);
        }
        fs::write(folder.join("kineto_trace_1.json"), trace(1)).expect("written");
        let (more, is_searched) = found(&phases, &folder, true);
        assert!(is_searched);
        assert_eq!(more[0].ranks.len(), 2);
        // another folder, with the same folder of phases
        fs::create_dir(place.path().join("other")).expect("a folder");
        let copy = place.path().join("other/kineto_trace_0.json");
        fs::write(copy, trace(0)).expect("written");
        assert!(found(&phases, &place.path().join("other"), true).1);
        RunListing::remove(&phases).expect("removed");
        assert!(!RunListing::path(&phases).exists());
    }

    #[test]
    fn a_damaged_listing_is_none() {
        let place = tempfile::tempdir().expect("a folder");
        let (folder, phases) = (place.path().join("run"), place.path().join("phases"));
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("kineto_trace_0.json"), trace(0)).expect("written");
        found(&phases, &folder, true);
        let path = RunListing::path(&phases);
        let mut bytes = fs::read(&path).expect("read");
        bytes.truncate(bytes.len() - 9);
        fs::write(&path, bytes).expect("written");
        let (runs, is_searched) = found(&phases, &folder, true);
        assert!(is_searched);
        assert_eq!(runs[0].ranks.len(), 1);
        assert!(!found(&phases, &folder, true).1);
    }
}
