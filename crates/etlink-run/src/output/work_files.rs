//! The files of a work folder that other processes look at, and how it is removed.

use super::disk;
use crate::file_kind::is_absence;
use std::fs;
use std::io;
use std::path::Path;

/// The file that is locked; it has the number of the process, for messages.
pub(super) const LOCK: &str = "lock";
/// The journal of a replacement of files.
pub(super) const JOURNAL: &str = "journal.json";

/// Whether a work folder has a journal: files are being replaced, or that was cut.
pub(super) fn has_journal(work: &Path) -> bool {
    match work.join(JOURNAL).symlink_metadata() {
        Ok(_) => true,
        // where nobody knows, the files around it are not taken for a whole set
        Err(error) => !is_absence(&error),
    }
}

/// Removes a work folder of which the lock is ours, unless files are being replaced out of it; or a
/// file of ours.
pub fn remove_work(path: &Path) {
    if path.is_file() {
        // the program is being ended: nobody is left to be told
        drop(disk::remove_file(path));
    } else if !has_journal(path) {
        remove(path);
    }
}

/// The lock goes last: who finds the folder without it finds it empty.
pub(super) fn remove(path: &Path) {
    // what stays is for the next run; the result is what counts
    if remove_content(path).is_ok() && disk::remove_file(&path.join(LOCK)).is_ok() {
        // another process may have made a lock in it meanwhile, then it stays
        drop(disk::remove_folder(path));
    }
}

/// All but the lock.
pub(super) fn remove_content(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        if entry.file_type()?.is_dir() {
            disk::remove_folders(&entry.path())?;
        } else {
            disk::remove_file(&entry.path())?;
        }
    }
    Ok(())
}
