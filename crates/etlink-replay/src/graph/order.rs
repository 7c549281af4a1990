//! Topological order of the nodes (Kahn's algorithm).

use super::followers::Followers;
use super::{Error, ReplayGraph};
use etlink_model::NodeIdx;

/// Returns the order; empty if node numbers already are an order. O(nodes + edges).
pub(crate) fn topological_order(graph: &ReplayGraph) -> Result<Vec<NodeIdx>, Error> {
    // A linked graph is numbered by time, so its numbers already are an order.
    if graph.indices().all(|node| waits_forward(graph, node)) {
        return Ok(vec![]);
    }
    let followers = Followers::new(graph, |_| true);
    let mut waits = edge_counts(graph);
    let mut order = nodes_without_deps(graph);
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for &follower in followers.of_node(node) {
            waits[follower.index()] -= 1;
            if waits[follower.index()] == 0 {
                order.push(follower);
            }
        }
    }
    if order.len() < graph.len() {
        Err(Error::Cycle(find_cycle(graph, &waits)))
    } else {
        Ok(order)
    }
}

/// Returns the gates that must open early, always the first one that is stuck.
pub(crate) fn jammed_gates(
    graph: &ReplayGraph,
    mut gates: impl Iterator<Item = NodeIdx>,
) -> Vec<NodeIdx> {
    let followers = Followers::new(graph, |_| true);
    let mut waits = edge_counts(graph);
    let mut ready = nodes_without_deps(graph);
    let mut jammed = vec![];
    loop {
        // A stack's order suffices: it does not affect which nodes get stuck.
        while let Some(node) = ready.pop() {
            for &follower in followers.of_node(node) {
                waits[follower.index()] -= 1;
                if waits[follower.index()] == 0 {
                    ready.push(follower);
                }
            }
        }
        let Some(gate) = gates.find(|gate| waits[gate.index()] > 0) else {
            return jammed;
        };
        // The gate never becomes ready again: no node has enough deps to count this down to 0.
        waits[gate.index()] = u32::MAX;
        jammed.push(gate);
        ready.push(gate);
    }
}

/// Returns true if a node waits only for nodes with lower numbers.
fn waits_forward(graph: &ReplayGraph, node: NodeIdx) -> bool {
    graph.deps(node).all(|dep| dep.from < node)
}

/// Returns the number of edges to each node.
fn edge_counts(graph: &ReplayGraph) -> Vec<u32> {
    let nodes = graph.indices();
    nodes.map(|node| graph.count_deps(node) as u32).collect()
}

fn nodes_without_deps(graph: &ReplayGraph) -> Vec<NodeIdx> {
    let nodes = graph.indices();
    nodes.filter(|node| graph.count_deps(*node) == 0).collect()
}

/// Returns one cycle: each waiting node waits for another waiting node.
fn find_cycle(graph: &ReplayGraph, waits: &[u32]) -> Vec<NodeIdx> {
    let mut way = vec![];
    let mut seen = vec![u32::MAX; graph.len()];
    // Every waiting node has a waiting cause, so the walk back must reach a node twice.
    let mut at = graph.indices().find(|node| is_stuck(waits, *node));
    while let Some(node) = at {
        if seen[node.index()] != u32::MAX {
            let mut cycle = way.split_off(seen[node.index()] as usize);
            // the walk went from effect to cause
            cycle.reverse();
            return cycle;
        }
        seen[node.index()] = way.len() as u32;
        way.push(node);
        let mut causes = graph.deps(node).map(|dep| dep.from);
        at = causes.find(|cause| is_stuck(waits, *cause));
    }
    debug_assert!(false, "a node that waits has a cause that waits");
    way
}

/// Returns true if a node still waits after no node is ready any more.
fn is_stuck(waits: &[u32], node: NodeIdx) -> bool {
    waits[node.index()] > 0
}
