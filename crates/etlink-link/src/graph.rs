//! Nodes and edges.
//!
//! Every node gets a place in time; program order, launch and stream order become edges
//! from an earlier place to a later one. An edge that the measured times contradict is not
//! made but counted.

use crate::launch::{CLOCK_TOLERANCE_NS, Launches};
use crate::nest::{Owner, Slice};
use crate::trace::{Edge, EdgeKind, Edges, NoLaunch, Node, NodeKind, Nodes};
use etlink_model::{Anomalies, AnomalyKind, CollectiveKind, DeviceTrace, OpIdx, TimeNs};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rows of one queue may overlap this much and still be in order: both ends are rounded.
const QUEUE_ROUNDING_NS: i64 = 1_000;

/// Nodes before they are numbered, and edges between their emission numbers.
struct Draft<'t> {
    device: &'t DeviceTrace,
    nodes: Nodes,
    /// Per node its place in time. Of one instant host nodes come first, then as emitted.
    places: Vec<TimeNs>,
    edges: Vec<Edge>,
    /// Per call: the node that runs up to its start.
    before_call: Vec<u32>,
}

/// Builds the graph. `op_communicates[op]`: the op is a collective in which no device takes part.
pub(crate) fn build(
    device: &DeviceTrace,
    threads: Vec<Vec<Slice>>,
    launches: &Launches,
    op_communicates: &[bool],
    anomalies: &mut Anomalies,
) -> (Nodes, Edges) {
    let mut draft = Draft { device, nodes: Nodes::default(), places: vec![], edges: vec![], before_call: vec![u32::MAX; device.calls.len()] };
    let mut launching = vec![false; device.calls.len()];
    launches.row_call.iter().filter_map(|call| call.get()).for_each(|call| launching[call.index()] = true);
    for (slices, thread) in threads.into_iter().zip(0..) {
        draft.add_thread(thread, &slices, op_communicates, &launching);
    }
    draft.add_rows(launches, anomalies);
    draft.finish()
}

impl Draft<'_> {
    fn emit(&mut self, node: Node, at: TimeNs) -> u32 {
        let number = self.nodes.len() as u32;
        self.nodes.push(node);
        self.places.push(at);
        number
    }

    fn edge(&mut self, kind: EdgeKind, from: u32, to: u32) {
        self.edges.push(Edge { to, kind, from });
    }

    /// Slices of a thread, chained in program order.
    fn add_thread(&mut self, thread: u32, slices: &[Slice], op_communicates: &[bool], launching: &[bool]) {
        let mut last = None;
        let mut slice_number = SliceNumbers::new(slices);
        for slice in slices {
            if let (Owner::Call(call), None) = (slice.owner, last)
                && launching[call as usize]
            {
                let head = Node { kind: NodeKind::Boundary, source: u32::MAX, resource: thread, start: slice.start, ..Node::default() };
                last = Some(self.emit(head, slice.start));
            }
            let number = slice_number.next(slice.owner);
            let (kind, source) = self.kind(slice.owner, number, op_communicates);
            let node =
                Node { kind, source, slice: number, on_device: false, resource: thread, start: slice.start, duration: slice.end - slice.start };
            let id = self.emit(node, slice.start);
            if let (Owner::Call(call), 0) = (slice.owner, number) {
                self.before_call[call as usize] = last.unwrap_or(u32::MAX);
            }
            if let Some(last) = last {
                self.edge(EdgeKind::ProgramOrder, last, id);
            }
            last = Some(id);
        }
    }

    fn kind(&self, owner: Owner, slice: u32, op_communicates: &[bool]) -> (NodeKind, u32) {
        match owner {
            Owner::Gap => (NodeKind::HostGap, u32::MAX),
            Owner::Call(call) => (NodeKind::Runtime, call),
            Owner::Op(op) if slice == 0 && op_communicates[op as usize] => (NodeKind::Collective, op),
            Owner::Op(op) if is_scope(self.device, op as usize) => (NodeKind::HostGap, op),
            Owner::Op(op) => (NodeKind::HostOp, op),
        }
    }

    /// Device rows, queue by queue, with their launch and the row that they follow.
    fn add_rows(&mut self, launches: &Launches, anomalies: &mut Anomalies) {
        let device = self.device;
        let mut queues: Vec<Vec<u32>> = vec![vec![]; device.queues.len()];
        device.rows.queue.iter().enumerate().for_each(|(row, queue)| queues[queue.index()].push(row as u32));
        for rows in queues {
            let mut order = QueueOrder::default();
            let mut latest = TimeNs(i64::MIN);
            for row in rows {
                let at = row as usize;
                let (start, duration) = (device.rows.start[at], device.rows.duration[at]);
                let before = self.launched_by(launches, at, anomalies);
                let launch_start = before.map_or(start, |node| self.places[node as usize]);
                latest = latest.max(start).max(launch_start);
                let kind = if launches.collective[at] { NodeKind::Collective } else { NodeKind::DeviceOp };
                let node = Node { kind, source: row, slice: 0, on_device: true, resource: device.rows.queue[at].0, start, duration };
                let id = self.emit(node, latest);
                if let Some(before) = before {
                    self.edge(EdgeKind::Launch, before, id);
                }
                for previous in order.follow(id, start, start + duration, || format!("{:?}", device.names.get(device.rows.name[at])), anomalies) {
                    self.edge(EdgeKind::StreamOrder, previous.row, id);
                }
            }
        }
    }

    /// The node that runs up to the launch of a row. `None` where there is no launch or the times contradict it.
    fn launched_by(&self, launches: &Launches, row: usize, anomalies: &mut Anomalies) -> Option<u32> {
        let call = launches.row_call[row].get()?;
        if launches.no_launch[row] == NoLaunch::StartsBeforeCall {
            anomalies.note(AnomalyKind::StartBeforeLaunch, || format!("{:?}", self.device.names.get(self.device.rows.name[row])));
            return None;
        }
        let before = self.before_call[call.index()];
        let node = (before != u32::MAX).then(|| self.nodes.get(before as usize))?;
        debug_assert!((node.start + node.duration).0 <= self.device.rows.start[row].0.saturating_add(CLOCK_TOLERANCE_NS));
        Some(before)
    }

    /// Numbers the nodes by place.
    fn finish(mut self) -> (Nodes, Edges) {
        let mut order: Vec<u32> = (0..self.nodes.len() as u32).collect();
        order.sort_unstable_by_key(|&at| (self.places[at as usize], self.nodes.on_device[at as usize], at));
        self.nodes.reorder(&order);
        let mut number = vec![0u32; order.len()];
        order.iter().zip(0..).for_each(|(&at, place)| number[at as usize] = place);
        for edge in &mut self.edges {
            (edge.to, edge.from) = (number[edge.to as usize], number[edge.from as usize]);
        }
        let edges = Edges::new(self.edges, self.nodes.len());
        debug_assert!(edges.all().iter().all(|edge| edge.from < edge.to), "every edge goes forward");
        (self.nodes, edges)
    }
}

