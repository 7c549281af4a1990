//! Finds launch calls that block because the queue of launches is full.
//!
//! ```text
//! thread    launch launch launch ---------| launch ---------|
//! stream    ===A===|===B===|===C===|===D===|===E===
//!                          C starts: one launch less waits, and the call returns
//! ```
//! A queue holds a bounded number of launches that have not started: with CUDA 1,024 per context,
//! which most programs fill by one stream. So it is counted per stream. A call that would exceed
//! the bound returns when the oldest of these launches starts. That time is no work of the host:
//! with faster kernels it disappears. The bound is not recorded, but calls that block reveal it:
//! about as many rows were pending when they began. The count varies by a few, since the queue also
//! holds entries without a row. A full queue is recognised by the calls' ends: a blocked call
//! returns a constant time after the start of a launch about that many places earlier. This holds
//! whatever the device's clock shows, so it also bounds the clock. If no call has blocked, nothing
//! is assumed.

use crate::device::CallWait;
use crate::device::lanes::Lanes;
use crate::device::launch::Launches;
use crate::device::{call_end, row_end};
use crate::limits::{CLOCK_TOLERANCE, ends_before};
use etlink_model::{CallIdx, DeviceTrace, DurationNs, QueueIdx, RowIdx, RowKind, TimeNs};
use rustc_hash::FxHashSet;

/// Minimum number of blocked calls to show a bound: fewer may have blocked for another reason.
const LEAST_BLOCKED: usize = 8;

/// Minimum number of launches in a queue for it to block calls.
const LEAST_DEPTH: usize = 16;

/// Factor and margin by which a call must exceed the usual launch time to count as blocked.
const BLOCKED_FACTOR: i64 = 2;
const BLOCKED_MARGIN: DurationNs = DurationNs(3_000);

/// Minimum number of calls that return a constant time after the launch that makes room, if their
/// durations differ by at least the time below.
const LEAST_CONSTANT: usize = 3;
const FEW_DIFFER: DurationNs = DurationNs(10_000);

/// Minimum excess over a usual call's duration for a call to be evidence about the queue.
const SLOWER: DurationNs = DurationNs(500);

/// Tolerance of constant times: calls differ by little once they continue.
const CONSTANT: DurationNs = DurationNs(1_000);

/// Variation of the number of pending rows when calls block, due to queue entries without a row and
/// to the two clocks.
const VARIES: usize = 8;

/// One in this many of the calls that find the queue full may return at once: the clocks of host
/// and device differ a little.
const UNBLOCKED_PART: usize = 4;

/// First row of a call, with the rows launched before it to its queue.
#[derive(Clone, Copy)]
struct LaunchedRow {
    place: usize,
    call: CallIdx,
    row: RowIdx,
    /// Number of the queue's rows that had been launched but not started when the call began.
    pending: usize,
}

/// A queue that blocked launch calls because it was full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FullQueue {
    /// Queue that was full.
    pub queue: QueueIdx,
    /// Number of launches that it holds before they start.
    pub depth: usize,
    /// Calls that found it full and took longer than usual launches, in order of their rows.
    pub blocked: Vec<CallIdx>,
    /// Usual duration of a launch that finds room, ns.
    pub usual: DurationNs,
}

/// A call's wait for the start of an earlier launch.
pub(crate) struct QueueWait {
    /// Wait for the row before that launch's row.
    pub(crate) wait: CallWait,
    /// Start of that launch's row.
    pub(crate) started: TimeNs,
}

/// Finds queues that have been full, and the calls that wait for one. O(rows log rows).
pub(crate) fn full_queue_waits(
    device: &DeviceTrace,
    launches: &Launches,
    lanes: &Lanes,
) -> (Vec<FullQueue>, Vec<QueueWait>) {
    let (mut full_queues, mut waits) = (vec![], vec![]);
    for queue in (0..device.queues.len()).map(QueueIdx::new) {
        let launches = QueueLaunches::new(device, launches, lanes, queue);
        let Some(held_up) = launches.held_up(queue) else {
            continue;
        };
        // Once there is room, a call takes no longer than one that found room.
        let most = held_up.full.usual + CLOCK_TOLERANCE;
        let goes_on = |returns: &&DurationNs| (-CLOCK_TOLERANCE.0..=most.0).contains(&returns.0);
        if let Some(returns) = held_up.returns.iter().find(goes_on) {
            launches.add_waits(&held_up, *returns, &mut waits);
            full_queues.push(held_up.full);
        }
    }
    (full_queues, waits)
}

/// A call that returned, by the host's clock, shortly after a row's start, by the device's clock.
pub(crate) struct QueueReturn {
    pub(crate) queue: QueueIdx,
    /// Start of the row.
    pub(crate) started: TimeNs,
    /// Return of the call: no earlier than the start.
    pub(crate) returned: TimeNs,
    /// Maximum time from the start to the return.
    pub(crate) within: DurationNs,
}

