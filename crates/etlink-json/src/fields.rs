//! Scans the keys around a document's array.

use crate::{JsonScanner, JsonValue};

/// Damaged lines after which the rest of a header is given up, because each one costs a search to
/// the header's end.
const MAX_DAMAGED: u64 = 1_000;

/// Result of a scan of the text around an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldScan {
    /// Places at which the text was not JSON: a line was skipped, or a string repaired.
    pub damaged: u64,
    /// True if text follows the document's closing brace.
    pub text_behind: bool,
}

/// Calls `field` with every readable top-level key and value of `text`.
///
/// `text` is a header (`{"a": 1, "list": [`) or a trailer (`, "z": 2}`). Kineto writes metadata
/// values raw, so a value can be anything. After damage the scan resumes at the next line that
/// begins with a quote.
pub fn scan_fields<'a>(
    text: &'a [u8],
    mut field: impl FnMut(&'a [u8], JsonValue<'a>),
) -> FieldScan {
    let mut scanner = JsonScanner::new(text);
    scanner.restart(
        text.len() - text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text).len(),
        false,
    );
    let mut fields = FieldScan::default();
    if !scanner.eat(b'{') && scanner.peek() == Some(b'[') {
        // A bare array has no fields around it.
        return fields;
    }
    loop {
        while scanner.eat(b',') {}
        let from = scanner.pos();
        if scanner.peek().is_none() {
            return fields;
        }
        let key = scanner.key();
        // The array itself; a header holds only its opening bracket.
        if key.is_ok() && text[scanner.pos()..].trim_ascii() == b"[" {
            return fields;
        }
        match key.and_then(|key| key.map(|key| Ok((key, scanner.value()?))).transpose()) {
            Ok(Some((key, value))) => field(key, value),
            Ok(None) => {
                fields.text_behind = scanner.peek().is_some();
                return fields;
            }
            Err(_) => {
                fields.damaged += 1;
                match next_line(text, from) {
                    // Kineto writes each metadata entry on its own line, so damage stays within a
                    // line.
                    Some(next) if fields.damaged < MAX_DAMAGED => scanner.restart(next, false),
                    _ => return fields,
                }
            }
        }
        fields.damaged += u64::from(scanner.take_repaired());
    }
}

/// Returns the keys and values of the object `text` in order, up to the first unreadable one.
///
/// An object that needs the second, careful attempt of [`read_elements`](crate::read_elements) gets
/// such an attempt here too, so that an object inside an element has the same meaning in both.
pub fn object_fields(text: &[u8]) -> Vec<(&[u8], JsonValue<'_>)> {
    let (fields, is_whole) = fields_of(text, false);
    if is_whole {
        return fields;
    }
    match fields_of(text, true) {
        (careful, true) => careful,
        _ => fields,
    }
}

/// Returns the fields of an object, and true if the object was read to the end of `text`.
fn fields_of(text: &[u8], careful: bool) -> (Vec<(&[u8], JsonValue<'_>)>, bool) {
    let mut scanner = JsonScanner::new(text);
    scanner.restart(0, careful);
    let mut fields = vec![];
    if scanner.enter().is_err() {
        return (fields, false);
    }
    while let Ok(key) = scanner.key() {
        let Some(key) = key else {
            let is_whole = scanner.peek().is_none();
            return (fields, is_whole);
        };
        let Ok(value) = scanner.value() else { break };
        fields.push((key, value));
    }
    (fields, false)
}

/// Returns the start of the first line after `from` that begins with a quote.
fn next_line(text: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'\n', text.get(from..)?)
        .map(|at| from + at + 1)
        .find(|&at| text[at..].trim_ascii_start().first() == Some(&b'"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<(String, String)> {
        let mut out = vec![];
        scan_fields(text.as_bytes(), |key, value| {
            out.push((
                String::from_utf8_lossy(key).into_owned(),
                value.text().into_owned(),
            ))
        });
        out
    }

    #[test]
    fn header_and_trailer() {
        assert_eq!(
            fields(r#"{"a": 1, "b": {"c": [2]}, "list": ["#),
            [
                ("a".into(), "1".into()),
                ("b".into(), r#"{"c": [2]}"#.into())
            ]
        );
        assert_eq!(fields(",\n \"z\": \"x\"\n}"), [("z".into(), "x".into())]);
        assert_eq!(fields(""), []);
    }

    #[test]
    fn an_object_is_read_as_inside_its_element() {
        let fields = |text: &'static str| -> Vec<(String, String)> {
            let read = object_fields(text.as_bytes()).into_iter();
            read.map(|(key, value)| {
                (
                    String::from_utf8_lossy(key).into_owned(),
                    value.text().into_owned(),
                )
            })
            .collect()
        };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            fields(r#"{"a": "x", "b": [1, 2]}"#),
            [pair("a", "x"), pair("b", "[1, 2]")]
        );
        // A quote before a comma belongs to the name, because no key follows the comma.
        assert_eq!(
            fields(r#"{"group": "0"9, "s": [["", ""], []], "d": "x", "n": 3}"#),
            [
                pair("group", r#"0"9, "s": [["", ""], []], "d": "x"#),
                pair("n", "3")
            ]
        );
        assert_eq!(fields(r#"{"a": 1, "b": ["#), [pair("a", "1")]);
        assert_eq!(fields("5"), []);
    }

    #[test]
    fn what_is_odd_is_told() {
        let scan = |text: &str| scan_fields(text.as_bytes(), |_, _| ());
        assert_eq!(scan("{\"a\": 1, \"list\": ["), FieldScan::default());
        assert_eq!(scan(", \"z\": 1}\n"), FieldScan::default());
        assert_eq!(scan("\u{feff}[\n"), FieldScan::default());
        assert_eq!(
            scan(", \"z\": 1}\n]}"),
            FieldScan {
                damaged: 0,
                text_behind: true
            }
        );
        assert_eq!(
            scan("{\"job\": \"v /\"q/\"\",\n\"list\": ["),
            FieldScan {
                damaged: 1,
                text_behind: false
            }
        );
        assert_eq!(
            scan(&format!("{{{}", "\"open\n".repeat(100_000))).damaged,
            MAX_DAMAGED
        );
    }

    #[test]
    fn damage_costs_a_line() {
        let text =
            "{\"a\": 1,\n \"job\": {\"x\": \"v /\"q/\"\"\n, \"bad\" 5\n,\n\"b\": 2,\n\"list\": [";
        let found = fields(text);
        assert_eq!(found.first(), Some(&("a".into(), "1".into())));
        assert_eq!(found.last(), Some(&("b".into(), "2".into())));
    }
}
