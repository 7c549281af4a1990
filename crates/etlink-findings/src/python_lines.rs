//! Which lines of Python a cause comes from.
//!
//! An op is called from many places: one of them alone would look like the cause.

use crate::candidate::CauseEvidence;
use crate::view::RankView;
use etlink_model::ThreadIdx;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Occurrences that are looked up, the longest ones: each look goes back over earlier frames.
const MOST_LOOKUPS: usize = 1_000;

/// When and where a cause occurs.
#[derive(Clone, Debug, Default)]
pub(crate) struct PythonLines {
    /// Length, thread and instant of each occurrence.
    occurrences: Vec<(i64, ThreadIdx, i64)>,
}

impl PythonLines {
    /// Notes an occurrence of this length; `time` is an instant in it.
    pub(crate) fn add(&mut self, length_ns: i64, thread: ThreadIdx, time: i64) {
        self.occurrences.push((length_ns, thread, time));
    }

    /// Says in `evidence` how many lines it comes from, and which has most of the time.
    pub(crate) fn describe(mut self, view: &RankView<'_>, evidence: &mut CauseEvidence) {
        self.occurrences.sort_unstable_by_key(|one| Reverse(*one));
        let mut lines: BTreeMap<String, i64> = BTreeMap::new();
        for (length, thread, time) in self.occurrences.into_iter().take(MOST_LOOKUPS) {
            if let Some(line) = view.python_at(thread, time) {
                let sum = lines.entry(line).or_default();
                *sum = sum.saturating_add(length);
            }
        }
        evidence.python_lines = lines.len() as u64;
        // of equals the line that sorts first
        let most = lines.into_iter().rev().max_by_key(|(_, ns)| *ns);
        if let Some((line, ns)) = most {
            (evidence.python, evidence.python_ns) = (Some(line), ns);
        }
    }
}
