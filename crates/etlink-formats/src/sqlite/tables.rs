//! Tables and columns of a database.

use crate::sqlite::query::scan_query;
use crate::sqlite::stored_size::stored_bytes;
use crate::sqlite::{Error, begin_query, unless_damaged};
use etlink_model::{Anomalies, AnomalyKind};
use indexmap::IndexMap;
use rusqlite::{Connection, Statement};
use rustc_hash::FxBuildHasher;
use std::collections::BTreeSet;

/// Limit of tables, and of columns per table: SQLite itself allows no more columns, and exports
/// have a few hundred tables.
const MOST: usize = 2000;

/// Lower bound of an event row's size, bytes: a cell has a pointer of two bytes, two lengths and a
/// number, and its header a byte per column (<https://sqlite.org/fileformat.html>, 1.6 and 2.1).
const LEAST_EVENT_BYTES: u64 = 10;

/// A table of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqliteTable {
    /// Name of the table.
    pub name: String,
    /// Names of the columns, in order.
    pub columns: Vec<String>,
    /// Column that SQLite uses as row number (`INTEGER PRIMARY KEY`); `None` if there is none.
    pub row_id: Option<String>,
}

impl SqliteTable {
    /// Returns true if the table has this column. As in SQL, case does not matter.
    pub fn has_column(&self, name: &str) -> bool {
        self.columns
            .iter()
            .any(|column| column.eq_ignore_ascii_case(name))
    }

    /// Returns the distinct integers in a column, in order; none if the column is absent. Damage
    /// ends them. O(rows · log numbers); memory of the numbers.
    ///
    /// # Errors
    /// The cause is outside the file, see [`unless_damaged`].
    pub fn distinct_ints(
        &self,
        connection: &Connection,
        column: &str,
    ) -> Result<BTreeSet<i64>, Error> {
        let mut found = BTreeSet::new();
        if !self.has_column(column) {
            return Ok(found);
        }
        let (table, column) = (quoted_name(&self.name), quoted_name(column));
        let query =
            format!("SELECT DISTINCT {column} FROM {table} WHERE typeof({column}) = 'integer'");
        scan_query(&self.name, connection, &query, |row| {
            found.extend(row.get::<_, i64>(0));
        })?;
        Ok(found)
    }

    /// Returns an upper bound of the number of rows: the highest row number, or what fits into the
    /// file if most rows were deleted. `None` if the table is empty or damaged. O(log rows).
    ///
    /// # Errors
    /// The cause is outside the file, see [`unless_damaged`].
    pub fn last_row(&self, connection: &Connection) -> Result<Option<u64>, Error> {
        // `count(*)` would read every page of the table.
        let query = format!("SELECT max(rowid) FROM {}", quoted_name(&self.name));
        let last = connection.query_row(&query, [], |row| row.get::<_, Option<i64>>(0));
        let last = unless_damaged(&self.name, last)?.flatten();
        let Some(last) = last.and_then(|last| u64::try_from(last).ok()) else {
            return Ok(None);
        };
        // Row numbers survive deletions: a trimmed table has few rows with high numbers.
        let bytes = unless_damaged(&self.name, stored_bytes(connection))?;
        Ok(bytes.map(|bytes| last.min(bytes / LEAST_EVENT_BYTES)))
    }
}

/// Tables of a database, in the file's order.
#[derive(Clone, Debug, Default)]
pub struct SqliteTables {
    all: IndexMap<String, SqliteTable, FxBuildHasher>,
    /// Size of the database, bytes; limits the rows of every table.
    pub bytes: u64,
    /// Tables whose columns cannot be read, which are left out.
    pub anomalies: Anomalies,
}

impl SqliteTables {
    /// Reads the list of tables. Skips views and virtual tables: they are programs inside the file,
    /// not rows, and may never end. O(tables).
    ///
    /// # Errors
    /// The file is not a database, it is locked, or its list of tables is damaged.
    pub fn probe(connection: &Connection) -> Result<SqliteTables, Error> {
        begin_query();
        let mut tables = SqliteTables::default();
        let failed = |source| Error::of("the list of tables", source);
        let listed = listed_tables(connection).map_err(failed)?;
        let columns = "SELECT name, pk, type FROM pragma_table_info(?1) LIMIT ?2";
        let mut columns = connection.prepare(columns).map_err(failed)?;
        for name in listed {
            match probe_table(&mut columns, &name)? {
                Some(table) if !table.columns.is_empty() => {
                    tables.all.insert(name.to_ascii_lowercase(), table);
                }
                Some(_) => {}
                None => tables.anomalies.note(AnomalyKind::TableDamaged, || name),
            }
        }
        tables.bytes = stored_bytes(connection).map_err(failed)?;
        Ok(tables)
    }

    /// Returns the table with this name. As in SQL, case does not matter. O(1).
    pub fn table(&self, name: &str) -> Option<&SqliteTable> {
        self.all.get(&name.to_ascii_lowercase())
    }

    /// Iterates over all tables, in the file's order.
    pub fn iter(&self) -> impl Iterator<Item = &SqliteTable> {
        self.all.values()
    }
}

/// Returns the names of tables.
fn listed_tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut query = connection.prepare(
        "SELECT name FROM sqlite_schema \
         WHERE type = 'table' AND coalesce(sql, '') NOT LIKE 'CREATE VIRTUAL%' LIMIT ?1",
    )?;
    let mut rows = query.query([MOST as i64])?;
    let mut listed = vec![];
    while let Some(row) = rows.next()? {
        // A name that is not text damages this row alone.
        if let Ok(name) = row.get(0) {
            listed.push(name);
        }
    }
    Ok(listed)
}

/// Reads the columns of a table; `None` if its description in the file cannot be understood.
fn probe_table(columns: &mut Statement<'_>, name: &str) -> Result<Option<SqliteTable>, Error> {
    let place = format!("the columns of {name}");
    let rows = columns.query((name, MOST as i64));
    let Some(mut rows) = unless_damaged(&place, rows)? else {
        return Ok(None);
    };
    let mut table = SqliteTable {
        name: name.to_owned(),
        ..SqliteTable::default()
    };
    let mut keys = 0;
    loop {
        let row = match unless_damaged(&place, rows.next())? {
            Some(Some(row)) => row,
            Some(None) => break,
            None => return Ok(None),
        };
        let Ok(column) = row.get::<_, String>(0) else {
            continue;
        };
        let is_integer = row
            .get::<_, String>(2)
            .is_ok_and(|kind| kind.eq_ignore_ascii_case("INTEGER"));
        if row.get::<_, i64>(1).is_ok_and(|key| key > 0) {
            keys += 1;
            table.row_id = is_integer.then(|| column.clone());
        }
        table.columns.push(column);
    }
    // A key of several columns is an index, not a row number.
    table.row_id = if keys == 1 { table.row_id } else { None };
    Ok(Some(table))
}

/// Quotes a name for SQL, whatever characters it contains.
pub(crate) fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
