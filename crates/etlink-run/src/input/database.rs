//! Device traces that are SQLite databases: which recorder wrote one, and a connection that leaves no
//! trace beside it.

use crate::file_error::{FileAction, FileContext, FileError};
use crate::input::{InputError, InputFile, InputKind};
use crate::interrupt::Changes;
use crate::storage::{self, is_url};
use etlink_nsys::NsysProcess;
use etlink_rocm::RocpdProcess;
use etlink_sqlite::{SqliteTables, set_safe_limits};
use memchr::memmem;
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempPath;

/// The first bytes of every database (<https://sqlite.org/fileformat.html>).
pub(crate) const MAGIC: &[u8] = b"SQLite format 3\0";

/// Where the header says how the file is written: 2 is a write-ahead log.
const WRITE_VERSION: usize = 18;
const WRITE_AHEAD_LOG: u8 = 2;

/// A program that writes has so long to end a short write.
const PATIENCE: Duration = Duration::from_millis(300);

/// A database on disk. One that was packed, or came from standard input, is unpacked into a temporary
/// file: SQLite reads at any place.
pub(crate) struct DatabaseFile {
    path: PathBuf,
    /// Removed with this.
    _unpacked: Option<UnpackedFile>,
}

/// The unpacked content of a database. It goes with this, and where a signal ends the program.
pub(crate) struct UnpackedFile(TempPath);

impl UnpackedFile {
    /// Makes it, still empty, where temporary files are.
    fn create() -> Result<(File, UnpackedFile), InputError> {
        let folder = std::env::temp_dir();
        // held, so that no signal comes between the file and its place in the list
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
        // the file itself goes when its path is dropped, after this
        Changes::begin().remove_unfinished(&self.0);
    }
}

