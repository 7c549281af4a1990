//! Progress of work, for display.

use crate::cancel::Cancellation;
use crate::memory::watch::RankWatch;
use std::io::{self, Read};
use std::sync::Arc;

/// Receiver of progress. Calls come from all threads.
pub trait ProgressListener: Send + Sync {
    /// Starts another phase: `reading`, `linking`.
    fn phase(&self, name: &str);
    /// Adds to the bytes that will be read, as stored.
    fn expect_bytes(&self, bytes: u64);
    /// Adds to the bytes that have been read.
    fn advance(&self, bytes: u64);
    /// Ends the work.
    fn finish(&self);
}

/// Reports progress to a listener, if there is one.
#[derive(Clone, Default)]
pub struct Progress {
    listener: Option<Arc<dyn ProgressListener>>,
    cancellation: Cancellation,
    memory: Option<RankWatch>,
}

impl Progress {
    /// Creates a progress that reports to `listener`.
    pub fn to(listener: Arc<dyn ProgressListener>) -> Progress {
        Progress {
            listener: Some(listener),
            ..Progress::default()
        }
    }

    /// Makes reads fail after a cancellation.
    pub fn with_cancellation(self, cancellation: Cancellation) -> Progress {
        Progress {
            cancellation,
            ..self
        }
    }

    /// Adds the rank's share of a memory budget.
    pub(crate) fn with_memory(self, watch: RankWatch) -> Progress {
        Progress {
            memory: Some(watch),
            ..self
        }
    }

    /// Returns the memory share of the current rank.
    pub(crate) fn memory(&self) -> Option<&RankWatch> {
        self.memory.as_ref()
    }

    /// Creates a progress that reports nothing.
    pub fn hidden() -> Progress {
        Progress::default()
    }

    /// Wraps `source` to count the bytes read from it, of `bytes` in total.
    pub fn watch<R: Read>(&self, source: R, bytes: u64) -> impl Read + use<R> {
        if let Some(listener) = &self.listener {
            // on opening, because the files to read are not known at the start
            listener.expect_bytes(bytes);
        }
        Watched {
            source,
            progress: self.clone(),
        }
    }

    /// Reports the current phase.
    pub fn phase(&self, name: &str) {
        if let Some(listener) = &self.listener {
            listener.phase(name);
        }
    }

    /// Reports the end of the work.
    pub fn finish(&self) {
        if let Some(listener) = &self.listener {
            listener.finish();
        }
    }
}

/// A source that reports the bytes read from it.
struct Watched<R> {
    source: R,
    progress: Progress,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // reading a rank of gigabytes takes a minute, so checking only before each rank is too rare
        let cancellation = &self.progress.cancellation;
        cancellation.check().map_err(io::Error::other)?;
        let bytes = self.source.read(buffer)?;
        if let Some(listener) = &self.progress.listener {
            listener.advance(bytes as u64);
        }
        Ok(bytes)
    }
}
