//! Contents of a dump.

use etlink_model::{Anomalies, CollectiveKind, NameId, Names, UnixNs};
use serde::Serialize;
use std::collections::BTreeMap;

/// Dump of the flight recorder of a rank: the last collectives, oldest first.
#[derive(Clone, Debug, Default)]
pub struct FlightDump {
    /// `version`, such as `2.10`.
    pub version: String,
    /// Interned strings of the dump.
    pub names: Names,
    /// Process groups (`pg_config`).
    pub groups: Vec<FlightGroup>,
    /// Number of the last collective of each group that has ended (`pg_status`), by the group's
    /// number in this process.
    pub completed: BTreeMap<i64, i64>,
    /// Collectives and messages, in call order.
    pub entries: Vec<FlightEntry>,
    /// Damage found in the dump.
    pub anomalies: Anomalies,
    /// Length of the uncompressed file.
    pub bytes: u64,
}

/// A process group as listed by a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlightGroup {
    /// Name of the group; missing in Gloo's dumps.
    pub name: String,
    /// Description: `default_pg`, `mesh_tp`, …
    pub desc: String,
    /// Global ranks; empty if not listed.
    pub ranks: Vec<u64>,
}

/// Progress of a collective.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FlightState {
    /// Called, but not yet begun on the device.
    #[default]
    Scheduled,
    /// Begun on the device.
    Started,
    /// Ended.
    Completed,
}

impl FlightState {
    /// Returns the name of the state in dumps and reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A collective or message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlightEntry {
    /// `record_id`: number of the entry in the process.
    pub record: i64,
    /// `pg_id`: number of the group in this process, which may differ on other ranks.
    pub group_id: i64,
    /// Name of the group (`process_group`).
    pub group_name: NameId,
    /// Description of the group.
    pub group_desc: NameId,
    /// `collective_seq_id`: number among the collectives of the group.
    pub number: i64,
    /// `p2p_seq_id`: number among the messages of the group.
    pub message_number: i64,
    /// True for a send or receive.
    pub is_message: bool,
    /// `profiling_name`: `nccl:all_reduce`, `gloo:barrier`, `nccl:send 0->1`.
    pub name: NameId,
    /// Kind of collective or message.
    pub kind: CollectiveKind,
    /// Peer of a message, as an index in the group; -1 if unknown.
    pub peer: i64,
    /// Time of the call.
    pub created: UnixNs,
    /// Sizes of the inputs as list text: `[[10], [4, 2]]`.
    pub in_sizes: NameId,
    /// Sizes of the outputs as list text.
    pub out_sizes: NameId,
    /// Number of elements of all inputs.
    pub in_elements: u64,
    /// Number of elements of all outputs.
    pub out_elements: u64,
    /// Element type of the first input, otherwise of the first output: `Float`.
    pub dtype: NameId,
    /// Progress when the dump was made.
    pub state: FlightState,
    /// True if the entry is no longer watched, because it has ended or its group is gone. This is
    /// the only state that Gloo records.
    pub is_retired: bool,
    /// `timeout_ms`; 0 if unknown.
    pub timeout_ms: i64,
    /// Call site in the program: `train.py:31 step`, the innermost frame outside PyTorch.
    pub place: NameId,
}

impl FlightEntry {
    /// Returns true if the entry's own state says that it has ended; see [`FlightDump::has_ended`].
    pub fn is_done(&self) -> bool {
        // Gloo's entries stay `scheduled` (`ProcessGroupGloo.cpp` retires an entry when the work is
        // done). NCCL's watchdog sets the state before it retires an entry.
        self.is_retired || self.state == FlightState::Completed
    }
}

impl FlightDump {
    /// Returns true if a collective or message has ended: by its own state, or because its group
    /// has completed a later one. The parts of a coalesced collective have no state of their own
    /// (`ProcessGroupNCCL::endCoalescing`).
    pub fn has_ended(&self, entry: &FlightEntry) -> bool {
        let completed = self.completed.get(&entry.group_id);
        let is_passed = completed.is_some_and(|completed| *completed >= entry.number);
        entry.is_done() || is_passed && !entry.is_message
    }

    /// Returns the group of an entry as listed by the dump.
    pub fn group_of(&self, entry: &FlightEntry) -> Option<&FlightGroup> {
        let name = self.names.get(entry.group_name);
        let named = self.groups.iter().find(|group| group.name == name);
        // Gloo of PyTorch 2.15 lists one group without a name: the one made last. It is the
        // entries' group if they name no other.
        named.or_else(|| {
            let mut entries = self.entries.iter();
            let is_only = entries.all(|other| other.group_name == entry.group_name);
            let nameless = self.groups.iter().find(|group| group.name.is_empty());
            if is_only { nameless } else { None }
        })
    }
}
