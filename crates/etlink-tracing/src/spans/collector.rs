//! Collects spans while a window is open: one per [`ProgramSpans`](crate::ProgramSpans).

use super::buffer::{BufferSnapshot, ChunkPool, EntryBuffer, lock};
use super::clock::SpanClock;
use super::entry::{EntryKind, head};
use crate::ProfilerActivity;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tracing::Metadata;

/// Bits of recorded activities: host spans, device rows.
const HOST: u8 = 1;
const DEVICE: u8 = 2;

/// Number of chunks ready when a window opens.
const READY_CHUNKS: usize = 32;

static COLLECTORS: AtomicU64 = AtomicU64::new(1);

/// Collector of spans. [`super::thread_writer`] holds the per-thread part.
pub(crate) struct Collector {
    /// Number that identifies the collector; dropped with it.
    pub(super) number: Arc<u64>,
    pub(crate) clock: SpanClock,
    /// Recorded kinds of new spans, a set of [`HOST`] and [`DEVICE`]; empty while no window is
    /// open.
    wanted: AtomicU8,
    /// Number of the open window; 0 if none is open.
    pub(super) window: AtomicU64,
    /// Number of threads seen so far.
    pub(super) threads: AtomicU64,
    pub(super) pool: ChunkPool,
    pub(super) open: Mutex<OpenWindow>,
    pub(super) callsites: Mutex<Vec<&'static Metadata<'static>>>,
}

/// State locked when windows open and close, and once per thread and window.
#[derive(Default)]
pub(super) struct OpenWindow {
    windows: u64,
    start: u64,
    pub(super) buffers: Vec<Arc<EntryBuffer>>,
    step: Option<u64>,
}

/// Entries written while a window was open.
pub(crate) struct WindowSnapshot {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) buffers: Vec<BufferSnapshot>,
}

impl Collector {
    pub(crate) fn new() -> Collector {
        Collector {
            number: Arc::new(COLLECTORS.fetch_add(1, Ordering::Relaxed)),
            clock: SpanClock::new(),
            wanted: AtomicU8::new(0),
            window: AtomicU64::new(0),
            threads: AtomicU64::new(0),
            pool: ChunkPool::default(),
            open: Mutex::default(),
            callsites: Mutex::default(),
        }
    }

    pub(crate) fn warm_up(&self) {
        self.pool.fill(READY_CHUNKS);
    }

    pub(crate) fn pool(&self) -> &ChunkPool {
        &self.pool
    }

    /// Returns the callsites by their numbers.
    pub(crate) fn callsites(&self) -> Vec<&'static Metadata<'static>> {
        lock(&self.callsites).clone()
    }

    /// Opens a window. Spans created from now on are recorded.
    pub(crate) fn open(&self) {
        let mut open = lock(&self.open);
        // Window numbers begin at 1, so 0 means that none is open.
        open.windows += 1;
        open.start = self.clock.now();
        self.window.store(open.windows, Ordering::Release);
        drop(open);
        // Rebuilding the interest cache takes locks of `tracing`, so ours is released first.
        self.want(HOST | DEVICE);
    }

    /// Closes the window. Concurrent entries of other threads may be in it or not.
    pub(crate) fn close(&self) -> WindowSnapshot {
        let mut open = lock(&self.open);
        // Writers see the closed window first; an entry being written may still be in the snapshot.
        self.window.store(0, Ordering::Release);
        let buffers = std::mem::take(&mut open.buffers)
            .iter()
            .map(EntryBuffer::snapshot)
            .collect();
        let buffers = WindowSnapshot {
            start: open.start,
            end: self.clock.now(),
            buffers,
        };
        // An open step is announced again in the next window.
        open.step = None;
        drop(open);
        self.want(0);
        buffers
    }

    pub(crate) fn toggle(&self, activity: ProfilerActivity, on: bool) {
        let bit = if activity == ProfilerActivity::Cpu {
            HOST
        } else {
            DEVICE
        };
        let wanted = self.wanted.load(Ordering::Relaxed);
        self.want(if on { wanted | bit } else { wanted & !bit });
    }

    /// Updates the interest that `tracing` caches per callsite, so an unwanted span costs one load
    /// and one branch.
    fn want(&self, wanted: u8) {
        // Rebuilding visits all callsites of the program, so it is skipped if nothing changed.
        if self.wanted.swap(wanted, Ordering::Relaxed) != wanted {
            tracing::callsite::rebuild_interest_cache();
        }
    }

    /// Returns true if spans or events of this callsite are recorded now.
    pub(crate) fn wants(&self, metadata: &Metadata<'_>) -> bool {
        // The callsite's field names are fixed, so the answer holds until the next window.
        let row = metadata.fields().field("stream").is_some();
        let bit = if row { DEVICE } else { HOST };
        (row || metadata.is_span()) && self.wanted.load(Ordering::Relaxed) & bit != 0
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) == 0
    }

    /// Opens the range of a step on this thread, unless it is already open.
    pub(crate) fn enter_step(&self, step: u64) {
        // All recorders of a session announce the same step; it is recorded once.
        if lock(&self.open).step.replace(step) != Some(step) {
            self.append(&[head(EntryKind::StepOpen, 2), step, self.clock.now()]);
        }
    }

    /// Closes the range of the open step.
    pub(crate) fn exit_step(&self) {
        if lock(&self.open).step.take().is_some() {
            // The time is read last, so the step includes the time spent on the lock.
            self.append(&[head(EntryKind::StepClose, 1), self.clock.now()]);
        }
    }

    #[inline]
    pub(crate) fn enter(&self, span: u64) {
        self.append(&[head(EntryKind::Enter, 2), span, self.clock.now()]);
    }

    #[inline]
    pub(crate) fn exit(&self, span: u64) {
        self.append(&[head(EntryKind::Exit, 2), span, self.clock.now()]);
    }
}
