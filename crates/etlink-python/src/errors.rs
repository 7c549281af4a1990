//! Errors of the library as `etlink.Error`.

use etlink::findings::QuestionError;
use etlink_model::Failure;
use etlink_run::{RunError, remedy_of};
use pyo3::prelude::*;

/// Returns the exception for an error: its message in one line, its file, position and remedy.
///
/// The class is defined in Python, so that its attributes have types there.
pub(crate) fn to_exception(py: Python<'_>, error: &anyhow::Error) -> PyErr {
    let message = format!("{error:#}");
    // commands add contexts to errors of the library, and only these errors know their file
    let mut errors = error.chain().filter_map(|cause| cause.downcast_ref());
    let known: Option<&RunError> = errors.next();
    let question: Option<&QuestionError> = error.chain().find_map(|cause| cause.downcast_ref());
    let remedy = question.and_then(QuestionError::remedy);
    let remedy = remedy.or_else(|| remedy_of(error.as_ref()));
    let arguments = (
        message,
        known.and_then(RunError::file),
        known.and_then(RunError::place),
        remedy,
    );
    let class = py.import("etlink._error");
    let class = class.and_then(|module| module.getattr("Error"));
    match class.and_then(|class| class.call1(arguments)) {
        Ok(exception) => PyErr::from_value(exception),
        // the package is damaged, and this is the error to report
        Err(failed) => failed,
    }
}

/// Returns an exception of the module itself.
pub(crate) fn advised_exception(py: Python<'_>, problem: &str, remedy: &str) -> PyErr {
    to_exception(py, &Failure::new(problem).advise(remedy).into())
}
