//! Detects the writer of a Perfetto trace, which decides if it can be read back.

use crate::pftrace::packets::PacketReader;
use crate::pftrace::schema::{BuiltinClock, TracePacket};
use crate::pftrace::words;
use std::io::ErrorKind;

/// Origin of a file that begins like a Perfetto trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfettoOrigin {
    /// Written by etlink, with all recorded data.
    Recorded,
    /// Written by etlink without the data for reading back: from a replay, or from a recording that
    /// is not a Kineto trace.
    ViewAlone,
    /// Written by another version of etlink, with another layout.
    OtherLayout,
    /// Written by etlink for several ranks, with times moved to a common clock.
    SeveralRanks,
    /// Written by PyTorch's own CUPTI collector (2.15, `torch/profiler/_cuspy`).
    Torch,
    /// Written by another program.
    Foreign,
}

/// Number of packets to examine: etlink's files identify themselves in fewer before the first
/// range.
const FIRST_PACKETS: usize = 16;

/// Detects the origin of a file by its head; `None` if it is not a Perfetto trace.
pub fn perfetto_origin(head: &[u8]) -> Option<PerfettoOrigin> {
    let mut packets = PacketReader::new(head);
    let mut is_perfetto = false;
    let mut is_torch = false;
    let mut facts = vec![];
    for number in 0..FIRST_PACKETS {
        let packet = match packets.next_packet() {
            Ok(Some((_, packet))) => packet,
            // Other formats may seem to contain one packet, but hardly two.
            Err(error) if number < 2 && error.kind() == ErrorKind::InvalidData => return None,
            Ok(None) | Err(_) => break,
        };
        is_perfetto |= has_known_field(&packet);
        is_torch |= number == 0 && is_torch_clock(&packet);
        let bundle = packet.chrome_events.unwrap_or_default();
        for entry in bundle.metadata {
            facts.push((entry.name.unwrap_or_default(), entry.string_value));
        }
    }
    let fact = |key: &str| {
        let entry = facts.iter().find(|(name, _)| name == key);
        entry.and_then(|(_, value)| value.as_deref())
    };
    let is_ours = fact(words::WRITTEN_BY).is_some_and(|by| by.starts_with("etlink "));
    if !is_perfetto {
        return None;
    }
    Some(match (is_ours, fact(words::LAYOUT)) {
        (false, _) if is_torch => PerfettoOrigin::Torch,
        (false, _) => PerfettoOrigin::Foreign,
        (true, _) if fact("ranks").is_some() => PerfettoOrigin::SeveralRanks,
        (true, Some(words::LAYOUT_VERSION)) => PerfettoOrigin::Recorded,
        (true, Some(_)) => PerfettoOrigin::OtherLayout,
        (true, None) => PerfettoOrigin::ViewAlone,
    })
}

/// Returns true if the packet is the first of a PyTorch trace: times are Unix times, so both clocks
/// show the same one (`cuspyEncodePftrace` in `torch/csrc/profiler/cuspy/cuspy_pftrace.cpp`). In
/// traces of Perfetto's own recorder clocks start at boot.
fn is_torch_clock(packet: &TracePacket) -> bool {
    let Some(snapshot) = &packet.clock_snapshot else {
        return false;
    };
    let [boot, real] = &snapshot.clocks[..] else {
        return false;
    };
    boot.clock_id() == BuiltinClock::Boottime as u32
        && real.clock_id() == BuiltinClock::Realtime as u32
        && packet.timestamp.is_some()
        && boot.timestamp == packet.timestamp
        && real.timestamp == packet.timestamp
}

/// Returns true if a packet has a known field of Perfetto's: unknown fields are skipped, so bytes
/// of another format may look like an empty packet.
fn has_known_field(packet: &TracePacket) -> bool {
    packet.clock_snapshot.is_some()
        || packet.track_descriptor.is_some()
        || packet.track_event.is_some()
        || packet.chrome_events.is_some()
        || packet.trusted_packet_sequence_id.is_some()
}
