//! Reads dumps of PyTorch's flight recorder, and matches their entries with the ops of a trace.
//!
//! The flight recorder keeps the last collectives of each rank (`TORCH_FR_BUFFER_SIZE`,
//! `TORCH_NCCL_TRACE_BUFFER_SIZE`). If a collective takes too long, NCCL's watchdog dumps it to
//! `nccl_trace_rank_<rank>`. Programs obtain a dump by
//! `torch._C._distributed_c10d._dump_fr_trace()` or `_dump_fr_trace_json()`. Source:
//! `torch/csrc/distributed/c10d/FlightRecorderDetail.hpp`.
//!
//! ```
//! let text = br#"{"version": "2.10", "entries": [{"process_group": ["0", "default_pg"],
//!     "collective_seq_id": 7, "profiling_name": "gloo:all_reduce", "time_created_ns": 5,
//!     "input_sizes": [[10]], "input_dtypes": ["Float"], "state": "scheduled"}]}"#;
//! let dump = etlink_formats::flight_recorder::read(&text[..])?;
//! assert_eq!(dump.entries[0].number, 7);
//! assert_eq!(dump.entries[0].in_elements, 10);
//! # Ok::<(), etlink_model::Failure>(())
//! ```

mod dump;
mod entries;
mod json;
mod pairing;

#[cfg(test)]
mod tests;

pub use dump::{FlightDump, FlightEntry, FlightGroup, FlightState};
pub use pairing::{FlightMatches, add_collectives};

use crate::pickle::{PickleLimits, first_key, is_pickle, read_pickle};
use etlink_model::Failure;
use std::io::Read;

/// Maximum file size. The recorder keeps a fixed number of entries of some hundred bytes: dumps of
/// 10,000 entries with their Python stacks have 20 MB.
pub const MAX_DUMP_BYTES: u64 = 64 << 20;

/// Maximum number of values, and of names of values; each takes up to 54 bytes. PyTorch's dumps
/// have one per two to four bytes: 60 per entry, and ten per frame of its stack.
pub const MAX_DUMP_VALUES: u64 = 10_000_000;

/// Maximum number of invalid entries: beyond it, the list is something else.
const MAX_BAD_ENTRIES: u64 = 1_000;

const LIMITS: PickleLimits = PickleLimits {
    wanted: "a dump of PyTorch's flight recorder (_dump_fr_trace, nccl_trace_rank_0)",
    max_bytes: MAX_DUMP_BYTES,
    max_values: MAX_DUMP_VALUES,
    smaller: "record it again with a smaller TORCH_FR_BUFFER_SIZE",
};

fn no_entries(bytes: u64) -> Failure {
    LIMITS.wrong_file(format!("no \"entries\" list found ({bytes} bytes read)"))
}

/// Returns true if a file with this head is a dump: the pickle of a dict whose first key belongs to
/// a dump, or JSON with the keys of a dump.
pub fn is_flight_dump(head: &[u8]) -> bool {
    let has = |key: &[u8]| memchr::memmem::find(head, key).is_some();
    if is_pickle(head) {
        // Other pickles, such as snapshots of CUDA's memory, can contain these words in any text.
        // `version` or `entries` is the first key in all versions; the order of the others varies.
        return match first_key(head) {
            Some(b"entries") => true,
            Some(b"version") => has(b"entries") || has(b"pg_config") || has(b"profiling_name"),
            _ => false,
        };
    }
    let is_json = head.trim_ascii_start().first() == Some(&b'{');
    is_json && has(b"\"profiling_name\"") && has(b"\"time_created_ns\"")
        || is_json && has(b"\"pg_config\"") && has(b"\"pg_status\"") && has(b"\"entries\"")
}

/// Reads a dump, pickle or JSON. O(bytes) in time and memory, up to [`MAX_DUMP_VALUES`].
///
/// # Errors
/// The source fails, it has more bytes or values than a dump, it is not a dump, or it is a pickle
/// that would call code. A truncated dump is not an error: see [`FlightDump::anomalies`].
pub fn read(source: impl Read) -> Result<FlightDump, Failure> {
    let (bytes, source_error) = LIMITS.read_bytes(source)?;
    let offset = bytes.len() as u64;
    let tree = match bytes.trim_ascii_start().first() {
        Some(b'{') => json::read_json(&bytes)?,
        _ => read_pickle(&bytes, &LIMITS)?,
    };
    entries::dump_from_tree(&tree, offset, source_error)
}
