//! Collects what nodes need to know about earlier nodes, so that they can be encoded in any order.

use super::part::PartGraph;
use super::roofline::RooflineWorks;
use super::rounding::Rounding;
use super::weights::EdgeWeights;
use crate::{LatencyMode, TracePart, WriteOptions};
use etlink_link::ranks::RankSummary;
use etlink_link::{EdgeKind, LinkedTrace, NodeKind, Nodes};
use etlink_model::{DurationNs, GlobalRank, NodeIdx, TimeNs};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// Minimum length of a piece of an op or call; a shorter one that is not the first is merged with
/// the previous work of its thread.
const SHORT: DurationNs = DurationNs(1_000);

/// Data about all nodes that is needed before the first is encoded, as columns.
pub(crate) struct EtPlan {
    /// Node that each node is merged with: itself, or an earlier node of its thread.
    with: Vec<NodeIdx>,
    /// Duration of each node, including the nodes merged into it.
    pub(crate) duration: Vec<DurationNs>,
    /// Time from the end of each node's last dep to its start.
    pub(crate) latency: Vec<DurationNs>,
    /// Duration of each node in whole microseconds, including the rounding remainder carried over.
    pub(crate) duration_us: Vec<u64>,
    /// Duration of the latency node before each node, in whole microseconds; empty without latency
    /// nodes.
    pub(crate) latency_us: Vec<u64>,
    /// Id of each node; empty if ids equal numbers.
    ids: Vec<u64>,
    /// Node of the first slice of each CPU op; [`NodeIdx::NONE`] if there is none.
    pub(crate) first_slice: Vec<NodeIdx>,
    /// Communications and the one before each, by node; empty if they need not be serialized.
    serial_order: Vec<(NodeIdx, NodeIdx)>,
    /// Work of nodes; `None` if it is not written.
    pub(crate) roofline: Option<RooflineWorks>,
    /// Weights of dependencies; `None` if they are not written.
    pub(crate) weights: Option<EdgeWeights>,
    /// Nodes that carry out a communication of the host, and the communication's node, by node.
    transfers: Vec<(NodeIdx, NodeIdx)>,
}

impl EtPlan {
    /// Builds the plan of a graph. O(nodes + edges).
    pub(crate) fn of(
        trace: &LinkedTrace,
        graph: &PartGraph<'_>,
        turns: CommTurns,
        weights: Option<EdgeWeights>,
        options: &WriteOptions<'_>,
    ) -> EtPlan {
        let nodes = &graph.nodes;
        // These computations are independent.
        let ((with, mut duration), (mut latency, first_slice)) = rayon::join(
            || joined(graph),
            || rayon::join(|| latencies(graph), || first_slices(trace, graph)),
        );
        // The preceding communication, which is not among their deps, can end later than these.
        for (node, before) in &turns.pairs {
            let since = nodes.start[node.index()] - nodes.end(*before);
            if since >= DurationNs(0) {
                latency[node.index()] = since.min(latency[node.index()]);
            }
        }
        for node in turns.moved {
            latency[node.index()] = DurationNs(0);
        }
        // An offset shifts all times equally; only a drift changes lengths.
        if options.clock.drift.is_some_and(|drift| drift.applied) {
            for (node, start) in nodes.start.iter().enumerate() {
                // Computed from ends, so that sums stay exact.
                let ready = start.0.saturating_sub(latency[node].0);
                let end = start.0.saturating_add(duration[node].0);
                let [ready, start, end] =
                    [ready, start.0, end].map(|time| options.aligned(trace, time));
                duration[node] = DurationNs(end.saturating_sub(start));
                latency[node] = DurationNs(start.saturating_sub(ready));
            }
        }
        let roofline = options.roofline.then(|| RooflineWorks::of(trace));
        let transfers = match &graph.transfers {
            _ if options.part != TracePart::Whole => vec![],
            Some(transfers) => transfers.clone(),
            None => transfers(trace),
        };
        let mut plan = EtPlan {
            with,
            duration,
            latency,
            duration_us: vec![],
            latency_us: vec![],
            ids: vec![],
            first_slice,
            serial_order: turns.pairs,
            roofline,
            weights,
            transfers,
        };
        plan.round(trace, graph, options);
        // Only then do ids differ from the nodes' numbers.
        if options.latency == LatencyMode::Node || options.no_gaps {
            let mut next = 0;
            for node in nodes.indices() {
                next += u64::from(plan.has_latency_node(node));
                plan.ids.push(next);
                let kind = nodes.kind[node.index()];
                next += u64::from(plan.is_written(node, kind, options));
            }
        }
        plan
    }

