//! What a command failed with on a rank, as the library keeps it.

use etlink_run::RunError;

/// The library's own error where it is one, else the command's.
pub fn rank_error(error: anyhow::Error) -> RunError {
    // what has a context is more than the error that a downcast gives
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
