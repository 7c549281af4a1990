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
//! kernels it is gone. How many fit is not written anywhere, but calls that block show it: about so
//! many rows were pending when they began. The count varies by a few, with what is in the queue and no
//! row. What tells a full queue from other reasons is the end: a call that has blocked returns a
//! constant time after a launch about so many places before it has started. That holds whatever the
//! device's clock shows, so that it bounds the clock as well. Where no call has blocked, nothing is
//! assumed.

use crate::device::CallWait;
use crate::device::lanes::Lanes;
use crate::device::launch::Launches;
use crate::device::{call_end, row_end};
use crate::limits::{CLOCK_TOLERANCE, ends_before};
use etlink_model::{CallIdx, DeviceTrace, DurationNs, QueueIdx, RowIdx, RowKind, TimeNs};
use rustc_hash::FxHashSet;

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

/// The rows that are pending when calls block can be fewer by about this: what is in the queue and no
/// row, and what two clocks make of the time of the count.
const VARIES: usize = 8;

/// Of the calls that find the queue full, one in so many may return at once: the clocks of host and
/// device differ a little.
const UNBLOCKED_PART: usize = 4;

/// The first row of a call, with what was launched before it to its queue.
#[derive(Clone, Copy)]
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
        let launches = QueueLaunches::new(device, launches, lanes, queue);
        let Some(held_up) = launches.held_up(queue) else {
            continue;
        };
        // Once there is room a call takes no longer than one that has found it.
        let most = held_up.full.usual + CLOCK_TOLERANCE;
        let goes_on = |returns: &&DurationNs| (-CLOCK_TOLERANCE.0..=most.0).contains(&returns.0);
        if let Some(returns) = held_up.returns.iter().find(goes_on) {
            launches.add_waits(&held_up, *returns, &mut waits);
            full_queues.push(held_up.full);
        }
    }
    (full_queues, waits)
}

/// A call that returned, by the host's clock, about when a row started, by the device's.
pub(crate) struct QueueReturn {
    pub(crate) queue: QueueIdx,
    /// The start of the row.
    pub(crate) started: TimeNs,
    /// The return of the call: no earlier than the start.
    pub(crate) returned: TimeNs,
    /// And no later than by this.
    pub(crate) within: DurationNs,
}

/// What calls that were held up by a full queue show of the device's clock. O(rows log rows).
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
        // Behind kernels of one length calls return as constantly after the row before or after the
        // one that made room, and show nothing of the clock.
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

/// The launches to a queue.
struct QueueLaunches<'t> {
    device: &'t DeviceTrace,
    /// First rows of launches, in order.
    lane: Vec<RowIdx>,
    /// Those whose call is known.
    launched: Vec<LaunchedRow>,
}

/// How a full queue holds calls up.
struct HeldUp {
    full: FullQueue,
    /// The calls that blocked.
    entries: Vec<LaunchedRow>,
    /// From the start of a launch near the one that makes room to the return of a call, by the two
    /// clocks: all times that are constant, ascending.
    returns: Vec<DurationNs>,
}

impl<'t> QueueLaunches<'t> {
    fn new(
        device: &'t DeviceTrace,
        launches: &Launches,
        lanes: &Lanes,
        queue: QueueIdx,
    ) -> QueueLaunches<'t> {
        // A graph launch has many rows, and is one launch.
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

    /// How many launches the queue holds, and which calls have blocked on that, if any have. Among
    /// long calls most show it; else all that took longer than usual, where the most were pending.
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

    /// The launches of kernels, and how long one takes that finds room. `None` of a queue without any
    /// launch that is known: there is nothing to learn.
    fn kernels_and_usual(&self) -> Option<(Vec<LaunchedRow>, DurationNs)> {
        let kinds = &self.device.rows.kind;
        // Copies block for reasons of their own.
        let is_kernel = |entry: &&LaunchedRow| kinds[entry.row.index()] == RowKind::Kernel;
        let kernels: Vec<LaunchedRow> = self.launched.iter().filter(is_kernel).copied().collect();
        let durations = kernels.iter().map(|entry| self.duration(entry));
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

    fn start(&self, place: usize) -> TimeNs {
        self.device.rows.start[self.lane[place].index()]
    }

    /// From the start of the row at a place to the return of a call, by the two clocks.
    fn since_start(&self, entry: &LaunchedRow, place: usize) -> DurationNs {
        DurationNs(call_end(self.device, entry.call).since(self.start(place)))
    }

    /// Places of the launches that can have made room for a call.
    fn places(&self, entry: &LaunchedRow) -> std::ops::RangeInclusive<usize> {
        let next = entry.place.saturating_sub(entry.pending);
        next.saturating_sub(VARIES)..=(next + VARIES).min(entry.place.saturating_sub(1))
    }

    /// The place of the launch that made room for a call, which returned this long after it.
    fn room_for(&self, entry: &LaunchedRow, returns: DurationNs) -> Option<usize> {
        let off = |place: &usize| (self.since_start(entry, *place).0 - returns.0).abs();
        let nearest = self.places(entry).min_by_key(off);
        nearest.filter(|place| off(place) <= CONSTANT.0)
    }

    /// How long after the start of a launch near the one that makes room calls return, where most of
    /// them do so alike. O(calls log calls).
    fn constant_returns(&self, calls: &[LaunchedRow]) -> Vec<DurationNs> {
        let durations = calls.iter().map(|entry| self.duration(entry));
        let (shortest, longest) = (durations.clone().min(), durations.max());
        // Calls of all lengths do not end so by chance.
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
                // What is left of this one is no other.
                first = last;
            } else {
                first += 1;
            }
        }
        found
    }

    /// A call returns when the launch that makes room starts: when the row before that one has ended.
    /// For calls that found room that is the launch `depth` places before.
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
            // Counts vary: a call that was not held up may have found room anyway.
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

/// The count of pending rows that most calls found, of equal ones the greatest.
fn most_common(calls: &[LaunchedRow]) -> Option<usize> {
    let mut pending: Vec<usize> = calls.iter().map(|entry| entry.pending).collect();
    pending.sort_unstable();
    let same = pending.chunk_by(|one, other| one == other);
    same.max_by_key(|same| same.len()).map(|same| same[0])
}

/// How many launches can be all that fit, most first: several calls found so many pending, and
/// hardly any more.
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
