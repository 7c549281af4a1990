//! Work folders: where results lie until they are whole.
//!
//! `x.et` is written in `.etlink-write.x.et` beside it. A file in the folder is locked as long as
//! the process lives. So two runs never write one result, and what a killed run left is known by
//! its free lock.

use super::disk;
use super::error::OutputError;
use super::journal;
use super::work_files::{LOCK, has_journal, remove, remove_content};
use crate::file_error::{FileAction, FileContext, FileError};
use crate::interrupt::Changes;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What the names of work folders begin with.
const PREFIX: &str = ".etlink-write.";
/// Names of files have up to 255 bytes; longer ones share a work folder.
const NAME_BYTES: usize = 200;
/// How often another process may remove the folder while it is claimed.
const ATTEMPTS: usize = 100;

/// A work folder of this process. It is removed with all that is in it when this is dropped.
#[derive(Debug)]
pub(super) struct WorkFolder {
    path: PathBuf,
    /// Locked while it is open.
    _lock: File,
    /// A replacement that could not be finished stays, for the next run.
    kept: AtomicBool,
}

/// Why a folder is not ours.
enum Refusal {
    /// A process writes there; its number, if known.
    Busy(Option<u32>),
    /// It is there, and the file system has no locks that say whether its process lives.
    NoLocks,
    Io(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal::Io(error)
    }
}

impl WorkFolder {
    /// Takes the work folder of `name` in `folder`, after an interrupted run if need be. `subject`
    /// is what the user knows: the file or the folder that is written. Also clears away what other
    /// interrupted runs left in `folder`.
    ///
    /// # Errors
    /// If another process has it, or the folder cannot be written.
    pub(super) fn claim(
        folder: &Path,
        name: &OsStr,
        subject: &Path,
    ) -> Result<WorkFolder, OutputError> {
        let path = folder.join(work_name(name));
        let work = match WorkFolder::take(&path, true) {
            Ok(work) => work,
            Err(Refusal::Busy(process)) => {
                return Err(OutputError::Busy {
                    path: subject.to_owned(),
                    process,
                });
            }
            Err(Refusal::NoLocks) => {
                return Err(OutputError::NoLocks {
                    path: subject.to_owned(),
                    work: path,
                });
            }
            Err(Refusal::Io(source)) => {
                return Err(OutputError::NoWorkFolder {
                    path: subject.to_owned(),
                    source: FileError {
                        action: FileAction::WriteInFolder,
                        path: folder.to_owned(),
                        source,
                    },
                });
            }
        };
        work.recover(folder)?;
        // results of other names too: nobody may ever write those again
        clear_others(folder, &path);
        Ok(work)
    }

