//! What lies at a path, where the system may not say it: a disk that fails, a folder that may not be
//! looked into.

use crate::storage::{self, StoredKind, is_url};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Whether a path is a regular file, or one of which the system does not say what it is. Who opens
/// that is told why; passed by as no file it would be missed without a word.
pub(crate) fn may_be_file(path: &Path) -> bool {
    match storage::file_data(path) {
        Ok(found) => found.kind == StoredKind::File,
        Err(error) => !is_absence(&error),
    }
}

/// Whether a path is a folder. Where the system does not say it, one that can be listed is.
pub fn is_folder(path: &Path) -> bool {
    match storage::file_data(path) {
        Ok(found) => found.kind == StoredKind::Folder,
        // a store was asked for its names already
        Err(error) => !is_url(path) && !is_absence(&error) && storage::list(path).is_ok(),
    }
}

/// Whether an error says that there is nothing.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
