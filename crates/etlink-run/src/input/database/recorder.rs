//! Interface of recorders whose recordings are databases.

use super::DatabaseProcess;
use crate::input::InputKind;
use etlink_formats::sqlite::SqliteTables;
use rusqlite::Connection;

/// A recorder whose recordings are databases.
pub(super) struct DatabaseRecorder {
    /// Kind of the recorder's files.
    pub(super) kind: InputKind,
    /// Returns true if this recorder wrote a database with these tables.
    pub(super) is_own: fn(&SqliteTables) -> bool,
    /// Counts the rows that become events; `None` if the database is not of this recorder.
    pub(super) event_rows: fn(&Connection) -> Option<u64>,
    /// Lists the processes with work on devices; `None` if the database is not of this recorder, or
    /// is damaged, which its reader reports.
    pub(super) processes: ListProcesses,
}

type ListProcesses =
    fn(&Connection) -> Result<Option<Vec<DatabaseProcess>>, etlink_formats::sqlite::Error>;
