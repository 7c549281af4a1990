//! What a log says, as columns.

use etlink_model::{Anomalies, DurationNs, NameId, Names, UnixNs};
use serde::Serialize;

/// The log of a process.
#[derive(Clone, Debug, Default)]
pub struct InspectorLog {
    /// Strings.
    pub names: Names,
    /// The communicators, in order of first use; each has one rank of this process.
    pub communicators: Vec<InspectorCommunicator>,
    /// The collectives and messages, as they were written.
    pub calls: InspectorCalls,
    /// What is damaged.
    pub anomalies: Anomalies,
    /// Length of the unpacked log.
    pub bytes: u64,
}

/// A communicator as a process has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InspectorCommunicator {
    /// `id`: the hash by which all its ranks know it.
    pub id: String,
    /// `comm_name`; empty where it has none.
    pub name: String,
    /// This rank in it.
    pub rank: i64,
    /// How many ranks it has.
    pub ranks: u64,
    /// How many machines they are on.
    pub nodes: u64,
    /// The machine of this rank.
    pub host: String,
    /// The process of this rank.
    pub pid: i64,
}

/// How a time was measured, best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TimingSource {
    /// By the clock of the device, in the kernel.
    KernelGpu,
    /// By the host's clock, from callbacks of the kernel.
    KernelCpu,
    /// By the host's clock, from the call.
    CollectiveCpu,
    /// Not said (before version 4.0 of the format).
    #[default]
    Unknown,
}

/// Collectives and messages of a process. All columns have the same length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InspectorCalls {
    /// Place in [`InspectorLog::communicators`].
    pub communicator: Vec<u32>,
    /// `AllReduce`, `Send`, … as written.
    pub name: Vec<NameId>,
    /// Number of the call among those of its name in the communicator.
    pub number: Vec<u64>,
    /// The other rank of a message; -1 of a collective.
    pub peer: Vec<i64>,
    /// Bytes that the rank gives, as NCCL counts them.
    pub bytes: Vec<u64>,
    /// How long it took on this rank, waiting for other ranks included.
    pub duration: Vec<DurationNs>,
    /// How that was measured.
    pub timing: Vec<TimingSource>,
    /// When the line was written.
    pub written: Vec<UnixNs>,
}

impl InspectorCalls {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.communicator.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
