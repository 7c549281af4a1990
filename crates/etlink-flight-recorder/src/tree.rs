//! The values of a document, each once, in a list: neither reading nor dropping them recurses.

use crate::{Error, MAX_DUMP_VALUES};
use etlink_json::unescape;
use std::borrow::Cow;
use std::cell::Cell;

/// A value, by its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueIdx(u32);

/// A value of a dump.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DumpValue<'a> {
    /// `None`, `null`.
    Nothing,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A string's bytes, as they are.
    Text(&'a [u8]),
    /// A string of JSON, whose escapes stand in it.
    EscapedText(&'a [u8]),
    /// A list, tuple or set.
    List(Vec<ValueIdx>),
    /// Keys and values in turn, as they were written.
    Dict(Vec<ValueIdx>),
}

/// A document whose strings are in `'a`.
#[derive(Debug)]
pub(crate) struct ValueTree<'a> {
    values: Vec<DumpValue<'a>>,
    /// What the document is; nothing of an empty one.
    pub(crate) root: Option<ValueIdx>,
    /// The text ended before the document did: lists have what came before.
    pub(crate) is_cut: bool,
    /// How many values may still be looked at.
    steps: Cell<u64>,
}

impl<'a> ValueTree<'a> {
    /// A document of so many bytes.
    pub(crate) fn new(bytes: usize) -> ValueTree<'a> {
        ValueTree {
            values: vec![],
            root: None,
            is_cut: false,
            // A pickle can name one list thousands of times, and each time all in it would be read:
            // a megabyte stood for more values than can be counted. The dumps of PyTorch name
            // strings and frames again, of which each name takes two bytes at least.
            steps: Cell::new((bytes as u64).saturating_mul(16).saturating_add(1 << 10)),
        }
    }

    /// Adds a value. A document has fewer values than bytes, and fewer bytes than numbers.
    pub(crate) fn add(&mut self, value: DumpValue<'a>) -> ValueIdx {
        let place = ValueIdx(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(value);
        place
    }

    /// Refuses a document that has more values than a dump, with so many more places that name values.
    pub(crate) fn check_size(&self, more: usize) -> Result<(), Error> {
        let count = (self.values.len() as u64).saturating_add(more as u64);
        if count > MAX_DUMP_VALUES {
            return Err(Error::ManyValues);
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

    /// Whether more was asked of it than any dump of PyTorch needs.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.steps.get() == 0
    }

    fn spend(&self, steps: usize) -> bool {
        let left = self.steps.get().saturating_sub(steps as u64);
        self.steps.set(left);
        left > 0
    }

    /// The items of a list; none of any other value.
    pub(crate) fn items(&self, list: ValueIdx) -> &[ValueIdx] {
        match self.get(list) {
            DumpValue::List(items) if self.spend(items.len() + 1) => items,
            _ => &[],
        }
    }

    /// The keys and values of a dict; none of any other value.
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

    /// A string, or a number as text; empty of other values.
    pub(crate) fn text(&self, place: ValueIdx) -> Cow<'a, str> {
        match self.get(place) {
            DumpValue::Text(raw) => String::from_utf8_lossy(raw),
            DumpValue::EscapedText(raw) => unescape(raw),
            DumpValue::Int(number) => Cow::Owned(number.to_string()),
            _ => Cow::Borrowed(""),
        }
    }

    /// A whole number, also one that is a string.
    pub(crate) fn int(&self, place: ValueIdx) -> Option<i64> {
        match self.get(place) {
            DumpValue::Int(number) => Some(*number),
            DumpValue::Text(raw) | DumpValue::EscapedText(raw) => etlink_json::parse_int(raw),
            _ => None,
        }
    }

    /// A number.
    pub(crate) fn number(&self, place: ValueIdx) -> Option<f64> {
        match self.get(place) {
            DumpValue::Float(number) => Some(*number),
            _ => self.int(place).map(|number| number as f64),
        }
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&self, place: ValueIdx) -> Option<bool> {
        match self.get(place) {
            DumpValue::Bool(value) => Some(*value),
            _ => None,
        }
    }
}
