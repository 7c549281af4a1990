//! Cleanup of unfinished files when the program is interrupted.
//!
//! Any thread that creates, renames or removes a file holds [`Changes`]. The thread that ends the
//! program takes it and keeps it. So no file is created after the cleanup, and no replacement of
//! several files is interrupted.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Work folders of this process, see [`crate::output`], and databases that it has unpacked.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

/// Exclusive right to change the file system, held by one thread at a time.
pub struct Changes(MutexGuard<'static, Vec<PathBuf>>);

impl Changes {
    /// Waits for the right; forever if the program is ending.
    pub fn begin() -> Changes {
        // the list of paths is always consistent, so a panic in another thread does no harm
        Changes(UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers a work folder or file to be removed if the program is interrupted.
    pub fn add_unfinished(&mut self, path: &Path) {
        self.0.push(path.to_owned());
    }

    /// Unregisters a path that is finished or removed.
    pub fn remove_unfinished(&mut self, path: &Path) {
        self.0.retain(|listed| listed != path);
    }

    /// Removes everything unfinished. The program is about to end, and holds this until then.
    pub fn remove_all_unfinished(&self) {
        for path in self.0.iter() {
            crate::output::remove_work(path);
        }
        crate::storage::uploads::abort_uploads();
    }
}
