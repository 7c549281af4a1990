//! Conversion of a command's error on a rank to the library's error type.

use etlink_run::RunError;

/// Converts to the library's own error if it is one; otherwise wraps the command's error.
pub fn rank_error(error: anyhow::Error) -> RunError {
    // a downcast of an error with contexts would lose them
    let is_plain = error
        .chain()
        .next()
        .is_some_and(|outermost| outermost.is::<RunError>());
    if !is_plain {
        return RunError::Job(error.into());
    }
    match error.downcast() {
        Ok(error) => error,
        Err(error) => RunError::Job(error.into()),
    }
}
