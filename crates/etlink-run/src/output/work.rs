//! Work folders, which contain results until they are complete.
//!
//! `x.et` is written in `.etlink-write.x.et` next to it. A file in the folder stays locked while
//! the process lives. So two runs never write the same result, and a free lock marks the remains of
//! a killed run.

use super::disk;
use super::work_files::{LOCK, MARK, has_mark, remove, remove_content, remove_work};
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext, FileError};
use crate::interrupt::Changes;
use etlink_model::{Failure, Setting};
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prefix of the names of work folders.
const PREFIX: &str = ".etlink-write.";
/// Maximum length of a result's name within its work folder's name. File names have up to 255
/// bytes; results with longer names may share a folder.
const NAME_BYTES: usize = 200;
/// Number of retries if other processes remove the folder while it is claimed, or hold its lock.
const ATTEMPTS: usize = 100;
/// Time between two attempts to lock a folder.
const MOMENT: Duration = Duration::from_millis(1);

/// A work folder of this process. Removed with its content on drop, unless it marks files of two
/// runs.
#[derive(Debug)]
pub(super) struct WorkFolder {
    path: PathBuf,
    /// Open lock file, which holds the lock.
    _lock: File,
}

/// Reason that a folder cannot be claimed.
enum Refusal {
    /// Another process is writing; its id, if known.
    Busy(Option<u32>),
    /// The folder exists, and the file system has no locks to check if its process lives.
    NoLocks,
    Io(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal::Io(error)
    }
}

impl WorkFolder {
    /// Claims the work folder of `name` in `folder`, emptying it after an interrupted run.
    /// `subject` is the written file or folder, for messages. Also removes remains of other
    /// interrupted runs from `folder`.
    ///
    /// # Errors
    /// Fails if another process holds it, or the folder cannot be written.
    pub(super) fn claim(
        folder: &Path,
        name: &OsStr,
        subject: &Path,
    ) -> Result<WorkFolder, RunError> {
        let path = folder.join(work_name(name));
        let work = match WorkFolder::take(&path, true) {
            Ok(work) => work,
            Err(Refusal::Busy(process)) => {
                let process = process_note(process);
                let what = format!(" is being written by another etlink{process}");
                let busy = Failure::about(subject.display(), what);
                return Err(busy
                    .advise("wait for it to finish, or write elsewhere")
                    .into());
            }
            Err(Refusal::NoLocks) => {
                let what = " may be in use by another etlink: this file system has no locks";
                let work = path.display();
                let remedy = format!("if no other etlink is running, remove {work}");
                return Err(Failure::about(subject.display(), what)
                    .advise(remedy)
                    .into());
            }
            Err(Refusal::Io(source)) => {
                let subject = subject.display();
                let cause = FileError {
                    action: FileAction::WriteInFolder,
                    path: folder.to_owned(),
                    source,
                };
                let failure = Failure::new(format!("cannot write {subject}")).of(subject);
                return Err(failure.because(cause).into());
            }
        };
        work.clear().with_path(FileAction::Clear, &path)?;
        // also for results of other names, which may never be written again
        clear_others(folder, &path, has_mark);
        Ok(work)
    }

