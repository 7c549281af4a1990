//! Predicts a run of a changed program from another run, and compares with the measured truth.
//!
//! Nodes match if place, kind, name and the number of earlier occurrences are the same. Matching
//! nodes of the first graph get the durations of the second trace. All others stay: nodes that only
//! one run has are counted, but are not part of the prediction.

use crate::graph::{ReplayGraph, ReplayKind};
use crate::labels::{LabelSource, NoLabels};
use crate::path::work_makespan;
use crate::run::{ReplaySettings, run_graph};
use crate::stats::time_share;
use etlink_model::{DurationNs, GlobalRank, NodeIdx};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Largest error, relative to the measured time, of a confirmed prediction.
///
/// In 200 random programs with a known answer, the worst prediction is 3.6 % off
/// (`docs/src/reference/evidence.md`).
const CONFIRMED_ERROR: f64 = 0.05;

/// Largest error, relative to the error of "nothing changes", of a confirmed prediction.
const CONFIRMED_PART: f64 = 0.1;

/// Smallest share of ops and device work that two runs of one program have in common, relative to
/// the smaller run. Below it, they count as different programs. The linker applies the same limit
/// to the two traces of one rank.
const SAME_PROGRAM_SHARE: f64 = 0.5;

/// Verdict on a prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ValidationVerdict {
    /// The second run takes about as long as predicted.
    #[default]
    Confirmed,
    /// The second run takes longer or shorter than predicted.
    Refuted,
    /// The runs have too little in common for a prediction.
    DifferentPrograms,
}

/// A prediction and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Validation {
    /// Verdict on the prediction.
    pub verdict: ValidationVerdict,
    /// Length of the first run, to the end of its last work.
    pub before_ns: DurationNs,
    /// Predicted length of the second run, from the graph of the first.
    pub predicted_ns: DurationNs,
    /// Measured length of the second run.
    pub measured_ns: DurationNs,
    /// Error of the prediction, relative to the measured time.
    pub error: f64,
    /// Error of "it takes as long as before", relative to the measured time.
    pub unchanged_error: f64,
    /// Number of nodes in both runs.
    pub matched: u64,
    /// Nodes that only the first run has, and their time.
    pub only_before: UnmatchedNodes,
    /// Nodes that only the second run has, and their time.
    pub only_after: UnmatchedNodes,
}

/// Nodes that only one of two runs has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnmatchedNodes {
    /// Number of nodes.
    pub nodes: u64,
    /// Sum of the nodes' durations.
    pub total_ns: DurationNs,
}

impl Validation {
    fn judge(&self, is_one_program: bool) -> ValidationVerdict {
        let allowed = CONFIRMED_ERROR.max(CONFIRMED_PART * self.unchanged_error);
        if !is_one_program {
            ValidationVerdict::DifferentPrograms
        } else if self.error > allowed {
            ValidationVerdict::Refuted
        } else {
            ValidationVerdict::Confirmed
        }
    }
}

/// Counts the nodes that do work: gaps between ops are alike in all programs.
fn count_work(graph: &ReplayGraph) -> u64 {
    let kinds = graph.kind.iter();
    kinds.filter(|kind| is_work(**kind)).count() as u64
}

fn is_work(kind: ReplayKind) -> bool {
    !kind.is_delay() && !matches!(kind, ReplayKind::HostGap | ReplayKind::Arrival)
}

/// Identity of a node: place, kind, name, and number of earlier nodes with the same.
type NodeKey<'l> = (String, ReplayKind, &'l str, u32);

/// Predicts the second run from the first. O(nodes + edges).
pub fn validate(
    (before, labels_before): (&ReplayGraph, &dyn LabelSource),
    (after, labels_after): (&ReplayGraph, &dyn LabelSource),
) -> Validation {
    let mut rest = keyed_nodes(after, labels_after);
    let mut predicted = before.clone();
    let mut validation = Validation::default();
    let mut common_work = 0u64;
    for (key, node) in sorted_nodes(before, labels_before) {
        match rest.remove(&key) {
            Some(other) => {
                validation.matched += 1;
                common_work += u64::from(is_work(before.kind[node.index()]));
                predicted.duration[node.index()] = after.duration[other.index()];
            }
            None => validation.only_before.add(before, node),
        }
    }
    for node in rest.into_values() {
        validation.only_after.add(after, node);
    }
    validation.before_ns = makespan(before);
    validation.predicted_ns = makespan(&predicted);
    validation.measured_ns = makespan(after);
    let off = |time: DurationNs| {
        let difference = time.0 - validation.measured_ns.0;
        time_share(DurationNs(difference.abs()), validation.measured_ns)
    };
    let errors = (off(validation.predicted_ns), off(validation.before_ns));
    (validation.error, validation.unchanged_error) = errors;
    let smaller = count_work(before).min(count_work(after));
    let is_one_program = common_work as f64 >= SAME_PROGRAM_SHARE * smaller as f64;
    validation.verdict = validation.judge(is_one_program);
    validation
}

fn makespan(graph: &ReplayGraph) -> DurationNs {
    let run = run_graph(graph, &NoLabels, &ReplaySettings::default());
    work_makespan(graph, &run)
}

impl UnmatchedNodes {
    fn add(&mut self, graph: &ReplayGraph, node: NodeIdx) {
        self.nodes += 1;
        self.total_ns += graph.duration[node.index()];
    }
}

fn keyed_nodes<'l>(
    graph: &ReplayGraph,
    labels: &'l dyn LabelSource,
) -> FxHashMap<NodeKey<'l>, NodeIdx> {
    sorted_nodes(graph, labels).into_iter().collect()
}

/// Returns the nodes by key, without delays, which are not work that both runs could share.
fn sorted_nodes<'l>(
    graph: &ReplayGraph,
    labels: &'l dyn LabelSource,
) -> Vec<(NodeKey<'l>, NodeIdx)> {
    let places = place_names(graph);
    let mut seen: FxHashMap<(usize, ReplayKind, &str), u32> = FxHashMap::default();
    let mut nodes = vec![];
    for node in graph.indices() {
        let kind = graph.kind[node.index()];
        if kind.is_delay() || kind == ReplayKind::Arrival {
            continue;
        }
        // A gap has the name of the range around it, which includes the step number.
        let name = match kind {
            ReplayKind::HostGap => "",
            _ => labels.name(node),
        };
        let place = graph.resource[node.index()].index();
        let count = seen.entry((place, kind, name)).or_default();
        let name_of_place = places.get(place).cloned().unwrap_or_default();
        nodes.push(((name_of_place, kind, name, *count), node));
        *count += 1;
    }
    nodes
}

/// Returns a name per resource: streams have the same numbers in both runs, threads the same order.
fn place_names(graph: &ReplayGraph) -> Vec<String> {
    // per rank: an additional thread on one rank does not shift the others
    let mut threads: FxHashMap<Option<GlobalRank>, u32> = FxHashMap::default();
    let mut names = vec![];
    for resource in &graph.resources {
        let rank = resource.rank.map_or(String::new(), |rank| rank.to_string());
        if resource.on_device {
            names.push(format!("{rank}/{}", resource.name));
        } else {
            let number = threads.entry(resource.rank).or_default();
            *number += 1;
            names.push(format!("{rank}/thread number {number}"));
        }
    }
    names
}
