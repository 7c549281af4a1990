//! Device traces that are SQLite databases: which recorder wrote one, and which processes it has.
//!
//! Each recorder is a [`DatabaseRecorder`] behind the feature of its reader. A build without them
//! still knows databases by their first pages.

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

/// The first bytes of every database (<https://sqlite.org/fileformat.html>).
pub(crate) const MAGIC: &[u8] = b"SQLite format 3\0";

/// A process of a database that has work on devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
