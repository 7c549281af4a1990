//! Ranges of a trace: whole ops, calls and rows, and all other recorded events, in order of time.

use etlink_link::ranks::WaitCause;
use etlink_link::{LinkedTrace, Node, NodeKind};
use etlink_model::{DurationNs, EventDetail, NodeIdx, OpIdx, TimeNs};
use std::cmp::Reverse;

/// A range of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TraceSlice {
    /// Row of the CPU ops.
    Op(u32),
    /// Row of the runtime calls.
    Call(u32),
    /// Row of the device rows.
    Row(u32),
    /// A node that is none of these, or a part of one that an arrow needs.
    Node(NodeIdx),
    /// Rest of a communication after the last rank has come, by the index of its release.
    Transfer(u32),
    /// Row of the synchronisation rows.
    Sync(u32),
    /// Row of the auxiliary events.
    Auxiliary(u32),
    /// Row of the allocations and frees: an instant.
    Memory(u32),
    /// Row of the events that no other table keeps.
    Other(u32),
}

impl TraceSlice {
    /// Returns the range that a node is part of.
    pub(super) fn of_node(index: NodeIdx, node: &Node) -> TraceSlice {
        match node.kind {
            NodeKind::Runtime => TraceSlice::Call(node.source),
            NodeKind::DeviceOp => TraceSlice::Row(node.source),
            NodeKind::Collective if node.on_device => TraceSlice::Row(node.source),
            NodeKind::HostOp | NodeKind::Collective => TraceSlice::Op(node.source),
            NodeKind::HostGap if OpIdx(node.source).get().is_some() => TraceSlice::Op(node.source),
            // a delay on a queue belongs to the row that it delays
            NodeKind::Boundary | NodeKind::UnexplainedWait if node.on_device => {
                TraceSlice::Row(node.source)
            }
            NodeKind::HostGap | NodeKind::Boundary | NodeKind::UnexplainedWait => {
                TraceSlice::Node(index)
            }
        }
    }

    /// Returns the device row of the range, if it is one.
    pub(super) fn device_row(self) -> Option<u32> {
        match self {
            TraceSlice::Row(row) => Some(row),
            _ => None,
        }
    }

    /// Returns true if the range is not recorded but exists for an arrow.
    pub(super) fn is_made(self) -> bool {
        matches!(self, TraceSlice::Node(_) | TraceSlice::Transfer(_))
    }
}

/// Constructor of a table's ranges, and number of rows.
type SliceTable = (fn(u32) -> TraceSlice, u32);

/// Ranges of a trace, and the first node of each op, call and row.
#[derive(Debug)]
pub(super) struct TraceSlices<'t> {
    pub(super) trace: &'t LinkedTrace,
    /// Waits between this rank and others, in both directions.
    pub(super) releases: &'t [WaitCause],
    op_node: Vec<NodeIdx>,
    call_node: Vec<NodeIdx>,
    row_node: Vec<NodeIdx>,
}

