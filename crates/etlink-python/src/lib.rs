//! `etlink._etlink`: what the Python package `etlink` calls. Thin: it turns arguments into those of
//! the library, runs it without Python's lock, and turns what comes back into Python's objects.
#![allow(
    unsafe_code,
    reason = "what pyo3's macros make of functions and classes is unsafe; nothing here is"
)]

mod errors;
mod hta;
mod merge_phase;
mod progress;
mod report_phase;
mod run;
mod schedule;
mod table;
mod worker;

use pyo3::prelude::*;
use std::ffi::OsString;

#[pymodule]
mod _etlink {
    #[pymodule_export]
    use super::hta::HtaHandle;
    #[pymodule_export]
    use super::merge_phase::{list_merge_ranks, merge_phase, remove_phases, written_graphs};
    #[pymodule_export]
    use super::report_phase::PhasedReport;
    #[pymodule_export]
    use super::run::RunHandle;
    #[pymodule_export]
    use super::run_command;
    #[pymodule_export]
    use super::schedule::StepSchedule;
    #[pymodule_export]
    use super::table::Table;

    use pyo3::prelude::*;

    /// Messages are for somebody who has typed no option.
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        etlink_model::name_python_arguments(true);
        Ok(())
    }
}

/// Carries out a command line of `etlink`, prints what it prints, and returns its exit code.
/// `own_command` starts the command anew.
#[pyfunction]
fn run_command(py: Python<'_>, own_command: Vec<OsString>, words: Vec<OsString>) -> u8 {
    etlink_model::name_python_arguments(false);
    // it is the process's only work, and a signal ends the process: Python need not look at them
    py.detach(|| etlink::run_command_of(own_command, words))
}
