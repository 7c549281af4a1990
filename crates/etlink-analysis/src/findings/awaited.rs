//! Detects if other work waits for changed work.

use etlink_link::EdgeKind;
use etlink_model::NodeIdx;
use etlink_replay::{GraphEdits, ReplayGraph};
use std::collections::BTreeSet;

/// Returns true if anything besides the same thread waits for a node whose duration changes, or
/// no longer waits. O(nodes + edges).
pub(crate) fn is_awaited(graph: &ReplayGraph, edits: &GraphEdits) -> bool {
    if !edits.freed.is_empty() {
        return true;
    }
    let own: BTreeSet<NodeIdx> = edits.scaled.iter().map(|(node, _)| *node).collect();
    let nodes = (0..graph.len()).map(NodeIdx::new);
    let mut others = nodes.filter(|node| !own.contains(node));
    others.any(|node| {
        let mut deps = graph.deps(node);
        // A worker's next communication follows its last one even if nobody has waited for either.
        deps.any(|dep| dep.kind != EdgeKind::ProgramOrder && own.contains(&dep.from))
    })
}
