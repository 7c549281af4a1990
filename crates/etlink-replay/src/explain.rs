//! Why a node started when it did.

use crate::graph::{EdgeKind, ReplayDep, ReplayGraph, ReplayKind};
use crate::labels::{LabelSource, NodeLabel};
use crate::run::ReplayRun;
use crate::slack::node_slack;
use etlink_model::{DurationNs, EdgeIdx, GlobalRank, NodeIdx, TimeNs};
use serde::Serialize;

/// A node, what it waited for, and which of that decided. Times are those of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartExplanation {
    /// Which node.
    #[serde(flatten)]
    pub label: NodeLabel,
    /// Measured start, if there is one.
    pub measured_start_ns: Option<TimeNs>,
    /// Of a transfer that waited for other ranks: when the last of them came, by measured times.
    /// No trace says when the transfer itself began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inferred_start_ns: Option<TimeNs>,
    /// Of a collective of several ranks: who came last to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_arrival: Option<LastRank>,
    /// When it started.
    pub start_ns: TimeNs,
    /// When it ended.
    pub end_ns: TimeNs,
    /// From the end of the dep that decided to the start.
    pub latency_ns: DurationNs,
    /// How much later it could end without the work ending later; absent where edges are left out
    /// or places are busy.
    pub slack_ns: Option<DurationNs>,
    /// The node that kept its thread or stream busy when it could have started.
    pub held_by: Option<NodeLabel>,
    /// What it waited for, what decided first, then by slack.
    pub deps: Vec<ExplainedDep>,
}

/// The rank that a collective waited for, in the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastRank {
    /// Which rank.
    pub rank: GlobalRank,
    /// How long after the first of the ranks it came.
    pub behind_first_ns: DurationNs,
}

/// A reason to wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedDep {
    /// The kind of edge: what makes the node wait.
    pub edge: EdgeKind,
    /// The node waited for.
    pub from: NodeLabel,
    /// When the node waited for ended.
    pub end_ns: TimeNs,
    /// What this edge takes: the node starts no sooner than so long after that end.
    pub latency_ns: DurationNs,
    /// How much later it could have ended without the node starting later.
    pub slack_ns: DurationNs,
    /// It decided the start.
    pub decided: bool,
    /// Found by a rule, not recorded.
    pub inferred: bool,
    /// What in the traces says so.
    pub evidence: String,
}

/// Explains one node of a run from which these kinds of edges were left out.
pub fn explain_start(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    run: &ReplayRun,
    dropped: &[EdgeKind],
    node: NodeIdx,
) -> StartExplanation {
    let at = node.index();
    let edges: Vec<(EdgeIdx, ReplayDep)> = graph
        .edges_to(node)
        .map(|edge| (edge, graph.dep(edge)))
        .filter(|(_, dep)| !dropped.contains(&dep.kind))
        .collect();
    let ready = |edge: EdgeIdx, dep: &ReplayDep| run.ready(dep.from, graph.latency(edge));
    // Slack is against the last dep that counts in this run: with dropped edges another one
    // decides.
    let latest = edges.iter().map(|(edge, dep)| ready(*edge, dep)).max();
    let latest = latest.unwrap_or(run.start[at]);
    let mut deps = vec![];
    for (edge, dep) in edges {
        let end = run.end(dep.from);
        deps.push(ExplainedDep {
            edge: dep.kind,
            from: NodeLabel::from_node(graph, labels, dep.from),
            end_ns: end,
            latency_ns: graph.latency(edge),
            slack_ns: latest - ready(edge, &dep),
            decided: run.decided[at] == edge,
            inferred: dep.inferred,
            evidence: evidence_text(graph, labels, run, dep, node),
        });
    }
    let meeting = meeting_of(graph, node);
    let is_inferred = meeting.is_some_and(|meeting| is_start_inferred(graph, meeting, node));
    let recorded = graph.measured.then(|| graph.start[at]);
    // Of several that end last the first has decided, and is what the reader looks for.
    deps.sort_by_key(|dep| (!dep.decided, dep.slack_ns));
    StartExplanation {
        label: NodeLabel::from_node(graph, labels, node),
        measured_start_ns: if !is_inferred { recorded } else { None },
        inferred_start_ns: if is_inferred { recorded } else { None },
        last_arrival: meeting.and_then(|meeting| last_arrival(graph, run, meeting)),
        start_ns: run.start[at],
        end_ns: run.end(node),
        latency_ns: run
            .deciding_edge(node)
            .map_or(DurationNs::ZERO, |edge| graph.latency(edge)),
        slack_ns: (dropped.is_empty() && run.held.is_empty()).then(|| node_slack(graph, run)[at]),
        held_by: run
            .held_by(node)
            .map(|held| NodeLabel::from_node(graph, labels, held)),
        deps,
    }
}

