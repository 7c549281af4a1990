//! Whether anything waits for the work that is changed.

use etlink_link::EdgeKind;
use etlink_model::NodeIdx;
use etlink_replay::{GraphEdits, ReplayGraph};
use std::collections::BTreeSet;

/// Whether anything waits for a node that takes another time, but its own thread.
/// O(nodes + edges).
pub(crate) fn is_awaited(graph: &ReplayGraph, edits: &GraphEdits) -> bool {
    let own: BTreeSet<NodeIdx> = edits.scaled.iter().map(|(node, _)| *node).collect();
    let nodes = (0..graph.len()).map(NodeIdx::new);
    let mut others = nodes.filter(|node| !own.contains(node));
    others.any(|node| {
        let mut deps = graph.deps(node);
        // A worker's next communication comes after its last one, and nobody has waited for either.
        deps.any(|dep| dep.kind != EdgeKind::ProgramOrder && own.contains(&dep.from))
    })
}
