//! CSV, which people open in spreadsheets and print to terminals.

use super::text::plain;
use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// A table as CSV. Texts become safe cells, see [`csv_text`].
pub struct CsvTable {
    columns: Vec<String>,
    out: csv::Writer<Vec<u8>>,
}

impl CsvTable {
    /// Creates a table with these columns.
    ///
    /// # Errors
    /// Never fails in memory.
    pub fn new(columns: impl IntoIterator<Item = impl Into<String>>) -> Result<CsvTable> {
        let columns: Vec<String> = columns.into_iter().map(Into::into).collect();
        let mut out = csv::Writer::from_writer(vec![]);
        out.write_record(&columns)?;
        Ok(CsvTable { columns, out })
    }

    /// Adds a line: a tuple or list of cells, which may be nested. `None` is an empty cell.
    ///
    /// # Errors
    /// Fails if the line is not a value in JSON.
    pub fn add(&mut self, line: impl Serialize) -> Result<()> {
        let mut cells = vec![];
        push_cells(serde_json::to_value(line)?, &mut cells);
        Ok(self.out.write_record(cells)?)
    }

    /// Adds a record: cells for the first columns, then the fields that the others name. A field
    /// that is a list is one cell.
    ///
    /// # Errors
    /// Fails if a cell or the record is not a value in JSON.
    pub fn add_record(&mut self, first: &[&dyn ToString], record: impl Serialize) -> Result<()> {
        let record = serde_json::to_value(record)?;
        let first = first.iter().map(|cell| cell.to_string().into());
        let mut line: Vec<Value> = first.collect();
        // by name: fields that serde skips because they are empty would shift the others
        for name in &self.columns[line.len()..] {
            line.push(match record.get(name) {
                Some(list @ (Value::Array(_) | Value::Object(_))) => list.to_string().into(),
                value => value.cloned().unwrap_or_default(),
            });
        }
        self.add(line)
    }

    /// Returns the text of the table.
    ///
    /// # Errors
    /// Never fails in memory.
    pub fn finish(self) -> Result<String> {
        Ok(String::from_utf8(self.out.into_inner()?)?)
    }
}

fn push_cells(value: Value, cells: &mut Vec<String>) {
    match value {
        Value::Array(all) => all.into_iter().for_each(|value| push_cells(value, cells)),
        Value::String(text) => cells.push(csv_text(&text).into_owned()),
        Value::Null => cells.push(String::new()),
        other => cells.push(other.to_string()),
    }
}

/// Returns a text from a file as a safe cell. Control characters are escaped, because `cat` would
/// pass them to the terminal. Spreadsheets run a cell that begins with `=`, `+`, `-` or `@` as a
/// formula (<https://owasp.org/www-community/attacks/CSV_Injection>), so such a text gets a leading
/// apostrophe. Integers, such as a rank, stay unchanged.
fn csv_text(text: &str) -> Cow<'_, str> {
    // OWASP also names leading tabs and carriage returns, which are escaped here.
    let text = plain(text);
    let starts_formula = text.starts_with(['=', '+', '-', '@']);
    if starts_formula && text.parse::<i64>().is_err() {
        Cow::Owned(format!("'{text}"))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_becomes_text_and_all_else_stays() {
        for formula in ["=1+2", "+cmd", "-x", "@SUM(A1)", "-1.5e3", "-"] {
            assert_eq!(csv_text(formula), format!("'{formula}"));
        }
        for plain in ["", "aten::mm", "-1", "+7", "42", "a=b", "'=1", " =1", "é"] {
            assert_eq!(csv_text(plain), plain);
        }
    }

    #[test]
    fn control_characters_become_escapes() {
        for (text, cell) in [
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("two\nlines", "two\\nlines"),
            ("\t=1", "\\t=1"),
            ("\r=1", "\\r=1"),
            ("nul\0", "nul\\u{0}"),
        ] {
            assert_eq!(csv_text(text), cell);
        }
    }
}
