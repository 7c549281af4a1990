//! Texts of traces in CSV, which people open in spreadsheets.

use std::borrow::Cow;

/// A cell with a text from a file. Spreadsheets run a cell that begins with `=`, `+`, `-`, `@`, a
/// tab or a carriage return as a formula (<https://owasp.org/www-community/attacks/CSV_Injection>):
/// such a text gets an apostrophe before it. A whole number, such as a rank's, stays one.
pub fn csv_text(text: &str) -> Cow<'_, str> {
    let starts_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if starts_formula && text.parse::<i64>().is_err() {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_becomes_text_and_all_else_stays() {
        for formula in [
            "=1+2", "+cmd", "-x", "@SUM(A1)", "\t=1", "\r=1", "-1.5e3", "-",
        ] {
            assert_eq!(csv_text(formula), format!("'{formula}"));
        }
        for plain in ["", "aten::mm", "-1", "+7", "42", "a=b", "'=1", " =1", "é"] {
            assert_eq!(csv_text(plain), plain);
        }
    }
}