impl<'t> TraceSlices<'t> {
    /// Creates the ranges. O(nodes).
    pub(super) fn new(trace: &'t LinkedTrace, releases: &'t [WaitCause]) -> TraceSlices<'t> {
        let device = &trace.device;
        let [op_node, call_node, row_node] =
            [device.ops.len(), device.calls.len(), device.rows.len()]
                .map(|rows| vec![NodeIdx::NONE; rows]);
        let mut slices = TraceSlices {
            trace,
            releases,
            op_node,
            call_node,
            row_node,
        };
        for index in trace.nodes.indices() {
            let node = trace.nodes.get(index);
            // A delay belongs to a range but does not represent it.
            if node.kind.is_delay() {
                continue;
            }
            let slot = match TraceSlice::of_node(index, &node) {
                TraceSlice::Op(op) => slices.op_node.get_mut(op as usize),
                TraceSlice::Call(call) => slices.call_node.get_mut(call as usize),
                TraceSlice::Row(row) => slices.row_node.get_mut(row as usize),
                _ => None,
            };
            // A range that others interrupt has several nodes; the first represents it.
            if let Some(first) = slot.filter(|first| **first == NodeIdx::NONE) {
                *first = index;
            }
        }
        slices
    }

    /// Returns the node that represents the range in the graph.
    pub(super) fn first_node(&self, slice: TraceSlice) -> Option<NodeIdx> {
        let node = match slice {
            TraceSlice::Op(op) => self.op_node.get(op as usize).copied(),
            TraceSlice::Call(call) => self.call_node.get(call as usize).copied(),
            TraceSlice::Row(row) => self.row_node.get(row as usize).copied(),
            TraceSlice::Node(node) => Some(node),
            TraceSlice::Transfer(at) => Some(self.releases[at as usize].node),
            TraceSlice::Sync(_)
            | TraceSlice::Auxiliary(_)
            | TraceSlice::Memory(_)
            | TraceSlice::Other(_) => None,
        };
        node.and_then(NodeIdx::get)
    }

    /// Returns the range that contains a transfer.
    pub(super) fn whole_slice(&self, slice: TraceSlice) -> Option<TraceSlice> {
        let TraceSlice::Transfer(at) = slice else {
            return None;
        };
        let node = self.releases.get(at as usize)?.node;
        Some(TraceSlice::of_node(node, &self.trace.nodes.get(node)))
    }

    fn is_on_device(&self, slice: TraceSlice) -> bool {
        match slice {
            TraceSlice::Row(_) => true,
            TraceSlice::Node(node) => self.trace.nodes.on_device[node.index()],
            TraceSlice::Transfer(at) => {
                let node = self.releases[at as usize].node;
                self.trace.nodes.on_device[node.index()]
            }
            // Events outside the graph have separate tracks, so their position does not matter.
            _ => false,
        }
    }

    /// Returns the recorded details of the range that have no column.
    pub(super) fn detail(&self, slice: TraceSlice) -> Option<EventDetail> {
        let details = self.trace.device.details.as_ref()?;
        let (table, row) = match slice {
            TraceSlice::Op(row) => (&details.ops, row),
            TraceSlice::Call(row) => (&details.calls, row),
            TraceSlice::Row(row) => (&details.rows, row),
            TraceSlice::Sync(row) => (&details.syncs, row),
            TraceSlice::Auxiliary(row) => (&details.auxiliary, row),
            TraceSlice::Memory(row) => (&details.memory, row),
            TraceSlice::Other(row) => (&details.other_details, row),
            TraceSlice::Node(_) | TraceSlice::Transfer(_) => return None,
        };
        Some(table.row(row as usize))
    }

    /// Returns true if the range is an instant.
    pub(super) fn is_instant(&self, slice: TraceSlice) -> bool {
        let device = &self.trace.device;
        match (slice, &device.details) {
            (TraceSlice::Memory(_), _) => true,
            (TraceSlice::Other(row), Some(details)) => {
                device.names.get(details.others.phase[row as usize]) != "X"
            }
            _ => false,
        }
    }

    /// Returns start and duration of a range.
    pub(super) fn slice_span(&self, slice: TraceSlice) -> (TimeNs, DurationNs) {
        let (device, nodes) = (&self.trace.device, &self.trace.nodes);
        match slice {
            TraceSlice::Op(at) => (
                device.ops.start[at as usize],
                device.ops.duration[at as usize],
            ),
            TraceSlice::Call(at) => (
                device.calls.start[at as usize],
                device.calls.duration[at as usize],
            ),
            TraceSlice::Row(at) => (
                device.rows.start[at as usize],
                device.rows.duration[at as usize],
            ),
            TraceSlice::Node(at) => (nodes.start[at.index()], nodes.duration[at.index()]),
            TraceSlice::Sync(at) => (
                device.syncs.start[at as usize],
                device.syncs.duration[at as usize],
            ),
            TraceSlice::Auxiliary(at) => (
                device.auxiliary.start[at as usize],
                device.auxiliary.duration[at as usize],
            ),
            TraceSlice::Memory(at) => (device.memory.time[at as usize], DurationNs(0)),
            TraceSlice::Other(at) => {
                let details = device.details.as_ref();
                details.map_or_else(Default::default, |details| {
                    let row = details.others.row(at as usize);
                    (row.start, row.duration)
                })
            }
            TraceSlice::Transfer(at) => {
                // If clocks are off, the last rank may seem to come after the end. Then nothing is
                // left.
                let start = self.release_time(&self.releases[at as usize]);
                let whole = self
                    .whole_slice(slice)
                    .map_or((start, DurationNs(0)), |whole| self.slice_span(whole));
                (
                    start,
                    DurationNs((whole.0 + whole.1).0.saturating_sub(start.0).max(0)),
                )
            }
        }
    }

    /// Returns the time when the last rank came, in the trace's time.
    pub(super) fn release_time(&self, release: &WaitCause) -> TimeNs {
        self.trace.device.header.trace_time(release.at_ns)
    }

    /// Iterates over all ranges by start, then host before device so that an arrow's begin precedes
    /// its end, then the longer first. The tables are already in this order; `made` is sorted here.
    pub(super) fn in_order(
        &self,
        mut made: Vec<TraceSlice>,
    ) -> impl Iterator<Item = (TraceSlice, TimeNs, DurationNs)> {
        let device = &self.trace.device;
        let key = move |slice: TraceSlice| {
            let (start, duration) = self.slice_span(slice);
            (start, self.is_on_device(slice), Reverse(duration), slice)
        };
        made.sort_unstable_by_key(|slice| key(*slice));
        // Without details, the recording could not be read back from an event's range.
        let extra = |rows: usize| device.details.as_ref().map_or(0, |_| rows as u32);
        let others = device.details.as_ref().map_or(0, |all| all.others.len());
        let tables: [SliceTable; 7] = [
            (TraceSlice::Op, device.ops.len() as u32),
            (TraceSlice::Call, device.calls.len() as u32),
            (TraceSlice::Row, device.rows.len() as u32),
            (TraceSlice::Sync, extra(device.syncs.len())),
            (TraceSlice::Auxiliary, extra(device.auxiliary.len())),
            (TraceSlice::Memory, extra(device.memory.len())),
            (TraceSlice::Other, others as u32),
        ];
        let mut next = [0; 7];
        let mut made = made.into_iter().peekable();
        std::iter::from_fn(move || {
            // The tables are already sorted: merging their heads needs no memory.
            let heads = tables.iter().zip(&next);
            let heads = heads.filter(|((_, rows), row)| *row < rows);
            let table = heads.map(|((slice, _), row)| slice(*row));
            let slice = table
                .chain(made.peek().copied())
                .min_by_key(|slice| key(*slice))?;
            let advanced = match slice {
                TraceSlice::Op(_) => &mut next[0],
                TraceSlice::Call(_) => &mut next[1],
                TraceSlice::Row(_) => &mut next[2],
                TraceSlice::Sync(_) => &mut next[3],
                TraceSlice::Auxiliary(_) => &mut next[4],
                TraceSlice::Memory(_) => &mut next[5],
                TraceSlice::Other(_) => &mut next[6],
                TraceSlice::Node(_) | TraceSlice::Transfer(_) => {
                    made.next();
                    let (start, duration) = self.slice_span(slice);
                    return Some((slice, start, duration));
                }
            };
            *advanced += 1;
            let (start, duration) = self.slice_span(slice);
            Some((slice, start, duration))
        })
    }
}
