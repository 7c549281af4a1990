//! Texts of traces in CSV, which people open in spreadsheets and print to terminals.

use super::text::plain;
use std::borrow::Cow;

/// Returns a text from a file as a safe cell. Control characters are escaped, because `cat` would
/// pass them to the terminal. Spreadsheets run a cell that begins with `=`, `+`, `-` or `@` as a
/// formula (<https://owasp.org/www-community/attacks/CSV_Injection>), so such a text gets a leading
/// apostrophe. Integers, such as a rank, stay unchanged.
pub fn csv_text(text: &str) -> Cow<'_, str> {
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
