//! Edges that are drawn as arrows between ranges.

use super::slices::{Slice, Slices, span};
use etlink_link::{Edge, EdgeKind, LinkedTrace};
use etlink_model::TimeNs;

/// One end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    slice: Slice,
    /// When the range is the innermost of its track: the node's start, for there the range itself runs, or the row's.
    pub(super) at: TimeNs,
    /// Counted from 1, by the edges' order.
    pub(super) id: u32,
    pub(super) kind: EdgeKind,
    pub(super) begins: bool,
}

/// Whether an edge is one that a user asks about. Order on a thread or stream is what the track shows; tensors are
/// too many to see anything.
pub fn is_drawn(kind: EdgeKind) -> bool {
    match kind {
        EdgeKind::Launch | EdgeKind::EventWait | EdgeKind::HostWait | EdgeKind::Handoff | EdgeKind::Collective => true,
        EdgeKind::ProgramOrder | EdgeKind::StreamOrder | EdgeKind::Tensor => false,
    }
}

/// The ends of all arrows, by range.
#[derive(Debug, Default)]
pub(super) struct Arrows {
    marks: Vec<Mark>,
    /// How many arrows.
    pub(super) count: u64,
}

impl Arrows {
    /// Perfetto turns an arrow round whose range at the end begins before the one at the begin, as a call does that
    /// waits for a kernel: an arrow to the inside of a range ends at a piece of its own. O(edges log edges).
    pub(super) fn new(trace: &LinkedTrace, slices: &Slices) -> Arrows {
        let drawn = trace.edges.iter().filter(|edge| is_drawn(edge.kind));
        let mut marks = vec![];
        for (edge, id) in drawn.zip(1..) {
            let ((from, begins), (mut to, ends)) = (source(trace, slices, edge), anchor(trace, edge.to));
            if ends > span(trace, to).0 {
                to = Slice::Node(edge.to);
            }
            marks.push(Mark { slice: from, at: begins, id, kind: edge.kind, begins: true });
            marks.push(Mark { slice: to, at: ends, id, kind: edge.kind, begins: false });
        }
        let count = marks.len() as u64 / 2;
        marks.sort_unstable();
        Arrows { marks, count }
    }

    /// Those at a range. O(log arrows).
    pub(super) fn of(&self, slice: Slice) -> &[Mark] {
        let first = self.marks.partition_point(|mark| mark.slice < slice);
        let count = self.marks.get(first..).unwrap_or_default().partition_point(|mark| mark.slice == slice);
        self.marks.get(first..first + count).unwrap_or_default()
    }

    /// Nodes that are ranges for the sake of an arrow.
    pub(super) fn nodes(&self) -> Vec<u32> {
        let mut nodes: Vec<u32> = self.marks.iter().filter_map(|mark| mark.slice.lone()).collect();
        nodes.dedup();
        nodes
    }
}

/// The range of a node, and when that is the innermost of its track.
fn anchor(trace: &LinkedTrace, node: u32) -> (Slice, TimeNs) {
    let piece = trace.nodes.get(node as usize);
    let slice = Slice::of(node, &piece);
    (slice, if slice.row().is_some() { span(trace, slice).0 } else { piece.start })
}

/// Where the arrow comes from. A launch edge begins at what ran before the call, but it is the call that launches.
fn source(trace: &LinkedTrace, slices: &Slices, edge: Edge) -> (Slice, TimeNs) {
    if edge.kind == EdgeKind::Handoff {
        // to Perfetto the range that began last is the innermost, also when it has ended
        let (whole, at) = anchor(trace, edge.from);
        return (if at > span(trace, whole).0 { Slice::Node(edge.from) } else { whole }, at);
    }
    let (to, _) = anchor(trace, edge.to);
    let row = to.row().filter(|_| edge.kind == EdgeKind::Launch);
    let Some(call) = row.and_then(|row| trace.row_call.get(row as usize)?.get()) else { return anchor(trace, edge.from) };
    let call = Slice::Call(call.0);
    // of a call that waits for its row only what follows the wait is a node
    let node = slices.node(call).map(|node| anchor(trace, node).1);
    let at = node.filter(|at| *at <= span(trace, to).0).unwrap_or(span(trace, call).0);
    (call, at)
}
