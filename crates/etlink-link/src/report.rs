//! Figures about the linking.

use crate::device::capture::CaptureReport;
use crate::device::clocks::DeviceClock;
use crate::graph::kinds::{EdgeKind, MatchRule, NoLaunch, NodeKind};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{Anomalies, Diagnostic, DurationNs, GlobalRank};
use indexmap::IndexMap;
use serde::Serialize;

/// Number of nodes by kind.
pub type NodeCounts = IndexMap<NodeKind, u64>;
/// Number of edges by kind.
pub type EdgeCounts = IndexMap<EdgeKind, u64>;
/// Number of matched CPU ops by rule.
pub type MatchCounts = IndexMap<MatchRule, u64>;

/// Unmatched ops and nodes, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnmatchedCounts {
    /// Host nodes before the device trace's first matched op or after its last one: no times.
    pub host_outside_window: u64,
    /// Host nodes between matched ones that are missing in the device trace.
    pub host_not_in_device: u64,
    /// CPU ops of the device trace that are missing in the host trace.
    pub device_not_in_host: u64,
    /// Ids that the traces have in common under different names.
    pub same_id_other_name: u64,
}

/// Time covered by the device trace.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeWindow {
    /// First start, ns since the trace's origin.
    pub start_ns: i64,
    /// Last end, ns since the trace's origin.
    pub end_ns: i64,
}

/// Overhead of recording, which lengthens each op of a host.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordingOverhead {
    /// Cost per op, ns: 60 % of it at the op's end and 40 % before its start. A fifth more falls
    /// on the time before a runtime call, and up to 2 us on the call.
    pub per_op_ns: DurationNs,
    /// True if all times are given without it.
    pub is_removed: bool,
    /// Recorded time from the first start to the last end.
    pub recorded_ns: DurationNs,
    /// Mean length of the recorded steps; `None` without steps.
    pub recorded_step_ns: Option<DurationNs>,
    /// Mean length of the steps as given, without the overhead if it is removed.
    pub step_ns: Option<DurationNs>,
    /// Length of a step without recording, if it was known.
    pub known_step_ns: Option<DurationNs>,
}

/// Report on the linking of a rank.
#[derive(Clone, Debug, Default, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkReport {
    /// Most important facts for the reader, besides the anomalies.
    pub diagnostics: Vec<Diagnostic>,
    /// Rank, as given by the user or the traces.
    pub rank: Option<GlobalRank>,
    /// World size, from the device trace.
    pub world_size: Option<i64>,
    /// Schema of the host trace.
    pub host_schema: Option<String>,
    /// Overhead of recording in the times of the host, if it is large or was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<RecordingOverhead>,
    /// Ops of the host trace, without roots and process-group nodes.
    pub host_ops: u64,
    /// CPU ops of the device trace.
    pub cpu_ops: u64,
    /// CPU ops by the rule that matched them.
    pub matched: MatchCounts,
    /// Ops and nodes that were not matched.
    pub unmatched: UnmatchedCounts,
    /// Kernels, copies and memsets.
    pub device_rows: u64,
    /// Device rows with their launch call.
    pub launched: u64,
    /// Device rows without a launch call, by reason.
    pub no_launch: IndexMap<NoLaunch, u64>,
    /// Device rows whose launch call an op encloses.
    pub owned_by_op: u64,
    /// Calls that launch a graph and have device rows.
    pub graph_launches: u64,
    /// Device rows of these launches.
    pub graph_rows: u64,
    /// Ops carried over to these rows from a capture-time trace, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureReport>,
    /// Nodes by kind.
    pub nodes: NodeCounts,
    /// Edges by kind.
    pub edges: EdgeCounts,
    /// Devices whose clocks differ from the host's, by number. Nodes of their rows use the host's
    /// clock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_clocks: Vec<DeviceClock>,
    /// Time window of the device trace.
    pub window: TimeWindow,
    /// True if the end of the device trace's file is missing.
    #[serde(skip)]
    pub device_is_cut: bool,
    /// Anomalies found in the traces.
    pub anomalies: Anomalies,
}
