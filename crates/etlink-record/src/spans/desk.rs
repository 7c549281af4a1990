//! A thread's place at a tap: what it writes with while a window is open.

use super::clock::os_thread;
use super::entry::{Encoder, Kind};
use super::tap::Tap;
use super::tape::{Thread, Writer, lock};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use tracing::Metadata;

thread_local! {
    /// What this thread writes to, for each tap that it has met. Nearly always there is one.
    static DESKS: RefCell<Vec<Desk>> = const { RefCell::new(Vec::new()) };
}

/// A thread's place at a tap.
struct Desk {
    tap: u64,
    alive: Weak<u64>,
    window: u64,
    thread: Thread,
    writer: Writer,
    /// Numbers of callsites, by the address of their metadata.
    callsites: FxHashMap<usize, u64>,
    entry: Vec<u64>,
}

/// What an entry has beside its first word.
#[derive(Clone, Copy)]
pub(crate) enum Second {
    Callsite(&'static Metadata<'static>),
    /// The first word is a time, and comes second.
    Time(&'static Metadata<'static>),
    None,
}

impl Desk {
    #[inline]
    fn callsite(&mut self, tap: &Tap, metadata: &'static Metadata<'static>) -> u64 {
        *self
            .callsites
            .entry(std::ptr::from_ref(metadata) as usize)
            .or_insert_with(|| tap.number_callsite(metadata))
    }
}

impl Tap {
    /// A span or event with its fields, which `encode` writes. It runs while nothing of the thread is borrowed: a value that is
    /// printed may make spans of its own.
    pub(crate) fn describe(
        &self,
        kind: Kind,
        first: u64,
        second: Second,
        encode: impl FnOnce(&mut Encoder<'_>),
    ) {
        let window = self.window.load(Ordering::Acquire);
        let begin = |desk: &mut Desk| {
            let mut entry = std::mem::take(&mut desk.entry);
            entry.clear();
            entry.push(0);
            match second {
                Second::Callsite(metadata) => entry.extend([first, desk.callsite(self, metadata)]),
                Second::Time(metadata) => entry.extend([desk.callsite(self, metadata), first]),
                Second::None => entry.push(first),
            }
            entry
        };
        let Some(mut entry) = self.at_desk(window, begin) else {
            return;
        };
        let mut encoder = Encoder(&mut entry);
        encode(&mut encoder);
        encoder.finish(kind);
        self.at_desk(window, |desk| {
            desk.writer.append(&entry, &self.pool);
            desk.entry = entry;
        });
    }

    /// An entry whose words are known.
    #[inline]
    pub(super) fn append(&self, entry: &[u64]) {
        let window = self.window.load(Ordering::Acquire);
        self.at_desk(window, |desk| desk.writer.append(entry, &self.pool));
    }

    /// None where no window is open, and while the thread ends.
    #[inline]
    fn at_desk<T>(&self, window: u64, work: impl FnOnce(&mut Desk) -> T) -> Option<T> {
        if window == 0 {
            return None;
        }
        let sit = |desks: &RefCell<Vec<Desk>>| {
            let mut desks = desks.try_borrow_mut().ok()?;
            let at = desks
                .iter()
                .position(|desk| desk.tap == *self.number && desk.window == window);
            let at = at.or_else(|| self.take_desk(&mut desks, window))?;
            desks.get_mut(at).map(work)
        };
        DESKS.try_with(sit).ok().flatten()
    }

    /// The thread's first entry in a window.
    #[cold]
    fn take_desk(&self, desks: &mut Vec<Desk>, window: u64) -> Option<usize> {
        let known = desks.iter().position(|desk| desk.tap == *self.number);
        let thread = known
            .and_then(|at| desks.get(at))
            .map_or_else(|| self.this_thread(), |desk| desk.thread.clone());
        let writer = {
            let mut open = lock(&self.open);
            if self.window.load(Ordering::Acquire) != window {
                return None;
            }
            let writer = Writer::new(thread.clone(), &self.pool);
            open.tapes.push(writer.tape());
            writer
        };
        match known {
            Some(at) => {
                let desk = desks.get_mut(at)?;
                (desk.window, desk.writer) = (window, writer);
                Some(at)
            }
            None => {
                desks.retain(|desk| desk.alive.strong_count() > 0);
                let (tap, alive) = (*self.number, Arc::downgrade(&self.number));
                desks.push(Desk {
                    tap,
                    alive,
                    window,
                    thread,
                    writer,
                    callsites: FxHashMap::default(),
                    entry: vec![],
                });
                Some(desks.len() - 1)
            }
        }
    }

    fn this_thread(&self) -> Thread {
        let tid = self.threads.fetch_add(1, Ordering::Relaxed) + 1;
        let name = std::thread::current().name().unwrap_or("thread").to_owned();
        // where the system does not tell, a number that is surely none of its
        Thread {
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
