//! Runs a recorded trace again with other durations and with inserted events.
//!
//! The host runs the recorded calls in order; a call that waits ends after the device rows that it
//! waits for. A device row starts after its launch and after the previous row of its stream. Each
//! recorded delay belongs to the one of the two that explains it; without a change, the second run
//! equals the recording. This is neither etlink's graph nor its replay, so that it can contradict
//! both.
//!
//! ```text
//! host     op  launch . . . inserted . . . op  launch  sync ------|
//! stream         \- row ==========              \- row ===========
//! ```
//! Only for traces whose launching threads take turns, as forward and backward pass do.

use etlink_model::{
    AuxiliaryEvents, Correlation, CpuOp, DeviceRow, DeviceTrace, DurationNs, NameId, OpIdx,
    QueueIdx, RowKind, RuntimeCall, ThreadIdx, TimeMap, TimeNs,
};
use std::collections::{BTreeMap, BTreeSet};

/// Usual time from the end of awaited work to the end of the waiting call, in ns.
const RETURN_NS: i64 = 3_000;

/// Longest time of a waiting call that is its own, in ns.
const OWN_NS: i64 = 5_000;

/// A step of an inserted event.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// The host works for this time, in ns.
    Work(i64),
    /// A runtime call.
    Call {
        name: &'static str,
        /// Time without waiting, in ns.
        ns: i64,
        /// Name and duration of the copy that the call launches.
        copy: Option<(&'static str, i64)>,
        /// True if the call ends after all work launched on the device until then.
        waits: bool,
    },
}

/// Steps inserted between two recorded events.
#[derive(Clone, Debug)]
pub(crate) struct Insertion {
    /// Recorded time.
    pub(crate) at: TimeNs,
    pub(crate) thread: ThreadIdx,
    pub(crate) queue: QueueIdx,
    /// Ops around the steps, from the outside.
    pub(crate) ops: &'static [&'static str],
    pub(crate) acts: Vec<Act>,
}

/// Changes to a recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) insertions: Vec<Insertion>,
    /// Factors on the durations of device rows, by name.
    pub(crate) slower: BTreeMap<NameId, f64>,
    /// Time added to each launching call in a span of recorded time, in ns.
    pub(crate) launches: Option<((TimeNs, TimeNs), i64)>,
}

/// Delay of the end of each collective row, in the order of their starts, by the other ranks.
pub(crate) type MeetingDelays = Vec<i64>;

/// Result of a run.
pub(crate) struct Rerun {
    pub(crate) trace: DeviceTrace,
    /// For each collective row in the order of recorded starts: delay of its start, in ns.
    pub(crate) arrivals: Vec<i64>,
}

/// Recorded reason of a row's start.
#[derive(Clone, Copy)]
struct RowStart {
    /// Time from the start of the launching call, if the launch is recorded.
    after_call: Option<i64>,
    /// Previous row of the stream, and the time from its end.
    after_own: Option<(usize, i64)>,
    /// Row of another stream that ended just before, and the time from its end.
    after_other: Option<(usize, i64)>,
}

/// A host event at a recorded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HostEvent {
    CallEnds(usize),
    Inserted(usize),
    CallStarts(usize),
}

