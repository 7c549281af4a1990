//! Reads the output of ROCm's `rocprofv3`.
//!
//! ```text
//! *_results.json   lists of records, one element at a time ──┐
//!                                                            ├─> records ─> DeviceTrace
//! *_results.db     rocpd, the tables of a database ──────────┘
//! ```
//! | recorded | becomes |
//! |---|---|
//! | kernel dispatches | kernels on a HIP stream; on a queue if the stream is unknown |
//! | copies | copies on their stream, with their bytes |
//! | calls of HIP and HSA | runtime calls, joined with those by the internal correlation id |
//! | ranges of ROCTx | annotations |
//! | calls of RCCL | ops around what they launch |
//!
//! A grid counts work items in ROCm, but blocks in [`DeviceRow`](etlink_model::DeviceRow), so it is
//! divided by the workgroup. Times count from the machine's boot, so the trace has no time of day.
//!
//! Formats: `source/lib/output/generateJSON.cpp` and `source/share/rocprofiler-sdk-rocpd` of
//! [rocprofiler-sdk](https://github.com/ROCm/rocm-systems).

mod assemble;
mod json;
mod json_stream;
mod operations;
mod record;
mod rocpd;

pub use json::read_rocprof_json;
pub use rocpd::{RocpdProcess, is_rocpd, read_rocpd, rocpd_processes, rocpd_row_count};

use crate::SoughtData;

/// The list of processes in JSON.
const TOOL: SoughtData = SoughtData {
    data: "\"rocprofiler-sdk-tool\" list",
    meaning: "not a recording of rocprofv3, or truncated before the list",
    remedy: "record it with --output-format json",
};

#[cfg(test)]
mod tests;
