//! Nodes that wait for each other.

use petgraph::algo::{kosaraju_scc, toposort};
use petgraph::graph::DiGraph;

/// Groups of nodes that wait for each other, ascending. `edges` are pairs of nodes, each waiting
/// for the first of its pair. O(nodes + edges).
///
/// Both algorithms of petgraph keep a stack of their own, so a chain of any length is fine.
pub(super) fn cycles(nodes: usize, edges: &[(u32, u32)]) -> Vec<Vec<u32>> {
    let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(nodes, edges.len());
    graph.extend_with_edges(edges);
    // nearly all files have no cycle, and sorting costs half of finding the components
    if toposort(&graph, None).is_ok() {
        return vec![];
    }
    let mut cycles = vec![];
    for component in kosaraju_scc(&graph) {
        // A node that waits for itself is a finding of its own.
        if component.len() > 1 {
            let mut nodes: Vec<u32> = component.iter().map(|node| node.index() as u32).collect();
            nodes.sort_unstable();
            cycles.push(nodes);
        }
    }
    cycles.sort_unstable();
    cycles
}
