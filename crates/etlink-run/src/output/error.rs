//! Errors of writing results.

use etlink_model::Failure;

/// Failed write to standard output.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub struct StdoutError(#[source] pub std::io::Error);

impl StdoutError {
    /// Returns true if the reader has closed the pipe, which is not a failure.
    pub fn is_closed_pipe(&self) -> bool {
        self.0.kind() == std::io::ErrorKind::BrokenPipe
    }
}

/// Creates the error for a result without an output.
pub fn no_target() -> Failure {
    Failure::new("no output is given")
}
