//! A pull scanner for a piece of JSON text.
//!
//! The caller walks objects key by key and takes each value as raw text. Unwanted nested values are
//! skipped by counting brackets. Text that is not JSON is repaired if the writer's habits make the
//! meaning certain:
//!
//! * A quote inside a string that is not followed by `,` `}` `]` (after a key: `:`) belongs to the
//!   string (PyTorch and Kineto wrote names unescaped, kineto#1459).
//! * Bare words (`nan`, `-1.-500`, unquoted metadata) are values.
//! * A trailing comma is ignored.

use crate::number::{micros_to_ns, parse_int, short_uint};
use crate::recovery::{BracketStack, key_follows, next_element, structure_follows};
use crate::text::unescape;
use std::borrow::Cow;

/// Damage in a document that could be read nevertheless.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadDamage {
    /// Elements that could be read only by repairing a string with raw quotes.
    pub repaired: u64,
    /// Elements that could not be read and were skipped.
    pub skipped: u64,
    /// Elements of the array that are not objects (`null`, numbers) and were skipped.
    pub not_objects: u64,
    /// Byte offset of the first repaired or skipped element; `None` if there is none.
    pub first_offset: Option<u64>,
    /// True if the text ended inside the array. An incomplete element is skipped.
    pub truncated: bool,
    /// Error that ended the source early (a damaged compressed stream); `None` if there was none.
    pub source_error: Option<String>,
}

impl ReadDamage {
    /// Adds the damage of a later part of the same document.
    pub fn add(&mut self, later: ReadDamage) {
        self.repaired += later.repaired;
        self.skipped += later.skipped;
        self.not_objects += later.not_objects;
        self.first_offset = self.first_offset.or(later.first_offset);
        self.truncated |= later.truncated;
        self.source_error = self.source_error.take().or(later.source_error);
    }
}

/// Error: the text at this position is not valid JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenJson {
    /// Byte position in the scanned text.
    pub at: usize,
}

/// A value that is still text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonValue<'a> {
    /// Contents of a string, with unresolved escapes.
    Text(&'a [u8]),
    /// A number, `true`, `false`, `null`, or any other bare word.
    Word(&'a [u8]),
    /// An array or object, including its brackets.
    Nested(&'a [u8]),
}

impl<'a> JsonValue<'a> {
    /// Returns the characters of the value: a string's contents, a word, or nested text.
    pub fn raw(self) -> &'a [u8] {
        match self {
            JsonValue::Text(raw) | JsonValue::Word(raw) | JsonValue::Nested(raw) => raw,
        }
    }

    /// Returns a string's contents with resolved escapes; words and nested values are returned as
    /// written.
    pub fn text(self) -> Cow<'a, str> {
        unescape(self.raw())
    }

    /// Parses the value as an integer, which may be quoted.
    pub fn int(self) -> Option<i64> {
        parse_int(self.raw())
    }

    /// Parses the value as an unsigned integer, which may be quoted.
    pub fn uint(self) -> Option<u64> {
        let raw = self.raw();
        if let Some(short) = short_uint(raw) {
            return Some(short);
        }
        parse_int(raw).map_or_else(
            || std::str::from_utf8(raw).ok()?.parse().ok(),
            |n| u64::try_from(n).ok(),
        )
    }

    /// Parses the value, which may be quoted, as microseconds and returns integer nanoseconds. See
    /// [`micros_to_ns`].
    pub fn time_ns(self) -> Option<i64> {
        micros_to_ns(self.raw())
    }

    /// Parses the value as a boolean: `true`, `True`, `false` or `False`.
    pub fn boolean(self) -> Option<bool> {
        match self.raw() {
            b"true" | b"True" => Some(true),
            b"false" | b"False" => Some(false),
            _ => None,
        }
    }
}

/// Role of a string, as far as known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanPlace {
    /// The value of a key, or an item of an array.
    Value,
    /// Either a key or a value.
    Any,
}

/// Pull scanner for JSON text; the module documentation lists its repairs.
#[derive(Clone, Debug)]
pub struct JsonScanner<'a> {
    text: &'a [u8],
    pos: usize,
    careful: bool,
    repaired: bool,
}

impl<'a> JsonScanner<'a> {
    /// Creates a scanner at the beginning of `text`.
    pub fn new(text: &'a [u8]) -> Self {
        JsonScanner {
            text,
            pos: 0,
            careful: false,
            repaired: false,
        }
    }

