//! Readers of device traces, by kind. To add a recorder, add its kind to [`InputKind`], its first
//! bytes to `input::sniff_kind`, and its reader here.

#[cfg(feature = "nsys")]
mod nsys;
#[cfg(feature = "rocm")]
mod rocpd;

use crate::error::RunError;
use crate::input::{InputFile, InputKind, WantedTrace};
use etlink_formats::kineto::KinetoReadOptions;
use etlink_formats::xla::XlaReadOptions;
use etlink_model::{DeviceTrace, Failure};
use std::io::BufReader;

/// Refuses inputs that cannot be read as a device trace.
pub(crate) fn expect_device(input: &InputFile, wanted: WantedTrace) -> Result<(), RunError> {
    if input.kind.is_device_trace() {
        Ok(())
    } else {
        Err(input.refuse_kind(wanted))
    }
}

/// Reads a device trace with the reader of its kind. Removes impossible rows, so that all commands
/// see the same rows.
///
/// # Errors
/// Fails if the input is not a device trace, or its reader refuses it.
pub(crate) fn read_device_trace(
    input: InputFile,
    wanted: WantedTrace,
    options: KinetoReadOptions,
) -> Result<DeviceTrace, RunError> {
    expect_device(&input, wanted)?;
    let mut trace = read_by_kind(input, wanted, options)?;
    etlink_link::judge_rows(&mut trace);
    Ok(trace)
}

fn read_by_kind(
    input: InputFile,
    wanted: WantedTrace,
    options: KinetoReadOptions,
) -> Result<DeviceTrace, RunError> {
    match input.kind {
        InputKind::KinetoTrace => etlink_formats::kineto::read(input.content, options)
            .map_err(|cause| RunError::unreadable(input.name, cause)),
        InputKind::XlaSpace | InputKind::XlaJson => read_xla(input, options),
        #[cfg(feature = "nsys")]
        InputKind::NsysSqlite => nsys::read_nsys(input, options),
        #[cfg(not(feature = "nsys"))]
        InputKind::NsysSqlite => Err(refuse(input, "an export of Nsight Systems", "nsys")),
        #[cfg(feature = "rocm")]
        InputKind::RocprofJson => etlink_formats::rocm::read_rocprof_json(input.content)
            .map_err(|cause| RunError::unreadable(input.name, cause)),
        #[cfg(feature = "rocm")]
        InputKind::RocpdSqlite => rocpd::read_rocpd(input),
        #[cfg(not(feature = "rocm"))]
        InputKind::RocprofJson | InputKind::RocpdSqlite => {
            Err(refuse(input, "a recording of ROCm's rocprofv3", "rocm"))
        }
        _ => Err(input.refuse_kind(wanted)),
    }
}

/// Creates the error of a database, which cannot be read in parts if it is compressed or comes from
/// standard input: ranks are determined before reading, for which such a file is not unpacked.
#[cfg(feature = "sqlite")]
fn database_error(name: String, is_plain: bool, cause: etlink_formats::Error) -> RunError {
    match cause {
        etlink_formats::Error::SeveralProcesses { pids, .. } if !is_plain => {
            let what = format!(
                " has {} processes with device work, which can be separated only in an \
                 uncompressed file",
                pids.len()
            );
            let remedy = "decompress it first (gunzip), or save standard input to a file";
            Failure::about(name, what).advise(remedy).into()
        }
        cause => RunError::unreadable(name, cause),
    }
}

/// Refuses a recording whose reader this build lacks.
#[cfg(not(all(feature = "nsys", feature = "rocm")))]
fn refuse(input: InputFile, what: &str, feature: &str) -> RunError {
    let what = format!("{}: {what}", input.name);
    crate::missing_feature(what, feature).of(input.name).into()
}

/// Reads an XLA profile, in protobuf or JSON.
fn read_xla(input: InputFile, options: KinetoReadOptions) -> Result<DeviceTrace, RunError> {
    let options = XlaReadOptions {
        threads: options.threads,
        keep: options.keep,
    };
    let trace = match input.kind {
        InputKind::XlaSpace => {
            etlink_formats::xla::read_space(BufReader::new(input.content), options)
        }
        _ => etlink_formats::xla::read_trace_json(input.content, options),
    };
    trace.map_err(|cause| RunError::unreadable(input.name, cause))
}
