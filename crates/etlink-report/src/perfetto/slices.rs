//! What becomes a range: whole ops, calls and rows, in order of time.

use etlink_link::ranks::WaitCause;
use etlink_link::{LinkedTrace, Node, NodeKind};
use etlink_model::{DurationNs, OpIdx, TimeNs};
use std::cmp::Reverse;

/// No node.
const NONE: u32 = u32::MAX;

/// A range of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slice {
    /// Row of the CPU ops.
    Op(u32),
    /// Row of the runtime calls.
    Call(u32),
    /// Row of the device rows.
    Row(u32),
    /// A node that is none of these, or a piece of one that an arrow needs for itself.
    Node(u32),
    /// What is left of a communication once the last rank has come, by the place of its release.
    Transfer(u32),
}

impl Slice {
    /// The range that a node is a piece of.
    pub(super) fn of(index: u32, node: &Node) -> Slice {
        match node.kind {
            NodeKind::Runtime => Slice::Call(node.source),
            NodeKind::DeviceOp => Slice::Row(node.source),
            NodeKind::Collective if node.on_device => Slice::Row(node.source),
            NodeKind::HostOp | NodeKind::Collective => Slice::Op(node.source),
            NodeKind::HostGap if OpIdx(node.source).get().is_some() => Slice::Op(node.source),
            // what a delay on a queue waits for, its row waits for
            NodeKind::Boundary | NodeKind::UnexplainedWait if node.on_device => {
                Slice::Row(node.source)
            }
            NodeKind::HostGap | NodeKind::Boundary | NodeKind::UnexplainedWait => {
                Slice::Node(index)
            }
        }
    }

    /// The device row that the range is.
    pub(super) fn row(self) -> Option<u32> {
        match self {
            Slice::Row(row) => Some(row),
            _ => None,
        }
    }

    /// Whether it is not recorded, but there for an arrow's sake.
    pub(super) fn is_made(self) -> bool {
        matches!(self, Slice::Node(_) | Slice::Transfer(_))
    }
}

/// The ranges of a trace, and the first node of each op, call and row.
#[derive(Debug)]
pub(super) struct Slices<'t> {
    pub(super) trace: &'t LinkedTrace,
    /// What other ranks made this one wait for, and it others.
    pub(super) releases: &'t [WaitCause],
    op_node: Vec<u32>,
    call_node: Vec<u32>,
    row_node: Vec<u32>,
}

impl<'t> Slices<'t> {
    /// O(nodes).
    pub(super) fn new(trace: &'t LinkedTrace, releases: &'t [WaitCause]) -> Slices<'t> {
        let device = &trace.device;
        let [op_node, call_node, row_node] =
            [device.ops.len(), device.calls.len(), device.rows.len()].map(|rows| vec![NONE; rows]);
        let mut slices = Slices {
            trace,
            releases,
            op_node,
            call_node,
            row_node,
        };
        let nodes = (0..trace.nodes.len() as u32)
            .filter(|node| !trace.nodes.kind[*node as usize].is_delay());
        for node in nodes {
            let slot = match Slice::of(node, &trace.nodes.get(node as usize)) {
                Slice::Op(op) => slices.op_node.get_mut(op as usize),
                Slice::Call(call) => slices.call_node.get_mut(call as usize),
                Slice::Row(row) => slices.row_node.get_mut(row as usize),
                Slice::Node(_) | Slice::Transfer(_) => None,
            };
            if let Some(first) = slot.filter(|first| **first == NONE) {
                *first = node;
            }
        }
        slices
    }

    /// The node that bears the range's identity in the graph.
    pub(super) fn node(&self, slice: Slice) -> Option<u32> {
        let node = match slice {
            Slice::Op(op) => self.op_node.get(op as usize).copied(),
            Slice::Call(call) => self.call_node.get(call as usize).copied(),
            Slice::Row(row) => self.row_node.get(row as usize).copied(),
            Slice::Node(node) => Some(node),
            Slice::Transfer(at) => Some(self.releases[at as usize].node),
        };
        node.filter(|node| *node != NONE)
    }

    /// The range that a transfer is inside of.
    pub(super) fn whole(&self, slice: Slice) -> Option<Slice> {
        let Slice::Transfer(at) = slice else {
            return None;
        };
        let node = self.releases.get(at as usize)?.node;
        Some(Slice::of(node, &self.trace.nodes.get(node as usize)))
    }

    fn is_on_device(&self, slice: Slice) -> bool {
        match slice {
            Slice::Op(_) | Slice::Call(_) => false,
            Slice::Row(_) => true,
            Slice::Node(node) => self.trace.nodes.on_device[node as usize],
            Slice::Transfer(at) => {
                self.trace.nodes.on_device[self.releases[at as usize].node as usize]
            }
        }
    }

    /// When a range begins and how long it is.
    pub(super) fn span(&self, slice: Slice) -> (TimeNs, DurationNs) {
        let (device, nodes) = (&self.trace.device, &self.trace.nodes);
        match slice {
            Slice::Op(at) => (
                device.ops.start[at as usize],
                device.ops.duration[at as usize],
            ),
            Slice::Call(at) => (
                device.calls.start[at as usize],
                device.calls.duration[at as usize],
            ),
            Slice::Row(at) => (
                device.rows.start[at as usize],
                device.rows.duration[at as usize],
            ),
            Slice::Node(at) => (nodes.start[at as usize], nodes.duration[at as usize]),
            Slice::Transfer(at) => {
                let start = self.released(&self.releases[at as usize]);
                let whole = self
                    .whole(slice)
                    .map_or((start, DurationNs(0)), |whole| self.span(whole));
                (
                    start,
                    DurationNs((whole.0 + whole.1).0.saturating_sub(start.0).max(0)),
                )
            }
        }
    }

    /// When the last rank had come, by the trace's times.
    pub(super) fn released(&self, release: &WaitCause) -> TimeNs {
        TimeNs(
            release
                .at_ns
                .saturating_sub(self.trace.device.header.base_ns),
        )
    }

    /// All ranges by start, the host before the device, so that of an arrow at one instant the begin comes first; then
    /// the longer first. The tables are in that order; `made` gets sorted.
    pub(super) fn in_order(
        &self,
        mut made: Vec<Slice>,
    ) -> impl Iterator<Item = (Slice, TimeNs, DurationNs)> {
        let device = &self.trace.device;
        let key = move |slice: Slice| {
            let (start, duration) = self.span(slice);
            (start, self.is_on_device(slice), Reverse(duration), slice)
        };
        made.sort_unstable_by_key(|slice| key(*slice));
        let mut ops = (0..device.ops.len() as u32).map(Slice::Op).peekable();
        let mut calls = (0..device.calls.len() as u32).map(Slice::Call).peekable();
        let mut rows = (0..device.rows.len() as u32).map(Slice::Row).peekable();
        let mut made = made.into_iter().peekable();
        std::iter::from_fn(move || {
            let heads = [ops.peek(), calls.peek(), rows.peek(), made.peek()];
            let slice = heads
                .into_iter()
                .flatten()
                .copied()
                .min_by_key(|slice| key(*slice))?;
            match slice {
                Slice::Op(_) => ops.next(),
                Slice::Call(_) => calls.next(),
                Slice::Row(_) => rows.next(),
                Slice::Node(_) | Slice::Transfer(_) => made.next(),
            };
            let (start, duration) = self.span(slice);
            Some((slice, start, duration))
        })
    }
}
