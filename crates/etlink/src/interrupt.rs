//! Ctrl-C and SIGTERM: temporary files go, then the program does.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

/// Exit code of a program that was interrupted, by convention.
const INTERRUPTED: i32 = 130;

/// Removes what is listed when the program is interrupted.
pub fn install() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| {
        for path in TEMPORARY
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            // it may have got its final name in this moment
            drop(std::fs::remove_file(path));
        }
        #[allow(clippy::exit, reason = "there is no way back from a signal")]
        std::process::exit(INTERRUPTED)
    })
}

/// A temporary file that is listed for removal as long as this lives.
pub struct Listed(PathBuf);

impl Listed {
    /// Lists `path`.
    pub fn new(path: &Path) -> Listed {
        TEMPORARY
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(path.to_owned());
        Listed(path.to_owned())
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        TEMPORARY
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|path| *path != self.0);
    }
}
