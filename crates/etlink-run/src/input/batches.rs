//! Inflates small gzip members side by side: the blocks of bgzip, or `cat *.gz`.
//!
//! Where a member ends is known only when it has been inflated, so ends are guessed: before the
//! next bytes that look like a header. A guess holds if the member inflates to its very end there,
//! with the size and the checksum that it states. At the first that does not hold, guessing is
//! over: the rest is inflated one by one, which meets damage as it does in any file.

use super::FailingSource;
use super::member::{Member, Stored};
use memchr::memmem;
use std::io::{BufReader, Cursor, Read};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What one thread inflates at a time; larger members are left to one thread.
// members of bgzip have 64 KiB: a share holds many
const SHARE_BYTES: usize = 1 << 20;
const READ_BYTES: u64 = 128 << 10;
const HEADER_BYTES: usize = 10;

/// Members, a batch at a time.
pub(super) struct Batches {
    stored: Stored,
    /// Nothing follows the window.
    ended: bool,
    /// Stored bytes from the batch on.
    window: Vec<u8>,
    /// How much of the window is inflated.
    inflated: usize,
    members: Vec<Guess>,
    shares: Vec<Share>,
    /// The share that is being given out, and from where on.
    next: (usize, usize),
    guessing: bool,
}

/// A part of the window that seems to be a member.
struct Guess {
    stored: Range<usize>,
    /// Its unpacked size, and that of the batch before it.
    size: usize,
    before: usize,
}

/// A thread's part of a batch, and what it made of it.
struct Share {
    member: Member,
    text: Vec<u8>,
    /// Size of the text that is right.
    whole: usize,
    /// Where in the window it ends.
    end: usize,
    /// A guess did not hold.
    broken: bool,
}

impl Batches {
    pub(super) fn new(stored: Stored, threads: usize) -> Batches {
        let shares = (0..threads)
            .map(|_| Share {
                member: Member::new(),
                text: vec![],
                whole: 0,
                end: 0,
                broken: false,
            })
            .collect();
        Batches {
            stored,
            ended: false,
            window: vec![],
            inflated: 0,
            members: vec![],
            shares,
            next: (0, 0),
            guessing: true,
        }
    }

    /// Gives out what comes next; nothing when the rest is to be inflated one by one.
    pub(super) fn read(&mut self, text: &mut [u8]) -> usize {
        loop {
            while let Some(share) = self.shares.get(self.next.0) {
                let rest = &share.text[self.next.1..share.whole];
                let size = rest.len().min(text.len());
                if size > 0 {
                    text[..size].copy_from_slice(&rest[..size]);
                    self.next.1 += size;
                    return size;
                }
                self.next = (self.next.0 + 1, 0);
            }
            if !self.guessing || !self.inflate_batch() {
                return 0;
            }
        }
    }

    /// The stored bytes that have not been inflated.
    pub(super) fn into_rest(mut self) -> Stored {
        Box::new(Cursor::new(self.window.split_off(self.inflated)).chain(self.stored))
    }

    /// Inflates the next batch; whether there was any.
    fn inflate_batch(&mut self) -> bool {
        self.window.drain(..self.inflated);
        let size = self.guess_members();
        // no more groups than shares
        // by unpacked size, which is what inflating takes its time for
        let share_bytes = size / self.shares.len() + 1;
        let groups = self
            .members
            .chunk_by(|a, b| a.before / share_bytes == b.before / share_bytes);
        let window = &self.window;
        self.shares
            .iter_mut()
            .for_each(|share| (share.whole, share.end, share.broken) = (0, 0, false));
        let shares: Vec<Mutex<&mut Share>> = self.shares.iter_mut().map(Mutex::new).collect();
        std::thread::scope(|scope| {
            for (share, members) in shares.iter().zip(groups) {
                let inflate = move || {
                    let mut share = share.lock().unwrap_or_else(PoisonError::into_inner);
                    share.inflate(window, members);
                };
                let thread = std::thread::Builder::new();
                // a limit of the process: this thread does it then
                if thread.spawn_scoped(scope, inflate).is_err() {
                    inflate();
                }
            }
        });
        (self.inflated, self.next) = (0, (0, 0));
        for share in &mut self.shares {
            if self.guessing {
                self.inflated = self.inflated.max(share.end);
                self.guessing = !share.broken;
            } else {
                // cut at a place that the broken guess made up
                share.whole = 0;
            }
        }
        self.inflated > 0
    }

    /// Guesses the next batch's members; their size in all.
    fn guess_members(&mut self) -> usize {
        self.members.clear();
        let (mut start, mut before) = (0, 0);
        while let Some(end) = self.guess_end(start) {
            let Some(size) = self.window[start..end].last_chunk() else {
                break;
            };
            let size = u32::from_le_bytes(*size) as usize;
            // a large member is inflated as it is read: nobody has to hold it in memory for a guess
            if size > SHARE_BYTES || before + size > self.batch_bytes() {
                break;
            }
            self.members.push(Guess {
                stored: start..end,
                size,
                before,
            });
            (start, before) = (end, before + size);
        }
        before
    }

    /// Where the member at `start` seems to end, if that is not too far.
    fn guess_end(&mut self, start: usize) -> Option<usize> {
        let mut from = start + HEADER_BYTES;
        loop {
            let rest = self.window.get(from..).unwrap_or_default();
            if let Some(at) =
                memmem::find_iter(rest, b"\x1f\x8b\x08").find(|at| is_header(&rest[*at..]))
            {
                return Some(from + at);
            }
            // one that is cut off is looked at again
            from = from.max(self.window.len().saturating_sub(HEADER_BYTES - 1));
            if !self.read_more() {
                return self.ended.then_some(self.window.len());
            }
        }
    }

    fn read_more(&mut self) -> bool {
        if self.ended || self.window.len() >= self.batch_bytes() {
            return false;
        }
        match self
            .stored
            .by_ref()
            .take(READ_BYTES)
            .read_to_end(&mut self.window)
        {
            Ok(read) => self.ended = read == 0,
            Err(error) => {
                // is told again behind what has been read
                self.stored = Box::new(BufReader::new(FailingSource(Some(error))));
                return false;
            }
        }
        !self.ended
    }

    /// The most that a batch holds, stored or inflated.
    fn batch_bytes(&self) -> usize {
        SHARE_BYTES * self.shares.len()
    }
}

impl Share {
    fn inflate(&mut self, window: &[u8], members: &[Guess]) {
        self.text
            .resize(members.iter().map(|member| member.size).sum(), 0);
        for guess in members {
            let (mut stored, size) = (&window[guess.stored.clone()], guess.size);
            let text = &mut self.text[self.whole..][..size];
            self.member.reset();
            // the size comes from the trailer: only a whole member has that size, and nothing after
            // it
            let fits = size == 0
                || matches!(self.member.read(&mut stored, text), Ok(read) if read == size);
            if !fits
                || !matches!(self.member.read(&mut stored, &mut [0]), Ok(0))
                || !stored.is_empty()
            {
                self.broken = true;
                return;
            }
            (self.whole, self.end) = (self.whole + size, guess.stored.end);
        }
    }
}

/// Whether a member can begin here: reserved flags are not set, level and system are known ones.
fn is_header(stored: &[u8]) -> bool {
    matches!(
        stored,
        [_, _, _, 0..32, _, _, _, _, 0 | 2 | 4, 0..=13 | 255, ..]
    )
}
