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

use etlink_json::JsonReadError;
use etlink_model::{KeepEvents, advice};

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

/// Reason why a profile could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source failed before anything could be read.
    #[error("reading stopped at byte {offset}: {source}")]
    Io {
        /// Bytes read before the failure.
        offset: u64,
        /// Error of the source.
        source: std::io::Error,
    },
    /// The JSON could not be read.
    #[error(transparent)]
    Json(#[from] JsonReadError),
    /// No plane could be read.
    #[error(
        "no plane found ({bytes} bytes read): not a profile of XLA, or truncated inside its first \
         plane{}",
        advice(self.remedy())
    )]
    NoPlanes {
        /// Bytes searched.
        bytes: u64,
    },
    /// A plane claims more bytes than a protobuf message can have.
    #[error(
        "the plane at byte {offset} claims {claimed} bytes, more than the message limit of 2 GiB"
    )]
    PlaneTooLarge {
        /// Offset of the plane.
        offset: u64,
        /// Claimed size, bytes.
        claimed: u64,
    },
    /// One kind of event exceeds the range of row numbers.
    #[error(
        "the trace has too many events of one kind (the limit is {limit})",
        limit = u32::MAX - 1
    )]
    TooManyRows,
}

impl Error {
    /// Returns advice for the user; `None` if there is none.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Error::NoPlanes { .. } => Some("copy it again from its origin".to_owned()),
            Error::Io { .. }
            | Error::Json(_)
            | Error::PlaneTooLarge { .. }
            | Error::TooManyRows => None,
        }
    }
}

#[cfg(test)]
mod tests;
