//! Replaces the files of a set atomically, even if the process is killed.
//!
//! All new files are complete and synced in the work folder. Then the journal is written and
//! renamed, which makes the new set valid. The next process that locks the work folder completes
//! the remaining renamings.

use super::disk;
use super::error::OutputError;
use super::work_files::JOURNAL;
use crate::file_error::{FileAction, FileContext};
use crate::interrupt::Changes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

/// Folder of the new files, in the work folder.
pub(super) const NEW: &str = "new";
const UNFINISHED: &str = "journal.json.new";
const VERSION: u32 = 1;

/// Steps of a replacement; names are relative to the set's folder.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    /// New files to rename.
    place: Vec<String>,
    /// Earlier files to remove.
    remove: Vec<String>,
    /// True if new files may replace earlier ones.
    overwrite: bool,
}

impl Journal {
    pub(super) fn new(place: Vec<String>, remove: Vec<String>, overwrite: bool) -> Journal {
        Journal {
            version: VERSION,
            place,
            remove,
            overwrite,
        }
    }

    /// Writes the journal into the work folder.
    fn write(&self, work: &Path) -> io::Result<()> {
        let new = work.join(NEW);
        for folder in folders_of(&self.place, &new) {
            // after a crash, the journal would otherwise name files that are not on the disk
            disk::sync_folder(&folder)?;
        }
        // under another name until it is complete: an incomplete journal would be executed, or stop
        // every later run
        let unfinished = work.join(UNFINISHED);
        let mut file = disk::DiskFile::create(&unfinished)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync()?;
        disk::rename(&unfinished, &work.join(JOURNAL))?;
        disk::sync_folder(work)
    }

    fn read(work: &Path) -> Result<Option<Journal>, OutputError> {
        let path = work.join(JOURNAL);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.with_path(FileAction::Read, &path)?,
        };
        let journal: Journal = match etlink_json::from_slice(&text) {
            Ok(journal) => journal,
            Err(source) => return Err(OutputError::DamagedJournal { path, source }),
        };
        // touches nothing outside the folder, even if the journal is foreign
        let is_inside = |name: &String| {
            let mut parts = Path::new(name).components();
            parts.all(|part| matches!(part, Component::Normal(_)))
        };
        let mut names = journal.place.iter().chain(&journal.remove);
        if journal.version != VERSION || !names.all(is_inside) {
            return Err(OutputError::ForeignJournal { path });
        }
        Ok(Some(journal))
    }
}

/// Error of a replacement.
pub(super) enum Failure {
    /// Everything is unchanged.
    Undone(OutputError),
    /// The journal stays: files of both sets are in place.
    Cut(OutputError),
}

/// Moves the new files of a work folder to their places in `folder`.
pub(super) fn replace(
    journal: &Journal,
    work: &Path,
    folder: &Path,
    changes: &Changes,
) -> Result<(), Failure> {
    let started = journal
        .write(work)
        .with_path(FileAction::Write, &work.join(JOURNAL));
    let mut changed = false;
    let done = match started {
        Ok(()) => apply_journal(journal, work, folder, &mut changed, changes),
        Err(error) => Err(error.into()),
    };
    let Err(error) = done else {
        return Ok(());
    };
    // no file has moved, and without the journal none will
    if !changed && disk::remove_file(&work.join(JOURNAL)).is_ok() {
        return Err(Failure::Undone(error));
    }
    Err(Failure::Cut(error))
}

/// Finishes an interrupted replacement, if a work folder has a journal.
pub(super) fn finish(work: &Path, folder: &Path, changes: &Changes) -> Result<(), OutputError> {
    let Some(journal) = Journal::read(work)? else {
        return Ok(());
    };
    // A journal from an archive was written for another folder, so links here are not part of it.
    if let Some(link) = linked_folder(&journal, work, folder) {
        return Err(OutputError::LinkedFolder {
            journal: work.join(JOURNAL),
            link,
        });
    }
    apply_journal(&journal, work, folder, &mut false, changes)
}

/// Returns the first link among the current and future folders of a journal's files.
fn linked_folder(journal: &Journal, work: &Path, folder: &Path) -> Option<PathBuf> {
    let new = work.join(NEW);
    if new.is_symlink() {
        return Some(new);
    }
    let placed = journal.place.iter();
    let linked = placed.clone().find_map(|name| linked_parent(&new, name));
    let mut names = placed.chain(&journal.remove);
    linked.or_else(|| names.find_map(|name| linked_parent(folder, name)))
}

/// Returns the first folder below `folder` on the path of a file that is a link.
fn linked_parent(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut place = folder.to_owned();
    for part in Path::new(name).parent()?.components() {
        place.push(part);
        if place.is_symlink() {
            return Some(place);
        }
    }
    None
}

/// Executes the remaining steps. Sets `changed` at the first change that is visible in the folder.
fn apply_journal(
    journal: &Journal,
    work: &Path,
    folder: &Path,
    changed: &mut bool,
    _: &Changes,
) -> Result<(), OutputError> {
    for name in &journal.place {
        let (new, place) = (work.join(NEW).join(name), folder.join(name));
        // renamed before the process was killed: the journal is executed from its beginning again
        if new.symlink_metadata().is_err() {
            continue;
        }
        let in_place = FileAction::PutInPlace;
        if let Some(parent) = place.parent() {
            disk::make_folders(parent).with_path(in_place, &place)?;
        }
        if journal.overwrite {
            disk::rename(&new, &place).with_path(in_place, &place)?;
        } else {
            disk::rename_new(&new, &place).with_path(in_place, &place)?;
        }
        *changed = true;
    }
    for name in &journal.remove {
        let path = folder.join(name);
        disk::remove_file(&path).with_path(FileAction::RemoveEarlier, &path)?;
        *changed = true;
    }
    // before the journal is removed: after a crash, an unfinished renaming would be forgotten
    for changed in folders_of(journal.place.iter().chain(&journal.remove), folder) {
        disk::sync_folder(&changed).with_path(FileAction::WriteFolder, &changed)?;
    }
    let path = work.join(JOURNAL);
    Ok(disk::remove_file(&path).with_path(FileAction::Remove, &path)?)
}

/// Returns the folders that contain these files.
fn folders_of<'n>(names: impl IntoIterator<Item = &'n String>, folder: &Path) -> BTreeSet<PathBuf> {
    names
        .into_iter()
        .filter_map(|name| folder.join(name).parent().map(Path::to_owned))
        .collect()
}
