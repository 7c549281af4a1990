//! Reads what ROCm's `rocprofv3` writes.
//!
//! ```text
//! *_results.json   lists of records, one element at a time ──┐
//!                                                            ├─> records ─> DeviceTrace
//! *_results.db     rocpd, the tables of a database ──────────┘
//! ```
//! | recorded | becomes |
//! |---|---|
//! | kernel dispatches | kernels on a HIP stream; on a queue where no stream is known |
//! | copies | copies on their stream, with their bytes |
//! | calls of HIP and HSA | runtime calls, joined with those by the internal correlation id |
//! | ranges of ROCTx | annotations |
//! | calls of RCCL | ops around what they launch |
//!
//! A grid counts work items in ROCm, blocks in [`DeviceRow`](etlink_model::DeviceRow): it is divided
//! by the workgroup. Times count from the machine's start, so that the trace has no time of day.
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

/// Why a recording of ROCm could not be read.
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
    /// It is no JSON of rocprofv3.
    #[error(
        "no list \"rocprofiler-sdk-tool\" in it ({bytes} bytes read): not what rocprofv3 writes, or \
         cut before it{}",
        advice(self.remedy())
    )]
    NoTool {
        /// Length of what was searched.
        bytes: u64,
    },
    /// One record is larger than any is.
    #[error("the record that begins at byte {offset} is larger than 64 MiB, which none is")]
    TooLarge {
        /// Where it begins.
        offset: u64,
    },
    /// The database cannot be read.
    #[error(transparent)]
    Sqlite(#[from] etlink_sqlite::Error),
    /// More than one process has work on devices.
    #[error(
        "{} processes in it have work on devices (process ids {}), and a trace is of one{}",
        pids.len(),
        listed(pids),
        advice(self.remedy())
    )]
    SeveralProcesses {
        /// Their ids.
        pids: Vec<i64>,
    },
    /// No such process is in it.
    #[error("the process that is wanted has no tables in it")]
    NoProcess,
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
            Error::NoTool { .. } => Some("record it with --output-format json".to_owned()),
            Error::SeveralProcesses { .. } => {
                let remedy = "give the file of each process, which rocprofv3 writes (%pid%), or \
                              the folder of a database to `etlink merge`";
                Some(remedy.to_owned())
            }
            Error::Sqlite(error) => error.remedy(),
            Error::Io { .. } | Error::TooLarge { .. } | Error::NoProcess | Error::TooManyRows => {
                None
            }
        }
    }
}

/// Process ids with commas between them, the first ones where there are many.
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
