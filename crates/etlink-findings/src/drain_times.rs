//! When streams have run what was launched, where no call of a trace shows who waits for that.
//!
//! Some recordings have no call but launches and copies. A thread that waits there looks as if it
//! worked:
//!
//! ```text
//! launches  | | |
//! thread          |---------- an op, no call ----------| launch
//! stream       |------------ what was launched ------|
//! ```
//! One stretch of work ends with the stream by chance; that it does so within a small part of its
//! length is a sign.

use crate::launched_row::LaunchedRow;
use etlink_link::{LinkedTrace, NodeKind};
use etlink_model::{NodeIdx, RowIdx, TableIdx};

/// A stretch is looked at if it is this long, ns. Shorter ones meet the end of a queue by chance.
const LEAST_WAIT_NS: i64 = 1_000_000;

/// After a wait the thread goes on within this part of the wait: a twentieth.
const RETURN_PART: i64 = 20;

/// When the streams of a trace without any call that waits have run what was launched.
#[derive(Debug, Default)]
pub(crate) struct DrainTimes {
    /// Whether there is device work, and no call that waits for it.
    pub(crate) hides_waits: bool,
    /// Per stream, in order of the launching calls: when each began, and when the last of all rows
    /// launched until then ended; both by the host's clock, ns.
    queues: Vec<Vec<(i64, i64)>>,
}

impl DrainTimes {
    /// Empty for a trace with any call that waits for a device: it would show the others, too.
    /// `launched`: per thread. O(rows · log rows + calls).
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

    /// How much of a slice of a thread passes while a stream has work that was launched before it, ns:
    /// nothing else can be waited for. O(streams · log rows).
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

    /// Whether a slice of a thread ends when a stream has just run all that was launched before it.
    /// O(streams · log rows).
    pub(crate) fn end_slice(&self, trace: &LinkedTrace, slice: NodeIdx) -> bool {
        let start = trace.nodes.start[slice.index()].0;
        let end = trace.nodes.end(slice).0;
        let length = end.saturating_sub(start);
        // A call says itself what it does.
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
