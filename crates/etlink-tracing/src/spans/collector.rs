//! Where spans are taken up while a window is open: one per [`ProgramSpans`](crate::ProgramSpans).

use super::buffer::{BufferSnapshot, ChunkPool, EntryBuffer, lock};
use super::clock::SpanClock;
use super::entry::{EntryKind, head};
use crate::ProfilerActivity;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tracing::Metadata;

/// Bits of what is recorded: spans of the host, rows of devices.
const HOST: u8 = 1;
const DEVICE: u8 = 2;

/// Chunks that are there when a window opens.
const READY_CHUNKS: usize = 32;

static COLLECTORS: AtomicU64 = AtomicU64::new(1);

/// See the module. What a thread does at it is in [`super::thread_writer`].
pub(crate) struct Collector {
    /// Tells collectors apart; gone with its collector.
    pub(super) number: Arc<u64>,
    pub(crate) clock: SpanClock,
    /// Which of [`HOST`] and [`DEVICE`] new spans may be; none while no window is open.
    wanted: AtomicU8,
    /// The number of the open window, 0 while none is.
    pub(super) window: AtomicU64,
    /// Threads that ever had a place here.
    pub(super) threads: AtomicU64,
    pub(super) pool: ChunkPool,
    pub(super) open: Mutex<OpenWindow>,
    pub(super) callsites: Mutex<Vec<&'static Metadata<'static>>>,
}

/// What is guarded while windows open and close, and once per thread and window.
#[derive(Default)]
pub(super) struct OpenWindow {
    windows: u64,
    start: u64,
    pub(super) buffers: Vec<Arc<EntryBuffer>>,
    step: Option<u64>,
}

/// What was written while a window was open.
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

    /// The callsites by their numbers.
    pub(crate) fn callsites(&self) -> Vec<&'static Metadata<'static>> {
        lock(&self.callsites).clone()
    }

    /// A window opens. Spans that are made from now on are recorded.
    pub(crate) fn open(&self) {
        let mut open = lock(&self.open);
        // Numbers of windows begin at 1, so that 0 says that none is open.
        open.windows += 1;
        open.start = self.clock.now();
        self.window.store(open.windows, Ordering::Release);
        drop(open);
        // Rebuilding the interest cache takes locks of `tracing`: ours is free by then.
        self.want(HOST | DEVICE);
    }

    /// The window closes. What other threads write meanwhile may be in it or not.
    pub(crate) fn close(&self) -> WindowSnapshot {
        let mut open = lock(&self.open);
        // Writers see the closed window first; what they
        // are just writing may still be in the snapshot.
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
        // A step that is open is announced anew in the next window.
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

    /// `tracing` remembers what each callsite is wanted for, so that a span that is not costs a
    /// load and a branch.
    fn want(&self, wanted: u8) {
        // Rebuilding walks all callsites of the program, so it is done only where something
        // changed.
        if self.wanted.swap(wanted, Ordering::Relaxed) != wanted {
            tracing::callsite::rebuild_interest_cache();
        }
    }

    /// Whether spans or events of this callsite are recorded now.
    pub(crate) fn wants(&self, metadata: &Metadata<'_>) -> bool {
        // The callsite's field names are fixed, so the answer holds until the next window.
        let row = metadata.fields().field("stream").is_some();
        let bit = if row { DEVICE } else { HOST };
        (row || metadata.is_span()) && self.wanted.load(Ordering::Relaxed) & bit != 0
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) == 0
    }

    /// The range of a step begins on this thread, if it has not.
    pub(crate) fn enter_step(&self, step: u64) {
        // All recorders of a session announce the same step; it is recorded once.
        if lock(&self.open).step.replace(step) != Some(step) {
            self.append(&[head(EntryKind::StepOpen, 2), step, self.clock.now()]);
        }
    }

    /// And ends.
    pub(crate) fn exit_step(&self) {
        if lock(&self.open).step.take().is_some() {
            // The time is read last, so that what the lock took is in the step and not behind it.
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
