//! Files of a recording's folder, with errors that name them.

use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

/// Returns the names in a folder that are valid UTF-8.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = entries(folder);
    let entries = named(entries, "read folder", folder)?;
    let names = entries.iter().map(DirEntry::file_name);
    Ok(names
        .filter_map(|name| OsStr::to_str(&name).map(str::to_owned))
        .collect())
}

/// Lists a folder.
pub fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    fs::read_dir(folder)?.collect()
}

/// Reads a file; `None` if it does not exist.
pub fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => named(read, "read", path).map(Some),
    }
}

pub fn read(path: &Path) -> Result<Vec<u8>> {
    named(fs::read(path), "read", path)
}

pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    named(fs::write(path, content), "write", path)
}

pub fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => named(removed, "remove", path),
    }
}

/// Adds what failed, and the path, to an error.
pub fn named<T>(done: io::Result<T>, what: &str, path: &Path) -> Result<T> {
    done.with_context(|| format!("cannot {what} {}", path.display()))
}
