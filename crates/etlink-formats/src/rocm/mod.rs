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
pub use rocpd::{
    RocpdProcess, RocpdReadOptions, is_rocpd, read_rocpd, rocpd_processes, rocpd_row_count,
};

use etlink_model::advice;

/// Reason why a recording of ROCm could not be read.
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
    /// The input is not JSON of rocprofv3.
    #[error(
        "no \"rocprofiler-sdk-tool\" list found ({bytes} bytes read): not a recording of rocprofv3, or \
         truncated before the list{}",
        advice(self.remedy())
    )]
    NoTool {
        /// Bytes searched.
        bytes: u64,
    },
    /// One record is larger than any real one.
    #[error("the record at byte {offset} is larger than 64 MiB, the limit for a record")]
    TooLarge {
        /// Offset of the record.
        offset: u64,
    },
    /// The database could not be read.
    #[error(transparent)]
    Sqlite(#[from] crate::sqlite::Error),
    /// More than one process has work on devices.
    #[error(
        "{} processes have device work (process ids {}), but a trace has one process{}",
        pids.len(),
        listed(pids),
        advice(self.remedy())
    )]
    SeveralProcesses {
        /// Process ids of those processes.
        pids: Vec<i64>,
    },
    /// The requested process is not in the database.
    #[error("the database has no tables of the requested process")]
    NoProcess,
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
            Error::NoTool { .. } => Some("record it with --output-format json".to_owned()),
            Error::SeveralProcesses { .. } => {
                let remedy = "give one file per process (%pid% in the output name of rocprofv3), or \
                              give the folder of the database to `etlink merge`";
                Some(remedy.to_owned())
            }
            Error::Sqlite(error) => error.remedy(),
            Error::Io { .. } | Error::TooLarge { .. } | Error::NoProcess | Error::TooManyRows => {
                None
            }
        }
    }
}

/// Lists process ids separated by commas, truncated if there are many.
fn listed(pids: &[i64]) -> String {
    const MOST: usize = 16;
    let mut shown: Vec<String> = pids.iter().take(MOST).map(i64::to_string).collect();
    if pids.len() > MOST {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests;
