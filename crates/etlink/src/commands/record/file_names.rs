//! The names of the files in a folder of a recording.

use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::path::Path;

/// Names in a folder that are text.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    let read = || -> std::io::Result<Vec<String>> {
        let entries = std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
        let names = entries.iter().map(std::fs::DirEntry::file_name);
        Ok(names
            .filter_map(|name| OsStr::to_str(&name).map(str::to_owned))
            .collect())
    };
    read().with_context(|| format!("cannot read folder {}", folder.display()))
}
