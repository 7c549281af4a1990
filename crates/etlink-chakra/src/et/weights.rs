//! Computes the latency of each dependency, and the slack of each node.
//!
//! Chakra's edges have no weights, so each node has a list parallel to its deps: the first number
//! belongs to the first dep, and so on. Replay learns latencies from the trace: of two causes, the
//! one that decides in a changed run contributes its own latency.

use etlink_link::LinkedTrace;
use etlink_model::{DurationNs, NodeIdx};
use etlink_replay::{Error, ReplaySettings, graph_from_trace, node_slack, run_graph};

/// Weights of all edges and nodes of a trace.
pub(crate) struct EdgeWeights {
    /// Latency per edge, in the order of the trace's edges.
    latency: Vec<DurationNs>,
    /// Slack per node: the time by which its end can be delayed.
    slack: Vec<DurationNs>,
}

impl EdgeWeights {
    /// Computes the weights of a trace. O(nodes + edges).
    ///
    /// # Errors
    /// Never fails for a trace from the linker.
    pub(crate) fn of(trace: &LinkedTrace) -> Result<EdgeWeights, Error> {
        let graph = graph_from_trace(trace)?;
        let edges = graph.indices().flat_map(|node| graph.edges_to(node));
        let latency = edges.map(|edge| graph.latency(edge)).collect();
        let run = run_graph(&graph, trace, &ReplaySettings::default());
        Ok(EdgeWeights {
            latency,
            slack: node_slack(&graph, &run),
        })
    }

    /// Returns the latency of the edge at this position among all edges.
    pub(crate) fn latency(&self, place: usize) -> DurationNs {
        self.latency.get(place).copied().unwrap_or_default()
    }

    /// Returns the slack of a node.
    pub(crate) fn slack(&self, node: NodeIdx) -> DurationNs {
        self.slack.get(node.index()).copied().unwrap_or_default()
    }
}
