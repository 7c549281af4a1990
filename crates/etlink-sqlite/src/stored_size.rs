//! How large a database is, and so how many rows it can have.

use rusqlite::Connection;

/// No row takes less: a cell has a pointer of two bytes and at least four of its own
/// (<https://sqlite.org/fileformat.html>, 1.6).
pub(crate) const LEAST_ROW_BYTES: u64 = 6;

/// The size of a database, bytes. What is in memory alone has its pages' size.
pub(crate) fn stored_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let bytes = pragma("page_count")?.saturating_mul(pragma("page_size")?);
    Ok(u64::try_from(bytes).unwrap_or(0))
}
