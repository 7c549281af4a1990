//! Reads exports of NVIDIA Nsight Systems as device traces: SQLite files written by
//! `nsys export --type sqlite`, of schema 2 (2020 to 2022) and 3.
//!
//! ```text
//! open connection -> processes -> read one of them: rows -> DeviceTrace, sorted by time
//! ```
//! A table exists only if something was recorded for it, and columns differ between versions. Both
//! are looked up, and missing ones read as absent. Rows are streamed, so memory is limited to the
//! kept columns. Sampling, context switches and calls of the C library, which make up most of a
//! large report, are not read.
//!
//! A report can hold several processes, each with its own correlation ids from 1. A device trace
//! therefore covers one process: see [`processes`].
//!
//! Names are written as in Kineto, because the linker depends on them: `cudaLaunchKernel` for
//! `cudaLaunchKernel_v7000`, `Memcpy HtoD (Pageable -> Device)`, `Stream Wait Event`. Ranges of
//! `torch.autograd.profiler.emit_nvtx` become ops with their sequence number, handle and shapes.
//! NCCL and MPI ranges become ops that communicate. All other NVTX ranges become annotations.
//!
//! Source of tables and columns: <https://docs.nvidia.com/nsight-systems/UserGuide/>, "SQLite
//! Schema Reference", and exports of schema 2.9 and 3.13.

mod calls;
mod comms;
mod emitted;
mod global_pid;
mod groups;
mod halves;
mod header;
mod metrics;
mod mpi;
mod names;
mod nvtx;
mod payload;
mod process;
mod ranks;
mod rows;
mod strings;
mod syncs;
#[cfg(test)]
mod tests;
mod times;

pub use global_pid::GlobalPid;
pub use process::{NsysProcess, processes};
pub use ranks::{ProcessRank, RankSource};

use crate::Error;
use crate::sqlite::{RowFilter, SqliteTables};
use etlink_model::{DeviceTrace, DeviceTraceAssembler, Failure, KeepEvents};
use halves::{ExportParts, append_work};
use metrics::fill_details;
use process::list_processes;
use rusqlite::Connection;
use strings::StringTable;
use times::close_open_ranges;

/// Options for reading an export.
#[derive(Clone, Copy, Debug, Default)]
pub struct NsysReadOptions {
    /// Process to read; `None` selects the only one with device work.
    pub process: Option<GlobalPid>,
    /// Events to keep that no graph needs. [`KeepEvents::Everything`] includes GPU metrics as
    /// counters.
    pub keep: KeepEvents,
}

/// Returns true if a database is an export of Nsight Systems, judged by its tables.
pub fn is_export(tables: &SqliteTables) -> bool {
    let has = |name: &str| tables.table(name).is_some();
    // `EXPORT_META_DATA` until 2022, `META_DATA_EXPORT` since; other tools drop both.
    has("StringIds")
        && (has("META_DATA_EXPORT")
            || has("EXPORT_META_DATA")
            || has("NVTX_EVENTS")
            || tables
                .iter()
                .any(|table| table.name.starts_with("CUPTI_ACTIVITY_KIND_")))
}

/// Tables that a trace is read from, by their names in the schema.
const READ_TABLES: [&str; 12] = [
    rows::KERNELS,
    rows::COPIES,
    rows::SETS,
    rows::GRAPHS,
    calls::CALLS,
    syncs::SYNCS,
    syncs::EVENTS,
    nvtx::RANGES,
    mpi::COLLECTIVES,
    mpi::MESSAGES,
    mpi::WAITS,
    mpi::OTHERS,
];

/// Returns the tables of an export.
pub(crate) fn export_tables(connection: &Connection) -> Result<SqliteTables, Error> {
    let tables = SqliteTables::probe(connection)?;
    if is_export(&tables) {
        Ok(tables)
    } else {
        let problem = "an SQLite database, but not an export of Nsight Systems: it lacks the table \
                       StringIds or tables of events";
        let remedy = "export the report with `nsys export --type sqlite`, which writes all tables";
        Err(Failure::new(problem).advise(remedy).into())
    }
}

/// Counts the rows of all tables that a trace is read from, to estimate its memory. O(tables · log
/// rows).
///
/// # Errors
/// The database is locked or is not an export of Nsight Systems.
pub fn row_count(connection: &Connection) -> Result<u64, Error> {
    let tables = export_tables(connection)?;
    let read = READ_TABLES.iter().filter_map(|name| tables.table(name));
    let mut rows = 0u64;
    for table in read {
        rows = rows.saturating_add(table.last_row(connection)?.unwrap_or(0));
    }
    Ok(rows)
}

