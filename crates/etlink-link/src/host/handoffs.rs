//! Finds work that one thread hands to another and waits for: the autograd engine. For collectives
//! see [`super::pending`].
//!
//! ```text
//! producer    forward  ____A   . . . . . . . . .  B____ optimizer
//! consumer                  |== backward ops ==|
//! ```
//! The producer's gap is split at the consumer's start and end; between the two it waits. The
//! consumer's ops belong to the producer if their `Fwd thread id` and `Sequence number`
//! (`RecordFunction::forwardThreadId`) match its forward ops. Without these, their names decide,
//! provided only one thread has a gap around them. In both cases, nothing may begin or end on the
//! producer meanwhile. O(n log n).

use crate::host::Handoff;
use crate::host::pending::{CarriedOut, pending_collectives};
use crate::host::reducer::{Rest, add_reducer_waits};
use crate::host::scope::is_scope;
use crate::limits::{USUAL_WAKE, WAKE_LATENCY};
use crate::search::{Groups, seek};
use etlink_model::{CallIdx, DeviceTrace, OpIdx, ThreadIdx, TimeNs, TrackLabel};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Number of a consumer's latest handoffs that are searched for one containing an op.
const LATEST: usize = 8;

/// Finds all handoffs, by consumer and time, and those to workers that communicate.
pub(crate) fn handoffs(device: &DeviceTrace) -> (Vec<Handoff>, Vec<CarriedOut>) {
    let evidence = evidence(device);
    let mut carried_out = pending_collectives(device);
    let mut collectives: Vec<Handoff> = vec![];
    collectives.extend(carried_out.iter().map(|one| one.handoff));
    // Idle intervals cost a sort of all ranges; most traces (backward on the calling thread, NCCL)
    // need none.
    let has_unrecorded_waits = collectives.iter().any(|handoff| handoff.wait.is_none());
    let intervals = if evidence.is_empty() && !has_unrecorded_waits {
        vec![]
    } else {
        idle_intervals(device)
    };
    let mut found = engine_handoffs(device, evidence, &intervals);
    // Knowledge of the reducer takes precedence over mere times.
    add_reducer_waits(device, &mut collectives, |thread, from, until| {
        let of_thread = intervals.get(thread.index());
        of_thread.map_or(vec![], |of_thread| of_thread.rests_within(from, until))
    });
    infer_waits(&mut collectives, &intervals);
    for (one, handoff) in carried_out.iter_mut().zip(&collectives) {
        one.handoff = *handoff;
    }
    found.extend(collectives);
    found.sort_by_key(|handoff| (handoff.consumer, handoff.start, handoff.end));
    // Nested ops find the same period of a consumer's work several times.
    found.dedup_by_key(|handoff| (handoff.consumer, handoff.start));
    (found, carried_out)
}

/// Returns the idle intervals of each thread.
fn idle_intervals(device: &DeviceTrace) -> Vec<IdleIntervals> {
    let threads = device.threads.len();
    let ops = Groups::<ThreadIdx, OpIdx>::new(&device.ops.thread, threads);
    let calls = Groups::<ThreadIdx, CallIdx>::new(&device.calls.thread, threads);
    let threads = (0..threads).into_par_iter().map(ThreadIdx::new);
    let intervals =
        threads.map(|thread| IdleIntervals::new(device, ops.rows(thread), calls.rows(thread)));
    intervals.collect()
}

