//! Table of edges: the reasons for nodes to wait.

use crate::columns::ColumnSet;
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
    mut columns: ColumnSet,
) -> Result<RecordBatch, Error> {
    let first = trace.edges.first_place(NodeIdx::new(nodes.start));
    // Edges are stored packed by the waiting node: unpacked once, they serve six columns.
    let edges: Vec<Edge> = nodes
        .map(NodeIdx::new)
        .flat_map(|node| trace.edges.deps(node).iter())
        .collect();
    let latency = |place: usize| Some(times.edge_latency.get(place)?.0);
    let latencies = (first..first + edges.len()).map(latency);
    let edges = edges.iter();
    columns
        .add_number("from_node", edges.clone().map(|edge| Some(edge.from.0)))
        .add_number("to_node", edges.clone().map(|edge| Some(edge.to.0)))
        .add_text("kind", edges.clone().map(|edge| Some(edge.kind.name())))
        .add_flag("inferred", edges.clone().map(|edge| Some(edge.inferred)))
        .add_signed("slack_ns", edges.map(|edge| Some(slack_ns(trace, edge))))
        .add_signed("latency_ns", latencies)
        .finish()
}

fn slack_ns(trace: &LinkedTrace, edge: &Edge) -> i64 {
    // The difference of times saturates at 0: a node that starts early has no slack.
    (trace.nodes.start[edge.to.index()] - trace.nodes.end(edge.from)).0
}
