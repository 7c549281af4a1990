//! Ids. Each id space has its own type, so that ids never mix.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A typed row number, as grouping and sorting need it.
pub trait TableIdx: Copy + Ord {
    /// Returns the id of row `index`.
    fn from_index(index: usize) -> Self;

    /// Returns the row number.
    fn index(self) -> usize;
}

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, BorshSerialize, BorshDeserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            // A reserved number, because an `Option` would double the size of a column.
            /// Absent row.
            pub const NONE: $name = $name(u32::MAX);

            /// Returns the id of row `index`. Rows past `u32::MAX - 1` do not exist: readers refuse
            /// them.
            pub fn new(index: usize) -> Self {
                // An overflow becomes `NONE`, which all lookups skip, instead of another row. 32
                // bits halve the memory of all tables compared to `usize`.
                $name(u32::try_from(index).unwrap_or(u32::MAX))
            }

            /// Returns the row number.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// Returns the id, or `None` for [`Self::NONE`].
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
    /// The thread of a host node or the queue of a device node. Both count from 0, so the index is
    /// meaningless without the node.
    TrackIdx
}

index! {
    /// A communication of a rank, by its place in time order.
    CommIdx
}

index! {
    /// A group of a rank, by its place in the rank's trace. Other ranks number their groups
    /// differently.
    GroupIdx
}

index! {
    /// A step of a rank, by its place in time order.
    StepIdx
}

index! {
    /// A collective or message of a run, by its place among the matches of the join.
    MatchIdx
}

index! {
    /// A rank, by its place in the list of ranks that are analyzed together. If traces are missing,
    /// it differs from the rank's number in the job, which is a [`GlobalRank`].
    RankIdx
}

/// A rank by its number in the job: the result of `torch.distributed.get_rank()`. Damaged traces
/// may hold any number here.
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
    Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct GlobalRank(pub i64);

impl fmt::Display for GlobalRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not `write!`, which would drop the width requested by a table.
        self.0.fmt(f)
    }
}

impl NameId {
    // The number of a default row: an unfilled row has no name.
    /// The empty string.
    pub const EMPTY: NameId = NameId(0);
}

/// PyTorch's `RecordFunction` handle: ET `rf_id`, Kineto `Record function id`. 0 if no execution
/// trace observer was running.
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
#[serde(transparent)]
pub struct RfId(pub u64);

impl RfId {
    /// Returns the id, or `None` for 0.
    pub fn get(self) -> Option<RfId> {
        (self.0 != 0).then_some(self)
    }
}

/// Kineto `correlation`: number shared by a runtime call and the device rows it caused. At best
/// unique within a process and a session; one graph launch has many device rows.
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
    BorshSerialize,
    BorshDeserialize,
)]
#[serde(transparent)]
pub struct Correlation(pub i64);

impl Correlation {
    /// Absent correlation.
    // Neither 0 nor -1 would do: damaged files contain both as ids.
    pub const NONE: Correlation = Correlation(i64::MIN);

    /// Returns the correlation, or `None` for [`Self::NONE`].
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