/// Returns bounds on the device's clock from calls that a full queue delayed. O(rows log rows).
pub(crate) fn queue_returns(
    device: &DeviceTrace,
    launches: &Launches,
    lanes: &Lanes,
) -> Vec<QueueReturn> {
    let mut found = vec![];
    for queue in (0..device.queues.len()).map(QueueIdx::new) {
        let launches = QueueLaunches::new(device, launches, lanes, queue);
        let Some(held_up) = launches.held_up(queue) else {
            continue;
        };
        // If kernels have equal durations, calls return just as constantly after the row before or
        // after the one that made room, and show nothing about the clock.
        let [returns] = held_up.returns[..] else {
            continue;
        };
        for entry in &held_up.entries {
            let place = launches.room_for(entry, returns);
            found.extend(place.map(|place| QueueReturn {
                queue,
                started: launches.start(place),
                returned: call_end(device, entry.call),
                within: held_up.full.usual,
            }));
        }
    }
    found
}

/// Launches to a queue.
struct QueueLaunches<'t> {
    device: &'t DeviceTrace,
    /// First rows of launches, in order.
    lane: Vec<RowIdx>,
    /// Launches with a known call.
    launched: Vec<LaunchedRow>,
}

/// Evidence of a full queue that delays calls.
struct HeldUp {
    full: FullQueue,
    /// Calls that blocked.
    entries: Vec<LaunchedRow>,
    /// All constant times, ascending, from the start of a launch near the one that makes room to
    /// the return of a call, by the two clocks.
    returns: Vec<DurationNs>,
}

