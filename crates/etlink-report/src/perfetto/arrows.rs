//! Edges that are drawn as arrows between ranges.

use super::slices::{TraceSlice, TraceSlices};
use etlink_link::{Edge, EdgeKind};
use etlink_model::{NodeIdx, TimeNs};

/// One end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ArrowEnd {
    slice: TraceSlice,
    /// When the range is the innermost of its track: the node's start, for there the range itself
    /// runs, or the row's.
    pub(super) at: TimeNs,
    /// That of no other arrow in the file.
    pub(super) id: u64,
    pub(super) kind: ArrowKind,
    pub(super) begins: bool,
}

/// What an arrow says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArrowKind {
    /// An edge of the graph.
    Edge(EdgeKind),
    /// From the rank that came last to a collective to one that waited for it.
    LastArrival,
    /// From a send to its receive.
    Message,
}

impl ArrowKind {
    /// Its name in the file.
    pub(super) fn arrow_name(self) -> &'static str {
        match self {
            ArrowKind::Edge(kind) => kind.name(),
            ArrowKind::LastArrival => "last_arrival",
            ArrowKind::Message => "message",
        }
    }
}

/// Whether an edge is one that a user asks about. Order on a thread or stream is what the track
/// shows; tensors are too many to see anything.
pub fn is_drawn(kind: EdgeKind) -> bool {
    match kind {
        EdgeKind::Launch
        | EdgeKind::EventWait
        | EdgeKind::HostWait
        | EdgeKind::Handoff
        | EdgeKind::Collective => true,
        EdgeKind::ProgramOrder | EdgeKind::StreamOrder | EdgeKind::Tensor => false,
    }
}

/// The ends of all arrows, by range.
#[derive(Debug, Default)]
pub(super) struct Arrows {
    marks: Vec<ArrowEnd>,
    /// How many edges are drawn.
    pub(super) count: u64,
}

impl Arrows {
    /// Perfetto turns an arrow round whose range at the end begins before the one at the begin, as
    /// a call does that waits for a kernel: an arrow to the inside of a range ends at a piece of
    /// its own. Edges are numbered from `base` + 1 on. O(edges log edges).
    pub(super) fn new(slices: &TraceSlices<'_>, base: u64) -> Arrows {
        let drawn = slices.trace.edges.iter().filter(|edge| is_drawn(edge.kind));
        let mut marks = vec![];
        for (edge, id) in drawn.zip(base + 1..) {
            let kind = ArrowKind::Edge(edge.kind);
            let ((from, begins), (mut to, ends)) =
                (arrow_source(slices, edge), node_anchor(slices, edge.to));
            // The wait is over inside the range: the arrow gets a piece that begins there.
            if ends > slices.slice_span(to).0 {
                to = TraceSlice::Node(edge.to);
            }
            marks.push(ArrowEnd {
                slice: from,
                at: begins,
                id,
                kind,
                begins: true,
            });
            marks.push(ArrowEnd {
                slice: to,
                at: ends,
                id,
                kind,
                begins: false,
            });
        }
        // Arrows between ranks come after the count: only one of their ends is in this trace.
        let count = marks.len() as u64 / 2;
        marks.extend(
            (0..)
                .zip(slices.releases)
                .map(|(at, _)| rank_arrow_end(slices, at)),
        );
        // By range, then time: `ends_at` finds those of a range by binary search.
        marks.sort_unstable();
        Arrows { marks, count }
    }

    /// Those at a range. O(log arrows).
    pub(super) fn ends_at(&self, slice: TraceSlice) -> &[ArrowEnd] {
        let first = self.marks.partition_point(|mark| mark.slice < slice);
        let count = self
            .marks
            .get(first..)
            .unwrap_or_default()
            .partition_point(|mark| mark.slice == slice);
        self.marks.get(first..first + count).unwrap_or_default()
    }

    /// Ranges that are there for the sake of an arrow.
    pub(super) fn made_slices(&self) -> Vec<TraceSlice> {
        let mut made: Vec<TraceSlice> = self
            .marks
            .iter()
            .map(|mark| mark.slice)
            .filter(|slice| slice.is_made())
            .collect();
        // Marks are sorted by range, so that those of one range are neighbours.
        made.dedup();
        made
    }
}

/// This rank's end of an arrow between ranks.
fn rank_arrow_end(slices: &TraceSlices<'_>, at: u32) -> ArrowEnd {
    let release = slices.releases[at as usize];
    let (whole, start) = node_anchor(slices, release.node);
    let released = slices.release_time(&release);
    let inside = release.waits && released > start;
    let kind = if release.message {
        ArrowKind::Message
    } else {
        ArrowKind::LastArrival
    };
    let piece = if start > slices.slice_span(whole).0 {
        TraceSlice::Node(release.node)
    } else {
        whole
    };
    ArrowEnd {
        slice: if inside {
            TraceSlice::Transfer(at)
        } else {
            piece
        },
        at: if inside { released } else { start },
        id: u64::from(release.number),
        kind,
        begins: !release.waits,
    }
}

/// The range of a node, and when that is the innermost of its track.
fn node_anchor(slices: &TraceSlices<'_>, node: NodeIdx) -> (TraceSlice, TimeNs) {
    let piece = slices.trace.nodes.get(node);
    let slice = TraceSlice::of_node(node, &piece);
    (
        slice,
        if slice.device_row().is_some() {
            slices.slice_span(slice).0
        } else {
            piece.start
        },
    )
}

/// Where the arrow comes from. A launch edge begins at what ran before the call, but it is the call
/// that launches.
fn arrow_source(slices: &TraceSlices<'_>, edge: Edge) -> (TraceSlice, TimeNs) {
    if edge.kind == EdgeKind::Handoff {
        // to Perfetto the range that began last is the innermost, also when it has ended
        let (whole, at) = node_anchor(slices, edge.from);
        return (
            if at > slices.slice_span(whole).0 {
                TraceSlice::Node(edge.from)
            } else {
                whole
            },
            at,
        );
    }
    let (to, _) = node_anchor(slices, edge.to);
    // A handoff or wait may lead to a row as well, and comes from where the edge says.
    let row = if edge.kind == EdgeKind::Launch {
        to.device_row()
    } else {
        None
    };
    let Some(call) = row.and_then(|row| slices.trace.row_call.get(row as usize)?.get()) else {
        return node_anchor(slices, edge.from);
    };
    let call = TraceSlice::Call(call.0);
    // of a call that waits for its row only what follows the wait is a node
    let node = slices
        .first_node(call)
        .map(|node| node_anchor(slices, node).1);
    let at = node
        .filter(|at| *at <= slices.slice_span(to).0)
        .unwrap_or(slices.slice_span(call).0);
    (call, at)
}
