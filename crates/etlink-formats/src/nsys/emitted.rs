//! Texts of ranges that `torch.autograd.profiler.emit_nvtx` writes.
//!
//! `name[, seq = N][, op_id = M][, sizes = [[2, 3], []]][, input_op_ids = [(M, 0)]]`, written by
//! `getNvtxStr` in `torch/csrc/profiler/util.cpp`. `op_id`, since PyTorch 1.12, is the handle of
//! the `RecordFunction`: `rf_id` of host traces, `Record function id` of Kineto.

use std::collections::BTreeSet;

const SEQUENCE: &str = ", seq = ";
const OP_ID: &str = ", op_id = ";
const SIZES: &str = ", sizes = ";

/// Prefix of each part, in the order of the parts.
const MARKS: [&str; 4] = [SEQUENCE, OP_ID, SIZES, ", input_op_ids = "];

/// Parts of a range text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EmittedRange<'t> {
    pub(crate) name: &'t str,
    pub(crate) sequence: Option<i64>,
    pub(crate) op_id: Option<u64>,
    /// Sizes of inputs as list text; empty if absent.
    pub(crate) sizes: &'t str,
    /// Producers of the inputs, `[(M,0), …]`; empty if absent.
    input_op_ids: &'t str,
}

impl<'t> EmittedRange<'t> {
    /// Splits a text into its parts; a text without marks is all name. O(length).
    pub(crate) fn from_text(text: &'t str) -> EmittedRange<'t> {
        let mut range = EmittedRange::default();
        let places = mark_places(text);
        // From the last part to the first: each part ends where the following one began.
        let mut rest = text;
        for (mark, place) in MARKS.iter().zip(places).rev() {
            let value = place.and_then(|place| rest.get(place + mark.len()..));
            let (Some(place), Some(value)) = (place, value) else {
                continue;
            };
            let is_kept = match *mark {
                SEQUENCE => set_number(&mut range.sequence, value),
                OP_ID => set_number(&mut range.op_id, value),
                SIZES => {
                    range.sizes = value;
                    true
                }
                _ => {
                    range.input_op_ids = value;
                    true
                }
            };
            if is_kept {
                rest = &rest[..place];
            }
        }
        range.name = rest;
        range
    }

    /// Returns the distinct handles of the ops that made the inputs. An input without a recorded
    /// producer has handle 0 (`getOpIdFromInput` in
    /// `torch/csrc/profiler/standalone/nvtx_observer.cpp`) and is left out.
    pub(crate) fn producers(&self) -> BTreeSet<u64> {
        // `(handle,output)`, as written by `inputOpIdsToStr` in `torch/csrc/profiler/util.cpp`
        let pairs = self.input_op_ids.split('(').skip(1);
        let handles = pairs.filter_map(|pair| pair.split(',').next()?.trim().parse().ok());
        handles.filter(|handle| *handle != 0).collect()
    }

    /// Returns true for an op of PyTorch, false for a range of the program.
    pub(crate) fn is_op(&self) -> bool {
        let is_emitted = self.sequence.is_some() || self.op_id.is_some() || !self.sizes.is_empty();
        // `record_function` also writes an `op_id`, with a name chosen by the program.
        is_emitted && (self.sequence.is_some() || is_op_name(self.name))
            || self.name.starts_with("aten::")
    }
}

/// Finds the first place of each mark. Scans each of millions of texts only once.
fn mark_places(text: &str) -> [Option<usize>; MARKS.len()] {
    let mut places = [None; MARKS.len()];
    for comma in memchr::memchr_iter(b',', text.as_bytes()) {
        for (mark, place) in MARKS.iter().zip(&mut places) {
            if place.is_none() && text[comma..].starts_with(mark) {
                *place = Some(comma);
            }
        }
    }
    places
}

/// Parses a number into `slot`; returns true if the text is a number.
fn set_number<T: std::str::FromStr>(slot: &mut Option<T>, text: &str) -> bool {
    *slot = text.trim().parse().ok();
    slot.is_some()
}

/// Returns true for names with a namespace (`aten::mm`) and for autograd nodes (`MulBackward0`).
fn is_op_name(name: &str) -> bool {
    let is_word = |part: &str| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':');
        !part.is_empty() && part.chars().all(is_letter)
    };
    let has_namespace = name
        .split_once("::")
        .is_some_and(|(space, op)| is_word(space) && is_word(op));
    has_namespace
        || name == "record_param_comms"
        || memchr::memmem::find(name.as_bytes(), b"Backward").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_and_some() {
        let text = "aten::addmm, seq = 12, op_id = 345, sizes = [[2], [2, 3], []], \
                    input_op_ids = [(344, 0), (0, -1)]";
        let range = EmittedRange::from_text(text);
        assert_eq!(range.name, "aten::addmm");
        assert_eq!((range.sequence, range.op_id), (Some(12), Some(345)));
        assert_eq!(range.sizes, "[[2], [2, 3], []]");
        assert_eq!(Vec::from_iter(range.producers()), [344]);
        assert!(range.is_op());
        let range = EmittedRange::from_text("MulBackward0, seq = 3");
        assert_eq!((range.name, range.sequence), ("MulBackward0", Some(3)));
        assert!(range.is_op());
        let range = EmittedRange::from_text("aten::detach, op_id = 7");
        assert_eq!((range.op_id, range.sizes), (Some(7), ""));
    }

    #[test]
    fn damaged_lists_of_producers() {
        for (list, producers) in [
            ("[(7,0), (3,1), (7,1)]", &[3, 7][..]),
            ("[]", &[]),
            ("[(", &[]),
            ("[(x,0), (5", &[5]),
            ("", &[]),
        ] {
            let text = format!("aten::add, op_id = 9, input_op_ids = {list}");
            let range = EmittedRange::from_text(&text);
            assert_eq!(Vec::from_iter(range.producers()), producers, "{list}");
        }
    }

    #[test]
    fn ranges_of_programs_are_none() {
        for text in [
            "forward",
            "step 3, seq = x",
            "ProfilerStep#5",
            "layer, op_id = 5",
            "",
        ] {
            assert!(!EmittedRange::from_text(text).is_op(), "{text}");
        }
        let range = EmittedRange::from_text("step 3, seq = x");
        assert_eq!((range.name, range.sequence), ("step 3, seq = x", None));
    }
}
