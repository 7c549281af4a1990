//! Fidelity of a graph: its run without changes compared with the measured times.

use crate::graph::{EdgeKind, ReplayGraph, ReplayKind};
use crate::labels::{LabelSource, NodeLabel};
use crate::run::ReplayRun;
use crate::stats::{Percentiles, count_share, time_share, worst_nodes};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::RecordingOverhead;
use etlink_link::limits::{CLOCK_TOLERANCE, LAUNCH_LATENCY, WAIT_LATENCY};
use etlink_model::{DurationNs, NodeIdx};
use indexmap::IndexMap;
use serde::Serialize;

/// Figures of a replay. Those about measured times are `None` if nodes have no start times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayFigures {
    /// Number of nodes, including delays.
    pub nodes: u64,
    /// Number of edges of all kinds.
    pub edges: u64,
    /// Number of nodes on streams, excluding delays.
    pub device_ops: u64,
    /// Number of streams that have nodes.
    pub streams: u64,
    /// Measured makespan: last end minus first start.
    pub measured_ns: Option<DurationNs>,
    /// Measured makespan without the overhead of recording, if it was removed: the figures below
    /// compare the run with these times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrected_ns: Option<DurationNs>,
    /// Makespan of the run.
    pub replayed_ns: DurationNs,
    /// Difference of the makespans, relative to the measured one.
    pub replay_error: Option<f64>,
    /// Differences of node ends.
    pub end_error: Option<EndError>,
    /// Delays of device work that no cause explains.
    pub unexplained: UnexplainedWaits,
    /// Edges whose source ends after the target starts.
    pub contradictions: Option<ContradictedEdges>,
    /// Figures by kind of edge.
    pub by_edge: IndexMap<EdgeKind, EdgeFigures>,
    /// Delays from before the recording.
    pub boundary: DelaySummary,
}

impl ReplayFigures {
    /// Sets the recorded time, if the overhead of recording was removed from ranks: the times
    /// measured so far are then the corrected ones.
    pub fn name_recorded<'o>(
        mut self,
        ranks: impl IntoIterator<Item = &'o RecordingOverhead>,
    ) -> ReplayFigures {
        let removed = ranks.into_iter().filter(|rank| rank.is_removed);
        if let Some(recorded) = removed.map(|rank| rank.recorded_ns).max() {
            self.corrected_ns = self.measured_ns.replace(recorded);
        }
        self
    }
}

/// Absolute difference of replayed and measured ends over all nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndError {
    /// Mean in ns.
    pub mean_ns: DurationNs,
    /// Mean relative to the measured makespan.
    pub mean_share: f64,
    /// Percentiles over all nodes, in ns.
    #[serde(flatten)]
    pub spread: Percentiles,
    /// 99th percentile relative to the measured makespan.
    pub p99_share: f64,
    /// Nodes with the largest differences; positive if the run is later.
    pub worst: Vec<NodeTime>,
}

/// A node and a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeTime {
    /// Time in ns; for a difference, negative if the run is earlier than measured.
    pub ns: i64,
    /// Label of the node.
    #[serde(flatten)]
    pub label: NodeLabel,
}

/// Waits that no edge explains: a device op starts long after all its causes have ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnexplainedWaits {
    /// Number of device ops after such a wait.
    pub device_ops: u64,
    /// Share of all device ops.
    pub share_of_ops: f64,
    /// Sum of the waits in ns.
    pub waiting_ns: DurationNs,
    /// Share of makespan x streams.
    pub share_of_time: f64,
    /// Device ops with the longest waits.
    pub worst: Vec<NodeTime>,
}

/// Edges that the measured times contradict by more than [`CLOCK_TOLERANCE`]: their target starts
/// before their source ends. A device op may start up to [`WAIT_LATENCY`] before its launch call
/// returns, and before its predecessor on the stream ends if it ends no earlier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContradictedEdges {
    /// Number of such edges.
    pub edges: u64,
    /// Targets that start furthest before a source ends.
    pub worst: Vec<NodeTime>,
}

/// Figures of one kind of edge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EdgeFigures {
    /// Number of edges of this kind.
    pub count: u64,
    /// Number of edges that were found by a rule.
    pub inferred: u64,
    /// Number of edges that decided the start of their target.
    pub decided: u64,
    /// Latency of the deciding edges.
    pub latency: Percentiles,
}

/// Summary of delay nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelaySummary {
    /// Number of delay nodes.
    pub count: u64,
    /// Sum of the delays in ns.
    pub total_ns: DurationNs,
    /// Longest delay in ns.
    pub max_ns: DurationNs,
}

