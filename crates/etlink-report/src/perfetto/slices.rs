//! What becomes a range: whole ops, calls and rows, in order of time.

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
            NodeKind::Boundary | NodeKind::UnexplainedWait if node.on_device => Slice::Row(node.source),
            NodeKind::HostGap | NodeKind::Boundary | NodeKind::UnexplainedWait => Slice::Node(index),
        }
    }

    /// The device row that the range is.
    pub(super) fn row(self) -> Option<u32> {
        match self {
            Slice::Row(row) => Some(row),
            _ => None,
        }
    }

    /// The node that is a range by itself.
    pub(super) fn lone(self) -> Option<u32> {
        match self {
            Slice::Node(node) => Some(node),
            _ => None,
        }
    }
}

/// The first node of each op, call and row.
#[derive(Debug)]
pub(super) struct Slices {
    op_node: Vec<u32>,
    call_node: Vec<u32>,
    row_node: Vec<u32>,
}

impl Slices {
    /// O(nodes).
    pub(super) fn new(trace: &LinkedTrace) -> Slices {
        let device = &trace.device;
        let [op_node, call_node, row_node] = [device.ops.len(), device.calls.len(), device.rows.len()].map(|rows| vec![NONE; rows]);
        let mut slices = Slices { op_node, call_node, row_node };
        let nodes = (0..trace.nodes.len() as u32).filter(|node| !trace.nodes.kind[*node as usize].is_delay());
        for node in nodes {
            let slot = match Slice::of(node, &trace.nodes.get(node as usize)) {
                Slice::Op(op) => slices.op_node.get_mut(op as usize),
                Slice::Call(call) => slices.call_node.get_mut(call as usize),
                Slice::Row(row) => slices.row_node.get_mut(row as usize),
                Slice::Node(_) => None,
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
        };
        node.filter(|node| *node != NONE)
    }
}

fn is_on_device(trace: &LinkedTrace, slice: Slice) -> bool {
    match slice {
        Slice::Op(_) | Slice::Call(_) => false,
        Slice::Row(_) => true,
        Slice::Node(node) => trace.nodes.on_device[node as usize],
    }
}

/// When a range begins and how long it is.
pub(super) fn span(trace: &LinkedTrace, slice: Slice) -> (TimeNs, DurationNs) {
    let (device, nodes) = (&trace.device, &trace.nodes);
    match slice {
        Slice::Op(at) => (device.ops.start[at as usize], device.ops.duration[at as usize]),
        Slice::Call(at) => (device.calls.start[at as usize], device.calls.duration[at as usize]),
        Slice::Row(at) => (device.rows.start[at as usize], device.rows.duration[at as usize]),
        Slice::Node(at) => (nodes.start[at as usize], nodes.duration[at as usize]),
    }
}

/// All ranges by start, the host before the device, so that of an arrow at one instant the begin comes first; then
/// the longer first. The tables are in that order; `nodes` get sorted.
pub(super) fn in_order(trace: &LinkedTrace, mut nodes: Vec<u32>) -> impl Iterator<Item = (Slice, TimeNs, DurationNs)> {
    let device = &trace.device;
    let key = move |slice: Slice| {
        let (start, duration) = span(trace, slice);
        (start, is_on_device(trace, slice), Reverse(duration), slice)
    };
    nodes.sort_unstable_by_key(|node| key(Slice::Node(*node)));
    let mut ops = (0..device.ops.len() as u32).map(Slice::Op).peekable();
    let mut calls = (0..device.calls.len() as u32).map(Slice::Call).peekable();
    let mut rows = (0..device.rows.len() as u32).map(Slice::Row).peekable();
    let mut nodes = nodes.into_iter().map(Slice::Node).peekable();
    std::iter::from_fn(move || {
        let heads = [ops.peek(), calls.peek(), rows.peek(), nodes.peek()];
        let slice = heads.into_iter().flatten().copied().min_by_key(|slice| key(*slice))?;
        match slice {
            Slice::Op(_) => ops.next(),
            Slice::Call(_) => calls.next(),
            Slice::Row(_) => rows.next(),
            Slice::Node(_) => nodes.next(),
        };
        let (start, duration) = span(trace, slice);
        Some((slice, start, duration))
    })
}