    /// Locks a work folder, which is made if that is asked for.
    fn take(path: &Path, make: bool) -> Result<WorkFolder, Refusal> {
        // a signal between making the folder and listing it would leave the folder behind
        let mut changes = Changes::begin();
        let lock = path.join(LOCK);
        for _ in 0..ATTEMPTS {
            let is_new = make
                && match disk::make_folder(path) {
                    Ok(()) => true,
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                    Err(error) => return Err(error.into()),
                };
            if let Some(link) = [path, &lock].into_iter().find(|path| path.is_symlink()) {
                return Err(linked(link).into());
            }
            let mut how = File::options();
            // by append, which keeps the number of the process that has it
            how.read(true).append(true).create(make);
            let mut file = match how.open(&lock) {
                Ok(file) => file,
                // whoever had it has just removed it
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    if is_new {
                        drop(disk::remove_folder(path));
                    }
                    return Err(error.into());
                }
            };
            match disk::lock(&file, &lock) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(Refusal::Busy(process_in(&mut file))),
                // without locks the folder itself is one, but says not whether its process lives
                Err(TryLockError::Error(error)) if is_without_locks(&error) => {
                    if !is_new {
                        return Err(Refusal::NoLocks);
                    }
                }
                Err(TryLockError::Error(error)) => {
                    if is_new {
                        remove(path);
                    }
                    return Err(error.into());
                }
            }
            // whoever had the folder removed it between our opening and our locking
            if !is_same(&file, &lock) {
                continue;
            }
            // only messages want the number: a full disk is reported when the result is written
            drop(file.set_len(0));
            drop(writeln!(file, "{}", std::process::id()));
            changes.add_unfinished(path);
            return Ok(WorkFolder {
                path: path.to_owned(),
                _lock: file,
                kept: AtomicBool::new(false),
            });
        }
        Err(Refusal::Busy(None))
    }

    /// Finishes a replacement of files in `folder` that was cut, and removes what is left of an
    /// interrupted run.
    fn recover(&self, folder: &Path) -> Result<(), OutputError> {
        let changes = Changes::begin();
        if let Err(error) = journal::finish(&self.path, folder, &changes) {
            self.keep();
            return Err(OutputError::CutReplacement {
                folder: folder.to_owned(),
                source: Box::new(error),
            });
        }
        Ok(remove_content(&self.path).with_path(FileAction::Clear, &self.path)?)
    }

    /// Where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves what is in it when this is dropped.
    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// Makes a file in it, with the folders of its name.
    pub(super) fn create(&self, name: &Path) -> io::Result<disk::DiskFile> {
        // else a file could appear after a signal has cleared the folder
        let _changes = Changes::begin();
        let path = self.path.join(name);
        if let Some(folder) = path.parent() {
            disk::make_folders(folder)?;
        }
        disk::DiskFile::create(&path)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        let mut changes = Changes::begin();
        if !self.kept.load(Ordering::Relaxed) {
            remove(&self.path);
        }
        changes.remove_unfinished(&self.path);
    }
}

/// Whether a folder of this name is passed by when traces are looked for: etlink keeps unfinished
/// files there.
///
/// # Errors
/// If files beside it are being replaced, or that was cut: they are of two runs.
pub fn is_work_folder(path: &Path) -> Result<bool, OutputError> {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    // also those of `etlink record`: `.etlink` has what its processes are writing
    if name != b".etlink" && !name.starts_with(b".etlink-") {
        return Ok(false);
    }
    if name.starts_with(PREFIX.as_bytes()) && has_journal(path) {
        let folder = path.parent().unwrap_or(Path::new(""));
        let process = File::open(path.join(LOCK))
            .ok()
            .and_then(|mut file| process_in(&mut file));
        return Err(OutputError::BeingReplaced {
            folder: folder.to_owned(),
            process,
        });
    }
    Ok(true)
}

/// Finishes or removes what processes that are gone left in `folder`. What cannot be is for their
/// next run.
fn clear_others(folder: &Path, own: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let path = folder.join(&name);
        if path == own || !name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        match WorkFolder::take(&path, false) {
            Ok(work) => drop(work.recover(folder)),
            // of a process that was killed between two calls, and then it is empty
            Err(Refusal::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                drop(disk::remove_folder(&path));
            }
            Err(_) => {}
        }
    }
}

fn work_name(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let fits = |(at, letter): &(usize, char)| at + letter.len_utf8() <= NAME_BYTES;
    let short: String = name
        .char_indices()
        .take_while(fits)
        .map(|(_, letter)| letter)
        .collect();
    format!("{PREFIX}{short}")
}

/// Etlink makes no links in work folders. Through one that came with an archive, what is cleared
/// would be somebody's folder elsewhere.
fn linked(path: &Path) -> io::Error {
    let what = format!(
        "{} is a link, which etlink did not make: remove it",
        path.display()
    );
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Whether a file system has no locks, as some of networks.
fn is_without_locks(error: &io::Error) -> bool {
    // ENOLCK, for which there is no kind
    const NO_LOCKS: i32 = if cfg!(target_os = "linux") { 37 } else { 77 };
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(NO_LOCKS)
}

fn process_in(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.take(20).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Whether the file that is open is still the one of that name.
#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |data: fs::Metadata| (data.dev(), data.ino());
    let open = file.metadata().map(place);
    let named = fs::symlink_metadata(path).map(place);
    matches!((open, named), (Ok(open), Ok(named)) if open == named)
}

/// A file that is open cannot be removed.
#[cfg(not(unix))]
fn is_same(_: &File, _: &Path) -> bool {
    true
}
