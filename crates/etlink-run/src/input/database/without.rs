//! Replacements in a build without the features `nsys` and `rocm`, which opens no database.

use super::DatabaseProcess;
use crate::file_error::FileError;
use crate::input::{InputError, InputFile};
use crate::missing_feature::MissingFeature;
use std::path::Path;

/// Refuses a database that its first pages do not identify: its tables cannot be read.
pub(crate) fn ask_tables(input: InputFile) -> Result<InputFile, InputError> {
    Err(InputError::MissingFeature {
        name: input.name,
        missing: MissingFeature {
            what: "an SQLite database",
            feature: "nsys` or `rocm",
        },
    })
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
