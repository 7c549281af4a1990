//! Builds the op tree and the exclusive slices of each host thread.
//!
//! Kineto's ranges nest by time on one OS thread. One sweep over a thread's ranges, sorted by
//! start, gives each op its parent and each call its innermost op, and divides the thread's time
//! into slices: at any instant, the range that began last runs. Slices and gaps together cover the
//! time from the thread's first start to its last end, to the nanosecond, even if ranges overlap
//! without nesting (asynchronous ranges).
//!
//! O(n): the tables are sorted already. Threads are swept in parallel.

use crate::graph::draft::{Draft, SlotIdx, SlotRange, Track};
use crate::graph::kinds::NodeKind;
use crate::host::Handoff;
use crate::host::handoffs::handoffs;
use crate::host::pending::CarriedOut;
use crate::host::recorded_waits::{RecordedWait, lifetimes, recorded_waits};
use crate::host::scope::is_scope;
use crate::limits::{MAX_CLIMB, ROUNDING};
use crate::search::Groups;
use etlink_model::{
    Anomalies, AnomalyKind, CallIdx, DeviceTrace, DurationNs, OpIdx, PROFILER_STEP, ThreadIdx,
    TimeNs,
};
use rayon::prelude::*;
use std::cmp::Reverse;

/// Results of the sweeps.
#[derive(Debug, Default)]
pub(crate) struct Nesting {
    pub(crate) op_parent: Vec<OpIdx>,
    pub(crate) op_exclusive: Vec<DurationNs>,
    pub(crate) call_op: Vec<OpIdx>,
    /// Slot of each call's first slice.
    pub(crate) call_slot: Vec<SlotIdx>,
    /// Slices of all threads.
    pub(crate) draft: Draft,
    /// Work that threads handed to others and waited for.
    pub(crate) handoffs: Vec<Handoff>,
    /// Ranges of workers that communicate.
    pub(crate) carried_out: Vec<CarriedOut>,
    /// Recorded waits, and for each release among them the slot that ends with it.
    pub(crate) recorded: Vec<RecordedWait>,
    pub(crate) release_slot: Vec<Option<SlotIdx>>,
    /// Ranges that overlap another without nesting in it.
    pub(crate) overlaps: Anomalies,
}

/// Sweeps all threads, including their waits for each other.
pub(crate) fn nest(device: &DeviceTrace) -> Nesting {
    // Handoffs come first: the sweep splits slices where a thread hands over work or waits.
    let (handoffs, carried_out) = handoffs(device);
    let recorded = recorded_waits(device);
    let threads = device.threads.len();
    let waits = waits(threads, &handoffs, &recorded);
    let lifetimes = lifetimes(threads, &recorded);
    let ops = Groups::<ThreadIdx, OpIdx>::new(&device.ops.thread, threads);
    let calls = Groups::<ThreadIdx, CallIdx>::new(&device.calls.thread, threads);
    // a range or a wait makes at most one slice at its start and one at its end
    let slices = (0..threads).map(|thread| {
        let ranges = ops.rows(ThreadIdx::new(thread)).len();
        2 * (ranges + calls.rows(ThreadIdx::new(thread)).len() + waits[thread].len())
    });
    let mut draft = Draft::new(slices, device.rows.len());
    let tracks = draft.threads().into_par_iter().enumerate();
    let sweeps = tracks.map(|(number, track)| {
        let thread = ThreadIdx::new(number);
        let ranges = (ops.rows(thread), calls.rows(thread));
        let known = (&waits[number][..], lifetimes[number]);
        ThreadSweep::run(device, thread, ranges, known, track)
    });
    let swept: Vec<Swept> = sweeps.collect();
    let mut nesting = Nesting {
        op_parent: vec![OpIdx::NONE; device.ops.len()],
        op_exclusive: vec![DurationNs::default(); device.ops.len()],
        call_op: vec![OpIdx::NONE; device.calls.len()],
        call_slot: vec![SlotIdx::default(); device.calls.len()],
        draft,
        handoffs,
        carried_out,
        release_slot: vec![None; recorded.len()],
        recorded,
        ..Nesting::default()
    };
    for (thread, swept) in (0..).map(ThreadIdx).zip(swept) {
        for (&op, (parent, exclusive)) in ops.rows(thread).iter().zip(swept.ops) {
            nesting.op_parent[op.index()] = parent;
            nesting.op_exclusive[op.index()] = exclusive;
        }
        for (&call, (op, slot)) in calls.rows(thread).iter().zip(swept.calls) {
            nesting.call_op[call.index()] = op;
            nesting.call_slot[call.index()] = slot;
        }
        nesting.overlaps.merge(swept.overlaps);
        nesting.draft.tracks.push(swept.track);
        for (slot, waited) in swept.wait_gaps {
            nesting.draft.add_wait_gap(slot, waited);
        }
        for (wait, slot) in swept.releases {
            nesting.release_slot[wait] = Some(slot);
        }
    }
    nesting
}