    /// Locks a work folder, after creating it if `make` is true.
    fn take(path: &Path, make: bool) -> Result<WorkFolder, Refusal> {
        // a signal between creating and registering the folder would leave it behind
        let mut changes = Changes::begin();
        let lock = path.join(LOCK);
        let mut holder = None;
        for _ in 0..ATTEMPTS {
            let is_new = make
                && match fs::create_dir(path) {
                    Ok(()) => true,
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                    Err(error) => return Err(error.into()),
                };
            if let Some(link) = [path, &lock].into_iter().find(|path| path.is_symlink()) {
                return Err(linked(link).into());
            }
            let mut how = File::options();
            // by append, to keep the process id of the holder
            how.read(true).append(true).create(make);
            let mut file = match how.open(&lock) {
                Ok(file) => file,
                // the previous holder has just removed it
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    if is_new {
                        drop(fs::remove_dir(path));
                    }
                    return Err(error.into());
                }
            };
            match file.try_lock() {
                Ok(()) => {}
                // a process that clears remains of others holds the lock for a moment
                Err(TryLockError::WouldBlock) if make => {
                    holder = process_in(&mut file);
                    std::thread::sleep(MOMENT);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Err(Refusal::Busy(None)),
                // without locks, creating the folder is the claim, but its process may have ended
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
            // the previous holder removed the folder between opening and locking
            if !is_same_file(&file, &lock) {
                continue;
            }
            // only messages use the id: a full disk is reported when the result is written
            drop(file.set_len(0));
            drop(writeln!(file, "{}", std::process::id()));
            changes.add_unfinished(path);
            return Ok(WorkFolder {
                path: path.to_owned(),
                _lock: file,
            });
        }
        Err(Refusal::Busy(holder))
    }

    fn clear(&self) -> io::Result<()> {
        let _changes = Changes::begin();
        remove_content(&self.path)
    }

    /// Marks the files next to the folder as files of two runs, even after a crash.
    pub(super) fn mark(&self) -> io::Result<()> {
        File::create(self.path.join(MARK))?.sync_all()?;
        disk::sync_folder(&self.path)
    }

    /// Removes the mark, since the files next to the folder are of one run.
    pub(super) fn unmark(&self) -> io::Result<()> {
        disk::remove_file(&self.path.join(MARK))
    }

    /// Returns true if the files next to the folder may be of two runs.
    pub(super) fn is_marked(&self) -> bool {
        has_mark(&self.path)
    }

    /// Removes the marks that ended processes left in `folder`, whose files are of one run now.
    pub(super) fn unmark_others(&self, folder: &Path) {
        clear_others(folder, &self.path, |_| false);
    }

    /// Returns the path of the folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a file in the folder, with the folders of its name.
    pub(super) fn create(&self, name: &Path) -> io::Result<File> {
        // otherwise a file could appear after a signal handler has cleared the folder
        let _changes = Changes::begin();
        let path = self.path.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        File::create(&path)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        let mut changes = Changes::begin();
        remove_work(&self.path);
        changes.remove_unfinished(&self.path);
    }
}

/// Returns true if a folder contains unfinished files of etlink, so that discovery skips it.
///
/// # Errors
/// Fails if the files next to it are being replaced, or this was interrupted: they are of two runs.
pub fn is_work_folder(path: &Path) -> Result<bool, RunError> {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    // also folders of `etlink record`: `.etlink` has files that its processes are writing
    if name != b".etlink" && !name.starts_with(b".etlink-") {
        return Ok(false);
    }
    if name.starts_with(PREFIX.as_bytes()) && has_mark(path) {
        let folder = path.parent().unwrap_or(Path::new(""));
        let process = File::open(path.join(LOCK))
            .ok()
            .and_then(|mut file| process_in(&mut file));
        let process = process_note(process);
        let what = format!(": another etlink{process} is replacing its files, or was interrupted");
        let remedy = format!(
            "try again. If the error persists, repeat the command that wrote the files with {}",
            Setting::Overwrite
        );
        return Err(Failure::about(folder.display(), what).advise(remedy).into());
    }
    Ok(true)
}

fn process_note(process: Option<u32>) -> String {
    match process {
        Some(process) => format!(" (process {process})"),
        None => String::new(),
    }
}

/// Removes the work of ended processes in `folder`, except where `stays` is true. Failures are left
/// to the next run of the same result.
fn clear_others(folder: &Path, own: &Path, stays: fn(&Path) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let path = folder.join(&name);
        if path == own || !name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) || stays(&path) {
            continue;
        }
        match WorkFolder::take(&path, false) {
            Ok(work) => drop(work.unmark()),
            // from a process that was killed between two calls; the folder is empty
            Err(Refusal::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                drop(fs::remove_dir(&path));
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

/// Creates the error for a link in place of a work folder, which etlink never creates. Clearing a
/// folder through a link from an archive could destroy another folder.
fn linked(path: &Path) -> io::Error {
    let what = format!(
        "{} is a link that etlink did not make; remove it",
        path.display()
    );
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Returns true if a file system has no locks, like some network file systems.
pub fn is_without_locks(error: &io::Error) -> bool {
    // ENOLCK, which has no `ErrorKind`
    const NO_LOCKS: i32 = if cfg!(target_os = "linux") { 37 } else { 77 };
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(NO_LOCKS)
}

fn process_in(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.take(20).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Returns true if an open file is still the one at this path.
#[cfg(unix)]
pub fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |data: fs::Metadata| (data.dev(), data.ino());
    let open = file.metadata().map(place);
    let named = fs::symlink_metadata(path).map(place);
    matches!((open, named), (Ok(open), Ok(named)) if open == named)
}

/// Returns true: open files cannot be removed on this system.
#[cfg(not(unix))]
pub fn is_same_file(_: &File, _: &Path) -> bool {
    true
}
