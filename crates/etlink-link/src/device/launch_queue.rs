//! Launch calls that block because the queue of launches is full.
//!
//! ```text
//! thread    launch launch launch ---------| launch ---------|
//! stream    ===A===|===B===|===C===|===D===|===E===
//!                          C starts: one launch less waits, and the call returns
//! ```
//! A context holds a bounded number of launches that have not started, 1,024 with CUDA. A call that
//! would add one more returns when the oldest of them starts. That time is no work of the host:
//! with quicker kernels it is gone. How many fit is not written anywhere, but calls that block show
//! it: so many rows were pending when they began. Where no call has blocked, nothing is assumed.

use crate::device::CallWait;
use crate::device::lanes::Lanes;
use crate::device::launch::Launches;
use crate::device::row_end;
use crate::limits::ends_before;
use etlink_model::{CallIdx, DeviceTrace, DurationNs, QueueIdx, RowIdx, TimeNs};
use rustc_hash::FxHashMap;

/// Fewer calls than this show no bound: they can have blocked for another reason.
const LEAST_BLOCKED: usize = 8;

/// A queue that holds fewer launches than this is not what blocks calls.
const LEAST_DEPTH: usize = 16;

/// A call that takes so many times what launches take otherwise, and so much longer, has blocked.
const BLOCKED_FACTOR: i64 = 2;
const BLOCKED_MARGIN: DurationNs = DurationNs(3_000);

/// Of the calls that find the queue full, one in so many may return at once: the clocks of host and
/// device differ a little.
const UNBLOCKED_PART: usize = 4;

/// A row and the call that launched it alone.
struct LaunchedRow {
    call: CallIdx,
    row: RowIdx,
    /// Rows of the queue that had been launched and not started when the call began.
    pending: usize,
}

/// A call that waits for a launch before its own to start.
pub(crate) struct QueueWait {
    /// What it waits for: the row before that launch's row.
    pub(crate) wait: CallWait,
    /// When that launch's row has started.
    pub(crate) started: TimeNs,
}

/// Calls that wait for a full queue. O(rows log rows).
pub(crate) fn full_queue_waits(
    device: &DeviceTrace,
    launches: &Launches,
    lanes: &Lanes,
) -> Vec<QueueWait> {
    let mut waits = vec![];
    for queue in (0..device.queues.len()).map(QueueIdx::new) {
        let lane = lanes.lane(queue);
        if lane.len() <= LEAST_DEPTH {
            continue;
        }
        let launched = launched_rows(device, launches, lane);
        if let Some(depth) = queue_depth(device, &launched) {
            add_waits(device, lane, &launched, depth, &mut waits);
        }
    }
    waits
}

/// The rows of a queue whose call is known, with what was pending then.
fn launched_rows(
    device: &DeviceTrace,
    launches: &Launches,
    lane: &[RowIdx],
) -> Vec<(usize, LaunchedRow)> {
    let rows = &device.rows;
    let mut launched = vec![];
    for (place, row) in lane.iter().enumerate() {
        let Some(call) = launches.row_call[row.index()].get() else {
            continue;
        };
        let begun = device.calls.start[call.index()];
        // A stream runs its rows in the order of their launches, so that starts ascend.
        let started = lane.partition_point(|row| rows.start[row.index()] <= begun);
        let entry = LaunchedRow {
            call,
            row: *row,
            pending: place.saturating_sub(started),
        };
        launched.push((place, entry));
    }
    launched
}

/// How many launches the queue holds, if calls have blocked on that.
fn queue_depth(device: &DeviceTrace, launched: &[(usize, LaunchedRow)]) -> Option<usize> {
    let duration = |entry: &LaunchedRow| device.calls.duration[entry.call.index()];
    let mut durations: Vec<DurationNs> =
        launched.iter().map(|(_, entry)| duration(entry)).collect();
    // Most calls of a program can block, so that the median would be that of blocked ones.
    let tenth = durations.len() / 10;
    let (_, usual, _) = durations.select_nth_unstable(tenth);
    let least = DurationNs(usual.0.saturating_mul(BLOCKED_FACTOR)) + BLOCKED_MARGIN;
    let mut blocked: FxHashMap<usize, usize> = FxHashMap::default();
    for (_, entry) in launched {
        if duration(entry) >= least && entry.pending >= LEAST_DEPTH {
            *blocked.entry(entry.pending).or_default() += 1;
        }
    }
    // of equal counts the deeper one, so that the order of the map does not matter
    let (depth, count) = blocked
        .into_iter()
        .max_by_key(|(depth, count)| (*count, *depth))?;
    let full = launched.iter().filter(|(_, entry)| entry.pending >= depth);
    let full = full.count();
    let is_bound = count >= LEAST_BLOCKED && full - count.min(full) <= full / UNBLOCKED_PART;
    is_bound.then_some(depth)
}

fn add_waits(
    device: &DeviceTrace,
    lane: &[RowIdx],
    launched: &[(usize, LaunchedRow)],
    depth: usize,
    waits: &mut Vec<QueueWait>,
) {
    for (place, entry) in launched {
        // The call returns when the row `depth` launches before starts: when the row before that
        // one has ended.
        let Some(from) = place.checked_sub(depth + 1).map(|place| lane[place]) else {
            continue;
        };
        let call = entry.call.index();
        let ended = device.calls.start[call] + device.calls.duration[call];
        let can_wait = ends_before(row_end(device, from), ended)
            && device.rows.start[from.index()] < ended
            && from != entry.row;
        if can_wait {
            let wait = CallWait {
                to: entry.call,
                from,
                inferred: true,
            };
            let next = lane[place - depth];
            let started = device.rows.start[next.index()];
            waits.push(QueueWait { wait, started });
        }
    }
}
