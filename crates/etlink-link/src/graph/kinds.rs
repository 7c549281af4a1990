//! What nodes and edges are, and why some rows have no launch and some ops no match.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;

/// What a node is.
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
pub enum NodeKind {
    /// A slice of a host op: time on its thread in which the op itself runs, not its children.
    #[default]
    HostOp,
    /// A runtime or driver call.
    Runtime,
    /// A kernel, copy or memset.
    DeviceOp,
    /// A collective, send or receive: its device row, or its host op where no device takes part.
    Collective,
    /// Time on a thread in which no op runs but the program does; inside a user annotation it bears
    /// its name.
    HostGap,
    /// The head of a thread or queue, from the window's start on: what came before the recording.
    Boundary,
    /// On a queue, between the end of all known causes of the next row and its start, where that is
    /// longer than launches and waits take.
    UnexplainedWait,
}

impl NodeKind {
    /// Its name in reports and outputs.
    pub fn name(self) -> &'static str {
        match self {
            NodeKind::HostOp => "host_op",
            NodeKind::Runtime => "runtime",
            NodeKind::DeviceOp => "device_op",
            NodeKind::Collective => "collective",
            NodeKind::HostGap => "host_gap",
            NodeKind::Boundary => "boundary",
            NodeKind::UnexplainedWait => "unexplained_wait",
        }
    }

    /// Whether it stands for time that passes, not for work.
    pub fn is_delay(self) -> bool {
        matches!(self, NodeKind::Boundary | NodeKind::UnexplainedWait)
    }
}

/// Why an edge is there.
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
pub enum EdgeKind {
    /// Previous slice of a thread to the next.
    #[default]
    ProgramOrder,
    /// What ran before a runtime call to the device row that the call caused.
    Launch,
    /// Previous row of a queue to the next.
    StreamOrder,
    /// Last row before an event was recorded to the first row after another queue waited for it.
    EventWait,
    /// The row that a host call blocked for to what the call does after that.
    HostWait,
    /// What gave another thread its work to that work, and that work to what waits for it.
    Handoff,
    /// The last to write a tensor to what reads it on another thread.
    Tensor,
    /// Each rank's arrival at a collective to what the ranks do together then. Only between ranks:
    /// a linked trace has none.
    Collective,
}

impl EdgeKind {
    /// All of them, in order.
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

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            EdgeKind::ProgramOrder => "program_order",
            EdgeKind::Launch => "launch",
            EdgeKind::StreamOrder => "stream_order",
            EdgeKind::EventWait => "event_wait",
            EdgeKind::HostWait => "host_wait",
            EdgeKind::Handoff => "handoff",
            EdgeKind::Tensor => "tensor",
            EdgeKind::Collective => "collective",
        }
    }

    /// Whether it orders a thread's work, rather than bringing work or data to it.
    pub fn is_control(self) -> bool {
        matches!(
            self,
            EdgeKind::ProgramOrder | EdgeKind::HostWait | EdgeKind::Handoff
        )
    }
}

/// By which rule a CPU op found its host node.
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
    /// Not matched.
    #[default]
    None,
    /// `rf_id` is `Record function id` and the names agree.
    Id,
    /// Same place in the same sequence of names of a thread.
    Order,
}

/// Why a device row has no launch.
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
    /// It has one.
    #[default]
    Launched,
    /// The trace has no runtime calls at all.
    NoCallsRecorded,
    /// The row has no correlation id.
    NoCorrelation,
    /// Started, or by its id was launched, before the first call that the trace has.
    BeforeWindow,
    /// A correlation id that no call has.
    CallNotRecorded,
    /// The call starts after the row: the clocks disagree or the ids were reused.
    StartsBeforeCall,
}