/// The recording with all that a run needs.
pub(crate) struct Recording {
    pub(crate) device: DeviceTrace,
    pub(crate) threads: BTreeSet<ThreadIdx>,
    /// Rows of each call, in the order of their starts.
    rows_of_call: BTreeMap<usize, Vec<usize>>,
    starts: Vec<RowStart>,
    /// Awaited row and time from its end to the end of the call.
    waits: BTreeMap<usize, Wait>,
    /// Collective rows in the order of their starts.
    meetings: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Wait {
    /// Awaited rows; the latest ends the wait.
    queues: Option<QueueIdx>,
    own_row: bool,
    own_ns: i64,
    return_ns: i64,
}

fn median(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

impl Recording {
    pub(crate) fn new(device: DeviceTrace) -> Recording {
        let call_of: BTreeMap<Correlation, usize> = {
            let ids = device.calls.correlation.iter().copied();
            ids.zip(0..).collect()
        };
        let row_call = |row: usize| call_of.get(&device.rows.correlation[row]).copied();
        let mut rows_of_call: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut threads = BTreeSet::new();
        for row in 0..device.rows.len() {
            if let Some(call) = row_call(row) {
                rows_of_call.entry(call).or_default().push(row);
                threads.insert(device.calls.thread[call]);
            }
        }
        let starts = row_starts(&device, &row_call);
        let waits = waits_of(&device, &rows_of_call);
        let is_meeting = |row: &usize| {
            let name = device.names.get(device.rows.name[*row]).to_lowercase();
            name.starts_with("nccl")
        };
        let meetings = (0..device.rows.len()).filter(is_meeting).collect();
        Recording {
            device,
            threads,
            rows_of_call,
            starts,
            waits,
            meetings,
        }
    }

    pub(crate) fn run(&self, change: &Change, delays: &MeetingDelays) -> Rerun {
        let mut machine = Machine::new(self, change, delays);
        for (at, event) in self.host_events(change) {
            machine.step(at, event);
        }
        machine.finish()
    }

    fn host_events(&self, change: &Change) -> Vec<(TimeNs, HostEvent)> {
        let calls = &self.device.calls;
        let mut events = vec![];
        for call in 0..calls.len() {
            if self.threads.contains(&calls.thread[call]) {
                let start = calls.start[call];
                events.push((start, HostEvent::CallStarts(call)));
                events.push((start + calls.duration[call], HostEvent::CallEnds(call)));
            }
        }
        for (index, one) in change.insertions.iter().enumerate() {
            events.push((one.at, HostEvent::Inserted(index)));
        }
        // A call without a duration starts before it ends.
        events.sort_by_key(|(at, event)| match event {
            HostEvent::CallEnds(call) if calls.duration[*call].0 == 0 => (*at, 2, *event),
            HostEvent::CallEnds(_) => (*at, 0, *event),
            _ => (*at, 1, *event),
        });
        events
    }
}

/// Finds the recorded reason for the start of each row: its launch, or the previous row.
fn row_starts(device: &DeviceTrace, row_call: &dyn Fn(usize) -> Option<usize>) -> Vec<RowStart> {
    let rows = &device.rows;
    let mut last: Vec<Option<usize>> = vec![None; device.queues.len()];
    let mut all: Vec<RowStart> = vec![];
    for row in 0..rows.len() {
        let start = rows.start[row];
        let latency = row_call(row).map(|call| start.since(device.calls.start[call]));
        let end = |other: usize| rows.start[other] + rows.duration[other];
        let own = last[rows.queue[row].index()];
        let others = last.iter().flatten().copied();
        // A stream that waits for another starts just after that one's row.
        let ended = others.filter(|other| Some(*other) != own && end(*other) <= start);
        let latest = ended.max_by_key(|other| end(*other));
        let near = latest.map(|other| (other, start.since(end(other))));
        all.push(RowStart {
            after_call: latency,
            after_own: own.map(|own| (own, start.since(end(own)))),
            after_other: near.filter(|(_, gap)| *gap <= RETURN_NS),
        });
        last[rows.queue[row].index()] = Some(row);
    }
    let gap = |row: &RowStart| {
        let gaps = [row.after_own, row.after_other].into_iter().flatten();
        gaps.map(|(_, gap)| gap).min()
    };
    let busy = all
        .iter()
        .filter(|row| row.after_call.is_none_or(|ns| ns > 50_000));
    let usual_gap = median(busy.filter_map(gap).collect());
    let usual_gap = usual_gap.unwrap_or(1_000).min(RETURN_NS);
    let idle = all
        .iter()
        .filter(|row| gap(row).is_none_or(|gap| gap > 5_000));
    let usual_latency = median(idle.filter_map(|row| row.after_call).collect());
    let usual_latency = usual_latency.unwrap_or(6_000).min(20_000);
    let reason = |row: RowStart| {
        // The recorded time remains with the reason that explains it best.
        let by = [
            row.after_call.map(|ns| ns - usual_latency),
            row.after_own.map(|(_, gap)| gap - usual_gap),
            row.after_other.map(|(_, gap)| gap - usual_gap),
        ];
        let best = by.into_iter().flatten().min();
        let left = |at: usize, ns: i64, usual: i64| {
            if by[at] == best { ns } else { ns.min(usual) }
        };
        RowStart {
            after_call: row.after_call.map(|ns| left(0, ns, usual_latency)),
            after_own: row.after_own.map(|(row, ns)| (row, left(1, ns, usual_gap))),
            after_other: row
                .after_other
                .map(|(row, ns)| (row, left(2, ns, usual_gap))),
        }
    };
    all.into_iter().map(reason).collect()
}

fn waits_of(
    device: &DeviceTrace,
    rows_of_call: &BTreeMap<usize, Vec<usize>>,
) -> BTreeMap<usize, Wait> {
    let calls = &device.calls;
    let rows = &device.rows;
    let mut waits = BTreeMap::new();
    let mut launched: Vec<(QueueIdx, TimeNs)> = vec![];
    for call in 0..calls.len() {
        let (start, ns) = (calls.start[call], calls.duration[call].0);
        let own = rows_of_call.get(&call).into_iter().flatten();
        let own: Vec<usize> = own.copied().collect();
        let name = device.names.get(calls.name[call]).to_lowercase();
        // A short copy to the device is staged at once.
        let is_pageable = own.iter().any(|row| {
            let name = device.names.get(rows.name[*row]);
            let is_short = rows.duration[*row].0 < 100_000 && name.contains("HtoD");
            name.contains("Pageable") && !is_short
        });
        let is_blocking = name.contains("memcpy") && !name.contains("async");
        let ends = |queue: Option<QueueIdx>| {
            let of_queue = launched
                .iter()
                .filter(move |(of, _)| queue.is_none_or(|queue| queue == *of));
            of_queue.map(|(_, end)| *end).max()
        };
        let queue = launched.last().map(|(queue, _)| *queue);
        let mut wait = |queues: Option<QueueIdx>, own_row, end: Option<TimeNs>| {
            let end = end.unwrap_or(start);
            let waited = end > start;
            let return_ns = (start + DurationNs(ns)).since(end);
            let wait = Wait {
                queues,
                own_row,
                own_ns: if waited { ns.min(OWN_NS) } else { ns },
                return_ns: if waited { return_ns } else { RETURN_NS.min(ns) },
            };
            waits.insert(call, wait);
        };
        let own_end = own
            .iter()
            .map(|row| rows.start[*row] + rows.duration[*row])
            .max();
        if name.contains("devicesynchronize") || ["cudafree", "hipfree"].contains(&&name[..]) {
            wait(None, false, ends(None));
        } else if name.contains("streamsynchronize") {
            wait(queue, false, ends(queue));
        } else if (is_pageable || is_blocking) && own_end.is_some() {
            wait(None, true, own_end);
        }
        launched.extend(
            own.iter()
                .map(|row| (rows.queue[*row], rows.start[*row] + rows.duration[*row])),
        );
    }
    waits
}

/// State of a run.
struct Machine<'r> {
    recording: &'r Recording,
    change: &'r Change,
    delays: &'r MeetingDelays,
    /// Difference between the new and the recorded time of the host, in ns.
    shift: i64,
    points: Vec<(TimeNs, TimeNs)>,
    starts: Vec<TimeNs>,
    durations: Vec<DurationNs>,
    /// End of the latest launched row of each queue.
    ends: Vec<TimeNs>,
    /// End of the latest inserted row of each queue.
    inserted: Vec<TimeNs>,
    arrivals: Vec<i64>,
    new_ops: Vec<(usize, usize, TimeNs, TimeNs)>,
    new_calls: Vec<(usize, &'static str, TimeNs, TimeNs, Option<Correlation>)>,
    new_rows: Vec<(usize, &'static str, TimeNs, i64, Correlation)>,
    next_id: i64,
}

impl<'r> Machine<'r> {
    fn new(recording: &'r Recording, change: &'r Change, delays: &'r MeetingDelays) -> Self {
        let rows = &recording.device.rows;
        let mut durations = rows.duration.clone();
        for (name, duration) in rows.name.iter().zip(&mut durations) {
            if let Some(factor) = change.slower.get(name) {
                duration.0 = (duration.0 as f64 * factor) as i64;
            }
        }
        let ids = recording.device.calls.correlation.iter();
        Machine {
            recording,
            change,
            delays,
            shift: 0,
            points: vec![],
            starts: rows.start.clone(),
            durations,
            ends: vec![TimeNs(i64::MIN); recording.device.queues.len()],
            inserted: vec![TimeNs(i64::MIN); recording.device.queues.len()],
            arrivals: vec![0; recording.meetings.len()],
            new_ops: vec![],
            new_calls: vec![],
            new_rows: vec![],
            next_id: ids.map(|id| id.0).max().unwrap_or(0) + 1,
        }
    }

    fn step(&mut self, at: TimeNs, event: HostEvent) {
        match event {
            HostEvent::CallStarts(call) => {
                let now = at.shifted(self.shift);
                self.points.push((at, now));
                let rows = self.recording.rows_of_call.get(&call);
                for row in rows.into_iter().flatten() {
                    self.launch(*row, now);
                }
            }
            HostEvent::CallEnds(call) => {
                self.end_call(call);
                self.points.push((at, at.shifted(self.shift)));
            }
            HostEvent::Inserted(index) => self.insert(index),
        }
    }

    fn launch(&mut self, row: usize, now: TimeNs) {
        let reason = self.recording.starts[row];
        let queue = self.recording.device.rows.queue[row].index();
        let by_call = reason.after_call.map(|ns| now.shifted(ns));
        let befores = [reason.after_own, reason.after_other].into_iter().flatten();
        let by_rows = befores
            .map(|(before, gap)| (self.starts[before] + self.durations[before]).shifted(gap));
        let start = by_rows.chain(by_call).max().unwrap_or(self.starts[row]);
        self.starts[row] = start.max(self.inserted[queue].shifted(1_000));
        if !self.delays.is_empty()
            && let Ok(place) = self.recording.meetings.binary_search(&row)
        {
            let recorded = &self.recording.device.rows;
            self.arrivals[place] = self.starts[row].since(recorded.start[row]);
            let delay = self.delays.get(place).copied().unwrap_or(0);
            let end = (recorded.start[row] + recorded.duration[row]).shifted(delay);
            self.durations[row] = DurationNs(end.since(self.starts[row]).max(1));
        }
        self.ends[queue] = self.ends[queue].max(self.starts[row] + self.durations[row]);
    }

    fn end_call(&mut self, call: usize) {
        let calls = &self.recording.device.calls;
        let (start, ns) = (calls.start[call], calls.duration[call].0);
        if let Some(wait) = self.recording.waits.get(&call) {
            let own = self.recording.rows_of_call.get(&call).into_iter().flatten();
            let own = own
                .map(|row| self.starts[*row] + self.durations[*row])
                .max();
            let ends = match wait.queues {
                _ if wait.own_row => own,
                Some(queue) => Some(self.ends[queue.index()]),
                None => self.ends.iter().copied().max(),
            };
            let end = start.shifted(self.shift + wait.own_ns);
            let end =
                end.max(ends.map_or(end, |ends| TimeNs(ends.0.saturating_add(wait.return_ns))));
            self.shift = end.since(start) - ns;
        }
        if let Some(((from, until), more)) = self.change.launches
            && start >= from
            && start < until
            && self.recording.rows_of_call.contains_key(&call)
        {
            self.shift += more;
        }
    }

    fn insert(&mut self, index: usize) {
        let one = &self.change.insertions[index];
        let begin = one.at.shifted(self.shift);
        // Ops begin and end apart from their contents.
        let mut now = begin.shifted(if one.ops.is_empty() { 0 } else { 1_000 });
        for act in &one.acts {
            match act {
                Act::Work(ns) => now = now.shifted(*ns),
                Act::Call {
                    name,
                    ns,
                    copy,
                    waits,
                } => {
                    let queue = one.queue.index();
                    let id = Correlation(self.next_id);
                    self.next_id += 1;
                    let start = now;
                    if let Some((copy, copy_ns)) = copy {
                        let free = self.ends[queue].max(self.inserted[queue]);
                        let row_start = start
                            .shifted(5_000)
                            .max(TimeNs(free.0.saturating_add(1_000)));
                        self.new_rows.push((index, copy, row_start, *copy_ns, id));
                        self.inserted[queue] = row_start.shifted(*copy_ns);
                        self.ends[queue] = self.inserted[queue];
                    }
                    now = now.shifted(*ns);
                    if *waits {
                        let last = self.ends.iter().copied().max().unwrap_or(now);
                        now = now.max(TimeNs(last.0.saturating_add(RETURN_NS)));
                    }
                    self.new_calls.push((index, name, start, now, Some(id)));
                    now = now.shifted(500);
                }
            }
        }
        for depth in 0..one.ops.len() {
            let inner = 200 * depth as i64;
            self.new_ops.push((
                index,
                depth,
                begin.shifted(1 + inner),
                now.shifted(1_000 - inner),
            ));
        }
        if !one.ops.is_empty() {
            now = now.shifted(1_001);
        }
        self.points.push((one.at, begin));
        self.points.push((one.at.shifted(1), now.shifted(1)));
        self.shift = now.since(one.at);
    }

    fn finish(self) -> Rerun {
        let mut trace = self.recording.device.clone();
        trace.rows.duration.clone_from(&self.durations);
        trace.auxiliary = AuxiliaryEvents::default();
        trace.retime(&[], &TimeMap::new(self.points), &self.starts);
        let insertions = &self.change.insertions;
        for (index, depth, start, end) in self.new_ops {
            let one = &insertions[index];
            trace.ops.push(CpuOp {
                name: trace.names.intern(one.ops[depth]),
                thread: one.thread,
                start,
                duration: DurationNs(end.since(start)),
                external_id: -1,
                seq_id: -1,
                collective: u32::MAX,
                ..CpuOp::default()
            });
        }
        for (index, name, start, end, id) in self.new_calls {
            trace.calls.push(RuntimeCall {
                name: trace.names.intern(name),
                thread: insertions[index].thread,
                start,
                duration: DurationNs(end.since(start)),
                correlation: id.unwrap_or(Correlation::NONE),
                external_id: -1,
                ..RuntimeCall::default()
            });
        }
        for (index, name, start, ns, id) in self.new_rows {
            trace.rows.push(DeviceRow {
                kind: RowKind::Memcpy,
                category: trace.names.intern("gpu_memcpy"),
                name: trace.names.intern(name),
                queue: insertions[index].queue,
                start,
                duration: DurationNs(ns),
                correlation: id,
                external_id: -1,
                bytes: 1 << 20,
                gb_per_s: -1.0,
                collective: u32::MAX,
                ..DeviceRow::default()
            });
        }
        trace.sort_by_time();
        Rerun {
            trace,
            arrivals: self.arrivals,
        }
    }
}

/// Runs all ranks of a job, each with its change. Collectives end together, as long after the last
/// rank's arrival as recorded.
pub(crate) fn run_ranks(ranks: &[(&Recording, &Change)]) -> Vec<DeviceTrace> {
    let meetings = ranks.iter().map(|(rank, _)| rank.meetings.len()).min();
    let meetings = meetings.unwrap_or(0);
    let time = |rank: &Recording, at: usize| rank.device.rows.duration[rank.meetings[at]].0;
    let mut delays = vec![0; meetings];
    // A collective can delay all later ones.
    for _ in 0..=meetings {
        let runs = ranks.iter().map(|(rank, change)| rank.run(change, &delays));
        let runs: Vec<Rerun> = runs.collect();
        let later = (0..meetings).map(|at| {
            let shortest = ranks.iter().map(|(rank, _)| time(rank, at)).min();
            let late = ranks.iter().zip(&runs).map(|((rank, _), run)| {
                // The last rank to arrive waits for no other.
                run.arrivals[at] - (time(rank, at) - shortest.unwrap_or(0))
            });
            late.max().unwrap_or(0)
        });
        let later: MeetingDelays = later.collect();
        if later == delays {
            return runs.into_iter().map(|run| run.trace).collect();
        }
        delays = later;
    }
    vec![]
}

/// A place between two events of a launching thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) at: TimeNs,
    pub(crate) thread: ThreadIdx,
    /// True if an op or a range other than a step runs there.
    pub(crate) in_op: bool,
    /// Recorded time between the two events, in ns.
    pub(crate) gap_ns: i64,
}

impl Recording {
    /// Returns the places within a span at which events can be inserted, in order of time.
    pub(crate) fn places(&self, (from, until): (TimeNs, TimeNs)) -> Vec<Place> {
        let (ops, calls) = (&self.device.ops, &self.device.calls);
        // Time, change of the depth of ops, change of the depth of calls, thread.
        let mut edges: Vec<(TimeNs, i32, i32, ThreadIdx)> = vec![];
        for op in (0..ops.len()).map(OpIdx::new).map(OpIdx::index) {
            let name = self.device.names.get(ops.name[op]);
            let depth = i32::from(!name.starts_with("ProfilerStep"));
            if self.threads.contains(&ops.thread[op]) {
                let end = ops.start[op] + ops.duration[op];
                edges.push((ops.start[op], depth, 0, ops.thread[op]));
                edges.push((end, -depth, 0, ops.thread[op]));
            }
        }
        for call in 0..calls.len() {
            if self.threads.contains(&calls.thread[call]) {
                let end = calls.start[call] + calls.duration[call];
                edges.push((calls.start[call], 0, 1, calls.thread[call]));
                edges.push((end, 0, -1, calls.thread[call]));
            }
        }
        edges.sort_unstable();
        let mut depth: BTreeMap<ThreadIdx, i32> = BTreeMap::new();
        let (mut in_calls, mut places) = (0, vec![]);
        for pair in edges.windows(2) {
            let (start, of_ops, of_calls, thread) = pair[0];
            *depth.entry(thread).or_default() += of_ops;
            in_calls += of_calls;
            let (end, _, _, next) = pair[1];
            let is_inside = start >= from && end <= until;
            let own = depth.get(&thread).copied().unwrap_or(0);
            let all: i32 = depth.values().sum();
            if is_inside && in_calls == 0 && next == thread && end.since(start) > 2 && all == own {
                places.push(Place {
                    at: start.shifted(end.since(start) / 2),
                    thread,
                    in_op: own > 0,
                    gap_ns: end.since(start),
                });
            }
        }
        places
    }
}
