//! Size of a database, which limits its number of rows.

use rusqlite::Connection;

/// Lower bound of a row's size, bytes: a cell has a pointer of two bytes and at least four of its
/// own (<https://sqlite.org/fileformat.html>, 1.6).
pub(crate) const LEAST_ROW_BYTES: u64 = 6;

/// Returns the size of a database in bytes, from its pages, so that it works in memory too.
pub(crate) fn stored_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let bytes = pragma("page_count")?.saturating_mul(pragma("page_size")?);
    Ok(u64::try_from(bytes).unwrap_or(0))
}
