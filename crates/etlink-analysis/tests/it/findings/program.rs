//! Programs as lists of their ranks' actions, and a small machine that runs them: a host thread and
//! streams per rank, events, synchronization, collectives, a queue of bounded depth. It uses no
//! graphs and replays: times follow from the meaning of the calls.

use crate::findings::random::Random;
use std::collections::BTreeMap;

pub(crate) const US: i64 = 1_000;
pub(crate) const MS: i64 = 1_000_000;

/// Host time of a launching call, in ns.
pub(crate) const CALL: i64 = 5 * US;
/// Time from the start of a call to the earliest start of its row, in ns.
const LAUNCH: i64 = 7 * US;
/// Time from a row's end to the start of the next on its stream, in ns.
const NEXT: i64 = US;
/// Time from a row's end to the start of work that waited for its event on another stream, in ns.
const EVENT: i64 = 2 * US;
/// Time from a row's end until a waiting host resumes, in ns.
const WAKE: i64 = 6 * US;
/// Host time of calls that record events or make streams wait, in ns.
const SHORT_CALL: i64 = US;
/// Queue depth of a context, as in NVIDIA's driver.
pub(crate) const QUEUE_DEPTH: usize = 1_024;

/// Streams of computation and of communication.
pub(crate) const COMPUTE: i64 = 7;
pub(crate) const NCCL: i64 = 20;

/// A kernel or copy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Work {
    pub(crate) name: String,
    pub(crate) stream: i64,
    pub(crate) ns: i64,
    /// Blocks of the grid; 0 for a copy.
    pub(crate) blocks: u32,
}

/// A collective of all ranks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Meeting {
    pub(crate) name: &'static str,
    pub(crate) ns: i64,
    /// Number of elements of the input, and of the output.
    pub(crate) elements: u64,
}

impl Meeting {
    /// Makes a collective of 1024 elements.
    pub(crate) fn new(name: &'static str, ns: i64) -> Meeting {
        Meeting {
            name,
            ns,
            elements: 1024,
        }
    }
}

/// An action of a host thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    /// Python, outside of any range of its own.
    Host(i64),
    /// An op.
    Op(String, Vec<Act>),
    /// A user annotation.
    Annotation(String, Vec<Act>),
    /// A launch.
    Launch(Work),
    /// The launch of a CUDA graph.
    Graph(Vec<Work>),
    /// A copy; `true` if the host waits for it, as for pageable memory.
    Copy(Work, bool),
    /// A copy to the device through the driver's own memory: the host moves the data within the
    /// call, which returns before the copy ends.
    CopyInCall(Work),
    /// A call that takes this time on the host, in ns.
    Call(&'static str, i64),
    /// A call that waits for a stream, or for all.
    Sync(&'static str, Option<i64>),
    /// A fence: later work on the second stream waits for the earlier work on the first.
    Fence(i64, i64),
    /// A collective as PyTorch launches it: beside computation, after all earlier launches.
    Meet(Meeting),
    /// Work of the profiler within a call, in ns.
    Overhead(i64),
}

/// Start and end of a range, a call, or a row.
pub(crate) type Span = (i64, i64);

#[derive(Clone, Debug)]
pub(crate) struct RanRange {
    pub(crate) name: String,
    pub(crate) annotation: bool,
    pub(crate) span: Span,
    /// Number of the collective.
    pub(crate) meeting: Option<(Meeting, usize)>,
}

#[derive(Clone, Debug)]
pub(crate) struct RanCall {
    pub(crate) name: String,
    pub(crate) span: Span,
    /// Rows launched by the call.
    pub(crate) rows: Vec<usize>,
    /// A wait of a stream: the waiting stream, the awaited one, and the call that recorded the
    /// event.
    pub(crate) fence: Option<(i64, i64, usize)>,
    /// A wait of the host: for a stream or for all.
    pub(crate) waits: Option<Option<i64>>,
}

#[derive(Clone, Debug)]
pub(crate) struct RanRow {
    pub(crate) work: Work,
    pub(crate) meeting: Option<(Meeting, usize)>,
    /// True if the row is part of a CUDA graph.
    pub(crate) graph: bool,
    launched: i64,
    previous: Option<usize>,
    events: Vec<usize>,
    pub(crate) span: Option<Span>,
}

/// A rank after its run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RanRank {
    pub(crate) ranges: Vec<RanRange>,
    pub(crate) calls: Vec<RanCall>,
    pub(crate) rows: Vec<RanRow>,
    pub(crate) overhead: Vec<Span>,
    /// A range on a thread that does nothing else.
    pub(crate) marked_elsewhere: Option<(String, Span)>,
}

