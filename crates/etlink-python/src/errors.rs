//! Errors of the library as `etlink.Error`.

use etlink_run::RunError;
use pyo3::prelude::*;

/// The exception for an error: its message in one line, and what it is about.
///
/// The class is Python's, so that its attributes have types there.
pub(crate) fn to_exception(py: Python<'_>, error: &anyhow::Error) -> PyErr {
    let message = with_arguments(&format!("{error:#}"));
    // commands put contexts before errors of the library, which alone know their file
    let mut errors = error.chain().filter_map(|cause| cause.downcast_ref());
    let known: Option<&RunError> = errors.next();
    let remedy = remedy_of(&message).map(str::to_owned);
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
        // the package is damaged: that is what has to be said
        Err(failed) => failed,
    }
}

/// Options of commands with the arguments of Python that say the same; longer names first.
const ARGUMENTS: [(&str, &str); 9] = [
    ("--for astra-sim", "simulator=\"astra-sim\""),
    ("--sequences-of", "sequences_of="),
    ("--overwrite (-f)", "overwrite=True"),
    ("--overwrite", "overwrite=True"),
    ("--what-if", "what_if="),
    ("--memory", "memory="),
    ("--strict", "strict=True"),
    ("--ranks", "ranks="),
    ("--scale", "scale="),
];

/// A message for somebody who has typed no option.
fn with_arguments(message: &str) -> String {
    let named = ARGUMENTS.iter();
    named.fold(message.to_owned(), |text, (option, argument)| {
        text.replace(option, argument)
    })
}

/// What a message says that helps: the library's end with it, "…; give the folder with the traces"
/// or "…: give one of them".
fn remedy_of(message: &str) -> Option<&str> {
    if let Some((_, remedy)) = message.rsplit_once("; ") {
        return Some(remedy);
    }
    let at = message.rfind(": give ")?;
    Some(&message[at + 2..])
}

/// An exception with nothing but a message.
pub(crate) fn plain_exception(py: Python<'_>, message: &str) -> PyErr {
    to_exception(py, &anyhow::anyhow!("{message}"))
}
