//! Identifies databases by their tables, with the readers of this build.

use super::connection::{DatabaseFile, unpack};
use super::recorder::DatabaseRecorder;
use super::{DatabaseProcess, MAGIC};
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext, FileError};
use crate::input::{InputFile, InputKind};
use crate::storage;
use etlink_formats::sqlite::SqliteTables;
use std::error::Error;
use std::io::{self, Read, Seek};
use std::path::Path;

/// Recorders that this build reads.
const RECORDERS: &[DatabaseRecorder] = &[
    #[cfg(feature = "nsys")]
    super::nsys::RECORDER,
    #[cfg(feature = "rocm")]
    super::rocpd::RECORDER,
];

/// Detects the kind of a database from its tables if its first pages do not identify it. Compressed
/// databases, and those from standard input, are unpacked and stay so.
///
/// # Errors
/// Fails if the input cannot be unpacked, or cannot be read for a reason outside the file.
pub(crate) fn ask_tables(mut input: InputFile) -> Result<InputFile, RunError> {
    if let Some(path) = &input.plain_path {
        input.kind = database_kind(path)?;
        return Ok(input);
    }
    let (mut file, unpacked) = unpack(&mut input)?;
    input.kind = database_kind(unpacked.path())?;
    file.rewind().with_path(FileAction::Read, unpacked.path())?;
    input.content = Box::new(file);
    input.unpacked = Some(unpacked);
    Ok(input)
}

/// Returns the kind of a database from its tables.
///
/// # Errors
/// Fails if the database cannot be read for a reason outside the file.
fn database_kind(path: &Path) -> Result<InputKind, FileError> {
    let file = DatabaseFile::on_disk(path);
    let tables = file
        .connect()
        .and_then(|connection| SqliteTables::probe(&connection));
    let tables = match tables {
        Ok(tables) => tables,
        Err(error) if error.is_outside_file() => return Err(unreadable(path, error)),
        // Damage of the database is reported by its reader.
        Err(_) => return Ok(InputKind::OtherSqlite),
    };
    let recorder = RECORDERS.iter().find(|recorder| (recorder.is_own)(&tables));
    Ok(recorder.map_or(InputKind::OtherSqlite, |recorder| recorder.kind))
}

fn unreadable(path: &Path, error: impl Error + Send + Sync + 'static) -> FileError {
    FileError {
        action: FileAction::Read,
        path: path.to_owned(),
        source: io::Error::other(error),
    }
}

/// Counts the rows of a database that become events of a trace, to estimate their memory. Returns
/// `None` if the database is not on a disk, or of an unknown recorder.
pub(crate) fn event_rows(path: &Path) -> Option<u64> {
    // an estimate does not justify copying a whole database
    if !storage::is_on_disk(path) {
        return None;
    }
    let file = DatabaseFile::on_disk(path);
    let connection = file.connect().ok()?;
    RECORDERS
        .iter()
        .find_map(|recorder| (recorder.event_rows)(&connection))
}

/// Returns true if a regular file begins like a database.
fn is_database(path: &Path) -> Result<bool, FileError> {
    // reading a pipe would block and lose its first bytes
    if !storage::is_file(path) {
        return Ok(false);
    }
    let file = storage::open(path).with_path(FileAction::Open, path)?;
    let mut head = vec![];
    let read = file.content.take(MAGIC.len() as u64).read_to_end(&mut head);
    read.with_path(FileAction::Read, path)?;
    Ok(head == MAGIC)
}

/// Lists the processes of a recording that have work on devices. Returns none if the recorder is
/// unknown, or if the file is damaged, which its reader will report. A compressed file is not
/// unpacked.
///
/// # Errors
/// Fails if the file cannot be read for a reason outside it.
pub fn database_processes(path: &Path) -> Result<Vec<DatabaseProcess>, FileError> {
    if !is_database(path)? {
        return Ok(vec![]);
    }
    let Ok(file) = DatabaseFile::at(path) else {
        return Ok(vec![]);
    };
    let connection = match file.connect() {
        Ok(connection) => connection,
        Err(error) if error.is_outside_file() => return Err(unreadable(path, error)),
        Err(_) => return Ok(vec![]),
    };
    for recorder in RECORDERS {
        match (recorder.processes)(&connection) {
            Ok(Some(processes)) => return Ok(processes),
            Ok(None) => {}
            Err(error) if error.is_outside_file() => return Err(unreadable(path, error)),
            Err(_) => {}
        }
    }
    Ok(vec![])
}
