//! The keys around a document's array.

use crate::{Scanner, Value};

/// Calls `field` with every key and value of `text` that can be told, at the top level.
///
/// `text` is a header (`{"a": 1, "list": [`) or a trailer (`, "z": 2}`). Kineto writes
/// metadata values raw, so a value can be anything: after damage the scan goes on at the
/// next line that begins with a quote.
pub fn scan_fields<'a>(text: &'a [u8], mut field: impl FnMut(&'a [u8], Value<'a>)) {
    let mut scanner = Scanner::new(text);
    scanner.restart(text.len() - text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text).len(), false);
    scanner.eat(b'{');
    loop {
        let from = scanner.pos();
        match scanner.key().and_then(|key| Ok(key.zip(Some(scanner.value()?)))) {
            Ok(Some((key, value))) => field(key, value),
            Ok(None) => {}
            Err(_) => match next_line(text, from) {
                Some(next) => scanner.restart(next, false),
                None => return,
            },
        }
        if scanner.peek().is_none_or(|b| b == b'}') && !scanner.eat(b'}') {
            return;
        }
    }
}

/// The first line after `from` that begins with a quote.
fn next_line(text: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'\n', text.get(from..)?).map(|at| from + at + 1).find(|&at| text[at..].trim_ascii_start().first() == Some(&b'"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<(String, String)> {
        let mut out = vec![];
        scan_fields(text.as_bytes(), |key, value| out.push((String::from_utf8_lossy(key).into_owned(), value.text().into_owned())));
        out
    }

    #[test]
    fn header_and_trailer() {
        assert_eq!(fields(r#"{"a": 1, "b": {"c": [2]}, "list": ["#), [("a".into(), "1".into()), ("b".into(), r#"{"c": [2]}"#.into())]);
        assert_eq!(fields(",\n \"z\": \"x\"\n}"), [("z".into(), "x".into())]);
        assert_eq!(fields(""), []);
    }

    #[test]
    fn damage_costs_a_line() {
        let text = "{\"a\": 1,\n \"job\": {\"x\": \"v /\"q/\"\"\n, \"bad\" 5\n,\n\"b\": 2,\n\"list\": [";
        let found = fields(text);
        assert_eq!(found.first(), Some(&("a".into(), "1".into())));
        assert_eq!(found.last(), Some(&("b".into(), "2".into())));
    }
}