/// Finds the work of the autograd engine.
fn engine_handoffs(
    device: &DeviceTrace,
    evidence: Vec<Evidence>,
    intervals: &[IdleIntervals],
) -> Vec<Handoff> {
    let ops = &device.ops;
    let mut quiet_threads = None;
    let mut found: Vec<Handoff> = vec![];
    for Evidence { op, producer } in evidence {
        let (start, end) = (ops.start[op], ops.start[op] + ops.duration[op]);
        let consumer = ops.thread[op];
        // A backward pass has thousands of ops in one handoff, and `found` is nearly sorted by
        // time.
        let mut latest = found.iter().rev().take(LATEST);
        if latest.any(|known| known.holds(consumer, start, end)) {
            continue;
        }
        let inferred = producer.is_none();
        let producer = producer.or_else(|| {
            let quiet = quiet_threads.get_or_insert_with(|| QuietThreads::new(device, intervals));
            quiet.only_one_around(consumer, start, end)
        });
        let Some(producer) = producer else { continue };
        // A producer on which something begins or ends meanwhile does not wait: `backward()` blocks
        // its caller (`Engine::execute` waits for its future).
        let Some(quiet) = intervals[producer.index()].quiet_around(start, end) else {
            continue;
        };
        let Some((start, end, idle)) = intervals[consumer.index()].busy_within(quiet) else {
            continue;
        };
        if start < end {
            // A sleeping consumer wakes some time after it received the work.
            let slept = idle.is_none_or(|idle| idle < start);
            let given = if slept {
                start.shifted(-USUAL_WAKE.0).max(quiet.0)
            } else {
                start
            };
            found.push(Handoff {
                producer,
                consumer,
                start,
                end,
                ended_late: false,
                idle,
                given,
                wait: Some(given),
                woken: (end + USUAL_WAKE).min(quiet.1),
                inferred,
            });
        }
    }
    found
}

/// Infers waits for producers without a recorded wait: a producer waited for everything that ended
/// during its rest, if it continued soon after the last of these ended.
fn infer_waits(handoffs: &mut [Handoff], intervals: &[IdleIntervals]) {
    let mut waits: FxHashSet<(ThreadIdx, TimeNs)> = FxHashSet::default();
    for handoff in handoffs.iter() {
        if let Some((from, until)) = unrecorded_rest(handoff, intervals)
            && until - handoff.end <= WAKE_LATENCY
        {
            waits.insert((handoff.producer, from));
        }
    }
    for handoff in handoffs {
        if let Some((from, until)) = unrecorded_rest(handoff, intervals)
            && waits.contains(&(handoff.producer, from))
        {
            handoff.set_sleep(from, until);
        }
    }
}

/// Returns the rest of the producer around the end of a handoff; `None` if a wait is recorded.
fn unrecorded_rest(handoff: &Handoff, intervals: &[IdleIntervals]) -> Option<(TimeNs, TimeNs)> {
    if handoff.wait.is_some() {
        return None;
    }
    let producer = intervals.get(handoff.producer.index())?;
    producer.rest_around(handoff.end)
}

/// An op that runs for another thread, with that thread if its numbers name it.
struct Evidence {
    op: usize,
    producer: Option<ThreadIdx>,
}

/// True if an op names its forward op.
fn is_backward(device: &DeviceTrace, op: usize) -> bool {
    device.ops.fwd_thread[op] != 0 && device.ops.seq_id[op] >= 0
}

/// Key that connects a backward op to its forward op. Each process has its own numbers.
fn forward_key(device: &DeviceTrace, op: usize) -> (TrackLabel, i64) {
    let thread = device.ops.thread[op];
    (device.threads[thread.index()].pid, device.ops.seq_id[op])
}

