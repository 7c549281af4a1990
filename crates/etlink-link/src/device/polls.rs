//! Finds loops that query until the device is done.
//!
//! ```text
//! thread    query . query . query . query      a program's `while not event.query()`
//! stream    ====A=====================|
//! ```
//! Such a loop is a wait, not work: with a shorter kernel it queries less often. A loop consists of
//! consecutive calls of a thread that only query. Its last call found the device done; the loop
//! waited for the row that ended between the last two calls.

use crate::device::calls::Does;
use crate::device::lanes::Lanes;
use crate::device::launch::Launches;
use crate::device::{CallWait, row_end};
use crate::host::scope::is_scope;
use crate::limits::{CLOCK_TOLERANCE, MAX_ROWS_OF_CALL};
use etlink_model::{CallIdx, DeviceTrace, OpIdx, RowIdx};

/// Minimum number of queries in a loop.
const LEAST_QUERIES: usize = 3;

/// A loop of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PollLoop {
    pub(crate) first: CallIdx,
    pub(crate) last: CallIdx,
    /// Row that the loop waited for.
    pub(crate) row: RowIdx,
}

impl PollLoop {
    /// Returns the wait of the loop's last call.
    pub(crate) fn wait(self) -> CallWait {
        CallWait {
            to: self.last,
            from: self.row,
            inferred: true,
        }
    }
}

/// Finds loops whose end a row explains, by their last call. O(calls log rows).
pub(crate) fn poll_loops(
    device: &DeviceTrace,
    launches: &Launches,
    lanes: &Lanes,
    (does, call_op): (&[Does], &[OpIdx]),
) -> Vec<PollLoop> {
    if !does.contains(&Does::Query) {
        return vec![];
    }
    let finder = PollFinder {
        device,
        launches,
        lanes,
        call_op,
    };
    let mut queries: Vec<Vec<CallIdx>> = vec![vec![]; device.threads.len()];
    let mut loops = vec![];
    for (call, does) in (0..).map(CallIdx).zip(does) {
        let own = &mut queries[device.calls.thread[call.index()].index()];
        match does {
            Does::Query => own.push(call),
            _ => loops.extend(finder.as_loop(&std::mem::take(own))),
        }
    }
    for own in &queries {
        loops.extend(finder.as_loop(own));
    }
    loops.sort_by_key(|poll| poll.last);
    loops
}

struct PollFinder<'t> {
    device: &'t DeviceTrace,
    launches: &'t Launches,
    lanes: &'t Lanes,
    call_op: &'t [OpIdx],
}

impl PollFinder<'_> {
    /// Returns the loop formed by consecutive queries of one thread.
    fn as_loop(&self, queries: &[CallIdx]) -> Option<PollLoop> {
        let [first, .., before, last] = queries else {
            return None;
        };
        if queries.len() < LEAST_QUERIES {
            return None;
        }
        // PyTorch's ops do not spin. Its allocator queries the events of several streams in one op
        // (`CUDACachingAllocator::process_events`), which is no loop.
        if queries.iter().any(|call| self.is_in_op(*call)) {
            return None;
        }
        let row = self.ended_between(*first, *before, *last)?;
        Some(PollLoop {
            first: *first,
            last: *last,
            row,
        })
    }

    /// Returns the last row to end between the start of query `before` and the end of query `last`,
    /// among those that the process had launched before the first query.
    fn ended_between(&self, first: CallIdx, before: CallIdx, last: CallIdx) -> Option<RowIdx> {
        let calls = &self.device.calls;
        let (launched, asked) = (calls.start[first.index()], calls.start[before.index()]);
        let done = calls.start[last.index()] + calls.duration[last.index()];
        let latest = done + CLOCK_TOLERANCE;
        let by_end = &self.lanes.by_end;
        let end = by_end.partition_point(|row| row_end(self.device, *row) <= latest);
        let near = by_end[..end].iter().rev();
        near.take(MAX_ROWS_OF_CALL)
            .take_while(|row| row_end(self.device, **row) >= asked)
            .find(|row| {
                self.lanes.launched(**row) < launched
                    && self.device.rows.start[row.index()] < done
                    && self.is_of_process(**row, first)
            })
            .copied()
    }

    fn is_in_op(&self, call: CallIdx) -> bool {
        let op = self.call_op.get(call.index()).copied();
        let op = op.and_then(OpIdx::get);
        op.is_some_and(|op| !is_scope(self.device, op))
    }

    /// True if the process of a call launched a row. A merged trace has rows of several processes.
    fn is_of_process(&self, row: RowIdx, call: CallIdx) -> bool {
        let process = |call: CallIdx| {
            let thread = self.device.calls.thread[call.index()];
            self.device.threads[thread.index()].pid
        };
        let launch = self.launches.row_call[row.index()].get();
        launch.is_none_or(|launch| process(launch) == process(call))
    }
}
