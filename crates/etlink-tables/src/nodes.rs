//! Table of the graph's nodes.

use crate::columns::Columns;
use crate::{Error, GraphTimes, events};
use arrow_array::RecordBatch;
use etlink_link::{LinkedTrace, Node, NodeKind};
use etlink_model::NodeIdx;
use std::ops::Range;

/// Builds the rows of some nodes. `latency_ns` is the time of launches and waits before the node.
/// `slack_ns` is how much later it could end without delaying the end of the rank's work.
pub(crate) fn nodes_batch(
    trace: &LinkedTrace,
    times: &GraphTimes,
    places: Range<usize>,
    rank: Option<i64>,
) -> Result<RecordBatch, Error> {
    let nodes = places.map(NodeIdx::new);
    let nodes: Vec<(NodeIdx, Node)> = nodes.map(|index| (index, trace.nodes.get(index))).collect();
    let mut columns = Columns::new(rank, &nodes);
    columns
        .number("node", |(index, _)| index.0)
        .text("kind", |(_, node)| node.kind.name())
        .number("event", |(_, node)| node_event(trace, node))
        .flag("first", |(_, node)| node.first)
        .any_text("name", |(_, node)| trace.name(node))
        .signed("start_ns", |(_, node)| events::unix_ns(trace, node.start))
        .signed("duration_ns", |(_, node)| node.duration.0)
        .signed("latency_ns", |(index, _)| trace.latency(*index).0)
        .signed("slack_ns", |(index, _)| {
            Some(times.node_slack.get(index.index())?.0)
        });
    events::add_threads(trace, &mut columns, |(_, node)| {
        Some(node.thread()?.index())
    });
    let queues = &trace.device.queues;
    events::add_queues(&mut columns, |(_, node)| queues.get(node.queue()?.index()));
    columns.finish()
}

/// Returns the event of a node; `None` for a delay.
pub(crate) fn node_event(trace: &LinkedTrace, node: &Node) -> Option<u32> {
    let source = Some(node.source).filter(|source| *source != u32::MAX)?;
    match node.kind {
        NodeKind::Runtime => Some(events::call_event(trace, source)),
        NodeKind::DeviceOp => Some(events::row_event(trace, source)),
        NodeKind::Collective if node.on_device => Some(events::row_event(trace, source)),
        // Ops come first among the events, so their row numbers are their event numbers.
        NodeKind::HostOp | NodeKind::Collective | NodeKind::HostGap => Some(source),
        // Delays are inferred: no trace has an event for them.
        NodeKind::Boundary | NodeKind::UnexplainedWait => None,
    }
}
