//! One run predicted from another of a changed program, with the truth beside it.
//!
//! Nodes are the same where place, kind and name are, and how often that name came before there.
//! These take in the first graph what they take in the second trace. All else stays: what only one
//! run has is counted, and no part of the prediction.

use crate::graph::{ReplayGraph, ReplayKind};
use crate::labels::{LabelSource, NoLabels};
use crate::path::work_makespan;
use crate::run::{ReplaySettings, run_graph};
use crate::stats::time_share;
use etlink_model::{DurationNs, GlobalRank, NodeIdx};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// A prediction that is off by no more than this share of the measured time has come true.
///
/// Of 200 random programs with a known answer the worst prediction is 3.6 % off
/// (`docs/src/reference/evidence.md`).
const CONFIRMED_ERROR: f64 = 0.05;

/// So has one that is off by no more than this share of what "nothing changes" is off.
const CONFIRMED_PART: f64 = 0.1;

/// Runs of which the smaller has less than this share of its ops and device work in common with the
/// other are of different programs, as for two traces of one rank.
const SAME_PROGRAM_SHARE: f64 = 0.5;

/// Whether a prediction came true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ValidationVerdict {
    /// The second run takes about as long as predicted.
    #[default]
    Confirmed,
    /// It does not.
    Refuted,
    /// The runs have too little in common for a prediction.
    DifferentPrograms,
}

/// What was predicted, and what came true.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Validation {
    /// Whether the prediction came true.
    pub verdict: ValidationVerdict,
    /// The first run, to the end of its last work.
    pub before_ns: DurationNs,
    /// The second run by the graph of the first.
    pub predicted_ns: DurationNs,
    /// The second run as measured.
    pub measured_ns: DurationNs,
    /// By how much of the measured time the prediction is off.
    pub error: f64,
    /// The same of "it takes as long as before".
    pub unchanged_error: f64,
    /// Nodes that both have.
    pub matched: u64,
    /// Nodes that only the first has, and their time.
    pub only_before: UnmatchedNodes,
    /// Nodes that only the second has, and their time.
    pub only_after: UnmatchedNodes,
}

/// Nodes that only one of two runs has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnmatchedNodes {
    /// How many.
    pub nodes: u64,
    /// Their durations' sum.
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

/// Counts the nodes that do something: gaps between ops are alike in all programs.
fn count_work(graph: &ReplayGraph) -> u64 {
    let kinds = graph.kind.iter();
    kinds.filter(|kind| is_work(**kind)).count() as u64
}

fn is_work(kind: ReplayKind) -> bool {
    !kind.is_delay() && !matches!(kind, ReplayKind::HostGap | ReplayKind::Arrival)
}

/// What tells a node: place, kind, name, and how many of these came before.
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

/// Delays are the graph's own: they are no work that both runs could have.
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
        // A gap bears the name of the range around it, which counts steps.
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

/// Streams have the same numbers in both runs, threads come in the same order.
fn place_names(graph: &ReplayGraph) -> Vec<String> {
    // by rank: a thread more on one moves no other rank's
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
