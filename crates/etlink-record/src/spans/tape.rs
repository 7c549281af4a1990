//! What one thread recorded, as words: written by that thread alone, without locks, read by whoever stops the recording.
//!
//! ```text
//! Chunk   | head id callsite fields… | head id time | head id time | …   |       |
//!                                                                   ^ len, published after the words before it
//! ```
//! A word is an atomic only so that another thread may read up to `len` while the owner goes on behind it; on the usual
//! processors relaxed stores are plain ones. Chunks come from a pool and go back to it when their window has been read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Words of a chunk, 32 KiB. An entry that is longer gets a chunk of its own.
const CHUNK_WORDS: usize = 4096;

/// How many chunks the pool keeps, 32 MiB.
const POOLED: usize = 1024;

/// A lock that outlives panics: what it guards is whole after each statement.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Chunk {
    words: Box<[AtomicU64]>,
    len: AtomicUsize,
}

impl Chunk {
    fn new(words: usize) -> Chunk {
        Chunk {
            words: std::iter::repeat_with(AtomicU64::default)
                .take(words)
                .collect(),
            len: AtomicUsize::new(0),
        }
    }

    /// Whether it fitted. Only the owner calls this.
    #[inline]
    fn append(&self, entry: &[u64]) -> bool {
        let start = self.len.load(Ordering::Relaxed);
        let Some(free) = self.words.get(start..start + entry.len()) else {
            return false;
        };
        for (slot, word) in free.iter().zip(entry) {
            slot.store(*word, Ordering::Relaxed);
        }
        self.len.store(start + entry.len(), Ordering::Release);
        true
    }

    fn read(&self, len: usize, into: &mut Vec<u64>) {
        into.extend(
            self.words
                .iter()
                .take(len)
                .map(|word| word.load(Ordering::Relaxed)),
        );
    }
}

/// Chunks that nobody writes to or reads any more, and some that a thread has not let go of yet.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Arc<Chunk>>>);

impl Pool {
    /// Makes `chunks` at least, so that a window does not begin with page faults.
    pub(crate) fn fill(&self, chunks: usize) {
        let mut pool = lock(&self.0);
        let missing = chunks.saturating_sub(pool.len());
        pool.extend(std::iter::repeat_with(|| Arc::new(Chunk::new(CHUNK_WORDS))).take(missing));
    }

    /// One that nobody else holds.
    fn take(&self, words: usize) -> Arc<Chunk> {
        let mut pool = lock(&self.0);
        let reset = |chunk: &mut Arc<Chunk>| {
            Arc::get_mut(chunk)
                .map(|chunk| *chunk.len.get_mut() = 0)
                .is_some()
        };
        if words <= CHUNK_WORDS
            && let Some(at) = pool.iter_mut().rposition(reset)
        {
            return pool.swap_remove(at);
        }
        drop(pool);
        Arc::new(Chunk::new(words.max(CHUNK_WORDS)))
    }

    fn give(&self, chunks: impl IntoIterator<Item = Arc<Chunk>>) {
        let mut pool = lock(&self.0);
        let room = POOLED.saturating_sub(pool.len());
        pool.extend(
            chunks
                .into_iter()
                .filter(|chunk| chunk.words.len() == CHUNK_WORDS)
                .take(room),
        );
    }
}

/// All that one thread writes in one window.
pub(crate) struct Tape {
    pub(crate) thread: Thread,
    chunks: Mutex<Vec<Arc<Chunk>>>,
}

/// A thread that recorded something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    /// Number in the order of first use in the process, from 1, as the execution trace has it.
    pub(crate) tid: u64,
    /// The system's number, or one that no thread of the system has.
    pub(crate) os_tid: u64,
    pub(crate) name: String,
}

impl Tape {
    /// What the thread had written when this is called, in its order.
    pub(crate) fn cut(self: &Arc<Tape>) -> Cut {
        let chunks = lock(&self.chunks)
            .iter()
            .map(|chunk| (Arc::clone(chunk), chunk.len.load(Ordering::Acquire)))
            .collect();
        Cut {
            thread: self.thread.clone(),
            chunks,
        }
    }
}

/// A tape up to where it was when its window ended.
pub(crate) struct Cut {
    pub(crate) thread: Thread,
    chunks: Vec<(Arc<Chunk>, usize)>,
}

impl Cut {
    /// Its words; the chunks go back to the pool.
    pub(crate) fn words(self, pool: &Pool) -> Vec<u64> {
        let mut words = Vec::with_capacity(self.chunks.iter().map(|(_, len)| len).sum());
        self.chunks
            .iter()
            .for_each(|(chunk, len)| chunk.read(*len, &mut words));
        self.drop_into(pool);
        words
    }

    /// Nobody wants to know.
    pub(crate) fn drop_into(self, pool: &Pool) {
        pool.give(self.chunks.into_iter().map(|(chunk, _)| chunk));
    }
}

/// The owner's end of a tape.
pub(crate) struct Writer {
    tape: Arc<Tape>,
    chunk: Arc<Chunk>,
}

impl Writer {
    pub(crate) fn new(thread: Thread, pool: &Pool) -> Writer {
        let chunk = pool.take(0);
        Writer {
            tape: Arc::new(Tape {
                thread,
                chunks: Mutex::new(vec![Arc::clone(&chunk)]),
            }),
            chunk,
        }
    }

    pub(crate) fn tape(&self) -> Arc<Tape> {
        Arc::clone(&self.tape)
    }

    /// O(words), and once per chunk a lock.
    #[inline]
    pub(crate) fn append(&mut self, entry: &[u64], pool: &Pool) {
        if !self.chunk.append(entry) {
            self.next(entry, pool);
        }
    }

    #[cold]
    fn next(&mut self, entry: &[u64], pool: &Pool) {
        self.chunk = pool.take(entry.len());
        self.chunk.append(entry);
        lock(&self.tape.chunks).push(Arc::clone(&self.chunk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread() -> Thread {
        Thread {
            tid: 1,
            os_tid: 7,
            name: "t".into(),
        }
    }

    #[test]
    fn what_is_written_is_read_in_order_over_many_chunks() {
        let pool = Pool::default();
        let mut writer = Writer::new(thread(), &pool);
        let entries: Vec<Vec<u64>> = (0..5000)
            .map(|n| vec![n; (n % 7) as usize])
            .chain([vec![9; 3 * CHUNK_WORDS]])
            .collect();
        entries.iter().for_each(|entry| writer.append(entry, &pool));
        assert_eq!(writer.tape().cut().words(&pool), entries.concat());
    }

    #[test]
    fn a_chunk_that_its_thread_still_holds_is_not_given_to_another() {
        let pool = Pool::default();
        let mut slow = Writer::new(thread(), &pool);
        slow.append(&[1], &pool);
        assert_eq!(slow.tape().cut().words(&pool), [1]);
        let mut other = Writer::new(thread(), &pool);
        slow.append(&[2], &pool);
        other.append(&[3], &pool);
        assert_eq!(other.tape().cut().words(&pool), [3]);
        drop(slow);
        let mut reuses = Writer::new(thread(), &pool);
        reuses.append(&[4], &pool);
        assert_eq!(reuses.tape().cut().words(&pool), [4]);
    }
}
