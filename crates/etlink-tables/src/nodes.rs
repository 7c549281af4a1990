//! Table of the graph's nodes.

use crate::columns::ColumnSet;
use crate::{Error, GraphTimes, events};
use arrow_array::RecordBatch;
use etlink_link::{LinkedTrace, Node, NodeKind};
use etlink_model::{DeviceQueue, NodeIdx};
use std::ops::Range;

/// Builds the rows of some nodes. `latency_ns` is the time of launches and waits before the node.
/// `slack_ns` is how much later it could end without delaying the end of the rank's work.
pub(crate) fn nodes_batch(
    trace: &LinkedTrace,
    times: &GraphTimes,
    places: Range<usize>,
    mut columns: ColumnSet,
) -> Result<RecordBatch, Error> {
    let numbers = places.map(NodeIdx::new);
    let nodes: Vec<Node> = numbers.clone().map(|node| trace.nodes.get(node)).collect();
    columns
        .add_number("node", numbers.clone().map(|node| Some(node.0)))
        .add_text("kind", nodes.iter().map(|node| Some(node.kind.name())))
        .add_number("event", nodes.iter().map(|node| node_event(trace, node)))
        .add_flag("first", nodes.iter().map(|node| Some(node.first)))
        .add_text("name", nodes.iter().map(|node| Some(trace.name(node))))
        .add_signed(
            "start_ns",
            nodes
                .iter()
                .map(|node| Some(events::unix_ns(trace, node.start))),
        )
        .add_signed(
            "duration_ns",
            nodes.iter().map(|node| Some(node.duration.0)),
        )
        .add_signed(
            "latency_ns",
            numbers.clone().map(|node| Some(trace.latency(node).0)),
        )
        .add_signed(
            "slack_ns",
            numbers.map(|node| Some(times.node_slack.get(node.index())?.0)),
        );
    events::add_threads(trace, &mut columns, || nodes.iter().map(thread_of_node));
    events::add_queues(&mut columns, || {
        nodes.iter().map(|node| queue_of_node(trace, node))
    });
    columns.finish()
}

fn thread_of_node(node: &Node) -> Option<usize> {
    Some(node.thread()?.index())
}

fn queue_of_node<'t>(trace: &'t LinkedTrace, node: &Node) -> Option<&'t DeviceQueue> {
    trace.device.queues.get(node.queue()?.index())
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
