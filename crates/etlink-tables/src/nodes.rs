//! Nodes of the graph.

use crate::columns::ColumnSet;
use crate::{Error, events};
use arrow_array::RecordBatch;
use etlink_link::{LinkedTrace, Node, NodeKind};
use std::ops::Range;

/// Some nodes; `latency_ns` is what launches and waits took before it.
pub(crate) fn nodes_batch(
    trace: &LinkedTrace,
    places: Range<usize>,
    mut columns: ColumnSet,
) -> Result<RecordBatch, Error> {
    let nodes = || places.clone().map(|at| trace.nodes.get(at));
    let thread = |node: Node| (!node.on_device).then_some(node.resource as usize);
    let queue = |node: Node| {
        node.on_device
            .then(|| trace.device.queues.get(node.resource as usize))
            .flatten()
    };
    columns
        .add_number("node", places.clone().map(|at| u32::try_from(at).ok()))
        .add_text("kind", nodes().map(|node| Some(node.kind.name())))
        .add_number("event", nodes().map(|node| node_event(trace, &node)))
        .add_flag("first", nodes().map(|node| Some(node.first)));
    let names: Vec<Node> = nodes().collect();
    columns
        .add_text("name", names.iter().map(|node| Some(trace.name(node))))
        .add_signed(
            "start_ns",
            nodes().map(|node| Some(events::unix_ns(trace, node.start))),
        )
        .add_signed("duration_ns", nodes().map(|node| Some(node.duration.0)))
        .add_signed(
            "latency_ns",
            places.clone().map(|at| Some(trace.latency(at).0)),
        );
    events::add_threads(trace, &mut columns, || nodes().map(thread));
    events::add_queues(&mut columns, || nodes().map(queue));
    columns.finish()
}

/// The event that a node is of; of a delay none.
pub(crate) fn node_event(trace: &LinkedTrace, node: &Node) -> Option<u32> {
    let source = Some(node.source).filter(|source| *source != u32::MAX)?;
    match node.kind {
        NodeKind::Runtime => Some(events::call_event(trace, source)),
        NodeKind::DeviceOp => Some(events::row_event(trace, source)),
        NodeKind::Collective if node.on_device => Some(events::row_event(trace, source)),
        // Ops come first among the events, so their rows are their numbers.
        NodeKind::HostOp | NodeKind::Collective | NodeKind::HostGap => Some(source),
        // Delays were inferred: no trace has an event of theirs.
        NodeKind::Boundary | NodeKind::UnexplainedWait => None,
    }
}
