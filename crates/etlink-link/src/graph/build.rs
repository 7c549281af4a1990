//! Builds the nodes and edges of the graph.
//!
//! Every node gets a place in time. Program order, launches, stream order and waits become edges
//! from an earlier place to a later one. An edge that contradicts the measured times is counted but
//! not created. If a row waits longer than its causes, the wait becomes a node of its own.

use crate::device::calls::Does;
use crate::device::launch::Launches;
use crate::device::waits::Waits;
use crate::device::{row_end, row_name};
use crate::earlier_work::EarlierWork;
use crate::graph::draft::{Draft, SlotIdx};
use crate::graph::edges::{Edge, Edges};
use crate::graph::kinds::{EdgeKind, NoLaunch, NodeKind};
use crate::graph::nodes::Nodes;
use crate::host::Handoff;
use crate::host::recorded_waits::RecordedWait;
use crate::limits::{
    CLOCK_TOLERANCE, LAUNCH_LATENCY, PROGRAMMATIC_OVERLAP, ROUNDING, WAIT_LATENCY,
};
use crate::search::Groups;
use etlink_model::{
    Anomalies, AnomalyKind, CallIdx, CollectiveKind, DeviceTrace, DurationNs, NodeIdx, OpIdx,
    QueueIdx, RowIdx, ThreadIdx, TimeNs,
};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// The graph before its nodes are numbered.
struct Graph<'t> {
    device: &'t DeviceTrace,
    launches: &'t Launches,
    earlier: EarlierWork,
    waits: &'t Waits,
    draft: Draft,
    /// First slot of each call.
    call_slot: Vec<SlotIdx>,
    /// Slot that waits, for each wait of a call.
    waiting: Vec<Option<SlotIdx>>,
    /// Slot of each device row.
    row_slot: Vec<SlotIdx>,
    /// Rows that a call waited for but that start after its return, by the clocks: they are placed
    /// before the return.
    latest_place: FxHashMap<RowIdx, TimeNs>,
    /// All edges except program order.
    edges: Vec<SlotEdge>,
    anomalies: &'t mut Anomalies,
}

/// An edge between nodes without numbers.
#[derive(Clone, Copy, Debug)]
struct SlotEdge {
    to: SlotIdx,
    kind: EdgeKind,
    from: SlotIdx,
    inferred: bool,
}

/// Waits of host threads for each other.
#[derive(Clone, Copy)]
pub(crate) struct BetweenThreads<'t> {
    pub(crate) handoffs: &'t [Handoff],
    pub(crate) recorded: &'t [RecordedWait],
    /// Slot that ends with each recorded wait, if others wait for its end.
    pub(crate) release_slot: &'t [Option<SlotIdx>],
    /// Reader and writer of each tensor.
    pub(crate) tensors: &'t [(OpIdx, OpIdx)],
}

/// Largest number of calls between one that makes a stream wait for an event and the launch, such as
/// those that destroy the event.
const CALLS_BETWEEN: usize = 4;

/// Returns true if a row's device runs nothing between `launched` and the row's start. O(rows).
fn is_idle_from(device: &DeviceTrace, row: usize, launched: TimeNs) -> bool {
    let device_of = |row: usize| device.queues[device.rows.queue[row].index()].device;
    // rows are sorted by start
    let mut earlier = (0..row).filter(|other| device_of(*other) == device_of(row));
    earlier.all(|other| row_end(device, RowIdx::new(other)) <= launched)
}

