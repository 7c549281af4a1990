//! Time ranges of host threads, in the order of PyTorch's list of events.

use super::launching_ops::LaunchingOps;
use etlink_model::{AuxiliaryKind, DeviceTrace, DurationNs, NameId, Names, ThreadIdx, TimeNs};
use std::cmp::Reverse;

/// Source of a range, with its row in the source's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeSource {
    Op(u32),
    Call(u32),
    Python(u32),
    Overhead(u32),
}

/// A range of time on a thread, `[start, end)` in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostRange {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) thread: ThreadIdx,
    pub(super) name: NameId,
    pub(super) what: RangeSource,
    /// True if the range has neither children nor self time: it ends on another thread, or is a
    /// frame missing in PyTorch's list of events.
    pub(super) asynchronous: bool,
    unfinished: bool,
}

/// True if a range is a frame of the Python stack.
pub(super) fn is_frame(range: &HostRange) -> bool {
    matches!(range.what, RangeSource::Python(_))
}

/// Ops left out by `_filter_name`.
const UTILITIES: [&str; 6] = [
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
];

/// Backends whose annotations begin on the calling thread and end on one of their own.
const BACKENDS: [&str; 5] = ["gloo:", "nccl:", "mpi:", "ucc:", "xccl:"];

/// Collects all ranges by start, longer ones first.
pub(super) fn host_ranges(trace: &DeviceTrace) -> Vec<HostRange> {
    let main = main_thread(trace);
    let mut all: Vec<HostRange> = of_ops(trace).collect();
    all.extend(of_calls(trace, main));
    all.extend(of_asides(trace, main));
    sort_ranges(&mut all);
    all
}

fn of_ops(trace: &DeviceTrace) -> impl Iterator<Item = HostRange> {
    let DeviceTrace { ops, names, .. } = trace;
    let utilities = UTILITIES.map(|name| names.find(name));
    let backends: Vec<bool> = names
        .iter()
        .map(|name| BACKENDS.iter().any(|backend| name.starts_with(backend)))
        .collect();
    let op = move |row: usize| HostRange {
        // The trace does not record the thread on which an annotation ended; only the backend's
        // name reveals it.
        asynchronous: ops.annotation[row] && backends[ops.name[row].index()],
        unfinished: ops.unfinished[row],
        ..plain_range(
            RangeSource::Op(row as u32),
            (ops.start[row], ops.duration[row]),
            ops.thread[row],
            ops.name[row],
        )
    };
    (0..ops.len())
        .map(op)
        .filter(move |range| !utilities.contains(&Some(range.name)))
}

/// Ranges of runtime calls. PyTorch attributes calls outside all ops to the thread that stopped the
/// profiler.
fn of_calls(trace: &DeviceTrace, main: ThreadIdx) -> impl Iterator<Item = HostRange> {
    let (calls, linked) = (&trace.calls, LaunchingOps::new(trace));
    (0..calls.len()).map(move |row| {
        // A call without an op has no known `External id`, which is how PyTorch sees it too.
        let thread = if linked.of_call(row).is_some() {
            calls.thread[row]
        } else {
            main
        };
        plain_range(
            RangeSource::Call(row as u32),
            (calls.start[row], calls.duration[row]),
            thread,
            calls.name[row],
        )
    })
}

fn of_asides(trace: &DeviceTrace, main: ThreadIdx) -> impl Iterator<Item = HostRange> {
    let auxiliary = &trace.auxiliary;
    // frames are events since PyTorch 2.13 or so (pytorch#178168); traces of 2.5 and older lack a
    // header field
    let frames = !trace.header.trace_id.is_empty();
    (0..auxiliary.len()).filter_map(move |row| {
        let (what, thread) = match auxiliary.kind[row] {
            AuxiliaryKind::Python => (RangeSource::Python(row as u32), auxiliary.thread[row]),
            AuxiliaryKind::Overhead => (RangeSource::Overhead(row as u32), main),
            _ => return None,
        };
        let range = plain_range(
            what,
            (auxiliary.start[row], auxiliary.duration[row]),
            thread,
            auxiliary.name[row],
        );
        Some(HostRange {
            asynchronous: !frames && matches!(what, RangeSource::Python(_)),
            ..range
        })
    })
}

