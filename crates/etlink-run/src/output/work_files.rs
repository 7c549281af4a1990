//! Files of a work folder that other processes read, and the removal of the folder.

use super::disk;
use crate::file_kind::is_absence;
use std::fs;
use std::io;
use std::path::Path;

/// Name of the lock file, which contains the process id for messages.
pub(super) const LOCK: &str = "lock";
/// Name of the mark that exists while files are being replaced.
pub(super) const MARK: &str = "replacing";

/// Returns true if the files next to a work folder may be of two runs: a replacement is in progress
/// or was interrupted.
pub(super) fn has_mark(work: &Path) -> bool {
    match work.join(MARK).symlink_metadata() {
        Ok(_) => true,
        // if unknown, the files next to it are not taken for a complete set
        Err(error) => !is_absence(&error),
    }
}

/// Removes a work folder locked by this process, unless it marks files of two runs. Also removes a
/// single file of this process.
pub fn remove_work(path: &Path) {
    if path.is_file() {
        // the program is ending: nobody could read an error
        drop(disk::remove_file(path));
    } else if !has_mark(path) {
        remove(path);
    }
}

/// Removes a work folder, the lock last: a folder without a lock is empty.
pub(super) fn remove(path: &Path) {
    // remains are left to the next run; the result matters
    if remove_content(path).is_ok() && disk::remove_file(&path.join(LOCK)).is_ok() {
        // stays if another process has meanwhile created a lock in it
        drop(fs::remove_dir(path));
    }
}

/// Removes all content but the lock and the mark.
pub(super) fn remove_content(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == LOCK || entry.file_name() == MARK {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            disk::remove_file(&entry.path())?;
        }
    }
    Ok(())
}
