//! What takes time on a host thread, in the order of PyTorch's list of events.

use super::device::Linked;
use etlink_model::{AuxiliaryKind, DeviceTrace, DurationNs, NameId, Names, ThreadIdx, TimeNs};
use std::cmp::Reverse;

/// What a range is; numbers are rows of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Op(u32),
    Call(u32),
    Python(u32),
    Overhead(u32),
}

/// A range of time on a thread, `[start, end)` in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) thread: ThreadIdx,
    pub(super) name: NameId,
    pub(super) what: What,
    /// Has neither children nor self time: it ends on another thread, or is a frame that PyTorch's list of events lacks.
    pub(super) asynchronous: bool,
    unfinished: bool,
}

/// Left out by `_filter_name`.
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

/// All ranges by start, the longer first.
pub(super) fn ranges(trace: &DeviceTrace) -> Vec<Range> {
    let main = main_thread(trace);
    let mut all: Vec<Range> = of_ops(trace).collect();
    all.extend(of_calls(trace, main));
    all.extend(of_asides(trace, main));
    order(&mut all);
    all
}

fn of_ops(trace: &DeviceTrace) -> impl Iterator<Item = Range> {
    let DeviceTrace { ops, names, .. } = trace;
    let utilities = UTILITIES.map(|name| names.find(name));
    let backends: Vec<bool> = names
        .iter()
        .map(|name| BACKENDS.iter().any(|backend| name.starts_with(backend)))
        .collect();
    let op = move |row: usize| Range {
        asynchronous: ops.annotation[row] && backends[ops.name[row].index()],
        unfinished: ops.unfinished[row],
        ..plain(
            What::Op(row as u32),
            (ops.start[row], ops.duration[row]),
            ops.thread[row],
            ops.name[row],
        )
    };
    (0..ops.len())
        .map(op)
        .filter(move |range| !utilities.contains(&Some(range.name)))
}

/// PyTorch takes calls that no op made to be of the thread that stopped the profiler.
fn of_calls(trace: &DeviceTrace, main: ThreadIdx) -> impl Iterator<Item = Range> {
    let (calls, linked) = (&trace.calls, Linked::new(trace));
    (0..calls.len()).map(move |row| {
        let thread = if linked.of_call(row).is_some() {
            calls.thread[row]
        } else {
            main
        };
        plain(
            What::Call(row as u32),
            (calls.start[row], calls.duration[row]),
            thread,
            calls.name[row],
        )
    })
}

fn of_asides(trace: &DeviceTrace, main: ThreadIdx) -> impl Iterator<Item = Range> {
    let auxiliary = &trace.auxiliary;
    // frames are events since PyTorch 2.13 or so (pytorch#178168); traces of 2.5 and before are known by what their header lacks
    let frames = !trace.header.trace_id.is_empty();
    (0..auxiliary.len()).filter_map(move |row| {
        let (what, thread) = match auxiliary.kind[row] {
            AuxiliaryKind::Python => (What::Python(row as u32), auxiliary.thread[row]),
            AuxiliaryKind::Overhead => (What::Overhead(row as u32), main),
            _ => return None,
        };
        let range = plain(
            what,
            (auxiliary.start[row], auxiliary.duration[row]),
            thread,
            auxiliary.name[row],
        );
        Some(Range {
            asynchronous: !frames && matches!(what, What::Python(_)),
            ..range
        })
    })
}

fn plain(
    what: What,
    (start, duration): (TimeNs, DurationNs),
    thread: ThreadIdx,
    name: NameId,
) -> Range {
    Range {
        start: start.0,
        end: (start + duration).0,
        thread,
        name,
        what,
        asynchronous: false,
        unfinished: false,
    }
}

fn order(all: &mut [Range]) {
    all.sort_by_key(|range| (range.start, Reverse(range.end)));
}

/// The thread that drives the profiler: that of the first step, else of the first op.
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

/// A range whose end was not recorded ends with the innermost range around it, as if on another thread, or is none.
pub(super) fn settle(all: &mut Vec<Range>) {
    if !all.iter().any(|range| range.unfinished) {
        return;
    }
    let around = begun_in(all);
    for at in 0..all.len() {
        if all[at].unfinished {
            all[at].end = all
                .get(around[at] as usize)
                .map_or(i64::MIN, |around| around.end);
            all[at].asynchronous = true;
        }
    }
    all.retain(|range| range.end != i64::MIN);
    order(all);
}

/// Per range, the innermost one that was open on its thread when it began, whether or not it outlasts that one; as
/// `build_tree` in `torch/csrc/profiler/collection.cpp`. `u32::MAX`: none. O(n).
pub(super) fn begun_in(all: &[Range]) -> Vec<u32> {
    let threads = all
        .iter()
        .map(|range| range.thread.index() + 1)
        .max()
        .unwrap_or(0);
    let mut open: Vec<Vec<(i64, u32)>> = vec![vec![]; threads];
    let mut around = Vec::with_capacity(all.len());
    for (at, range) in all.iter().enumerate() {
        let open = &mut open[range.thread.index()];
        while open.pop_if(|(end, _)| *end < range.start).is_some() {}
        around.push(open.last().map_or(u32::MAX, |(_, around)| *around));
        // what is open goes with the range that it began in
        let end = open
            .last()
            .map_or(range.end, |(end, _)| range.end.min(*end));
        open.push((end, at as u32));
    }
    around
}

const STEP: &str = "ProfilerStep#";

/// Names as rows bear them.
pub(super) struct Keys {
    of: Vec<NameId>,
    steps: Option<NameId>,
}

impl Keys {
    pub(super) fn new(names: &Names) -> Keys {
        let mut keys = Keys {
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

    /// The same for all steps.
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