/// Builds the graph. `op_communicates[op]` is true if the op is a collective without a device;
/// empty if there is no such op.
pub(crate) fn build(
    device: &DeviceTrace,
    draft: Draft,
    call_slot: Vec<SlotIdx>,
    launches: &Launches,
    (waits, between): (&Waits, BetweenThreads<'_>),
    op_communicates: &[bool],
    anomalies: &mut Anomalies,
) -> (Nodes, Edges) {
    let edges = Vec::with_capacity(2 * device.rows.len());
    let row_slot = vec![SlotIdx::default(); device.rows.len()];
    let mut graph = Graph {
        device,
        launches,
        earlier: EarlierWork::of_launches(device, launches),
        waits,
        draft,
        call_slot,
        waiting: vec![],
        row_slot,
        latest_place: FxHashMap::default(),
        edges,
        anomalies,
    };
    let begin = device.window().map_or(TimeNs(0), |(begin, _)| begin);
    graph.draft.add_boundaries(begin);
    graph.add_handoffs(between.handoffs);
    graph.add_recorded_waits(between);
    graph.add_tensors(between.tensors);
    graph.place_host_waits();
    // Host waits come before rows: they move the ends of slices, and a launch's end is a slice's
    // end.
    graph.add_rows(begin);
    graph.add_waits();
    graph.finish(op_communicates)
}

/// Causes that a row waits for.
#[derive(Default)]
struct Causes {
    /// End of the last cause.
    end: Option<TimeNs>,
    /// Maximum time from there to the row's start.
    limit: DurationNs,
}

impl Causes {
    fn add(&mut self, end: TimeNs, limit: DurationNs) {
        if self.end.is_none_or(|latest| end > latest) {
            (self.end, self.limit) = (Some(end), limit);
        }
    }

    /// Returns the delay needed before a row that starts at `start`, and the start of the delay.
    /// `from_before`: the row may wait for something that began before the recording.
    fn delay(&self, start: TimeNs, begin: TimeNs, from_before: bool) -> Option<(NodeKind, TimeNs)> {
        let is_late = self.end.is_none_or(|end| start - end > self.limit);
        let delay = if from_before {
            (NodeKind::Boundary, begin)
        } else {
            (NodeKind::UnexplainedWait, self.end.unwrap_or(begin))
        };
        is_late.then_some(delay)
    }
}

/// The node that runs up to the launch of a row, its end, and the maximum time from there to the
/// row's start.
#[derive(Clone, Copy)]
struct Launch {
    slot: SlotIdx,
    end: TimeNs,
    limit: DurationNs,
}

impl Graph<'_> {
    fn edge(&mut self, kind: EdgeKind, from: SlotIdx, to: SlotIdx) {
        self.edges.push(SlotEdge {
            to,
            kind,
            from,
            inferred: false,
        });
    }

    /// Adds edges from the giver to handed-over work, and from that work to what came after it.
    fn add_handoffs(&mut self, handoffs: &[Handoff]) {
        for handoff in handoffs {
            let back = handoff
                .back()
                .and_then(|back| self.draft.around(handoff.producer, back).1);
            let given = self.draft.around(handoff.producer, handoff.given).0;
            let (first, last) = (
                self.draft.around(handoff.consumer, handoff.start).1,
                self.draft.around(handoff.consumer, handoff.end).0,
            );
            // A consumer that did nothing before has only its boundary there, which then takes no
            // time: its thread may have been created for this work.
            let first = match handoff.idle {
                None => self.draft.tracks[handoff.consumer.index()].start,
                Some(_) => first.unwrap_or_default(),
            };
            if handoff.idle.is_none() {
                self.draft.end_boundary(first);
            }
            for (from, to) in [(given, Some(first)), (last, back)]
                .into_iter()
                .filter_map(|(from, to)| from.zip(to))
            {
                self.edges.push(SlotEdge {
                    to,
                    kind: EdgeKind::Handoff,
                    from,
                    inferred: handoff.inferred,
                });
            }
        }
    }

    /// Adds edges from releases to the work after the recorded waits that they ended.
    fn add_recorded_waits(&mut self, between: BetweenThreads<'_>) {
        for wait in between.recorded {
            let released = wait.after.and_then(|after| between.release_slot[after]);
            let Some(from) = released else { continue };
            let Some(mut to) = self.draft.around(wait.thread, wait.end).1 else {
                continue;
            };
            let boundary = self.draft.tracks[wait.thread.index()].start;
            // A thread started by another one did not exist before.
            let is_first = boundary.after() == to && wait.start == wait.end;
            if is_first && self.draft.place(to) == wait.end {
                self.draft.end_boundary(boundary);
                to = boundary;
            }
            self.edge(EdgeKind::Handoff, from, to);
        }
    }

    /// Adds edges from writers of tensors to readers on other threads, unless another edge between
    /// the two threads implies them.
    fn add_tensors(&mut self, tensors: &[(OpIdx, OpIdx)]) {
        let (ops, draft) = (&self.device.ops, &self.draft);
        let mut known: FxHashMap<(ThreadIdx, ThreadIdx), Vec<(SlotIdx, SlotIdx)>> =
            FxHashMap::default();
        // For each pair of threads, `known` lists which slices of one already follow which of the
        // other. A tensor edge implied by such an edge would only add noise.
        for SlotEdge { to, from, .. } in &self.edges {
            known
                .entry((draft.thread(*to), draft.thread(*from)))
                .or_default()
                .push((*to, *from));
        }
        for pairs in known.values_mut() {
            pairs.sort_unstable();
            let mut latest = SlotIdx::default();
            pairs
                .iter_mut()
                // All later slices of a thread follow whatever a slice follows: a running maximum
                // makes one look-up sufficient.
                .for_each(|(_, from)| (latest, *from) = (latest.max(*from), latest.max(*from)));
        }
        for &(reader, writer) in tensors {
            let threads = (ops.thread[reader.index()], ops.thread[writer.index()]);
            if threads.0 == threads.1 {
                continue;
            }
            let (begun, ended) = (ops.start[reader.index()], op_end(self.device, writer));
            // Storage ids are addresses and come back after a free, and in-place ops can write
            // while others read: times decide.
            if ended > begun {
                self.anomalies.note(AnomalyKind::TensorContradicted, || {
                    self.device.names.get(ops.name[reader.index()]).to_owned()
                });
                continue;
            }
            let ends = (
                draft.around(threads.1, ended).0,
                draft.around(threads.0, begun).1,
            );
            let (Some(from), Some(to)) = ends else {
                continue;
            };
            let before = known.entry(threads).or_default();
            let at = before.partition_point(|(other, _)| *other <= to);
            if at == 0 || before[at - 1].1 < from {
                before.insert(at, (to, from));
                self.edges.push(SlotEdge {
                    to,
                    kind: EdgeKind::Tensor,
                    from,
                    inferred: false,
                });
            }
        }
    }

    /// Makes calls that waited continue at the end of the last row they waited for.
    fn place_host_waits(&mut self) {
        for poll in &self.waits.polls {
            let (first, last) = (poll.first.index(), poll.last.index());
            self.draft
                .wait_between(self.call_slot[first], self.call_slot[last]);
        }
        let (rows, calls) = (&self.device.rows, &self.device.calls);
        for waits in self.waits.calls.chunk_by(|wait, next| wait.to == next.to) {
            let call = waits[0].to.index();
            let returned = calls.start[call] + calls.duration[call];
            // A call cannot continue before the row it waited for has begun, whatever clock error
            // affects the row's end.
            let mut begun = TimeNs(i64::MIN);
            for wait in waits {
                let mut start = rows.start[wait.from.index()];
                if start >= returned {
                    start = returned.shifted(-1);
                    self.latest_place.insert(wait.from, start);
                }
                begun = begun.max(start);
            }
            let until = waits
                .iter()
                .map(|wait| row_end(self.device, wait.from))
                .max()
                .unwrap_or_default();
            let released = self.waits.released.get(&waits[0].to).copied();
            let until = until.max(released.unwrap_or(until));
            // later than the row's start, even if the row has no length
            let until = until.max(begun + DurationNs(1));
            let slot = self
                .draft
                .wait_in(self.call_slot[call], returned, begun, until);
            self.waiting.extend(waits.iter().map(|_| slot));
        }
    }

    /// Adds device rows, queue by queue, with their launches, their predecessors, and unexplained
    /// delays.
    fn add_rows(&mut self, begin: TimeNs) {
        let rows = &self.device.rows;
        let queues = Groups::<QueueIdx, RowIdx>::new(&rows.queue, self.device.queues.len());
        for queue in (0..self.device.queues.len()).map(QueueIdx::new) {
            let first = self.draft.next_row();
            let mut order = QueueOrder::default();
            let mut place = begin;
            for &row in queues.rows(queue) {
                let at = row.index();
                let (start, end) = (rows.start[at], row_end(self.device, row));
                let launch = self.launch_of(row);
                let ended = order.ended_by(start);
                let overlapped = order.overlapped_by(start, end);
                let overlapped = overlapped.filter(|before| self.overlap_in_order(before.row, row));
                let mut causes = self.causes(row, launch);
                let follows = ended.iter().chain(&overlapped);
                follows
                    .clone()
                    .for_each(|previous| causes.add(previous.end, WAIT_LATENCY));
                // Only the first row of a queue can be delayed by the time before the recording.
                let is_first = self.draft.next_row() == first;
                let from_before = is_first && self.may_wait_for_earlier_work(row);
                let delay = causes.delay(start, begin, from_before);
                // Places on a queue never decrease, nor precede the launch: clocks can show a row
                // before the node that launched it, and edges must lead to higher numbers.
                let latest = self.latest_place.get(&row);
                let mut own_place = place.max(latest.map_or(start, |latest| start.min(*latest)));
                if let Some(launch) = launch {
                    own_place = own_place.max(self.draft.place(launch.slot));
                }
                let delay = delay.map(|(kind, from)| {
                    let delay_place = place.max(from).min(own_place);
                    (kind, self.draft.add_row(kind, row, queue, delay_place))
                });
                place = own_place;
                let kind = if self.launches.collective[at] {
                    NodeKind::Collective
                } else {
                    NodeKind::DeviceOp
                };
                let slot = self.draft.add_row(kind, row, queue, place);
                self.row_slot[at] = slot;
                let mut waits = slot;
                if let Some((kind, delay)) = delay {
                    self.edge(EdgeKind::StreamOrder, delay, slot);
                    // An unexplained wait takes over the causes of its row: it begins at their end.
                    // A boundary has none, as it is the time before the recording.
                    waits = if kind == NodeKind::Boundary {
                        slot
                    } else {
                        delay
                    };
                }
                if let Some(launch) = launch {
                    self.edge(EdgeKind::Launch, launch.slot, waits);
                }
                follows.for_each(|previous| self.edge(EdgeKind::StreamOrder, previous.slot, waits));
                let is_ordered = overlapped.is_some();
                let stretch = Stretch {
                    end,
                    start,
                    slot,
                    row,
                };
                let overlaps = order.push(stretch, ended);
                if overlaps && !is_ordered {
                    self.anomalies
                        .note(AnomalyKind::StreamOverlap, || row_name(self.device, row));
                }
            }
            self.draft.close_queue(first);
        }
    }

    /// Returns true if the first row of a queue may wait for work from before the recording.
    fn may_wait_for_earlier_work(&self, row: RowIdx) -> bool {
        let (calls, row) = (&self.device.calls, row.index());
        match self.launches.row_call[row].get() {
            Some(call) if self.launches.no_launch[row] == NoLaunch::Launched => {
                let launched = calls.start[call.index()] + calls.duration[call.index()];
                self.earlier.may_delay(self.device, row, launched)
                    || self.follows_event_wait(call) && is_idle_from(self.device, row, launched)
            }
            _ => true,
        }
    }

    /// Returns true if the last call of a thread before a launch that concerns a stream makes it
    /// wait for an event.
    fn follows_event_wait(&self, launch: CallIdx) -> bool {
        let calls = &self.device.calls;
        let thread = calls.thread[launch.index()];
        let of_thread = (0..launch.index())
            .rev()
            .filter(|call| calls.thread[*call] == thread);
        let names = of_thread.map(|call| self.device.names.get(calls.name[call]));
        let mut near = names.take(CALLS_BETWEEN);
        near.find(|name| Does::of(name) != Does::Other || name.contains("Launch"))
            .is_some_and(|name| Does::of(name) == Does::StreamWait)
    }

    /// True if a row follows the row before it on its stream although that one still runs when the
    /// row starts, and ends no later.
    ///
    /// With programmatic dependent launch, a kernel starts when its predecessor lets it, and waits
    /// for the predecessor's end inside (CUDA Programming Guide, "Programmatic Dependent Launch and
    /// Synchronization"). Branches of a graph launch, and rows of several processes, can run in
    /// parallel on a stream: they are ordered only if they hardly overlap.
    fn overlap_in_order(&self, before: RowIdx, row: RowIdx) -> bool {
        let call_of = |row: RowIdx| self.launches.row_call[row.index()].get();
        let process_of = |call: CallIdx| {
            let thread = self.device.calls.thread[call.index()];
            self.device.threads[thread.index()].pid
        };
        let is_later_launch = call_of(before)
            .zip(call_of(row))
            .is_some_and(|(one, other)| one < other && process_of(one) == process_of(other));
        let overlap = row_end(self.device, before) - self.device.rows.start[row.index()];
        is_later_launch || overlap <= PROGRAMMATIC_OVERLAP
    }

    /// Returns a row's launch and event waits.
    fn causes(&self, row: RowIdx, launch: Option<Launch>) -> Causes {
        let mut causes = Causes::default();
        if let Some(launch) = launch {
            causes.add(launch.end, launch.limit);
        }
        let waits = &self.waits.rows;
        // The waits are sorted by `to`, but rows come by queue.
        let waits = &waits[waits.partition_point(|wait| wait.to < row)..];
        let waits = waits.iter().take_while(|wait| wait.to == row);
        waits.for_each(|wait| causes.add(row_end(self.device, wait.from), WAIT_LATENCY));
        causes
    }

    /// Returns the node that launched a row: what ran before the call, or the call itself if it
    /// took long (it loads modules or copies to staging memory) and the row began when it returned.
    /// `None` if there is no launch or the times contradict it.
    fn launch_of(&mut self, row: RowIdx) -> Option<Launch> {
        let call = self.launches.row_call[row.index()].get()?.index();
        if self.launches.no_launch[row.index()] == NoLaunch::StartsBeforeCall {
            self.anomalies.note(AnomalyKind::StartBeforeLaunch, || {
                row_name(self.device, row)
            });
            return None;
        }
        let (begun, ended) = (
            self.device.calls.start[call],
            self.device.calls.start[call] + self.device.calls.duration[call],
        );
        let (start, slot) = (self.device.rows.start[row.index()], self.call_slot[call]);
        // The id shows that the row belongs to this call, whatever the clocks show.
        if begun > start + CLOCK_TOLERANCE {
            self.anomalies
                .note(AnomalyKind::LaunchCorrected, || row_name(self.device, row));
        }
        // A first launch loads its module lazily (`CUDA_MODULE_LOADING=LAZY`), and a pageable copy
        // is staged: such a call works long before the row can start. The row starts about when the
        // call returns, for some calls a few microseconds earlier. The row of a short call can be
        // late as well, due to earlier work on its stream.
        let is_long = ended - begun > WAIT_LATENCY && start - begun > LAUNCH_LATENCY;
        let ends_near = is_long && ended <= start + WAIT_LATENCY;
        // A call that waits for its own row has launched it before the wait.
        let own_wait = (CallIdx::new(call), row);
        let waits = &self.waits.calls;
        let waits_for_row = waits.binary_search_by_key(&own_wait, |wait| (wait.to, wait.from));
        let long = ends_near && waits_for_row.is_err();
        if long && let Some(last) = self.draft.last_ended(slot, ended) {
            return Some(Launch {
                slot: last,
                end: ended,
                limit: LAUNCH_LATENCY,
            });
        }
        // before the call there is at least a boundary
        let limit = LAUNCH_LATENCY.max(self.device.calls.duration[call]);
        slot.before().map(|slot| Launch {
            slot,
            end: begun,
            limit,
        })
    }

    /// Adds edges for rows that wait for other queues, and for calls that wait for rows.
    fn add_waits(&mut self) {
        for wait in &self.waits.rows {
            let (from, row) = (
                self.row_slot[wait.from.index()],
                self.row_slot[wait.to.index()],
            );
            let delay = row.before();
            let delay = delay.filter(|delay| self.draft.is_wait(*delay));
            let to = delay.unwrap_or(row);
            // A clock error can put the cause's place after the effect's; moving one place corrects
            // that if the queue allows it.
            self.draft.move_behind(to, from);
            self.edges.push(SlotEdge {
                to,
                kind: EdgeKind::EventWait,
                from,
                inferred: wait.inferred,
            });
        }
        for (wait, to) in self.waits.calls.iter().zip(&self.waiting) {
            let from = self.row_slot[wait.from.index()];
            match *to {
                Some(to) => self.edges.push(SlotEdge {
                    to,
                    kind: EdgeKind::HostWait,
                    from,
                    inferred: wait.inferred,
                }),
                // `wait_in` found other work in the last part of the call: it cannot have waited
                // there.
                None => {
                    self.anomalies.note(AnomalyKind::WaitContradicted, || {
                        row_name(self.device, wait.from)
                    });
                }
            }
        }
    }

    /// Numbers the nodes by place.
    fn finish(self, op_communicates: &[bool]) -> (Nodes, Edges) {
        let Graph {
            device,
            mut draft,
            edges,
            anomalies,
            ..
        } = self;
        let (order, slots) = (draft.order(), draft.next_row());
        let (track, on_device) = draft.node_tracks(&order);
        // Plain numbers: zeros of slots without a node take no memory.
        let mut numbers = vec![0u32; slots.index()];
        for (slot, number) in order.iter().zip(0..) {
            numbers[slot.index()] = number;
        }
        let node_at = |slot: SlotIdx| NodeIdx(numbers[slot.index()]);
        let wait_gaps: Vec<(NodeIdx, DurationNs)> = draft
            .wait_gaps
            .iter()
            // The gap is before the slot, so the preceding slot's length must exclude it.
            .filter_map(|(slot, waited)| Some((node_at(slot.before()?), *waited)))
            .collect();
        let mut contradicted = 0;
        let numbered = edges.into_iter().filter_map(|edge| {
            let (from, to) = (node_at(edge.from), node_at(edge.to));
            // Numbers follow places, so an edge to a lower number contradicts the times. Dropping
            // it here makes the graph acyclic.
            if from >= to {
                contradicted += 1;
                return None;
            }
            Some(Edge {
                to,
                kind: edge.kind,
                from,
                inferred: edge.inferred,
            })
        });
        // collected in place, without a copy
        let edges: Vec<Edge> = numbered.collect();
        drop(numbers);
        anomalies.add(AnomalyKind::WaitContradicted, contradicted, None);
        let (mut nodes, edges) = rayon::join(
            || draft.nodes(&order, device, op_communicates),
            || {
                let mut last = vec![NodeIdx::NONE; device.threads.len()];
                let before = |node: NodeIdx| {
                    let at = node.index();
                    // Queues have explicit stream order, since their rows can overlap; a thread
                    // does one thing at a time.
                    if on_device[at] {
                        NodeIdx::NONE
                    } else {
                        std::mem::replace(&mut last[track[at].index()], node)
                    }
                };
                let nodes = 0..order.len();
                Edges::chained(nodes.map(NodeIdx::new).map(before), edges)
            },
        );
        for (node, waited) in wait_gaps {
            // A slice's length is the distance to the next place, which includes the wait gap.
            nodes.duration[node.index()].0 -= waited.0;
        }
        (
            Nodes {
                track,
                on_device,
                ..nodes
            },
            edges,
        )
    }
}

