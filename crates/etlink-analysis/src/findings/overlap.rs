//! Overlap between causes: the same time under two names.

use crate::findings::candidate::CauseCandidate;
use crate::findings::text::sum_ns;
use etlink_link::EdgeKind;
use etlink_model::NodeIdx;
use etlink_replay::{EditableGraph, ReplayGraph};
use rustc_hash::FxHashMap;

/// The nodes of a cause, with their durations.
#[derive(Debug, Default)]
pub(crate) struct CauseNodes {
    /// Time per node; true: the node's wait, which other causes may leave unchanged.
    weights: FxHashMap<(NodeIdx, bool), i64>,
    total: i64,
}

impl CauseNodes {
    pub(crate) fn new(
        candidate: &CauseCandidate,
        graph: &ReplayGraph,
        editable: &EditableGraph<'_>,
    ) -> CauseNodes {
        let edits = &candidate.edits;
        let mut weights: FxHashMap<(NodeIdx, bool), i64> = FxHashMap::default();
        let scaled = edits.scaled.iter().map(|(node, _)| node);
        for node in edits.removed.iter().chain(scaled) {
            if let Some(length) = graph.duration.get(node.index()) {
                // A node counts once, however often a cause names it.
                weights.insert((*node, false), length.0);
            }
        }
        for (node, _) in &edits.freed {
            if node.index() < graph.len() {
                let waited_ns = waited_ns(graph, editable, *node);
                weights.insert((*node, true), waited_ns);
            }
        }
        let total = sum_ns(weights.values().copied());
        CauseNodes { weights, total }
    }

    /// Returns the share of this cause's time that also belongs to the other.
    pub(crate) fn share_in(&self, other: &CauseNodes) -> f64 {
        let shared = self.weights.iter();
        let shared = shared.filter(|(part, _)| other.weights.contains_key(part));
        let common = sum_ns(shared.map(|(_, weight)| *weight));
        common as f64 / self.total.max(1) as f64
    }
}

/// Returns the time from when a node's thread or stream became free to the node's start, in ns.
fn waited_ns(graph: &ReplayGraph, editable: &EditableGraph<'_>, node: NodeIdx) -> i64 {
    let run = editable.plain_run();
    let own = graph
        .deps(node)
        .filter(|dep| dep.kind == EdgeKind::ProgramOrder || dep.kind == EdgeKind::StreamOrder);
    let free = own.map(|dep| run.end(dep.from)).max();
    free.map_or(0, |free| run.start[node.index()].since(free).max(0))
}
