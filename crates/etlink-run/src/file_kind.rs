//! Tests of paths that the system may not be able to inspect, such as on a failing disk or in a
//! folder without permission.

use crate::storage::{self, StoredKind, is_url};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Returns true if a path is a regular file, or cannot be inspected. Opening the latter reports the
/// reason, while skipping it would hide the problem.
pub(crate) fn may_be_file(path: &Path) -> bool {
    match storage::file_data(path) {
        Ok(found) => found.kind == StoredKind::File,
        Err(error) => !is_absence(&error),
    }
}

/// Returns true if a path is a folder. If the system cannot inspect it, it must be listable.
pub fn is_folder(path: &Path) -> bool {
    match storage::file_data(path) {
        Ok(found) => found.kind == StoredKind::Folder,
        // listing it reports the reason
        Err(_) if storage::is_archive(path) => true,
        // for an object store, its names have already been listed
        Err(error) => !is_url(path) && !is_absence(&error) && storage::list(path).is_ok(),
    }
}

/// Returns true if an error means that the path does not exist.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
