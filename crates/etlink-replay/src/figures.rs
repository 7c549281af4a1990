//! How true a graph is: its run without changes against what was measured.

use crate::graph::{EdgeKind, ReplayGraph, ReplayKind};
use crate::labels::{LabelSource, NodeLabel};
use crate::run::{NONE, ReplayRun};
use crate::stats::{Percentiles, share, worst};
use etlink_link::limits::{CLOCK_TOLERANCE, LAUNCH_LATENCY, WAIT_LATENCY};
use etlink_model::{DurationNs, NodeIdx};
use indexmap::IndexMap;
use serde::Serialize;

/// All figures. Those about measured times are absent where nodes have none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReplayFigures {
    /// Number of nodes, delays included.
    pub nodes: u64,
    /// Number of edges of all kinds.
    pub edges: u64,
    /// Nodes on streams, but for delays.
    pub device_ops: u64,
    /// Streams that have nodes.
    pub streams: u64,
    /// Last end less first start, as measured.
    pub measured_ns: Option<i64>,
    /// The same in the run.
    pub replayed_ns: i64,
    /// By how much of the measured makespan they differ.
    pub replay_error: Option<f64>,
    /// How far the nodes' ends are off.
    pub end_error: Option<EndError>,
    /// Delays of device work that no cause explains.
    pub unexplained: UnexplainedWaits,
    /// Edges whose source ends after the target starts.
    pub contradictions: Option<ContradictedEdges>,
    /// By kind of edge.
    pub by_edge: IndexMap<EdgeKind, EdgeFigures>,
    /// What came before the recording.
    pub boundary: DelaySummary,
}

/// Absolute difference of replayed and measured ends over all nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EndError {
    /// Mean, ns.
    pub mean_ns: i64,
    /// Mean, of the measured makespan.
    pub mean_share: f64,
    /// Percentiles over all nodes, ns.
    #[serde(flatten)]
    pub spread: Percentiles,
    /// 99th percentile, of the measured makespan.
    pub p99_share: f64,
    /// The nodes that are furthest off; positive: the run is later.
    pub worst: Vec<NodeTime>,
}

/// A node and a length of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeTime {
    /// ns.
    pub ns: i64,
    /// Which node.
    #[serde(flatten)]
    pub label: NodeLabel,
}

/// Waiting that no edge explains: a device op starts long after all that it waits for has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UnexplainedWaits {
    /// Device ops with such a delay before them.
    pub device_ops: u64,
    /// Of all device ops.
    pub share_of_ops: f64,
    /// The delays' sum, ns.
    pub waiting_ns: i64,
    /// Of makespan x streams.
    pub share_of_time: f64,
    /// Device ops with the longest delays.
    pub worst: Vec<NodeTime>,
}

/// Edges that the measured times contradict by more than [`CLOCK_TOLERANCE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContradictedEdges {
    /// Number of such edges.
    pub edges: u64,
    /// The targets that start the furthest before a source ends.
    pub worst: Vec<NodeTime>,
}

/// Edges of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EdgeFigures {
    /// Number of edges of this kind.
    pub count: u64,
    /// Of them found by a rule.
    pub inferred: u64,
    /// Of them the last of the target's deps to end.
    pub decided: u64,
    /// Latency of the nodes whose start they decided.
    pub latency: Percentiles,
}

/// Delay nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DelaySummary {
    /// Number of delay nodes.
    pub count: u64,
    /// Their sum, ns.
    pub total_ns: i64,
    /// The longest, ns.
    pub max_ns: i64,
}

/// The figures of a run without changes. O(nodes + edges).
pub fn replay_figures(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    run: &ReplayRun,
) -> ReplayFigures {
    let mut used = vec![false; graph.resources.len()];
    let on_device = graph.indices().filter(|node| graph.on_device(*node));
    on_device.for_each(|node| used[graph.resource[node.index()] as usize] = true);
    let device_ops = graph.indices().filter(|node| graph.is_device_op(*node));
    let measured_ns = graph.measured.then(|| measured(graph));
    let mut figures = ReplayFigures {
        nodes: graph.len() as u64,
        edges: graph.edges() as u64,
        device_ops: device_ops.count() as u64,
        streams: used.iter().filter(|used| **used).count() as u64,
        measured_ns,
        replayed_ns: run.makespan().0,
        by_edge: by_edge(graph, run),
        boundary: boundary(graph),
        ..ReplayFigures::default()
    };
    if let Some(measured) = measured_ns {
        figures.replay_error = Some(share((figures.replayed_ns - measured).abs(), measured));
        figures.end_error = Some(end_error(graph, labels, run, measured));
        figures.contradictions = Some(contradictions(graph, labels));
    }
    // A file without start times has no measured makespan: shares are then of the run's own.
    let makespan = measured_ns.unwrap_or(figures.replayed_ns);
    figures.unexplained = unexplained(
        graph,
        labels,
        run,
        figures.device_ops,
        makespan.saturating_mul(figures.streams as i64),
    );
    figures
}

fn measured(graph: &ReplayGraph) -> i64 {
    let last = graph.indices().map(|node| graph.end(node)).max();
    let first = graph.start.iter().min();
    last.zip(first).map_or(0, |(last, first)| (last - *first).0)
}

fn label_nodes(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    worst: Vec<(i64, NodeIdx)>,
) -> Vec<NodeTime> {
    worst
        .into_iter()
        .map(|(ns, node)| NodeTime {
            ns,
            label: NodeLabel::from_node(graph, labels, node),
        })
        .collect()
}

