//! The book's table of diagnostics, from the codes of the crates.

use etlink_model::{AnomalyKind, DiagnosticCode, Severity};
use serde::Serialize;
use std::fmt::Write;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/src/reference/diagnostics.md"
);

/// Line of the book before its tables.
const HEAD: &str = "| code | severity | meaning |\n|---|---|---|\n";

fn name(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("a name");
    value.as_str().expect("a name").to_owned()
}

fn table(rows: impl Iterator<Item = (String, Severity, &'static str)>) -> String {
    let mut table = HEAD.to_owned();
    for (code, severity, meaning) in rows {
        let severity = name(severity);
        let _ = writeln!(table, "| `{code}` | {severity} | {} |", meaning.trim());
    }
    table
}

/// With `INSTA_UPDATE=always` the test writes the tables, as it does with the goldens.
#[test]
fn the_book_lists_every_code_once() {
    let codes = DiagnosticCode::ALL.iter();
    let codes = table(codes.map(|(code, meaning)| (name(code), code.severity(), *meaning)));
    let kinds = AnomalyKind::ALL.iter();
    let kinds = table(kinds.map(|kind| (name(kind), kind.severity(), kind.describe())));
    let book = std::fs::read_to_string(FILE).expect("the page of the book");
    let (text, _) = book.split_once(HEAD).expect("a table");
    let between = "\nKinds of damage and of harmless irregularities in files:\n\n";
    let written = format!("{text}{codes}{between}{kinds}");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(FILE, &written).expect("writes the page");
    }
    let book = std::fs::read_to_string(FILE).expect("the page of the book");
    assert_eq!(book, written, "INSTA_UPDATE=always writes the tables");
}
