//! Kinds of work on a rank, and the memory that they take.

use crate::overhead::Overhead;
use etlink_model::{DeviceTrace, HostTrace};

/// Work on each rank after reading. Some kinds take several times the memory of linking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankOperation {
    /// Links the rank.
    #[default]
    Link,
    /// Writes the graph.
    Write,
    /// Writes all events for a viewer.
    Timeline,
    /// Sums up the ops.
    Top,
    /// Computes the tables.
    Analyze,
    /// Finds causes of lost time.
    Findings,
    /// Replays the graph.
    Replay,
    /// Draws the rank on a page.
    Report,
}

/// Memory of a replay of any graph, bytes: 27,000 events with few names took 30 MB more than
/// linking.
const REPLAY_BYTES: u64 = 30_000_000;

impl RankOperation {
    /// Returns the treatment of the overhead of recording, unless the user asks for another:
    /// analyses are about the program, exports about its recording.
    pub(crate) fn default_overhead(self) -> Overhead {
        use RankOperation::{Analyze, Findings, Replay, Report};
        if matches!(self, Analyze | Findings | Replay | Report) {
            Overhead::IfSlowed
        } else {
            Overhead::Keep
        }
    }

    /// Returns the bytes per event, and per distinct name.
    ///
    /// Measured: peak RSS of each command with one thread, on 215,502 events of 168 bytes each (the
    /// device trace of an A100 with the keys used for linking, repeated eight times), with few
    /// names or a name per event. The figures add one eighth. Measure again when columns or tables
    /// change.
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

    /// Returns the peak memory of a rank's traces until the work is done, bytes.
    pub(crate) fn bytes(self, host: Option<&HostTrace>, device: &DeviceTrace) -> u64 {
        let (_, per_name) = self.costs();
        let host_events = host.map_or(0, |host| host.nodes.len());
        let host_names = host.map_or(0, |host| host.names.count());
        let events = device_events(device) + host_events;
        let names = device.names.count() + host_names;
        let names = (names as u64).saturating_mul(per_name);
        self.bytes_of_events(events as u64).saturating_add(names)
    }

    /// Returns the peak memory of `events` events with few names, bytes.
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
