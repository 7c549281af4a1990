//! Launch calls that block because the queue of launches is full.
//!
//! ```text
//! thread    launch launch launch ---------| launch ---------|
//! stream    ===A===|===B===|===C===|===D===|===E===
//!                          C starts: one launch less waits, and the call returns
//! ```
//! A queue holds a bounded number of launches that have not started: 1,024 of a context with CUDA,
//! which most programs fill by one stream. So it is counted per stream. A call that would add one
//! more returns when the oldest of them starts. That time is no work of the host: with quicker
//! kernels it is gone. How many fit is not written anywhere, but calls that block show it: so many
//! rows were pending when they began. Where no call has blocked, nothing is assumed.

use crate::device::CallWait;
use crate::device::lanes::Lanes;
use crate::device::launch::Launches;
use crate::device::row_end;
use crate::limits::ends_before;
use etlink_model::{CallIdx, DeviceTrace, DurationNs, QueueIdx, RowIdx, RowKind, TimeNs};
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

/// The first row of a call, with what was launched before it to its queue.
struct LaunchedRow {
    place: usize,
    call: CallIdx,
    row: RowIdx,
    /// Rows of the queue that had been launched and not started when the call began.
    pending: usize,
}

/// A queue that launch calls have blocked on because it was full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FullQueue {
    /// Which queue.
    pub queue: QueueIdx,
    /// How many launches it holds that have not started.
    pub depth: usize,
    /// The calls that found it full and took longer than launches do, in order of their rows.
    pub blocked: Vec<CallIdx>,
    /// How long a launch takes that finds room, ns.
    pub usual: DurationNs,
}

/// A call that waits for a launch before its own to start.
pub(crate) struct QueueWait {
    /// What it waits for: the row before that launch's row.
    pub(crate) wait: CallWait,
    /// When that launch's row has started.
    pub(crate) started: TimeNs,
}

/// Queues that have been full, and the calls that wait for one. O(rows log rows).
pub(crate) fn full_queue_waits(
    device: &DeviceTrace,
    launches: &Launches,
    lanes: &Lanes,
) -> (Vec<FullQueue>, Vec<QueueWait>) {
    let (mut full_queues, mut waits) = (vec![], vec![]);
    for queue in (0..device.queues.len()).map(QueueIdx::new) {
        // A graph launch has many rows, and is one launch.
        let call = |row: RowIdx| launches.row_call[row.index()].get();
        let mut lane = lanes.lane(queue).to_vec();
        lane.dedup_by(|next, row| call(*next).is_some() && call(*next) == call(*row));
        if lane.len() <= LEAST_DEPTH {
            continue;
        }
        let launched = launched_rows(device, launches, &lane);
        if let Some(full) = full_queue(device, queue, &launched) {
            add_waits(device, &lane, &launched, full.depth, &mut waits);
            full_queues.push(full);
        }
    }
    (full_queues, waits)
}

/// The rows of a queue whose call is known, with what was pending then.
fn launched_rows(device: &DeviceTrace, launches: &Launches, lane: &[RowIdx]) -> Vec<LaunchedRow> {
    let rows = &device.rows;
    let mut launched = vec![];
    for (place, row) in lane.iter().enumerate() {
        let Some(call) = launches.row_call[row.index()].get() else {
            continue;
        };
        let begun = device.calls.start[call.index()];
        // A stream runs its rows in the order of their launches, so that starts ascend.
        let started = lane.partition_point(|row| rows.start[row.index()] <= begun);
        launched.push(LaunchedRow {
            place,
            call,
            row: *row,
            pending: place.saturating_sub(started),
        });
    }
    launched
}

/// How many launches the queue holds, and which calls have blocked on that, if any have.
fn full_queue(
    device: &DeviceTrace,
    queue: QueueIdx,
    launched: &[LaunchedRow],
) -> Option<FullQueue> {
    // Copies block for reasons of their own.
    let is_kernel = |entry: &&LaunchedRow| device.rows.kind[entry.row.index()] == RowKind::Kernel;
    let kernels: Vec<&LaunchedRow> = launched.iter().filter(is_kernel).collect();
    let duration = |entry: &LaunchedRow| device.calls.duration[entry.call.index()];
    let mut durations: Vec<DurationNs> = kernels.iter().map(|entry| duration(entry)).collect();
    // Of a queue without any launch that is known there is nothing to learn.
    if durations.is_empty() {
        return None;
    }
    // Most calls of a program can block, so that the median would be that of blocked ones.
    let tenth = durations.len() / 10;
    let (_, usual, _) = durations.select_nth_unstable(tenth);
    let usual = *usual;
    let least = DurationNs(usual.0.saturating_mul(BLOCKED_FACTOR)) + BLOCKED_MARGIN;
    let mut blocked: FxHashMap<usize, usize> = FxHashMap::default();
    for entry in &kernels {
        if duration(entry) >= least && entry.pending >= LEAST_DEPTH {
            *blocked.entry(entry.pending).or_default() += 1;
        }
    }
    // of equal counts the deeper one, so that the order of the map does not matter
    let (depth, count) = blocked
        .into_iter()
        .max_by_key(|(depth, count)| (*count, *depth))?;
    let full = kernels.iter().filter(|entry| entry.pending >= depth);
    let full: Vec<&&LaunchedRow> = full.collect();
    let (all, count) = (full.len(), count.min(full.len()));
    let is_bound = count >= LEAST_BLOCKED && all - count <= all / UNBLOCKED_PART;
    let blocked = full.into_iter().filter(|entry| duration(entry) >= least);
    is_bound.then(|| FullQueue {
        queue,
        depth,
        blocked: blocked.map(|entry| entry.call).collect(),
        usual,
    })
}

fn add_waits(
    device: &DeviceTrace,
    lane: &[RowIdx],
    launched: &[LaunchedRow],
    depth: usize,
    waits: &mut Vec<QueueWait>,
) {
    for entry in launched {
        // The call returns when the row `depth` launches before starts: when the row before that
        // one has ended.
        let Some(before) = entry.place.checked_sub(depth + 1) else {
            continue;
        };
        let (from, next) = (lane[before], lane[before + 1]);
        let started = device.rows.start[next.index()];
        let call = entry.call.index();
        let ended = device.calls.start[call] + device.calls.duration[call];
        let can_wait = ends_before(row_end(device, from), ended)
            && ends_before(started, ended)
            && device.rows.start[from.index()] < ended
            && from != entry.row;
        if can_wait {
            let wait = CallWait {
                to: entry.call,
                from,
                inferred: true,
            };
            waits.push(QueueWait { wait, started });
        }
    }
}
