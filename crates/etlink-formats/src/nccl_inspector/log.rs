//! Contents of a log, as columns.

use etlink_model::{Anomalies, DurationNs, NameId, Names, UnixNs};
use serde::Serialize;

/// Log of a process.
#[derive(Clone, Debug, Default)]
pub struct InspectorLog {
    /// Interned strings of the log.
    pub names: Names,
    /// Communicators in order of first use; each has one rank of this process.
    pub communicators: Vec<InspectorCommunicator>,
    /// Collectives and messages, in written order.
    pub calls: InspectorCalls,
    /// Damage found in the log.
    pub anomalies: Anomalies,
    /// Length of the uncompressed log.
    pub bytes: u64,
}

/// A communicator as seen by a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct InspectorCommunicator {
    /// `id`: hash of the communicator, equal on all its ranks.
    pub id: String,
    /// `comm_name`; empty if it has none.
    pub name: String,
    /// Rank of this process in the communicator.
    pub rank: i64,
    /// Number of ranks.
    pub ranks: u64,
    /// Number of machines.
    pub nodes: u64,
    /// Host name of this rank.
    pub host: String,
    /// Process id of this rank.
    pub pid: i64,
}

/// Method of measuring a duration, best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TimingSource {
    /// Device clock, read in the kernel.
    KernelGpu,
    /// Host clock, from callbacks of the kernel.
    KernelCpu,
    /// Host clock, from the call.
    CollectiveCpu,
    /// Not stated (before version 4.0 of the format).
    #[default]
    Unknown,
}

/// Collectives and messages of a process. All columns have equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InspectorCalls {
    /// Index in [`InspectorLog::communicators`].
    pub communicator: Vec<u32>,
    /// `AllReduce`, `Send`, … as written.
    pub name: Vec<NameId>,
    /// Number of the call among calls of its name in the communicator.
    pub number: Vec<u64>,
    /// Peer of a message; -1 for a collective.
    pub peer: Vec<i64>,
    /// Bytes that the rank contributes, as NCCL counts them.
    pub bytes: Vec<u64>,
    /// Duration on this rank, including the wait for other ranks.
    pub duration: Vec<DurationNs>,
    /// Source of the duration.
    pub timing: Vec<TimingSource>,
    /// Time at which the line was written.
    pub written: Vec<UnixNs>,
}

impl InspectorCalls {
    /// Returns the number of calls.
    pub fn len(&self) -> usize {
        self.communicator.len()
    }

    /// Returns true if there are no calls.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
