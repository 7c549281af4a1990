//! Reversed edges: the nodes that wait for a node.

use super::{ReplayDep, ReplayGraph};
use etlink_model::NodeIdx;

pub(crate) struct Followers {
    first: Vec<u32>,
    all: Vec<NodeIdx>,
}

impl Followers {
    /// Collects the followers along the edges that are `kept`.
    pub(crate) fn new(graph: &ReplayGraph, kept: impl Fn(ReplayDep) -> bool) -> Followers {
        // Two passes over the edges (count, then place) need no list per node.
        let mut first = vec![0u32; graph.len() + 1];
        for (_, dep) in edges_by_target(graph, &kept) {
            first[dep.from.index() + 1] += 1;
        }
        for node in 0..graph.len() {
            first[node + 1] += first[node];
        }
        let mut all = vec![NodeIdx(0); first.last().map_or(0, |edges| *edges as usize)];
        let mut next = first.clone();
        for (node, dep) in edges_by_target(graph, &kept) {
            let place = &mut next[dep.from.index()];
            all[*place as usize] = node;
            *place += 1;
        }
        Followers { first, all }
    }

    pub(crate) fn of_node(&self, node: NodeIdx) -> &[NodeIdx] {
        let (start, end) = (self.first[node.index()], self.first[node.index() + 1]);
        &self.all[start as usize..end as usize]
    }
}

/// Iterates over the edges that are `kept`, with the node that waits, in node order.
fn edges_by_target(
    graph: &ReplayGraph,
    kept: &impl Fn(ReplayDep) -> bool,
) -> impl Iterator<Item = (NodeIdx, ReplayDep)> {
    graph
        .indices()
        .flat_map(|node| graph.deps(node).map(move |dep| (node, dep)))
        .filter(|(_, dep)| kept(*dep))
}
