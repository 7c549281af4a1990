//! What a database is by its tables, asked of the readers that this build has.

use super::connection::{DatabaseFile, unpack};
use super::recorder::DatabaseRecorder;
use super::{DatabaseProcess, MAGIC};
use crate::file_error::{FileAction, FileContext, FileError};
use crate::input::{InputError, InputFile, InputKind};
use crate::storage::{self, is_url};
use etlink_sqlite::SqliteTables;
use std::error::Error;
use std::io::{self, Read, Seek};
use std::path::Path;

/// The recorders that this build reads.
const RECORDERS: &[DatabaseRecorder] = &[
    #[cfg(feature = "nsys")]
    super::nsys::RECORDER,
    #[cfg(feature = "rocm")]
    super::rocpd::RECORDER,
];

/// Asks a database that its first pages do not tell for its tables. One that is packed, or comes from
/// standard input, is unpacked for that, and stays so.
///
/// # Errors
/// It cannot be unpacked, or not be read, and that is not the file's fault.
pub(crate) fn ask_tables(mut input: InputFile) -> Result<InputFile, InputError> {
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

/// What a database is, by its tables.
///
/// # Errors
/// It cannot be read, and that is not the file's fault.
fn database_kind(path: &Path) -> Result<InputKind, FileError> {
    let file = DatabaseFile::on_disk(path);
    let tables = file
        .connect()
        .and_then(|connection| SqliteTables::probe(&connection));
    let tables = match tables {
        Ok(tables) => tables,
        Err(error) if error.is_outside_file() => return Err(unreadable(path, error)),
        // What is wrong with the database is reported by its reader.
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

/// How many rows of a database become events of a trace, for a guess of the memory that they take.
/// `None` for what is none that is known.
pub(crate) fn event_rows(path: &Path) -> Option<u64> {
    // nobody fetches a whole database for a guess
    if is_url(path) || !is_database(path).unwrap_or(false) {
        return None;
    }
    let file = DatabaseFile::on_disk(path);
    let connection = file.connect().ok()?;
    RECORDERS
        .iter()
        .find_map(|recorder| (recorder.event_rows)(&connection))
}

/// Whether a file, which is no pipe, begins as databases do.
fn is_database(path: &Path) -> Result<bool, FileError> {
    // a pipe would be waited for, and its first bytes lost
    if !storage::is_file(path) {
        return Ok(false);
    }
    let file = storage::open(path).with_path(FileAction::Open, path)?;
    let mut head = vec![];
    let read = file.content.take(MAGIC.len() as u64).read_to_end(&mut head);
    read.with_path(FileAction::Read, path)?;
    Ok(head == MAGIC)
}

/// The processes of a recording that have work on devices; none where it is of no recorder, or cannot
/// is damaged, which its reader will tell. A packed file is not unpacked to look at it.
///
/// # Errors
/// It cannot be read, and that is not the file's fault.
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
