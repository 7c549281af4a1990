//! Limits the work that SQLite does for one query.
//!
//! SQLite reads a page of a table's tree once per page that references it. Ten pages that each
//! reference the next one fifty times make a table of 50^10 rows. A query that matches none of
//! them, such as one for an absent process, would never return.

use crate::sqlite::Error;
use crate::sqlite::stored_size::LEAST_ROW_BYTES;
use rusqlite::Connection;
use std::cell::Cell;

/// Steps of SQLite's virtual machine per row. Readers request at most some twenty columns, at a
/// step each.
const STEPS_PER_ROW: u64 = 64;
/// Steps granted to every query: the list of tables is a table as well.
const LEAST_STEPS: u64 = 100_000;
/// Steps between two checks of the limit.
const STEPS_AT_ONCE: u16 = 1_000;

thread_local! {
    /// Steps of the running query. A connection is used by one thread at a time.
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Resets the step count for the next query. [`scan_rows`](crate::sqlite::scan_rows) calls it itself.
pub fn begin_query() {
    STEPS.set(0);
}

/// Interrupts a query that takes more steps than the rows of a file of `bytes` can cause.
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
