//! Reasons to wait.

use crate::Error;
use crate::columns::Columns;
use arrow_array::RecordBatch;
use etlink_link::LinkedTrace;
use std::ops::Range;

/// The edges to some nodes. `slack_ns` is the time from the end of `from_node` to the start of `to_node`: the decisive
/// reason has the least.
pub(crate) fn batch(
    trace: &LinkedTrace,
    nodes: Range<usize>,
    mut columns: Columns,
) -> Result<RecordBatch, Error> {
    let of = |node: usize| trace.edges.deps(node).iter();
    let edges = || nodes.clone().flat_map(of);
    let slack = |from: u32, to: u32| {
        let [from, to] = [from, to].map(|node| trace.nodes.get(node as usize));
        (to.start - (from.start + from.duration)).0
    };
    columns
        .number("from_node", edges().map(|edge| Some(edge.from)))
        .number("to_node", edges().map(|edge| Some(edge.to)))
        .text("kind", edges().map(|edge| Some(edge.kind.name())))
        .flag("inferred", edges().map(|edge| Some(edge.inferred)))
        .signed(
            "slack_ns",
            edges().map(|edge| Some(slack(edge.from, edge.to))),
        )
        .finish()
}
