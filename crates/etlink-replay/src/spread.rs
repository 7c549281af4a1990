//! How far latencies that a changed run assumes can be off.

use crate::graph::{EdgeKind, ReplayGraph};
use crate::path::critical_path;
use crate::run::ReplayRun;
use etlink_model::{DurationNs, EdgeIdx, NodeIdx};

/// Fewer latencies than this show no spread.
const LEAST_MEASURED: usize = 3;
/// A sum of independent errors is within so many standard deviations in all but one of a hundred
/// cases; of few errors, and of those that are none by a sample of three, in fewer.
const DEVIATIONS: f64 = 3.0;
/// From the first to the last tenth of values that are spread evenly or normally, standard
/// deviations.
const DEVIATIONS_OF_TENTHS: f64 = 2.56;

/// What edges of one kind to hosts, or to devices, took where they decided.
#[derive(Clone, Copy, Debug, Default)]
struct LatencySpread {
    /// By how much the mean is above the median, which is assumed.
    bias: f64,
    /// `None` where too few have decided.
    deviation: Option<f64>,
}

impl LatencySpread {
    fn from_values(mut values: Vec<DurationNs>) -> LatencySpread {
        if values.len() < LEAST_MEASURED {
            return LatencySpread::default();
        }
        values.sort_unstable();
        let last = values.len() - 1;
        let (first_tenth, last_tenth) = (last / 10, last - last / 10);
        // A few latencies that are waits of their own would move the mean of all.
        let usual = &values[first_tenth..=last_tenth];
        let sum: i128 = usual.iter().map(|value| i128::from(value.0)).sum();
        let range = (values[last_tenth].0 - values[first_tenth].0) as f64;
        LatencySpread {
            bias: sum as f64 / usual.len() as f64 - values[last / 2].0 as f64,
            deviation: Some(range / DEVIATIONS_OF_TENTHS),
        }
    }
}

/// By how much the path of a changed run can be longer or shorter because edges decide on it that did
/// not decide in the run without changes, so that what they take is assumed. O(n log n + edges).
pub(crate) fn assumed_latency_error(
    graph: &ReplayGraph,
    (plain, run): (&ReplayRun, &ReplayRun),
) -> DurationNs {
    let spreads = spreads(graph, plain);
    let (mut steps, mut bias, mut variance) = (0, 0.0, 0.0);
    for step in critical_path(graph, run) {
        steps += 1;
        let edge = run.deciding_edge(step.node);
        let assumed = edge.filter(|edge| plain.deciding_edge(step.node) != Some(*edge));
        if let Some(edge) = assumed {
            let spread = spreads[class_of(graph, step.node, edge)];
            // Without any that is known the latency is a guess.
            let guess = graph.latency(edge).0.abs() as f64 / 2.0;
            bias += spread.bias;
            variance += spread.deviation.unwrap_or(guess).powi(2);
        }
    }
    let error = bias.abs() + DEVIATIONS * variance.sqrt();
    // Each duration is rounded.
    DurationNs(error.ceil() as i64 + steps)
}

fn class_of(graph: &ReplayGraph, node: NodeIdx, edge: EdgeIdx) -> usize {
    2 * graph.dep(edge).kind as usize + usize::from(graph.on_device(node))
}

fn spreads(graph: &ReplayGraph, plain: &ReplayRun) -> Vec<LatencySpread> {
    let mut values = vec![vec![]; 2 * EdgeKind::ALL.len()];
    for node in graph.indices() {
        let Some(edge) = plain.deciding_edge(node) else {
            continue;
        };
        let from = graph.dep(edge).from;
        let is_delay = |node: NodeIdx| graph.kind[node.index()].is_delay();
        if !is_delay(node) && !is_delay(from) {
            values[class_of(graph, node, edge)].push(graph.latency(edge));
        }
    }
    values.into_iter().map(LatencySpread::from_values).collect()
}