impl<'t> QueueLaunches<'t> {
    fn new(
        device: &'t DeviceTrace,
        launches: &Launches,
        lanes: &Lanes,
        queue: QueueIdx,
    ) -> QueueLaunches<'t> {
        // A graph launch has many rows, but is one launch.
        let call = |row: RowIdx| launches.row_call[row.index()].get();
        let mut lane = lanes.lane(queue).to_vec();
        lane.dedup_by(|next, row| call(*next).is_some() && call(*next) == call(*row));
        let launched = if lane.len() > LEAST_DEPTH {
            launched_rows(device, launches, &lane)
        } else {
            vec![]
        };
        QueueLaunches {
            device,
            lane,
            launched,
        }
    }

    fn duration(&self, entry: &LaunchedRow) -> DurationNs {
        self.device.calls.duration[entry.call.index()]
    }

    /// Returns the number of launches that the queue holds, and the calls that blocked on it;
    /// `None` if none did. Long calls usually show it; otherwise, all calls that took longer than
    /// usual while the most were pending.
    fn held_up(&self, queue: QueueIdx) -> Option<HeldUp> {
        let (mut kernels, usual) = self.kernels_and_usual()?;
        kernels.retain(|entry| entry.pending >= LEAST_DEPTH);
        let found = |calls: Vec<LaunchedRow>, depth: usize| {
            let returns = self.constant_returns(&calls);
            let full = FullQueue {
                queue,
                depth,
                blocked: calls.iter().map(|entry| entry.call).collect(),
                usual,
            };
            let is_constant = !returns.is_empty();
            is_constant.then_some(HeldUp {
                full,
                entries: calls,
                returns,
            })
        };
        let least = DurationNs(usual.0.saturating_mul(BLOCKED_FACTOR)) + BLOCKED_MARGIN;
        let mut long = kernels.clone();
        long.retain(|entry| self.duration(entry) >= least);
        let by_long = most_common(&long).and_then(|depth| {
            long.retain(|entry| entry.pending.abs_diff(depth) <= VARIES);
            found(long, depth)
        });
        by_long.or_else(|| {
            likely_depths(&kernels).into_iter().find_map(|depth| {
                let mut slower = kernels.clone();
                let is_slower = |entry: &LaunchedRow| self.duration(entry) >= usual + SLOWER;
                slower.retain(|entry| entry.pending >= depth && is_slower(entry));
                found(slower, depth)
            })
        })
    }

    /// Returns the kernel launches, and the duration of one that finds room. `None` for a queue
    /// without any known launch.
    fn kernels_and_usual(&self) -> Option<(Vec<LaunchedRow>, DurationNs)> {
        let kinds = &self.device.rows.kind;
        // Copies block for other reasons.
        let is_kernel = |entry: &&LaunchedRow| kinds[entry.row.index()] == RowKind::Kernel;
        let kernels: Vec<LaunchedRow> = self.launched.iter().filter(is_kernel).copied().collect();
        let durations = kernels.iter().map(|entry| self.duration(entry));
        let mut durations: Vec<DurationNs> = durations.collect();
        // Most calls of a program may block, so the median could be that of blocked calls.
        let tenth = durations.len() / 10;
        if durations.is_empty() {
            return None;
        }
        let (_, usual, _) = durations.select_nth_unstable(tenth);
        let usual = *usual;
        Some((kernels, usual))
    }

    fn start(&self, place: usize) -> TimeNs {
        self.device.rows.start[self.lane[place].index()]
    }

    /// Time from the start of the row at a place to the return of a call, by the two clocks.
    fn since_start(&self, entry: &LaunchedRow, place: usize) -> DurationNs {
        DurationNs(call_end(self.device, entry.call).since(self.start(place)))
    }

    /// Returns the places of launches that may have made room for a call.
    fn places(&self, entry: &LaunchedRow) -> std::ops::RangeInclusive<usize> {
        let next = entry.place.saturating_sub(entry.pending);
        next.saturating_sub(VARIES)..=(next + VARIES).min(entry.place.saturating_sub(1))
    }

    /// Returns the place of the launch that made room for a call that returned this long after it.
    fn room_for(&self, entry: &LaunchedRow, returns: DurationNs) -> Option<usize> {
        let off = |place: &usize| (self.since_start(entry, *place).0 - returns.0).abs();
        let nearest = self.places(entry).min_by_key(off);
        nearest.filter(|place| off(place) <= CONSTANT.0)
    }

    /// Returns the times from the start of a launch near the one that makes room to the return of
    /// calls, if they are equal for most calls. O(calls log calls).
    fn constant_returns(&self, calls: &[LaunchedRow]) -> Vec<DurationNs> {
        let durations = calls.iter().map(|entry| self.duration(entry));
        let (shortest, longest) = (durations.clone().min(), durations.max());
        // Calls of different durations do not end like this by chance.
        let least = match longest.zip(shortest) {
            Some((longest, shortest)) if longest.0 - shortest.0 >= FEW_DIFFER.0 => LEAST_CONSTANT,
            _ => LEAST_BLOCKED,
        };
        let enough = least.max(calls.len() - calls.len() / UNBLOCKED_PART);
        let mut all: Vec<DurationNs> = vec![];
        for entry in calls {
            let places = self.places(entry);
            all.extend(places.map(|place| self.since_start(entry, place)));
        }
        all.sort_unstable();
        let (mut found, mut first) = (vec![], 0);
        while first < all.len() {
            let last = all.partition_point(|one| one.0 - all[first].0 <= 2 * CONSTANT.0);
            if last - first >= enough {
                found.push(all[first.midpoint(last)]);
                // The rest of this group is no other constant time.
                first = last;
            } else {
                first += 1;
            }
        }
        found
    }

    /// Adds the waits of calls. A call returns when the launch that makes room starts: when the row
    /// before that one has ended. For calls that found room, that launch is `depth` places earlier.
    fn add_waits(&self, held_up: &HeldUp, returns: DurationNs, waits: &mut Vec<QueueWait>) {
        let device = self.device;
        let blocked: FxHashSet<CallIdx> = held_up.full.blocked.iter().copied().collect();
        for entry in &self.launched {
            let has_blocked = blocked.contains(&entry.call);
            let room = if has_blocked {
                self.room_for(entry, returns)
            } else {
                entry.place.checked_sub(held_up.full.depth)
            };
            let Some(before) = room.and_then(|place| place.checked_sub(1)) else {
                continue;
            };
            let (from, next) = (self.lane[before], self.lane[before + 1]);
            let started = device.rows.start[next.index()];
            let ended = call_end(device, entry.call);
            // Counts vary: a call that was not delayed may have found room anyway.
            let is_exact = has_blocked || started <= ended;
            let can_wait = ends_before(row_end(device, from), ended)
                && ends_before(started, ended)
                && is_exact
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
}

/// Returns the rows of a queue with a known call, with the number of pending rows at that time.
fn launched_rows(device: &DeviceTrace, launches: &Launches, lane: &[RowIdx]) -> Vec<LaunchedRow> {
    let rows = &device.rows;
    let mut launched = vec![];
    for (place, row) in lane.iter().enumerate() {
        let Some(call) = launches.row_call[row.index()].get() else {
            continue;
        };
        let begun = device.calls.start[call.index()];
        // A stream runs its rows in the order of their launches, so starts ascend.
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

/// Returns the most common number of pending rows; of equals, the greatest.
fn most_common(calls: &[LaunchedRow]) -> Option<usize> {
    let mut pending: Vec<usize> = calls.iter().map(|entry| entry.pending).collect();
    pending.sort_unstable();
    let same = pending.chunk_by(|one, other| one == other);
    same.max_by_key(|same| same.len()).map(|same| same[0])
}

/// Returns possible capacities of the queue, largest first: several calls found that many pending,
/// and hardly any found more.
fn likely_depths(kernels: &[LaunchedRow]) -> Vec<usize> {
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
