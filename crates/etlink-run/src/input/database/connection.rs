//! Connections to databases that leave no files next to them.

use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::input::InputFile;
use crate::interrupt::Changes;
use crate::storage;
use etlink_formats::sqlite::set_safe_limits;
use rusqlite::{Connection, OpenFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempPath;

/// Position in the header of the write version: 2 means a write-ahead log.
const WRITE_VERSION: usize = 18;
const WRITE_AHEAD_LOG: u8 = 2;

/// Time for another program to finish a short write.
const PATIENCE: Duration = Duration::from_millis(300);

/// A database on disk. Compressed databases, and those from standard input, are unpacked into a
/// temporary file, because SQLite needs random access.
pub(crate) struct DatabaseFile {
    path: PathBuf,
    /// Temporary file that is removed on drop.
    _unpacked: Option<UnpackedFile>,
}

/// Unpacked content of a database. Removed on drop, and if a signal ends the program.
pub(crate) struct UnpackedFile(TempPath);

impl UnpackedFile {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Creates an empty file in the folder for temporary files.
    fn create() -> Result<(File, UnpackedFile), RunError> {
        let folder = std::env::temp_dir();
        // held, so that a signal cannot interrupt between creating and registering the file
        let mut changes = Changes::begin();
        let unpacked = tempfile::Builder::new()
            .prefix("etlink-")
            .suffix(".sqlite")
            .tempfile_in(&folder)
            .with_path(FileAction::WriteInFolder, &folder)?;
        let (file, path) = unpacked.into_parts();
        changes.add_unfinished(&path);
        Ok((file, UnpackedFile(path)))
    }
}

impl Drop for UnpackedFile {
    fn drop(&mut self) {
        // the file itself is removed when its path is dropped, after this
        Changes::begin().remove_unfinished(&self.0);
    }
}

impl DatabaseFile {
    /// Returns a database that is a plain file.
    pub(super) fn on_disk(path: &Path) -> DatabaseFile {
        DatabaseFile {
            path: path.to_owned(),
            _unpacked: None,
        }
    }

    /// Returns the database of an input, unpacked if necessary.
    ///
    /// # Errors
    /// Fails if the input cannot be unpacked.
    pub(crate) fn from_input(mut input: InputFile) -> Result<DatabaseFile, RunError> {
        if let Some(path) = input.plain_path.take() {
            return Ok(DatabaseFile::on_disk(&path));
        }
        let unpacked = match input.unpacked.take() {
            Some(unpacked) => unpacked,
            None => unpack(&mut input)?.1,
        };
        Ok(DatabaseFile {
            path: unpacked.0.to_path_buf(),
            _unpacked: Some(unpacked),
        })
    }

    /// Returns the database at a path; copies it if it is not on a disk.
    pub(super) fn at(path: &Path) -> Result<DatabaseFile, RunError> {
        if storage::is_on_disk(path) {
            return Ok(DatabaseFile::on_disk(path));
        }
        let mut source = storage::open(path).with_path(FileAction::Open, path)?;
        let (mut file, copy) = UnpackedFile::create()?;
        std::io::copy(&mut source.content, &mut file).with_path(FileAction::Read, path)?;
        Ok(DatabaseFile {
            path: copy.0.to_path_buf(),
            _unpacked: Some(copy),
        })
    }

    /// Opens a read-only connection, without creating files next to the database.
    ///
    /// # Errors
    /// Fails if another program is writing the database, or SQLite cannot open it.
    pub(crate) fn connect(&self) -> Result<Connection, etlink_formats::sqlite::Error> {
        let opened = |source| etlink_formats::sqlite::Error::of("opening", source);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // A write-ahead log needs two files next to the database, even for readers. With
        // `immutable`, SQLite creates none and checks no lock.
        let connection = if !self.has_log() {
            Connection::open_with_flags(&self.path, flags)
        } else if self.has_unwritten_log() {
            return Err(etlink_formats::sqlite::Error::PendingLog);
        } else {
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(immutable_uri(&self.path), flags)
        };
        let mut connection = connection.map_err(opened)?;
        connection.busy_timeout(PATIENCE).map_err(opened)?;
        set_safe_limits(&mut connection)?;
        Ok(connection)
    }

    fn has_log(&self) -> bool {
        let mut head = vec![];
        let file = File::open(&self.path);
        let read = file.and_then(|file| file.take(100).read_to_end(&mut head));
        read.is_ok() && head.get(WRITE_VERSION) == Some(&WRITE_AHEAD_LOG)
    }

    /// Returns true if there is a log with rows that are not in the database yet.
    fn has_unwritten_log(&self) -> bool {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
    }
}

/// Unpacks the content of an input into a temporary file.
pub(super) fn unpack(input: &mut InputFile) -> Result<(File, UnpackedFile), RunError> {
    let name = Path::new(&input.name);
    let (mut file, unpacked) = UnpackedFile::create()?;
    std::io::copy(&mut input.content, &mut file).with_path(FileAction::Unpack, name)?;
    Ok((file, unpacked))
}

/// Returns a path as a URI, in which SQLite takes options.
fn immutable_uri(path: &Path) -> PathBuf {
    let mut uri = OsString::from("file:");
    // Other characters need no escape (<https://sqlite.org/uri.html>).
    match path.to_str() {
        Some(text) => {
            let text = text.replace('%', "%25").replace('?', "%3f");
            uri.push(text.replace('#', "%23"));
        }
        None => uri.push(path),
    }
    uri.push("?immutable=1");
    PathBuf::from(uri)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_formats::sqlite::SqliteTables;

    #[test]
    fn paths_of_any_characters_are_uris() {
        let uri = immutable_uri(Path::new("/a b/50%?#.sqlite"));
        assert_eq!(uri, Path::new("file:/a b/50%25%3f%23.sqlite?immutable=1"));
    }

    #[test]
    fn reading_a_database_with_a_log_makes_no_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x?y.sqlite");
        let connection = Connection::open(&path).expect("opens");
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1);",
            )
            .expect("writes");
        let file = DatabaseFile::on_disk(&path);
        let error = file.connect().map(|_| ()).expect_err("a log");
        let said = error.to_string();
        assert!(said.contains("is writing"), "{said}");
        assert!(said.contains("PRAGMA wal_checkpoint(TRUNCATE)"), "{said}");
        drop(connection);
        let names = || std::fs::read_dir(folder.path()).expect("lists").count();
        assert_eq!(names(), 1, "the last connection removes the log");
        let connection = file.connect().expect("opens");
        let count = "SELECT count(*) FROM t";
        let rows: i64 = connection
            .query_row(count, [], |row| row.get(0))
            .expect("a count");
        assert_eq!((rows, names()), (1, 1));
    }

    #[test]
    fn a_locked_database_is_said_to_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("locked.sqlite");
        let writer = Connection::open(&path).expect("opens");
        writer
            .execute_batch("CREATE TABLE t (a); BEGIN EXCLUSIVE;")
            .expect("locks");
        let file = DatabaseFile::on_disk(&path);
        let probed = file
            .connect()
            .and_then(|connection| SqliteTables::probe(&connection).map(|_| ()));
        let error = probed.expect_err("locked");
        assert!(
            matches!(error, etlink_formats::sqlite::Error::Locked { .. }),
            "{error}"
        );
    }
}
