//! Reads a pickle without running it.
//!
//! A pickle is a program: `REDUCE` and related instructions call anything that `GLOBAL` names. This
//! machine executes only the instructions that make plain values (`Lib/pickletools.py` of CPython,
//! protocols 0 to 5), and rejects the others with the name of the callable.
//! Dumps of PyTorch's flight recorder and snapshots of its allocator need no others.
//!
//! Each instruction makes at most one value, and strings are borrowed: memory is proportional to
//! the bytes present, whatever lengths they claim.

use crate::pickle::PickleLimits;
use crate::pickle::tree::{PickleValue, ValueIdx, ValueTree};
use etlink_model::Failure;
use rustc_hash::FxHashMap;

/// Item on the machine's stack.
#[derive(Clone, Copy)]
enum StackItem {
    Value(ValueIdx),
    /// Start of a list or dict; its items follow.
    Mark,
}

/// Reads a pickle. A truncated one keeps everything before its end. O(bytes).
///
/// # Errors
/// The pickle would call code, is invalid, or has more values than `limits` allow.
pub fn read_pickle<'a>(bytes: &'a [u8], limits: &PickleLimits) -> Result<ValueTree<'a>, Failure> {
    let mut machine = PickleMachine {
        bytes,
        at: 0,
        tree: ValueTree::new(bytes.len()),
        stack: vec![],
        memo: FxHashMap::default(),
        named: 0,
        limits,
    };
    loop {
        limits.check_values(&machine.tree, machine.named)?;
        let at = machine.at;
        let Some(code) = machine.byte() else {
            machine.close_all();
            break;
        };
        if code == b'.' {
            machine.tree.root = machine.pop_value();
            break;
        }
        match machine.run(code, at)? {
            Some(()) => {}
            // an argument extends beyond the file
            None => {
                machine.close_all();
                break;
            }
        }
    }
    Ok(machine.tree)
}

struct PickleMachine<'a, 'l> {
    bytes: &'a [u8],
    at: usize,
    tree: ValueTree<'a>,
    stack: Vec<StackItem>,
    /// Memoized values by number. Numbers are arbitrary, so a list would not do.
    memo: FxHashMap<u64, ValueIdx>,
    /// Marks and repeated values on the stack, which take memory like values.
    named: usize,
    limits: &'l PickleLimits,
}

