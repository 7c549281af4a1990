//! Writes blocks of output that are made on all threads of the rayon pool, in order.
//!
//! Each thread in turn makes the next block, waits until the previous block is written, and writes
//! its own, which is still in its core's cache. A thread thus holds one block, and no thread waits
//! as long as making blocks takes longer than writing them. The output does not depend on the
//! number of threads.

use crate::WriteSummary;
use rayon::prelude::*;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

/// A piece of the output and its summary.
pub(crate) struct OutputBlock {
    pub(crate) bytes: Vec<u8>,
    pub(crate) summary: WriteSummary,
}

/// State that the writer of a block passes to the writer of the next.
struct WriteTurn<'o, W> {
    out: &'o mut W,
    summary: WriteSummary,
}

/// Blocks that no thread has started yet.
struct PendingBlocks<'o, W> {
    next: usize,
    /// Receives the state from the writer of the block before `next`.
    before: Receiver<WriteTurn<'o, W>>,
}

/// Calls `make` to append each of `blocks` blocks to given memory, and writes the blocks in order.
/// Neither `make` nor `out` may use the pool: a waiting thread could begin the next block and wait
/// for itself.
pub(crate) fn write<W: Write + Send>(
    out: &mut W,
    blocks: usize,
    make: impl Fn(usize, Vec<u8>) -> io::Result<OutputBlock> + Sync,
) -> io::Result<WriteSummary> {
    // Capacity for one, so that passing on never waits for the next writer.
    let (start, before) = sync_channel(1);
    drop(start.send(WriteTurn {
        out,
        summary: WriteSummary::default(),
    }));
    let rest = Mutex::new(PendingBlocks { next: 0, before });
    (0..rayon::current_num_threads())
        .into_par_iter()
        // One item per thread of the pool, so that all of them take part.
        .with_max_len(1)
        .try_for_each(|_| {
            let mut memory = vec![];
            while let Some((block, before, after)) = take_next(&rest, blocks) {
                memory.clear();
                let made = make(block, memory)?;
                memory = made.bytes;
                // The previous writer has failed, and reports its error.
                let Ok(mut baton) = before.recv() else { break };
                baton.out.write_all(&memory)?;
                baton.summary.add(&made.summary);
                baton.summary.bytes += memory.len() as u64;
                drop(after.send(baton));
            }
            Ok::<_, io::Error>(())
        })?;
    let rest = rest.into_inner().unwrap_or_else(PoisonError::into_inner);
    let baton = rest.before.recv().map_err(io::Error::other)?;
    baton.out.flush()?;
    Ok(baton.summary)
}

type Turn<'o, W> = (
    usize,
    Receiver<WriteTurn<'o, W>>,
    SyncSender<WriteTurn<'o, W>>,
);

/// Returns the number of the next block, and the channels from the previous writer and to the next.
fn take_next<'o, W>(rest: &Mutex<PendingBlocks<'o, W>>, blocks: usize) -> Option<Turn<'o, W>> {
    let mut rest = rest.lock().unwrap_or_else(PoisonError::into_inner);
    let block = rest.next;
    if block == blocks {
        return None;
    }
    let (after, next) = sync_channel(1);
    rest.next += 1;
    Some((block, std::mem::replace(&mut rest.before, next), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(block: usize, mut bytes: Vec<u8>) -> io::Result<OutputBlock> {
        writeln!(bytes, "{block}")?;
        Ok(OutputBlock {
            bytes,
            summary: WriteSummary {
                nodes: 1,
                ..WriteSummary::default()
            },
        })
    }

    #[test]
    fn blocks_are_written_in_order() {
        for blocks in [0, 1, 5_000] {
            let mut out = vec![];
            let summary = write(&mut out, blocks, numbered).expect("writes");
            let want: String = (0..blocks).map(|block| format!("{block}\n")).collect();
            assert_eq!(String::from_utf8_lossy(&out), want);
            assert_eq!(
                (summary.nodes, summary.bytes),
                (blocks as u64, want.len() as u64)
            );
        }
    }

    #[test]
    fn a_full_disk_ends_it() {
        let mut out = [0; 2_000];
        let error = write(&mut out.as_mut_slice(), 5_000, numbered).expect_err("no room");
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }

    #[test]
    fn a_block_that_cannot_be_made_ends_it() {
        let make = |block, bytes| {
            if block == 70 {
                Err(io::Error::other("seventy"))
            } else {
                numbered(block, bytes)
            }
        };
        let mut out = vec![];
        assert_eq!(
            write(&mut out, 5_000, make).expect_err("fails").to_string(),
            "seventy"
        );
        assert!(out.ends_with(b"\n69\n"));
    }
}
