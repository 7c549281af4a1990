//! Compares `schemas/sql/rocpd.md` with the reader's SQL requests.

use super::database;
use crate::rocm::read_rocpd;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const DOCUMENT: &str = include_str!("../../../../../schemas/sql/rocpd.md");

/// Suffix of a recording's tables.
const SUFFIX: &str = "_a";

/// Returns tables with their columns, as the document lists them.
fn documented() -> BTreeSet<(String, String)> {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `"));
    let mut all = BTreeSet::new();
    for row in rows {
        let mut cells = row.split('|').skip(1);
        let table = cells.next().expect("a table").trim().trim_matches('`');
        for column in cells.next().expect("columns").split_whitespace() {
            let column = column.trim_matches('`').to_owned();
            all.insert((table.to_owned(), column));
        }
    }
    all
}

#[test]
fn the_columns_that_are_read_are_those_of_the_document() {
    let mut connection = database(1);
    let read = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&read);
    let note = move |context: AuthContext<'_>| {
        if let AuthAction::Read {
            table_name,
            column_name,
        } = context.action
            && let Some(table_name) = table_name.strip_suffix(SUFFIX)
            && !matches!(column_name, "" | "ROWID")
        {
            let name = (table_name.to_owned(), column_name.to_owned());
            seen.lock().expect("a set").insert(name);
        }
        Authorization::Allow
    };
    connection.authorizer(Some(note)).expect("is set");
    read_rocpd(&connection, None).expect("reads");
    assert_eq!(*read.lock().expect("a set"), documented());
}
