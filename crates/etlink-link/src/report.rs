//! How the linking went, in numbers.

use crate::device::capture::CaptureReport;
use crate::device::clocks::DeviceClock;
use crate::graph::kinds::{EdgeKind, MatchRule, NoLaunch, NodeKind};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{Anomalies, GlobalRank};
use indexmap::IndexMap;
use serde::Serialize;

/// Nodes by kind.
pub type NodeCounts = IndexMap<NodeKind, u64>;
/// Edges by kind.
pub type EdgeCounts = IndexMap<EdgeKind, u64>;
/// Matched CPU ops by rule.
pub type MatchCounts = IndexMap<MatchRule, u64>;

/// What was not matched, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeWindow {
    /// First start, ns since the trace's origin.
    pub start_ns: i64,
    /// Last end.
    pub end_ns: i64,
}

/// How the linking went.
#[derive(Clone, Debug, Default, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkReport {
    /// What the reader should know first, a sentence each.
    pub notes: Vec<String>,
    /// Rank, from the user or the traces.
    pub rank: Option<GlobalRank>,
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
    /// Devices whose clocks are off the host's, by number: nodes of their rows are by the host's
    /// clock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_clocks: Vec<DeviceClock>,
    /// What the device trace covers.
    pub window: TimeWindow,
    /// The end of the device trace's file is missing.
    #[serde(skip)]
    pub device_is_cut: bool,
    /// What was wrong.
    pub anomalies: Anomalies,
}
