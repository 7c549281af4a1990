//! What is done with a rank, and what memory that takes.

use etlink_model::{DeviceTrace, HostTrace};

/// What is done with each rank once it is read. Some work takes several times what linking takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankOperation {
    /// It is linked.
    #[default]
    Link,
    /// Its graph is written.
    Write,
    /// All its events are written for a viewer.
    Timeline,
    /// Its ops are summed up.
    Top,
    /// Its tables are made.
    Analyze,
    /// Its causes of lost time are looked for.
    Findings,
    /// Its graph is replayed.
    Replay,
    /// It is drawn on a page.
    Report,
}

/// What a replay takes of any graph: 27,000 events with few names took 30 MB more than linking them.
const REPLAY_BYTES: u64 = 30_000_000;

impl RankOperation {
    /// Bytes for each event, and for each different name.
    ///
    /// Peak RSS of each command with one thread, on 215,502 events of 168 bytes each (the device
    /// trace of an A100 with the keys that are linked, repeated eight times), of which all have few
    /// names or each has its own; and an eighth. To be measured anew when columns or tables change.
    fn costs(self) -> (u64, u64) {
        match self {
            RankOperation::Link => (220, 200),
            RankOperation::Write => (285, 220),
            RankOperation::Timeline => (660, 220),
            RankOperation::Top => (250, 500),
            RankOperation::Analyze => (480, 690),
            RankOperation::Findings => (480, 690),
            RankOperation::Replay => (480, 220),
            RankOperation::Report => (700, 1300),
        }
    }

    /// What the traces of a rank take at most until the work is done, bytes.
    pub(crate) fn bytes(self, host: Option<&HostTrace>, device: &DeviceTrace) -> u64 {
        let (_, per_name) = self.costs();
        let host_events = host.map_or(0, |host| host.nodes.len());
        let host_names = host.map_or(0, |host| host.names.count());
        let events = device_events(device) + host_events;
        let names = device.names.count() + host_names;
        let names = (names as u64).saturating_mul(per_name);
        self.bytes_of_events(events as u64).saturating_add(names)
    }

    /// What so many events take at most, with few names, bytes.
    pub(crate) fn bytes_of_events(self, events: u64) -> u64 {
        let (per_event, _) = self.costs();
        let fixed = match self {
            RankOperation::Replay => REPLAY_BYTES,
            _ => 0,
        };
        events.saturating_mul(per_event).saturating_add(fixed)
    }
}

fn device_events(device: &DeviceTrace) -> usize {
    let graph_events = device.ops.len() + device.calls.len() + device.rows.len();
    graph_events + device.syncs.len() + device.auxiliary.len() + device.memory.len()
}
