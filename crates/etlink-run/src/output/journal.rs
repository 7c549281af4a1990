//! How the files of a set take their places all or none, whenever the process is killed.
//!
//! All new files lie in the work folder, whole and on the disk. Then the journal is written: from
//! its renaming on the new set counts. Whoever locks the work folder next renames what is not
//! renamed yet.

use super::disk;
use super::error::OutputError;
use super::work_files::JOURNAL;
use crate::file_error::{FileAction, FileContext};
use crate::interrupt::Changes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

/// Where the new files lie in the work folder.
pub(super) const NEW: &str = "new";
const UNFINISHED: &str = "journal.json.new";
const VERSION: u32 = 1;

/// What is to be done; names are relative to the folder of the set.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    /// New files.
    place: Vec<String>,
    /// Earlier files.
    remove: Vec<String>,
    /// Whether new files may replace earlier ones.
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

    /// Puts it into the work folder.
    fn write(&self, work: &Path) -> io::Result<()> {
        let new = work.join(NEW);
        for folder in folders_of(&self.place, &new) {
            // a name that is not on the disk would be gone after a crash, and its journal would not
            disk::sync_folder(&folder)?;
        }
        // under another name until it is whole: half a journal would be carried out, or stop every
        // next run
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
        // nothing outside the folder is touched, whoever wrote the journal
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

/// How a replacement failed.
pub(super) enum Failure {
    /// All is as before.
    Undone(OutputError),
    /// The journal stays: files of both sets are in place.
    Cut(OutputError),
}

/// Gives the new files of a work folder their places in `folder`.
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
    // no file has moved, and without the journal none will: all is as it was
    if !changed && disk::remove_file(&work.join(JOURNAL)).is_ok() {
        return Err(Failure::Undone(error));
    }
    Err(Failure::Cut(error))
}

/// Finishes the replacement that a journal in a work folder began, if there is one.
pub(super) fn finish(work: &Path, folder: &Path, changes: &Changes) -> Result<(), OutputError> {
    let Some(journal) = Journal::read(work)? else {
        return Ok(());
    };
    // A journal that came with an archive has not seen this folder: what is linked here is not what
    // it means.
    if let Some(link) = linked_folder(&journal, work, folder) {
        return Err(OutputError::LinkedFolder {
            journal: work.join(JOURNAL),
            link,
        });
    }
    apply_journal(&journal, work, folder, &mut false, changes)
}

/// The first link among the folders that files of a journal lie in, or come to lie in.
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

/// The first folder below `folder` on the way to a file that is a link.
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

/// Does what is not done yet; `changed` is set at the first change that a reader of the folder can
/// see.
fn apply_journal(
    journal: &Journal,
    work: &Path,
    folder: &Path,
    changed: &mut bool,
    _: &Changes,
) -> Result<(), OutputError> {
    for name in &journal.place {
        let (new, place) = (work.join(NEW).join(name), folder.join(name));
        // placed before the kill: the journal is carried out again from its beginning
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
    // before the journal goes: after a crash nothing else would know of an unfinished renaming
    for changed in folders_of(journal.place.iter().chain(&journal.remove), folder) {
        disk::sync_folder(&changed).with_path(FileAction::WriteFolder, &changed)?;
    }
    let path = work.join(JOURNAL);
    Ok(disk::remove_file(&path).with_path(FileAction::Remove, &path)?)
}

/// The folders in which these files lie.
fn folders_of<'n>(names: impl IntoIterator<Item = &'n String>, folder: &Path) -> BTreeSet<PathBuf> {
    names
        .into_iter()
        .filter_map(|name| folder.join(name).parent().map(Path::to_owned))
        .collect()
}