fn end_error(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    run: &ReplayRun,
    measured: i64,
) -> EndError {
    let late = |node: NodeIdx| run.end(node).since(graph.end(node));
    let errors: Vec<i64> = graph
        .indices()
        .map(|node| late(node).saturating_abs())
        .collect();
    // Errors of millions of nodes can sum to more than 64 bits in a trace of hours.
    let total: i128 = errors.iter().map(|error| i128::from(*error)).sum();
    let mean_ns = i64::try_from(total / graph.len().max(1) as i128).unwrap_or(i64::MAX);
    let off = errors
        .iter()
        .zip(graph.indices())
        .filter(|(error, _)| **error > 0)
        .map(|(error, node)| (*error, node));
    let mut worst = worst(off);
    worst.iter_mut().for_each(|(ns, node)| *ns = late(*node));
    let spread = Percentiles::from_values(errors);
    EndError {
        mean_ns,
        mean_share: share(mean_ns, measured),
        p99_share: share(spread.p99_ns, measured),
        spread,
        worst: label_nodes(graph, labels, worst),
    }
}

/// What a device op waited for beyond the latency of its mechanism. `by_node`: such waits are
/// nodes.
fn unexplained_delay(graph: &ReplayGraph, run: &ReplayRun, node: NodeIdx, by_node: bool) -> i64 {
    let waits = graph
        .deps(node)
        .map(|dep| dep.from.index())
        .filter(|from| graph.kind[*from] == ReplayKind::UnexplainedWait);
    let waited = waits.map(|wait| graph.duration[wait]).sum::<DurationNs>().0;
    let limit = match run.decided[node.index()] {
        // Latencies of a linked graph are below the limits by construction: what exceeds them is a
        // node already.
        _ if by_node => return waited,
        // Nothing decided the start, so there is no mechanism whose latency could be exceeded.
        NONE => i64::MAX,
        // Files of other writers have no delay nodes: the linker's limits then part latency from
        // waiting.
        dep if graph.dep(dep as usize).kind == EdgeKind::Launch => LAUNCH_LATENCY.0,
        _ => WAIT_LATENCY.0,
    };
    Some(graph.latency[node.index()].0)
        .filter(|latency| *latency > limit)
        .map_or(waited, |latency| waited.saturating_add(latency))
}

fn unexplained(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    run: &ReplayRun,
    device_ops: u64,
    time: i64,
) -> UnexplainedWaits {
    let work = |node: &NodeIdx| graph.on_device(*node) && !graph.kind[node.index()].is_delay();
    let nodes = graph.indices().filter(work);
    // who writes what came before the recording as nodes does so with unexplained waits too
    let by_node = graph.kind.iter().any(|kind| kind.is_delay());
    let delayed: Vec<(i64, NodeIdx)> = nodes
        .map(|node| (unexplained_delay(graph, run, node, by_node), node))
        .filter(|(delay, _)| *delay > 0)
        .collect();
    let waiting_ns = delayed
        .iter()
        .fold(0i64, |sum, (delay, _)| sum.saturating_add(*delay));
    UnexplainedWaits {
        device_ops: delayed.len() as u64,
        share_of_ops: share(delayed.len() as i64, device_ops as i64),
        waiting_ns,
        share_of_time: share(waiting_ns, time),
        worst: label_nodes(graph, labels, worst(delayed.into_iter())),
    }
}

fn contradictions(graph: &ReplayGraph, labels: &dyn LabelSource) -> ContradictedEdges {
    let early = |node: NodeIdx| {
        let start = graph.start[node.index()];
        let deps = graph.deps(node);
        deps.map(move |dep| (graph.end(dep.from).since(start), node))
    };
    // Walked twice and not collected: a wrong clock makes every edge of a trace contradict.
    let wrong = || {
        graph
            .indices()
            .flat_map(early)
            .filter(|(ns, _)| *ns > CLOCK_TOLERANCE.0)
    };
    ContradictedEdges {
        edges: wrong().count() as u64,
        worst: label_nodes(graph, labels, worst(wrong())),
    }
}

fn by_edge(graph: &ReplayGraph, run: &ReplayRun) -> IndexMap<EdgeKind, EdgeFigures> {
    let mut latencies = EdgeKind::ALL.map(|_| vec![]);
    let mut all = EdgeKind::ALL.map(|_| EdgeFigures::default());
    for node in graph.indices() {
        for dep in graph.deps(node) {
            let figures = &mut all[dep.kind as usize];
            figures.count += 1;
            figures.inferred += u64::from(dep.inferred);
        }
        let decided = run.decided[node.index()];
        if decided != NONE {
            let kind = graph.dep(decided as usize).kind;
            latencies[kind as usize].push(graph.latency[node.index()].0);
        }
    }
    let with_latency = all
        .into_iter()
        .zip(latencies)
        .map(|(figures, latencies)| EdgeFigures {
            decided: latencies.len() as u64,
            latency: Percentiles::from_values(latencies),
            ..figures
        });
    EdgeKind::ALL
        .into_iter()
        .zip(with_latency)
        .filter(|(_, figures)| figures.count > 0)
        .collect()
}

fn boundary(graph: &ReplayGraph) -> DelaySummary {
    let mut delays = DelaySummary::default();
    for node in (0..graph.len()).filter(|node| graph.kind[*node] == ReplayKind::Boundary) {
        let duration = graph.duration[node].0;
        delays.count += 1;
        delays.total_ns = delays.total_ns.saturating_add(duration);
        delays.max_ns = delays.max_ns.max(duration);
    }
    delays
}
