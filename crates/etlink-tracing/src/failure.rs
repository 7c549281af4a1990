//! Which recorder could not do what.

use crate::{Recorder, RecorderError};
use std::fmt;

/// What a recorder was asked to do: a method of [`Recorder`](crate::Recorder).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecorderRequest {
    /// `prepare`.
    Prepare,
    /// `start`.
    Start,
    /// `stop`.
    Stop,
    /// `save`.
    Save,
    /// `toggle`.
    Toggle,
    /// `finish`.
    Finish,
}

impl fmt::Display for RecorderRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecorderRequest::Prepare => "prepare",
            RecorderRequest::Start => "start",
            RecorderRequest::Stop => "stop",
            RecorderRequest::Save => "save",
            RecorderRequest::Toggle => "toggle",
            RecorderRequest::Finish => "finish",
        })
    }
}

/// A request that failed.
#[derive(Debug, thiserror::Error)]
#[error("recorder {recorder} failed to {request} at step {step}: {cause}")]
pub struct RecorderFailure {
    /// The recorder's name.
    pub recorder: String,
    /// What it was asked to do.
    pub request: RecorderRequest,
    /// The step that was about to begin, or at the end the one that was open.
    pub step: u64,
    /// What it said. Part of the message, so it is not a `source`.
    pub cause: RecorderError,
}

/// All that failed, in order; never empty. The session can go on: the next cycle is tried anew.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(RecorderFailure::to_string).collect::<Vec<_>>().join("; "))]
pub struct RecorderFailures(pub Vec<RecorderFailure>);

/// Gathers what fails while all recorders are asked.
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

    /// Whether it went well.
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
