//! What is being done, for whoever wants to show it.

use crate::cancel::Cancellation;
use crate::memory::watch::RankWatch;
use std::io::{self, Read};
use std::sync::Arc;

/// Shows what is being done. Calls come from all threads.
pub trait ProgressListener: Send + Sync {
    /// Another phase begins: `reading`, `linking`.
    fn phase(&self, name: &str);
    /// So many bytes more are going to be read, as they are stored.
    fn expect_bytes(&self, bytes: u64);
    /// So many bytes more were read.
    fn advance(&self, bytes: u64);
    /// All is done.
    fn finish(&self);
}

/// Where progress is reported to; by default nowhere.
#[derive(Clone, Default)]
pub struct Progress {
    listener: Option<Arc<dyn ProgressListener>>,
    cancellation: Cancellation,
    memory: Option<RankWatch>,
}

impl Progress {
    /// Reports to `listener`.
    pub fn to(listener: Arc<dyn ProgressListener>) -> Progress {
        Progress {
            listener: Some(listener),
            ..Progress::default()
        }
    }

    /// The same, and what is read through it ends where work is cancelled.
    pub fn with_cancellation(self, cancellation: Cancellation) -> Progress {
        Progress {
            cancellation,
            ..self
        }
    }

    /// The same, for a rank that has its share of a memory budget.
    pub(crate) fn with_memory(self, watch: RankWatch) -> Progress {
        Progress {
            memory: Some(watch),
            ..self
        }
    }

    /// The share of the rank that is worked on.
    pub(crate) fn memory(&self) -> Option<&RankWatch> {
        self.memory.as_ref()
    }

    /// Reports nowhere.
    pub fn hidden() -> Progress {
        Progress::default()
    }

    /// Counts what is read from `source`, which has `bytes` in all.
    pub fn watch<R: Read>(&self, source: R, bytes: u64) -> impl Read + use<R> {
        if let Some(listener) = &self.listener {
            // when it is opened, not before: which files are read is not known at the start
            listener.expect_bytes(bytes);
        }
        Watched {
            source,
            progress: self.clone(),
        }
    }

    /// Reports what is being done.
    pub fn phase(&self, name: &str) {
        if let Some(listener) = &self.listener {
            listener.phase(name);
        }
    }

    /// Reports that all is done.
    pub fn finish(&self) {
        if let Some(listener) = &self.listener {
            listener.finish();
        }
    }
}

/// A source that reports what is read from it.
struct Watched<R> {
    source: R,
    progress: Progress,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // a rank of gigabytes is read for a minute: to look before each rank alone is too seldom
        let cancellation = &self.progress.cancellation;
        cancellation.check().map_err(io::Error::other)?;
        let bytes = self.source.read(buffer)?;
        if let Some(listener) = &self.progress.listener {
            listener.advance(bytes as u64);
        }
        Ok(bytes)
    }
}
