//! Predictions that a single trace can refute: the length of a step from another step's graph.
//!
//! ```text
//! step 3   ==a==|=b=|====c====     graph and latencies
//! step 4   =a=|====b====|==c==     durations: when does step 3 end with these?
//! ```
//! A run of the unchanged graph reproduces the measured times whatever its edges are. Steps of one
//! program differ by jitter, by data and by the allocator. A wrong edge, or a latency that belongs
//! to another cause, therefore shows when the durations of one step run on the graph of another.
//!
//! Work that begins before a step and ends in it is not predicted: its end is taken from the step
//! that provides the durations.

mod align;
mod split;

use crate::graph::{EdgeKind, ReplayGraph};
use crate::labels::NodeLabel;
use align::{AlignedStep, align_steps};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::LinkedTrace;
use etlink_model::{DurationNs, EdgeIdx, NodeIdx, TimeNs};
use serde::Serialize;
pub(crate) use split::SplitSteps;
use split::StepNodes;

/// Quality of predictions between the steps of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossStepFigures {
    /// Number of steps with nodes.
    pub steps: u64,
    /// Number of compared pairs of steps.
    pub pairs: u64,
    /// Number of pairs with the same sequences of launches, rows and ops.
    pub aligned: u64,
    /// Errors of the predictions.
    pub error: ShareSpread,
    /// Errors of "a step is as long as the other".
    pub unchanged_error: ShareSpread,
    /// Prediction with the largest error.
    pub worst: Option<StepPrediction>,
}

/// Distribution of errors, relative to the measured length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShareSpread {
    /// Median.
    pub median: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Largest error.
    pub max: f64,
}

/// Predicted length of one step, from the graph of another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepPrediction {
    /// Step that provides graph and latencies.
    pub graph_of: String,
    /// Step that provides durations, and whose length is predicted.
    pub step: String,
    /// Length of the step that provides the graph.
    pub unchanged_ns: DurationNs,
    /// Measured length of the predicted step.
    pub measured_ns: DurationNs,
    /// Predicted length of the step.
    pub predicted_ns: DurationNs,
    /// Places on the path to the end at which the prediction goes wrong, the largest error first.
    pub deviations: Vec<StepDeviation>,
}

/// A node that starts too early or too late relative to its cause.
#[derive(Clone, Debug, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepDeviation {
    /// Delay in ns beyond the delay of the cause; negative if too early.
    pub ns: i64,
    /// Kind of edge that decided the start; `None` for a node that waits for nothing.
    pub edge: Option<EdgeKind>,
    /// Label of the node, in the step that provides the graph.
    #[serde(flatten)]
    pub label: NodeLabel,
    /// Node that decided the start.
    pub from: Option<NodeLabel>,
}

impl StepPrediction {
    /// Returns the error of the prediction, relative to the measured length.
    pub fn error(&self) -> f64 {
        share_off(self.predicted_ns, self.measured_ns)
    }

    /// Returns the error of the other step's length, relative to the measured length.
    pub fn unchanged_error(&self) -> f64 {
        share_off(self.unchanged_ns, self.measured_ns)
    }
}

fn share_off(predicted: DurationNs, measured: DurationNs) -> f64 {
    (predicted.0 - measured.0).abs() as f64 / measured.0.max(1) as f64
}

impl ShareSpread {
    /// Computes the distribution of errors in any order.
    pub fn from_errors(mut errors: Vec<f64>) -> ShareSpread {
        errors.sort_by(f64::total_cmp);
        // Nearest rank, as in `Percentiles`: a percentile is a value that occurred.
        let percentile = |percent: usize| {
            let rank = (errors.len() * percent).div_ceil(100).max(1);
            errors.get(rank - 1).copied().unwrap_or(0.0)
        };
        ShareSpread {
            median: percentile(50),
            p95: percentile(95),
            max: percentile(100),
        }
    }
}

/// Smallest number of steps that separates jitter from a rule of the graph.
const LEAST_STEPS: usize = 3;
/// Largest number of reported deviations.
const DEVIATIONS: usize = 5;

