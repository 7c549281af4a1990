//! Whether anything waits for the work that is changed.

use etlink_link::EdgeKind;
use etlink_model::NodeIdx;
use etlink_replay::{GraphEdits, ReplayGraph};
use std::collections::BTreeSet;

/// Whether anything on another thread or stream waits for a node that takes another time.
/// O(nodes + edges).
pub(crate) fn is_awaited(graph: &ReplayGraph, edits: &GraphEdits) -> bool {
    let own: BTreeSet<NodeIdx> = edits.scaled.iter().map(|(node, _)| *node).collect();
    let is_order = |kind| matches!(kind, EdgeKind::ProgramOrder | EdgeKind::StreamOrder);
    let nodes = (0..graph.len()).map(NodeIdx::new);
    let mut others = nodes.filter(|node| !own.contains(node));
    others.any(|node| {
        let mut deps = graph.deps(node);
        deps.any(|dep| !is_order(dep.kind) && own.contains(&dep.from))
    })
}