/// Computes the figures of a run without changes. O(nodes + edges).
pub fn replay_figures(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    run: &ReplayRun,
) -> ReplayFigures {
    let mut used = vec![false; graph.resources.len()];
    let on_device = graph.indices().filter(|node| graph.on_device(*node));
    on_device.for_each(|node| used[graph.resource[node.index()].index()] = true);
    let device_ops = graph.indices().filter(|node| graph.is_device_op(*node));
    let measured_ns = graph.measured.then(|| measured_makespan(graph));
    let mut figures = ReplayFigures {
        nodes: graph.len() as u64,
        edges: graph.edges() as u64,
        device_ops: device_ops.count() as u64,
        streams: used.iter().filter(|used| **used).count() as u64,
        measured_ns,
        replayed_ns: run.makespan(),
        by_edge: edge_figures(graph, run),
        boundary: boundary_delays(graph),
        ..ReplayFigures::default()
    };
    if let Some(measured) = measured_ns {
        figures.replay_error = Some(replay_error(figures.replayed_ns, measured));
        figures.end_error = Some(end_error(graph, labels, run, measured));
        figures.contradictions = Some(contradictions(graph, labels));
    }
    // A file without start times has no measured makespan: shares then refer to the run's makespan.
    let makespan = measured_ns.unwrap_or(figures.replayed_ns);
    let stream_time = DurationNs(makespan.0.saturating_mul(figures.streams as i64));
    figures.unexplained = unexplained_waits(graph, labels, run, figures.device_ops, stream_time);
    figures
}

/// Returns the difference of a replayed and a measured time, relative to the measured one.
pub(crate) fn replay_error(replayed: DurationNs, measured: DurationNs) -> f64 {
    time_share(DurationNs((replayed.0 - measured.0).abs()), measured)
}

/// Returns the time from the first measured start to the last measured end; zero without nodes.
fn measured_makespan(graph: &ReplayGraph) -> DurationNs {
    let last = graph.indices().map(|node| graph.end(node)).max();
    let first = graph.start.iter().min();
    last.zip(first)
        .map_or(DurationNs::ZERO, |(last, first)| last - *first)
}

fn label_nodes(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    worst: Vec<(DurationNs, NodeIdx)>,
) -> Vec<NodeTime> {
    let mut named = vec![];
    for (time, node) in worst {
        let label = NodeLabel::from_node(graph, labels, node);
        named.push(NodeTime { ns: time.0, label });
    }
    named
}

/// Returns the difference between a node's replayed and measured end in ns, positive if later.
fn end_change(graph: &ReplayGraph, run: &ReplayRun, node: NodeIdx) -> i64 {
    run.end(node).since(graph.end(node))
}

/// Returns the mean of absolute differences in ns; 0 without values.
pub(crate) fn mean_error(errors: impl ExactSizeIterator<Item = DurationNs>) -> DurationNs {
    let count = errors.len().max(1) as i128;
    // Errors of millions of nodes can overflow 64 bits in a trace of hours.
    let total: i128 = errors.map(|error| i128::from(error.0)).sum();
    let mean = i64::try_from(total / count);
    debug_assert!(mean.is_ok(), "a mean is no more than the largest");
    DurationNs(mean.unwrap_or(i64::MAX))
}

/// Returns the absolute difference of a node's end.
pub(crate) fn node_error(graph: &ReplayGraph, run: &ReplayRun, node: NodeIdx) -> DurationNs {
    DurationNs(end_change(graph, run, node).saturating_abs())
}

fn end_error(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    run: &ReplayRun,
    measured: DurationNs,
) -> EndError {
    let errors: Vec<DurationNs> = graph
        .indices()
        .map(|node| node_error(graph, run, node))
        .collect();
    let mean_ns = mean_error(errors.iter().copied());
    let by_node = errors.iter().copied().zip(graph.indices());
    let worst = worst_nodes(by_node.filter(|(error, _)| *error > DurationNs::ZERO));
    let mut furthest = vec![];
    for (_, node) in worst {
        // They are sorted by size; readers also need the direction.
        let ns = end_change(graph, run, node);
        let label = NodeLabel::from_node(graph, labels, node);
        furthest.push(NodeTime { ns, label });
    }
    let spread = Percentiles::from_values(errors);
    EndError {
        mean_ns,
        mean_share: time_share(mean_ns, measured),
        p99_share: time_share(spread.p99_ns, measured),
        spread,
        worst: furthest,
    }
}

