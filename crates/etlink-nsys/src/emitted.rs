//! Texts of ranges that `torch.autograd.profiler.emit_nvtx` writes.
//!
//! `name[, seq = N][, op_id = M][, sizes = [[2, 3], []]][, input_op_ids = [(M, 0)]]`: `getNvtxStr` in
//! `torch/csrc/profiler/util.cpp`. `op_id`, since PyTorch 1.12, is the handle of the `RecordFunction`:
//! `rf_id` of host traces, `Record function id` of Kineto.

/// Such a text in its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EmittedRange<'t> {
    pub(crate) name: &'t str,
    pub(crate) sequence: Option<i64>,
    pub(crate) op_id: Option<u64>,
    /// List text; empty where there is none.
    pub(crate) sizes: &'t str,
}

impl<'t> EmittedRange<'t> {
    /// The parts of a text; all of it is the name where it has none of the others. O(length).
    pub(crate) fn from_text(text: &'t str) -> EmittedRange<'t> {
        let mut range = EmittedRange {
            name: text,
            ..EmittedRange::default()
        };
        let marks = [", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "];
        // From the last part to the first, so that each part ends where the next one began.
        let mut rest = text;
        for mark in marks.iter().rev() {
            let Some((before, value)) = rest.split_once(mark) else {
                continue;
            };
            let is_kept = match *mark {
                ", seq = " => set_number(&mut range.sequence, value),
                ", op_id = " => set_number(&mut range.op_id, value),
                ", sizes = " => {
                    range.sizes = value;
                    true
                }
                // Which op made an input: the tensors of a host trace say that of more ops, and no
                // table of a device trace has a place for it.
                _ => true,
            };
            if is_kept {
                rest = before;
            }
        }
        range.name = rest;
        range
    }

    /// Whether it is an op of PyTorch, not a range of the program's own.
    pub(crate) fn is_op(&self) -> bool {
        let is_emitted = self.sequence.is_some() || self.op_id.is_some() || !self.sizes.is_empty();
        // `record_function` has an `op_id` too, and a name of the program's own.
        is_emitted && (self.sequence.is_some() || is_op_name(self.name))
            || self.name.starts_with("aten::")
    }
}

/// Sets a number if the text is one.
fn set_number<T: std::str::FromStr>(slot: &mut Option<T>, text: &str) -> bool {
    *slot = text.trim().parse().ok();
    slot.is_some()
}

/// Ops have a namespace (`aten::mm`), or are nodes of autograd (`MulBackward0`).
fn is_op_name(name: &str) -> bool {
    let is_word = |part: &str| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':');
        !part.is_empty() && part.chars().all(is_letter)
    };
    let has_namespace = name
        .split_once("::")
        .is_some_and(|(space, op)| is_word(space) && is_word(op));
    has_namespace || name.contains("Backward") || name == "record_param_comms"
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
        assert!(range.is_op());
        let range = EmittedRange::from_text("MulBackward0, seq = 3");
        assert_eq!((range.name, range.sequence), ("MulBackward0", Some(3)));
        assert!(range.is_op());
        let range = EmittedRange::from_text("aten::detach, op_id = 7");
        assert_eq!((range.op_id, range.sizes), (Some(7), ""));
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
