//! The critical path, which explains the length of a run.

use crate::graph::{EdgeKind, ReplayGraph, ReplayKind};
use crate::labels::{LabelSource, NodeLabel};
use crate::run::ReplayRun;
use crate::stats::time_share;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{DurationNs, GlobalRank, NodeIdx, TimeNs};
use indexmap::IndexMap;
use serde::Serialize;
use std::cmp::Reverse;

/// Reason for the start time of a node on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StartReason {
    /// The node waits for nothing.
    Start,
    /// The node waited for the previous node of the path.
    Edge(EdgeKind),
    /// The previous node kept the thread or stream busy.
    Busy,
}

impl StartReason {
    /// Returns the reason in one word.
    pub fn name(self) -> &'static str {
        match self {
            StartReason::Start => "start",
            StartReason::Edge(kind) => kind.name(),
            StartReason::Busy => "busy",
        }
    }
}

/// One node of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// Node of the step.
    pub node: NodeIdx,
    /// Reason for the start time.
    pub via: StartReason,
    /// Time in ns from the end of the previous step, or the beginning of the run, to the start.
    pub latency_ns: DurationNs,
}

impl PathStep {
    /// Returns the causes of the step's duration and of its latency.
    pub fn causes(&self, graph: &ReplayGraph) -> [PathCause; 2] {
        [
            duration_cause(graph.kind[self.node.index()]),
            latency_cause(self.via),
        ]
    }
}

/// Cause of time on the path.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
    strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PathCause {
    /// Host ops and calls.
    Host,
    /// Time from a launch call to the start of its work.
    Launch,
    /// Kernels.
    Kernel,
    /// Collectives, sends and receives.
    Communication,
    /// Copies and memsets.
    MemoryCopy,
    /// Latency of all other edges.
    Wait,
    /// Host time without a running op.
    Gap,
    /// Time before the recording, or before the first node of the path.
    Boundary,
    /// Delays without a known cause.
    Unexplained,
}

impl PathCause {
    /// Returns the name of the cause in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Returns the critical path, walked back along deciding causes from the node that ends last (the
/// first if several do). A passive thread, such as NCCL's watchdog, can outlast all work and is not
/// a starting point. O(nodes + edges).
pub fn critical_path(graph: &ReplayGraph, run: &ReplayRun) -> Vec<PathStep> {
    let (origin, _) = run.window();
    // A walk back from NCCL's watchdog would show only a polling thread.
    let has_work = resources_with_work(graph);
    let nodes = graph.indices();
    let at_work = nodes.filter(|node| has_work[graph.resource[node.index()].index()]);
    let mut at = at_work.max_by_key(|node| (run.end(*node), Reverse(*node)));
    let mut path = vec![];
    while let Some(node) = at {
        let edge = run.deciding_edge(node).map(|edge| graph.dep(edge));
        let (before, via) = match (run.held_by(node), edge) {
            // A busy resource takes precedence over the edge: without it the node would have
            // started when the edge allowed.
            (Some(held), _) => (Some(held), StartReason::Busy),
            (None, Some(dep)) => (Some(dep.from), StartReason::Edge(dep.kind)),
            (None, None) => (None, StartReason::Start),
        };
        let since = before.map_or(origin, |before| run.end(before));
        path.push(PathStep {
            node,
            via,
            // negative if the node started before that end, so that the sum is right
            latency_ns: DurationNs(run.start[node.index()].since(since)),
        });
        at = before;
    }
    path.reverse();
    path
}

/// Returns the time from the first start of a run to the last end of work. A passive thread, such
/// as NCCL's watchdog, keeps polling afterwards, unaffected by changes of the work. O(nodes +
/// edges).
pub fn work_makespan(graph: &ReplayGraph, run: &ReplayRun) -> DurationNs {
    let (origin, _) = run.window();
    let has_work = resources_with_work(graph);
    let nodes = graph.indices();
    let at_work = nodes.filter(|node| has_work[graph.resource[node.index()].index()]);
    let last = at_work.map(|node| run.end(node)).max();
    last.map_or(DurationNs::ZERO, |last| last - origin)
}

/// Returns for each thread and stream true if it does work: it is a stream, or another thread or
/// stream waits for it. If there are no streams and no such threads, all do work.
pub(crate) fn resources_with_work(graph: &ReplayGraph) -> Vec<bool> {
    let mut has_work = vec![false; graph.resources.len()];
    for node in graph.indices() {
        let own = graph.resource[node.index()];
        has_work[own.index()] |= graph.is_device_op(node);
        for dep in graph.deps(node) {
            let from = graph.resource[dep.from.index()];
            if from != own {
                has_work[from.index()] = true;
            }
        }
    }
    if has_work.contains(&true) {
        has_work
    } else {
        // a trace of a single thread, for which nothing else waits
        vec![true; has_work.len()]
    }
}

/// The critical path in reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathReport {
    /// Time from the first start of the run to the path's end, the sum of all causes.
    pub makespan_ns: DurationNs,
    /// Number of nodes on the path.
    pub nodes: u64,
    /// Number of edges by kind.
    pub edges: IndexMap<EdgeKind, u64>,
    /// Number of waits for a busy thread or stream.
    pub busy: u64,
    /// Time by cause.
    pub causes: IndexMap<PathCause, CauseTime>,
    /// Time by rank, if there are several.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub ranks: IndexMap<GlobalRank, CauseTime>,
    /// Transitions from one rank to another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crossings: Vec<RankCrossing>,
    /// All nodes, in order of time.
    pub steps: Vec<PathStepReport>,
}

