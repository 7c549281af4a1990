//! `etlink._etlink`, the extension of the Python package `etlink`. It is thin: it converts arguments
//! for the library, runs it without Python's lock, and converts results into Python's objects.
#![allow(
    unsafe_code,
    reason = "what pyo3's macros make of functions and classes is unsafe; nothing here is"
)]

mod errors;
mod hta;
mod progress;
mod run;
mod schedule;
mod sharded;
mod table;
mod worker;

use pyo3::prelude::*;
use std::ffi::OsString;

#[pymodule]
mod _etlink {
    #[pymodule_export]
    use super::hta::HtaHandle;
    #[pymodule_export]
    use super::run::RunHandle;
    #[pymodule_export]
    use super::run_command;
    #[pymodule_export]
    use super::schedule::StepSchedule;
    #[pymodule_export]
    use super::sharded::{ShardedRun, written_graphs};
    #[pymodule_export]
    use super::table::Table;

    use pyo3::prelude::*;

    /// Makes messages name Python arguments instead of options.
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        etlink_model::name_python_arguments(true);
        Ok(())
    }
}

/// Runs a command line of `etlink`, with its output, and returns its exit code. `own_command` starts
/// a new process of the command.
#[pyfunction]
fn run_command(py: Python<'_>, own_command: Vec<OsString>, words: Vec<OsString>) -> u8 {
    etlink_model::name_python_arguments(false);
    // this is the process's only work, and a signal ends the process, so Python need not check signals
    py.detach(|| etlink::run_command_of(own_command, words))
}