/// A wait of a thread. Its length is 0 if it only splits a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaitSpan {
    thread: ThreadIdx,
    start: TimeNs,
    end: TimeNs,
    /// Recorded wait that is a release at this time.
    release: Option<usize>,
}

/// Lists the waits of each thread for others, sorted and without overlaps: of a producer for its
/// consumer, of a consumer for work. A producer that does not wait has a wait of length 0, which
/// splits its slice.
fn waits(threads: usize, handoffs: &[Handoff], recorded: &[RecordedWait]) -> Vec<Vec<WaitSpan>> {
    let mut all: Vec<(ThreadIdx, TimeNs, TimeNs)> = vec![];
    for handoff in handoffs {
        all.push((handoff.producer, handoff.given, handoff.given));
        all.extend(
            handoff
                .wait
                .filter(|from| *from < handoff.end)
                // Waking is latency, not work of the thread.
                .map(|from| (handoff.producer, from, handoff.woken)),
        );
        let cut = (handoff.consumer, handoff.end, handoff.end);
        all.extend(handoff.ended_late.then_some(cut));
        all.extend(
            handoff
                .idle
                .map(|idle| (handoff.consumer, idle, handoff.start)),
        );
    }
    let spans = all.into_iter().map(|(thread, start, end)| WaitSpan {
        thread,
        start,
        end,
        release: None,
    });
    let mut spans: Vec<WaitSpan> = spans.collect();
    for (place, wait) in recorded.iter().enumerate() {
        let &RecordedWait {
            thread, start, end, ..
        } = wait;
        spans.push(WaitSpan {
            thread,
            start,
            end,
            release: None,
        });
        // The release is at the end of the wait, not within the gap.
        spans.extend(wait.is_release.then_some(WaitSpan {
            thread,
            start: end,
            end,
            release: Some(place),
        }));
    }
    spans.sort_unstable();
    let mut waits: Vec<Vec<WaitSpan>> = vec![vec![]; threads];
    for span in spans {
        let of_thread = &mut waits[span.thread.index()];
        // Two consumers can work for one producer at the same time; it waits for both, once.
        match of_thread.last_mut().filter(|last| span.start < last.end) {
            Some(last) if span.release.is_none() => last.end = last.end.max(span.end),
            // Activity during a wait that the thread is already in ends with that wait.
            Some(last) => {
                let end = last.end;
                of_thread.push(WaitSpan {
                    start: end,
                    end,
                    ..span
                });
            }
            None => of_thread.push(span),
        }
    }
    waits
}

/// Results of the sweep over one thread.
#[derive(Default)]
struct Swept {
    /// Parent of each op of the thread, and the time in its slices.
    ops: Vec<(OpIdx, DurationNs)>,
    /// Innermost op around each call of the thread, and the slot of the call's first slice.
    calls: Vec<(OpIdx, SlotIdx)>,
    track: SlotRange,
    /// Slots that follow a wait, with its length.
    wait_gaps: Vec<(SlotIdx, DurationNs)>,
    /// Recorded waits that are releases, with the slot that ends then.
    releases: Vec<(usize, SlotIdx)>,
    overlaps: Anomalies,
}

/// A range that has begun but not ended.
#[derive(Clone, Copy)]
struct OpenRange {
    kind: NodeKind,
    /// Row in the table of ops or calls.
    source: u32,
    /// Index among the thread's ops or calls.
    number: u32,
    end: TimeNs,
    /// Innermost op here: the range itself, or the one below it on the stack.
    op: OpIdx,
    /// True if the range has a slice.
    sliced: bool,
}

/// Sort key of opening ranges: by start, longer ones first.
fn begins_by((start, duration): (TimeNs, DurationNs)) -> (TimeNs, Reverse<DurationNs>) {
    (start, Reverse(duration))
}

/// Sweep over one thread.
struct ThreadSweep<'d> {
    stack: Vec<OpenRange>,
    now: TimeNs,
    slices: Track<'d>,
    /// Waits to come.
    waits: &'d [WaitSpan],
    found: Swept,
}

