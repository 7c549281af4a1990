//! Reads profiles of XLA: what the profiler of JAX, TensorFlow and PyTorch/XLA writes.
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
//! | any device | `Steps` | steps, where the host marks none |
//! | any device | other lines, which are derived from those | counted |
//! | `/host:CPU` | calls with a correlation id | runtime calls, with their HLO ops around them |
//! | `/host:CPU` | ranges | CPU ops; of `StepTraceAnnotation` steps |
//! | `/host:CPU` | names that begin with `$` | frames of Python, on request |
//!
//! XLA counts picoseconds. A start and an end are each rounded down to a nanosecond, so that what
//! followed without a gap still does, and what was nested still is.
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

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct XlaReadOptions {
    /// Threads to use for JSON. A profile in protobuf is read by one.
    pub threads: usize,
    /// What to keep that no graph needs.
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

/// Why a profile could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source failed before anything could be read.
    #[error("reading stopped at byte {offset}: {source}")]
    Io {
        /// How many bytes had been read.
        offset: u64,
        /// What the source said.
        source: std::io::Error,
    },
    /// The JSON cannot be read.
    #[error(transparent)]
    Json(#[from] JsonReadError),
    /// No plane could be read.
    #[error(
        "no plane in it ({bytes} bytes read): not a profile of XLA, or cut inside its first \
         plane{}",
        advice(self.remedy())
    )]
    NoPlanes {
        /// Length of what was searched.
        bytes: u64,
    },
    /// A plane claims more than a message of protobuf can have.
    #[error("the plane at byte {offset} claims {claimed} bytes, more than the 2 GiB of a message")]
    PlaneTooLarge {
        /// Where it begins.
        offset: u64,
        /// What it claims.
        claimed: u64,
    },
    /// More rows than row numbers.
    #[error(
        "the trace has more than {limit} events of one kind, more than one link can hold",
        limit = u32::MAX - 1
    )]
    TooManyRows,
}

impl Error {
    /// What the user can do.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Error::NoPlanes { .. } => Some("copy it again from where it was recorded".to_owned()),
            Error::Io { .. }
            | Error::Json(_)
            | Error::PlaneTooLarge { .. }
            | Error::TooManyRows => None,
        }
    }
}

#[cfg(test)]
mod tests;
