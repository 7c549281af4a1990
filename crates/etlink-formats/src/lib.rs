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

use etlink_json::ReadDamage;
use etlink_model::{Anomalies, AnomalyKind};

pub use error::{Error, SoughtData};

/// Counts the damage of a JSON document of `bytes` bytes.
fn note_damage(anomalies: &mut Anomalies, bytes: u64, damage: ReadDamage) {
    let place = damage.first_offset.map(|at| format!("byte {at}"));
    let end = Some(format!("byte {bytes}"));
    let ended = u64::from(damage.source_error.is_some());
    anomalies.add(AnomalyKind::Truncated, u64::from(damage.truncated), end);
    anomalies.add(AnomalyKind::SourceEnded, ended, damage.source_error);
    anomalies.add(AnomalyKind::Repaired, damage.repaired, place.clone());
    anomalies.add(AnomalyKind::Skipped, damage.skipped, place);
    anomalies.add(AnomalyKind::NotAnObject, damage.not_objects, None);
}
