//! The reader of each kind of device trace. A recorder that is added has its kind in
//! [`InputKind`], its first bytes in `input::sniff_kind`, and its reader here.

use crate::error::RunError;
use crate::input::database::DatabaseFile;
use crate::input::{InputError, InputFile, InputKind, WantedTrace};
use etlink_kineto::KinetoReadOptions;
use etlink_model::DeviceTrace;
use etlink_nsys::{GlobalPid, NsysReadOptions};
use etlink_rocm::RocpdReadOptions;
use etlink_xla::XlaReadOptions;
use std::io::BufReader;

/// Refuses what cannot be read as a device trace.
pub(crate) fn expect_device(input: &InputFile, wanted: WantedTrace) -> Result<(), InputError> {
    // its arguments are in groups of their own: all would be there but what launched what
    if input.is_view {
        return Err(InputError::View {
            name: input.name.clone(),
        });
    }
    if input.kind.is_device_trace() {
        Ok(())
    } else {
        Err(input.refuse_kind(wanted))
    }
}

/// Reads a device trace by the reader of its kind.
///
/// # Errors
/// It is none, or its reader refuses it.
pub(crate) fn read_device_trace(
    input: InputFile,
    wanted: WantedTrace,
    options: KinetoReadOptions,
) -> Result<DeviceTrace, RunError> {
    expect_device(&input, wanted)?;
    match input.kind {
        InputKind::KinetoTrace => {
            let name = input.name;
            etlink_kineto::read(input.content, options)
                .map_err(|source| RunError::DeviceTrace { name, source })
        }
        InputKind::XlaSpace | InputKind::XlaJson => read_xla(input, options),
        InputKind::NsysSqlite => read_nsys(input, options),
        InputKind::RocprofJson => {
            let name = input.name;
            etlink_rocm::read_rocprof_json(input.content)
                .map_err(|source| RunError::RocmTrace { name, source })
        }
        InputKind::RocpdSqlite => read_rocpd(input),
        _ => Err(input.refuse_kind(wanted).into()),
    }
}

/// Reads a profile of XLA in either form.
fn read_xla(input: InputFile, options: KinetoReadOptions) -> Result<DeviceTrace, RunError> {
    let options = XlaReadOptions {
        threads: options.threads,
        keep: options.keep,
    };
    let trace = match input.kind {
        InputKind::XlaSpace => etlink_xla::read_space(BufReader::new(input.content), options),
        _ => etlink_xla::read_trace_json(input.content, options),
    };
    let name = input.name;
    trace.map_err(|source| RunError::XlaProfile { name, source })
}

/// Reads a rocpd database: the process that is wanted, or the only one.
fn read_rocpd(input: InputFile) -> Result<DeviceTrace, RunError> {
    let (name, process) = (input.name.clone(), input.process);
    let is_plain = input.plain_path.is_some();
    let file = DatabaseFile::from_input(input)?;
    let connection = file.connect().map_err(|source| RunError::Database {
        name: name.clone(),
        source,
    })?;
    let trace = etlink_rocm::read_rocpd(&connection, RocpdReadOptions { process });
    trace.map_err(|source| match source {
        etlink_rocm::Error::SeveralProcesses { pids } if !is_plain => {
            let count = pids.len();
            RunError::PackedProcesses { name, count }
        }
        source => RunError::RocmTrace { name, source },
    })
}

/// Reads an export of Nsight Systems: the process that is wanted, or the only one.
fn read_nsys(input: InputFile, options: KinetoReadOptions) -> Result<DeviceTrace, RunError> {
    let (name, process) = (input.name.clone(), input.process.map(GlobalPid));
    let is_plain = input.plain_path.is_some();
    let file = DatabaseFile::from_input(input)?;
    let failed = |source| RunError::Database {
        name: name.clone(),
        source,
    };
    let connection = file.connect().map_err(failed)?;
    // SQLite reads with one thread per connection
    let second = match options.threads {
        0 | 1 => None,
        _ => Some(file.connect().map_err(failed)?),
    };
    let options = NsysReadOptions {
        process,
        keep: options.keep,
    };
    let trace = etlink_nsys::read_with(&connection, second, options);
    trace.map_err(|source| match source {
        // ranks are told before a trace is read, and a packed file is not unpacked for that
        etlink_nsys::Error::SeveralProcesses { pids } if !is_plain => {
            let count = pids.len();
            RunError::PackedProcesses { name, count }
        }
        source => RunError::NsysTrace { name, source },
    })
}
