//! Sets of files that belong together, such as the files of all ranks. They replace the files of an
//! earlier run as a whole.

use super::error::OutputError;
use super::journal::{self, Failure, Journal};
use super::objects::WaitingObjects;
use super::packing::packing_of;
use super::work::WorkFolder;
use super::{OutputFormat, OutputPlace, Target, refuse_existing};
use crate::file_error::{FileAction, FileContext};
use crate::interrupt::Changes;
use crate::shard::Shard;
use crate::storage::upload;
use crate::storage::{self, is_url, trimmed};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Name of a set's work folder, shared by all sets in one folder that are not of a shard.
const NAME: &str = "set";

/// The files of a set, in one folder and its subfolders.
#[derive(Debug)]
pub struct FileSet {
    folder: PathBuf,
    /// Folders created for the set, the innermost first.
    made: Vec<PathBuf>,
    overwrite: bool,
    inner: Arc<SetMembers>,
}

/// State that targets share with their set.
#[derive(Debug)]
pub(super) struct SetMembers {
    pub(super) place: SetPlace,
    /// Names of written files, relative to the folder.
    written: Mutex<BTreeSet<String>>,
}

/// Place of a set's files until all are written.
#[derive(Debug)]
pub(super) enum SetPlace {
    Disk(WorkFolder),
    /// A store, which does not show them yet.
    Objects(WaitingObjects),
}

impl SetMembers {
    /// Records a file as complete.
    pub(super) fn add(&self, name: &str) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(name.to_owned());
    }

    /// Returns the path of a file within the work folder until all files are written.
    pub(super) fn new_path(name: &str) -> PathBuf {
        Path::new(journal::NEW).join(name)
    }
}

impl FileSet {
    /// Creates a set in `folder`, and the folder itself. With `overwrite`, it may replace files.
    ///
    /// # Errors
    /// Fails if another process is writing a set there, the folder cannot be written, or an
    /// interrupted replacement cannot be finished.
    pub fn new(folder: &Path, overwrite: bool) -> Result<FileSet, OutputError> {
        FileSet::of_shard(folder, overwrite, Shard::WHOLE)
    }

    /// Like `new`; processes write the sets of other shards into the folder at the same time.
    ///
    /// # Errors
    /// Fails like [`FileSet::new`], if another process is writing the set of the same shard.
    pub fn of_shard(folder: &Path, overwrite: bool, shard: Shard) -> Result<FileSet, OutputError> {
        // `-` is standard output everywhere else; use `./-` for a folder of that name
        if folder.starts_with("-") {
            return Err(OutputError::FolderOnStdout);
        }
        // the folder of a run that is the root itself ends with a slash
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
        let name = match shard {
            Shard::WHOLE => NAME.to_owned(),
            part => format!("{NAME}.{}-of-{}", part.index(), part.count()),
        };
        let work = WorkFolder::claim(&folder, OsStr::new(&name), &folder)?;
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

    /// Returns the folders created for the set, the innermost first.
    pub(crate) fn made_folders(&self) -> &[PathBuf] {
        &self.made
    }

    /// Returns the folder of the set.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates a file of the set. It gets its place when the set is [put in
    /// place](FileSet::replace).
    ///
    /// # Errors
    /// Fails if the file exists and must not be replaced.
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

    /// Removes a written file from the set.
    pub fn discard(&self, name: &str) {
        self.written().remove(name);
        if let SetPlace::Objects(waiting) = &self.inner.place {
            drop(waiting.take(name));
        }
    }

    /// Returns true if a file of this name was written.
    pub fn has(&self, name: &str) -> bool {
        self.written().contains(name)
    }

    /// Returns true if no file was written.
    pub fn is_empty(&self) -> bool {
        self.written().is_empty()
    }

    /// Moves all written files into place and removes `earlier` ones: all or nothing.
    ///
    /// # Errors
    /// Fails if a file cannot be moved. Then everything is unchanged, or the next set in the folder
    /// finishes the replacement; the error states which.
    pub fn replace(&self, earlier: Vec<String>) -> Result<(), OutputError> {
        let written: Vec<String> = self.written().iter().cloned().collect();
        // an empty replacement needs no journal, which the next run would have to read
        if written.is_empty() && earlier.is_empty() {
            return Ok(());
        }
        // checked again: hours may have passed since the first check
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
                // the next run needs the journal to finish the replacement
                work.keep();
                Err(OutputError::PartlyReplaced {
                    folder: self.folder.clone(),
                    source: Box::new(error),
                })
            }
        }
    }

    /// Replaces objects. A store cannot rename, so objects become visible one by one, but only
    /// after all of them are uploaded.
    fn replace_objects(
        &self,
        waiting: &WaitingObjects,
        written: &[String],
        earlier: &[String],
    ) -> Result<(), OutputError> {
        // held, so that a signal ends the program before or after all of them
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