impl ThreadSweep<'_> {
    fn run(
        device: &DeviceTrace,
        thread: ThreadIdx,
        (ops, calls): (&[OpIdx], &[CallIdx]),
        (waits, lifetime): (&[WaitSpan], Option<(TimeNs, TimeNs)>),
        slices: Track<'_>,
    ) -> Swept {
        let found = Swept {
            ops: Vec::with_capacity(ops.len()),
            calls: Vec::with_capacity(calls.len()),
            ..Swept::default()
        };
        let mut sweep = ThreadSweep {
            stack: vec![],
            now: TimeNs::default(),
            slices,
            waits,
            found,
        };
        let (mut ops, mut calls) = (ops.iter().peekable(), calls.iter().peekable());
        loop {
            let op = ops.peek().map(|op| {
                let op = op.index();
                (device.ops.start[op], device.ops.duration[op])
            });
            let call = calls.peek().map(|call| {
                let call = call.index();
                (device.calls.start[call], device.calls.duration[call])
            });
            // The longer first; an op before a call. Rounded to microseconds, a parent and its
            // first child often begin together. An op calls the runtime, and never the other way
            // around.
            let op_next =
                op.is_some_and(|op| call.is_none_or(|call| begins_by(op) <= begins_by(call)));
            let Some((start, duration)) = (if op_next { op } else { call }) else {
                break;
            };
            if sweep.found.ops.is_empty() && sweep.found.calls.is_empty() {
                // A thread may have waited before its first range.
                sweep.now = lifetime.map_or(start, |(first, _)| first.min(start));
            }
            sweep.advance(start);
            if let Some(&op) = ops.next_if(|_| op_next) {
                sweep.open_op(device, op, start + duration);
            } else if let Some(&call) = calls.next() {
                sweep.open_call(call, start + duration);
            }
        }
        // Ranges can overlap without nesting, so one below the top may have ended before it: time
        // must not go back.
        while let Some(top) = sweep.stack.last() {
            sweep.advance(top.end.max(sweep.now));
        }
        if let Some((first, last)) = lifetime {
            if sweep.found.ops.is_empty() && sweep.found.calls.is_empty() {
                sweep.now = first;
            }
            sweep.finish_waits(last);
        }
        Swept {
            track: sweep.slices.close(thread, sweep.now),
            ..sweep.found
        }
    }

    /// Advances to `until`, leaving out the waits on the way.
    fn advance(&mut self, until: TimeNs) {
        while let Some((&wait, rest)) = self
            .waits
            .split_first()
            // A release at the start of a range is not part of that range.
            .filter(|(wait, _)| {
                wait.start < until || (wait.release.is_some() && wait.start == until)
            })
        {
            self.waits = rest;
            self.wait(wait);
        }
        self.work(until);
    }

    /// Processes the remaining waits, up to the thread's last release.
    fn finish_waits(&mut self, last: TimeNs) {
        while let Some((&wait, rest)) = self
            .waits
            .split_first()
            .filter(|(wait, _)| wait.end <= last)
        {
            self.waits = rest;
            self.wait(wait);
        }
    }

    fn wait(&mut self, wait: WaitSpan) {
        let until = wait.start.max(self.now);
        self.work(until);
        if wait.end > until {
            let gap = (self.slices.next_slot(), wait.end - until);
            self.found.wait_gaps.push(gap);
            self.now = wait.end;
        }
        if let Some(release) = wait.release {
            let slot = self.instant();
            self.found.releases.push((release, slot));
        }
    }

    /// Adds a slice of length 0 for an event that others depend on.
    fn instant(&mut self) -> SlotIdx {
        let slot = self.slices.next_slot();
        match self.stack.last_mut() {
            Some(top) => {
                let open = *top;
                top.sliced = true;
                self.slice(open, self.now);
            }
            None => {
                self.slices
                    .push(NodeKind::HostGap, u32::MAX, true, self.now);
            }
        }
        slot
    }

    /// Advances to `until`, closing ranges that end on the way.
    fn work(&mut self, until: TimeNs) {
        while let Some(top) = self.stack.pop_if(|top| top.end <= until) {
            // A range of length 0, or one whose children take up all its time, still gets one
            // slice, so that each op is in the graph.
            if top.end > self.now || !top.sliced {
                self.slice(top, top.end);
            }
        }
        if until > self.now {
            match self.stack.last_mut() {
                Some(top) => {
                    let open = *top;
                    top.sliced = true;
                    self.slice(open, until);
                }
                // A gap is host time that no range names: Python, data loading, the GIL.
                None => {
                    self.slices
                        .push(NodeKind::HostGap, u32::MAX, true, self.now);
                    self.now = until;
                }
            }
        }
    }

    /// Adds a slice from now to `end`; empty if `end` is past.
    fn slice(&mut self, open: OpenRange, end: TimeNs) {
        let end = end.max(self.now);
        let slot = self
            .slices
            .push(open.kind, open.source, !open.sliced, self.now);
        if open.kind != NodeKind::Runtime {
            self.found.ops[open.number as usize].1 += end - self.now;
        } else if !open.sliced {
            self.found.calls[open.number as usize].1 = slot;
        }
        self.now = end;
    }

    fn open_op(&mut self, device: &DeviceTrace, op: OpIdx, end: TimeNs) {
        self.begin();
        let parent = self.enclosing(end);
        // an overlap of a microsecond is only rounding
        let crossed = self.stack.last().filter(|top| top.end + ROUNDING < end);
        // asynchronous ranges overlap without nesting
        let is_wrong = |top: &OpenRange| always_nests(device, op) && always_nests(device, top.op);
        let is_open_step =
            |open: &OpenRange| open.end > self.now + ROUNDING && is_step(device, open.op);
        let is_in_step = is_step(device, op) && self.stack.iter().any(is_open_step);
        let kind = match crossed {
            _ if is_in_step => Some(AnomalyKind::HostTimeImpossible),
            Some(top) if is_wrong(top) => Some(AnomalyKind::HostTimeImpossible),
            Some(_) => Some(AnomalyKind::PartialOverlap),
            None => None,
        };
        if let Some(kind) = kind {
            let place = || format!("{:?}", device.names.get(device.ops.name[op.index()]));
            self.found.overlaps.note(kind, place);
        }
        let number = self.found.ops.len() as u32;
        self.found.ops.push((parent, DurationNs::default()));
        let kind = if is_scope(device, op) {
            NodeKind::HostGap
        } else {
            NodeKind::HostOp
        };
        self.stack.push(OpenRange {
            kind,
            source: op.0,
            number,
            end,
            op,
            sliced: false,
        });
    }

    fn open_call(&mut self, call: CallIdx, end: TimeNs) {
        self.begin();
        // launches depend on what ran before the call, which must not be before a wait
        if self
            .found
            .wait_gaps
            .last()
            .is_some_and(|(slot, _)| *slot == self.slices.next_slot())
        {
            match self.stack.last().copied() {
                Some(top) => self.slice(top, self.now),
                None => {
                    self.slices
                        .push(NodeKind::HostGap, u32::MAX, true, self.now);
                }
            }
        }
        let op = self.enclosing(end);
        let number = self.found.calls.len() as u32;
        self.found.calls.push((op, SlotIdx::default()));
        self.stack.push(OpenRange {
            kind: NodeKind::Runtime,
            source: call.0,
            number,
            end,
            op,
            sliced: false,
        });
    }

    /// Opens a range. A range whose first child begins with it still has a first slice, of length
    /// 0, since the op's identity (schema, inputs, id) is on its first slice, which must come
    /// before its children's.
    fn begin(&mut self) {
        if let Some(top) = self.stack.last_mut().filter(|top| !top.sliced) {
            let open = *top;
            top.sliced = true;
            self.slice(open, self.now);
        }
    }

    /// Returns the innermost op whose range contains one that begins now and ends at `end`.
    fn enclosing(&self, end: TimeNs) -> OpIdx {
        let mut innermost_first = self.stack.iter().rev().take(MAX_CLIMB);
        let around = innermost_first.find(|open| open.end + ROUNDING >= end);
        around.map_or(OpIdx::NONE, |open| open.op)
    }
}

