//! Failures of recorders.

use crate::{Recorder, RecorderError};

/// Request to a recorder: a method of [`Recorder`](crate::Recorder).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum RecorderRequest {
    /// [`Recorder::prepare`](crate::Recorder::prepare).
    Prepare,
    /// [`Recorder::start`](crate::Recorder::start).
    Start,
    /// [`Recorder::stop`](crate::Recorder::stop).
    Stop,
    /// [`Recorder::save`](crate::Recorder::save).
    Save,
    /// [`Recorder::toggle`](crate::Recorder::toggle).
    Toggle,
    /// [`Recorder::finish`](crate::Recorder::finish).
    Finish,
}

/// A failed request to a recorder.
#[derive(Debug, thiserror::Error)]
#[error("recorder {recorder} failed to {request} at step {step}: {cause}")]
pub struct RecorderFailure {
    /// Name of the recorder.
    pub recorder: String,
    /// Request that failed.
    pub request: RecorderRequest,
    /// Step about to begin or, at the end of the session, the open step.
    pub step: u64,
    /// Error of the recorder. Part of the message, so it is not a `source`.
    pub cause: RecorderError,
}

/// All failures in order; never empty. The session can continue: the next cycle is tried again.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(RecorderFailure::to_string).collect::<Vec<_>>().join("; "))]
pub struct RecorderFailures(pub Vec<RecorderFailure>);

/// Collects failures while all recorders are called.
pub(crate) struct FailureLog {
    step: u64,
    failed: Vec<RecorderFailure>,
}

impl FailureLog {
    pub(crate) fn new(step: u64) -> FailureLog {
        FailureLog {
            step,
            failed: vec![],
        }
    }

    /// Records a failure, if any; returns true on success.
    pub(crate) fn note(
        &mut self,
        recorder: &dyn Recorder,
        request: RecorderRequest,
        result: Result<(), RecorderError>,
    ) -> bool {
        let failure = result.err().map(|cause| RecorderFailure {
            recorder: recorder.name().to_owned(),
            request,
            step: self.step,
            cause,
        });
        let well = failure.is_none();
        self.failed.extend(failure);
        well
    }

    pub(crate) fn take(&mut self, result: Result<(), RecorderFailures>) {
        self.failed
            .extend(result.err().into_iter().flat_map(|failures| failures.0));
    }

    pub(crate) fn result(self) -> Result<(), RecorderFailures> {
        if self.failed.is_empty() {
            Ok(())
        } else {
            Err(RecorderFailures(self.failed))
        }
    }
}
