//! Temporary files, which go when the program is interrupted.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

/// Removes what is listed: the program is about to end before its work is done.
pub fn remove_temporary_files() {
    let mut listed = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
    for path in listed.drain(..) {
        // it may have got its final name in this moment
        drop(std::fs::remove_file(path));
    }
}

/// A temporary file that is listed for removal as long as this lives.
pub struct TemporaryEntry(PathBuf);

impl TemporaryEntry {
    /// Lists `path`.
    pub fn new(path: &Path) -> TemporaryEntry {
        TEMPORARY
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(path.to_owned());
        TemporaryEntry(path.to_owned())
    }
}

impl Drop for TemporaryEntry {
    fn drop(&mut self) {
        TEMPORARY
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|path| *path != self.0);
    }
}
