//! Selects the nodes of a linked trace to write, as a graph of its own: the whole, or a part that
//! preserves order and time.

mod communication;
mod device;
mod serialize;
mod waits;

use super::communication::comm_of;
use crate::{Demotion, LatencyMode, TracePart, WriteOptions};
use etlink_link::ranks::GroupResolver;
use etlink_link::{Edges, LinkedTrace, Node, NodeKind, Nodes};
use etlink_model::{DurationNs, NodeIdx};
use indexmap::IndexMap;
use std::borrow::Cow;

/// The nodes to write.
pub(crate) struct PartGraph<'t> {
    pub(crate) nodes: Cow<'t, Nodes>,
    pub(crate) edges: Cow<'t, Edges>,
    /// Number of each node in the trace; [`NodeIdx::NONE`] if the trace has no such node. Empty if
    /// all numbers are the same.
    origin: Vec<NodeIdx>,
    /// Time of each node, including its latency, in a simulator that runs one node at a time. Empty
    /// if nodes take their duration and latency.
    pub(crate) takes: Vec<DurationNs>,
    /// Nodes that communicate.
    pub(crate) communications: Vec<NodeIdx>,
    /// Pairs of a node that carries out a communication of the host, and the communication's node;
    /// `None` to use the trace's pairs.
    pub(crate) transfers: Option<Vec<(NodeIdx, NodeIdx)>>,
    /// Number of communications that became computation, by reason.
    pub(crate) demoted: IndexMap<Demotion, u64>,
    /// Name of nodes that stand for several nodes.
    standing_for: &'static str,
    /// True if simulators see no host nodes: host time is then all the computation there is.
    host_computes: bool,
}

impl<'t> PartGraph<'t> {
    /// Selects the part of a trace that the options request. O(n log n) in nodes and edges.
    pub(crate) fn of(
        trace: &'t LinkedTrace,
        groups: &GroupResolver<'_>,
        options: &WriteOptions<'_>,
    ) -> PartGraph<'t> {
        let mut whole = PartGraph::whole(trace, groups, options);
        if options.serialize_comms
            && let Some(agreement) = options.agreement
        {
            waits::take_out(&mut whole, agreement);
        }
        // ASTRA-sim runs one host node at a time (`HardwareResource.cc`). Only files for ASTRA-sim,
        // with latencies folded in, need times that add up.
        if options.serialize_comms
            && options.latency == LatencyMode::Fold
            && options.part != TracePart::Communication
        {
            serialize::serialize(&mut whole, !options.no_gaps);
        }
        // ASTRA-sim counts device work as computation, and drops its statistics if there is any
        // host work (`Statistics.cc`).
        whole.host_computes = match options.part {
            TracePart::Whole => false,
            TracePart::Device => !trace.nodes.on_device.contains(&true),
            TracePart::Communication => true,
        };
        match options.part {
            TracePart::Whole => whole,
            TracePart::Device => device::of(whole),
            TracePart::Communication => communication::of(trace, whole, options.serialize_comms),
        }
    }

    /// Returns the graph as linked.
    fn whole(
        trace: &'t LinkedTrace,
        groups: &GroupResolver<'_>,
        options: &WriteOptions<'_>,
    ) -> PartGraph<'t> {
        let mut whole = PartGraph {
            nodes: Cow::Borrowed(&trace.nodes),
            edges: Cow::Borrowed(&trace.edges),
            origin: vec![],
            takes: vec![],
            communications: vec![],
            transfers: None,
            demoted: IndexMap::new(),
            standing_for: "host gap",
            host_computes: false,
        };
        let is_collective = |node: &NodeIdx| trace.nodes.kind[node.index()] == NodeKind::Collective;
        for node in trace.nodes.indices().filter(is_collective) {
            match comm_of(trace, groups, options, node) {
                Some(Ok(_)) => whole.communications.push(node),
                Some(Err(reason)) => *whole.demoted.entry(reason).or_default() += 1,
                None => {}
            }
        }
        whole
    }

    /// Returns the number of nodes in the part.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the number of a node in the trace.
    pub(crate) fn origin(&self, node: NodeIdx) -> Option<NodeIdx> {
        // The whole graph has no list: its nodes are the trace's.
        if self.origin.is_empty() {
            return Some(node);
        }
        self.origin.get(node.index())?.get()
    }

    /// Returns true if simulators see a non-communicating node as a host node.
    pub(crate) fn is_cpu_op(&self, node: &Node) -> bool {
        !node.on_device && !self.host_computes
    }

    /// Returns true if a node communicates.
    pub(crate) fn is_communication(&self, node: NodeIdx) -> bool {
        self.communications.binary_search(&node).is_ok()
    }

    /// Returns the name of a node that stands for several; `None` for a node of the trace.
    pub(crate) fn standing_for(&self, node: NodeIdx) -> Option<&'static str> {
        self.origin(node).is_none().then_some(self.standing_for)
    }

    /// Returns the communications of this part among these nodes of the trace.
    pub(crate) fn find(&self, origins: &[NodeIdx]) -> Vec<NodeIdx> {
        let mut known: Vec<(NodeIdx, NodeIdx)> = self
            .communications
            .iter()
            .map(|&node| (self.origin(node).unwrap_or(NodeIdx::NONE), node))
            .collect();
        known.sort_unstable();
        let mut nodes = vec![];
        for origin in origins {
            if let Ok(place) = known.binary_search_by_key(origin, |(known, _)| *known) {
                nodes.push(known[place].1);
            }
        }
        nodes
    }
}

/// Creates a node that stands for several others, beginning at the start of the first one.
fn stand_in(node: Node, duration: DurationNs) -> Node {
    Node {
        kind: NodeKind::HostGap,
        source: u32::MAX,
        first: true,
        on_device: false,
        duration,
        ..node
    }
}

#[cfg(test)]
mod tests;