    /// Restarts at `pos`. A careful scanner also doubts quotes that are followed by structure.
    pub(crate) fn restart(&mut self, pos: usize, careful: bool) {
        self.pos = pos;
        self.careful = careful;
        self.repaired = false;
    }

    /// Returns the position in the text, in bytes.
    pub fn pos(&self) -> usize {
        self.pos
    }

    /// Returns the text that is not consumed yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.text.get(self.pos..).unwrap_or_default()
    }

    /// Consumes `bytes` bytes of [`Self::rest`], which the caller has read.
    #[inline]
    pub fn advance(&mut self, bytes: usize) {
        self.pos += bytes;
    }

    /// Returns the text from `start` to the current position.
    pub fn text_since(&self, start: usize) -> &'a [u8] {
        self.text.get(start..self.pos).unwrap_or_default()
    }

    /// Returns true if a string was repaired since the last restart.
    pub fn repaired(&self) -> bool {
        self.repaired
    }

    /// Returns true if a string was repaired since the last restart or the last call of this
    /// function.
    pub(crate) fn take_repaired(&mut self) -> bool {
        std::mem::take(&mut self.repaired)
    }

    /// Returns the next byte that is not white space, without consuming it.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.text.get(self.pos) {
            if byte > b' ' {
                return Some(byte);
            }
            self.pos += 1;
        }
        None
    }

    /// Skips white space and consumes `byte` if it is next.
    #[inline]
    pub fn eat(&mut self, byte: u8) -> bool {
        let hit = self.peek() == Some(byte);
        self.pos += usize::from(hit);
        hit
    }

    /// Consumes `text` if it is next, byte for byte, including white space.
    #[inline]
    pub fn eat_exact(&mut self, text: &[u8]) -> bool {
        let hit = self
            .text
            .get(self.pos..)
            .is_some_and(|rest| rest.starts_with(text));
        self.pos += if hit { text.len() } else { 0 };
        hit
    }

    /// Enters an object by consuming `{`.
    #[inline]
    pub fn enter(&mut self) -> Result<(), BrokenJson> {
        if self.eat(b'{') {
            Ok(())
        } else {
            Err(self.broken_here())
        }
    }

    /// Returns the next key of the current object, or `None` after its `}`.
    #[inline]
    pub fn key(&mut self) -> Result<Option<&'a [u8]>, BrokenJson> {
        // Kineto ends every event with a comma (`output_json.cpp`), so a killed process leaves a
        // trailing comma.
        while self.eat(b',') {}
        match self.peek() {
            Some(b'}') => {
                self.pos += 1;
                Ok(None)
            }
            // Keys are short and plain: the first quote ends the key unless a backslash precedes
            // it.
            Some(b'"') => {
                let start = self.pos + 1;
                let length =
                    quote_or_escape(&self.text[start..]).ok_or_else(|| self.broken_at_end())?;
                let raw = if self.text[start + length] == b'"' {
                    self.pos = start + length + 1;
                    &self.text[start..start + length]
                } else {
                    self.quoted_string(ScanPlace::Any)?
                };
                if self.eat(b':') {
                    Ok(Some(raw))
                } else {
                    Err(self.broken_here())
                }
            }
            _ => Err(self.broken_here()),
        }
    }

    /// Leaves the current object: skips past its `}` without interpreting the rest.
    pub fn leave(&mut self) -> Result<(), BrokenJson> {
        self.skip_brackets(BracketStack::default().open(b'{'))
    }

    /// Skips past the bracket that closes the outermost of `brackets`.
    fn skip_brackets(&mut self, mut brackets: BracketStack) -> Result<(), BrokenJson> {
        while let Some(&byte) = self.text.get(self.pos) {
            match byte {
                b'"' => {
                    // Brackets inside strings do not count; names of C++ templates and lambdas are
                    // full of them.
                    if self.plain_string(ScanPlace::Any).is_none() {
                        self.quoted_string(ScanPlace::Any)?;
                    }
                    continue;
                }
                b'{' | b'[' => brackets = brackets.open(byte),
                b'}' | b']' => {
                    brackets = brackets.close(byte).ok_or(self.broken_here())?;
                    if brackets.depth == 0 {
                        self.pos += 1;
                        return Ok(());
                    }
                }
                _ => {}
            }
            self.pos += 1;
        }
        Err(self.broken_at_end())
    }

    /// Returns the next item of the current array, or `None` after its `]`.
    pub fn item(&mut self) -> Result<Option<JsonValue<'a>>, BrokenJson> {
        while self.eat(b',') {}
        if self.eat(b']') {
            Ok(None)
        } else {
            self.value().map(Some)
        }
    }

    /// Consumes and returns the value at the current position.
    #[inline]
    pub fn value(&mut self) -> Result<JsonValue<'a>, BrokenJson> {
        match self.peek() {
            Some(b'"') => self
                .plain_string(ScanPlace::Value)
                .map_or_else(|| self.quoted_string(ScanPlace::Value), Ok)
                .map(JsonValue::Text),
            Some(b'{' | b'[') => self.nested_text().map(JsonValue::Nested),
            Some(_) => self.bare_word().map(JsonValue::Word),
            None => Err(self.broken_at_end()),
        }
    }

    fn broken_here(&self) -> BrokenJson {
        BrokenJson { at: self.pos }
    }

    fn broken_at_end(&self) -> BrokenJson {
        BrokenJson {
            at: self.text.len(),
        }
    }

    #[inline]
    fn bare_word(&mut self) -> Result<&'a [u8], BrokenJson> {
        let start = self.pos;
        let length = self.text[start..]
            .iter()
            // A bare word may contain spaces (`key: some one`) and signs (`-1.-500`); only
            // structure ends it.
            .position(|b| matches!(b, b',' | b'}' | b']' | b'\n'))
            .ok_or_else(|| self.broken_at_end())?;
        self.pos = start + length;
        let word = self.text[start..self.pos].trim_ascii_end();
        if word.is_empty() {
            Err(self.broken_here())
        } else {
            Ok(word)
        }
    }

    /// Checks that the following text is valid after an element: a name with raw quotes and braces
    /// can seem to end its element early.
    pub fn end_element(&mut self) -> Result<(), BrokenJson> {
        match self.peek() {
            None | Some(b',' | b']' | b'{') => Ok(()),
            Some(_) => Err(self.broken_here()),
        }
    }

    /// Returns the contents of the string that starts here if they need no closer look: no escapes,
    /// and structure directly after the quote.
    #[inline]
    fn plain_string(&mut self, place: ScanPlace) -> Option<&'a [u8]> {
        let start = self.pos + 1;
        if self.careful {
            return None;
        }
        let rest = self.text.get(start..)?;
        let length = quote_or_escape(rest)?;
        let closed = match rest.get(length + 1) {
            // Quotes that are separated from structure by white space are rare; they take the slow
            // path.
            Some(b',' | b'}' | b']') => rest[length] == b'"',
            Some(b':') => rest[length] == b'"' && place == ScanPlace::Any,
            _ => false,
        };
        if !closed {
            return None;
        }
        self.pos = start + length + 1;
        Some(&rest[..length])
    }

    /// Returns the contents of the string that starts here, with escapes and raw quotes handled.
    fn quoted_string(&mut self, place: ScanPlace) -> Result<&'a [u8], BrokenJson> {
        let start = self.pos + 1;
        let mut at = start;
        let mut mended = false;
        loop {
            at += quote_or_escape(self.text.get(at..).unwrap_or_default())
                .ok_or_else(|| self.broken_at_end())?;
            if self.text[at] == b'\\' {
                // Whatever the escape is, its second byte cannot end the string.
                at += 2;
            } else if self.closes_string(at, place) {
                self.pos = at + 1;
                let raw = &self.text[start..at];
                self.repaired |= mended;
                // A repaired string that contains the start of another element has run too far:
                // both would be lost.
                return match mended.then(|| next_element(raw)).flatten() {
                    Some(brace) => Err(BrokenJson { at: start + brace }),
                    None => Ok(raw),
                };
            } else {
                mended = true;
                at += 1;
            }
        }
    }

    /// Returns true if the quote at `at` ends its string: only structure may follow.
    #[inline]
    fn closes_string(&self, at: usize, place: ScanPlace) -> bool {
        let rest = &self.text[at + 1..];
        // Nothing follows in this piece of text: the caller finds out if the document is truncated.
        let Some(offset) = rest.iter().position(|b| *b > b' ') else {
            return true;
        };
        let doubtful = self.careful && place == ScanPlace::Value;
        match rest[offset] {
            // Only the second, careful attempt looks ahead; a name such as `a", "b" c` needs it.
            b',' => !self.careful || key_follows(&rest[offset + 1..]),
            b'}' => !doubtful || structure_follows(&rest[offset + 1..]),
            b']' => !doubtful,
            b':' => place == ScanPlace::Any,
            _ => false,
        }
    }

    fn nested_text(&mut self) -> Result<&'a [u8], BrokenJson> {
        // In an array no key follows a comma, so a careful scan would run past the end of `["a",
        // 1]`.
        let careful = std::mem::take(&mut self.careful);
        let nested = self.balanced_text();
        self.careful = careful;
        nested
    }

    fn balanced_text(&mut self) -> Result<&'a [u8], BrokenJson> {
        let start = self.pos;
        self.skip_brackets(BracketStack::default())?;
        Ok(&self.text[start..self.pos])
    }
}