impl DatabaseFile {
    /// The file of an input; its unpacked content where that is needed.
    ///
    /// # Errors
    /// It cannot be unpacked.
    pub(crate) fn from_input(mut input: InputFile) -> Result<DatabaseFile, InputError> {
        if let Some(path) = input.plain_path.take() {
            return Ok(DatabaseFile {
                path,
                _unpacked: None,
            });
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

    /// The file of a path; a copy of what lies behind a URL.
    fn at(path: &Path) -> Result<DatabaseFile, InputError> {
        if !is_url(path) {
            return Ok(DatabaseFile {
                path: path.to_owned(),
                _unpacked: None,
            });
        }
        let mut source = storage::open(path).with_path(FileAction::Open, path)?;
        let (mut file, copy) = UnpackedFile::create()?;
        std::io::copy(&mut source.content, &mut file).with_path(FileAction::Read, path)?;
        Ok(DatabaseFile {
            path: copy.0.to_path_buf(),
            _unpacked: Some(copy),
        })
    }

    /// A connection that reads alone. It makes no file beside the database.
    ///
    /// # Errors
    /// Another program is writing the database, or SQLite cannot open it.
    pub(crate) fn connect(&self) -> Result<Connection, etlink_sqlite::Error> {
        let opened = |source| etlink_sqlite::Error::of("opening", source);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // A write-ahead log needs two files beside the database, also of who only reads it. With
        // `immutable` SQLite makes none, and looks at no lock.
        let connection = match self.has_log() {
            false => Connection::open_with_flags(&self.path, flags),
            true if self.has_unwritten_log() => {
                return Err(etlink_sqlite::Error::PendingLog);
            }
            true => {
                let flags = flags | OpenFlags::SQLITE_OPEN_URI;
                Connection::open_with_flags(immutable_uri(&self.path), flags)
            }
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

    /// Whether there is a log whose rows are not in the database yet.
    fn has_unwritten_log(&self) -> bool {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
    }
}

/// Unpacks the content of an input.
fn unpack(input: &mut InputFile) -> Result<(File, UnpackedFile), InputError> {
    let name = Path::new(&input.name);
    let (mut file, unpacked) = UnpackedFile::create()?;
    std::io::copy(&mut input.content, &mut file).with_path(FileAction::Unpack, name)?;
    Ok((file, unpacked))
}

/// Asks a database that its first pages do not tell for its tables. One that is packed, or comes from
/// standard input, is unpacked for that, and stays so.
///
/// # Errors
/// It cannot be unpacked, or not be read, and that is not the file's fault.
pub(super) fn ask_tables(mut input: InputFile) -> Result<InputFile, InputError> {
    if let Some(path) = &input.plain_path {
        input.kind = database_kind(path)?;
        return Ok(input);
    }
    let (mut file, unpacked) = unpack(&mut input)?;
    input.kind = database_kind(&unpacked.0)?;
    file.rewind().with_path(FileAction::Read, &unpacked.0)?;
    input.content = Box::new(file);
    input.unpacked = Some(unpacked);
    Ok(input)
}

/// A path as an URI, by which SQLite takes options.
fn immutable_uri(path: &Path) -> PathBuf {
    let mut uri = OsString::from("file:");
    // Other characters may stand as they are (<https://sqlite.org/uri.html>).
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

/// What a database is, by its tables.
///
/// # Errors
/// It cannot be read, and that is not the file's fault.
fn database_kind(path: &Path) -> Result<InputKind, FileError> {
    let file = DatabaseFile {
        path: path.to_owned(),
        _unpacked: None,
    };
    let tables = file
        .connect()
        .and_then(|connection| SqliteTables::probe(&connection));
    Ok(match tables {
        Ok(tables) if etlink_nsys::is_export(&tables) => InputKind::NsysSqlite,
        Ok(tables) if etlink_rocm::is_rocpd(&tables) => InputKind::RocpdSqlite,
        Err(error) if error.is_outside_file() => return Err(unreadable(path, error)),
        // What is wrong with it is told by who reads it.
        Ok(_) | Err(_) => InputKind::OtherSqlite,
    })
}

fn unreadable(path: &Path, error: impl Error + Send + Sync + 'static) -> FileError {
    FileError {
        action: FileAction::Read,
        path: path.to_owned(),
        source: io::Error::other(error),
    }
}

/// What a database is by its first pages: they have the text that made the tables.
pub(crate) fn kind_of_pages(head: &[u8]) -> InputKind {
    let has = |text: &str| memmem::find(head, text.as_bytes()).is_some();
    let is_nsys = has("StringIds") && (has("EXPORT_META_DATA") || has("META_DATA_EXPORT"));
    if is_nsys || has("CUPTI_ACTIVITY_KIND_") {
        InputKind::NsysSqlite
    } else if has("rocpd_info_process") {
        InputKind::RocpdSqlite
    } else {
        InputKind::OtherSqlite
    }
}

/// How many rows of a database become events of a trace, for a guess of the memory that they take.
/// `None` for what is none that is known.
pub(crate) fn event_rows(path: &Path) -> Option<u64> {
    // nobody fetches a whole database for a guess
    if is_url(path) || !is_database(path).unwrap_or(false) {
        return None;
    }
    let file = DatabaseFile {
        path: path.to_owned(),
        _unpacked: None,
    };
    let connection = file.connect().ok()?;
    let rows = etlink_nsys::row_count(&connection).ok();
    rows.or_else(|| etlink_rocm::rocpd_row_count(&connection).ok())
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

/// A process of a database that has work on devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DatabaseProcess {
    /// Its rank, if anything tells.
    pub rank: Option<i64>,
    /// Its process id.
    pub pid: i64,
    /// How rows call it.
    #[serde(skip)]
    pub process: i64,
    /// How many ranks there are, if that is told too.
    pub world_size: Option<i64>,
    /// What tells the rank, in words.
    pub told_by: Option<&'static str>,
    /// Nothing but the order of processes tells it.
    #[serde(skip)]
    pub by_order: bool,
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
    match etlink_nsys::processes(&connection) {
        Ok(processes) => return Ok(nsys_processes(processes)),
        Err(etlink_nsys::Error::Sqlite(error)) if error.is_outside_file() => {
            return Err(unreadable(path, error));
        }
        Err(_) => {}
    }
    match etlink_rocm::rocpd_processes(&connection) {
        Ok(processes) => Ok(rocpd_processes(processes)),
        Err(etlink_rocm::Error::Sqlite(error)) if error.is_outside_file() => {
            Err(unreadable(path, error))
        }
        Err(_) => Ok(vec![]),
    }
}

/// Those of a rocpd database. What the environment does not tell, the order of its tables does: the
/// ranks that are left free, or all where the environment tells one rank twice.
fn rocpd_processes(processes: Vec<RocpdProcess>) -> Vec<DatabaseProcess> {
    let known = processes.iter().filter_map(|process| process.rank);
    let ranks: BTreeSet<i64> = known.clone().collect();
    let is_distinct = known.count() == ranks.len();
    // One process alone is not the first of several.
    let is_alone = processes.len() == 1;
    let told_by = match (is_distinct, ranks.len()) {
        (true, all) if all == processes.len() => "the environment of the recorded program",
        (true, 1..) => {
            "the environment of the recorded program, where that tells one, and else by the order \
             of its tables"
        }
        (true, 0) => "the order of its tables",
        // A process that started both had it.
        (false, _) => {
            "the order of its tables (the environment of the recorded program tells one rank twice)"
        }
    };
    let mut free = (0..).filter(|rank| !is_distinct || !ranks.contains(rank));
    let mut all = vec![];
    for process in processes {
        let told = process.rank.filter(|_| is_distinct);
        let by_order = told.is_none() && !is_alone;
        all.push(DatabaseProcess {
            pid: process.pid,
            process: process.place,
            rank: if by_order { free.next() } else { told },
            world_size: process.world_size,
            told_by: Some(told_by),
            by_order,
        });
    }
    all
}

/// Those of an export of Nsight Systems.
fn nsys_processes(processes: Vec<NsysProcess>) -> Vec<DatabaseProcess> {
    let mut all = vec![];
    for process in processes {
        let rank = process.rank;
        all.push(DatabaseProcess {
            pid: process.pid,
            process: process.global_pid.0,
            rank: rank.map(|rank| rank.rank),
            world_size: rank.and_then(|rank| rank.world_size),
            told_by: rank.map(|rank| rank.source.describe()),
            by_order: rank.is_some_and(|rank| rank.source == etlink_nsys::RankSource::Order),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let file = DatabaseFile {
            path: path.clone(),
            _unpacked: None,
        };
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
        let file = DatabaseFile {
            path,
            _unpacked: None,
        };
        let probed = file
            .connect()
            .and_then(|connection| SqliteTables::probe(&connection).map(|_| ()));
        let error = probed.expect_err("locked");
        assert!(
            matches!(error, etlink_sqlite::Error::Locked { .. }),
            "{error}"
        );
    }
}
