//! Ids. Each is a number with its own type, so that two id spaces never mix.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A row number with a type of its own: what grouping and sorting need to know of one.
pub trait TableIdx: Copy + Ord {
    /// The id of row `index`.
    fn from_index(index: usize) -> Self;

    /// The row number.
    fn index(self) -> usize;
}

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, BorshSerialize, BorshDeserialize,
        )]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            // A reserved number and no `Option`: that would double what a column takes.
            /// No row.
            pub const NONE: $name = $name(u32::MAX);

            /// The id of row `index`. Rows past `u32::MAX - 1` do not exist: readers refuse them.
            pub fn new(index: usize) -> Self {
                // A lost row becomes `NONE`, which all look-ups pass over, and not another row.
                // 32 bits halve the memory of all tables against `usize`.
                $name(u32::try_from(index).unwrap_or(u32::MAX))
            }

            /// The row number.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// `None` for [`Self::NONE`].
            pub fn get(self) -> Option<Self> {
                (self != Self::NONE).then_some(self)
            }
        }

        impl TableIdx for $name {
            fn from_index(index: usize) -> Self {
                $name::new(index)
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index! {
    /// A string in [`Names`](crate::Names). Row 0 is the empty string.
    NameId
}
index! {
    /// A node of [`HostTrace`](crate::HostTrace).
    HostIdx
}
index! {
    /// A row of [`CpuOps`](crate::CpuOps).
    OpIdx
}
index! {
    /// A row of [`RuntimeCalls`](crate::RuntimeCalls).
    CallIdx
}
index! {
    /// A row of [`DeviceRows`](crate::DeviceRows).
    RowIdx
}
index! {
    /// An entry of [`DeviceTrace::threads`](crate::DeviceTrace).
    ThreadIdx
}
index! {
    /// An entry of [`DeviceTrace::queues`](crate::DeviceTrace).
    QueueIdx
}

index! {
    /// A node of a graph, by its place among the nodes.
    NodeIdx
}

index! {
    /// An edge of a graph, by its place among the edges.
    EdgeIdx
}

index! {
    /// A thread or stream of a graph, by its place in the list of both.
    ResourceIdx
}

index! {
    /// The thread of a node of the host, or the queue of a node of a device. Both count from 0, so
    /// that it says nothing without the node.
    TrackIdx
}

index! {
    /// A communication of a rank, by its place in time among the rank's.
    CommIdx
}

index! {
    /// A group of a rank, by its place among those that the rank's trace has. Other ranks number
    /// theirs otherwise.
    GroupIdx
}

index! {
    /// A step of a rank, by its place in time.
    StepIdx
}

index! {
    /// A collective or message of a run, by its place among those that the join has found.
    MatchIdx
}

index! {
    /// A rank by its place in the list of ranks that are looked at together. Where traces are
    /// missing, it is not the rank's number in the job, which is a [`GlobalRank`].
    RankIdx
}

/// A rank by its number in the job: what `torch.distributed.get_rank()` returns. Damaged traces
/// have any number here.
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
    Deserialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct GlobalRank(pub i64);

impl fmt::Display for GlobalRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not `write!`, which would lose the width that a table asks for.
        self.0.fmt(f)
    }
}

impl NameId {
    // The number of a default row: what nothing was read into has no name.
    /// The empty string.
    pub const EMPTY: NameId = NameId(0);
}

/// PyTorch's `RecordFunction` handle: ET `rf_id`, Kineto `Record function id`.
/// 0 where no execution trace observer was running.
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
    Deserialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[serde(transparent)]
pub struct RfId(pub u64);

impl RfId {
    /// `None` for 0.
    pub fn get(self) -> Option<RfId> {
        (self.0 != 0).then_some(self)
    }
}

/// Kineto `correlation`: the number that a runtime call and the device rows it caused share.
/// Unique within a process and a session at best; one graph launch has many device rows.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[serde(transparent)]
pub struct Correlation(pub i64);

impl Correlation {
    /// The row has none.
    // Neither 0 nor -1 would do: damaged files have both as ids.
    pub const NONE: Correlation = Correlation(i64::MIN);

    /// `None` for [`Self::NONE`].
    pub fn get(self) -> Option<Correlation> {
        (self != Self::NONE).then_some(self)
    }
}

impl Default for Correlation {
    fn default() -> Self {
        Correlation::NONE
    }
}

impl fmt::Display for Correlation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
