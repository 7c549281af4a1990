//! Explains why a node started when it did.

use crate::graph::{EdgeKind, ReplayDep, ReplayGraph, ReplayKind};
use crate::labels::{LabelSource, NodeLabel};
use crate::run::ReplayRun;
use crate::slack::node_slack;
use etlink_model::{DurationNs, EdgeIdx, GlobalRank, NodeIdx, TimeNs};
use serde::Serialize;

/// A node, its causes, and the cause that decided its start. Times refer to the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartExplanation {
    /// Label of the node.
    #[serde(flatten)]
    pub label: NodeLabel,
    /// Measured start, if there is one.
    pub measured_start_ns: Option<TimeNs>,
    /// Arrival of the last rank by measured times, for a transfer that waited for other ranks. No
    /// trace records the start of the transfer itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inferred_start_ns: Option<TimeNs>,
    /// Last rank to arrive, for a collective of several ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_arrival: Option<LastRank>,
    /// Start of the node.
    pub start_ns: TimeNs,
    /// End of the node.
    pub end_ns: TimeNs,
    /// Time from the end of the deciding cause to the start.
    pub latency_ns: DurationNs,
    /// Largest delay of the node's end that would not delay the end of all work; `None` if edges
    /// are left out or resources are limited.
    pub slack_ns: Option<DurationNs>,
    /// Node that kept the thread or stream busy when this node could have started.
    pub held_by: Option<NodeLabel>,
    /// Causes: the deciding one first, then by slack.
    pub deps: Vec<ExplainedDep>,
}

/// Last rank to arrive at a collective in the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastRank {
    /// Global rank.
    pub rank: GlobalRank,
    /// Delay after the first rank to arrive.
    pub behind_first_ns: DurationNs,
}

/// A cause of a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedDep {
    /// Kind of edge.
    pub edge: EdgeKind,
    /// Node waited for.
    pub from: NodeLabel,
    /// End of the node waited for.
    pub end_ns: TimeNs,
    /// Latency of the edge: the node starts no sooner than this time after `end_ns`.
    pub latency_ns: DurationNs,
    /// Largest delay of the cause that would not delay the node's start.
    pub slack_ns: DurationNs,
    /// True if this cause decided the start.
    pub decided: bool,
    /// True if the edge was found by a rule, not recorded.
    pub inferred: bool,
    /// Evidence for the edge in the traces.
    pub evidence: String,
}

/// Explains one node of a run without the `dropped` kinds of edges.
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
    // Slack is relative to the last cause that counts in this run: with dropped edges another one
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
    // Of several causes that end last, the first decided, and readers look for it.
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

/// Returns the meeting of a collective's ranks: the node itself, or the last one that it waits for.
fn meeting_of(graph: &ReplayGraph, node: NodeIdx) -> Option<NodeIdx> {
    // an arrival belongs to one rank; a node without a rank is the meeting
    let is_meeting = |node: &NodeIdx| {
        graph.kind[node.index()] == ReplayKind::Arrival && graph.rank(*node).is_none()
    };
    let causes = graph.deps(node).map(|dep| dep.from).filter(is_meeting);
    Some(node)
        .filter(is_meeting)
        .or_else(|| causes.max_by_key(|meeting| graph.start[meeting.index()]))
}

/// Returns true if a start was not recorded but derived from the last arrival at `meeting`.
fn is_start_inferred(graph: &ReplayGraph, meeting: NodeIdx, node: NodeIdx) -> bool {
    if node == meeting {
        return true;
    }
    // The last rank recorded that time itself: its arrival has the same time.
    let start = graph.start[node.index()];
    let mut arrivals = graph.deps(node).filter(|dep| {
        graph.kind[dep.from.index()] == ReplayKind::Arrival && graph.rank(dep.from).is_some()
    });
    graph.start[meeting.index()] == start
        && arrivals.all(|dep| graph.start[dep.from.index()] != start)
}

/// Returns the last rank to arrive at a meeting, and its delay after the first; the deciding one if
/// several arrive together.
fn last_arrival(graph: &ReplayGraph, run: &ReplayRun, meeting: NodeIdx) -> Option<LastRank> {
    let last = graph.dep(run.deciding_edge(meeting)?).from;
    let first = graph.deps(meeting).map(|dep| run.end(dep.from)).min()?;
    Some(LastRank {
        rank: graph.rank(last)?,
        behind_first_ns: run.end(last) - first,
    })
}

/// Returns `, correlation 7` for a node that has a correlation, with which readers find both sides
/// in the traces.
fn correlation_text(labels: &dyn LabelSource, node: NodeIdx) -> String {
    let correlation = labels.correlation(node);
    correlation.map_or(String::new(), |number| format!(", correlation {number}"))
}

/// Describes the evidence that `to` waits for a cause: a record in the traces, or a rule.
fn evidence_text(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    run: &ReplayRun,
    dep: ReplayDep,
    to: NodeIdx,
) -> String {
    let (source, target) = (graph.place(dep.from), graph.place(to));
    match dep.kind {
        EdgeKind::ProgramOrder => format!("the node before it on {target}"),
        EdgeKind::Launch => format!(
            "ran on {source} until the call that launched it{}",
            correlation_text(labels, to)
        ),
        EdgeKind::StreamOrder => format!("the row before it on {target}"),
        EdgeKind::EventWait => format!(
            "{target} waited for an event of {source}{}",
            correlation_text(labels, dep.from)
        ),
        EdgeKind::HostWait => format!(
            "{target} blocked until it ended on {source}{}",
            correlation_text(labels, dep.from)
        ),
        EdgeKind::Handoff => format!("{source} handed work to {target}"),
        EdgeKind::Collective => collective_text(graph, run, dep.from),
        EdgeKind::Tensor => "wrote a tensor that this node reads".to_owned(),
    }
}

/// Describes an arrival, or a meeting with the last rank to arrive.
fn collective_text(graph: &ReplayGraph, run: &ReplayRun, from: NodeIdx) -> String {
    let text = "the transfer begins on all ranks when the last one arrives";
    match last_arrival(graph, run, from) {
        Some(last) if graph.rank(from).is_none() => {
            format!("{text}; rank {} was last", last.rank)
        }
        _ => text.to_owned(),
    }
}
