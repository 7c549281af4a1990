//! Ranges that can be steps: none inside another, and none beside another.

use etlink_model::{DeviceTrace, OpIdx, ThreadIdx, TimeNs};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// Ranges of which no two are at the same time.
///
/// Of nested ones the outermost counts. Where ranges of two threads overlap, as those of a loader's
/// thread beside those of training, only the thread with most of them counts: what is left of a
/// mixture would be neither one thread's steps nor the other's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeparateRanges {
    /// In order of time.
    pub ops: Vec<OpIdx>,
    /// Outermost ranges of other threads, which are not among them.
    pub excluded: u64,
    /// The thread that counts, where ranges were left out.
    pub thread: Option<ThreadIdx>,
    /// How many threads had ranges.
    pub threads: usize,
}

impl SeparateRanges {
    /// Of these ops of a trace, which are in order of time, at equal starts the longer first.
    /// O(ops).
    pub fn choose(device: &DeviceTrace, ops: impl Iterator<Item = OpIdx>) -> SeparateRanges {
        let end = |op: OpIdx| device.ops.start[op.index()] + device.ops.duration[op.index()];
        let mut threads: IndexMap<ThreadIdx, (TimeNs, Vec<OpIdx>), FxBuildHasher> =
            IndexMap::default();
        // the outermost ranges of all threads, and whether any two of them overlap
        let mut all = vec![];
        let mut last_end = None;
        let mut has_overlap = false;
        for op in ops {
            let start = device.ops.start[op.index()];
            let own = threads.entry(device.ops.thread[op.index()]);
            let (own_end, outermost) = own.or_insert_with(|| (TimeNs(i64::MIN), vec![]));
            if start < *own_end {
                continue;
            }
            *own_end = end(op);
            outermost.push(op);
            has_overlap |= last_end.is_some_and(|last| start < last);
            last_end = last_end.max(Some(end(op)));
            all.push(op);
        }
        let count = threads.len();
        if !has_overlap {
            return SeparateRanges {
                ops: all,
                excluded: 0,
                thread: None,
                threads: count,
            };
        }
        // of equals the first, so that each run of the command chooses the same
        let most = threads.into_iter().reduce(|most, next| {
            if next.1.1.len() > most.1.1.len() {
                next
            } else {
                most
            }
        });
        let (thread, ops) = most.map(|(thread, (_, ops))| (thread, ops)).unzip();
        let ops: Vec<OpIdx> = ops.unwrap_or_default();
        SeparateRanges {
            excluded: (all.len() - ops.len()) as u64,
            ops,
            thread,
            threads: count,
        }
    }

    /// What was left out and why; `what` are the ranges. None where nothing was.
    pub fn note(&self, device: &DeviceTrace, what: &str) -> Option<String> {
        let thread = device.threads.get(self.thread?.index())?;
        Some(format!(
            "{what} of {} threads overlap: the {} of thread {} are the steps, the {} of other \
             threads are none",
            self.threads,
            self.ops.len(),
            device.label(thread.tid),
            self.excluded
        ))
    }
}