/// Where the ranks of a collective meet: the node itself, or the last one that it waits for.
fn meeting_of(graph: &ReplayGraph, node: NodeIdx) -> Option<NodeIdx> {
    // arrivals are of a rank each; what is of none is where all meet
    let is_meeting = |node: &NodeIdx| {
        graph.kind[node.index()] == ReplayKind::Arrival && graph.rank(*node).is_none()
    };
    let causes = graph.deps(node).map(|dep| dep.from).filter(is_meeting);
    Some(node)
        .filter(is_meeting)
        .or_else(|| causes.max_by_key(|meeting| graph.start[meeting.index()]))
}

/// Whether a start was not recorded, but taken from the last rank's arrival at `meeting`.
fn is_start_inferred(graph: &ReplayGraph, meeting: NodeIdx, node: NodeIdx) -> bool {
    if node == meeting {
        return true;
    }
    // The rank that came last has recorded that time itself: its arrival stands there too.
    let start = graph.start[node.index()];
    let mut arrivals = graph.deps(node).filter(|dep| {
        graph.kind[dep.from.index()] == ReplayKind::Arrival && graph.rank(dep.from).is_some()
    });
    graph.start[meeting.index()] == start
        && arrivals.all(|dep| graph.start[dep.from.index()] != start)
}

/// Who came last to a meeting, and how long after the first; of several at once the one that
/// decided.
fn last_arrival(graph: &ReplayGraph, run: &ReplayRun, meeting: NodeIdx) -> Option<LastRank> {
    let last = graph.dep(run.deciding_edge(meeting)?).from;
    let first = graph.deps(meeting).map(|dep| run.end(dep.from)).min()?;
    Some(LastRank {
        rank: graph.rank(last)?,
        behind_first_ns: run.end(last) - first,
    })
}

/// `, correlation 7` of a node that has one: the number by which a reader finds both sides in the
/// traces.
fn correlation_text(labels: &dyn LabelSource, node: NodeIdx) -> String {
    let correlation = labels.correlation(node);
    correlation.map_or(String::new(), |number| format!(", correlation {number}"))
}

/// What in the traces says that `to` waits for a dep, or which rule.
fn evidence_text(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    run: &ReplayRun,
    dep: ReplayDep,
    to: NodeIdx,
) -> String {
    let (source, target) = (graph.place(dep.from), graph.place(to));
    match dep.kind {
        EdgeKind::ProgramOrder => format!("the one before it on {target}"),
        EdgeKind::Launch => format!(
            "ran on {source} up to the call that launched it{}",
            correlation_text(labels, to)
        ),
        EdgeKind::StreamOrder => format!("before it on {target}"),
        EdgeKind::EventWait => format!(
            "{target} waited for an event of {source}{}",
            correlation_text(labels, dep.from)
        ),
        EdgeKind::HostWait => format!(
            "{target} was blocked until it ended on {source}{}",
            correlation_text(labels, dep.from)
        ),
        EdgeKind::Handoff => format!("{source} gave work to {target}"),
        EdgeKind::Collective => collective_text(graph, run, dep.from),
        EdgeKind::Tensor => "wrote a tensor that it reads".to_owned(),
    }
}

/// Of an arrival, or of a meeting, with the rank that came last to it.
fn collective_text(graph: &ReplayGraph, run: &ReplayRun, from: NodeIdx) -> String {
    let text = "when the last of the ranks has come, the transfer begins on all of them";
    match last_arrival(graph, run, from) {
        Some(last) if graph.rank(from).is_none() => {
            format!("{text}; rank {} came last", last.rank)
        }
        _ => text.to_owned(),
    }
}
