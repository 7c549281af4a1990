//! Slack: the largest delay of each node that would not delay the end of all work.

use crate::graph::ReplayGraph;
use crate::path::resources_with_work;
use crate::run::ReplayRun;
use etlink_model::{DurationNs, NodeIdx, TimeNs};

/// Returns the slack per node of a run in which all edges count. Nodes on the critical path have
/// zero. O(nodes + edges).
pub fn node_slack(graph: &ReplayGraph, run: &ReplayRun) -> Vec<DurationNs> {
    let has_work = resources_with_work(graph);
    let at_work = |node: NodeIdx| has_work[graph.resource[node.index()].index()];
    let ends = graph.indices().filter(|node| at_work(*node));
    let last = ends.map(|node| run.end(node)).max();
    let last = last.unwrap_or(TimeNs(i64::MAX));
    // A node without followers may end with the last work; one that outlasts all work has its own
    // end.
    let nodes = graph.indices();
    let mut latest_end: Vec<TimeNs> = nodes.map(|node| run.end(node).max(last)).collect();
    let order: Vec<NodeIdx> = graph.order().collect();
    for node in order.into_iter().rev() {
        let latest_start = latest_end[node.index()].shifted(-run.duration[node.index()].0);
        for edge in graph.edges_to(node) {
            let from = graph.dep(edge).from.index();
            let latency = graph.latency(edge);
            let needed = match latency < DurationNs::ZERO {
                // The target still starts no earlier than its source: see `ReplayRun::ready`.
                true => latest_start.shifted(run.duration[from].0.min(-latency.0)),
                false => latest_start.shifted(-latency.0),
            };
            latest_end[from] = latest_end[from].min(needed);
        }
    }
    let nodes = graph.indices();
    nodes
        .map(|node| (latest_end[node.index()] - run.end(node)).max(DurationNs::ZERO))
        .collect()
}
