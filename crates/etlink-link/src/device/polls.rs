//! Loops that ask until the device is done.
//!
//! ```text
//! thread    query . query . query . query      a program's `while not event.query()`
//! stream    ====A=====================|
//! ```
//! Such a loop is a wait, not work: with a shorter kernel it asks less often. A loop is calls of a
//! thread that follow each other and do nothing but ask. Its last call found the device done, and
//! the row that ended between that and the call before it is what the loop waited for.

use crate::device::calls::Does;
use crate::device::lanes::Lanes;
use crate::device::{CallWait, row_end};
use crate::limits::{CLOCK_TOLERANCE, MAX_ROWS_OF_CALL};
use etlink_model::{CallIdx, DeviceTrace, RowIdx, TimeNs};

/// Fewer queries than this are questions, not a loop.
const LEAST_QUERIES: usize = 3;

/// A loop of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PollLoop {
    pub(crate) first: CallIdx,
    pub(crate) last: CallIdx,
    /// The row that it waited for.
    pub(crate) row: RowIdx,
}

impl PollLoop {
    /// The wait of its last call.
    pub(crate) fn wait(self) -> CallWait {
        CallWait {
            to: self.last,
            from: self.row,
            inferred: true,
        }
    }
}

/// Loops whose end a row explains, by their last call. O(calls log rows).
pub(crate) fn poll_loops(device: &DeviceTrace, lanes: &Lanes, does: &[Does]) -> Vec<PollLoop> {
    if !does.contains(&Does::Query) {
        return vec![];
    }
    let mut queries: Vec<Vec<CallIdx>> = vec![vec![]; device.threads.len()];
    let mut loops = vec![];
    for (call, does) in (0..).map(CallIdx).zip(does) {
        let own = &mut queries[device.calls.thread[call.index()].index()];
        match does {
            Does::Query => own.push(call),
            _ => loops.extend(as_loop(device, lanes, &std::mem::take(own))),
        }
    }
    for own in &queries {
        loops.extend(as_loop(device, lanes, own));
    }
    loops.sort_by_key(|poll| poll.last);
    loops
}

fn as_loop(device: &DeviceTrace, lanes: &Lanes, queries: &[CallIdx]) -> Option<PollLoop> {
    let [first, .., before, last] = queries else {
        return None;
    };
    if queries.len() < LEAST_QUERIES {
        return None;
    }
    let calls = &device.calls;
    let launched = calls.start[first.index()];
    let asked = calls.start[before.index()];
    let done = calls.start[last.index()] + calls.duration[last.index()];
    let row = ended_between(device, lanes, launched, (asked, done))?;
    Some(PollLoop {
        first: *first,
        last: *last,
        row,
    })
}

/// The last row to end within a time, of those launched before the loop.
fn ended_between(
    device: &DeviceTrace,
    lanes: &Lanes,
    launched: TimeNs,
    (asked, done): (TimeNs, TimeNs),
) -> Option<RowIdx> {
    let latest = done + CLOCK_TOLERANCE;
    let end = lanes
        .by_end
        .partition_point(|row| row_end(device, *row) <= latest);
    let near = lanes.by_end[..end].iter().rev();
    near.take(MAX_ROWS_OF_CALL)
        .take_while(|row| row_end(device, **row) >= asked)
        .find(|row| lanes.launched(**row) < launched && device.rows.start[row.index()] < done)
        .copied()
}
