//! The graph that is run: nodes as columns, dependencies as compressed rows.

pub(crate) mod followers;
mod latency;
mod order;

use borsh::{BorshDeserialize, BorshSerialize};
pub use etlink_link::EdgeKind;
use etlink_model::{DurationNs, EdgeIdx, GlobalRank, NodeIdx, RankIdx, ResourceIdx, TimeNs};
use serde::Serialize;

/// Kind of a node.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReplayKind {
    /// A slice of a host op.
    #[default]
    HostOp,
    /// A runtime or driver call.
    Runtime,
    /// Device work other than copies and communication.
    Kernel,
    /// A copy or memset on a device.
    MemoryCopy,
    /// A collective, send or receive, on a device or on the host.
    Collective,
    /// Thread time in which the program runs, but no op.
    HostGap,
    /// Time before the recording.
    Boundary,
    /// A delay without a known cause.
    UnexplainedWait,
    /// Latency of a launch or a wait, if it was written as a node.
    Latency,
    /// Arrival of one rank or of all ranks at a collective; takes no time.
    Arrival,
}

impl ReplayKind {
    /// Returns true for time that passes, false for work that occupies its thread or stream.
    pub fn is_delay(self) -> bool {
        matches!(
            self,
            ReplayKind::Boundary | ReplayKind::UnexplainedWait | ReplayKind::Latency
        )
    }
}

/// A thread or a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
pub struct Resource {
    /// Name for people: `thread 4242`, `stream 7 of device 0`.
    pub name: String,
    /// True for a stream.
    pub on_device: bool,
    /// Rank of the resource, if there are several ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<GlobalRank>,
}

/// An interval of work or delay, as added to a builder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayNode {
    /// Kind of work or delay.
    pub kind: ReplayKind,
    /// Entry of [`ReplayGraph::resources`].
    pub resource: ResourceIdx,
    /// Measured start, if known.
    pub start: Option<TimeNs>,
    /// Measured duration.
    pub duration: DurationNs,
}

/// A dependency: a reason for a node to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayDep {
    /// Node waited for.
    pub from: NodeIdx,
    /// Kind of edge.
    pub kind: EdgeKind,
    /// True if the edge was found by a rule, not recorded.
    pub inferred: bool,
    /// Time from the end of `from` to the start of the node, if this edge decides. A builder
    /// derives a missing latency from the starts; edges of a graph always have one.
    pub latency: Option<DurationNs>,
}

/// Error of building a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Each of these nodes waits for the one before it, the first for the last.
    #[error("cycle: {} nodes wait for each other and can never run", .0.len())]
    Cycle(Vec<NodeIdx>),
    /// A dependency names a missing node.
    #[error("node {} waits for missing node {}", node.0, from.0)]
    NoSuchNode {
        /// Node that waits.
        node: NodeIdx,
        /// Missing node.
        from: NodeIdx,
    },
    /// A collective has a part on a missing rank.
    #[error("a collective includes missing rank number {}", rank.0)]
    NoSuchRank {
        /// Rank, by place.
        rank: RankIdx,
    },
    /// A collective has a part in a node that its rank does not have.
    #[error("a collective includes missing node {} of rank {rank}", node.0)]
    NoSuchPart {
        /// Rank of the part.
        rank: GlobalRank,
        /// Node, as the rank's graph numbers it.
        node: NodeIdx,
    },
    /// There are more nodes or edges than 32-bit numbers.
    #[error("too many nodes or edges for 32-bit indices")]
    TooLarge,
}

/// A graph that can be run: nodes as columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct ReplayGraph {
    /// Kinds of the nodes.
    pub kind: Vec<ReplayKind>,
    /// Threads and streams of the nodes.
    pub resource: Vec<ResourceIdx>,
    /// Measured starts; all 0 unless `measured`.
    pub start: Vec<TimeNs>,
    /// Measured durations.
    pub duration: Vec<DurationNs>,
    /// Threads and streams.
    pub resources: Vec<Resource>,
    /// True if every node has a measured start.
    pub measured: bool,
    /// Number of nodes without a measured start.
    pub without_start: u64,
    deps: Deps,
    /// Topological order of the nodes; empty if their numbers already are one.
    order: Vec<NodeIdx>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
struct Deps {
    from: Vec<NodeIdx>,
    kind: Vec<EdgeKind>,
    inferred: Vec<bool>,
    latency: Vec<DurationNs>,
    ends: Vec<u32>,
}

