//! Reader of Nsight Systems exports.

use crate::error::RunError;
use crate::input::InputFile;
use crate::input::database::DatabaseFile;
use etlink_formats::kineto::KinetoReadOptions;
use etlink_formats::nsys::{GlobalPid, NsysReadOptions};
use etlink_model::DeviceTrace;

/// Reads a Nsight Systems export: the chosen process, or the only one.
pub(super) fn read_nsys(
    input: InputFile,
    options: KinetoReadOptions,
) -> Result<DeviceTrace, RunError> {
    let (name, process) = (input.name.clone(), input.process.map(GlobalPid));
    let is_plain = input.plain_path.is_some();
    let file = DatabaseFile::from_input(input)?;
    let failed = |cause| RunError::unreadable(&name, cause);
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
    let trace = etlink_formats::nsys::read_with(&connection, second, options);
    trace.map_err(|cause| super::database_error(name, is_plain, cause))
}