    /// Rounds the times of nodes. Gaps of a passive thread take no time: simulators run one host
    /// node at a time, and these gaps would delay the threads that do the work.
    fn round(&mut self, trace: &LinkedTrace, graph: &PartGraph<'_>, options: &WriteOptions<'_>) {
        // Empty if all gaps take time.
        let passive = if graph.takes.is_empty() && options.part != TracePart::Communication {
            trace.passive_threads()
        } else {
            vec![]
        };
        // Each thread and queue carries its own remainder, because each has its own sum to preserve.
        let device = &trace.device;
        let tracks = [device.threads.len(), device.queues.len()];
        let [mut threads, mut queues] = tracks.map(Rounding::new);
        let (nodes, mode) = (&graph.nodes, options.latency);
        let takes = self.serialized_takes(graph);
        self.duration_us.reserve(nodes.len());
        for node in 0..nodes.len() {
            let take = match &takes {
                Some(takes) => takes[node],
                None if mode == LatencyMode::Fold => self.duration[node] + self.latency[node],
                None => self.duration[node],
            };
            let at = nodes.track[node];
            let on_device = nodes.on_device[node];
            let is_passive = !on_device
                && matches!(nodes.kind[node], NodeKind::HostGap | NodeKind::Boundary)
                && passive.get(at.index()).copied().unwrap_or(false);
            if is_passive {
                self.duration_us.push(0);
                if mode == LatencyMode::Node {
                    self.latency_us.push(0);
                }
                continue;
            }
            let rounding = if on_device { &mut queues } else { &mut threads };
            if mode == LatencyMode::Node {
                self.latency_us
                    .push(rounding.micros(at, self.latency[node]));
            }
            self.duration_us.push(rounding.micros(at, take));
        }
    }

    /// Returns the time of each node to round, including the nodes merged into it; `None` if nodes
    /// take their own time.
    fn serialized_takes(&self, graph: &PartGraph<'_>) -> Option<Vec<DurationNs>> {
        if graph.takes.is_empty() {
            return None;
        }
        let mut takes = graph.takes.clone();
        for (node, with) in self
            .with
            .iter()
            .enumerate()
            .filter(|(node, with)| with.index() != *node)
        {
            let take = std::mem::take(&mut takes[node]);
            takes[with.index()] += take;
        }
        Some(takes)
    }

    /// Returns the id of a node, or of the node it is merged with.
    pub(crate) fn id(&self, node: NodeIdx) -> u64 {
        let node = self.with[node.index()];
        let id = self.ids.get(node.index()).copied();
        id.unwrap_or(u64::from(node.0))
    }

    /// Returns the latency of the edge at this position among all edges, counted from the end of
    /// the node that `from` is merged with.
    pub(crate) fn edge_latency(
        &self,
        graph: &PartGraph<'_>,
        from: NodeIdx,
        place: usize,
    ) -> Option<DurationNs> {
        let latency = self.weights.as_ref()?.latency(place);
        let with = self.with[from.index()];
        if with == from {
            return Some(latency);
        }
        let written_end = graph.nodes.start[with.index()] + self.duration[with.index()];
        Some(graph.nodes.end(from) + latency - written_end)
    }

    /// Returns true if a node of this kind is written separately.
    pub(crate) fn is_written(
        &self,
        node: NodeIdx,
        kind: NodeKind,
        options: &WriteOptions<'_>,
    ) -> bool {
        self.with[node.index()] == node && !is_left_out(kind, options)
    }

    /// Returns the number of nodes in the file, including latency nodes. O(nodes).
    pub(crate) fn node_count(&self, graph: &PartGraph<'_>, options: &WriteOptions<'_>) -> u64 {
        let mut count = 0;
        for node in graph.nodes.indices() {
            if self.is_written(node, graph.nodes.kind[node.index()], options) {
                count += 1 + u64::from(self.has_latency_node(node));
            }
        }
        count
    }

    /// Returns the communication before this one; `None` if the node is no communication or need
    /// not wait for its turn.
    pub(crate) fn serialized_after(&self, node: NodeIdx) -> Option<NodeIdx> {
        let at = self
            .serial_order
            .binary_search_by_key(&node, |(node, _)| *node)
            .ok()?;
        Some(self.serial_order[at].1)
    }

    /// Returns the communication that a host node carries out; it can be the node itself.
    pub(crate) fn transfer_of(&self, node: NodeIdx) -> Option<NodeIdx> {
        let at = self
            .transfers
            .binary_search_by_key(&node, |(node, _)| *node)
            .ok()?;
        Some(self.transfers[at].1)
    }

