//! What nodes need to know of the nodes before them, so that they can be encoded in any order.

use super::part::PartGraph;
use super::roofline::RooflineWorks;
use super::rounding::TrackRounding;
use super::weights::EdgeWeights;
use crate::{LatencyMode, TracePart, WriteOptions};
use etlink_link::ranks::RankSummary;
use etlink_link::{EdgeKind, LinkedTrace, NodeKind, Nodes};
use etlink_model::{DurationNs, GlobalRank, NodeIdx, TimeNs};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// A piece of an op or call that is no longer than this, not its first, is written with what its
/// thread did just before.
const SHORT: DurationNs = DurationNs(1_000);

/// What is known of all nodes before the first is encoded, as columns.
pub(crate) struct EtPlan {
    /// Per node, the node that it is written with: itself, or an earlier one of its thread.
    with: Vec<NodeIdx>,
    /// Per node, how long it takes, with what is written with it.
    pub(crate) duration: Vec<DurationNs>,
    /// Per node, the time from the end of the last that it waits for to its start.
    pub(crate) latency: Vec<DurationNs>,
    /// Per node, its duration in whole microseconds with what rounding left over before it.
    pub(crate) duration_us: Vec<u64>,
    /// Per node, the same of a latency node before it. Empty where there are none.
    pub(crate) latency_us: Vec<u64>,
    /// Per node, its id. Empty: its number.
    ids: Vec<u64>,
    /// Per CPU op, the node of its first slice; [`NodeIdx::NONE`] = it has none.
    pub(crate) first_slice: Vec<NodeIdx>,
    /// Communications and the one before each, by node. Empty where they need not go in turn.
    serial_order: Vec<(NodeIdx, NodeIdx)>,
    /// What nodes compute and move, where that is to be written.
    pub(crate) roofline: Option<RooflineWorks>,
    /// What dependencies take by themselves, where that is to be written.
    pub(crate) weights: Option<EdgeWeights>,
    /// Nodes that carry out a communication of the host, and its node, by node.
    transfers: Vec<(NodeIdx, NodeIdx)>,
}

