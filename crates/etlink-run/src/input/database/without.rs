//! Replacements in a build without the features `nsys` and `rocm`, which opens no database.

use super::DatabaseProcess;
use crate::error::RunError;
use crate::file_error::FileError;
use crate::input::InputFile;
use crate::missing_feature;
use std::path::Path;

/// Refuses a database that its first pages do not identify: its tables cannot be read.
pub(crate) fn ask_tables(input: InputFile) -> Result<InputFile, RunError> {
    let what = format!("{}: an SQLite database", input.name);
    Err(missing_feature(what, "nsys` or `rocm")
        .of(input.name)
        .into())
}

pub(crate) fn event_rows(_: &Path) -> Option<u64> {
    None
}

/// Lists no processes: the reader of the database reports the missing feature.
///
/// # Errors
/// Never fails.
pub fn database_processes(_: &Path) -> Result<Vec<DatabaseProcess>, FileError> {
    Ok(vec![])
}
