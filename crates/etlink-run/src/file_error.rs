//! A call of the file system that failed.

use crate::storage::shown_path;
use std::io;
use std::path::{Path, PathBuf};

/// A file or folder that cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {}", action.describe(path))]
pub struct FileError {
    /// What was to be done with it.
    pub action: FileAction,
    /// The file or folder.
    pub path: PathBuf,
    /// Why the system did not do it.
    pub source: io::Error,
}

/// What was to be done with a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAction {
    /// A file is opened.
    Open,
    /// A file is read.
    Read,
    /// A packed file is read.
    Unpack,
    /// A packed file is read, whose first bytes are bad already.
    UnpackBeginning,
    /// A folder is listed.
    ReadFolder,
    /// A folder is made.
    MakeFolder,
    /// A file is written.
    Write,
    /// A part of a file is written, into another file beside it.
    WriteBeside,
    /// A file is made in a folder.
    WriteInFolder,
    /// The names in a folder are written to the disk.
    WriteFolder,
    /// A finished file gets its name.
    PutInPlace,
    /// A file is removed.
    Remove,
    /// A file is removed that an earlier run wrote.
    RemoveEarlier,
    /// All in a folder is removed.
    Clear,
}

impl FileAction {
    fn describe(self, path: &Path) -> String {
        let path = shown_path(path);
        match self {
            FileAction::Open => format!("open {path}"),
            FileAction::Read => format!("read {path}"),
            FileAction::Unpack => format!("unpack {path}"),
            FileAction::UnpackBeginning => {
                format!("unpack {path}: it is cut or damaged at its very beginning")
            }
            FileAction::ReadFolder => format!("read folder {path}"),
            FileAction::MakeFolder => format!("make folder {path}"),
            FileAction::Write => format!("write {path}"),
            FileAction::WriteBeside => format!("write beside {path}"),
            FileAction::WriteInFolder => format!("write in folder {path}"),
            FileAction::WriteFolder => format!("write folder {path}"),
            FileAction::PutInPlace => format!("put {path} in place"),
            FileAction::Remove => format!("remove {path}"),
            FileAction::RemoveEarlier => format!("remove {path}, which an earlier run left"),
            FileAction::Clear => format!("clear {path}"),
        }
    }
}

/// Adds to an error of the system what was to be done, and where.
pub(crate) trait FileContext<T> {
    /// What `action` on `path` came to.
    fn with_path(self, action: FileAction, path: &Path) -> Result<T, FileError>;
}

impl<T> FileContext<T> for io::Result<T> {
    fn with_path(self, action: FileAction, path: &Path) -> Result<T, FileError> {
        // the system's own words name neither the file nor what was done with it
        self.map_err(|source| FileError {
            action,
            path: path.to_owned(),
            source,
        })
    }
}
