//! Writes valid JSON text, whatever the input.

pub(crate) use etlink_json::write::{micros, number, text};
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// Writes a list of a trace unchanged if it is JSON, or repaired if possible: PyTorch before 2.4
/// wrote `nan` and `inf` bare. Otherwise writes an empty list and returns `false`.
pub(crate) fn list(out: &mut Vec<u8>, raw: &[u8]) -> bool {
    match valid_list(raw) {
        Some(text) => {
            out.extend_from_slice(text.as_bytes());
            true
        }
        None => {
            out.extend_from_slice(b"[]");
            raw.is_empty()
        }
    }
}

/// Returns the elements of such a list, without brackets; `None` if it cannot be repaired.
pub(crate) fn elements(raw: &[u8]) -> Option<String> {
    // Attributes unknown to readers are kept as the contents of a list.
    let list = [b"[", raw, b"]"].concat();
    let text = valid_list(&list)?;
    Some(text[1..text.len() - 1].to_owned())
}

fn valid_list(raw: &[u8]) -> Option<Cow<'_, str>> {
    let raw = raw.trim_ascii();
    if raw.first() != Some(&b'[') {
        return None;
    }
    let text = crate::utf8(raw);
    // Nearly all lists are JSON and are written unchanged.
    if is_json(&text) {
        return Some(text);
    }
    Some(Cow::Owned(mend_list(&text))).filter(|mended| is_json(mended))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Quotes bare words, and escapes characters that strings must not contain.
fn mend_list(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string(rest, &mut out),
            // Structural characters stay; the end result is checked for validity.
            '[' | ']' | '{' | '}' | ',' | ':' | ' ' | '\t' | '\r' | '\n' => {
                out.push(first);
                1
            }
            _ => word(rest, &mut out),
        };
        rest = &rest[length..];
    }
    out
}

/// Copies the word that begins `text`, quoted unless it is a JSON literal; returns its length.
fn word(text: &str, out: &mut String) -> usize {
    let length = text.find(['"', '[', ']', '{', '}', ',', ':', ' ', '\t', '\r', '\n']);
    let word = &text[..length.unwrap_or(text.len())];
    // A bare word that is not a literal is `nan`, `inf` or a name; quoting preserves the text.
    if is_json(word) {
        out.push_str(word);
    } else {
        out.push_str(&serde_json::to_string(word).unwrap_or_default());
    }
    word.len()
}

/// Copies the string that begins `text`; returns its length.
fn string(text: &str, out: &mut String) -> usize {
    out.push('"');
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => {
                out.push('"');
                return at + 1;
            }
            '\\' => match chars.peek() {
                Some((_, next @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't'))) => {
                    out.extend(['\\', *next]);
                    chars.next();
                }
                Some((_, 'u')) if is_hex(&text[at + 2..]) => out.push('\\'),
                _ => out.push_str("\\\\"),
            },
            control if control < ' ' => out.push(' '),
            other => out.push(other),
        }
    }
    text.len()
}

fn is_hex(text: &str) -> bool {
    text.as_bytes()
        .get(..4)
        .is_some_and(|four| four.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listed(raw: &[u8]) -> (String, bool) {
        let mut out = vec![];
        let whole = list(&mut out, raw);
        (String::from_utf8(out).expect("UTF-8"), whole)
    }

    #[test]
    fn what_is_escaped_stays_beside_what_is_mended() {
        let (text, _) = listed(br#"["a\"b\n", nan]"#);
        assert_eq!(text, r#"["a\"b\n", "nan"]"#);
    }

    #[test]
    fn lists_are_mended() {
        for (raw, want) in [
            (r#"[1,[2,"x"]]"#, r#"[1,[2,"x"]]"#),
            ("[nan, -inf, 1.5]", r#"["nan", "-inf", 1.5]"#),
            (
                r#"["C:\q\u0041\u12",-1.-500]"#,
                r#"["C:\\q\u0041\\u12","-1.-500"]"#,
            ),
            ("[\"a\nb\"]", "[\"a b\"]"),
        ] {
            assert_eq!(listed(raw.as_bytes()), (want.to_owned(), true));
        }
        assert_eq!(listed(b"[\"\xff\"]"), ("[\"\u{FFFD}\"]".to_owned(), true));
        assert_eq!(listed(b""), ("[]".to_owned(), true));
        for raw in ["[1, 2", "[1]]", "{}", "\"x\"", "[\"a\" \"b\"]"] {
            assert_eq!(listed(raw.as_bytes()), ("[]".to_owned(), false), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn a_list_is_always_json(
            raw in prop::collection::vec(
                prop::sample::select(b"[]{},:\"\\nu0a \n\xff\x01-".to_vec()),
                0..40,
            ),
        ) {
            let (text, _) = listed(&raw);
            prop_assert!(is_json(&text), "{text}");
            if let Some(inner) = elements(&raw) {
                let list = format!("[{inner}]");
                prop_assert!(is_json(&list));
            }
        }
    }
}