fn plain_range(
    what: RangeSource,
    (start, duration): (TimeNs, DurationNs),
    thread: ThreadIdx,
    name: NameId,
) -> HostRange {
    HostRange {
        start: start.0,
        end: (start + duration).0,
        thread,
        name,
        what,
        asynchronous: false,
        unfinished: false,
    }
}

fn sort_ranges(all: &mut [HostRange]) {
    all.sort_by_key(|range| (range.start, Reverse(range.end)));
}

/// Returns the thread that drives the profiler: the thread of the first step, else of the first op.
fn main_thread(trace: &DeviceTrace) -> ThreadIdx {
    let ops = &trace.ops;
    let step = ops
        .name
        .iter()
        .position(|name| trace.names.get(*name).starts_with(STEP));
    ops.thread
        .get(step.unwrap_or(0))
        .copied()
        .unwrap_or_default()
}

/// Ends ranges whose end was not recorded together with the innermost range around them, as if on
/// another thread; removes them if there is none.
pub(super) fn end_unfinished(all: &mut Vec<HostRange>) {
    if !all.iter().any(|range| range.unfinished) {
        return;
    }
    let around = begun_in(all);
    for at in 0..all.len() {
        if all[at].unfinished {
            all[at].end = all
                .get(around[at] as usize)
                // No range around it: the time marks the range for `retain` below.
                .map_or(i64::MIN, |around| around.end);
            all[at].asynchronous = true;
        }
    }
    // The ends have changed, and with them the order of ranges with equal starts.
    all.retain(|range| range.end != i64::MIN);
    sort_ranges(all);
}

/// Returns, per range, the innermost range that was open on its thread when it began, even if the
/// range outlasts it, as `build_tree` in `torch/csrc/profiler/collection.cpp` does. `u32::MAX` for
/// none. O(n).
pub(super) fn begun_in(all: &[HostRange]) -> Vec<u32> {
    let threads = all
        .iter()
        .map(|range| range.thread.index() + 1)
        .max()
        .unwrap_or(0);
    let mut open: Vec<Vec<(i64, u32)>> = vec![vec![]; threads];
    let mut around = Vec::with_capacity(all.len());
    for (at, range) in all.iter().enumerate() {
        let open = &mut open[range.thread.index()];
        // To `build_tree`, a range that ends just when this one starts is still open.
        while open.pop_if(|(end, _)| *end < range.start).is_some() {}
        around.push(open.last().map_or(u32::MAX, |(_, around)| *around));
        // an open range ends with the range in which it began
        let end = open
            .last()
            .map_or(range.end, |(end, _)| range.end.min(*end));
        open.push((end, at as u32));
    }
    around
}

const STEP: &str = "ProfilerStep#";

/// Names as shown in rows.
pub(super) struct RowNames {
    of: Vec<NameId>,
    steps: Option<NameId>,
}

impl RowNames {
    pub(super) fn new(names: &Names) -> RowNames {
        let mut keys = RowNames {
            of: Vec::with_capacity(names.count()),
            steps: None,
        };
        for (at, name) in names.iter().enumerate() {
            let own = NameId::new(at);
            keys.of.push(if name.starts_with(STEP) {
                *keys.steps.get_or_insert(own)
            } else {
                own
            });
        }
        keys
    }

    /// Returns the name of a row: one name for all steps.
    pub(super) fn of(&self, name: NameId) -> NameId {
        self.of[name.index()]
    }

    pub(super) fn text(&self, key: NameId, names: &Names) -> String {
        if self.steps == Some(key) {
            "ProfilerStep*".to_owned()
        } else {
            names.get(key).to_owned()
        }
    }
}
