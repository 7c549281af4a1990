//! What a dump says.

use etlink_model::{Anomalies, CollectiveKind, NameId, Names, UnixNs};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the flight recorder of a rank kept: its last collectives, oldest first.
#[derive(Clone, Debug, Default)]
pub struct FlightDump {
    /// `version`, such as `2.10`.
    pub version: String,
    /// `comm_lib_version` or `nccl_version`; empty where that is not said.
    pub library: String,
    /// Strings.
    pub names: Names,
    /// The process groups (`pg_config`).
    pub groups: Vec<FlightGroup>,
    /// How far each group is (`pg_status`), by the number of the group in this process.
    pub progress: BTreeMap<i64, FlightProgress>,
    /// The collectives and messages, in the order in which they were called.
    pub entries: Vec<FlightEntry>,
    /// What is damaged.
    pub anomalies: Anomalies,
    /// Length of the unpacked file.
    pub bytes: u64,
}

/// A process group as a dump lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlightGroup {
    /// Its name; Gloo's dumps leave it out.
    pub name: String,
    /// `default_pg`, `mesh_tp`, …
    pub desc: String,
    /// Global ranks; empty where they are not listed.
    pub ranks: Vec<u64>,
}

/// The numbers of the last collectives of a group; -1: none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlightProgress {
    /// That was called.
    pub enqueued: i64,
    /// That a device has begun.
    pub started: i64,
    /// That has ended.
    pub completed: i64,
}

/// How far a collective is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlightState {
    /// Called.
    #[default]
    Scheduled,
    /// The device has begun it.
    Started,
    /// It has ended.
    Completed,
}

impl FlightState {
    /// Its name in dumps and reports.
    pub fn name(self) -> &'static str {
        match self {
            FlightState::Scheduled => "scheduled",
            FlightState::Started => "started",
            FlightState::Completed => "completed",
        }
    }
}

/// A collective or message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlightEntry {
    /// `record_id`: its number in the process.
    pub record: i64,
    /// `pg_id`: the number of its group in this process, which other ranks may count otherwise.
    pub group_id: i64,
    /// Name of its group (`process_group`).
    pub group_name: NameId,
    /// Description of its group.
    pub group_desc: NameId,
    /// `collective_seq_id`: its number among the collectives of its group.
    pub number: i64,
    /// `p2p_seq_id`: its number among the messages of its group.
    pub message_number: i64,
    /// It is a send or receive.
    pub is_message: bool,
    /// `profiling_name`: `nccl:all_reduce`, `gloo:barrier`, `nccl:send 0->1`.
    pub name: NameId,
    /// What it is.
    pub kind: CollectiveKind,
    /// The other side of a message, as a place in the group; -1 = not said.
    pub peer: i64,
    /// When it was called.
    pub created: UnixNs,
    /// Sizes of its inputs, list text: `[[10], [4, 2]]`.
    pub in_sizes: NameId,
    /// Sizes of its outputs, list text.
    pub out_sizes: NameId,
    /// Elements of all inputs.
    pub in_elements: u64,
    /// Elements of all outputs.
    pub out_elements: u64,
    /// Element type of the first input, else of the first output: `Float`.
    pub dtype: NameId,
    /// How far it is.
    pub state: FlightState,
    /// Nobody watches it any more: it has ended, or its group is gone. Gloo says only this.
    pub is_retired: bool,
    /// `timeout_ms`; 0 = not said.
    pub timeout_ms: i64,
    /// Where the program called it: `train.py:31 step`, the innermost frame outside of PyTorch.
    pub place: NameId,
}

impl FlightEntry {
    /// Whether it says itself that it has ended; see [`FlightDump::has_ended`].
    pub fn is_done(&self) -> bool {
        // Gloo's entries stay `scheduled` (`ProcessGroupGloo.cpp` retires the entry when the work
        // is done); NCCL's watchdog sets the state before it retires.
        self.is_retired || self.state == FlightState::Completed
    }
}

impl FlightDump {
    /// Whether a collective or message has ended: by its own state, or because its group has
    /// completed a later one. The parts of a coalesced collective have no state of their own
    /// (`ProcessGroupNCCL::endCoalescing`).
    pub fn has_ended(&self, entry: &FlightEntry) -> bool {
        let progress = self.progress.get(&entry.group_id);
        let is_passed = progress.is_some_and(|progress| progress.completed >= entry.number);
        entry.is_done() || is_passed && !entry.is_message
    }

    /// The group of an entry as the dump lists it.
    pub fn group_of(&self, entry: &FlightEntry) -> Option<&FlightGroup> {
        let name = self.names.get(entry.group_name);
        let named = self.groups.iter().find(|group| group.name == name);
        // Gloo of PyTorch 2.15 lists one group without its name: whichever was made last. It is
        // that of the entries where these have no other.
        named.or_else(|| {
            let mut entries = self.entries.iter();
            let is_only = entries.all(|other| other.group_name == entry.group_name);
            let nameless = self.groups.iter().find(|group| group.name.is_empty());
            if is_only { nameless } else { None }
        })
    }
}