/// Predicts each step from the `partners` steps after it; the first steps follow the last. Returns
/// `None` for a trace with fewer than three steps, or if the steps do different work. `graph` must
/// be the graph of `trace`. O(partners x (nodes + edges)).
pub fn cross_step_figures(
    trace: &LinkedTrace,
    graph: &ReplayGraph,
    partners: usize,
) -> Option<CrossStepFigures> {
    let predictions = predict_steps(trace, graph, partners)?;
    let mut figures = CrossStepFigures {
        steps: predictions.steps,
        pairs: predictions.pairs,
        aligned: predictions.all.len() as u64,
        ..CrossStepFigures::default()
    };
    let (mut errors, mut unchanged) = (vec![], vec![]);
    for prediction in predictions.all {
        errors.push(prediction.error());
        unchanged.push(prediction.unchanged_error());
        let worst = figures.worst.as_ref();
        if worst.is_none_or(|worst| prediction.error() > worst.error()) {
            figures.worst = Some(prediction);
        }
    }
    figures.error = ShareSpread::from_errors(errors);
    figures.unchanged_error = ShareSpread::from_errors(unchanged);
    Some(figures)
}

/// Predictions, with counts of steps and pairs.
struct StepPredictions {
    steps: u64,
    pairs: u64,
    all: Vec<StepPrediction>,
}

fn predict_steps(
    trace: &LinkedTrace,
    graph: &ReplayGraph,
    partners: usize,
) -> Option<StepPredictions> {
    debug_assert_eq!(trace.nodes.len(), graph.len(), "the graph is the trace's");
    let split = SplitSteps::new(trace, graph)?;
    let steps = &split.steps;
    if steps.len() < LEAST_STEPS {
        return None;
    }
    let mut predictions = StepPredictions {
        steps: steps.len() as u64,
        pairs: 0,
        all: vec![],
    };
    let mut runner = StepRunner::new(trace, graph, &split);
    for first in 0..steps.len() {
        for distance in 1..=partners.min(steps.len() - 1) {
            let second = (first + distance) % steps.len();
            predictions.pairs += 1;
            let (own, other) = (&steps[first], &steps[second]);
            if let Some(aligned) = align_steps(trace, &split, own, other) {
                predictions.all.push(runner.predict(own, other, &aligned));
            }
        }
    }
    // If no two steps are alike, they say nothing about the graph.
    (!predictions.all.is_empty()).then_some(predictions)
}

/// Runs single steps.
struct StepRunner<'t> {
    trace: &'t LinkedTrace,
    graph: &'t ReplayGraph,
    split: &'t SplitSteps,
    /// End per node since the start of its step, valid only for the step being run.
    end: Vec<TimeNs>,
    start: Vec<TimeNs>,
    decided: Vec<EdgeIdx>,
}

impl<'t> StepRunner<'t> {
    fn new(trace: &'t LinkedTrace, graph: &'t ReplayGraph, split: &'t SplitSteps) -> Self {
        StepRunner {
            trace,
            graph,
            split,
            end: vec![TimeNs(0); graph.len()],
            start: vec![TimeNs(0); graph.len()],
            decided: vec![EdgeIdx::NONE; graph.len()],
        }
    }

    fn predict(
        &mut self,
        own: &StepNodes,
        other: &StepNodes,
        aligned: &AlignedStep,
    ) -> StepPrediction {
        for (place, node) in own.nodes.iter().copied().enumerate() {
            let partner = aligned.partner[place].get();
            let (start, decided) = self.earliest_start(node, partner, own, other);
            let index = node.index();
            (self.start[index], self.decided[index]) = (start, decided);
            self.end[index] = start + aligned.duration[place];
        }
        let at_end = own.last_nodes.iter().copied();
        let last = at_end.max_by_key(|node| self.end[node.index()]);
        let predicted = last.map_or(TimeNs(0), |node| self.end[node.index()]);
        let is_early = predicted - TimeNs(0) < other.length;
        // If a prediction is too early, the node that really ended the step lacks a cause.
        let suspect = if is_early {
            self.measured_last(own, other, aligned)
        } else {
            last
        };
        StepPrediction {
            graph_of: own.name.clone(),
            step: other.name.clone(),
            unchanged_ns: own.length,
            measured_ns: other.length,
            predicted_ns: predicted - TimeNs(0),
            deviations: suspect.map_or(vec![], |last| self.deviations(last, own, other, aligned)),
        }
    }

    /// Returns the node whose partner ended the other step.
    fn measured_last(
        &self,
        own: &StepNodes,
        other: &StepNodes,
        aligned: &AlignedStep,
    ) -> Option<NodeIdx> {
        let end = other.origin + other.length;
        let mut nodes = own.nodes.iter().zip(&aligned.partner);
        let last = nodes.find(|(node, partner)| {
            let is_last = |partner| self.graph.end(partner) == end;
            partner.get().is_some_and(is_last) && own.last_nodes.binary_search(node).is_ok()
        });
        last.map(|(node, _)| *node)
    }

