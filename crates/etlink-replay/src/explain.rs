//! Why a node started when it did.

use crate::graph::{EdgeKind, ReplayDep, ReplayGraph};
use crate::labels::{LabelSource, NodeLabel};
use crate::run::ReplayRun;
use etlink_model::NodeIdx;
use serde::Serialize;

/// A node, what it waited for, and which of that decided. Times are those of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StartExplanation {
    /// Which node.
    #[serde(flatten)]
    pub label: NodeLabel,
    /// Measured start, if there is one.
    pub measured_start_ns: Option<i64>,
    /// Start, ns.
    pub start_ns: i64,
    /// End, ns.
    pub end_ns: i64,
    /// From the end of the last dep to the start.
    pub latency_ns: i64,
    /// The node that kept its thread or stream busy when it could have started.
    pub held_by: Option<NodeLabel>,
    /// What it waited for, the last to end first.
    pub deps: Vec<ExplainedDep>,
}

/// A reason to wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedDep {
    /// The kind of edge: what makes the node wait.
    pub edge: EdgeKind,
    /// The node waited for.
    pub from: NodeLabel,
    /// End of the node waited for, ns.
    pub end_ns: i64,
    /// How much later it could have ended without the node starting later.
    pub slack_ns: i64,
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
    let counts = |edge: &usize| !dropped.contains(&graph.dep(*edge).kind);
    let ends = graph
        .edges_to(node)
        .filter(counts)
        .map(|edge| run.end(graph.dep(edge).from));
    // Slack is against the last dep that counts in this run: with dropped edges another one
    // decides.
    let latest = ends.max().unwrap_or(run.start[at]);
    let explained = |edge: usize| {
        let dep = graph.dep(edge);
        let end = run.end(dep.from);
        ExplainedDep {
            edge: dep.kind,
            from: NodeLabel::from_node(graph, labels, dep.from),
            end_ns: end.0,
            slack_ns: (latest - end).0,
            decided: run.decided[at] as usize == edge,
            inferred: dep.inferred,
            evidence: evidence(graph, labels, dep, node),
        }
    };
    let mut deps: Vec<ExplainedDep> = graph.edges_to(node).filter(counts).map(explained).collect();
    deps.sort_by_key(|dep| (!dep.decided, dep.slack_ns));
    StartExplanation {
        label: NodeLabel::from_node(graph, labels, node),
        measured_start_ns: graph.measured.then(|| graph.start[at].0),
        start_ns: run.start[at].0,
        end_ns: run.end(node).0,
        latency_ns: graph.latency[at].0,
        held_by: run
            .held_by(node)
            .map(|held| NodeLabel::from_node(graph, labels, held)),
        deps,
    }
}

fn evidence(graph: &ReplayGraph, labels: &dyn LabelSource, dep: ReplayDep, to: NodeIdx) -> String {
    let (source, target) = (graph.place(dep.from), graph.place(to));
    let number = |node: NodeIdx| {
        labels
            .correlation(node)
            .map_or(String::new(), |number| format!(", correlation {number}"))
    };
    match dep.kind {
        EdgeKind::ProgramOrder => format!("the one before it on {target}"),
        EdgeKind::Launch => format!(
            "ran on {source} up to the call that launched it{}",
            number(to)
        ),
        EdgeKind::StreamOrder => format!("before it on {target}"),
        EdgeKind::EventWait => format!(
            "{target} waited for an event of {source}{}",
            number(dep.from)
        ),
        EdgeKind::HostWait => format!(
            "{target} was blocked until it ended on {source}{}",
            number(dep.from)
        ),
        EdgeKind::Handoff => format!("{source} gave work to {target}"),
        EdgeKind::Collective => {
            "when the last of the ranks has come, the transfer begins on all of them".to_owned()
        }
        EdgeKind::Tensor => "wrote a tensor that it reads".to_owned(),
    }
}