impl RanRank {
    /// Returns the time from the first range to the end of everything.
    pub(crate) fn makespan(&self) -> Span {
        let first = self.ranges.iter().map(|range| range.span.0).min();
        let ranges = self.ranges.iter().map(|range| range.span.1);
        let rows = self.rows.iter().filter_map(|row| Some(row.span?.1));
        (first.unwrap_or(0), ranges.chain(rows).max().unwrap_or(0))
    }
}

/// A step of the machine: ranges become marks, so that a rank can stop anywhere.
#[derive(Clone, Debug)]
enum Mark {
    Begin(String, bool, Option<(Meeting, usize)>),
    End,
    Do(Act),
    Meet(Meeting, usize),
}

struct Host {
    marks: Vec<Mark>,
    next: usize,
    now: i64,
    open: Vec<usize>,
    ran: RanRank,
    last_on: BTreeMap<i64, usize>,
    /// For each stream: rows that the next launch has to wait for.
    pending: BTreeMap<i64, Vec<usize>>,
    depth: usize,
    /// Index before which all rows have their times.
    known: usize,
}

/// Runs the programs of all ranks, which start together. `depth`: queue depth of a device.
pub(crate) fn run_program(programs: &[Vec<Act>], depth: usize) -> Vec<RanRank> {
    let mut hosts: Vec<Host> = programs.iter().map(|acts| Host::new(acts, depth)).collect();
    loop {
        // Ranks run in turns: each stops if it needs a time that another rank determines.
        let before: usize = hosts.iter().map(Host::progress).sum();
        for host in &mut hosts {
            host.run_on();
        }
        resolve_rows(&mut hosts);
        let after: usize = hosts.iter().map(Host::progress).sum();
        let is_done = hosts.iter().all(Host::is_done);
        if is_done {
            return hosts.into_iter().map(|host| host.ran).collect();
        }
        // A program of this test that waits for itself is a mistake in the test.
        assert!(after > before, "the programs stand still");
    }
}

/// Computes the times of rows whose causes are known.
fn resolve_rows(hosts: &mut [Host]) {
    loop {
        let mut changed = false;
        for host in hosts.iter_mut() {
            changed |= host.resolve_own();
        }
        changed |= resolve_meetings(hosts);
        if !changed {
            return;
        }
    }
}

/// Resolves collectives for which all ranks' rows are ready: they end together.
fn resolve_meetings(hosts: &mut [Host]) -> bool {
    let mut ready: BTreeMap<usize, Vec<(usize, usize, i64, i64)>> = BTreeMap::new();
    for (rank, host) in hosts.iter().enumerate() {
        for (index, row) in host.ran.rows.iter().enumerate() {
            if let (Some((meeting, number)), None) = (&row.meeting, row.span)
                && let Some(start) = host.ready_at(index)
            {
                // A rank arrives when its kernel starts, not when it is launched.
                let part = (rank, index, start, meeting.ns);
                ready.entry(*number).or_default().push(part);
            }
        }
    }
    let mut changed = false;
    let ranks = hosts.len();
    for parts in ready.values().filter(|parts| parts.len() == ranks) {
        let last = parts.iter().map(|part| part.2).max().expect("parts");
        for (rank, index, start, ns) in parts {
            hosts[*rank].ran.rows[*index].span = Some((*start, last + ns));
            changed = true;
        }
    }
    changed
}

impl Host {
    fn new(acts: &[Act], depth: usize) -> Host {
        let (mut marks, mut meetings) = (vec![], 0);
        flatten(acts, &mut marks, &mut meetings);
        Host {
            marks,
            next: 0,
            now: 100 * US,
            open: vec![],
            ran: RanRank::default(),
            last_on: BTreeMap::new(),
            pending: BTreeMap::new(),
            depth,
            known: 0,
        }
    }

    fn progress(&self) -> usize {
        let rows = self.ran.rows.iter();
        self.next + rows.filter(|row| row.span.is_some()).count()
    }

    fn is_done(&self) -> bool {
        let mut rows = self.ran.rows.iter();
        self.next == self.marks.len() && rows.all(|row| row.span.is_some())
    }