    /// Returns the earliest start of a node since the begin of the step, and the edge that decides
    /// it.
    fn earliest_start(
        &self,
        node: NodeIdx,
        partner: Option<NodeIdx>,
        own: &StepNodes,
        other: &StepNodes,
    ) -> (TimeNs, EdgeIdx) {
        let graph = self.graph;
        let (mut latest, mut decided) = (None, EdgeIdx::NONE);
        for edge in graph.edges_to(node) {
            let dep = graph.dep(edge);
            let end = if self.split.step_at(dep.from) == own.step {
                Some(self.end[dep.from.index()])
            } else {
                self.end_outside(edge, partner, own, other)
            };
            let Some(end) = end else { continue };
            let ready = end + graph.latency(edge);
            if latest.is_none_or(|latest| ready > latest) {
                (latest, decided) = (Some(ready), edge);
            }
        }
        // The stream was busy when the other step began, but idle when this one did.
        for edge in partner.into_iter().flat_map(|node| graph.edges_to(node)) {
            let dep = graph.dep(edge);
            let is_outside = self.split.step_at(dep.from) != other.step;
            let mut own_kinds = graph.deps(node).map(|own| own.kind);
            let is_known = own_kinds.any(|kind| kind == dep.kind);
            if dep.kind == EdgeKind::StreamOrder && is_outside && !is_known {
                let ready = other.since_origin(graph.end(dep.from)) + graph.latency(edge);
                latest = latest.max(Some(ready));
            }
        }
        let measured = || match partner {
            Some(partner) => other.since_origin(graph.start[partner.index()]),
            None => own.since_origin(graph.start[node.index()]),
        };
        (latest.unwrap_or_else(measured), decided)
    }

    /// Returns the end of a cause outside the step, taken from the same cause of the other step;
    /// `None` if that step has no such cause, because a stream had nothing to do when the step
    /// began.
    fn end_outside(
        &self,
        edge: EdgeIdx,
        partner: Option<NodeIdx>,
        own: &StepNodes,
        other: &StepNodes,
    ) -> Option<TimeNs> {
        let graph = self.graph;
        let dep = graph.dep(edge);
        let same = partner.and_then(|partner| {
            let place = graph.resource[dep.from.index()];
            let mut causes = graph.deps(partner);
            // For the first step of a window, this is work from before the recording.
            causes
                .find(|cause| cause.kind == dep.kind && graph.resource[cause.from.index()] == place)
        });
        match (same, partner) {
            (Some(cause), _) => Some(other.since_origin(graph.end(cause.from))),
            (None, Some(partner)) if graph.count_deps(partner) > 0 => None,
            (None, _) => Some(own.since_origin(graph.end(dep.from))),
        }
    }

    /// Returns the deviations on the path to the end, walked back along deciding edges: nodes whose
    /// start differs from the measured one although their cause ends as measured. Their sum is the
    /// error of the prediction.
    fn deviations(
        &self,
        last: NodeIdx,
        own: &StepNodes,
        other: &StepNodes,
        aligned: &AlignedStep,
    ) -> Vec<StepDeviation> {
        let mut found = vec![];
        let mut at = Some(last);
        // The following node, and the error of its start.
        let mut later: Option<(NodeIdx, i64)> = None;
        while let Some(node) = at {
            let place = own.place_of(node);
            let partner = place.and_then(|place| aligned.partner[place].get());
            // A delay has no partner: its error shows in the row after it.
            if let Some(partner) = partner {
                let end = other.since_origin(self.graph.end(partner));
                let start = other.since_origin(self.graph.start[partner.index()]);
                if let Some((after, off)) = later {
                    found.push((off - self.end[node.index()].since(end), after, Some(node)));
                }
                later = Some((node, self.start[node.index()].since(start)));
            }
            let edge = self.decided[node.index()].get();
            let before = edge.map(|edge| self.graph.dep(edge).from);
            at = before.filter(|from| self.split.step_at(*from) == own.step);
        }
        if let Some((after, off)) = later {
            found.push((off, after, None));
        }
        found.sort_by_key(|(off, node, _)| (std::cmp::Reverse(off.abs()), *node));
        let largest = found
            .into_iter()
            .take(DEVIATIONS)
            .filter(|(off, ..)| *off != 0);
        let named = largest.map(|(ns, node, from)| StepDeviation {
            ns,
            edge: self.decided[node.index()]
                .get()
                .map(|edge| self.graph.dep(edge).kind),
            label: NodeLabel::from_node(self.graph, self.trace, node),
            from: from.map(|from| NodeLabel::from_node(self.graph, self.trace, from)),
        });
        named.collect()
    }
}
