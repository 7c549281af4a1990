//! Names of the files in a recording's folder.

use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

/// Returns the names in a folder that are valid UTF-8.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = entries(folder);
    let entries = entries.with_context(|| format!("cannot read folder {}", folder.display()))?;
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
pub fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
