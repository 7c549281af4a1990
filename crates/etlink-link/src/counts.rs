//! Counts over a linked trace.

use crate::device::capture::rows_of_graph_launches;
use crate::graph::kinds::{MatchRule, NoLaunch};
use crate::trace::LinkedTrace;
use indexmap::IndexMap;

/// Fills in the counts of the report from the finished trace.
pub(crate) fn count_trace(trace: &mut LinkedTrace) {
    let report = &mut trace.report;
    report.cpu_ops = trace.device.ops.len() as u64;
    report.device_rows = trace.device.rows.len() as u64;
    report.matched = tally(
        trace
            .op_rule
            .iter()
            .copied()
            .filter(|rule| *rule != MatchRule::None),
        |rule| rule as usize,
    );
    report.no_launch = tally(
        trace
            .row_no_launch
            .iter()
            .copied()
            .filter(|reason| *reason != NoLaunch::Launched),
        |reason| reason as usize,
    );
    report.launched = report.device_rows - report.no_launch.values().sum::<u64>();
    let in_graphs = rows_of_graph_launches(&trace.device, &trace.row_call);
    report.graph_rows = in_graphs.len() as u64;
    report.graph_launches = in_graphs.chunk_by(|a, b| a.0 == b.0).count() as u64;
    report.owned_by_op = trace.row_op.iter().filter(|op| op.get().is_some()).count() as u64;
    (report.nodes, report.edges) = rayon::join(
        || tally(trace.nodes.kind.iter().copied(), |kind| kind as usize),
        || tally(trace.edges.kinds().iter().copied(), |kind| kind as usize),
    );
}

/// Counts equal values, in order of their small `number`.
fn tally<T: Copy + std::hash::Hash + Eq>(
    values: impl Iterator<Item = T>,
    number: fn(T) -> usize,
) -> IndexMap<T, u64> {
    // A list by number, not a hash map: reports need a fixed order, which is the order of the
    // types.
    let mut counts: Vec<(Option<T>, u64)> = vec![];
    for value in values {
        let at = number(value);
        if at >= counts.len() {
            counts.resize(at + 1, (None, 0));
        }
        counts[at] = (Some(value), counts[at].1 + 1);
    }
    counts
        .into_iter()
        .filter_map(|(value, count)| Some((value?, count)))
        .collect()
}
