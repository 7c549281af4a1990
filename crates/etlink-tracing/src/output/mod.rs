//! Destinations of traces: PyTorch's `on_trace_ready`.

mod files;

pub use files::{TensorBoardFolder, TraceFolder};

use crate::{RecordedCycle, RecorderError};
use std::io::{self, Write};

/// Kind of trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceKind {
    /// Execution trace of the host.
    Host,
    /// Kineto trace of the devices.
    Device,
}

/// A finished trace.
pub struct FinishedTrace<'a> {
    /// Kind of the trace.
    pub kind: TraceKind,
    /// Cycle that the trace covers.
    pub cycle: &'a RecordedCycle,
    /// Rank of the program, if known.
    pub rank: Option<u32>,
    pub(crate) write: &'a dyn Fn(&mut dyn Write) -> io::Result<()>,
}

impl FinishedTrace<'_> {
    /// Writes the trace's JSON piece by piece. Repeated calls write the same bytes.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        (self.write)(out)
    }

    /// Returns the trace's JSON in memory, for example to link it at once.
    ///
    /// # Errors
    /// None in practice: writing to memory does not fail.
    pub fn to_vec(&self) -> io::Result<Vec<u8>> {
        let mut text = vec![];
        self.write_to(&mut text)?;
        Ok(text)
    }
}

/// Receives the traces of all cycles, on the thread that steps the session. Closures implement it.
pub trait TraceOutput: Send {
    /// Receives a finished trace.
    ///
    /// # Errors
    /// The trace could not be kept; the traces of other recorders are delivered anyway.
    fn take(&mut self, trace: &FinishedTrace<'_>) -> Result<(), RecorderError>;
}

impl<F: FnMut(&FinishedTrace<'_>) -> Result<(), RecorderError> + Send> TraceOutput for F {
    fn take(&mut self, trace: &FinishedTrace<'_>) -> Result<(), RecorderError> {
        self(trace)
    }
}
