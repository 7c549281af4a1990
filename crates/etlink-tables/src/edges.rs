//! Table of edges: the reasons for nodes to wait.

use crate::columns::Columns;
use crate::{Error, GraphTimes};
use arrow_array::RecordBatch;
use etlink_link::{Edge, LinkedTrace};
use etlink_model::NodeIdx;
use std::ops::Range;

/// Builds the rows of the edges to some nodes. `slack_ns` is the time from the end of `from_node`
/// to the start of `to_node`: the decisive reason has the least. `latency_ns` is the duration of
/// the reason itself.
pub(crate) fn edges_batch(
    trace: &LinkedTrace,
    times: &GraphTimes,
    nodes: Range<usize>,
    rank: Option<i64>,
) -> Result<RecordBatch, Error> {
    let first = trace.edges.first_place(NodeIdx::new(nodes.start));
    // Edges are stored packed by the waiting node: unpacked once, they serve six columns.
    let edges = nodes.map(NodeIdx::new);
    let edges = edges.flat_map(|node| trace.edges.deps(node).iter());
    let edges: Vec<(usize, Edge)> = (first..).zip(edges).collect();
    Columns::new(rank, &edges)
        .number("from_node", |(_, edge)| edge.from.0)
        .number("to_node", |(_, edge)| edge.to.0)
        .text("kind", |(_, edge)| edge.kind.name())
        .flag("inferred", |(_, edge)| edge.inferred)
        .signed("slack_ns", |(_, edge)| {
            // The difference of times saturates at 0: a node that starts early has no slack.
            (trace.nodes.start[edge.to.index()] - trace.nodes.end(edge.from)).0
        })
        .signed("latency_ns", |(place, _)| {
            Some(times.edge_latency.get(*place)?.0)
        })
        .finish()
}
