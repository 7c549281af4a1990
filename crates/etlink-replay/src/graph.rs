//! The graph that is run: nodes as columns, what each waits for as compressed rows.

pub(crate) mod followers;
mod latency;
mod order;

use borsh::{BorshDeserialize, BorshSerialize};
pub use etlink_link::EdgeKind;
use etlink_model::{DurationNs, EdgeIdx, GlobalRank, NodeIdx, RankIdx, ResourceIdx, TimeNs};
use serde::Serialize;

/// What a node is.
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
    /// Work of a device that is no copy and no communication.
    Kernel,
    /// A copy or memset of a device.
    MemoryCopy,
    /// A collective, send or receive, of a device or of the host.
    Collective,
    /// Time on a thread in which no op runs but the program does.
    HostGap,
    /// What came before the recording.
    Boundary,
    /// A delay whose cause is not known.
    UnexplainedWait,
    /// What a launch or a wait took, where that was written as a node.
    Latency,
    /// A rank has come to a collective, or all have: no time passes.
    Arrival,
}

impl ReplayKind {
    /// Whether it stands for time that passes, not for work that needs its thread or stream.
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
    /// As people call it: `thread 4242`, `stream 7 of device 0`.
    pub name: String,
    /// A stream.
    pub on_device: bool,
    /// Whose it is, among several ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<GlobalRank>,
}

/// An interval of work or delay that a builder takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayNode {
    /// What runs, or why nothing does.
    pub kind: ReplayKind,
    /// Entry of [`ReplayGraph::resources`].
    pub resource: ResourceIdx,
    /// When it began, as measured.
    pub start: Option<TimeNs>,
    /// How long it took.
    pub duration: DurationNs,
}

/// A reason for a node to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayDep {
    /// The node waited for.
    pub from: NodeIdx,
    /// What makes the node wait.
    pub kind: EdgeKind,
    /// Found by a rule, not recorded.
    pub inferred: bool,
    /// From the end of `from` to the start of the node, where this decides. A builder that is not
    /// told takes it from the starts; of a graph it is always there.
    pub latency: Option<DurationNs>,
}

/// Why there is no graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Each of these waits for the one before it, the first for the last.
    #[error("{} nodes wait for each other in a circle and can never run", .0.len())]
    Cycle(Vec<NodeIdx>),
    /// A dep that names no node.
    #[error("node {} waits for node {}, which is not there", node.0, from.0)]
    NoSuchNode {
        /// The node that waits.
        node: NodeIdx,
        /// What it waits for.
        from: NodeIdx,
    },
    /// A collective with a part on a rank that is not among the ranks.
    #[error("a collective has a part on rank number {}, which is not there", rank.0)]
    NoSuchRank {
        /// The rank, by place.
        rank: RankIdx,
    },
    /// A collective with a part in a node that its rank does not have.
    #[error("a collective has a part in node {} of rank {rank}, which is not there", node.0)]
    NoSuchPart {
        /// The rank.
        rank: GlobalRank,
        /// The node, as the rank's graph numbers it.
        node: NodeIdx,
    },
    /// Numbers of nodes and edges are 32 bits wide.
    #[error("more nodes or edges than can be numbered")]
    TooLarge,
}

