//! `StringIds`: texts that rows refer to by number.

use crate::Error;
use crate::sqlite::{RowFilter, SqliteTables, scan_rows, unless_damaged};
use etlink_model::{NameId, Names};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement};
use rustc_hash::FxHashMap;

/// Texts by number. Texts that no row of the trace refers to, which are most (functions of call
/// stacks), are not read.
#[derive(Default)]
pub(crate) struct StringTable<'c> {
    query: Option<Statement<'c>>,
    /// All texts, if the table cannot be searched by number.
    loaded: FxHashMap<i64, String>,
    names: FxHashMap<i64, NameId>,
    calls: FxHashMap<i64, NameId>,
    /// First failure to read a text that is not due to a damaged file. Texts are read in the middle
    /// of a row, so it is reported at the end.
    failure: Option<crate::sqlite::Error>,
}

impl<'c> StringTable<'c> {
    pub(crate) fn new(
        connection: &'c Connection,
        tables: &SqliteTables,
    ) -> Result<StringTable<'c>, Error> {
        let mut strings = StringTable::default();
        let Some(table) = tables.table("StringIds") else {
            return Ok(strings);
        };
        if table.row_id.as_deref() == Some("id") {
            let query = connection.prepare("SELECT value FROM StringIds WHERE id = ?1");
            strings.query =
                Some(query.map_err(|error| crate::sqlite::Error::of("StringIds", error))?);
            return Ok(strings);
        }
        // Other tools copy the table without its key; each search would then scan all of it.
        scan_rows(
            connection,
            table,
            &["id", "value"],
            RowFilter::All,
            |cells| {
                if let (Some(id), Some(text)) = (cells.int(0), cells.text(1)) {
                    strings.loaded.insert(id, text.into_owned());
                }
            },
        )?;
        Ok(strings)
    }

    /// Returns the text of a number; `None` if the table has none.
    pub(crate) fn text(&mut self, id: i64) -> Option<String> {
        let Some(query) = &mut self.query else {
            return self.loaded.get(&id).cloned();
        };
        let text = query.query_row([id], |row| match row.get_ref(0)? {
            ValueRef::Text(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            _ => Ok(String::new()),
        });
        unless_damaged("StringIds", text).unwrap_or_else(|error| {
            self.failure.get_or_insert(error);
            None
        })
    }

    /// Reports whether all texts could be read.
    ///
    /// # Errors
    /// A text could not be read for a reason other than a damaged file.
    pub(crate) fn finish(self) -> Result<(), Error> {
        self.failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Returns the name of a number; empty without a number.
    #[inline]
    pub(crate) fn name(&mut self, id: Option<i64>, names: &mut Names) -> NameId {
        let Some(id) = id else { return NameId::EMPTY };
        if let Some(name) = self.names.get(&id) {
            return *name;
        }
        let name = self
            .text(id)
            .map_or(NameId::EMPTY, |text| names.intern(&text));
        self.names.insert(id, name);
        name
    }

    /// Returns the name of a call as Kineto writes it.
    #[inline]
    pub(crate) fn call_name(&mut self, id: Option<i64>, names: &mut Names) -> NameId {
        let Some(id) = id else { return NameId::EMPTY };
        if let Some(name) = self.calls.get(&id) {
            return *name;
        }
        let text = self.text(id).unwrap_or_default();
        let name = names.intern(crate::nsys::names::call_name(&text));
        self.calls.insert(id, name);
        name
    }
}
