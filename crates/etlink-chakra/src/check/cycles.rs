//! Finds nodes that wait for each other.

use petgraph::Direction;
use petgraph::algo::{kosaraju_scc, toposort};
use petgraph::graph::{DiGraph, NodeIndex};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::collections::hash_map::Entry;

/// A group of nodes that wait for each other.
pub(super) struct Cycle {
    /// Nodes in a circle: each waits for the next, the last for the first, the lowest of the group.
    pub(super) circle: Vec<u32>,
    /// Further nodes that wait for the circle and that the circle waits for; ascending.
    pub(super) others: Vec<u32>,
}

impl Cycle {
    /// Returns all nodes of the group.
    pub(super) fn nodes(&self) -> impl Iterator<Item = u32> {
        self.circle.iter().chain(&self.others).copied()
    }

    /// Returns the number of nodes in the group.
    pub(super) fn len(&self) -> usize {
        self.circle.len() + self.others.len()
    }
}

/// Returns groups of nodes that wait for each other, ordered by lowest node. `edges` are pairs of
/// nodes, the second waiting for the first. O(nodes + edges).
///
/// Both of petgraph's algorithms keep a stack of their own, so chains of any length are fine.
pub(super) fn cycles(nodes: usize, edges: &[(u32, u32)]) -> Vec<Cycle> {
    let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(nodes, edges.len());
    graph.extend_with_edges(edges);
    // Nearly all files are free of cycles, and sorting costs half of finding the components.
    if toposort(&graph, None).is_ok() {
        return vec![];
    }
    let mut cycles = vec![];
    for component in kosaraju_scc(&graph) {
        // A node that waits for itself is a separate finding.
        if component.len() > 1 {
            cycles.push(cycle_of(&graph, component));
        }
    }
    cycles.sort_unstable_by(|a, b| a.circle.cmp(&b.circle));
    cycles
}

/// Returns a shortest circle through the lowest node of a component. O(component + its edges).
fn cycle_of(graph: &DiGraph<(), ()>, mut component: Vec<NodeIndex>) -> Cycle {
    component.sort_unstable();
    let first = component[0];
    let members: FxHashSet<NodeIndex> = component.iter().copied().collect();
    // For each node, the node that waits for it.
    let mut waiting: FxHashMap<NodeIndex, NodeIndex> = FxHashMap::default();
    let mut next = VecDeque::from([first]);
    'search: while let Some(node) = next.pop_front() {
        let mut awaited: Vec<NodeIndex> = graph
            .neighbors_directed(node, Direction::Incoming)
            .filter(|other| members.contains(other) && *other != node)
            .collect();
        awaited.sort_unstable();
        for other in awaited {
            if let Entry::Vacant(unseen) = waiting.entry(other) {
                unseen.insert(node);
                next.push_back(other);
            }
            if other == first {
                break 'search;
            }
        }
    }
    let mut circle = vec![first];
    let mut node = first;
    while let Some(&other) = waiting.get(&node).filter(|other| **other != first) {
        circle.push(other);
        node = other;
    }
    // The circle was found from its end.
    circle[1..].reverse();
    let inside: FxHashSet<NodeIndex> = circle.iter().copied().collect();
    let others = component.iter().filter(|node| !inside.contains(node));
    Cycle {
        others: others.map(|node| node.index() as u32).collect(),
        circle: circle.iter().map(|node| node.index() as u32).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_in_the_order_of_waiting() {
        // 0 waits for 2, 2 for 3, 3 for 0; 1 waits for 2, and 2 for 1; 4 waits for 5, and 5 for 4.
        let edges = [(2, 0), (3, 2), (0, 3), (2, 1), (1, 2), (5, 4), (4, 5)];
        let found = cycles(7, &edges);
        let all: Vec<_> = found
            .iter()
            .map(|one| (&one.circle[..], &one.others[..]))
            .collect();
        assert_eq!(all, [(&[0, 2, 3][..], &[1][..]), (&[4, 5], &[])]);
    }
}
