//! Stores each value of a document once, in a list: neither reading nor dropping recurses.

use crate::{MAX_DUMP_VALUES, too_large};
use etlink_json::unescape;
use etlink_model::Failure;
use std::borrow::Cow;
use std::cell::Cell;

/// A value, by its index in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueIdx(u32);

/// A value of a dump.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DumpValue<'a> {
    /// `None` or `null`.
    Nothing,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Raw bytes of a string.
    Text(&'a [u8]),
    /// A JSON string with unresolved escapes.
    EscapedText(&'a [u8]),
    /// A list, tuple or set.
    List(Vec<ValueIdx>),
    /// Keys and values alternately, in written order.
    Dict(Vec<ValueIdx>),
}

/// A document that borrows its strings for `'a`.
#[derive(Debug)]
pub(crate) struct ValueTree<'a> {
    values: Vec<DumpValue<'a>>,
    /// Top-level value; `None` for an empty document.
    pub(crate) root: Option<ValueIdx>,
    /// True if the text ended before the document did; lists keep the items before the end.
    pub(crate) is_cut: bool,
    /// Number of values that may still be visited.
    steps: Cell<u64>,
}

impl<'a> ValueTree<'a> {
    /// Creates an empty tree for a document of `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> ValueTree<'a> {
        ValueTree {
            values: vec![],
            root: None,
            is_cut: false,
            // A pickle can reference one list thousands of times, and each reference would read all
            // its contents: a megabyte could stand for an astronomical number of values. PyTorch's
            // dumps reuse only strings and frames, at two bytes or more per reference.
            steps: Cell::new((bytes as u64).saturating_mul(16).saturating_add(1 << 10)),
        }
    }

    /// Adds a value. A document has fewer values than bytes, and fewer bytes than `u32` can count.
    pub(crate) fn add(&mut self, value: DumpValue<'a>) -> ValueIdx {
        let place = ValueIdx(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(value);
        place
    }

    /// Rejects a document with more values than a dump, counting `more` further references to
    /// values.
    pub(crate) fn check_size(&self, more: usize) -> Result<(), Failure> {
        let count = (self.values.len() as u64).saturating_add(more as u64);
        if count > MAX_DUMP_VALUES {
            return Err(too_large(&format!(
                "has more than {MAX_DUMP_VALUES} values"
            )));
        }
        Ok(())
    }

    pub(crate) fn get(&self, place: ValueIdx) -> &DumpValue<'a> {
        self.values
            .get(place.0 as usize)
            .unwrap_or(&DumpValue::Nothing)
    }

    pub(crate) fn get_mut(&mut self, place: ValueIdx) -> Option<&mut DumpValue<'a>> {
        self.values.get_mut(place.0 as usize)
    }

    /// Returns true if more values were visited than any dump of PyTorch needs.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.steps.get() == 0
    }

    fn spend(&self, steps: usize) -> bool {
        let left = self.steps.get().saturating_sub(steps as u64);
        self.steps.set(left);
        left > 0
    }

    /// Returns the items of a list; none for any other value.
    pub(crate) fn items(&self, list: ValueIdx) -> &[ValueIdx] {
        match self.get(list) {
            DumpValue::List(items) if self.spend(items.len() + 1) => items,
            _ => &[],
        }
    }

    /// Iterates over the keys and values of a dict; empty for any other value.
    pub(crate) fn pairs(&self, dict: ValueIdx) -> impl Iterator<Item = (Cow<'a, str>, ValueIdx)> {
        let pairs = match self.get(dict) {
            DumpValue::Dict(pairs) if self.spend(pairs.len() + 1) => &pairs[..],
            _ => &[],
        };
        pairs
            .as_chunks()
            .0
            .iter()
            .map(|[key, value]| (self.text(*key), *value))
    }

    /// Returns a string, or a number as text; empty for other values.
    pub(crate) fn text(&self, place: ValueIdx) -> Cow<'a, str> {
        match self.get(place) {
            DumpValue::Text(raw) => String::from_utf8_lossy(raw),
            DumpValue::EscapedText(raw) => unescape(raw),
            DumpValue::Int(number) => Cow::Owned(number.to_string()),
            _ => Cow::Borrowed(""),
        }
    }

    /// Returns an integer, also from a string.
    pub(crate) fn int(&self, place: ValueIdx) -> Option<i64> {
        match self.get(place) {
            DumpValue::Int(number) => Some(*number),
            DumpValue::Text(raw) | DumpValue::EscapedText(raw) => etlink_json::parse_int(raw),
            _ => None,
        }
    }

    /// Returns a number.
    pub(crate) fn number(&self, place: ValueIdx) -> Option<f64> {
        match self.get(place) {
            DumpValue::Float(number) => Some(*number),
            _ => self.int(place).map(|number| number as f64),
        }
    }

    /// Returns a boolean.
    pub(crate) fn boolean(&self, place: ValueIdx) -> Option<bool> {
        match self.get(place) {
            DumpValue::Bool(value) => Some(*value),
            _ => None,
        }
    }
}