    /// Runs until the time of a row is needed that is still unknown.
    fn run_on(&mut self) {
        while let Some(mark) = self.marks.get(self.next).cloned() {
            self.resolve_own();
            let gone_on = match mark {
                Mark::Begin(name, annotation, meeting) => {
                    self.open.push(self.ran.ranges.len());
                    self.ran.ranges.push(RanRange {
                        name,
                        annotation,
                        span: (self.now, self.now),
                        meeting,
                    });
                    true
                }
                Mark::End => {
                    let range = self.open.pop().expect("an open range");
                    self.ran.ranges[range].span.1 = self.now;
                    true
                }
                Mark::Do(act) => self.carry_out(&act),
                Mark::Meet(meeting, number) => self.meet(meeting, number),
            };
            if !gone_on {
                return;
            }
            self.next += 1;
        }
    }

    fn carry_out(&mut self, act: &Act) -> bool {
        match act {
            Act::Host(ns) => self.now += ns,
            Act::Op(..) | Act::Annotation(..) => unreachable!("ranges are marks"),
            Act::Call(name, ns) => {
                self.call(name, *ns, vec![]);
            }
            Act::Overhead(ns) => {
                let span = (self.now + US, self.now + US + ns);
                self.ran.overhead.push(span);
                self.call("cudaFuncGetAttributes", ns + 2 * US, vec![]);
            }
            Act::Launch(work) => {
                return self
                    .launch("cudaLaunchKernel", std::slice::from_ref(work))
                    .is_some();
            }
            Act::Graph(works) => return self.launch("cudaGraphLaunch", works).is_some(),
            Act::Copy(work, false) => {
                return self
                    .launch("cudaMemcpyAsync", std::slice::from_ref(work))
                    .is_some();
            }
            Act::Copy(work, true) => return self.blocking_copy(work),
            Act::CopyInCall(work) => {
                let begun = self.now;
                let Some(call) = self.launch("cudaMemcpyAsync", std::slice::from_ref(work)) else {
                    return false;
                };
                self.now = self.now.max(begun + work.ns);
                self.ran.calls[call].span.1 = self.now;
            }
            Act::Sync(name, stream) => return self.synchronize(name, *stream),
            Act::Fence(from, to) => self.fence(*from, *to),
            Act::Meet(_) => unreachable!("collectives are marks"),
        }
        true
    }

    fn call(&mut self, name: &str, ns: i64, rows: Vec<usize>) -> usize {
        self.ran.calls.push(RanCall {
            name: name.to_owned(),
            span: (self.now, self.now + ns),
            rows,
            fence: None,
            waits: None,
        });
        self.now += ns;
        self.ran.calls.len() - 1
    }

    /// Returns the time at which the queue has room for another row; `None` if still unknown.
    fn room_at(&self) -> Option<i64> {
        let rows = &self.ran.rows;
        // The queue has had room for all rows so far.
        let Some(first) = rows.len().checked_sub(self.depth) else {
            return Some(self.now);
        };
        // At most `depth` rows may wait: the row that many positions back must have started.
        Some(rows[first].span?.0.max(self.now))
    }

    /// Launches rows; `None` if the queue stays full for an unknown time.
    fn launch(&mut self, name: &str, works: &[Work]) -> Option<usize> {
        let room = self.room_at()?;
        let blocked = room - self.now;
        let rows = works
            .iter()
            .map(|work| self.add_row(work, room + LAUNCH, None, works.len() > 1));
        let rows = rows.collect();
        Some(self.call(name, blocked + CALL, rows))
    }

    fn add_row(
        &mut self,
        work: &Work,
        launched: i64,
        meeting: Option<(Meeting, usize)>,
        graph: bool,
    ) -> usize {
        let index = self.ran.rows.len();
        let previous = self.last_on.insert(work.stream, index);
        let events = self.pending.remove(&work.stream).unwrap_or_default();
        self.ran.rows.push(RanRow {
            work: work.clone(),
            meeting,
            graph,
            // Real latencies vary from launch to launch.
            launched: launched + noise(index, 1) % (3 * US),
            previous,
            events,
            span: None,
        });
        index
    }

    /// Waits once the row is launched. The second visit, when the row's end is known, ends the
    /// call.
    fn blocking_copy(&mut self, work: &Work) -> bool {
        let last = self.ran.calls.last();
        let is_begun = last.is_some_and(|call| call.waits == Some(Some(-1)));
        if !is_begun {
            let Some(call) = self.launch("cudaMemcpyAsync", std::slice::from_ref(work)) else {
                return false;
            };
            self.ran.calls[call].waits = Some(Some(-1));
            self.resolve_own();
        }
        let call = self.ran.calls.len() - 1;
        let row = self.ran.calls[call].rows[0];
        let Some((_, end)) = self.ran.rows[row].span else {
            return false;
        };
        self.now = self.now.max(end + WAKE + noise(row, 4) % (4 * US));
        self.ran.calls[call].span.1 = self.now;
        self.ran.calls[call].waits = None;
        true
    }

