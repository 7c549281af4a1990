//! Uncertainty of latencies that a changed run assumes.

use crate::graph::{EdgeKind, ReplayGraph};
use crate::path::critical_path;
use crate::run::ReplayRun;
use etlink_model::{DurationNs, EdgeIdx, NodeIdx};

/// Smallest number of latencies that show a spread.
const LEAST_MEASURED: usize = 3;
/// Number of standard deviations of a sum of independent errors. The sum stays within them in 99 of
/// 100 cases, less often for few errors or for deviations estimated from three values.
const DEVIATIONS: f64 = 3.0;
/// Distance between the first and the last decile of evenly or normally distributed values, in
/// standard deviations.
const DEVIATIONS_OF_TENTHS: f64 = 2.56;

/// Latencies of the deciding edges of one kind, to hosts or to devices.
#[derive(Clone, Copy, Debug, Default)]
struct LatencySpread {
    /// Mean minus median; the median is the assumed value.
    bias: f64,
    /// Standard deviation; `None` if too few edges decided.
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
        // A few latencies that are separate waits would shift the mean of all.
        let usual = &values[first_tenth..=last_tenth];
        let sum: i128 = usual.iter().map(|value| i128::from(value.0)).sum();
        let range = (values[last_tenth].0 - values[first_tenth].0) as f64;
        LatencySpread {
            bias: sum as f64 / usual.len() as f64 - values[last / 2].0 as f64,
            deviation: Some(range / DEVIATIONS_OF_TENTHS),
        }
    }
}

/// Returns the possible error of a changed run's path from edges that decide only in that run, so
/// that their latencies are assumed. O(n log n + edges).
pub(crate) fn assumed_latency_error(
    graph: &ReplayGraph,
    (plain, run): (&ReplayRun, &ReplayRun),
) -> DurationNs {
    let spreads = spreads(graph, plain);
    let (mut bias, mut variance) = (0.0, 0.0);
    for step in critical_path(graph, run) {
        let edge = run.deciding_edge(step.node);
        let assumed = edge.filter(|edge| plain.deciding_edge(step.node) != Some(*edge));
        if let Some(edge) = assumed {
            let spread = spreads[class_of(graph, step.node, edge)];
            // Without any known deviation the latency is a guess.
            let guess = graph.latency(edge).0.abs() as f64 / 2.0;
            bias += spread.bias;
            variance += spread.deviation.unwrap_or(guess).powi(2);
        }
    }
    let error = bias.abs() + DEVIATIONS * variance.sqrt();
    DurationNs(error.ceil() as i64)
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