/// Reads the trace of one process. O(n log n) for the final sort, else linear.
///
/// Damage inside tables is not an error: see [`DeviceTrace::anomalies`].
///
/// # Errors
/// The database is locked or is not an export of Nsight Systems, the wanted process is missing, or
/// none is wanted although several have device work.
pub fn read(connection: &Connection, options: NsysReadOptions) -> Result<DeviceTrace, Error> {
    read_with(connection, None, options)
}

/// Like [`read`], with a second connection to the same database that reads half of it concurrently.
/// The trace is the same.
///
/// # Errors
/// The same errors as [`read`].
pub fn read_with(
    connection: &Connection,
    second: Option<Connection>,
    options: NsysReadOptions,
) -> Result<DeviceTrace, Error> {
    let tables = export_tables(connection)?;
    let all = list_processes(connection, &tables)?;
    let process_count = all.len();
    let process = choose_process(all, options.process)?;
    let parts = ExportParts {
        tables: &tables,
        process: process.as_ref(),
        process_count,
        options,
    };
    let (ranges, work) = match second {
        None => (parts.read_ranges(connection), parts.read_work(connection)),
        Some(second) => std::thread::scope(|scope| {
            let thread = std::thread::Builder::new();
            let reading = thread.spawn_scoped(scope, move || parts.read_work(&second));
            let ranges = parts.read_ranges(connection);
            let work = match reading {
                Ok(reading) => reading.join().unwrap_or_else(|_| {
                    Err(Failure::new("a thread of the reader ended without a result").into())
                }),
                // a limit of the process: read one half after the other
                Err(_) => parts.read_work(connection),
            };
            (ranges, work)
        }),
    };
    let mut assembler = ranges?;
    append_work(&mut assembler, work?);
    close_open_ranges(&mut assembler.trace);
    fill_details(&mut assembler.trace);
    let mut trace = assembler.finish().ok_or(Error::TooManyRows)?;
    trace.bytes = tables.bytes;
    trace.anomalies.merge(tables.anomalies);
    trace.first_start = trace.window().map(|(start, _)| start);
    Ok(trace)
}

/// Returns the process to read; `None` if rows do not state their process.
fn choose_process(
    mut all: Vec<NsysProcess>,
    wanted: Option<GlobalPid>,
) -> Result<Option<NsysProcess>, Error> {
    match wanted {
        Some(wanted) => {
            let at = all.iter().position(|process| process.global_pid == wanted);
            let at = at.ok_or_else(|| {
                let pid = wanted.pid();
                Failure::new(format!("the report has no process {pid} with device work"))
            })?;
            Ok(Some(all.swap_remove(at)))
        }
        None if all.len() > 1 => Err(Error::SeveralProcesses {
            pids: all.iter().map(|process| process.pid).collect(),
            remedy: "select one by its rank, as listed by `etlink inspect`. `etlink merge` reads each \
                     process as a rank",
        }),
        None => Ok(all.pop()),
    }
}

/// State of an export while it is read.
struct ExportReader<'c> {
    connection: &'c Connection,
    tables: &'c SqliteTables,
    strings: StringTable<'c>,
    process: Option<NsysProcess>,
    /// Number of processes in the report.
    process_count: usize,
    keep: KeepEvents,
    assembler: DeviceTraceAssembler,
}

impl ExportReader<'_> {
    fn global_pid(&self) -> Option<GlobalPid> {
        self.process.as_ref().map(|process| process.global_pid)
    }

    /// Selects rows of the process in a table with a column `globalPid`.
    fn of_process(&self) -> RowFilter<'static> {
        match self.global_pid() {
            None => RowFilter::All,
            Some(process) => RowFilter::Equal {
                column: "globalPid",
                ignored_bits: 0,
                value: process.0,
            },
        }
    }

    /// Selects rows of the process's threads in a table with a column `globalTid`.
    fn of_threads(&self) -> RowFilter<'static> {
        match self.global_pid() {
            None => RowFilter::All,
            Some(process) => RowFilter::Equal {
                column: "globalTid",
                ignored_bits: global_pid::TID_BITS,
                value: process.0 >> global_pid::TID_BITS,
            },
        }
    }
}
