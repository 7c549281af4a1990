//! Python stack of each range.

use super::ranges::{HostRange, RangeSource, begun_in, is_frame};
use super::tree::RangeTree;
use etlink_model::{DeviceTrace, NameId, ThreadIdx};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::BTreeMap;

/// Distinct stacks, and each range's stack by number.
#[derive(Default)]
pub(super) struct PythonStacks {
    pub(super) all: IndexSet<Vec<NameId>, FxBuildHasher>,
    pub(super) of: Vec<u32>,
}

/// Frames left out by `_filter_stack_entry`: part of the file's name, and of the function's.
const LEFT_OUT: [(&str, &str); 6] = [
    ("autograd/__init__", "_make_grads"),
    ("autograd/__init__", "backward"),
    ("torch/tensor", "backward"),
    ("_internal/common_utils", "prof_callable"),
    ("_internal/common_utils", "prof_func_call"),
    ("_internal/common_utils", "prof_meth_call"),
];

/// Returns the innermost `depth` frames around each range. A backward op takes those of its forward
/// op (`_set_backward_stacktraces`). O(n · depth), however deep the ranges nest.
pub(super) fn python_stacks(
    trace: &DeviceTrace,
    ranges: &[HostRange],
    tree: &RangeTree,
    depth: usize,
) -> PythonStacks {
    let around = frames_around(trace, ranges);
    let mut stacks = PythonStacks::default();
    for innermost in &around {
        let mut frames = vec![];
        let mut next = innermost.get();
        while frames.len() < depth
            && let Some(frame) = next
        {
            frames.push(ranges[frame].name);
            next = around[frame].get();
        }
        // Thousands of ranges share a stack: each stack is stored once and referred to by number.
        let number = stacks.all.insert_full(frames).0;
        stacks.of.push(number as u32);
    }
    take_forward_stacks(trace, ranges, tree, &mut stacks);
    stacks
}

/// Innermost frame around a range, by its index among the ranges.
#[derive(Clone, Copy)]
struct FrameAround(u32);

impl FrameAround {
    const NONE: FrameAround = FrameAround(u32::MAX);

    fn get(self) -> Option<usize> {
        (self.0 != u32::MAX).then_some(self.0 as usize)
    }
}

/// Returns, per range, the innermost frame that is open when the range begins and is not left out.
///
/// A range is the child of an earlier one, so one look at the parent is enough: walking up to the
/// next frame would take the depth of the nesting per range. O(n).
fn frames_around(trace: &DeviceTrace, ranges: &[HostRange]) -> Vec<FrameAround> {
    let shown: Vec<bool> = trace.names.iter().map(is_shown_frame).collect();
    let mut around: Vec<FrameAround> = Vec::with_capacity(ranges.len());
    for parent in begun_in(ranges) {
        let frame = match ranges.get(parent as usize) {
            None => FrameAround::NONE,
            Some(range) if is_frame(range) && shown[range.name.index()] => FrameAround(parent),
            Some(_) => around[parent as usize],
        };
        around.push(frame);
    }
    around
}

fn is_shown_frame(name: &str) -> bool {
    !LEFT_OUT
        .iter()
        .any(|(file, function)| name.contains(file) && name.contains(function))
}

/// Autograd's wrapper around a backward op, which is no backward op itself.
const ENGINE: &str = "autograd::engine::evaluate_function";
/// A backward op without a forward op.
const ACCUMULATE: &str = "torch::autograd::AccumulateGrad";

fn take_forward_stacks(
    trace: &DeviceTrace,
    ranges: &[HostRange],
    tree: &RangeTree,
    stacks: &mut PythonStacks,
) {
    let names: Vec<bool> = trace
        .names
        .iter()
        .map(|name| name.starts_with(ENGINE))
        .collect();
    let accumulate = trace.names.find(ACCUMULATE);
    let is_backward = |at: usize| match ranges[at].what {
        RangeSource::Op(op) => {
            Some(ranges[at].name) == accumulate
                // PyTorch recognizes a backward op by its forward thread; the engine's wrapper has
                // one too.
                || trace.ops.fwd_thread[op as usize] != 0 && !names[ranges[at].name.index()]
        }
        _ => false,
    };
    // parents come before their children
    let mut owner: Vec<u32> = Vec::with_capacity(ranges.len());
    for at in 0..ranges.len() {
        let inherited = owner
            .get(tree.parent[at] as usize)
            .copied()
            .unwrap_or(u32::MAX);
        owner.push(if is_backward(at) {
            at as u32
        } else {
            inherited
        });
    }
    let mut forward: IndexMap<(i64, ThreadIdx), u32, FxBuildHasher> = IndexMap::default();
    for (at, range) in ranges
        .iter()
        .enumerate()
        .filter(|(at, _)| owner[*at] == u32::MAX)
    {
        if let RangeSource::Op(op) = range.what {
            forward
                .entry((trace.ops.seq_id[op as usize], range.thread))
                // The first op with a sequence number is the outermost: nested ops share its
                // number.
                .or_insert(stacks.of[at]);
        }
    }
    let threads = forward_threads(trace, &forward);
    let none = stacks.all.insert_full(vec![]).0 as u32;
    for (of, owner) in stacks.of.iter_mut().zip(owner) {
        let Some(RangeSource::Op(op)) = ranges.get(owner as usize).map(|range| range.what) else {
            continue;
        };
        let (seq, number) = (
            trace.ops.seq_id[op as usize],
            trace.ops.fwd_thread[op as usize],
        );
        // Sequence numbers count per forward thread, so one number may belong to two ops.
        *of = match threads.get(&number) {
            Some(thread) if seq >= 0 => forward.get(&(seq, *thread)).copied().unwrap_or(none),
            _ => none,
        };
    }
}

/// Maps forward thread numbers to threads: to the thread that has most of the sequence numbers.
fn forward_threads(
    trace: &DeviceTrace,
    forward: &IndexMap<(i64, ThreadIdx), u32, FxBuildHasher>,
) -> BTreeMap<u32, ThreadIdx> {
    let mut threads_of: FxHashMap<i64, Vec<ThreadIdx>> = FxHashMap::default();
    forward
        .keys()
        .for_each(|(seq, thread)| threads_of.entry(*seq).or_default().push(*thread));
    // The trace has two numberings of threads, PyTorch's and the system's, and no table that maps
    // one to the other.
    let mut votes: BTreeMap<(u32, ThreadIdx), u64> = BTreeMap::new();
    for op in (0..trace.ops.len())
        .filter(|op| trace.ops.fwd_thread[*op] != 0 && trace.ops.seq_id[*op] >= 0)
    {
        for thread in threads_of.get(&trace.ops.seq_id[op]).into_iter().flatten() {
            *votes
                .entry((trace.ops.fwd_thread[op], *thread))
                .or_default() += 1;
        }
    }
    let mut best: BTreeMap<u32, (u64, ThreadIdx)> = BTreeMap::new();
    for ((number, thread), count) in votes {
        let entry = best.entry(number).or_insert((0, thread));
        // Ties go to the thread with the lower number, since votes come in that order.
        *entry = if count > entry.0 {
            (count, thread)
        } else {
            *entry
        };
    }
    best.into_iter()
        .map(|(number, (_, thread))| (number, thread))
        .collect()
}