/// Finds ops of the autograd engine, in order of time.
fn evidence(device: &DeviceTrace) -> Vec<Evidence> {
    let ops = &device.ops;
    // PyTorch records a backward op with the number and thread of its forward op
    // (`Node::operator()`).
    let numbered = (0..ops.len()).any(|op| is_backward(device, op));
    let mut forward: FxHashMap<(TrackLabel, i64), ThreadIdx> = FxHashMap::default();
    if numbered {
        for op in 0..ops.len() {
            // The first op with a number is enough: nested ops of the same thread share it.
            if ops.fwd_thread[op] == 0 && ops.seq_id[op] >= 0 {
                forward
                    .entry(forward_key(device, op))
                    .or_insert(ops.thread[op]);
            }
        }
    }
    // few names, many ops
    let mut engine = vec![None; device.names.count()];
    let mut by_engine = |op: usize| {
        let name = ops.name[op];
        *engine[name.index()].get_or_insert_with(|| {
            let name = device.names.get(name);
            name.starts_with("autograd::engine::evaluate_function")
        })
    };
    let mut found = vec![];
    for op in 0..ops.len() {
        if is_backward(device, op) {
            if let Some(&producer) = forward.get(&forward_key(device, op))
                // On CPU, the backward pass runs on the thread that called `backward()`: nothing is
                // handed over.
                && producer != ops.thread[op]
            {
                let producer = Some(producer);
                found.push(Evidence { op, producer });
            }
        // Without numbers, only the names of the engine's ranges are available.
        } else if !numbered && by_engine(op) {
            let producer = None;
            found.push(Evidence { op, producer });
        }
    }
    found
}

/// Threads of each process on which nothing currently begins or ends, by the end of that quiet
/// time.
///
/// Queries come in order of time: each begin and end on a thread is visited once, so all queries
/// together take O((begins + ends + queries) log threads), however many threads there are.
struct QuietThreads<'i> {
    intervals: &'i [IdleIntervals],
    /// Number of each thread's process.
    process: Vec<u32>,
    /// End of each thread's quiet time, per process.
    quiet: Vec<BTreeSet<(TimeNs, ThreadIdx)>>,
    /// Next begin or end of each thread, with its index in the thread's times.
    next: BinaryHeap<Reverse<(TimeNs, ThreadIdx, usize)>>,
    /// End of each thread's quiet time; `None` if it is not quiet.
    until: Vec<Option<TimeNs>>,
}

impl<'i> QuietThreads<'i> {
    fn new(device: &DeviceTrace, intervals: &'i [IdleIntervals]) -> QuietThreads<'i> {
        let mut numbers: FxHashMap<TrackLabel, u32> = FxHashMap::default();
        let mut process = Vec::with_capacity(device.threads.len());
        for thread in &device.threads {
            let next = numbers.len() as u32;
            process.push(*numbers.entry(thread.pid).or_insert(next));
        }
        let mut next = BinaryHeap::new();
        for (at, of_thread) in intervals.iter().enumerate() {
            if let Some(first) = of_thread.time.first() {
                next.push(Reverse((*first, ThreadIdx::new(at), 0)));
            }
        }
        QuietThreads {
            intervals,
            process,
            quiet: vec![BTreeSet::new(); numbers.len()],
            next,
            until: vec![None; intervals.len()],
        }
    }

    /// Returns the only other thread of `consumer`'s process on which nothing begins or ends from
    /// `start` to `end`. `start` must not decrease between queries.
    fn only_one_around(
        &mut self,
        consumer: ThreadIdx,
        start: TimeNs,
        end: TimeNs,
    ) -> Option<ThreadIdx> {
        self.advance(start);
        // In a merged trace, threads of other processes do not wait for this one.
        let quiet = &self.quiet[self.process[consumer.index()] as usize];
        let long_enough = quiet.range((end, ThreadIdx(0))..);
        let threads = long_enough.map(|(_, thread)| *thread);
        let mut others = threads.filter(|thread| *thread != consumer);
        let only = others.next()?;
        others.next().is_none().then_some(only)
    }

    /// Processes all begins and ends up to `time`.
    fn advance(&mut self, time: TimeNs) {
        while let Some(&Reverse((at, thread, place))) = self.next.peek() {
            if at > time {
                return;
            }
            self.next.pop();
            let quiet = &mut self.quiet[self.process[thread.index()] as usize];
            if let Some(until) = self.until[thread.index()].take() {
                quiet.remove(&(until, thread));
            }
            // before its first and after its last range, nothing shows that a thread rests
            if let Some(&until) = self.intervals[thread.index()].time.get(place + 1) {
                quiet.insert((until, thread));
                self.until[thread.index()] = Some(until);
                self.next.push(Reverse((until, thread, place + 1)));
            }
        }
    }
}

/// Times at which something begins or ends on a thread. For each, the index of the time since which
/// nothing has run, scopes aside; `None` if something runs.
struct IdleIntervals {
    time: Vec<TimeNs>,
    idle: Vec<Option<usize>>,
}

impl IdleIntervals {
    fn new(device: &DeviceTrace, ops: &[OpIdx], calls: &[CallIdx]) -> IdleIntervals {
        let mut ends: Vec<(TimeNs, bool, i32)> = Vec::with_capacity(2 * (ops.len() + calls.len()));
        for op in ops {
            let start = device.ops.start[op.index()];
            // A scope such as `ProfilerStep#7` surrounds everything: with it, no thread would ever
            // be idle.
            let counts = i32::from(!is_scope(device, *op));
            ends.push((start, true, counts));
            ends.push((start + device.ops.duration[op.index()], false, -counts));
        }
        for call in calls {
            let start = device.calls.start[call.index()];
            ends.push((start, true, 1));
            ends.push((start + device.calls.duration[call.index()], false, -1));
        }
        // ends come before begins at the same time
        ends.par_sort_unstable();
        let mut intervals = IdleIntervals {
            time: Vec::with_capacity(ends.len()),
            idle: Vec::with_capacity(ends.len()),
        };
        let (mut depth, mut idle) = (0i32, None);
        for (time, _, change) in ends {
            depth += change;
            if depth <= 0 {
                idle = Some(intervals.time.len());
            }
            intervals.time.push(time);
            intervals.idle.push(idle);
        }
        intervals
    }

