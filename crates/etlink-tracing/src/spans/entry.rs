//! Format of a buffer: entries of whole words, each with a head that holds its kind and length.
//!
//! ```text
//! Span      span, callsite, fields…      a span was made
//! Fields    span, fields…                more fields of a span
//! Enter     span, time                   it runs on this thread
//! Exit      span, time
//! Event     callsite, time, fields…
//! StepOpen  step, time                   the range of a step of the session
//! StepClose time
//! ```
//! A field is one word with its index in the callsite, its type and its length in bytes, followed
//! by the words of its value.

use std::fmt::{self, Write};
use tracing::field::{Field, Visit};

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
pub(crate) enum EntryKind {
    Span,
    Fields,
    Enter,
    Exit,
    Event,
    StepOpen,
    StepClose,
}

/// Returns the first word of an entry that is followed by `words` words.
#[inline]
pub(crate) fn head(kind: EntryKind, words: usize) -> u64 {
    kind as u64 | (words as u64) << 8
}

/// Iterates over the entries of a buffer: kind, and range of the words.
pub(crate) fn entries(words: &[u64]) -> impl Iterator<Item = (EntryKind, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let head = *words.get(at)?;
        let start = at + 1;
        at = start + (head >> 8) as usize;
        let kind = EntryKind::from_repr(usize::from(head as u8))?;
        words.get(start..at).map(|_| (kind, start..at))
    })
}

#[derive(Clone, Copy, strum::FromRepr)]
enum FieldType {
    Signed,
    Unsigned,
    Float,
    Bool,
    Text,
}

/// Appends encoded fields to an entry.
pub(crate) struct EntryEncoder<'a>(pub(crate) &'a mut Vec<u64>);

impl EntryEncoder<'_> {
    /// Sets the head to match the entry's length.
    pub(crate) fn finish(self, kind: EntryKind) {
        // The length excludes the head.
        let words = self.0.len().saturating_sub(1);
        if let Some(first) = self.0.first_mut() {
            *first = head(kind, words);
        }
    }

    fn push_field(&mut self, field: &Field, kind: FieldType, bytes: usize) {
        self.0
            .push(field.index() as u64 & 0xff | (kind as u64) << 8 | (bytes as u64) << 16);
    }

    fn push_word(&mut self, field: &Field, kind: FieldType, word: u64) {
        self.push_field(field, kind, 8);
        self.0.push(word);
    }
}

impl Visit for EntryEncoder<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push_word(field, FieldType::Signed, value as u64);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push_word(field, FieldType::Unsigned, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push_word(field, FieldType::Float, value.to_bits());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push_word(field, FieldType::Bool, u64::from(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push_field(field, FieldType::Text, value.len());
        let (words, rest) = value.as_bytes().as_chunks::<8>();
        self.0
            .extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            self.0.push(
                rest.iter()
                    .rev()
                    .fold(0, |word, byte| word << 8 | u64::from(*byte)),
            );
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let start = self.0.len();
        // The length is known only after the value is printed, so it is filled in below.
        self.push_field(field, FieldType::Text, 0);
        let mut text = Packer {
            words: self.0,
            bytes: 0,
        };
        // a value that fails to print keeps its partial text
        let _ = write!(text, "{value:?}");
        let bytes = text.bytes as u64;
        if let Some(field) = self.0.get_mut(start) {
            *field |= bytes << 16;
        }
    }
}

/// Writer that packs text pieces into words.
struct Packer<'a> {
    words: &'a mut Vec<u64>,
    bytes: usize,
}

impl Write for Packer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let shift = self.bytes % 8 * 8;
            match self.words.last_mut() {
                Some(word) if shift > 0 => *word |= u64::from(byte) << shift,
                _ => self.words.push(u64::from(byte)),
            }
            self.bytes += 1;
        }
        Ok(())
    }
}

/// Value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldValue {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Bool(bool),
    Text(String),
}

impl FieldValue {
    /// Returns a whole number, also from a text.
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            FieldValue::Signed(value) => Some(*value),
            FieldValue::Unsigned(value) => i64::try_from(*value).ok(),
            FieldValue::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns true for the boolean `true`.
    pub(crate) fn is_true(&self) -> bool {
        matches!(self, FieldValue::Bool(true))
    }

    pub(crate) fn into_text(self) -> String {
        match self {
            FieldValue::Text(text) => text,
            FieldValue::Signed(value) => value.to_string(),
            FieldValue::Unsigned(value) => value.to_string(),
            FieldValue::Float(value) => value.to_string(),
            FieldValue::Bool(value) => value.to_string(),
        }
    }
}

/// Decodes the fields in these words: index in the callsite, and value.
pub(crate) fn fields(mut words: &[u64]) -> impl Iterator<Item = (usize, FieldValue)> {
    std::iter::from_fn(move || {
        let (head, rest) = words.split_first()?;
        let bytes = (head >> 16) as usize;
        // Lengths are checked, so a damaged entry loses only its own fields.
        let (value, rest) = rest.split_at_checked(bytes.div_ceil(8))?;
        words = rest;
        let kind = FieldType::from_repr((head >> 8) as usize & 0xff)?;
        Some(((head & 0xff) as usize, decode_value(kind, value, bytes)))
    })
}

fn decode_value(kind: FieldType, value: &[u64], bytes: usize) -> FieldValue {
    let first = value.first().copied().unwrap_or(0);
    match kind {
        FieldType::Signed => FieldValue::Signed(first as i64),
        FieldType::Unsigned => FieldValue::Unsigned(first),
        FieldType::Float => FieldValue::Float(f64::from_bits(first)),
        FieldType::Bool => FieldValue::Bool(first != 0),
        FieldType::Text => {
            let text: Vec<u8> = value
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .take(bytes)
                .collect();
            FieldValue::Text(String::from_utf8_lossy(&text).into_owned())
        }
    }
}