fn op_end(device: &DeviceTrace, op: OpIdx) -> TimeNs {
    device.ops.start[op.index()] + device.ops.duration[op.index()]
}

/// A row of a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    end: TimeNs,
    start: TimeNs,
    slot: SlotIdx,
    row: RowIdx,
}

/// Finds the predecessors of each row of a queue: the rows that end before it starts and that no
/// other such row follows. There is only one unless rows overlap.
#[derive(Default)]
struct QueueOrder {
    running: BinaryHeap<Reverse<Stretch>>,
    ended: Vec<Stretch>,
    /// Row with the latest end so far.
    last: Option<Stretch>,
}

impl QueueOrder {
    /// Returns the predecessors of a row that starts at `start`.
    fn ended_by(&mut self, start: TimeNs) -> Vec<Stretch> {
        // rows of one queue overlap by as much as both ends are rounded
        let ended_by = start + ROUNDING;
        while let Some(&Reverse(next)) = self.running.peek().filter(|next| next.0.end <= ended_by) {
            self.running.pop();
            // predecessors of `next` need no second follower
            self.ended
                .retain(|earlier| earlier.slot >= next.slot || earlier.end > next.start + ROUNDING);
            self.ended.push(next);
        }
        std::mem::take(&mut self.ended)
    }

    /// Returns the row that still runs at `start` and ends by `end`. Of several, the last to end,
    /// since the others end before it.
    fn overlapped_by(&self, start: TimeNs, end: TimeNs) -> Option<Stretch> {
        self.last
            .filter(|last| last.end > start + ROUNDING && last.end <= end)
    }

    /// Adds a row. Returns true if it overlaps another.
    fn push(&mut self, row: Stretch, ended: Vec<Stretch>) -> bool {
        self.ended = ended;
        self.last = self.last.max(Some(row));
        self.running.push(Reverse(row));
        self.running.len() > 1
    }
}

/// Returns, per CPU op, true if it is a collective that no device row carries out. If collectives
/// run on devices, a record without its own row is a wait, or was launched with others. `lost`
/// lists the ops whose rows were lost.
pub(crate) fn host_collectives(
    device: &DeviceTrace,
    launches: &Launches,
    lost: &BTreeSet<OpIdx>,
    kind_of: impl Fn(OpIdx) -> Option<CollectiveKind>,
) -> Vec<bool> {
    // With NCCL, the device row is the collective. `record_param_comms` of `wait` or of a coalesced
    // group has no row, and would count twice.
    if launches.collective.contains(&true) {
        return vec![];
    }
    let is_collective = |op: OpIdx| {
        kind_of(op).is_some_and(|kind| kind != CollectiveKind::Other) && !lost.contains(&op)
    };
    let ops = (0..device.ops.len()).map(OpIdx::new);
    ops.map(is_collective).collect()
}

#[cfg(test)]
mod tests;
