//! How the linking went, in numbers.

use crate::capture::{CaptureReport, rows_of_graph_launches};
use crate::trace::{EdgeKind, LinkedTrace, MatchRule, NoLaunch, NodeKind};
use etlink_model::Anomalies;
use indexmap::IndexMap;
use serde::Serialize;

/// Nodes by kind.
pub type NodeCounts = IndexMap<NodeKind, u64>;
/// Edges by kind.
pub type EdgeCounts = IndexMap<EdgeKind, u64>;
/// Matched CPU ops by rule.
pub type MatchCounts = IndexMap<MatchRule, u64>;

/// What was not matched, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnmatchedCounts {
    /// Host nodes before the device trace's first matched op or after its last: no times.
    pub host_outside_window: u64,
    /// Host nodes between matched ones that the device trace does not have.
    pub host_not_in_device: u64,
    /// CPU ops of the device trace that the host trace does not have.
    pub device_not_in_host: u64,
    /// Ids that both traces have, under different names.
    pub same_id_other_name: u64,
}

/// The time that the device trace covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimeWindow {
    /// First start, ns since the trace's origin.
    pub start_ns: i64,
    /// Last end.
    pub end_ns: i64,
}

/// How the linking went.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LinkReport {
    /// What the reader should know first, a sentence each.
    pub notes: Vec<String>,
    /// Rank, from the user or the traces.
    pub rank: Option<i64>,
    /// World size, from the device trace.
    pub world_size: Option<i64>,
    /// Schema of the host trace.
    pub host_schema: Option<String>,
    /// The two traces are of two runs of one program.
    pub two_runs: bool,
    /// ET ops (roots and process-group nodes aside).
    pub host_ops: u64,
    /// CPU ops of the device trace.
    pub cpu_ops: u64,
    /// CPU ops by the rule that matched them.
    pub matched: MatchCounts,
    /// What was not matched.
    pub unmatched: UnmatchedCounts,
    /// Kernels, copies and memsets.
    pub device_rows: u64,
    /// Device rows with their launch call.
    pub launched: u64,
    /// Device rows without, by reason.
    pub no_launch: IndexMap<NoLaunch, u64>,
    /// Device rows whose launch call an op encloses.
    pub owned_by_op: u64,
    /// Calls that launch a graph and have device rows.
    pub graph_launches: u64,
    /// Their device rows.
    pub graph_rows: u64,
    /// What was carried to these from a capture-time trace, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureReport>,
    /// Nodes by kind.
    pub nodes: NodeCounts,
    /// Edges by kind.
    pub edges: EdgeCounts,
    /// What the device trace covers.
    pub window: TimeWindow,
    /// What was wrong.
    pub anomalies: Anomalies,
}

/// Fills in what can be counted from the finished trace.
pub(crate) fn count(trace: &mut LinkedTrace) {
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

/// Counts values, in the order of the values. `number` is a value's own, and small.
fn tally<T: Copy + std::hash::Hash + Eq>(
    values: impl Iterator<Item = T>,
    number: fn(T) -> usize,
) -> IndexMap<T, u64> {
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
