//! Selects ranges that can be steps: none nested in, or concurrent with, another.

use etlink_model::{DeviceTrace, OpIdx, ThreadIdx, TimeNs};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// Ranges of which no two overlap.
///
/// Of nested ranges, the outermost counts. If ranges of two threads overlap, such as those of a
/// loader's and a training thread, only the thread with most of them counts: the rest of a mixture
/// would be neither thread's steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeparateRanges {
    /// Ranges, sorted by time.
    pub ops: Vec<OpIdx>,
    /// Number of outermost ranges of other threads that are left out.
    pub excluded: u64,
    /// Thread whose ranges are kept; `None` if none were left out.
    pub thread: Option<ThreadIdx>,
    /// Number of threads with such ranges.
    pub threads: usize,
}

impl SeparateRanges {
    /// Selects among these ops of a trace, sorted by time, longer ones first at equal starts.
    /// O(ops).
    pub fn choose(device: &DeviceTrace, ops: impl Iterator<Item = OpIdx>) -> SeparateRanges {
        let end = |op: OpIdx| device.ops.start[op.index()] + device.ops.duration[op.index()];
        let mut threads: IndexMap<ThreadIdx, (TimeNs, Vec<OpIdx>), FxBuildHasher> =
            IndexMap::default();
        // outermost ranges of all threads; any overlap between them is noted
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
        // of equals, the first, so that each run of the command chooses the same
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

    /// Note on the ranges left out and the reason; `what` names the ranges. `None` if there are
    /// none.
    pub fn note(&self, device: &DeviceTrace, what: &str) -> Option<String> {
        let thread = device.threads.get(self.thread?.index())?;
        Some(format!(
            "{what} on {} threads overlap: the {} on thread {} are used as steps, and the {} on other \
             threads are not",
            self.threads,
            self.ops.len(),
            device.label(thread.tid),
            self.excluded
        ))
    }
}
