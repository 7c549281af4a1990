//! Reasons to wait.

use crate::Error;
use crate::columns::ColumnSet;
use arrow_array::RecordBatch;
use etlink_link::LinkedTrace;
use std::ops::Range;

/// The edges to some nodes. `slack_ns` is the time from the end of `from_node` to the start of
/// `to_node`: the decisive reason has the least.
pub(crate) fn edges_batch(
    trace: &LinkedTrace,
    nodes: Range<usize>,
    mut columns: ColumnSet,
) -> Result<RecordBatch, Error> {
    let of = |node: usize| trace.edges.deps(node).iter();
    let edges = || nodes.clone().flat_map(of);
    let slack = |from: u32, to: u32| {
        let [from, to] = [from, to].map(|node| trace.nodes.get(node as usize));
        // A difference of times is never negative: a node that starts early has no slack.
        (to.start - (from.start + from.duration)).0
    };
    columns
        .add_number("from_node", edges().map(|edge| Some(edge.from)))
        .add_number("to_node", edges().map(|edge| Some(edge.to)))
        .add_text("kind", edges().map(|edge| Some(edge.kind.name())))
        .add_flag("inferred", edges().map(|edge| Some(edge.inferred)))
        .add_signed(
            "slack_ns",
            edges().map(|edge| Some(slack(edge.from, edge.to))),
        )
        .finish()
}
