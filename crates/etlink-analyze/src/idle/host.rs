//! What a host thread did in a stretch of time: the innermost op, annotation or runtime call.

use etlink_link::LinkedTrace;
use etlink_model::{CallIdx, NameId, OpIdx, ThreadIdx};
use std::cmp::Reverse;

/// Parents that are looked at for one stretch: nesting deeper than this is not followed.
const MOST_PARENTS: usize = 1_000;

/// An op or a runtime call of a thread.
#[derive(Clone, Copy, Debug)]
enum HostRange {
    Op(OpIdx),
    Call(CallIdx),
}

/// The ranges of host threads, each thread's made when it is first asked for.
pub(super) struct HostThreads<'t> {
    trace: &'t LinkedTrace,
    /// Per thread, by start; an outer range before those inside.
    ranges: Vec<Option<Vec<HostRange>>>,
}

impl HostThreads<'_> {
    pub(super) fn new(trace: &LinkedTrace) -> HostThreads<'_> {
        HostThreads {
            trace,
            ranges: vec![None; trace.device.threads.len()],
        }
    }

    /// Calls `add` with each name and how long that was the innermost range of `thread` from
    /// `from` to `to`, ns; with no name for time in which the trace shows none. O(log ranges +
    /// ranges inside).
    pub(super) fn add_activity(
        &mut self,
        thread: ThreadIdx,
        (from, to): (i64, i64),
        mut add: impl FnMut(Option<NameId>, i64),
    ) {
        let trace = self.trace;
        let Some(slot) = self.ranges.get_mut(thread.index()) else {
            return;
        };
        let ranges = slot.get_or_insert_with(|| ranges_of(trace, thread));
        let first = ranges.partition_point(|range| range.span(trace).0 < from);
        let mut walk = Walk {
            trace,
            now: from,
            current: first.checked_sub(1).map(|last| ranges[last]),
        };
        for range in &ranges[first..] {
            let start = range.span(trace).0;
            if start >= to {
                break;
            }
            walk.advance(start, &mut add);
            walk.current = Some(*range);
        }
        walk.advance(to, &mut add);
    }
}

fn ranges_of(trace: &LinkedTrace, thread: ThreadIdx) -> Vec<HostRange> {
    let (ops, calls) = (&trace.device.ops, &trace.device.calls);
    let of_thread = |(_, other): &(usize, &ThreadIdx)| **other == thread;
    let own_ops = ops.thread.iter().enumerate().filter(of_thread);
    let own_calls = calls.thread.iter().enumerate().filter(of_thread);
    let mut ranges: Vec<HostRange> = own_ops
        .map(|(op, _)| HostRange::Op(OpIdx::new(op)))
        .chain(own_calls.map(|(call, _)| HostRange::Call(CallIdx::new(call))))
        .collect();
    ranges.sort_by_key(|range| {
        let (start, end) = range.span(trace);
        (start, Reverse(end))
    });
    ranges
}

impl HostRange {
    fn span(self, trace: &LinkedTrace) -> (i64, i64) {
        let (start, duration) = match self {
            HostRange::Op(op) => {
                let ops = &trace.device.ops;
                (ops.start[op.index()], ops.duration[op.index()])
            }
            HostRange::Call(call) => {
                let calls = &trace.device.calls;
                (calls.start[call.index()], calls.duration[call.index()])
            }
        };
        (start.0, (start + duration).0)
    }

    fn name(self, trace: &LinkedTrace) -> NameId {
        match self {
            HostRange::Op(op) => trace.device.ops.name[op.index()],
            HostRange::Call(call) => trace.device.calls.name[call.index()],
        }
    }

    /// The op around it.
    fn parent(self, trace: &LinkedTrace) -> Option<HostRange> {
        let parent = match self {
            HostRange::Op(op) => trace.op_parent[op.index()],
            HostRange::Call(call) => trace.call_op[call.index()],
        };
        parent.get().map(HostRange::Op)
    }
}

/// Goes along the time of a thread.
struct Walk<'t> {
    trace: &'t LinkedTrace,
    now: i64,
    /// The range that began last, or an outer one once that has ended.
    current: Option<HostRange>,
}

impl Walk<'_> {
    fn advance(&mut self, until: i64, add: &mut impl FnMut(Option<NameId>, i64)) {
        let mut parents = 0;
        while self.now < until {
            let Some(range) = self.current else {
                add(None, until - self.now);
                self.now = until;
                return;
            };
            let end = range.span(self.trace).1;
            if end > self.now {
                let end = end.min(until);
                add(Some(range.name(self.trace)), end - self.now);
                self.now = end;
            } else {
                parents += 1;
                self.current = range.parent(self.trace).filter(|_| parents <= MOST_PARENTS);
            }
        }
    }
}
