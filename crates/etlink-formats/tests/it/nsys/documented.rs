//! Compares `schemas/sql/nsys.md` with the columns that the reader requests from SQLite.

use crate::nsys::support::{export, read_export};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const DOCUMENT: &str = include_str!("../../../../../schemas/sql/nsys.md");

/// Returns the tables with their columns, as the document lists them.
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
fn every_column_that_is_read_is_documented() {
    let mut connection = export("copies");
    let read = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&read);
    let note = move |context: AuthContext<'_>| {
        if let AuthAction::Read {
            table_name,
            column_name,
        } = context.action
        {
            let is_own = table_name.starts_with("sqlite_") || table_name.starts_with("pragma_");
            if !is_own && !matches!(column_name, "" | "ROWID") {
                let name = (table_name.to_owned(), column_name.to_owned());
                seen.lock().expect("a set").insert(name);
            }
        }
        Authorization::Allow
    };
    connection.authorizer(Some(note)).expect("is set");
    read_export(&connection);
    let read = read.lock().expect("a set");
    assert!(read.len() > 40, "{read:?}");
    let documented = documented();
    let missing: Vec<_> = read.difference(&documented).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_reader_knows_every_documented_name() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/nsys");
    let mut source = String::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            source += &std::fs::read_to_string(path).expect("text");
        }
    }
    let documented = documented();
    assert!(documented.len() > 100, "{documented:?}");
    for (table, column) in documented {
        for name in [table, column] {
            assert!(source.contains(&name), "{name}");
        }
    }
}
