//! Names of the files in a recording's folder.

use super::disk;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs::DirEntry;
use std::path::Path;

/// Returns the names in a folder that are valid UTF-8.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = disk::entries(folder);
    let entries = entries.with_context(|| format!("cannot read folder {}", folder.display()))?;
    let names = entries.iter().map(DirEntry::file_name);
    Ok(names
        .filter_map(|name| OsStr::to_str(&name).map(str::to_owned))
        .collect())
}