impl ReplayGraph {
    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Returns true if the graph has no nodes.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// Returns the numbers of all nodes, ascending.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = NodeIdx> + Clone + use<> {
        (0..self.len() as u32).map(NodeIdx)
    }

    /// Returns the number of edges.
    pub fn edges(&self) -> usize {
        self.deps.from.len()
    }

    /// Returns the edges to a node.
    pub fn edges_to(
        &self,
        node: NodeIdx,
    ) -> impl DoubleEndedIterator<Item = EdgeIdx> + ExactSizeIterator + use<> {
        let ends = &self.deps.ends;
        // Edges are stored in the order of the waiting nodes: a node's edges begin at the end of
        // the previous node's.
        let before = node.index().checked_sub(1);
        let start = before.map_or(0, |before| ends[before]);
        (start..ends[node.index()]).map(EdgeIdx)
    }

    /// Returns the number of edges to a node.
    pub fn count_deps(&self, node: NodeIdx) -> usize {
        self.edges_to(node).len()
    }

    /// Returns the dependency of an edge.
    pub fn dep(&self, edge: EdgeIdx) -> ReplayDep {
        let edge = edge.index();
        ReplayDep {
            from: self.deps.from[edge],
            kind: self.deps.kind[edge],
            inferred: self.deps.inferred[edge],
            latency: self.deps.latency.get(edge).copied(),
        }
    }

    /// Returns the latency of an edge: the time from the end of its source to the start of the node
    /// if the edge decides.
    pub fn latency(&self, edge: EdgeIdx) -> DurationNs {
        // The builder fills these last, before anything runs.
        self.deps
            .latency
            .get(edge.index())
            .copied()
            .unwrap_or_default()
    }

    /// Returns the dependencies of a node.
    pub fn deps(&self, node: NodeIdx) -> impl Iterator<Item = ReplayDep> {
        self.edges_to(node).map(|edge| self.dep(edge))
    }

    /// Returns the measured end of a node.
    pub fn end(&self, node: NodeIdx) -> TimeNs {
        self.start[node.index()] + self.duration[node.index()]
    }

    /// Returns the thread or stream of a node; `None` if the builder was given too few resources.
    fn resource_at(&self, node: NodeIdx) -> Option<&Resource> {
        self.resources.get(self.resource[node.index()].index())
    }

    /// Returns true if a node runs on a stream.
    pub fn on_device(&self, node: NodeIdx) -> bool {
        self.resource_at(node)
            .is_some_and(|resource| resource.on_device)
    }

    /// Returns true if a node is work on a stream, not a delay.
    pub fn is_device_op(&self, node: NodeIdx) -> bool {
        self.on_device(node)
            && !self.kind[node.index()].is_delay()
            && self.kind[node.index()] != ReplayKind::Arrival
    }

    /// Returns the rank of a node, if there are several ranks.
    pub fn rank(&self, node: NodeIdx) -> Option<GlobalRank> {
        self.resource_at(node)?.rank
    }

    /// Returns the name of a node's thread or stream.
    pub fn place(&self, node: NodeIdx) -> &str {
        self.resource_at(node).map_or("", |resource| &resource.name)
    }

    /// Frees unused capacity of the columns, because the graphs of all ranks of a run exist at
    /// once.
    fn shrink(&mut self) {
        self.kind.shrink_to_fit();
        self.resource.shrink_to_fit();
        self.start.shrink_to_fit();
        self.duration.shrink_to_fit();
        self.deps.from.shrink_to_fit();
        self.deps.kind.shrink_to_fit();
        self.deps.inferred.shrink_to_fit();
        self.deps.latency.shrink_to_fit();
        self.deps.ends.shrink_to_fit();
        self.order.shrink_to_fit();
    }

    /// Returns all nodes, each after its causes.
    pub(crate) fn order(&self) -> impl Iterator<Item = NodeIdx> {
        // Most graphs store no order: see `topological_order`.
        let order = &self.order;
        self.indices().map(|place| match order.get(place.index()) {
            Some(node) => *node,
            None => place,
        })
    }
}

/// Builds a graph node by node.
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    graph: ReplayGraph,
    /// Stated latency per edge; empty if none is stated.
    stated: Vec<Option<DurationNs>>,
    /// Stated latency per node; empty if none is stated.
    stated_of_nodes: Vec<Option<DurationNs>>,
}

