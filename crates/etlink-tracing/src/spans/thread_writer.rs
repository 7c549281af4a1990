//! Per-thread writers that record into a collector while a window is open.

use super::buffer::{BufferWriter, RecordedThread, lock};
use super::clock::os_thread;
use super::collector::Collector;
use super::entry::{EntryEncoder, EntryKind};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use tracing::Metadata;

thread_local! {
    /// Writers of this thread, one per collector that it has used. Nearly always there is one.
    static THREAD_WRITERS: RefCell<Vec<ThreadWriter>> = const { RefCell::new(Vec::new()) };
}

/// Writer of one thread for one collector.
struct ThreadWriter {
    collector: u64,
    alive: Weak<u64>,
    window: u64,
    thread: RecordedThread,
    writer: BufferWriter,
    /// Callsite numbers, by the address of their metadata.
    callsites: FxHashMap<usize, u64>,
    entry: Vec<u64>,
}

/// Additional word of an entry.
#[derive(Clone, Copy)]
pub(crate) enum SecondWord {
    Callsite(&'static Metadata<'static>),
    /// Callsite, written before the first word, which is a time.
    Time(&'static Metadata<'static>),
    None,
}

impl ThreadWriter {
    #[inline]
    fn callsite(&mut self, collector: &Collector, metadata: &'static Metadata<'static>) -> u64 {
        *self
            .callsites
            .entry(std::ptr::from_ref(metadata) as usize)
            .or_insert_with(|| collector.number_callsite(metadata))
    }
}

impl Collector {
    /// Appends a span or event with its fields, which `encode` writes. No thread state is borrowed
    /// meanwhile, because printing a value may create spans.
    pub(crate) fn describe(
        &self,
        kind: EntryKind,
        first: u64,
        second: SecondWord,
        encode: impl FnOnce(&mut EntryEncoder<'_>),
    ) {
        let window = self.window.load(Ordering::Acquire);
        let begin = |thread_writer: &mut ThreadWriter| {
            let mut entry = std::mem::take(&mut thread_writer.entry);
            entry.clear();
            entry.push(0);
            match second {
                SecondWord::Callsite(metadata) => {
                    entry.extend([first, thread_writer.callsite(self, metadata)])
                }
                SecondWord::Time(metadata) => {
                    entry.extend([thread_writer.callsite(self, metadata), first])
                }
                SecondWord::None => entry.push(first),
            }
            entry
        };
        // The entry is taken out and put back, so nested spans find an empty one.
        let Some(mut entry) = self.with_thread_writer(window, begin) else {
            return;
        };
        let mut encoder = EntryEncoder(&mut entry);
        encode(&mut encoder);
        encoder.finish(kind);
        self.with_thread_writer(window, |thread_writer| {
            thread_writer.writer.append(&entry, &self.pool);
            thread_writer.entry = entry;
        });
    }

    /// Appends an entry whose words are known.
    #[inline]
    pub(super) fn append(&self, entry: &[u64]) {
        let window = self.window.load(Ordering::Acquire);
        self.with_thread_writer(window, |thread_writer| {
            thread_writer.writer.append(entry, &self.pool)
        });
    }

    /// Calls `work` with this thread's writer. Returns `None` if no window is open, or while the
    /// thread ends.
    #[inline]
    fn with_thread_writer<T>(
        &self,
        window: u64,
        work: impl FnOnce(&mut ThreadWriter) -> T,
    ) -> Option<T> {
        if window == 0 {
            return None;
        }
        let sit = |writers: &RefCell<Vec<ThreadWriter>>| {
            // Already borrowed: printing a value created a span while this one was written.
            let mut writers = writers.try_borrow_mut().ok()?;
            let at = writers.iter().position(|thread_writer| {
                thread_writer.collector == *self.number && thread_writer.window == window
            });
            // A thread has no writer for a window until its first span.
            let at = at.or_else(|| self.add_thread_writer(&mut writers, window))?;
            writers.get_mut(at).map(work)
        };
        // At the end of a thread its locals are gone while destructors may still create spans.
        THREAD_WRITERS.try_with(sit).ok().flatten()
    }

    /// Adds the thread's writer for a window.
    #[cold]
    fn add_thread_writer(&self, writers: &mut Vec<ThreadWriter>, window: u64) -> Option<usize> {
        let known = writers
            .iter()
            .position(|thread_writer| thread_writer.collector == *self.number);
        let thread = known.and_then(|at| writers.get(at)).map_or_else(
            || self.this_thread(),
            |thread_writer| thread_writer.thread.clone(),
        );
        let writer = {
            let mut open = lock(&self.open);
            // The window closed before the lock was taken: the buffer would end up in the next one.
            if self.window.load(Ordering::Acquire) != window {
                return None;
            }
            let writer = BufferWriter::new(thread.clone(), &self.pool);
            open.buffers.push(writer.buffer());
            writer
        };
        match known {
            Some(at) => {
                let thread_writer = writers.get_mut(at)?;
                (thread_writer.window, thread_writer.writer) = (window, writer);
                Some(at)
            }
            None => {
                // Collectors that are gone leave their writers behind; drop them now.
                writers.retain(|thread_writer| thread_writer.alive.strong_count() > 0);
                let (collector, alive) = (*self.number, Arc::downgrade(&self.number));
                writers.push(ThreadWriter {
                    collector,
                    alive,
                    window,
                    thread,
                    writer,
                    callsites: FxHashMap::default(),
                    entry: vec![],
                });
                Some(writers.len() - 1)
            }
        }
    }

    fn this_thread(&self) -> RecordedThread {
        let tid = self.threads.fetch_add(1, Ordering::Relaxed) + 1;
        let name = std::thread::current().name().unwrap_or("thread").to_owned();
        // without a `/proc`, use a number that no system thread has
        RecordedThread {
            tid,
            os_tid: os_thread().unwrap_or((1 << 30) + tid),
            name,
        }
    }

    fn number_callsite(&self, metadata: &'static Metadata<'static>) -> u64 {
        let mut callsites = lock(&self.callsites);
        let known = callsites
            .iter()
            .position(|known| known.callsite() == metadata.callsite());
        known.unwrap_or_else(|| {
            callsites.push(metadata);
            callsites.len() - 1
        }) as u64
    }
}