impl EtPlan {
    /// O(nodes + edges).
    pub(crate) fn of(
        trace: &LinkedTrace,
        graph: &PartGraph<'_>,
        turns: CommTurns,
        weights: Option<EdgeWeights>,
        options: &WriteOptions<'_>,
    ) -> EtPlan {
        let nodes = &graph.nodes;
        let mut plan = EtPlan::unrounded(trace, graph, turns, weights, options);
        let passive = plan.passive_threads(trace, graph, options);
        plan.round(graph, options, &passive, TrackRounding::of(trace));
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

    /// Without durations in microseconds.
    fn unrounded(
        trace: &LinkedTrace,
        graph: &PartGraph<'_>,
        turns: CommTurns,
        weights: Option<EdgeWeights>,
        options: &WriteOptions<'_>,
    ) -> EtPlan {
        let nodes = &graph.nodes;
        // None of these needs another.
        let ((with, mut duration), (mut latency, first_slice)) = rayon::join(
            || joined(graph),
            || rayon::join(|| latencies(graph), || first_slices(trace, graph)),
        );
        // What decides their start is the communication before, which is none of their deps.
        for node in turns.moved {
            latency[node.index()] = DurationNs(0);
        }
        // An offset moves all times alike; only a drift changes lengths.
        if options.clock.drift.is_some_and(|drift| drift.applied) {
            for (node, start) in nodes.start.iter().enumerate() {
                // by their ends, so that sums stay exact
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
        EtPlan {
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
        }
    }

    /// Threads whose gaps take no time. Empty where all take it.
    fn passive_threads(
        &self,
        trace: &LinkedTrace,
        graph: &PartGraph<'_>,
        options: &WriteOptions<'_>,
    ) -> Vec<bool> {
        if graph.takes.is_empty() && options.part != TracePart::Communication {
            trace.passive_threads()
        } else {
            vec![]
        }
    }

    /// Rounds the times of nodes. A thread that only looks on
    /// takes no time for its gaps: simulators run one host node at a time, and its would hold up the
    /// threads that do the work.
    fn round(
        &mut self,
        graph: &PartGraph<'_>,
        options: &WriteOptions<'_>,
        passive: &[bool],
        mut rounding: TrackRounding,
    ) {
        let (nodes, mode) = (&graph.nodes, options.latency);
        let takes = self.serialized_takes(graph);
        self.duration_us.reserve(nodes.len());
        for node in 0..nodes.len() {
            let take = match &takes {
                Some(takes) => takes[node],
                None => self.own_take(node, mode),
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
            // Each thread and queue carries its own remainder, as each has its own sum to keep.
            let rounding = if on_device {
                &mut rounding.queues
            } else {
                &mut rounding.threads
            };
            if mode == LatencyMode::Node {
                self.latency_us
                    .push(rounding.micros(at, self.latency[node]));
            }
            self.duration_us.push(rounding.micros(at, take));
        }
    }

    /// Per node, the time that is to be rounded, with what is written with it, where it is not that
    /// of the node itself.
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

    /// What a node takes by itself, with its latency where that is folded in.
    fn own_take(&self, node: usize, mode: LatencyMode) -> DurationNs {
        let mut take = self.duration[node];
        if mode == LatencyMode::Fold {
            take += self.latency[node];
        }
        take
    }

    /// The id of a node, or of the one that it is written with.
    pub(crate) fn id(&self, node: NodeIdx) -> u64 {
        let node = self.with[node.index()];
        let id = self.ids.get(node.index()).copied();
        id.unwrap_or(u64::from(node.0))
    }

    /// What the edge to a node at this place among all edges takes by itself: from the end of the
    /// node that `from` is written with.
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

    /// Whether a node of this kind is written by itself.
    pub(crate) fn is_written(
        &self,
        node: NodeIdx,
        kind: NodeKind,
        options: &WriteOptions<'_>,
    ) -> bool {
        self.with[node.index()] == node && !is_left_out(kind, options)
    }

    /// How many nodes the file has, latencies that are nodes included. O(nodes).
    pub(crate) fn node_count(&self, graph: &PartGraph<'_>, options: &WriteOptions<'_>) -> u64 {
        let mut count = 0;
        for node in graph.nodes.indices() {
            if self.is_written(node, graph.nodes.kind[node.index()], options) {
                count += 1 + u64::from(self.has_latency_node(node));
            }
        }
        count
    }

    /// The communication before this one, if it is one and has to wait for its turn.
    pub(crate) fn serialized_after(&self, node: NodeIdx) -> Option<NodeIdx> {
        let at = self
            .serial_order
            .binary_search_by_key(&node, |(node, _)| *node)
            .ok()?;
        Some(self.serial_order[at].1)
    }

    /// The communication that a node of the host carries out; it can be the node itself.
    pub(crate) fn transfer_of(&self, node: NodeIdx) -> Option<NodeIdx> {
        let at = self
            .transfers
            .binary_search_by_key(&node, |(node, _)| *node)
            .ok()?;
        Some(self.transfers[at].1)
    }

    /// Whether a node has a latency node before it, whose id is the one before its own.
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
    // The rank does not matter here: only extents are asked for.
    let facts = RankSummary::from_trace(trace, GlobalRank::default());
    let elsewhere = facts
        .communications
        .iter()
        // A worker's range is its own transfer, which a reader could not tell from a call.
        .filter(|own| own.extent.is_transfer && !own.on_device);
    let pairs = elsewhere.map(|own| (own.extent.waits, own.node));
    let mut all: Vec<(NodeIdx, NodeIdx)> = pairs.collect();
    all.sort_unstable();
    all
}

/// Whether nodes of this kind are not written.
pub(crate) fn is_left_out(kind: NodeKind, options: &WriteOptions<'_>) -> bool {
    options.no_gaps && kind == NodeKind::HostGap
}

/// Per node, the time from the end of the last that it waits for to its start.
fn latencies(graph: &PartGraph<'_>) -> Vec<DurationNs> {
    let nodes = &graph.nodes;
    (0..nodes.len())
        .into_par_iter()
        .map(|node| nodes.latency(&graph.edges, NodeIdx::new(node)))
        .collect()
}

/// Per node, the node that it is written with, and how long that takes then. What waits for the
/// earlier one alone waits longer by what was short, no sum changes.
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
        // A second dep could end later than the first: the short piece then marks when it did.
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

/// Whether a node is an op or a call of the host.
fn is_host_work(nodes: &Nodes, node: NodeIdx) -> bool {
    let node = node.index();
    let is_work = matches!(nodes.kind[node], NodeKind::HostOp | NodeKind::Runtime);
    is_work && !nodes.on_device[node]
}

/// In which order the communications of a rank go that may not run side by side.
#[derive(Debug, Default)]
pub(crate) struct CommTurns {
    /// Communications and the one before each, by node.
    pairs: Vec<(NodeIdx, NodeIdx)>,
    /// Those that now begin later than measured.
    moved: Vec<NodeIdx>,
}

impl CommTurns {
    /// Sets the turns of a graph, if its file is to have them. Transfers of several threads of Gloo
    /// share the network, and one after the other they would take the sum: each begins when the
    /// one before it has ended, and takes what is left. O(n log n) in communications.
    pub(crate) fn set(graph: &mut PartGraph<'_>, options: &WriteOptions<'_>) -> CommTurns {
        if !options.serialize_comms {
            return CommTurns::default();
        }
        let pairs = serial_order(graph, options);
        let mut turns = CommTurns {
            pairs,
            moved: vec![],
        };
        // Only with latencies folded in are times to add up.
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
                // Rows of a device keep their times: replay says what the turns cost.
                if overlaps && !graph.nodes.on_device[node.index()] {
                    begin_at(graph, node, ended, end.max(ended));
                    self.moved.push(node);
                }
                ended = ended.max(end);
            }
        }
        self.move_gaps(graph);
    }

    /// One that had ended before its turn now ends later. The gap behind it on its thread begins
    /// there, and so does what only waits for it and takes no time.
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
        // Edges come by what waits, ascending: a cause is known to be late before its effects.
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

/// Node `node` is from `start` to `end`.
fn begin_at(graph: &mut PartGraph<'_>, node: NodeIdx, start: TimeNs, end: TimeNs) {
    let left = end - start;
    let nodes = graph.nodes.to_mut();
    nodes.start[node.index()] = start;
    nodes.duration[node.index()] = left;
    // Without that column a node takes its duration. A gap has less, where others ran meanwhile.
    if let Some(take) = graph.takes.get_mut(node.index()) {
        *take = left.min(*take);
    }
}

/// Pairs of a communication and the one before it. Where they go in another order
/// than that of nodes, and that would make a circle with what they wait for otherwise, only what
/// agrees with the order of nodes is kept.
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
    // Pairs in the order of nodes agree with all edges and cannot close a circle.
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