    /// Returns true if a latency node precedes a node; its id is one less than the node's.
    pub(crate) fn has_latency_node(&self, node: NodeIdx) -> bool {
        !self.latency_us.is_empty() && self.latency[node.index()] > DurationNs(0)
    }
}

fn transfers(trace: &LinkedTrace) -> Vec<(NodeIdx, NodeIdx)> {
    let nodes = &trace.nodes;
    if !(0..nodes.len())
        .any(|node| nodes.kind[node] == NodeKind::Collective && !nodes.on_device[node])
    {
        return vec![];
    }
    // The rank is irrelevant here: only extents are used.
    let facts = RankSummary::from_trace(trace, GlobalRank::default());
    let elsewhere = facts
        .communications
        .iter()
        // A worker's range is its own transfer, which a reader could not distinguish from a call.
        .filter(|own| own.extent.is_transfer && !own.on_device);
    let pairs = elsewhere.map(|own| (own.extent.waits, own.node));
    let mut all: Vec<(NodeIdx, NodeIdx)> = pairs.collect();
    all.sort_unstable();
    all
}

/// Returns true if nodes of this kind are omitted.
pub(crate) fn is_left_out(kind: NodeKind, options: &WriteOptions<'_>) -> bool {
    options.no_gaps && kind == NodeKind::HostGap
}

/// Returns, for each node, the time from the end of its last dep to its start.
fn latencies(graph: &PartGraph<'_>) -> Vec<DurationNs> {
    let nodes = &graph.nodes;
    (0..nodes.len())
        .into_par_iter()
        .map(|node| nodes.latency(&graph.edges, NodeIdx::new(node)))
        .collect()
}

/// Returns, for each node, the node it is merged with, and the resulting durations. Nodes that only
/// wait for the earlier one wait longer by the short piece; no sum changes.
fn joined(graph: &PartGraph<'_>) -> (Vec<NodeIdx>, Vec<DurationNs>) {
    let nodes = &graph.nodes;
    let mut with: Vec<NodeIdx> = nodes.indices().collect();
    let mut duration = nodes.duration.clone();
    for node in nodes.indices() {
        let own = node.index();
        if nodes.first[own] || nodes.duration[own] >= SHORT || !is_host_work(nodes, node) {
            continue;
        }
        let mut deps = graph.edges.deps(node).iter();
        // A second dep could end later than the first: the short piece then marks that time.
        let (Some(edge), None) = (deps.next(), deps.next()) else {
            continue;
        };
        if edge.kind == EdgeKind::ProgramOrder && is_host_work(nodes, edge.from) {
            let target = with[edge.from.index()];
            with[own] = target;
            duration[target.index()] += nodes.duration[own];
            duration[own] = DurationNs(0);
        }
    }
    (with, duration)
}

/// Returns true if a node is an op or a call of the host.
fn is_host_work(nodes: &Nodes, node: NodeIdx) -> bool {
    let node = node.index();
    let is_work = matches!(nodes.kind[node], NodeKind::HostOp | NodeKind::Runtime);
    is_work && !nodes.on_device[node]
}

/// Order of a rank's communications that may not overlap.
#[derive(Debug, Default)]
pub(crate) struct CommTurns {
    /// Communications and the one before each, by node.
    pairs: Vec<(NodeIdx, NodeIdx)>,
    /// Communications that now begin later than measured.
    moved: Vec<NodeIdx>,
}

impl CommTurns {
    /// Serializes the communications of a graph if its file requires it. Transfers of several Gloo
    /// threads share the network, and would take the sum of their times one after the other: each
    /// begins once the previous one has ended, and keeps its remaining time. O(n log n) in
    /// communications.
    pub(crate) fn set(graph: &mut PartGraph<'_>, options: &WriteOptions<'_>) -> CommTurns {
        if !options.serialize_comms {
            return CommTurns::default();
        }
        let pairs = serial_order(graph, options);
        let mut turns = CommTurns {
            pairs,
            moved: vec![],
        };
        // Times need to add up only if latencies are folded in.
        if options.latency == LatencyMode::Fold {
            turns.move_starts(graph);
        }
        turns
    }