/// Transition of the path to another rank, because one rank came last to a joint communication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankCrossing {
    /// Rank that the others waited for.
    pub from: GlobalRank,
    /// Rank on which the path continues.
    pub to: GlobalRank,
    /// Collective or message.
    pub by: String,
    /// Time in the run.
    pub at_ns: TimeNs,
}

/// Time spent on a cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CauseTime {
    /// Sum over the path, in ns.
    pub ns: DurationNs,
    /// Share of the makespan.
    pub share: f64,
}

/// One node of the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathStepReport {
    /// Name and place of the node.
    #[serde(flatten)]
    pub label: NodeLabel,
    /// Start in the run.
    pub start_ns: TimeNs,
    /// Duration in the run.
    pub duration_ns: DurationNs,
    /// Reason for the start time.
    pub via: StartReason,
    /// Time from the end of the previous step to the start.
    pub latency_ns: DurationNs,
}

impl PathReport {
    /// Sums up the path and names its nodes.
    pub fn new(
        graph: &ReplayGraph,
        labels: &dyn LabelSource,
        run: &ReplayRun,
        path: &[PathStep],
    ) -> PathReport {
        let end = path
            .last()
            .map_or(run.window().0, |step| run.end(step.node));
        let mut report = PathReport {
            makespan_ns: end - run.window().0,
            nodes: path.len() as u64,
            ..PathReport::default()
        };
        for step in path {
            let node = step.node;
            let (start_ns, duration_ns) = (run.start[node.index()], run.duration[node.index()]);
            let [own, latency] = step.causes(graph);
            report.add_cause(own, duration_ns);
            report.add_cause(latency, step.latency_ns);
            // A meeting belongs to no rank and takes no time.
            if let Some(rank) = graph.rank(node) {
                let time = report.ranks.entry(rank).or_default();
                time.ns += duration_ns + step.latency_ns;
            }
            match step.via {
                StartReason::Edge(kind) => *report.edges.entry(kind).or_default() += 1,
                StartReason::Busy => report.busy += 1,
                StartReason::Start => {}
            }
            let label = NodeLabel::from_node(graph, labels, step.node);
            report.steps.push(PathStepReport {
                label,
                start_ns,
                duration_ns,
                via: step.via,
                latency_ns: step.latency_ns,
            });
        }
        // Sorted keys keep two reports comparable; the path's order is specific to one run.
        report.edges.sort_unstable_keys();
        report.causes.sort_unstable_keys();
        report.ranks.sort_unstable_keys();
        report.crossings = rank_crossings(graph, labels, run, path);
        let makespan = report.makespan_ns;
        let times = report.causes.values_mut().chain(report.ranks.values_mut());
        times.for_each(|time| time.share = time_share(time.ns, makespan));
        report
    }

    fn add_cause(&mut self, cause: PathCause, time: DurationNs) {
        // A cause without time is left out: most latencies are zero.
        if time > DurationNs::ZERO {
            self.causes.entry(cause).or_default().ns += time;
        }
    }
}

fn rank_crossings(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    run: &ReplayRun,
    path: &[PathStep],
) -> Vec<RankCrossing> {
    let mut crossings = vec![];
    for steps in path.windows(3) {
        let [from, meeting, to] = [&steps[0], &steps[1], &steps[2]].map(|step| step.node);
        // A path changes ranks only at a meeting, the only node without a rank. The arrival before
        // and the transfer after it state the ranks.
        let ranks = [from, meeting, to].map(|node| graph.rank(node));
        let [Some(from), None, Some(to)] = ranks else {
            continue;
        };
        // The last rank to arrive continues as well: then the path stays on its rank.
        if from != to {
            crossings.push(RankCrossing {
                from,
                to,
                by: labels.name(meeting).to_owned(),
                at_ns: run.start[meeting.index()],
            });
        }
    }
    crossings
}

fn duration_cause(kind: ReplayKind) -> PathCause {
    match kind {
        ReplayKind::HostOp | ReplayKind::Runtime => PathCause::Host,
        ReplayKind::Kernel => PathCause::Kernel,
        ReplayKind::MemoryCopy => PathCause::MemoryCopy,
        ReplayKind::Collective | ReplayKind::Arrival => PathCause::Communication,
        ReplayKind::HostGap => PathCause::Gap,
        ReplayKind::Boundary => PathCause::Boundary,
        ReplayKind::UnexplainedWait => PathCause::Unexplained,
        ReplayKind::Latency => PathCause::Wait,
    }
}

fn latency_cause(via: StartReason) -> PathCause {
    match via {
        StartReason::Start => PathCause::Boundary,
        StartReason::Edge(EdgeKind::Launch) => PathCause::Launch,
        StartReason::Edge(_) | StartReason::Busy => PathCause::Wait,
    }
}
