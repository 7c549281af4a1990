//! Memory of each device, if `profile_memory` was on: allocations, and the peak.
//!
//! `allocated` is the memory held by tensors, `reserved` the memory that the allocator took from
//! the device, both by its counters (`Total Allocated`, `Total Reserved`). The CPU's allocator has
//! no counters: there, `allocated` is the sum of allocations minus frees since the recording began.
//! It can be negative, since memory allocated earlier is freed too.

use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::DeviceTrace;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::io::{self, Read};

/// Memory use of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryUse {
    /// `cpu`, `cuda`, `hip`, …
    #[borsh(deserialize_with = "read_device_type")]
    pub device_type: &'static str,
    /// Device number, -1 for the CPU.
    pub device: i64,
    /// Number of allocations.
    pub allocations: u64,
    /// Number of frees.
    pub frees: u64,
    /// Sum of all allocations, bytes.
    pub allocated_sum_bytes: i64,
    /// Memory allocated before the first event, bytes.
    pub start_bytes: i64,
    /// Memory allocated after the last event, bytes.
    pub end_bytes: i64,
    /// Peak of allocated memory, before the first event or after any event, bytes.
    pub peak_bytes: i64,
    /// First time of the peak, ns since the origin of the trace; the first event's time if the peak
    /// was before it.
    pub peak_ns: i64,
    /// Peak of reserved memory, bytes.
    pub peak_reserved_bytes: u64,
}

/// Allocated memory after an allocation or a free.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryPoint {
    /// Time of the event, ns since the origin of the trace.
    pub time_ns: i64,
    /// `cpu`, `cuda`, `hip`, …
    #[borsh(deserialize_with = "read_device_type")]
    pub device_type: &'static str,
    /// Device number, -1 for the CPU.
    pub device: i64,
    /// Bytes allocated or, if negative, freed.
    pub bytes: i64,
    /// Memory allocated after the event, bytes.
    pub allocated_bytes: i64,
    /// Memory reserved after the event, bytes.
    pub reserved_bytes: u64,
}

/// Name of memory rows for failed allocations.
pub(crate) const FAILED: &str = "[OutOfMemory]";

/// Device types by number, from `c10/core/DeviceType.h`.
const DEVICE_TYPES: [(i32, &str); 10] = [
    (0, "cpu"),
    (1, "cuda"),
    (6, "hip"),
    (8, "msnpu"),
    (9, "xla"),
    (12, "xpu"),
    (13, "mps"),
    (15, "hpu"),
    (19, "mtia"),
    (20, "privateuse"),
];

/// Returns the name of a device type, as `c10::DeviceType` numbers them.
pub fn device_type_name(device_type: i32) -> &'static str {
    let mut known = DEVICE_TYPES.iter();
    let known = known.find(|(number, _)| *number == device_type);
    known.map_or("other", |(_, name)| name)
}

/// Reads a stored device type name.
///
/// # Errors
/// Returns the reader's error.
pub fn read_device_type<R: Read>(reader: &mut R) -> io::Result<&'static str> {
    let stored = String::deserialize_reader(reader)?;
    let mut known = DEVICE_TYPES.iter();
    let known = known.find(|(_, name)| *name == stored);
    // a blank record has no device type
    let unknown = if stored.is_empty() { "" } else { "other" };
    Ok(known.map_or(unknown, |(_, name)| name))
}

/// Computes the memory use per device and, if `timeline` is set, all events. O(events + devices ·
/// log).
pub(crate) fn memory_use(
    device: &DeviceTrace,
    timeline: bool,
) -> (Vec<MemoryUse>, Vec<MemoryPoint>) {
    let mut all = IndexMap::<(&'static str, i64), MemoryUse, FxBuildHasher>::default();
    let mut points = vec![];
    for at in
        (0..device.memory.len()).filter(|at| device.names.get(device.memory.name[*at]) != FAILED)
    {
        let row = device.memory.row(at);
        let (kind, number) = (device_type_name(row.device_type), i64::from(row.device));
        let one = all.entry((kind, number)).or_insert_with(|| {
            // The counter is read after the event, so the memory allocated before is the counter
            // minus the event's bytes.
            let start = if row.allocated == 0 {
                0
            } else {
                signed_bytes(row.allocated).saturating_sub(row.bytes)
            };
            let (start_bytes, end_bytes, peak_bytes, peak_ns) = (start, start, start, row.time.0);
            MemoryUse {
                device_type: kind,
                device: number,
                start_bytes,
                end_bytes,
                peak_bytes,
                peak_ns,
                ..MemoryUse::default()
            }
        });
        // Allocators without counters, such as the CPU's, write both as 0.
        let counted = row.allocated > 0 || row.reserved > 0;
        one.end_bytes = if counted {
            signed_bytes(row.allocated)
        } else {
            one.end_bytes.saturating_add(row.bytes)
        };
        one.allocations += u64::from(row.bytes > 0);
        one.frees += u64::from(row.bytes < 0);
        one.allocated_sum_bytes = one.allocated_sum_bytes.saturating_add(row.bytes.max(0));
        one.peak_reserved_bytes = one.peak_reserved_bytes.max(row.reserved);
        if one.end_bytes > one.peak_bytes {
            (one.peak_bytes, one.peak_ns) = (one.end_bytes, row.time.0);
        }
        if timeline {
            let (allocated_bytes, reserved_bytes) = (one.end_bytes, row.reserved);
            points.push(MemoryPoint {
                time_ns: row.time.0,
                device_type: kind,
                device: number,
                bytes: row.bytes,
                allocated_bytes,
                reserved_bytes,
            });
        }
    }
    // Devices are in the order of their first event, which differs between ranks.
    all.sort_unstable_keys();
    (all.into_values().collect(), points)
}

fn signed_bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
