//! Errors of file system calls.

use crate::storage::shown_path;
use std::io;
use std::path::{Path, PathBuf};

/// Error of reading or changing a file or folder.
#[derive(Debug, thiserror::Error)]
#[error("cannot {}", action.describe(path))]
pub struct FileError {
    /// Attempted action.
    pub action: FileAction,
    /// Path of the file or folder.
    pub path: PathBuf,
    /// Error of the system.
    pub source: io::Error,
}

impl FileError {
    /// Returns true if the system refused the call; false if the content is damaged.
    pub(crate) fn is_failed_call(&self) -> bool {
        let inner = self.source.get_ref();
        self.source.raw_os_error().is_some() || inner.is_some_and(is_sqlite_failure)
    }
}

/// Returns true if SQLite could not read a file for a reason outside it.
#[cfg(feature = "sqlite")]
fn is_sqlite_failure(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.is::<etlink_formats::sqlite::Error>()
}

#[cfg(not(feature = "sqlite"))]
fn is_sqlite_failure(_: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    false
}

/// Action on a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAction {
    /// Opens a file.
    Open,
    /// Reads a file.
    Read,
    /// Reads a compressed file.
    Unpack,
    /// Reads a compressed file whose first bytes are already damaged.
    UnpackBeginning,
    /// Lists a folder.
    ReadFolder,
    /// Creates a folder.
    MakeFolder,
    /// Writes a file.
    Write,
    /// Writes a part of a file, into another file next to it.
    WriteBeside,
    /// Creates a file in a folder.
    WriteInFolder,
    /// Syncs the names in a folder to the disk.
    WriteFolder,
    /// Renames a finished file to its final name.
    PutInPlace,
    /// Removes a file.
    Remove,
    /// Removes a file of an earlier run.
    RemoveEarlier,
    /// Removes everything in a folder.
    Clear,
}

impl FileAction {
    fn describe(self, path: &Path) -> String {
        let path = shown_path(path);
        match self {
            FileAction::Open => format!("open {path}"),
            FileAction::Read => format!("read {path}"),
            FileAction::Unpack => format!("decompress {path}"),
            FileAction::UnpackBeginning => {
                format!("decompress {path}: the file is truncated or damaged at its beginning")
            }
            FileAction::ReadFolder => format!("read folder {path}"),
            FileAction::MakeFolder => format!("create folder {path}"),
            FileAction::Write => format!("write {path}"),
            FileAction::WriteBeside => format!("write next to {path}"),
            FileAction::WriteInFolder => format!("write in folder {path}"),
            FileAction::WriteFolder => format!("write folder {path}"),
            FileAction::PutInPlace => format!("rename to {path}"),
            FileAction::Remove => format!("remove {path}"),
            FileAction::RemoveEarlier => format!("remove {path} of an earlier run"),
            FileAction::Clear => format!("clear {path}"),
        }
    }
}

/// Adds the attempted action and its path to a system error.
pub(crate) trait FileContext<T> {
    /// Adds `action` and `path` to the error.
    fn with_path(self, action: FileAction, path: &Path) -> Result<T, FileError>;
}

impl<T> FileContext<T> for io::Result<T> {
    fn with_path(self, action: FileAction, path: &Path) -> Result<T, FileError> {
        // the system's message names neither the file nor the action
        self.map_err(|source| FileError {
            action,
            path: path.to_owned(),
            source,
        })
    }
}
