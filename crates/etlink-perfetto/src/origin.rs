//! Who wrote a Perfetto trace, and whether it can be read back.

use crate::packets::PacketReader;
use crate::schema::{BuiltinClock, TracePacket};
use crate::words;
use std::io::ErrorKind;

/// What a file is that begins like a Perfetto trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfettoOrigin {
    /// etlink wrote it, with all that the recording has.
    Recorded,
    /// etlink wrote it without what reading back needs: of a replay, or of a recording that is no
    /// trace of Kineto.
    ViewAlone,
    /// Another version of etlink wrote it, with another layout.
    OtherLayout,
    /// etlink wrote it of several ranks, whose times it moved to one clock.
    SeveralRanks,
    /// PyTorch's own CUPTI collector wrote it (2.15, `torch/profiler/_cuspy`).
    Torch,
    /// Another program wrote it.
    Foreign,
}

/// No file of etlink has more packets before its first range than are needed to know it.
const FIRST_PACKETS: usize = 16;

/// What a file is by its beginning; `None` for what is no Perfetto trace.
pub fn perfetto_origin(head: &[u8]) -> Option<PerfettoOrigin> {
    let mut packets = PacketReader::new(head);
    let mut is_perfetto = false;
    let mut is_torch = false;
    let mut facts = vec![];
    for number in 0..FIRST_PACKETS {
        let packet = match packets.next_packet() {
            Ok(Some((_, packet))) => packet,
            // Another format can seem to have one packet, hardly two.
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

/// Whether a packet is the first of PyTorch's: its times are Unix times, and so both clocks show one
/// (`cuspyEncodePftrace` in `torch/csrc/profiler/cuspy/cuspy_pftrace.cpp`). Perfetto's own recorder
/// has clocks that began when the machine did.
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

/// Whether a packet has a field of Perfetto's: unknown fields are stepped over, so that bytes of
/// another format may seem to be a packet with nothing in it.
fn has_known_field(packet: &TracePacket) -> bool {
    packet.clock_snapshot.is_some()
        || packet.track_descriptor.is_some()
        || packet.track_event.is_some()
        || packet.chrome_events.is_some()
        || packet.trusted_packet_sequence_id.is_some()
}