/// Whether an op only names a stretch of its thread's time. Backends annotate the work of
/// their own threads too (`gloo:all_reduce`), which is no scope.
fn is_scope(device: &DeviceTrace, op: usize) -> bool {
    let name = device.names.get(device.ops.name[op]);
    device.ops.annotation[op] && !["gloo:", "nccl:", "mpi:", "ucc:", "xccl:"].iter().any(|backend| name.starts_with(backend))
}

/// Counts the slices of each op and call of a thread.
struct SliceNumbers {
    first: u32,
    ops: Vec<u32>,
    first_call: u32,
    calls: Vec<u32>,
}

impl SliceNumbers {
    fn new(slices: &[Slice]) -> Self {
        let range = |pick: fn(Owner) -> Option<u32>| {
            let numbers = slices.iter().filter_map(|slice| pick(slice.owner));
            let (low, high) = numbers.fold((u32::MAX, 0), |(low, high), n| (low.min(n), high.max(n + 1)));
            (low, vec![0; high.saturating_sub(low) as usize])
        };
        let (first, ops) = range(|owner| if let Owner::Op(op) = owner { Some(op) } else { None });
        let (first_call, calls) = range(|owner| if let Owner::Call(call) = owner { Some(call) } else { None });
        SliceNumbers { first, ops, first_call, calls }
    }

    fn next(&mut self, owner: Owner) -> u32 {
        let count = match owner {
            Owner::Op(op) => &mut self.ops[(op - self.first) as usize],
            Owner::Call(call) => &mut self.calls[(call - self.first_call) as usize],
            Owner::Gap => return 0,
        };
        *count += 1;
        *count - 1
    }
}

/// A row of a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    end: TimeNs,
    start: TimeNs,
    row: u32,
}

/// Finds what each row of a queue follows: the rows that ended before it starts and that no
/// other such row follows. There is one but where rows overlap.
#[derive(Default)]
struct QueueOrder {
    running: BinaryHeap<Reverse<Stretch>>,
    ended: Vec<Stretch>,
}

impl QueueOrder {
    fn follow(&mut self, row: u32, start: TimeNs, end: TimeNs, name: impl FnOnce() -> String, anomalies: &mut Anomalies) -> &[Stretch] {
        let ended_by = TimeNs(start.0.saturating_add(QUEUE_ROUNDING_NS));
        while let Some(&Reverse(next)) = self.running.peek().filter(|next| next.0.end <= ended_by) {
            self.running.pop();
            // what `next` followed itself needs no second follower
            let followed = |earlier: &Stretch| earlier.row < next.row && earlier.end.0 <= next.start.0.saturating_add(QUEUE_ROUNDING_NS);
            self.ended.retain(|earlier| !followed(earlier));
            self.ended.push(next);
        }
        if !self.running.is_empty() {
            anomalies.note(AnomalyKind::StreamOverlap, name);
        }
        self.running.push(Reverse(Stretch { end, start, row }));
        &self.ended
    }
}

/// Per CPU op: whether it is a collective that no device row carries out. Where collectives run
/// on devices, a record without a row of its own is a wait, or was launched with others.
pub(crate) fn host_collectives(device: &DeviceTrace, launches: &Launches, kind_of: impl Fn(OpIdx) -> Option<CollectiveKind>) -> Vec<bool> {
    if launches.collective.contains(&true) {
        return vec![false; device.ops.len()];
    }
    (0..device.ops.len()).map(|op| kind_of(OpIdx::new(op)).is_some_and(|kind| kind != CollectiveKind::Other)).collect()
}
