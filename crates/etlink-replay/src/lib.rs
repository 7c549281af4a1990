//! Runs a dependency graph using only its edges, durations and latencies.
//!
//! ```text
//! LinkedTrace ─ graph_of ─┐
//! any other ─── Builder ──┴> Graph ─ run ─> Run ─┬─ figures        how true is the graph
//!                                                ├─ critical_path  why did it take so long
//!                                                └─ explain        why did this node start then
//! ```
//! A true graph reproduces the measured times. What-if questions are settings of the run: factors
//! on durations, kinds of edges left out, one node at a time per thread and stream. Questions about
//! single nodes are [`GraphEdits`], with a latency for each edge.
//! Pure, without recursion; O(nodes + edges), with resources O(nodes log nodes + edges).

mod aliases;
mod assumed;
mod cross_step;
mod doubts;
mod editable;
mod edits;
mod explain;
mod figures;
mod graph;
mod joined;
mod labels;
mod lead;
mod linked;
mod path;
mod range;
mod recording_overhead;
mod run;
mod scale;
mod slack;
mod spread;
mod stats;
mod step_lengths;
mod trust;
mod unused;
mod validate;

#[cfg(test)]
mod tests;

pub use aliases::{AliasError, NameAlias, resolve_alias};
pub use cross_step::{
    CrossStepFigures, ShareSpread, StepDeviation, StepPrediction, cross_step_figures,
};
pub use editable::EditableGraph;
pub use edits::GraphEdits;
pub use explain::{ExplainedDep, LastRank, StartExplanation, explain_start};
pub use figures::{
    ContradictedEdges, DelaySummary, EdgeFigures, EndError, NodeTime, ReplayFigures,
    UnexplainedWaits, replay_figures,
};
pub use graph::{
    EdgeKind, Error, GraphBuilder, ReplayDep, ReplayGraph, ReplayKind, ReplayNode, Resource,
};
pub use joined::{
    CollectiveNodes, CollectiveTimes, JoinOutcome, JoinedCollectives, JoinedGraph, MemberNodes,
    RankFigures, RankGraph, RankLabels, RankNames, collective_nodes, is_deadlocked, join_graphs,
};
pub use labels::{LabelSource, NodeLabel, find_node};
pub use lead::HostLead;
pub use linked::{graph_from_trace, stream_resource, thread_resource};
pub use path::{
    CauseTime, PathCause, PathReport, PathStep, PathStepReport, RankCrossing, StartReason,
    critical_path, work_makespan,
};
pub use range::{AnswerRange, StepRange, answer_range};
pub use recording_overhead::{
    NoOverhead, mean_step, overhead_doubt, recording_cost, without_overhead,
};
pub use run::{ReplayRun, ReplaySettings, run_graph};
pub use scale::{DurationScale, DurationScaleError};
pub use slack::node_slack;
pub use stats::Percentiles;
pub use step_lengths::{StepBounds, changed_steps, step_bounds};
pub use trust::{PathTrust, TrustFigures, path_trust, trust_figures};
pub use unused::{UnusedRule, check_edge_kind, explain_missing_name};
pub use validate::{UnmatchedNodes, Validation, ValidationVerdict, validate};
