//! Stores each value of a document once, in a list: neither reading nor dropping recurses.

use etlink_json::unescape;
use std::borrow::Cow;
use std::cell::Cell;

/// A value, by its index in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueIdx(u32);

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum PickleValue<'a> {
    /// `None` or `null`.
    Nothing,
    /// `True` or `False`.
    Bool(bool),
    /// An integer of at most 64 bits.
    Int(i64),
    /// A floating-point number.
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
pub struct ValueTree<'a> {
    values: Vec<PickleValue<'a>>,
    /// Top-level value; `None` for an empty document.
    pub root: Option<ValueIdx>,
    /// True if the text ended before the document did; lists keep the items before the end.
    pub is_cut: bool,
    /// Number of values that may still be visited.
    steps: Cell<u64>,
}

impl<'a> ValueTree<'a> {
    /// Creates an empty tree for a document of `bytes` bytes.
    pub fn new(bytes: usize) -> ValueTree<'a> {
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
    pub fn add(&mut self, value: PickleValue<'a>) -> ValueIdx {
        let place = ValueIdx(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(value);
        place
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true for a document without values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns a value; `Nothing` if it is not in the document.
    pub fn get(&self, place: ValueIdx) -> &PickleValue<'a> {
        self.values
            .get(place.0 as usize)
            .unwrap_or(&PickleValue::Nothing)
    }

    /// Returns a value to change.
    pub fn get_mut(&mut self, place: ValueIdx) -> Option<&mut PickleValue<'a>> {
        self.values.get_mut(place.0 as usize)
    }

    /// Returns true if more values were visited than any dump of PyTorch needs.
    pub fn is_exhausted(&self) -> bool {
        self.steps.get() == 0
    }

    fn spend(&self, steps: usize) -> bool {
        let left = self.steps.get().saturating_sub(steps as u64);
        self.steps.set(left);
        left > 0
    }

    /// Returns the items of a list; none for any other value.
    pub fn items(&self, list: ValueIdx) -> &[ValueIdx] {
        match self.get(list) {
            PickleValue::List(items) if self.spend(items.len() + 1) => items,
            _ => &[],
        }
    }

    /// Iterates over the keys and values of a dict; empty for any other value.
    pub fn pairs(&self, dict: ValueIdx) -> impl Iterator<Item = (Cow<'a, str>, ValueIdx)> {
        let pairs = match self.get(dict) {
            PickleValue::Dict(pairs) if self.spend(pairs.len() + 1) => &pairs[..],
            _ => &[],
        };
        pairs
            .as_chunks()
            .0
            .iter()
            .map(|[key, value]| (self.text(*key), *value))
    }

    /// Returns a string, or a number as text; empty for other values.
    pub fn text(&self, place: ValueIdx) -> Cow<'a, str> {
        match self.get(place) {
            PickleValue::Text(raw) => String::from_utf8_lossy(raw),
            PickleValue::EscapedText(raw) => unescape(raw),
            PickleValue::Int(number) => Cow::Owned(number.to_string()),
            _ => Cow::Borrowed(""),
        }
    }

    /// Returns an integer, also from a string.
    pub fn int(&self, place: ValueIdx) -> Option<i64> {
        match self.get(place) {
            PickleValue::Int(number) => Some(*number),
            PickleValue::Text(raw) | PickleValue::EscapedText(raw) => etlink_json::parse_int(raw),
            _ => None,
        }
    }

    /// Returns a number.
    pub fn number(&self, place: ValueIdx) -> Option<f64> {
        match self.get(place) {
            PickleValue::Float(number) => Some(*number),
            _ => self.int(place).map(|number| number as f64),
        }
    }

    /// Returns a boolean.
    pub fn boolean(&self, place: ValueIdx) -> Option<bool> {
        match self.get(place) {
            PickleValue::Bool(value) => Some(*value),
            _ => None,
        }
    }
}