/// A graph that can be run: nodes as columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct ReplayGraph {
    /// What the nodes are.
    pub kind: Vec<ReplayKind>,
    /// Threads and streams that they run on.
    pub resource: Vec<ResourceIdx>,
    /// Measured starts; all 0 unless `measured`.
    pub start: Vec<TimeNs>,
    /// Measured durations.
    pub duration: Vec<DurationNs>,
    /// Threads and streams.
    pub resources: Vec<Resource>,
    /// Whether every node has a measured start.
    pub measured: bool,
    /// How many nodes have none.
    pub without_start: u64,
    deps: Deps,
    /// Each node after all that it waits for; empty: the order of the numbers.
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
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Whether the graph has no nodes.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// The numbers of all nodes, ascending.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = NodeIdx> + Clone + use<> {
        (0..self.len() as u32).map(NodeIdx)
    }

    /// Number of edges.
    pub fn edges(&self) -> usize {
        self.deps.from.len()
    }

    /// The edges to a node.
    pub fn edges_to(
        &self,
        node: NodeIdx,
    ) -> impl DoubleEndedIterator<Item = EdgeIdx> + ExactSizeIterator + use<> {
        let ends = &self.deps.ends;
        // Edges lie in the order of the nodes that wait: a node's begin where those of the node
        // before end.
        let before = node.index().checked_sub(1);
        let start = before.map_or(0, |before| ends[before]);
        (start..ends[node.index()]).map(EdgeIdx)
    }

    /// How many edges lead to a node.
    pub fn count_deps(&self, node: NodeIdx) -> usize {
        self.edges_to(node).len()
    }

    /// What an edge says.
    pub fn dep(&self, edge: EdgeIdx) -> ReplayDep {
        let edge = edge.index();
        ReplayDep {
            from: self.deps.from[edge],
            kind: self.deps.kind[edge],
            inferred: self.deps.inferred[edge],
            latency: self.deps.latency.get(edge).copied(),
        }
    }

    /// What an edge takes: from the end of its source to the start of the node, where it decides.
    pub fn latency(&self, edge: EdgeIdx) -> DurationNs {
        // The builder fills these last, when nothing runs yet.
        self.deps
            .latency
            .get(edge.index())
            .copied()
            .unwrap_or_default()
    }

    /// What a node waits for.
    pub fn deps(&self, node: NodeIdx) -> impl Iterator<Item = ReplayDep> {
        self.edges_to(node).map(|edge| self.dep(edge))
    }

    /// Measured end of a node.
    pub fn end(&self, node: NodeIdx) -> TimeNs {
        self.start[node.index()] + self.duration[node.index()]
    }

    /// The thread or stream of a node; none in a graph whose builder was given too few.
    fn resource_at(&self, node: NodeIdx) -> Option<&Resource> {
        self.resources.get(self.resource[node.index()].index())
    }

    /// Whether a node runs on a stream.
    pub fn on_device(&self, node: NodeIdx) -> bool {
        self.resource_at(node)
            .is_some_and(|resource| resource.on_device)
    }

    /// Whether a node is work on a stream, no delay.
    pub fn is_device_op(&self, node: NodeIdx) -> bool {
        self.on_device(node)
            && !self.kind[node.index()].is_delay()
            && self.kind[node.index()] != ReplayKind::Arrival
    }

    /// Whose node it is, among several ranks.
    pub fn rank(&self, node: NodeIdx) -> Option<GlobalRank> {
        self.resource_at(node)?.rank
    }

    /// What a node's thread or stream is called.
    pub fn place(&self, node: NodeIdx) -> &str {
        self.resource_at(node).map_or("", |resource| &resource.name)
    }

    /// Gives back what the columns have taken in advance: graphs of all ranks of a run are there at
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

    /// All nodes, each after those that it waits for.
    pub(crate) fn order(&self) -> impl Iterator<Item = NodeIdx> {
        // Most graphs keep no list: see `topological_order`.
        let order = &self.order;
        self.indices().map(|place| match order.get(place.index()) {
            Some(node) => *node,
            None => place,
        })
    }
}

/// Takes nodes one after the other.
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    graph: ReplayGraph,
    /// Per edge; empty where none is stated.
    stated: Vec<Option<DurationNs>>,
    /// Per node; empty where none is stated.
    stated_of_nodes: Vec<Option<DurationNs>>,
}

impl GraphBuilder {
    /// A graph on these threads and streams.
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

    /// Makes room for so many nodes and edges, no more: a list that grows has up to twice as much.
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

    /// Appends a node and what it waits for, which may come later.
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
                // Most graphs state none, and those before the first have none.
                self.stated.resize(graph.deps.from.len(), None);
                self.stated.push(dep.latency);
            }
            graph.deps.from.push(dep.from);
            graph.deps.kind.push(dep.kind);
            graph.deps.inferred.push(dep.inferred);
        }
        // What 32 bits do not hold is refused by `finish`, which counts the edges themselves.
        let end = u32::try_from(graph.deps.from.len()).unwrap_or(u32::MAX);
        graph.deps.ends.push(end);
    }

    /// From the end of the last that the node just pushed waits for to its start, where a file says
    /// that: it is not taken from the starts then.
    pub fn state_latency(&mut self, latency: DurationNs) {
        if let Some(last) = self.graph.len().checked_sub(1) {
            self.stated_of_nodes.resize(last, None);
            self.stated_of_nodes.push(Some(latency));
        }
    }

    /// Those of the `gates` that have to open before all that they wait for has run, for all nodes
    /// to run: always the first that is stuck. O(nodes + edges).
    pub(crate) fn jammed_gates(&self, gates: impl Iterator<Item = NodeIdx>) -> Vec<NodeIdx> {
        order::jammed_gates(&self.graph, gates)
    }

    /// The graph. O(nodes + edges).
    ///
    /// # Errors
    /// A cycle, a dep that names no node, or more than `u32` can number.
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
        // Some starts without the others are no measure: the run begins at 0 as if there were none.
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

    /// Per edge what is stated, of itself or of its node; else 0.
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
