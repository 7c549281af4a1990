//! Where spans are taken up while a window is open: one per [`Spans`](crate::Spans).

use super::clock::{Clock, os_thread};
use super::entry::{Encoder, Kind, head};
use super::tape::{Cut, Pool, Tape, Thread, Writer, lock};
use crate::Activity;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tracing::Metadata;

/// Bits of what is recorded: spans of the host, rows of devices.
const HOST: u8 = 1;
const DEVICE: u8 = 2;

/// Chunks that are there when a window opens.
const READY_CHUNKS: usize = 32;

static TAPS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// What this thread writes to, for each tap that it has met. Nearly always there is one.
    static DESKS: RefCell<Vec<Desk>> = const { RefCell::new(Vec::new()) };
}

/// A thread's place at a tap.
struct Desk {
    tap: u64,
    window: u64,
    thread: Thread,
    writer: Writer,
    /// Numbers of callsites, by the address of their metadata.
    callsites: FxHashMap<usize, u64>,
    entry: Vec<u64>,
}

pub(crate) struct Tap {
    number: u64,
    pub(crate) clock: Clock,
    /// Which of [`HOST`] and [`DEVICE`] new spans may be; none while no window is open.
    wanted: AtomicU8,
    /// The number of the open window, 0 while none is.
    window: AtomicU64,
    threads: AtomicU64,
    pool: Pool,
    open: Mutex<Open>,
    callsites: Mutex<Vec<&'static Metadata<'static>>>,
}

/// What is guarded while windows open and close, and once per thread and window.
#[derive(Default)]
struct Open {
    windows: u64,
    start: u64,
    tapes: Vec<Arc<Tape>>,
    step: Option<u64>,
}

/// What was written while a window was open.
pub(crate) struct Cuts {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) cuts: Vec<Cut>,
}

impl Tap {
    pub(crate) fn new() -> Tap {
        Tap {
            number: TAPS.fetch_add(1, Ordering::Relaxed),
            clock: Clock::new(),
            wanted: AtomicU8::new(0),
            window: AtomicU64::new(0),
            threads: AtomicU64::new(0),
            pool: Pool::default(),
            open: Mutex::default(),
            callsites: Mutex::default(),
        }
    }

    pub(crate) fn warm_up(&self) {
        self.pool.fill(READY_CHUNKS);
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The callsites by their numbers.
    pub(crate) fn callsites(&self) -> Vec<&'static Metadata<'static>> {
        lock(&self.callsites).clone()
    }

    /// A window opens. Spans that are made from now on are recorded.
    pub(crate) fn open(&self) {
        let mut open = lock(&self.open);
        open.windows += 1;
        open.start = self.clock.now();
        self.window.store(open.windows, Ordering::Release);
        drop(open);
        self.want(HOST | DEVICE);
    }

    /// The window closes. What other threads write meanwhile may be in it or not.
    pub(crate) fn close(&self) -> Cuts {
        let mut open = lock(&self.open);
        self.window.store(0, Ordering::Release);
        let cuts = std::mem::take(&mut open.tapes).iter().map(Tape::cut).collect();
        let cuts = Cuts { start: open.start, end: self.clock.now(), cuts };
        open.step = None;
        drop(open);
        self.want(0);
        cuts
    }

    pub(crate) fn toggle(&self, activity: Activity, on: bool) {
        let bit = if activity == Activity::Cpu { HOST } else { DEVICE };
        let wanted = self.wanted.load(Ordering::Relaxed);
        self.want(if on { wanted | bit } else { wanted & !bit });
    }

    /// `tracing` remembers what each callsite is wanted for, so that a span that is not costs a load and a branch.
    fn want(&self, wanted: u8) {
        if self.wanted.swap(wanted, Ordering::Relaxed) != wanted {
            tracing::callsite::rebuild_interest_cache();
        }
    }

    /// Whether spans or events of this callsite are recorded now.
    pub(crate) fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let row = metadata.fields().field("stream").is_some();
        let bit = if row { DEVICE } else { HOST };
        (row || metadata.is_span()) && self.wanted.load(Ordering::Relaxed) & bit != 0
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) == 0
    }

    /// The range of a step begins on this thread, if it has not.
    pub(crate) fn enter_step(&self, step: u64) {
        if lock(&self.open).step.replace(step) != Some(step) {
            self.append(&[head(Kind::StepOpen, 2), step, self.clock.now()]);
        }
    }

    /// And ends.
    pub(crate) fn exit_step(&self) {
        if lock(&self.open).step.take().is_some() {
            self.append(&[head(Kind::StepClose, 1), self.clock.now()]);
        }
    }

    #[inline]
    pub(crate) fn enter(&self, span: u64) {
        self.append(&[head(Kind::Enter, 2), span, self.clock.now()]);
    }

    #[inline]
    pub(crate) fn exit(&self, span: u64) {
        self.append(&[head(Kind::Exit, 2), span, self.clock.now()]);
    }

    /// A span or event with its fields, which `encode` writes. It runs while nothing of the thread is borrowed: a value that is
    /// printed may make spans of its own.
    pub(crate) fn describe(&self, kind: Kind, first: u64, second: Second, encode: impl FnOnce(&mut Encoder<'_>)) {
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
        let Some(mut entry) = self.at_desk(window, begin) else { return };
        let mut encoder = Encoder(&mut entry);
        encode(&mut encoder);
        encoder.finish(kind);
        self.at_desk(window, |desk| {
            desk.writer.append(&entry, &self.pool);
            desk.entry = entry;
        });
    }

    #[inline]
    fn append(&self, entry: &[u64]) {
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
            let at = desks.iter().position(|desk| desk.tap == self.number && desk.window == window);
            let at = at.or_else(|| self.take_desk(&mut desks, window))?;
            desks.get_mut(at).map(work)
        };
        DESKS.try_with(sit).ok().flatten()
    }

    /// The thread's first entry in a window.
    #[cold]
    fn take_desk(&self, desks: &mut Vec<Desk>, window: u64) -> Option<usize> {
        let known = desks.iter().position(|desk| desk.tap == self.number);
        let thread = known.and_then(|at| desks.get(at)).map_or_else(|| self.this_thread(), |desk| desk.thread.clone());
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
                desks.push(Desk { tap: self.number, window, thread, writer, callsites: FxHashMap::default(), entry: vec![] });
                Some(desks.len() - 1)
            }
        }
    }

    fn this_thread(&self) -> Thread {
        let tid = self.threads.fetch_add(1, Ordering::Relaxed) + 1;
        let name = std::thread::current().name().unwrap_or("thread").to_owned();
        // where the system does not tell, a number that is surely none of its
        Thread { tid, os_tid: os_thread().unwrap_or((1 << 31) + tid), name }
    }

    fn number_callsite(&self, metadata: &'static Metadata<'static>) -> u64 {
        let mut callsites = lock(&self.callsites);
        let known = callsites.iter().position(|known| known.callsite() == metadata.callsite());
        known.unwrap_or_else(|| {
            callsites.push(metadata);
            callsites.len() - 1
        }) as u64
    }
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
        *self.callsites.entry(std::ptr::from_ref(metadata) as usize).or_insert_with(|| tap.number_callsite(metadata))
    }
}
