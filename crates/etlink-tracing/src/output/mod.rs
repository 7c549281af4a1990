//! Where traces go: what PyTorch calls `on_trace_ready`.

mod files;

pub use files::{TensorBoardFolder, TraceFolder};

use crate::{RecordedCycle, RecorderError};
use std::io::{self, Write};

/// Which of the two traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceKind {
    /// The execution trace.
    Host,
    /// The Kineto trace.
    Device,
}

/// A trace that is ready.
pub struct FinishedTrace<'a> {
    /// Which one.
    pub kind: TraceKind,
    /// Of which cycle.
    pub cycle: &'a RecordedCycle,
    /// Of which rank, if the program said so.
    pub rank: Option<u32>,
    pub(crate) write: &'a dyn Fn(&mut dyn Write) -> io::Result<()>,
}

impl FinishedTrace<'_> {
    /// Writes its JSON, piece by piece. Can be called again, for the same bytes.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        (self.write)(out)
    }

    /// Its JSON in memory: to link at once, say.
    ///
    /// # Errors
    /// None that memory has.
    pub fn to_vec(&self) -> io::Result<Vec<u8>> {
        let mut text = vec![];
        self.write_to(&mut text)?;
        Ok(text)
    }
}

/// Takes the traces of all cycles, on the thread that steps the session. A closure will do.
pub trait TraceOutput: Send {
    /// A trace is ready.
    ///
    /// # Errors
    /// It could not be kept; the other recorders' traces are taken all the same.
    fn take(&mut self, trace: &FinishedTrace<'_>) -> Result<(), RecorderError>;
}

impl<F: FnMut(&FinishedTrace<'_>) -> Result<(), RecorderError> + Send> TraceOutput for F {
    fn take(&mut self, trace: &FinishedTrace<'_>) -> Result<(), RecorderError> {
        self(trace)
    }
}
