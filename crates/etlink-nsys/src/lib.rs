//! Reads exports of NVIDIA Nsight Systems as device traces: SQLite files that
//! `nsys export --type sqlite` writes, of schema 2 (2020 to 2022) and 3.
//!
//! ```text
//! open connection -> processes -> read one of them: rows -> DeviceTrace, sorted by time
//! ```
//! Tables are there only where something was recorded, and their columns differ between versions:
//! both are looked up, and what a file lacks reads as absent. Rows are streamed, so that memory is
//! that of the kept columns. Sampling, context switches and calls of the C library, which are most of
//! a large report, are not read.
//!
//! A report can hold several processes, whose correlation ids count from 1 each. So a device trace is
//! that of one process: see [`processes`].
//!
//! Names are written as Kineto writes them, since the linker goes by them: `cudaLaunchKernel` for
//! `cudaLaunchKernel_v7000`, `Memcpy HtoD (Pageable -> Device)`, `Stream Wait Event`. Ranges of
//! `torch.autograd.profiler.emit_nvtx` become ops with their sequence number, handle and shapes.
//! Other ranges of NVTX are annotations. Those of NCCL and MPI are ops that communicate.
//!
//! Source of tables and columns: <https://docs.nvidia.com/nsight-systems/UserGuide/>, "SQLite Schema
//! Reference", and exports of schema 2.9 and 3.13.

mod calls;
mod comms;
mod emitted;
mod error;
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
mod write;

pub use error::Error;
pub use global_pid::GlobalPid;
pub use process::{NsysProcess, processes};
pub use ranks::{ProcessRank, RankSource};
pub use write::{NsysSchema, write};

use etlink_model::{DeviceTrace, DeviceTraceAssembler, KeepEvents};
use etlink_sqlite::{RowFilter, SqliteTables};
use halves::{ExportParts, append_work};
use metrics::fill_details;
use process::list_processes;
use rusqlite::Connection;
use strings::StringTable;
use times::close_open_ranges;

/// How to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct NsysReadOptions {
    /// Which process; `None`: the only one that has work on a device.
    pub process: Option<GlobalPid>,
    /// What to keep that no graph needs. [`KeepEvents::Everything`] has metrics of GPUs as counters.
    pub keep: KeepEvents,
}

/// Whether a database is an export of Nsight Systems, by its tables.
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

/// The tables that a trace is read from, by their names in the schema.
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

/// The tables of an export.
pub(crate) fn export_tables(connection: &Connection) -> Result<SqliteTables, Error> {
    let tables = SqliteTables::probe(connection)?;
    if is_export(&tables) {
        Ok(tables)
    } else {
        Err(Error::NotExport)
    }
}

/// How many rows there are in the tables that a trace is read from, for a guess of the memory that it
/// takes. O(tables · log rows).
///
/// # Errors
/// It is no export of Nsight Systems, or it is locked.
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
/// Damage inside tables is no error: see [`DeviceTrace::anomalies`].
///
/// # Errors
/// It is no export of Nsight Systems, it is locked, no process is wanted where several have work on
/// devices, or the wanted one is not in it.
pub fn read(connection: &Connection, options: NsysReadOptions) -> Result<DeviceTrace, Error> {
    read_with(connection, None, options)
}

/// The same with a second connection to the same database, by which a half of it is read at the same
/// time. Gives the same trace.
///
/// # Errors
/// As those of [`read`].
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
                Ok(reading) => reading.join().unwrap_or(Err(Error::HalfLost)),
                // a limit of the process: one after the other then
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
    trace.first_start = trace.window().map(|(start, _)| start);
    Ok(trace)
}

/// The process to read; `None`: rows do not say whose they are.
fn choose_process(
    mut all: Vec<NsysProcess>,
    wanted: Option<GlobalPid>,
) -> Result<Option<NsysProcess>, Error> {
    match wanted {
        Some(wanted) => {
            let at = all.iter().position(|process| process.global_pid == wanted);
            at.map(|at| Some(all.swap_remove(at)))
                .ok_or(Error::NoProcess { pid: wanted.pid() })
        }
        None if all.len() > 1 => Err(Error::SeveralProcesses {
            pids: all.iter().map(|process| process.pid).collect(),
        }),
        None => Ok(all.pop()),
    }
}

/// An export while it is read.
struct ExportReader<'c> {
    connection: &'c Connection,
    tables: &'c SqliteTables,
    strings: StringTable<'c>,
    process: Option<NsysProcess>,
    /// How many processes the report has.
    process_count: usize,
    keep: KeepEvents,
    assembler: DeviceTraceAssembler,
}

impl ExportReader<'_> {
    fn global_pid(&self) -> Option<GlobalPid> {
        self.process.as_ref().map(|process| process.global_pid)
    }

    /// Rows of the process, in a table that says it by `globalPid`.
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

    /// Rows of threads of the process, in a table that says it by `globalTid`.
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
