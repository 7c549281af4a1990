//! Kinds of nodes and edges, matching rules, and reasons for missing launches.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;

/// Kind of a node.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
    strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum NodeKind {
    /// A slice of a host op: time on its thread in which the op itself runs, not its children.
    #[default]
    HostOp,
    /// A runtime or driver call.
    Runtime,
    /// A kernel, copy or memset.
    DeviceOp,
    /// A collective, send or receive: its device row, or its host op if no device takes part.
    Collective,
    /// Time on a thread in which the program runs outside all ops; inside a user annotation, it
    /// carries the annotation's name.
    HostGap,
    /// Start of a thread or queue, from the window's start: time of work before the recording.
    Boundary,
    /// Unexplained time on a queue: from the end of all known causes of the next row to its start,
    /// if longer than launches and waits take.
    UnexplainedWait,
}

impl NodeKind {
    /// Name of the kind in reports and outputs.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// True if the node is elapsed time rather than work.
    pub fn is_delay(self) -> bool {
        matches!(self, NodeKind::Boundary | NodeKind::UnexplainedWait)
    }
}

/// Reason for an edge.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
    strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EdgeKind {
    /// From the previous slice of a thread to the next.
    #[default]
    ProgramOrder,
    /// From the node before a runtime call to the device row that the call caused.
    Launch,
    /// From the previous row of a queue to the next.
    StreamOrder,
    /// From the last row before an event was recorded to the first row after another queue waited
    /// for it.
    EventWait,
    /// From the row that a host call blocked for to the call's remaining time.
    HostWait,
    /// From the giver of work to that work on another thread, and from that work to what waits for
    /// it.
    Handoff,
    /// From the last writer of a tensor to its reader on another thread.
    Tensor,
    /// From each rank's arrival at a collective to the joint transfer. Only between ranks: a linked
    /// trace has none.
    Collective,
}

impl EdgeKind {
    /// All kinds, in order.
    pub const ALL: [EdgeKind; 8] = [
        EdgeKind::ProgramOrder,
        EdgeKind::Launch,
        EdgeKind::StreamOrder,
        EdgeKind::EventWait,
        EdgeKind::HostWait,
        EdgeKind::Handoff,
        EdgeKind::Tensor,
        EdgeKind::Collective,
    ];

    /// Name of the kind in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// True if the edge orders a thread's work, rather than bringing work or data to it.
    pub fn is_control(self) -> bool {
        matches!(
            self,
            EdgeKind::ProgramOrder | EdgeKind::HostWait | EdgeKind::Handoff
        )
    }
}

/// Rule that matched a CPU op to its host node.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MatchRule {
    /// The op was not matched.
    #[default]
    None,
    /// `rf_id` equals `Record function id`, and the names agree.
    Id,
    /// The ops have the same place in the same sequence of names of a thread.
    Order,
}

/// Reason a device row has no launch.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoLaunch {
    /// The row has a launch.
    #[default]
    Launched,
    /// The trace has no runtime calls at all.
    NoCallsRecorded,
    /// The row has no correlation id.
    NoCorrelation,
    /// The row started, or by its id was launched, before the first call in the trace.
    BeforeWindow,
    /// No call has the row's correlation id.
    CallNotRecorded,
    /// The call starts after the row: the clocks disagree or ids were reused.
    StartsBeforeCall,
}