impl<'a> PickleMachine<'a, '_> {
    /// Runs the instruction at `at`; `None` if its argument is truncated.
    fn run(&mut self, code: u8, at: usize) -> Result<Option<()>, Failure> {
        let done = match code {
            // PROTO and FRAME contain nothing of use
            0x80 => self.take(1).map(|_| ()),
            0x95 => self.take(8).map(|_| ()),
            b'(' => {
                self.named += 1;
                self.stack.push(StackItem::Mark);
                Some(())
            }
            b'0' => {
                self.stack.pop();
                Some(())
            }
            b'1' => {
                self.items_from_mark();
                Some(())
            }
            b'2' => {
                let top = self.stack.last().copied();
                self.named += 1;
                self.stack.extend(top);
                Some(())
            }
            b'N' => self.push(PickleValue::Nothing),
            0x88 => self.push(PickleValue::Bool(true)),
            0x89 => self.push(PickleValue::Bool(false)),
            b'I' | b'L' | b'F' | b'S' | b'V' | b'p' | b'g' => self.text_argument(code),
            b'J' | b'K' | b'M' | 0x8a | 0x8b | b'G' => self.binary_number(code),
            b'T' | b'X' | b'B' | b'U' | b'C' | 0x8c | 0x8d | 0x8e | 0x96 => {
                self.binary_string(code)
            }
            b']' | b')' | 0x8f => self.push(PickleValue::List(vec![])),
            b'}' => self.push(PickleValue::Dict(vec![])),
            b'l' | b't' | 0x91 => {
                let items = self.items_from_mark();
                self.push(PickleValue::List(items))
            }
            b'd' => {
                let pairs = self.items_from_mark();
                self.push(PickleValue::Dict(pairs))
            }
            0x85..=0x87 => self.tuple(usize::from(code - 0x84)),
            b'a' => self.append(1),
            b's' => self.append(2),
            b'e' | b'u' | 0x90 => {
                let items = self.items_from_mark();
                self.extend_top(items);
                Some(())
            }
            b'q' => self.take(1).map(|number| self.remember(number_of(number))),
            b'r' => self.take(4).map(|number| self.remember(number_of(number))),
            0x94 => {
                self.remember(self.memo.len() as u64);
                Some(())
            }
            b'h' => self
                .take(1)
                .and_then(|number| self.recall(number_of(number))),
            b'j' => self
                .take(4)
                .and_then(|number| self.recall(number_of(number))),
            _ => return Err(self.refuse(code, at)),
        };
        Ok(done)
    }

    /// Reads an argument of protocol 0: a line of text.
    fn text_argument(&mut self, code: u8) -> Option<()> {
        let line = self.line()?;
        let number = || etlink_json::parse_int(line.strip_suffix(b"L").unwrap_or(line));
        match code {
            b'p' | b'g' => {
                let place = number().and_then(|number| u64::try_from(number).ok());
                // an invalid number is not a place in the memo
                let place = place.unwrap_or(u64::MAX);
                if code == b'g' {
                    return self.recall(place);
                }
                self.remember(place);
                Some(())
            }
            b'I' if line == b"01" => self.push(PickleValue::Bool(true)),
            b'I' if line == b"00" => self.push(PickleValue::Bool(false)),
            b'F' => {
                let number = std::str::from_utf8(line)
                    .ok()
                    .and_then(|text| text.parse().ok());
                self.push(number.map_or(PickleValue::Nothing, PickleValue::Float))
            }
            b'I' | b'L' => self.push(number().map_or(PickleValue::Nothing, PickleValue::Int)),
            // the quotes of `STRING` are Python's: PyTorch writes escapes only in file names
            b'S' => {
                let inner = line.get(1..line.len().saturating_sub(1));
                self.push(PickleValue::Text(inner.unwrap_or_default()))
            }
            _ => self.push(PickleValue::Text(line)),
        }
    }

    fn binary_number(&mut self, code: u8) -> Option<()> {
        let value = match code {
            b'K' => PickleValue::Int(i64::from(self.byte()?)),
            b'M' => PickleValue::Int(number_of(self.take(2)?) as i64),
            b'J' => {
                let bytes: [u8; 4] = self.take(4)?.try_into().ok()?;
                PickleValue::Int(i64::from(i32::from_le_bytes(bytes)))
            }
            b'G' => {
                let bytes: [u8; 8] = self.take(8)?.try_into().ok()?;
                PickleValue::Float(f64::from_be_bytes(bytes))
            }
            _ => {
                let size = if code == 0x8a { 1 } else { 4 };
                long_value(self.counted_bytes(size)?)
            }
        };
        self.push(value)
    }

    /// Reads a string or bytes with a length prefix.
    fn binary_string(&mut self, code: u8) -> Option<()> {
        let size = match code {
            b'U' | b'C' | 0x8c => 1,
            b'T' | b'X' | b'B' => 4,
            _ => 8,
        };
        let text = self.counted_bytes(size)?;
        self.push(PickleValue::Text(text))
    }

    fn push(&mut self, value: PickleValue<'a>) -> Option<()> {
        let place = self.tree.add(value);
        self.stack.push(StackItem::Value(place));
        Some(())
    }

    /// Pops the top value; `None`, with the stack unchanged, if a mark is on top.
    fn pop_value(&mut self) -> Option<ValueIdx> {
        match self.stack.last().copied() {
            Some(StackItem::Value(place)) => {
                self.stack.pop();
                Some(place)
            }
            _ => None,
        }
    }

    /// Pops the items above the last mark, and the mark.
    fn items_from_mark(&mut self) -> Vec<ValueIdx> {
        let is_mark = |item: &StackItem| matches!(item, StackItem::Mark);
        let begin = self.stack.iter().rposition(is_mark);
        let above = self.stack.split_off(begin.unwrap_or(0));
        let values = above.into_iter().filter_map(|item| match item {
            StackItem::Value(place) => Some(place),
            StackItem::Mark => None,
        });
        values.collect()
    }

    /// Replaces the last `count` values by a tuple of them.
    fn tuple(&mut self, count: usize) -> Option<()> {
        let mut items = vec![];
        for _ in 0..count {
            items.extend(self.pop_value());
        }
        items.reverse();
        self.push(PickleValue::List(items))
    }

    /// Moves the last `count` values into the list or dict below them.
    fn append(&mut self, count: usize) -> Option<()> {
        let mut items = vec![];
        for _ in 0..count {
            items.extend(self.pop_value());
        }
        items.reverse();
        self.extend_top(items);
        Some(())
    }

    fn extend_top(&mut self, mut items: Vec<ValueIdx>) {
        let Some(StackItem::Value(top)) = self.stack.last().copied() else {
            return;
        };
        if let Some(PickleValue::List(all) | PickleValue::Dict(all)) = self.tree.get_mut(top) {
            all.append(&mut items);
        }
    }

    fn remember(&mut self, number: u64) {
        // an upper bound: the memo keeps one value per number
        self.named += 1;
        if let Some(StackItem::Value(top)) = self.stack.last().copied() {
            self.memo.insert(number, top);
        }
    }

    fn recall(&mut self, number: u64) -> Option<()> {
        match self.memo.get(&number).copied() {
            Some(place) => {
                self.named += 1;
                self.stack.push(StackItem::Value(place));
                Some(())
            }
            // in a damaged file the value is unknown, but its place must remain
            None => self.push(PickleValue::Nothing),
        }
    }

    /// Ends a truncated pickle: each list or dict keeps the items before the end.
    fn close_all(&mut self) {
        self.tree.is_cut = true;
        let mut items = vec![];
        while let Some(item) = self.stack.pop() {
            match item {
                StackItem::Value(place) => items.push(place),
                StackItem::Mark => {
                    items.reverse();
                    self.extend_top(std::mem::take(&mut items));
                }
            }
        }
        // The outermost value is lowest. Values above it without a mark belong to lost `SETITEM`s.
        self.tree.root = items.pop();
    }

    /// Returns the reason why an instruction is rejected.
    fn refuse(&mut self, code: u8, at: usize) -> Failure {
        let callable = match code {
            b'c' | b'i' => {
                let module = self.line().map(String::from_utf8_lossy);
                let name = self.line().map(String::from_utf8_lossy);
                match (module, name) {
                    (Some(module), Some(name)) => format!("{module}.{name}"),
                    _ => "a callable with a truncated name".to_owned(),
                }
            }
            // STACK_GLOBAL: both names are on the stack
            0x93 => {
                let name = self.pop_value().map(|place| self.tree.text(place));
                let module = self.pop_value().map(|place| self.tree.text(place));
                format!(
                    "{}.{}",
                    module.unwrap_or_default(),
                    name.unwrap_or_default()
                )
            }
            b'R' | b'b' | b'o' | 0x81 | 0x92 => "a value that is not a function".to_owned(),
            0x82..=0x84 => "a registered extension".to_owned(),
            b'P' | b'Q' => "a loader of persistent ids".to_owned(),
            _ => {
                return self.limits.wrong_file(format!(
                    "byte {at} ({code:#04x}) is not a pickle instruction"
                ));
            }
        };
        Failure::new(format!(
            "loading the file would call {} (byte {at}), which PyTorch's own files never do",
            shown_name(&callable)
        ))
        .advise(format!(
            "do not load it with Python, and check its origin. Give {}",
            self.limits.wanted
        ))
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    /// Takes the next `length` bytes; `None` if the file has fewer.
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// Takes bytes with a length prefix of `size` bytes.
    fn counted_bytes(&mut self, size: usize) -> Option<&'a [u8]> {
        let length = number_of(self.take(size)?);
        self.take(usize::try_from(length).ok()?)
    }

    /// Takes the text before the next line break.
    fn line(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let length = memchr::memchr(b'\n', rest)?;
        self.at += length + 1;
        Some(&rest[..length])
    }
}

