//! Checks the memory of the process while a rank is read.

use super::gate::{MemoryGate, OverBudget};
use std::fmt::{Debug, Formatter};
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of unpacked text between two checks: columns grow by about as much.
const LOOK_BYTES: usize = 1 << 20;

/// Share of one rank in the budget of all.
#[derive(Clone)]
pub(crate) struct RankWatch {
    gate: Arc<MemoryGate>,
    at: usize,
    refused: Arc<Mutex<Option<OverBudget>>>,
    unpacked: Arc<AtomicU64>,
}

impl Debug for RankWatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RankWatch").field("at", &self.at).finish()
    }
}

impl RankWatch {
    pub(crate) fn new(gate: &Arc<MemoryGate>, at: usize) -> RankWatch {
        RankWatch {
            gate: Arc::clone(gate),
            at,
            refused: Arc::default(),
            unpacked: Arc::default(),
        }
    }

    /// Wraps content so that reads wait or fail if memory is short.
    pub(crate) fn watch<R: Read>(&self, content: R) -> impl Read + use<R> {
        WatchedContent {
            content,
            watch: self.clone(),
            unseen: 0,
        }
    }

    /// Checks that a rank that has been read, and takes `takes` bytes until its end, can continue.
    pub(crate) fn check_read(&self, takes: u64) -> Result<(), OverBudget> {
        self.gate.check_read(takes).map_err(|over| self.keep(over))
    }

    /// Returns the refusal of the rank, if any, and the number of bytes read until then.
    pub(crate) fn refusal(&self) -> Option<(OverBudget, u64)> {
        let refused = self.refused.lock();
        let over = (*refused.unwrap_or_else(PoisonError::into_inner))?;
        Some((over, self.unpacked.load(Ordering::Relaxed)))
    }

    fn keep(&self, over: OverBudget) -> OverBudget {
        let refused = self.refused.lock();
        *refused.unwrap_or_else(PoisonError::into_inner) = Some(over);
        over
    }

    fn look(&self) -> io::Result<()> {
        let looked = self.gate.check_reading(self.at);
        looked.map_err(|over| io::Error::other(self.keep(over)))
    }
}

struct WatchedContent<R> {
    content: R,
    watch: RankWatch,
    /// Bytes read since the last check.
    unseen: usize,
}

impl<R: Read> Read for WatchedContent<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.unseen >= LOOK_BYTES {
            self.unseen = 0;
            self.watch.look()?;
        }
        let bytes = self.content.read(buffer)?;
        self.unseen += bytes;
        self.watch
            .unpacked
            .fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}
