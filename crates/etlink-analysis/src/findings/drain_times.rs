//! Times at which streams have finished the launched work, for traces without calls that wait for
//! it.
//!
//! Some recordings have only launches and copies as calls. A thread that waits there looks as if it
//! worked:
//!
//! ```text
//! launches  | | |
//! thread          |---------- an op, no call ----------| launch
//! stream       |------------ launched work ------------|
//! ```
//! A single stretch of work may end together with the stream by chance; ending within a small part
//! of its length is a sign of a wait.

use crate::findings::launched_row::LaunchedRow;
use etlink_link::{LinkedTrace, NodeKind};
use etlink_model::{NodeIdx, RowIdx, TableIdx};

/// Shortest stretch considered, in ns: shorter ones end together with a queue by chance.
const LEAST_WAIT_NS: i64 = 1_000_000;

/// Maximum delay from the end of the stream to the end of the wait, as a divisor of the wait: a
/// twentieth.
const RETURN_PART: i64 = 20;

/// Times at which streams have finished the launched work, in a trace without any call that waits.
#[derive(Debug, Default)]
pub(crate) struct DrainTimes {
    /// True if there is device work, and no call that waits for it.
    pub(crate) hides_waits: bool,
    /// For each stream, in order of the launching calls: start of the call, and last end of all
    /// rows launched until then; both by the host's clock, in ns.
    queues: Vec<Vec<(i64, i64)>>,
}

impl DrainTimes {
    /// Computes the times; empty for a trace with any call that waits for a device, since the trace
    /// would show the other waits too. `launched`: per thread. O(rows · log rows + calls).
    pub(crate) fn new(trace: &LinkedTrace, launched: &[Vec<LaunchedRow>]) -> DrainTimes {
        let device = &trace.device;
        if trace.records_waits() {
            return DrainTimes::default();
        }
        let mut queues = vec![vec![]; device.queues.len()];
        let mut launched: Vec<LaunchedRow> = launched.iter().flatten().copied().collect();
        launched.sort_unstable();
        for one in launched {
            let end = device.rows.start[one.row] + device.rows.duration[one.row];
            let end = trace.host_time(RowIdx::from_index(one.row), end).0;
            let queue: &mut Vec<(i64, i64)> = &mut queues[device.rows.queue[one.row].index()];
            let before = queue.last().map_or(end, |(_, before)| *before);
            queue.push((one.called, end.max(before)));
        }
        DrainTimes {
            hides_waits: !device.rows.is_empty(),
            queues,
        }
    }

    /// Returns the part of a thread's slice during which a stream still has earlier work, in ns:
    /// the slice cannot be a wait for anything else. O(streams · log rows).
    pub(crate) fn work_ahead_ns(&self, trace: &LinkedTrace, slice: NodeIdx) -> i64 {
        let start = trace.nodes.start[slice.index()].0;
        let end = trace.nodes.end(slice).0;
        let drained = self.queues.iter().filter_map(|queue| {
            let launched = queue.partition_point(|(called, _)| *called < start);
            queue[..launched].last().map(|(_, drained)| *drained)
        });
        let last = drained.max().unwrap_or(start);
        last.clamp(start, end).saturating_sub(start)
    }

    /// Returns true if a thread's slice ends just after a stream has finished all earlier work.
    /// O(streams · log rows).
    pub(crate) fn end_slice(&self, trace: &LinkedTrace, slice: NodeIdx) -> bool {
        let start = trace.nodes.start[slice.index()].0;
        let end = trace.nodes.end(slice).0;
        let length = end.saturating_sub(start);
        // A call already shows its purpose.
        let is_call = trace.nodes.kind[slice.index()] == NodeKind::Runtime;
        if is_call || length < LEAST_WAIT_NS {
            return false;
        }
        self.queues.iter().any(|queue| {
            let launched = queue.partition_point(|(called, _)| *called < start);
            let last = queue[..launched].last();
            last.is_some_and(|(_, drained)| {
                let late = end.saturating_sub(*drained);
                *drained > start && late >= 0 && late <= length / RETURN_PART
            })
        })
    }
}
