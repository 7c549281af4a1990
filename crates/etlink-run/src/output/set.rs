//! Sets of files that belong together, such as the files of all ranks. They replace the files of an
//! earlier run as a whole.

use super::objects::WaitingObjects;
use super::packing::packing_of;
use super::work::WorkFolder;
use super::{OutputFormat, OutputPlace, Target, disk, refuse_existing};
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::interrupt::Changes;
use crate::shard::Shard;
use crate::storage::upload;
use crate::storage::{self, is_url, trimmed};
use etlink_model::{Failure, Setting};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Name of a set's work folder, shared by all sets in one folder that are not of a shard.
const NAME: &str = "set";
/// Folder of the new files, in the work folder.
const NEW: &str = "new";

/// The files of a set, in one folder and its subfolders.
#[derive(Debug)]
pub struct FileSet {
    folder: PathBuf,
    /// Folders created for the set, the innermost first.
    made: Vec<PathBuf>,
    overwrite: bool,
    /// Part of a run that the set contains.
    shard: Shard,
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
        Path::new(NEW).join(name)
    }
}

impl FileSet {
    /// Creates a set in `folder`, and the folder itself. With `overwrite`, it may replace files.
    ///
    /// # Errors
    /// Fails if another process is writing a set there, or the folder cannot be written.
    pub fn new(folder: &Path, overwrite: bool) -> Result<FileSet, RunError> {
        FileSet::of_shard(folder, overwrite, Shard::WHOLE)
    }

    /// Like `new`; processes write the sets of other shards into the folder at the same time.
    ///
    /// # Errors
    /// Fails like [`FileSet::new`], if another process is writing the set of the same shard.
    pub fn of_shard(folder: &Path, overwrite: bool, shard: Shard) -> Result<FileSet, RunError> {
        // `-` is standard output everywhere else; use `./-` for a folder of that name
        if folder.starts_with("-") {
            let problem = Failure::new("standard output cannot take several files");
            return Err(problem.advise("give a folder").into());
        }
        if storage::is_archive_name(folder) {
            let failure = Failure::about(
                trimmed(folder).display(),
                " would be a folder, not an archive",
            );
            let remedy = "give the name of a folder, and pack it afterwards";
            return Err(failure.advise(remedy).into());
        }
        // the folder of a run that is the root itself ends with a slash
        let folder = trimmed(folder);
        let mut made = vec![];
        let place = if is_url(&folder) {
            upload::check_writable(&folder).with_path(FileAction::Write, &folder)?;
            SetPlace::Objects(WaitingObjects::default())
        } else {
            let missing = folder.ancestors().take_while(|folder| !folder.exists());
            made.extend(missing.map(Path::to_owned));
            std::fs::create_dir_all(&folder).with_path(FileAction::MakeFolder, &folder)?;
            let name = match shard {
                Shard::WHOLE => NAME.to_owned(),
                part => format!("{NAME}.{}-of-{}", part.index(), part.count()),
            };
            SetPlace::Disk(WorkFolder::claim(&folder, OsStr::new(&name), &folder)?)
        };
        Ok(FileSet {
            folder,
            made,
            overwrite,
            shard,
            inner: Arc::new(SetMembers {
                place,
                written: Mutex::default(),
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
    pub fn target(&self, name: &str, format: OutputFormat) -> Result<Target, RunError> {
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

    /// Moves all written files into place and removes `earlier` ones.
    ///
    /// # Errors
    /// Fails if a file cannot be moved. Then everything is unchanged, or the folder is refused until
    /// a set replaces its files; the error states which.
    pub fn replace(&self, earlier: Vec<String>) -> Result<(), RunError> {
        let written: Vec<String> = self.written().iter().cloned().collect();
        if written.is_empty() && earlier.is_empty() {
            return Ok(());
        }
        // checked again: hours may have passed since the first check
        for name in &written {
            let path = self.folder.join(name);
            refuse_existing(&path, &path, self.overwrite)?;
        }
        match &self.inner.place {
            SetPlace::Disk(work) => self.replace_files(work, &written, &earlier),
            SetPlace::Objects(waiting) => self.replace_objects(waiting, &written, &earlier),
        }
    }

    fn replace_files(
        &self,
        work: &WorkFolder,
        written: &[String],
        earlier: &[String],
    ) -> Result<(), RunError> {
        let changes = Changes::begin();
        // an interrupted run has left files of two runs
        let mut changed = work.is_marked();
        let moved = self.move_files(work, written, earlier, &mut changed);
        drop(changes);
        let Err(error) = moved else {
            if self.shard == Shard::WHOLE {
                work.unmark_others(&self.folder);
            }
            return Ok(());
        };
        let folder = self.folder.display();
        let problem = if !changed && work.unmark().is_ok() {
            format!("nothing in {folder} was replaced")
        } else {
            format!(
                "{folder}: not all files are replaced; fix the cause and repeat the command with {}",
                Setting::Overwrite
            )
        };
        Err(Failure::new(problem).because(error).into())
    }

    /// Moves and removes the files. Sets `changed` at the first change that is visible in the
    /// folder.
    fn move_files(
        &self,
        work: &WorkFolder,
        written: &[String],
        earlier: &[String],
        changed: &mut bool,
    ) -> Result<(), RunError> {
        work.mark()
            .with_path(FileAction::WriteInFolder, work.path())?;
        let mut folders = BTreeSet::from([self.folder.clone()]);
        for name in written {
            let (new, path) = (
                work.path().join(SetMembers::new_path(name)),
                self.folder.join(name),
            );
            let in_place = FileAction::PutInPlace;
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).with_path(in_place, &path)?;
                folders.insert(parent.to_owned());
            }
            disk::put(&new, &path, self.overwrite).with_path(in_place, &path)?;
            *changed = true;
        }
        for name in earlier {
            let path = self.folder.join(name);
            disk::remove_file(&path).with_path(FileAction::RemoveEarlier, &path)?;
            *changed = true;
        }
        // before the mark is removed: after a crash, an unfinished renaming would be forgotten
        for folder in folders {
            disk::sync_folder(&folder).with_path(FileAction::WriteFolder, &folder)?;
        }
        Ok(work.unmark().with_path(FileAction::Clear, work.path())?)
    }

    /// Replaces objects. A store cannot rename, so objects become visible one by one, but only
    /// after all of them are uploaded.
    fn replace_objects(
        &self,
        waiting: &WaitingObjects,
        written: &[String],
        earlier: &[String],
    ) -> Result<(), RunError> {
        // held, so that a signal ends the program before or after all of them
        let _changes = Changes::begin();
        let (done, failed) = waiting.commit(&self.folder, written, self.overwrite);
        let stale: &[_] = if failed.is_none() { earlier } else { &[] };
        let removed = stale.iter().try_for_each(|name| {
            let path = self.folder.join(name);
            let removed = storage::remove(&path).with_path(FileAction::RemoveEarlier, &path);
            removed.map_err(RunError::from)
        });
        let Some(error) = failed.or(removed.err()) else {
            return Ok(());
        };
        let folder = self.folder.display();
        let problem = match done {
            0 => format!("nothing in {folder} was replaced"),
            _ => format!(
                "{folder}: only {done} of {} objects are written; fix the cause and repeat the \
                 command with {}",
                written.len(),
                Setting::Overwrite
            ),
        };
        Err(Failure::new(problem).because(error).into())
    }

    fn written(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.inner
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
