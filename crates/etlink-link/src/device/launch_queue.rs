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
//! rows were pending when they began. Few calls, or short waits behind short kernels, can have
//! another reason. What tells them is the end: a call that has blocked returns a constant time after
//! the launch so many places before it has started. Where no call has blocked, nothing is assumed.

use crate::device::CallWait;
use crate::device::lanes::Lanes;
use crate::device::launch::Launches;
use crate::device::row_end;
use crate::limits::{CLOCK_TOLERANCE, ends_before};
use etlink_model::{CallIdx, DeviceTrace, DurationNs, QueueIdx, RowIdx, RowKind, TimeNs};
use rustc_hash::FxHashMap;

/// Fewer calls than this show no bound: they can have blocked for another reason.
const LEAST_BLOCKED: usize = 8;

/// A queue that holds fewer launches than this is not what blocks calls.
const LEAST_DEPTH: usize = 16;

/// A call that takes so many times what launches take otherwise, and so much longer, has blocked.
const BLOCKED_FACTOR: i64 = 2;
const BLOCKED_MARGIN: DurationNs = DurationNs(3_000);

/// So many that return a constant time after the launch that makes room do, if their lengths differ
/// by so much.
const LEAST_CONSTANT: usize = 3;
const FEW_DIFFER: DurationNs = DurationNs(10_000);

/// What a call takes longer than a usual one, at least, to say anything about the queue.
const SLOWER: DurationNs = DurationNs(500);

/// What is constant is so within this: calls differ by little once they go on.
const CONSTANT: DurationNs = DurationNs(1_000);

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
        let full = full_queue(device, queue, &launched)
            .or_else(|| constant_full_queue(device, queue, &lane, &launched));
        if let Some(full) = full {
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
    let (kernels, usual) = kernels_and_usual(device, launched)?;
    let duration = |entry: &LaunchedRow| device.calls.duration[entry.call.index()];
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

/// The launches of kernels, and how long one takes that finds room. `None` of a queue without any
/// launch that is known: there is nothing to learn.
fn kernels_and_usual<'l>(
    device: &DeviceTrace,
    launched: &'l [LaunchedRow],
) -> Option<(Vec<&'l LaunchedRow>, DurationNs)> {
    // Copies block for reasons of their own.
    let is_kernel = |entry: &&LaunchedRow| device.rows.kind[entry.row.index()] == RowKind::Kernel;
    let kernels: Vec<&LaunchedRow> = launched.iter().filter(is_kernel).collect();
    let durations = kernels.iter();
    let durations = durations.map(|entry| device.calls.duration[entry.call.index()]);
    let mut durations: Vec<DurationNs> = durations.collect();
    // Most calls of a program can block, so that the median would be that of blocked ones.
    let tenth = durations.len() / 10;
    if durations.is_empty() {
        return None;
    }
    let (_, usual, _) = durations.select_nth_unstable(tenth);
    let usual = *usual;
    Some((kernels, usual))
}

/// The same where calls block for a short time, or few do: those that find the queue full return a
/// constant time after the start of the launch that makes room.
fn constant_full_queue(
    device: &DeviceTrace,
    queue: QueueIdx,
    lane: &[RowIdx],
    launched: &[LaunchedRow],
) -> Option<FullQueue> {
    let (kernels, usual) = kernels_and_usual(device, launched)?;
    let duration = |entry: &LaunchedRow| device.calls.duration[entry.call.index()];
    let mut depths = likely_depths(&kernels).into_iter();
    depths.find_map(|depth| {
        let mut slower: Vec<&LaunchedRow> = kernels.clone();
        slower.retain(|entry| entry.pending >= depth && duration(entry) >= usual + SLOWER);
        is_held_up(device, lane, (depth, usual), &slower).then(|| FullQueue {
            queue,
            depth,
            blocked: slower.iter().map(|entry| entry.call).collect(),
            usual,
        })
    })
}

/// Whether calls return as those do that wait for the launch `depth` places before to start.
fn is_held_up(
    device: &DeviceTrace,
    lane: &[RowIdx],
    (depth, usual): (usize, DurationNs),
    calls: &[&LaunchedRow],
) -> bool {
    let mut returns: Vec<DurationNs> = vec![];
    let (mut shortest, mut longest) = (DurationNs(i64::MAX), DurationNs(0));
    for entry in calls {
        let (call, Some(place)) = (entry.call.index(), entry.place.checked_sub(depth)) else {
            continue;
        };
        let duration = device.calls.duration[call];
        let started = device.rows.start[lane[place].index()];
        returns.push(device.calls.start[call] + duration - started);
        (shortest, longest) = (shortest.min(duration), longest.max(duration));
    }
    // Calls of all lengths do not end so by chance.
    let differ = longest.0 - shortest.0.min(longest.0) >= FEW_DIFFER.0;
    let least = if differ {
        LEAST_CONSTANT
    } else {
        LEAST_BLOCKED
    };
    if returns.len() < least {
        return false;
    }
    let half = returns.len() / 2;
    let (_, constant, _) = returns.select_nth_unstable(half);
    let constant = *constant;
    let is_constant = |time: &&DurationNs| (time.0 - constant.0).abs() <= CONSTANT.0;
    let others = returns.len() - returns.iter().filter(is_constant).count();
    // Once there is room a call takes no longer than one that has found it.
    let goes_on = -CLOCK_TOLERANCE.0..=usual.0 + CLOCK_TOLERANCE.0;
    goes_on.contains(&constant.0) && others <= returns.len() / UNBLOCKED_PART
}

/// How many launches can be all that fit, most first: several calls found so many pending, and
/// hardly any more.
fn likely_depths(kernels: &[&LaunchedRow]) -> Vec<usize> {
    let mut pending: Vec<usize> = kernels.iter().map(|entry| entry.pending).collect();
    pending.sort_unstable();
    let (mut depths, mut beyond) = (vec![], 0);
    for same in pending.chunk_by(|one, other| one == other).rev() {
        if same[0] >= LEAST_DEPTH
            && same.len() >= LEAST_CONSTANT
            && beyond <= same.len() / UNBLOCKED_PART
        {
            depths.push(same[0]);
        }
        beyond += same.len();
    }
    depths
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
