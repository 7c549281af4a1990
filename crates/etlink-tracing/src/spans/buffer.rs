//! Entries of one thread as words: written by that thread alone, without locks, and read by the
//! thread that stops the recording.
//!
//! ```text
//! WordChunk   | head id callsite fields… | head id time | head id time | …   |       |
//!                                     len, published after the words before it ^
//! ```
//! Words are atomic only so that another thread may read up to `len` while the owner appends. On
//! common processors relaxed stores are plain stores. Chunks come from a pool and return to it when
//! their window has been read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Words per chunk, 32 KiB. A longer entry gets a chunk of its own.
const CHUNK_WORDS: usize = 4096;

/// Number of chunks kept in the pool, 32 MiB.
const POOLED: usize = 1024;

/// Locks a mutex and ignores poisoning: the guarded data is consistent after each statement.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct WordChunk {
    words: Box<[AtomicU64]>,
    len: AtomicUsize,
}

impl WordChunk {
    fn new(words: usize) -> WordChunk {
        WordChunk {
            words: std::iter::repeat_with(AtomicU64::default)
                .take(words)
                .collect(),
            len: AtomicUsize::new(0),
        }
    }

    /// Appends an entry; returns false if it does not fit. Only the owner may call this.
    #[inline]
    fn append(&self, entry: &[u64]) -> bool {
        let start = self.len.load(Ordering::Relaxed);
        let Some(free) = self.words.get(start..start + entry.len()) else {
            return false;
        };
        for (slot, word) in free.iter().zip(entry) {
            // Relaxed is enough: nobody reads these words before `len` is published.
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

/// Chunks no longer in use, and some that a thread has not released yet.
#[derive(Default)]
pub(crate) struct ChunkPool(Mutex<Vec<Arc<WordChunk>>>);

/// Empties a chunk for its next owner. Returns false if the chunk is shared.
fn reset_unshared(chunk: &mut Arc<WordChunk>) -> bool {
    match Arc::get_mut(chunk) {
        Some(chunk) => {
            *chunk.len.get_mut() = 0;
            true
        }
        None => false,
    }
}

impl ChunkPool {
    /// Adds chunks until there are at least `chunks`, so that a window does not begin with page
    /// faults.
    pub(crate) fn fill(&self, chunks: usize) {
        let mut pool = lock(&self.0);
        let missing = chunks.saturating_sub(pool.len());
        pool.extend(std::iter::repeat_with(|| Arc::new(WordChunk::new(CHUNK_WORDS))).take(missing));
    }

    /// Returns an unshared chunk.
    fn take(&self, words: usize) -> Arc<WordChunk> {
        let mut pool = lock(&self.0);
        // A chunk that its thread still holds may be written to, so only unshared ones are taken.
        if words <= CHUNK_WORDS
            && let Some(at) = pool.iter_mut().rposition(reset_unshared)
        {
            return pool.swap_remove(at);
        }
        drop(pool);
        Arc::new(WordChunk::new(words.max(CHUNK_WORDS)))
    }

    fn give(&self, chunks: impl IntoIterator<Item = Arc<WordChunk>>) {
        let mut pool = lock(&self.0);
        let room = POOLED.saturating_sub(pool.len());
        pool.extend(
            chunks
                .into_iter()
                // Chunks for one long entry are freed: they fit nothing else well.
                .filter(|chunk| chunk.words.len() == CHUNK_WORDS)
                .take(room),
        );
    }
}

/// Entries that one thread writes in one window.
pub(crate) struct EntryBuffer {
    pub(crate) thread: RecordedThread,
    chunks: Mutex<Vec<Arc<WordChunk>>>,
}

/// A thread that recorded entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedThread {
    /// Number by first use in the process, from 1, as in the execution trace.
    pub(crate) tid: u64,
    /// System thread id, or a number that no system thread has.
    pub(crate) os_tid: u64,
    pub(crate) name: String,
}

impl EntryBuffer {
    /// Returns the entries written so far, in order.
    pub(crate) fn snapshot(self: &Arc<EntryBuffer>) -> BufferSnapshot {
        let chunks = lock(&self.chunks)
            .iter()
            .map(|chunk| (Arc::clone(chunk), chunk.len.load(Ordering::Acquire)))
            .collect();
        BufferSnapshot {
            thread: self.thread.clone(),
            chunks,
        }
    }
}

/// Contents of a buffer at the end of its window.
pub(crate) struct BufferSnapshot {
    pub(crate) thread: RecordedThread,
    chunks: Vec<(Arc<WordChunk>, usize)>,
}

impl BufferSnapshot {
    /// Returns the words; the chunks go back to the pool.
    pub(crate) fn words(self, pool: &ChunkPool) -> Vec<u64> {
        let mut words = Vec::with_capacity(self.chunks.iter().map(|(_, len)| len).sum());
        self.chunks
            .iter()
            .for_each(|(chunk, len)| chunk.read(*len, &mut words));
        self.drop_into(pool);
        words
    }

    /// Discards the words; the chunks go back to the pool.
    pub(crate) fn drop_into(self, pool: &ChunkPool) {
        pool.give(self.chunks.into_iter().map(|(chunk, _)| chunk));
    }
}

/// Writing end of a buffer, held by its thread.
pub(crate) struct BufferWriter {
    buffer: Arc<EntryBuffer>,
    chunk: Arc<WordChunk>,
}

impl BufferWriter {
    pub(crate) fn new(thread: RecordedThread, pool: &ChunkPool) -> BufferWriter {
        let chunk = pool.take(0);
        BufferWriter {
            buffer: Arc::new(EntryBuffer {
                thread,
                chunks: Mutex::new(vec![Arc::clone(&chunk)]),
            }),
            chunk,
        }
    }

    pub(crate) fn buffer(&self) -> Arc<EntryBuffer> {
        Arc::clone(&self.buffer)
    }

    /// Appends an entry. O(words), plus one lock per chunk.
    #[inline]
    pub(crate) fn append(&mut self, entry: &[u64], pool: &ChunkPool) {
        if !self.chunk.append(entry) {
            self.next(entry, pool);
        }
    }

    #[cold]
    fn next(&mut self, entry: &[u64], pool: &ChunkPool) {
        self.chunk = pool.take(entry.len());
        // The entry is in the chunk before the chunk is in the list, so a snapshot never sees it
        // empty.
        self.chunk.append(entry);
        lock(&self.buffer.chunks).push(Arc::clone(&self.chunk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread() -> RecordedThread {
        RecordedThread {
            tid: 1,
            os_tid: 7,
            name: "t".into(),
        }
    }

    #[test]
    fn what_is_written_is_read_in_order_over_many_chunks() {
        let pool = ChunkPool::default();
        let mut writer = BufferWriter::new(thread(), &pool);
        let entries: Vec<Vec<u64>> = (0..5000)
            .map(|n| vec![n; (n % 7) as usize])
            .chain([vec![9; 3 * CHUNK_WORDS]])
            .collect();
        entries.iter().for_each(|entry| writer.append(entry, &pool));
        assert_eq!(writer.buffer().snapshot().words(&pool), entries.concat());
    }

    #[test]
    fn a_chunk_that_its_thread_still_holds_is_not_given_to_another() {
        let pool = ChunkPool::default();
        let mut slow = BufferWriter::new(thread(), &pool);
        slow.append(&[1], &pool);
        assert_eq!(slow.buffer().snapshot().words(&pool), [1]);
        let mut other = BufferWriter::new(thread(), &pool);
        slow.append(&[2], &pool);
        other.append(&[3], &pool);
        assert_eq!(other.buffer().snapshot().words(&pool), [3]);
        drop(slow);
        let mut reuses = BufferWriter::new(thread(), &pool);
        reuses.append(&[4], &pool);
        assert_eq!(reuses.buffer().snapshot().words(&pool), [4]);
    }
}
