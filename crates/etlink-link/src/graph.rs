//! Nodes and edges.
//!
//! Every node gets a place in time; program order, launch and stream order become edges
//! from an earlier place to a later one. An edge that the measured times contradict is not
//! made but counted.

use crate::draft::Draft;
use crate::edges::{Edge, Edges};
use crate::launch::{CLOCK_TOLERANCE_NS, Launches};
use crate::search::Groups;
use crate::trace::{EdgeKind, NoLaunch, NodeKind, Nodes};
use etlink_model::{Anomalies, AnomalyKind, CollectiveKind, DeviceTrace, OpIdx, TimeNs};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rows of one queue may overlap this much and still be in order: both ends are rounded.
const QUEUE_ROUNDING_NS: i64 = 1_000;

/// The graph before its nodes are numbered.
struct Graph<'t> {
    device: &'t DeviceTrace,
    launches: &'t Launches,
    draft: Draft,
    call_slot: Vec<u32>,
    /// Edges between slots, all but program order.
    edges: Vec<Edge>,
}

/// Builds the graph. `op_communicates[op]`: the op is a collective in which no device takes part;
/// empty where no op is.
pub(crate) fn build(
    device: &DeviceTrace,
    draft: Draft,
    call_slot: Vec<u32>,
    launches: &Launches,
    op_communicates: &[bool],
    anomalies: &mut Anomalies,
) -> (Nodes, Edges) {
    let edges = Vec::with_capacity(2 * device.rows.len());
    let mut graph = Graph { device, launches, draft, call_slot, edges };
    graph.add_boundaries();
    graph.add_rows(anomalies);
    graph.finish(op_communicates)
}

impl Graph<'_> {
    fn edge(&mut self, kind: EdgeKind, from: u32, to: u32) {
        self.edges.push(Edge { to, kind, from });
    }

    /// A thread that begins with a call that launches has a boundary before it.
    fn add_boundaries(&mut self) {
        for call in self.launches.row_call.iter().filter_map(|call| call.get()) {
            let thread = self.device.calls.thread[call.index()].index();
            if self.call_slot[call.index()] == self.draft.tracks[thread].start {
                self.draft.add_boundary(thread);
            }
        }
    }

    /// Device rows, queue by queue, with their launch and the rows that they follow.
    fn add_rows(&mut self, anomalies: &mut Anomalies) {
        let rows = &self.device.rows;
        let queues = Groups::new(rows.queue.iter().map(|queue| queue.index()), self.device.queues.len());
        for queue in 0..self.device.queues.len() {
            let first = self.draft.next_row();
            let mut order = QueueOrder::default();
            let mut latest = TimeNs(i64::MIN);
            for &row in queues.of(queue) {
                let at = row as usize;
                let (start, duration) = (rows.start[at], rows.duration[at]);
                let before = self.launched_by(at, anomalies);
                let launch_start = before.map_or(start, |slot| self.draft.place(slot));
                latest = latest.max(start).max(launch_start);
                let kind = if self.launches.collective[at] { NodeKind::Collective } else { NodeKind::DeviceOp };
                let slot = self.draft.add_row(kind, row, queue as u32, latest);
                if let Some(before) = before {
                    self.edge(EdgeKind::Launch, before, slot);
                }
                for previous in order.follow(slot, start, start + duration, || self.row_name(at), anomalies) {
                    self.edges.push(Edge { to: slot, kind: EdgeKind::StreamOrder, from: previous.slot });
                }
            }
            self.draft.close_queue(first);
        }
    }

    fn row_name(&self, row: usize) -> String {
        format!("{:?}", self.device.names.get(self.device.rows.name[row]))
    }

    /// The node that runs up to the launch of a row. `None` where there is no launch or the times contradict it.
    fn launched_by(&self, row: usize, anomalies: &mut Anomalies) -> Option<u32> {
        let call = self.launches.row_call[row].get()?;
        if self.launches.no_launch[row] == NoLaunch::StartsBeforeCall {
            anomalies.note(AnomalyKind::StartBeforeLaunch, || self.row_name(row));
            return None;
        }
        let thread = self.device.calls.thread[call.index()].index();
        let slot = self.call_slot[call.index()];
        debug_assert!(self.draft.place(slot).0 <= self.device.rows.start[row].0.saturating_add(CLOCK_TOLERANCE_NS));
        slot.checked_sub(1).filter(|before| *before >= self.draft.tracks[thread].start)
    }

    /// Numbers the nodes by place.
    fn finish(self, op_communicates: &[bool]) -> (Nodes, Edges) {
        let Graph { device, mut draft, edges, .. } = self;
        let (order, slots) = (draft.order(), draft.next_row());
        let (resource, on_device) = draft.resources(&order);
        let (nodes, edges) = rayon::join(
            || draft.nodes(&order, device, op_communicates),
            || {
                let edges = numbered(edges, &order, slots);
                let mut last = vec![u32::MAX; device.threads.len()];
                let before = |node: usize| {
                    if on_device[node] { u32::MAX } else { std::mem::replace(&mut last[resource[node] as usize], node as u32) }
                };
                Edges::chained((0..order.len()).map(before), edges)
            },
        );
        debug_assert!(edges.iter().all(|edge| edge.from < edge.to), "every edge goes forward");
        (Nodes { resource, on_device, ..nodes }, edges)
    }
}

/// Edges between slots as edges between nodes, which are numbered in `order`.
fn numbered(mut edges: Vec<Edge>, order: &[u32], slots: u32) -> Vec<Edge> {
    let mut number = vec![0u32; slots as usize];
    order.iter().zip(0..).for_each(|(&slot, node)| number[slot as usize] = node);
    edges.iter_mut().for_each(|edge| (edge.to, edge.from) = (number[edge.to as usize], number[edge.from as usize]));
    edges
}

/// A row of a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    end: TimeNs,
    start: TimeNs,
    slot: u32,
}

/// Finds what each row of a queue follows: the rows that ended before it starts and that no
/// other such row follows. There is one but where rows overlap.
#[derive(Default)]
struct QueueOrder {
    running: BinaryHeap<Reverse<Stretch>>,
    ended: Vec<Stretch>,
}

impl QueueOrder {
    fn follow(&mut self, slot: u32, start: TimeNs, end: TimeNs, name: impl FnOnce() -> String, anomalies: &mut Anomalies) -> &[Stretch] {
        let ended_by = TimeNs(start.0.saturating_add(QUEUE_ROUNDING_NS));
        while let Some(&Reverse(next)) = self.running.peek().filter(|next| next.0.end <= ended_by) {
            self.running.pop();
            // what `next` followed itself needs no second follower
            let followed = |earlier: &Stretch| earlier.slot < next.slot && earlier.end.0 <= next.start.0.saturating_add(QUEUE_ROUNDING_NS);
            self.ended.retain(|earlier| !followed(earlier));
            self.ended.push(next);
        }
        if !self.running.is_empty() {
            anomalies.note(AnomalyKind::StreamOverlap, name);
        }
        self.running.push(Reverse(Stretch { end, start, slot }));
        &self.ended
    }
}

/// Per CPU op: whether it is a collective that no device row carries out. Where collectives run
/// on devices, a record without a row of its own is a wait, or was launched with others.
pub(crate) fn host_collectives(device: &DeviceTrace, launches: &Launches, kind_of: impl Fn(OpIdx) -> Option<CollectiveKind>) -> Vec<bool> {
    if launches.collective.contains(&true) {
        return vec![];
    }
    (0..device.ops.len()).map(|op| kind_of(OpIdx::new(op)).is_some_and(|kind| kind != CollectiveKind::Other)).collect()
}
