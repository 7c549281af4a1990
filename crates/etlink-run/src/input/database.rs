//! Device traces in SQLite databases: detects their recorder and lists their processes.
//!
//! Each recorder is a [`DatabaseRecorder`] behind the feature of its reader. A build without these
//! features still recognises databases by their first pages.

#[cfg(feature = "sqlite")]
mod connection;
#[cfg(feature = "nsys")]
mod nsys;
#[cfg(feature = "sqlite")]
mod recorder;
#[cfg(feature = "rocm")]
mod rocpd;
#[cfg_attr(not(feature = "sqlite"), path = "database/without.rs")]
mod tables;

pub use tables::database_processes;
pub(crate) use tables::{ask_tables, event_rows};

use crate::input::InputKind;
#[cfg(feature = "sqlite")]
pub(crate) use connection::{DatabaseFile, UnpackedFile};
use memchr::memmem;
use serde::Serialize;

/// First bytes of every database (<https://sqlite.org/fileformat.html>).
pub(crate) const MAGIC: &[u8] = b"SQLite format 3\0";

/// A process in a database that has work on devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatabaseProcess {
    /// Rank of the process, if known.
    pub rank: Option<i64>,
    /// Process id.
    pub pid: i64,
    /// Identifier of the process in the rows.
    #[serde(skip)]
    pub process: i64,
    /// Number of ranks, if known.
    pub world_size: Option<i64>,
    /// Source of the rank, in words.
    pub told_by: Option<&'static str>,
    /// True if only the order of processes determines the rank.
    #[serde(skip)]
    pub by_order: bool,
}

/// Returns the kind of a database from its first pages, which contain the text that created its
/// tables.
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
