//! What single dependencies take by themselves, and how much later each node could end.
//!
//! Chakra's edges have no weights, so each node has a list beside its deps: the first number is of
//! the first dep, and so on. Replay learns them from the trace: of two causes the one that decides
//! in a changed run brings its own latency.

use etlink_link::LinkedTrace;
use etlink_model::{DurationNs, NodeIdx};
use etlink_replay::{Error, ReplaySettings, graph_from_trace, node_slack, run_graph};

/// Of each edge and each node of a trace.
pub(crate) struct EdgeWeights {
    /// Per edge, in the order of the trace's edges.
    latency: Vec<DurationNs>,
    /// Per node.
    slack: Vec<DurationNs>,
}

impl EdgeWeights {
    /// O(nodes + edges).
    ///
    /// # Errors
    /// None for a trace that the linker made.
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

    /// Of the edge at this place among all edges.
    pub(crate) fn latency(&self, place: usize) -> DurationNs {
        self.latency.get(place).copied().unwrap_or_default()
    }

    /// Of a node.
    pub(crate) fn slack(&self, node: NodeIdx) -> DurationNs {
        self.slack.get(node.index()).copied().unwrap_or_default()
    }
}