    fn meet(&mut self, meeting: Meeting, number: usize) -> bool {
        let Some(room) = self.room_at() else {
            return false;
        };
        let work = Work {
            name: format!("ncclDevKernel_{}_Sum_f32_RING_LL", meeting.name),
            stream: NCCL,
            ns: meeting.ns,
            blocks: 24,
        };
        let row = self.add_row(&work, room + LAUNCH, Some((meeting, number)), false);
        self.call("cudaLaunchKernelExC", room - self.now + CALL, vec![row]);
        true
    }

    fn synchronize(&mut self, name: &str, stream: Option<i64>) -> bool {
        let streams = self.last_on.iter();
        let waited = streams.filter(|(own, _)| stream.is_none_or(|stream| stream == **own));
        let mut end = self.now;
        for (_, row) in waited {
            let Some((_, row_end)) = self.ran.rows[*row].span else {
                return false;
            };
            end = end.max(row_end + WAKE + noise(*row, 4) % (4 * US));
        }
        let call = self.call(name, (end - self.now).max(2 * US), vec![]);
        self.ran.calls[call].waits = Some(stream);
        true
    }

    fn fence(&mut self, from: i64, to: i64) {
        let record = self.call("cudaEventRecord", SHORT_CALL, vec![]);
        let wait = self.call("cudaStreamWaitEvent", SHORT_CALL, vec![]);
        self.ran.calls[wait].fence = Some((to, from, record));
        if let Some(row) = self.last_on.get(&from) {
            self.pending.entry(to).or_default().push(*row);
        }
    }

    /// Returns the time at which all causes of a row let it start.
    fn ready_at(&self, index: usize) -> Option<i64> {
        let rows = &self.ran.rows;
        let row = &rows[index];
        let mut ready = row.launched;
        if let Some(previous) = row.previous {
            ready = ready.max(rows[previous].span?.1 + NEXT + noise(index, 2) % (US / 2));
        }
        for event in &row.events {
            ready = ready.max(rows[*event].span?.1 + EVENT + noise(index, 3) % US);
        }
        Some(ready)
    }

    /// Computes the times of rows that wait for no other rank.
    fn resolve_own(&mut self) -> bool {
        let mut changed = false;
        for index in self.known..self.ran.rows.len() {
            let row = &self.ran.rows[index];
            if row.span.is_some() || row.meeting.is_some() {
                continue;
            }
            let ns = row.work.ns;
            if let Some(start) = self.ready_at(index) {
                self.ran.rows[index].span = Some((start, start + ns));
                changed = true;
            }
        }
        let rest = &self.ran.rows[self.known..];
        self.known += rest.iter().take_while(|row| row.span.is_some()).count();
        changed
    }
}

/// Returns a pseudo-random time per row and use, in ns.
fn noise(row: usize, which: u64) -> i64 {
    (Random(row as u64 * 8 + which).next() >> 33) as i64
}

fn flatten(acts: &[Act], marks: &mut Vec<Mark>, meetings: &mut usize) {
    for act in acts {
        match act {
            Act::Op(name, inner) => {
                marks.push(Mark::Begin(name.clone(), false, None));
                flatten(inner, marks, meetings);
                marks.push(Mark::End);
            }
            Act::Annotation(name, inner) => {
                marks.push(Mark::Begin(name.clone(), true, None));
                flatten(inner, marks, meetings);
                marks.push(Mark::End);
            }
            Act::Meet(meeting) => {
                let of = Some((meeting.clone(), *meetings));
                marks.push(Mark::Begin("c10d::allreduce_".to_owned(), false, None));
                marks.push(Mark::Begin("record_param_comms".to_owned(), false, of));
                marks.push(Mark::Do(Act::Host(3 * US)));
                marks.push(Mark::Do(Act::Fence(COMPUTE, NCCL)));
                marks.push(Mark::Meet(meeting.clone(), *meetings));
                marks.extend([Mark::End, Mark::End]);
                *meetings += 1;
            }
            other => marks.push(Mark::Do(other.clone())),
        }
    }
}
