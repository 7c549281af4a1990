//! Reads and writes what recorders and profilers write, with a module for each.
//!
//! ```text
//! bytes, database ─ reader of its format ─> HostTrace, DeviceTrace, or the format's own type
//! HostTrace, DeviceTrace ─ writer ─> bytes
//! ```
//! No module opens a file, and none knows the linker. Readers repair or skip damaged data, and count
//! every case ([`etlink_model::Anomalies`]).

mod error;
pub mod flight_recorder;
pub mod host;
pub mod kineto;
pub mod memory_snapshot;
pub mod metrics;
pub mod nccl_inspector;
#[cfg(feature = "nsys")]
pub mod nsys;
pub mod pickle;
#[cfg(feature = "rocm")]
pub mod rocm;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod xla;

pub use error::{Error, SoughtData};