fn is_step(device: &DeviceTrace, op: OpIdx) -> bool {
    op.get().is_some_and(|op| {
        let name = device.names.get(device.ops.name[op.index()]);
        device.ops.annotation[op.index()] && name.starts_with(PROFILER_STEP)
    })
}

/// True for ops and steps whose end was recorded: like the functions that they are, they nest.
fn always_nests(device: &DeviceTrace, op: OpIdx) -> bool {
    let is_op =
        |op: OpIdx| !device.ops.annotation[op.index()] && !device.ops.unfinished[op.index()];
    op.get().is_some_and(is_op) || is_step(device, op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_model::{CpuOp, RuntimeCall};

    /// Nests ops (`Some`) and calls (`None`) of thread 0, given as (start, end).
    fn nest_of(ops: &[(i64, i64)], calls: &[(i64, i64)]) -> Nesting {
        let mut device = DeviceTrace {
            threads: vec![etlink_model::HostThread {
                pid: etlink_model::TrackLabel::Int(1),
                tid: etlink_model::TrackLabel::Int(1),
            }],
            ..DeviceTrace::default()
        };
        for &(start, end) in ops {
            device.ops.push(CpuOp {
                thread: ThreadIdx(0),
                start: TimeNs(start),
                duration: DurationNs(end - start),
                ..CpuOp::default()
            });
        }
        for &(start, end) in calls {
            device.calls.push(RuntimeCall {
                thread: ThreadIdx(0),
                start: TimeNs(start),
                duration: DurationNs(end - start),
                ..RuntimeCall::default()
            });
        }
        nest(&device)
    }

    /// Kind, row, start and end of each slice.
    fn slices(nesting: &Nesting) -> Vec<(NodeKind, u32, i64, i64)> {
        nesting.draft.tracks[0]
            .iter()
            .map(|slot| nesting.draft.host_node(slot))
            .collect()
    }

    fn drawn(nesting: &Nesting) -> String {
        let draw = |&(kind, source, start, end): &(NodeKind, u32, i64, i64)| match kind {
            NodeKind::HostGap => format!("_{start}-{end}"),
            NodeKind::Runtime => format!("{}{start}-{end}", (b'X' + source as u8) as char),
            _ => format!("{}{start}-{end}", (b'a' + source as u8) as char),
        };
        slices(nesting)
            .iter()
            .map(draw)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn slices_of_nested_ops() {
        // a -----------------------      d ---
        //    b -------   c ---
        //      X --
        let nesting = nest_of(
            &[
                (0, 100_000),
                (10_000, 50_000),
                (60_000, 80_000),
                (110_000, 120_000),
            ],
            &[(20_000, 30_000)],
        );
        assert_eq!(
            drawn(&nesting),
            "a0-10000 b10000-20000 X20000-30000 b30000-50000 a50000-60000 c60000-80000 \
             a80000-100000 _100000-110000 d110000-120000"
        );
        assert_eq!(
            nesting.op_parent,
            [OpIdx::NONE, OpIdx(0), OpIdx(0), OpIdx::NONE]
        );
        assert_eq!(nesting.call_op, [OpIdx(1)]);
        assert_eq!(nesting.op_exclusive[0], DurationNs(40_000));
    }

    #[test]
    fn every_op_has_a_slice() {
        // a and b begin and end together; c has length 0
        let nesting = nest_of(&[(0, 9), (0, 9), (9, 9)], &[]);
        assert_eq!(drawn(&nesting), "a0-0 b0-9 c9-9");
    }

    #[test]
    fn overlap_without_nesting_loses_no_time() {
        let nesting = nest_of(&[(0, 10_000), (5_000, 20_000), (15_000, 18_000)], &[]);
        assert_eq!(
            drawn(&nesting),
            "a0-5000 b5000-15000 c15000-18000 b18000-20000"
        );
        assert_eq!(nesting.overlaps.count(AnomalyKind::HostTimeImpossible), 1);
        assert_eq!(nesting.op_parent, [OpIdx::NONE, OpIdx::NONE, OpIdx(1)]);
    }

    #[test]
    fn slices_and_gaps_are_the_wall_time() {
        let mut random = 12345u64;
        let mut next = |limit: u64| {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            ((random >> 33) % limit) as i64
        };
        for _ in 0..200 {
            let mut ops: Vec<(i64, i64)> = (0..next(40) + 1)
                .map(|_| next(50_000))
                .map(|s| (s, s))
                .collect();
            ops.iter_mut().for_each(|op| op.1 += next(9_000));
            ops.sort_by_key(|op| (op.0, -op.1));
            let nesting = nest_of(&ops, &[]);
            let slices = slices(&nesting);
            assert!(slices.windows(2).all(|pair| pair[0].3 == pair[1].2));
            assert_eq!(slices[0].2, ops[0].0);
            assert_eq!(
                slices[slices.len() - 1].3,
                ops.iter().map(|op| op.1).max().expect("some")
            );
            for op in 0..ops.len() {
                assert!(
                    slices
                        .iter()
                        .any(|slice| slice.0 == NodeKind::HostOp && slice.1 == op as u32)
                );
            }
        }
    }
}
