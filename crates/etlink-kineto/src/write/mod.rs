//! Writes device traces as Kineto does: the one encoder of this format.
//!
//! ```text
//! DeviceTrace ─ write ────────────┐
//! events of a recorder, a test ───┴─ KinetoWriter ─> JSON text, event by event
//! ```
//! Layout and white space are those of Kineto (`libkineto/src/output_json.cpp`), per version of
//! PyTorch that carries it.

mod arguments;
mod trace;
mod writer;

pub use arguments::EventArguments;
pub use trace::write;
pub use writer::{CompleteEvent, FlowEvent, KinetoHeader, KinetoWriter, TrackKey};

/// A layout of Kineto's file, oldest first, by the first PyTorch release that is known to have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KinetoVersion {
    /// 1.8 to 1.12: whole microseconds since the Unix epoch, nothing around the events,
    /// categories `Kernel`, `Runtime`, `Operator`.
    Torch1_8,
    /// 2.0 to 2.3: whole microseconds since the Unix epoch, today's categories.
    Torch2_0,
    /// 2.4 to 2.8: nanoseconds, and the time base behind the events.
    Torch2_4,
    /// 2.9 and 2.10: the time base before the events.
    #[default]
    Torch2_9,
    /// 2.15: a line for each key.
    Torch2_15,
}

impl KinetoVersion {
    /// All of them, oldest first.
    pub const ALL: [KinetoVersion; 5] = [
        KinetoVersion::Torch1_8,
        KinetoVersion::Torch2_0,
        KinetoVersion::Torch2_4,
        KinetoVersion::Torch2_9,
        KinetoVersion::Torch2_15,
    ];

    /// Whether times are whole microseconds since the Unix epoch, without a base.
    pub fn has_whole_micros(self) -> bool {
        self < KinetoVersion::Torch2_4
    }
}

/// How to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct KinetoWriteOptions {
    /// The layout.
    pub version: KinetoVersion,
    /// Leaves names as they are and writes negative times as C++ prints them, `-1.-500`. Kineto
    /// does so, and such a file is no JSON. Otherwise names are escaped and times are numbers.
    pub verbatim: bool,
}
