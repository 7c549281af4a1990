//! Reader of rocpd databases.

use crate::error::RunError;
use crate::input::InputFile;
use crate::input::database::DatabaseFile;
use etlink_model::DeviceTrace;

/// Reads a rocpd database: the chosen process, or the only one.
pub(super) fn read_rocpd(input: InputFile) -> Result<DeviceTrace, RunError> {
    let (name, process) = (input.name.clone(), input.process);
    let is_plain = input.plain_path.is_some();
    let file = DatabaseFile::from_input(input)?;
    let connection = file.connect();
    let connection = connection.map_err(|cause| RunError::unreadable(&name, cause))?;
    let trace = etlink_formats::rocm::read_rocpd(&connection, process);
    trace.map_err(|cause| super::database_error(name, is_plain, cause))
}