impl GraphBuilder {
    /// Creates a builder for these threads and streams.
    pub fn new(resources: Vec<Resource>) -> GraphBuilder {
        GraphBuilder {
            graph: ReplayGraph {
                resources,
                ..ReplayGraph::default()
            },
            stated: vec![],
            stated_of_nodes: vec![],
        }
    }

    /// Reserves room for exactly this many nodes and edges: a growing list may take twice as much.
    pub(crate) fn reserve(&mut self, nodes: usize, edges: usize) {
        let graph = &mut self.graph;
        graph.kind.reserve_exact(nodes);
        graph.resource.reserve_exact(nodes);
        graph.start.reserve_exact(nodes);
        graph.duration.reserve_exact(nodes);
        graph.deps.ends.reserve_exact(nodes);
        graph.deps.from.reserve_exact(edges);
        graph.deps.kind.reserve_exact(edges);
        graph.deps.inferred.reserve_exact(edges);
        self.stated.reserve_exact(edges);
    }

    /// Appends a node and its dependencies, which may refer to later nodes.
    pub fn push(&mut self, node: ReplayNode, deps: impl IntoIterator<Item = ReplayDep>) {
        let graph = &mut self.graph;
        graph.kind.push(node.kind);
        graph.resource.push(node.resource);
        graph.start.push(node.start.unwrap_or_default());
        graph.without_start += u64::from(node.start.is_none());
        // A negative duration in a file would let a successor start before its cause.
        graph.duration.push(DurationNs(node.duration.0.max(0)));
        for dep in deps {
            if dep.latency.is_some() {
                // Most graphs state none, and edges before the first stated one have none.
                self.stated.resize(graph.deps.from.len(), None);
                self.stated.push(dep.latency);
            }
            graph.deps.from.push(dep.from);
            graph.deps.kind.push(dep.kind);
            graph.deps.inferred.push(dep.inferred);
        }
        // `finish` refuses numbers beyond 32 bits; it counts the edges themselves.
        let end = u32::try_from(graph.deps.from.len()).unwrap_or(u32::MAX);
        graph.deps.ends.push(end);
    }

    /// States the latency of the last pushed node: the time from the end of its last cause to its
    /// start. A stated latency is not derived from the starts.
    pub fn state_latency(&mut self, latency: DurationNs) {
        if let Some(last) = self.graph.len().checked_sub(1) {
            self.stated_of_nodes.resize(last, None);
            self.stated_of_nodes.push(Some(latency));
        }
    }

    /// Returns the `gates` that must open before all their causes have run, so that all nodes can
    /// run: always the first one that is stuck. O(nodes + edges).
    pub(crate) fn jammed_gates(&self, gates: impl Iterator<Item = NodeIdx>) -> Vec<NodeIdx> {
        order::jammed_gates(&self.graph, gates)
    }

    /// Builds the graph. O(nodes + edges).
    ///
    /// # Errors
    /// There is a cycle, a dependency names a missing node, or there are more nodes or edges than
    /// `u32` can number.
    pub fn finish(mut self) -> Result<ReplayGraph, Error> {
        let mut graph = std::mem::take(&mut self.graph);
        if graph.len() >= u32::MAX as usize || graph.edges() >= u32::MAX as usize {
            return Err(Error::TooLarge);
        }
        for node in graph.indices() {
            let mut deps = graph.deps(node);
            if let Some(dep) = deps.find(|dep| dep.from.index() >= graph.len()) {
                let from = dep.from;
                return Err(Error::NoSuchNode { node, from });
            }
        }
        graph.measured = graph.without_start == 0;
        // Incomplete starts are useless: the run begins at 0 as if there were none.
        if !graph.measured {
            graph.start.fill(TimeNs(0));
            graph.deps.latency = self.stated_latencies(&graph);
        } else {
            let stated = (&self.stated[..], &self.stated_of_nodes[..]);
            graph.deps.latency = latency::edge_latencies(&graph, stated);
        }
        graph.order = order::topological_order(&graph)?;
        graph.shrink();
        Ok(graph)
    }

    /// Returns the latency stated for each edge or its node; 0 if none is stated.
    fn stated_latencies(&self, graph: &ReplayGraph) -> Vec<DurationNs> {
        let mut latencies = Vec::with_capacity(graph.edges());
        for node in graph.indices() {
            let of_node = self.stated_of_nodes.get(node.index()).copied().flatten();
            for edge in graph.edges_to(node) {
                let own = self.stated.get(edge.index()).copied().flatten();
                latencies.push(own.or(of_node).unwrap_or_default());
            }
        }
        latencies
    }
}
