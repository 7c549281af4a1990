//! Writes events of a recorder as Kineto does, event by event; the only encoder of this format.
//!
//! Layout and white space match Kineto's (`libkineto/src/output_json.cpp`), per PyTorch version.

mod arguments;
mod writer;

pub use arguments::EventArguments;
pub use writer::{CompleteEvent, FlowEvent, KinetoHeader, KinetoWriter, TrackKey};

/// Layouts of Kineto's file, oldest first, named after the first PyTorch release known to use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KinetoVersion {
    /// 1.8 to 1.12: whole microseconds since the Unix epoch, no metadata around the events,
    /// categories `Kernel`, `Runtime`, `Operator`.
    Torch1_8,
    /// 2.0 to 2.3: whole microseconds since the Unix epoch, today's categories.
    Torch2_0,
    /// 2.4 to 2.8: nanoseconds, and the time base after the events.
    Torch2_4,
    /// 2.9 and 2.10: the time base before the events.
    #[default]
    Torch2_9,
    /// 2.15: one line per key.
    Torch2_15,
}

impl KinetoVersion {
    /// Returns true if times are whole microseconds since the Unix epoch, without a base.
    pub fn has_whole_micros(self) -> bool {
        self < KinetoVersion::Torch2_4
    }
}

/// Options for writing.
#[derive(Clone, Copy, Debug, Default)]
pub struct KinetoWriteOptions {
    /// Layout of the file.
    pub version: KinetoVersion,
    /// Writes names unescaped and negative times as C++ prints them, `-1.-500`. Kineto does so, and
    /// such a file is not JSON. Otherwise names are escaped and times are numbers.
    pub verbatim: bool,
}
