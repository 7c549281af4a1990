//! An end before the work is done: unfinished files go first.
//!
//! Whoever makes, renames or removes a file holds [`Changes`]. The thread that ends the program
//! takes it and keeps it: no file is made after it has looked, and no replacement of several files
//! is cut in its middle.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Work folders of this process, see [`crate::output`], and databases that it has unpacked.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

/// The right to change the file system; one thread has it at a time.
pub struct Changes(MutexGuard<'static, Vec<PathBuf>>);

impl Changes {
    /// Waits for it; forever where the program is being ended.
    pub fn begin() -> Changes {
        // a list of paths is whole at any time, so a panic elsewhere does it no harm
        Changes(UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has a work folder, or a file, removed when the program is interrupted.
    pub fn add_unfinished(&mut self, path: &Path) {
        self.0.push(path.to_owned());
    }

    /// `path` is finished, or gone.
    pub fn remove_unfinished(&mut self, path: &Path) {
        self.0.retain(|listed| listed != path);
    }

    /// Removes what is not finished: the program is about to end, and this is held until it has.
    pub fn remove_all_unfinished(&self) {
        for path in self.0.iter() {
            crate::output::remove_work(path);
        }
        crate::storage::uploads::abort_uploads();
    }
}
