//! Reads profiles of XLA, as written by the profiler of JAX, TensorFlow and PyTorch/XLA.
//!
//! ```text
//! *.xplane.pb       XSpace, one plane at a time ──┐
//!                                                 ├─> tracks and events ─> DeviceTrace
//! *.trace.json.gz   Chrome JSON made of it ───────┘
//! ```
//! A plane is a device or the host. Its lines are streams, threads, or overviews that the profiler
//! derived from others. Each piece of device work becomes one row:
//!
//! | plane | line | becomes |
//! |---|---|---|
//! | `/device:GPU:0` | `Stream #7(Kernel,…)` | device rows of stream 7, by the kernels' names |
//! | `/device:TPU:0` | `XLA Ops`, `Async XLA Ops` | device rows, by the names of HLO ops |
//! | any device | `XLA Modules` | annotations of the device, on request |
//! | any device | `Steps` | steps, if the host marks none |
//! | any device | other lines, which are derived from these | counted |
//! | `/host:CPU` | calls with a correlation id | runtime calls, with their HLO ops around them |
//! | `/host:CPU` | ranges | CPU ops; of `StepTraceAnnotation` steps |
//! | `/host:CPU` | names that begin with `$` | frames of Python, on request |
//!
//! XLA counts picoseconds. Start and end are each rounded down to a nanosecond, so adjacent events
//! stay adjacent and nested events stay nested.
//!
//! Messages: `xla/tsl/profiler/protobuf/xplane.proto`; names of planes, lines and stats:
//! `xla/tsl/profiler/utils/xplane_schema.cc` of OpenXLA.

mod assemble;
mod event;
mod hlo;
mod json;
mod sniff;
mod space;
mod track;
mod wire;

pub use json::read_trace_json;
pub use sniff::{is_xla_json, is_xla_space};
pub use space::read_space;

use crate::SoughtData;
use etlink_model::KeepEvents;

/// Options of the readers.
#[derive(Clone, Copy, Debug)]
pub struct XlaReadOptions {
    /// Threads for reading JSON. A protobuf profile is read by a single thread.
    pub threads: usize,
    /// Events to keep although no graph needs them.
    pub keep: KeepEvents,
}

impl Default for XlaReadOptions {
    fn default() -> Self {
        XlaReadOptions {
            threads: 1,
            keep: KeepEvents::Graph,
        }
    }
}

/// The planes of a profile.
const PLANES: SoughtData = SoughtData {
    data: "plane",
    meaning: "not a profile of XLA, or truncated inside its first plane",
    remedy: "copy it again from its origin",
};

#[cfg(test)]
mod tests;