/// Returns the position of the next quote or backslash. Keys and most values are short, so the
/// first bytes are compared eight at a time, which is cheaper than a vector search.
#[inline]
fn quote_or_escape(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    // Four words cover nearly all keys and values.
    while at < 32
        && let Some(word) = text[at..].first_chunk()
    {
        let word = u64::from_le_bytes(*word);
        let hits = bytes_equal(word, b'"') | bytes_equal(word, b'\\');
        if hits != 0 {
            return Some(at + hits.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr::memchr2(b'"', b'\\', &text[at..]).map(|hit| at + hit)
}

/// Sets the high bit of the lowest byte of `word` that equals `byte`, and of no byte below it. Bits
/// above may be wrong.
#[inline]
fn bytes_equal(word: u64, byte: u8) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let differ = word ^ (ONES * u64::from(byte));
    differ.wrapping_sub(ONES) & !differ & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str, careful: bool) -> Result<Vec<(String, String)>, BrokenJson> {
        let mut scanner = JsonScanner::new(text.as_bytes());
        scanner.restart(0, careful);
        scanner.enter()?;
        let mut out = vec![];
        while let Some(key) = scanner.key()? {
            out.push((
                unescape(key).into_owned(),
                scanner.value()?.text().into_owned(),
            ));
        }
        Ok(out)
    }

    fn own(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect()
    }

    #[test]
    fn values_are_numbers_or_not() {
        let uint = |text: &str| JsonValue::Word(text.as_bytes()).uint();
        assert_eq!(uint("12"), Some(12));
        assert_eq!(uint("+12"), Some(12));
        assert_eq!(uint("18446744073709551615"), Some(u64::MAX));
        for text in ["", "-1", "1.5", "18446744073709551616", "null"] {
            assert_eq!(uint(text), None, "{text:?}");
        }
        let boolean = |text: &str| JsonValue::Word(text.as_bytes()).boolean();
        for (text, want) in [
            ("true", Some(true)),
            ("True", Some(true)),
            ("false", Some(false)),
            ("False", Some(false)),
            ("0", None),
        ] {
            assert_eq!(boolean(text), want, "{text}");
        }
    }

    #[test]
    fn a_caller_may_read_on_by_itself() {
        let mut scanner = JsonScanner::new(b"[1, 22 rest");
        assert!(scanner.eat(b'['));
        scanner.advance(3);
        assert_eq!(scanner.rest(), b"22 rest");
        scanner.advance(2);
        assert_eq!(scanner.rest(), b" rest");
        assert_eq!(scanner.text_since(1), b"1, 22");
    }

    #[test]
    fn an_object_is_left_from_any_place() {
        let text = r#"{"a": {"b": "}", "c": [{}]}, "d": "-7"}, 3]"#;
        let mut scanner = JsonScanner::new(text.as_bytes());
        scanner.enter().expect("an object");
        scanner.key().expect("a key");
        scanner.leave().expect("its end is there");
        assert_eq!(scanner.pos(), text.len() - 4);
        assert!(scanner.eat(b','), "it stands behind the object");
        assert_eq!(scanner.value().expect("a value").int(), Some(3));
        assert!(JsonScanner::new(b"{\"a\": 1").leave().is_err());
    }

    #[test]
    fn an_element_ends_where_another_can_begin() {
        for (behind, is_end) in [
            ("", true),
            (" ,", true),
            ("]", true),
            ("{", true),
            ("a", false),
        ] {
            let ended = JsonScanner::new(behind.as_bytes()).end_element();
            assert_eq!(ended.is_ok(), is_end, "{behind:?}");
        }
    }

    #[test]
    fn mended_strings_are_told() {
        for (text, is_mended) in [(r#"{"a": "b"}"#, false), (r#"{"a": "b "c" d"}"#, true)] {
            let mut scanner = JsonScanner::new(text.as_bytes());
            scanner.restart(0, true);
            scanner.enter().expect("an object");
            scanner.key().expect("a key");
            scanner.value().expect("a value");
            assert_eq!(scanner.repaired(), is_mended, "{text}");
        }
    }

    #[test]
    fn quotes_are_found_at_every_distance() {
        for length in 0..80 {
            for wanted in [b'"', b'\\'] {
                for at in 0..length {
                    let mut text: Vec<u8> = (0..length as u8)
                        .map(|i| b'#' + i % 50)
                        .map(|b| if b == b'\\' { b'x' } else { b })
                        .collect();
                    assert_eq!(quote_or_escape(&text), None);
                    text[at] = wanted;
                    assert_eq!(quote_or_escape(&text), Some(at));
                }
            }
        }
    }

    #[test]
    fn keys_and_values() {
        let text = r#" { "a" : "x\ny", "b": -1.5 , "c":[1,{"]":"}"}], "d":null,"e":{} } "#;
        let want = [
            ("a", "x\ny"),
            ("b", "-1.5"),
            ("c", r#"[1,{"]":"}"}]"#),
            ("d", "null"),
            ("e", "{}"),
        ];
        assert_eq!(pairs(text, false), Ok(own(&want)));
    }

    #[test]
    fn raw_quotes_in_a_string_belong_to_it() {
        let text = r#"{"name": "say "hi" 5" disk", "pid": 1}"#;
        assert_eq!(
            pairs(text, false),
            Ok(own(&[("name", r#"say "hi" 5" disk"#), ("pid", "1")]))
        );
        let text = r#"{"name": "{"key": 1}", "pid": 1}"#;
        assert_eq!(
            pairs(text, false),
            Ok(own(&[("name", r#"{"key": 1}"#), ("pid", "1")]))
        );
    }

    #[test]
    fn a_mended_string_ends_before_the_next_element() {
        let text = "{\"name\": \"open, {\"pid\": 1}, {\"name\": \"next\"}";
        assert_eq!(
            pairs(text, false),
            Err(BrokenJson {
                at: text.find("{\"pid").expect("brace")
            })
        );
    }

    #[test]
    fn brackets_close_their_own_kind() {
        assert_eq!(
            pairs(r#"{"a": [1, {"b": 2], "c": 3}"#, false),
            Err(BrokenJson { at: 17 })
        );
    }

    #[test]
    fn a_careful_scan_doubts_a_quote_before_a_comma() {
        let text = r#"{"name": "a", "b" c", "pid": 1}"#;
        assert!(pairs(text, false).is_err());
        assert_eq!(
            pairs(text, true),
            Ok(own(&[("name", r#"a", "b" c"#), ("pid", "1")]))
        );
        // Nor does a key follow the trailing comma of a killed process.
        let text = r#"{"pid": 1, "name": "a", "b" c",}"#;
        assert_eq!(
            pairs(text, true),
            Ok(own(&[("pid", "1"), ("name", r#"a", "b" c"#)]))
        );
    }

    #[test]
    fn bare_words_and_trailing_commas() {
        let text = r#"{"bw": nan, "dur": -1.-500, "who": some one,}"#;
        assert_eq!(
            pairs(text, false),
            Ok(own(&[
                ("bw", "nan"),
                ("dur", "-1.-500"),
                ("who", "some one")
            ]))
        );
    }

    #[test]
    fn a_cut_text_is_broken_at_its_end() {
        let text = r#"{"a": "x", "b": [1, {"c": "d"}], "e": 12}"#;
        for end in 1..text.len() {
            let broken = pairs(&text[..end], false).expect_err("cut");
            assert_eq!(broken.at, end, "cut at {end}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let mut text = String::from(r#"{"a":"#);
        text.push_str(&"[".repeat(1_000_000));
        text.push_str(&"]".repeat(1_000_000));
        text.push('}');
        assert_eq!(pairs(&text, false).map(|p| p.len()), Ok(1));
    }
}
