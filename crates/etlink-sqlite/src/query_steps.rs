//! A limit of what SQLite does for one query.
//!
//! A page of a table's tree that several others name is read once for each of them. Ten pages that
//! each name the next one fifty times are a table of 50^10 rows. A query that gives none of them, such
//! as one for a process that is not there, would not come back.

use crate::Error;
use crate::stored_size::LEAST_ROW_BYTES;
use rusqlite::Connection;
use std::cell::Cell;

/// Steps of SQLite's machine per row. Readers want at most some twenty columns, with a step each.
const STEPS_PER_ROW: u64 = 64;
/// Steps that every query may take: the list of tables is a table as well.
const LEAST_STEPS: u64 = 100_000;
/// Steps from one look at the limit to the next.
const STEPS_AT_ONCE: u16 = 1_000;

thread_local! {
    /// Steps of the query that runs now. A connection is used by one thread at a time.
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts the steps of the next query from zero. [`scan_rows`](crate::scan_rows) does it by itself.
pub fn begin_query() {
    STEPS.set(0);
}

/// Interrupts a query that takes more steps than rows which fit into a file of so many bytes can
/// cause.
pub(crate) fn limit_steps(connection: &mut Connection, bytes: u64) -> Result<(), Error> {
    let rows = bytes / LEAST_ROW_BYTES;
    let most = LEAST_STEPS.saturating_add(rows.saturating_mul(STEPS_PER_ROW));
    begin_query();
    let is_beyond = move || {
        let steps = STEPS.get() + u64::from(STEPS_AT_ONCE);
        STEPS.set(steps);
        steps > most
    };
    let set = connection.progress_handler(STEPS_AT_ONCE.into(), Some(is_beyond));
    set.map_err(|source| Error::of("settings", source))
}