    fn move_starts(&mut self, graph: &mut PartGraph<'_>) {
        let next: FxHashMap<NodeIdx, NodeIdx> = self
            .pairs
            .iter()
            .map(|(node, before)| (*before, *node))
            .collect();
        let follows = |node: &NodeIdx| self.pairs.binary_search_by_key(node, |pair| pair.0).is_ok();
        let mut firsts = graph.communications.clone();
        firsts.retain(|node| !follows(node));
        for first in firsts {
            let mut ended = graph.nodes.end(first);
            let mut node = first;
            while let Some(after) = next.get(&node) {
                node = *after;
                let end = graph.nodes.end(node);
                let overlaps = graph.nodes.start[node.index()] < ended;
                // Device rows keep their times: replay shows the cost of serialization.
                if overlaps && !graph.nodes.on_device[node.index()] {
                    begin_at(graph, node, ended, end.max(ended));
                    self.moved.push(node);
                }
                ended = ended.max(end);
            }
        }
        self.move_gaps(graph);
    }

    /// Shifts gaps. A communication that had ended before its turn now ends later; the following
    /// gap on its thread begins there, and so do instant nodes that only wait for the
    /// communication.
    fn move_gaps(&self, graph: &mut PartGraph<'_>) {
        let nodes = &graph.nodes;
        let mut later: FxHashMap<NodeIdx, TimeNs> = self
            .moved
            .iter()
            .filter(|node| nodes.duration[node.index()] == DurationNs(0))
            .map(|node| (*node, nodes.end(*node)))
            .collect();
        if later.is_empty() {
            return;
        }
        let mut moves = vec![];
        // Edges are ordered by dependent, ascending: a cause is known to be late before its
        // effects.
        for edge in graph.edges.iter() {
            let Some(since) = later.get(&edge.from).copied() else {
                continue;
            };
            let (start, end) = (nodes.start[edge.to.index()], nodes.end(edge.to));
            if start == end && start < since && !graph.is_communication(edge.to) {
                moves.push((edge.to, since, since));
                later.insert(edge.to, since);
            } else if nodes.kind[edge.to.index()] == NodeKind::HostGap {
                moves.push((edge.to, start.max(since.min(end)), end));
            }
        }
        for (node, start, end) in moves {
            begin_at(graph, node, start, end);
        }
    }
}

/// Sets the start and end of a node.
fn begin_at(graph: &mut PartGraph<'_>, node: NodeIdx, start: TimeNs, end: TimeNs) {
    let left = end - start;
    let nodes = graph.nodes.to_mut();
    nodes.start[node.index()] = start;
    nodes.duration[node.index()] = left;
    // Without this column, a node takes its duration. A gap keeps less if others ran meanwhile.
    if let Some(take) = graph.takes.get_mut(node.index()) {
        *take = left.min(*take);
    }
}

/// Returns pairs of a communication and the one before it. If their order differs from the order of
/// nodes, and would close a cycle with other deps, only pairs in the order of nodes are kept.
fn serial_order(graph: &PartGraph<'_>, options: &WriteOptions<'_>) -> Vec<(NodeIdx, NodeIdx)> {
    let order = options
        .agreement
        .map_or(&[][..], |agreement| &agreement.serial_order);
    let nodes = if order.is_empty() {
        graph.communications.clone()
    } else {
        graph.find(order)
    };
    let mut pairs: Vec<(NodeIdx, NodeIdx)> =
        nodes.windows(2).map(|pair| (pair[1], pair[0])).collect();
    pairs.sort_unstable();
    // Pairs in the order of nodes agree with all edges and cannot close a cycle.
    if pairs.iter().any(|(node, before)| before > node) && !is_acyclic(graph, &pairs) {
        pairs.retain(|(node, before)| before < node);
    }
    pairs
}

fn is_acyclic(graph: &PartGraph<'_>, serial_order: &[(NodeIdx, NodeIdx)]) -> bool {
    let deps = graph.edges.iter().map(|edge| (edge.from.0, edge.to.0));
    let serial_order = serial_order.iter().map(|(node, before)| (before.0, node.0));
    let graph = petgraph::graph::DiGraph::<(), ()>::from_edges(deps.chain(serial_order));
    petgraph::algo::toposort(&graph, None).is_ok()
}

fn first_slices(trace: &LinkedTrace, graph: &PartGraph<'_>) -> Vec<NodeIdx> {
    let nodes = &graph.nodes;
    let mut first = vec![NodeIdx::NONE; trace.device.ops.len()];
    for node in (0..nodes.len()).filter(|node| !nodes.on_device[*node]) {
        let of_op = matches!(
            nodes.kind[node],
            NodeKind::HostOp | NodeKind::HostGap | NodeKind::Collective
        );
        if let Some(first) = first
            .get_mut(nodes.source[node] as usize)
            .filter(|first| of_op && **first == NodeIdx::NONE)
        {
            *first = NodeIdx::new(node);
        }
    }
    first
}
