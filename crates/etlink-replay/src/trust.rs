//! Uncertainties of an answer: waits without a cause, and causes found only by a rule.

use crate::graph::{EdgeKind, ReplayGraph, ReplayKind};
use crate::labels::LabelSource;
use crate::path::{PathStep, StartReason, critical_path, resources_with_work};
use crate::run::ReplayRun;
use crate::stats::time_share;
use etlink_link::limits::LAUNCH_LATENCY;
use etlink_model::{DurationNs, TimeNs};
use serde::Serialize;

/// Uncertainties of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathTrust {
    /// Waits without a cause as a share of the path: a constant in every answer.
    pub unexplained_share: f64,
    /// Number of inferred edges on the path.
    pub inferred_edges: u64,
    /// Share of the path before its last inferred edge: if these edges were wrong, it would not
    /// decide.
    pub inferred_share: f64,
}

/// Returns the uncertainties of a run's critical path. O(nodes + edges).
pub fn path_trust(graph: &ReplayGraph, run: &ReplayRun) -> PathTrust {
    let path = critical_path(graph, run);
    let first = run.window().0;
    let whole = path
        .last()
        .map_or(DurationNs::ZERO, |step| run.end(step.node) - first);
    let mut trust = PathTrust::default();
    let mut unexplained = DurationNs::ZERO;
    for step in &path {
        if graph.kind[step.node.index()] == ReplayKind::UnexplainedWait {
            unexplained += run.duration[step.node.index()];
        }
        if is_inferred(graph, run, step) {
            trust.inferred_edges += 1;
            trust.inferred_share = time_share(run.start[step.node.index()] - first, whole);
        }
    }
    trust.unexplained_share = time_share(unexplained, whole);
    trust
}

fn is_inferred(graph: &ReplayGraph, run: &ReplayRun, step: &PathStep) -> bool {
    let by_edge = matches!(step.via, StartReason::Edge(_));
    let edge = if by_edge {
        run.deciding_edge(step.node)
    } else {
        None
    };
    edge.is_some_and(|edge| graph.dep(edge).inferred)
}

/// Waits that a graph leaves out or cannot explain.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrustFigures {
    /// Number of calls that stall for a device without a known cause: blocking calls by name that
    /// take longer than a launch, and calls that return when a stream has run dry.
    pub unexplained_calls: u64,
    /// Duration of these calls, in ns.
    pub unexplained_calls_ns: DurationNs,
    /// Number of launches that waited for room in a queue.
    pub blocked_launches: u64,
    /// Threads that nothing waits for: their ends do not count.
    pub passive_threads: Vec<String>,
    /// Uncertainties of the measured path.
    #[serde(flatten)]
    pub path: PathTrust,
}

/// Name parts of calls that return when a device has reached some point.
const BLOCKING_CALLS: [&str; 2] = ["Synchronize", "synchronize"];
/// Shortest wait that matters; a shorter call is ignored.
const LEAST_WAIT: DurationNs = DurationNs(20_000);
/// Longest time until a thread continues after the row that it waited for.
const WAKE_UP: DurationNs = DurationNs(10_000);

/// Start and end of the rows of each stream, in order.
struct StreamRows(Vec<Vec<(TimeNs, TimeNs)>>);

impl StreamRows {
    fn new(graph: &ReplayGraph) -> StreamRows {
        let mut streams = vec![vec![]; graph.resources.len()];
        for node in graph.indices().filter(|node| graph.is_device_op(*node)) {
            let span = (graph.start[node.index()], graph.end(node));
            streams[graph.resource[node.index()].index()].push(span);
        }
        // A written graph can have its nodes in another order.
        streams.iter_mut().for_each(|rows| rows.sort_unstable());
        StreamRows(streams)
    }

    /// Returns true if a call returned just after a stream ran dry that was busy when the call
    /// began.
    fn runs_dry_at(&self, begun: TimeNs, returned: TimeNs) -> bool {
        self.0.iter().any(|rows| {
            let started = rows.partition_point(|(start, _)| *start < returned);
            let last = started.checked_sub(1).map(|last| rows[last]);
            last.is_some_and(|(start, end)| {
                start <= begun && end <= returned && returned - end <= WAKE_UP
            })
        })
    }
}

/// Computes the figures of a run without changes. O(nodes + edges).
pub fn trust_figures(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    run: &ReplayRun,
) -> TrustFigures {
    let mut figures = TrustFigures {
        path: path_trust(graph, run),
        ..TrustFigures::default()
    };
    let rows = StreamRows::new(graph);
    for node in graph.indices() {
        if graph.kind[node.index()] != ReplayKind::Runtime {
            continue;
        }
        let name = labels.name(node);
        let mut deps = graph.deps(node);
        let waits = deps.any(|dep| dep.kind == EdgeKind::HostWait);
        if waits && name.contains("Launch") {
            figures.blocked_launches += 1;
        }
        let duration = graph.duration[node.index()];
        let blocks = BLOCKING_CALLS.iter().any(|part| name.contains(part));
        // The work of a call after its wait is short: a long call is a wait without an edge.
        let runs_dry = || {
            let span = (graph.start[node.index()], graph.end(node));
            duration > LEAST_WAIT && rows.runs_dry_at(span.0, span.1)
        };
        if (blocks && duration > LAUNCH_LATENCY) || runs_dry() {
            figures.unexplained_calls += 1;
            figures.unexplained_calls_ns += duration;
        }
    }
    figures.passive_threads = passive_threads(graph);
    figures
}

fn passive_threads(graph: &ReplayGraph) -> Vec<String> {
    let has_work = resources_with_work(graph);
    let mut has_nodes = vec![false; has_work.len()];
    for resource in &graph.resource {
        has_nodes[resource.index()] = true;
    }
    let places = graph.resources.iter().zip(has_work.iter().zip(&has_nodes));
    let passive = places.filter(|(place, (work, nodes))| !place.on_device && **nodes && !**work);
    let name = |place: &crate::graph::Resource| match place.rank {
        Some(rank) => format!("rank {rank} {}", place.name),
        None => place.name.clone(),
    };
    passive.map(|(place, _)| name(place)).collect()
}