    /// Returns the interval around `start..end` in which nothing begins or ends; `None` unless
    /// there is something before and after it.
    fn quiet_around(&self, start: TimeNs, end: TimeNs) -> Option<(TimeNs, TimeNs)> {
        let after = self.time.partition_point(|time| *time <= start);
        let before = self.time[after.checked_sub(1)?];
        let next = *self.time.get(after)?;
        (end <= next).then_some((before, next))
    }

    /// Returns the interval around `time` in which the thread, scopes aside, does nothing.
    fn rest_around(&self, time: TimeNs) -> Option<(TimeNs, TimeNs)> {
        let after = self.time.partition_point(|other| *other <= time);
        let before = after.checked_sub(1)?;
        let rest = (self.time[before], *self.time.get(after)?);
        (self.idle[before] == Some(before)).then_some(rest)
    }

    /// Returns the intervals in which the thread, scopes aside, does nothing: from the one open at
    /// `from` to the last that begins before `until`.
    fn rests_within(&self, from: TimeNs, until: TimeNs) -> Vec<Rest> {
        let after = self.time.partition_point(|time| *time <= from);
        let mut rests = vec![];
        for (place, times) in self.time.windows(2).enumerate().skip(after.max(1) - 1) {
            let rest = (times[0], times[1]);
            if rest.0 >= until {
                break;
            }
            if rest.0 < rest.1 && self.idle[place] == Some(place) {
                rests.push(rest);
            }
        }
        rests
    }

    /// Returns the start and end of the thread's work within an interval, and the end of its work
    /// before. `None` unless the thread is idle at the interval's start.
    fn busy_within(
        &self,
        (from, until): (TimeNs, TimeNs),
    ) -> Option<(TimeNs, TimeNs, Option<TimeNs>)> {
        let first = self.time.partition_point(|time| *time < from);
        let after = seek(&self.time, first, |time| *time <= until);
        let last = self.idle[after.checked_sub(1)?]?;
        let before = first.checked_sub(1);
        let is_idle = before.is_none_or(|before| self.idle[before] == Some(before));
        if !is_idle || last <= first {
            return None;
        }
        let idle = before.map(|before| self.time[before]);
        Some((self.time[first], self.time[last], idle))
    }
}
