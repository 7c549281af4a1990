//! Files that belong together, such as those of all ranks: they replace those of an earlier run as
//! a whole.

use super::error::OutputError;
use super::journal::{self, Failure, Journal};
use super::objects::WaitingObjects;
use super::packing::packing_of;
use super::work::WorkFolder;
use super::{OutputFormat, OutputPlace, Target, refuse_existing};
use crate::file_error::{FileAction, FileContext};
use crate::interrupt::Changes;
use crate::storage::upload;
use crate::storage::{self, is_url, trimmed};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The work folder of a set is named by this: all sets in one folder share it.
const NAME: &str = "set";

/// The files of a set in one folder and its subfolders.
#[derive(Debug)]
pub struct FileSet {
    folder: PathBuf,
    /// Folders that were made for it, the innermost first.
    made: Vec<PathBuf>,
    overwrite: bool,
    inner: Arc<SetMembers>,
}

/// What targets share with their set.
#[derive(Debug)]
pub(super) struct SetMembers {
    pub(super) place: SetPlace,
    /// Files that are written, by their names within the folder.
    written: Mutex<BTreeSet<String>>,
}

/// Where the files of a set are until all are written.
#[derive(Debug)]
pub(super) enum SetPlace {
    Disk(WorkFolder),
    /// In a store, which does not show them yet.
    Objects(WaitingObjects),
}

impl SetMembers {
    /// A file of this name is whole.
    pub(super) fn add(&self, name: &str) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(name.to_owned());
    }

    /// Where a file lies until all are written, within the work folder.
    pub(super) fn new_path(name: &str) -> PathBuf {
        Path::new(journal::NEW).join(name)
    }
}

impl FileSet {
    /// A set in `folder`, which is made. With `overwrite` it may replace files.
    ///
    /// # Errors
    /// If another process writes a set there, the folder cannot be written, or the replacement that
    /// an earlier run began cannot be finished.
    pub fn new(folder: &Path, overwrite: bool) -> Result<FileSet, OutputError> {
        // `-` is standard output everywhere else; a folder of that name is `./-`
        if folder.starts_with("-") {
            return Err(OutputError::FolderOnStdout);
        }
        // the folder of a run that is the root itself ends with a stroke
        let folder = trimmed(folder);
        if is_url(&folder) {
            upload::check_writable(&folder).with_path(FileAction::Write, &folder)?;
            return Ok(FileSet {
                folder,
                made: vec![],
                overwrite,
                inner: Arc::new(SetMembers {
                    place: SetPlace::Objects(WaitingObjects::default()),
                    written: Mutex::new(BTreeSet::new()),
                }),
            });
        }
        let missing = folder.ancestors().take_while(|folder| !folder.exists());
        let made = missing.map(Path::to_owned).collect();
        std::fs::create_dir_all(&folder).with_path(FileAction::MakeFolder, &folder)?;
        let work = WorkFolder::claim(&folder, OsStr::new(NAME), &folder)?;
        Ok(FileSet {
            folder,
            made,
            overwrite,
            inner: Arc::new(SetMembers {
                place: SetPlace::Disk(work),
                written: Mutex::new(BTreeSet::new()),
            }),
        })
    }

    /// The folders that were made for it, the innermost first.
    pub(crate) fn made_folders(&self) -> &[PathBuf] {
        &self.made
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file of the set. It has its place when the set is [put in place](FileSet::replace).
    ///
    /// # Errors
    /// If it is there already and must not be replaced.
    pub fn target(&self, name: &str, format: OutputFormat) -> Result<Target, OutputError> {
        let path = self.folder.join(name);
        refuse_existing(&path, &path, self.overwrite)?;
        Ok(Target {
            packing: packing_of(&path),
            path,
            format,
            overwrite: self.overwrite,
            place: OutputPlace::Member {
                set: Arc::clone(&self.inner),
                name: name.to_owned(),
            },
        })
    }

    /// Leaves out a file that was written.
    pub fn discard(&self, name: &str) {
        self.written().remove(name);
        if let SetPlace::Objects(waiting) = &self.inner.place {
            drop(waiting.take(name));
        }
    }

    /// Whether a file of this name was written.
    pub fn has(&self, name: &str) -> bool {
        self.written().contains(name)
    }

    /// Whether no file was written.
    pub fn is_empty(&self) -> bool {
        self.written().is_empty()
    }

    /// Gives all files that were written their places, and removes `earlier` ones: all or nothing.
    ///
    /// # Errors
    /// If a place cannot be taken. Then all is as before, or the next set in the folder finishes
    /// it; the error says which.
    pub fn replace(&self, earlier: Vec<String>) -> Result<(), OutputError> {
        let written: Vec<String> = self.written().iter().cloned().collect();
        // nothing to replace needs no journal, which the next run would have to look at
        if written.is_empty() && earlier.is_empty() {
            return Ok(());
        }
        // looked at again: hours may lie between the first look and this
        for name in &written {
            let path = self.folder.join(name);
            refuse_existing(&path, &path, self.overwrite)?;
        }
        let work = match &self.inner.place {
            SetPlace::Disk(work) => work,
            SetPlace::Objects(waiting) => {
                return self.replace_objects(waiting, &written, &earlier);
            }
        };
        let journal = Journal::new(written, earlier, self.overwrite);
        let changes = Changes::begin();
        match journal::replace(&journal, work.path(), &self.folder, &changes) {
            Ok(()) => Ok(()),
            Err(Failure::Undone(error)) => Err(OutputError::NothingReplaced {
                folder: self.folder.clone(),
                source: Box::new(error),
            }),
            Err(Failure::Cut(error)) => {
                // the journal is all that the next run has to finish it by
                work.keep();
                Err(OutputError::PartlyReplaced {
                    folder: self.folder.clone(),
                    source: Box::new(error),
                })
            }
        }
    }

    /// A store has no names to change: each object comes at once, and they come one by one. None
    /// does before all have their content there.
    fn replace_objects(
        &self,
        waiting: &WaitingObjects,
        written: &[String],
        earlier: &[String],
    ) -> Result<(), OutputError> {
        // held, so that a signal ends the program before all of them or behind
        let _changes = Changes::begin();
        let (done, failed) = waiting.commit(&self.folder, written, self.overwrite);
        let stale: &[_] = if failed.is_none() { earlier } else { &[] };
        let removed = stale.iter().try_for_each(|name| {
            let path = self.folder.join(name);
            let removed = storage::remove(&path).with_path(FileAction::RemoveEarlier, &path);
            removed.map_err(OutputError::from)
        });
        let Some(error) = failed.or(removed.err()) else {
            return Ok(());
        };
        let (folder, source) = (self.folder.clone(), Box::new(error));
        Err(match done {
            0 => OutputError::NothingReplaced { folder, source },
            _ => OutputError::SomeObjects {
                folder,
                done,
                all: written.len(),
                source,
            },
        })
    }

    fn written(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.inner
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
