//! Edges drawn as arrows between ranges.

use super::slices::{TraceSlice, TraceSlices};
use etlink_link::{Edge, EdgeKind};
use etlink_model::{NodeIdx, TimeNs};

/// One end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ArrowEnd {
    slice: TraceSlice,
    /// Time at which the range is the innermost of its track: the node's start, because the range
    /// itself runs there, or the row's start.
    pub(super) at: TimeNs,
    /// Arrow number, unique in the file.
    pub(super) id: u64,
    pub(super) kind: ArrowKind,
    pub(super) begins: bool,
}

/// Kind of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArrowKind {
    /// An edge of the graph.
    Edge(EdgeKind),
    /// From the last rank to arrive at a collective to a rank that waited for it.
    LastArrival,
    /// From a send to its receive.
    Message,
}

impl ArrowKind {
    /// Returns the arrow's name in the file.
    pub(super) fn arrow_name(self) -> &'static str {
        match self {
            ArrowKind::Edge(kind) => kind.name(),
            ArrowKind::LastArrival => "last_arrival",
            ArrowKind::Message => "message",
        }
    }
}

/// Returns true for edges that are worth drawing. Order on a thread or stream is visible in the
/// track, and tensor edges are too many.
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

/// Ends of all arrows, by range.
#[derive(Debug, Default)]
pub(super) struct Arrows {
    marks: Vec<ArrowEnd>,
    /// Number of drawn edges.
    pub(super) count: u64,
}

impl Arrows {
    /// Collects the arrow ends. Edges are numbered from `base` + 1 on. O(edges log edges).
    ///
    /// Perfetto reverses an arrow if its end range begins before its begin range, as for a call
    /// that waits for a kernel. An arrow into a range therefore ends at a separate piece.
    pub(super) fn new(slices: &TraceSlices<'_>, base: u64) -> Arrows {
        let drawn = slices.trace.edges.iter().filter(|edge| is_drawn(edge.kind));
        let mut marks = vec![];
        for (edge, id) in drawn.zip(base + 1..) {
            let kind = ArrowKind::Edge(edge.kind);
            let ((from, begins), (mut to, ends)) =
                (arrow_source(slices, edge), node_anchor(slices, edge.to));
            // The wait ends inside the range: the arrow gets a piece that begins there.
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
        // Arrows between ranks are not counted: only one of their ends is in this trace.
        let count = marks.len() as u64 / 2;
        marks.extend(
            (0..)
                .zip(slices.releases)
                .map(|(at, _)| rank_arrow_end(slices, at)),
        );
        // By range, then time: `ends_at` finds the ends at a range by binary search.
        marks.sort_unstable();
        Arrows { marks, count }
    }

    /// Returns the arrow ends at a range. O(log arrows).
    pub(super) fn ends_at(&self, slice: TraceSlice) -> &[ArrowEnd] {
        let first = self.marks.partition_point(|mark| mark.slice < slice);
        let count = self
            .marks
            .get(first..)
            .unwrap_or_default()
            .partition_point(|mark| mark.slice == slice);
        self.marks.get(first..first + count).unwrap_or_default()
    }

    /// Returns ranges that exist only for arrows.
    pub(super) fn made_slices(&self) -> Vec<TraceSlice> {
        let mut made: Vec<TraceSlice> = self
            .marks
            .iter()
            .map(|mark| mark.slice)
            .filter(|slice| slice.is_made())
            .collect();
        // Marks are sorted by range, so the marks of one range are adjacent.
        made.dedup();
        made
    }
}

/// Returns this rank's end of an arrow between ranks.
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

/// Returns the range of a node, and the time at which it is the innermost of its track.
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

/// Returns the begin of an arrow. A launch edge begins at the node before the call, but the call is
/// the cause.
fn arrow_source(slices: &TraceSlices<'_>, edge: Edge) -> (TraceSlice, TimeNs) {
    if edge.kind == EdgeKind::Handoff {
        // to Perfetto the range that began last is the innermost, even after its end
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
    // A handoff or wait may also lead to a row, and begins at the edge's source.
    let row = if edge.kind == EdgeKind::Launch {
        to.device_row()
    } else {
        None
    };
    let Some(call) = row.and_then(|row| slices.trace.row_call.get(row as usize)?.get()) else {
        return node_anchor(slices, edge.from);
    };
    let call = TraceSlice::Call(call.0);
    // if a call waits for its row, only the part after the wait is a node
    let node = slices
        .first_node(call)
        .map(|node| node_anchor(slices, node).1);
    let at = node
        .filter(|at| *at <= slices.slice_span(to).0)
        .unwrap_or(slices.slice_span(call).0);
    (call, at)
}