/// Returns the wait of a device op beyond the latency of its mechanism. With `by_node`, such waits
/// are nodes.
fn unexplained_delay(
    graph: &ReplayGraph,
    run: &ReplayRun,
    node: NodeIdx,
    by_node: bool,
) -> DurationNs {
    let waits = graph
        .deps(node)
        .map(|dep| dep.from.index())
        .filter(|from| graph.kind[*from] == ReplayKind::UnexplainedWait);
    let waited: DurationNs = waits.map(|wait| graph.duration[wait]).sum();
    // Latencies of a linked graph are below the limits by construction: anything above is a node.
    if by_node {
        return waited;
    }
    // Nothing decided the start, so there is no mechanism whose latency could be exceeded.
    let Some(edge) = run.deciding_edge(node) else {
        return waited;
    };
    // Files of other writers have no delay nodes: the linker's limits then separate latency from
    // waiting.
    let limit = match graph.dep(edge).kind {
        EdgeKind::Launch => LAUNCH_LATENCY,
        _ => WAIT_LATENCY,
    };
    let latency = graph.latency(edge);
    if latency > limit {
        waited + latency
    } else {
        waited
    }
}

fn unexplained_waits(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    run: &ReplayRun,
    device_ops: u64,
    stream_time: DurationNs,
) -> UnexplainedWaits {
    // a writer that has nodes for delays before the recording also has them for unexplained waits
    let by_node = graph.kind.iter().any(|kind| kind.is_delay());
    let mut delayed = vec![];
    for node in graph.indices() {
        if !graph.on_device(node) || graph.kind[node.index()].is_delay() {
            continue;
        }
        let delay = unexplained_delay(graph, run, node, by_node);
        if delay > DurationNs::ZERO {
            delayed.push((delay, node));
        }
    }
    let waiting_ns = delayed.iter().map(|(delay, _)| *delay).sum();
    let count = delayed.len() as u64;
    UnexplainedWaits {
        device_ops: count,
        share_of_ops: count_share(count, device_ops),
        waiting_ns,
        share_of_time: time_share(waiting_ns, stream_time),
        worst: label_nodes(graph, labels, worst_nodes(delayed.into_iter())),
    }
}

fn contradictions(graph: &ReplayGraph, labels: &dyn LabelSource) -> ContradictedEdges {
    // Computed twice instead of collected: a wrong clock makes every edge of a trace contradict.
    ContradictedEdges {
        edges: contradicted_edges(graph).count() as u64,
        worst: label_nodes(graph, labels, worst_nodes(contradicted_edges(graph))),
    }
}

/// Returns for each contradicted edge the time from the target's start to the source's end, and the
/// target.
fn contradicted_edges(graph: &ReplayGraph) -> impl Iterator<Item = (DurationNs, NodeIdx)> {
    let edges = graph.indices().flat_map(move |node| {
        let (start, end) = (graph.start[node.index()], graph.end(node));
        let overlaps = graph.deps(node).map(move |dep| match dep.kind {
            EdgeKind::StreamOrder => (dep.kind, graph.end(dep.from) - end),
            kind => (kind, graph.end(dep.from) - start),
        });
        overlaps.map(move |(kind, overlap)| (kind, overlap, node))
    });
    let contradicted = edges.filter(|(kind, overlap, _)| match kind {
        EdgeKind::Launch => *overlap > WAIT_LATENCY,
        _ => *overlap > CLOCK_TOLERANCE,
    });
    contradicted.map(|(_, overlap, node)| (overlap, node))
}

fn edge_figures(graph: &ReplayGraph, run: &ReplayRun) -> IndexMap<EdgeKind, EdgeFigures> {
    let mut latencies = EdgeKind::ALL.map(|_| vec![]);
    let mut all = EdgeKind::ALL.map(|_| EdgeFigures::default());
    for node in graph.indices() {
        for dep in graph.deps(node) {
            let figures = &mut all[dep.kind as usize];
            figures.count += 1;
            figures.inferred += u64::from(dep.inferred);
        }
        if let Some(edge) = run.deciding_edge(node) {
            let kind = graph.dep(edge).kind;
            latencies[kind as usize].push(graph.latency(edge));
        }
    }
    let mut by_kind = IndexMap::new();
    for ((kind, figures), latencies) in EdgeKind::ALL.into_iter().zip(all).zip(latencies) {
        // A kind without edges would be a line of zeros in every report.
        if figures.count == 0 {
            continue;
        }
        let figures = EdgeFigures {
            decided: latencies.len() as u64,
            latency: Percentiles::from_values(latencies),
            ..figures
        };
        by_kind.insert(kind, figures);
    }
    by_kind
}

fn boundary_delays(graph: &ReplayGraph) -> DelaySummary {
    let mut delays = DelaySummary::default();
    for (kind, duration) in graph.kind.iter().zip(&graph.duration) {
        if *kind == ReplayKind::Boundary {
            delays.count += 1;
            delays.total_ns += *duration;
            delays.max_ns = delays.max_ns.max(*duration);
        }
    }
    delays
}