/// Decodes an unsigned little-endian number.
fn number_of(bytes: &[u8]) -> u64 {
    let mut number = 0u64;
    for (place, byte) in bytes.iter().enumerate().take(8) {
        number |= u64::from(*byte) << (8 * place);
    }
    number
}

/// Decodes `LONG1` and `LONG4`: two's complement, little-endian. Numbers beyond 64 bits do not
/// occur in PyTorch's files.
fn long_value(bytes: &[u8]) -> PickleValue<'static> {
    let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let filler = if is_negative { 0xff } else { 0 };
    let mut all = [filler; 8];
    if bytes.iter().skip(8).any(|byte| *byte != filler) {
        return PickleValue::Nothing;
    }
    for (to, from) in all.iter_mut().zip(bytes) {
        *to = *from;
    }
    let number = i64::from_le_bytes(all);
    // a ninth byte of zero means that the eighth has no sign
    if (number < 0) != is_negative {
        return PickleValue::Nothing;
    }
    PickleValue::Int(number)
}

/// Shortens a name for a message: a file can make it as long as itself, with control characters
/// that a terminal obeys.
fn shown_name(name: &str) -> String {
    const SHOWN: usize = 120;
    let mut shown = String::new();
    for letter in name.chars().take(SHOWN) {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    if name.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns true if the head is a pickle of protocol 2 or later.
pub fn is_pickle(head: &[u8]) -> bool {
    matches!(head, [0x80, 2..=5, ..])
}

/// Returns the first key of the dict at the start of a pickle, as PyTorch and Python write it:
/// protocol, frame, `}`, memoization, mark, string.
pub fn first_key(head: &[u8]) -> Option<&[u8]> {
    let rest = head.get(2..)?;
    let rest = match rest {
        [0x95, ..] => rest.get(9..)?,
        _ => rest,
    };
    let mut rest = rest.strip_prefix(b"}")?;
    loop {
        rest = match rest {
            [0x94 | b'(', after @ ..] | [b'q', _, after @ ..] => after,
            [b'r', _, _, _, _, after @ ..] => after,
            [b'X' | b'T', a, b, c, d, after @ ..] => {
                let length = u32::from_le_bytes([*a, *b, *c, *d]);
                return after.get(..usize::try_from(length).ok()?);
            }
            [0x8c | b'U', length, after @ ..] => return after.get(..usize::from(*length)),
            _ => return None,
        };
    }
}
