//! Lines of Python that a cause comes from.
//!
//! An op is called from many places: naming one of them alone would make it look like the cause.

use crate::findings::candidate::CauseEvidence;
use crate::findings::host_span::HostSpan;
use crate::findings::view::RankView;
use crate::python_line;
use etlink_model::ThreadIdx;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of instants looked up: each lookup scans earlier frames.
const MOST_LOOKUPS: i64 = 1_000;

/// Occurrences of a cause.
#[derive(Clone, Debug, Default)]
pub(crate) struct PythonLines {
    occurrences: Vec<Occurrence>,
}

/// An occurrence, ordered by length first: the longest are looked up before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Occurrence {
    length: i64,
    thread: ThreadIdx,
    start: i64,
    /// True for a stretch in which Python runs on, from line to line.
    is_span: bool,
}

impl PythonLines {
    /// Adds the occurrences of another part of the same cause.
    pub(crate) fn extend(&mut self, other: PythonLines) {
        self.occurrences.extend(other.occurrences);
    }

    /// Adds a call of this length that a line of Python waits for; `time` is an instant within the
    /// call.
    pub(crate) fn add_call(&mut self, length: i64, thread: ThreadIdx, time: i64) {
        self.occurrences.push(Occurrence {
            length,
            thread,
            start: time,
            is_span: false,
        });
    }

    /// Adds a stretch in which Python runs.
    pub(crate) fn add_span(&mut self, span: HostSpan) {
        self.occurrences.push(Occurrence {
            length: span.end.saturating_sub(span.start),
            thread: span.thread,
            start: span.start,
            is_span: true,
        });
    }

    /// Sets the number of lines in `evidence`, and the line with most of the time.
    pub(crate) fn describe(mut self, view: &RankView<'_>, evidence: &mut CauseEvidence) {
        self.occurrences.sort_unstable_by_key(|one| Reverse(*one));
        let lengths = self.occurrences.iter().map(|one| one.length);
        let total = lengths.fold(0, i64::saturating_add).max(1);
        let mut lines: BTreeMap<String, i64> = BTreeMap::new();
        for one in self.occurrences.iter().take(MOST_LOOKUPS as usize) {
            for (time, share) in one.instants(total) {
                if let Some(line) = python_line(view.trace, one.thread, time) {
                    let sum = lines.entry(line).or_default();
                    *sum = sum.saturating_add(share);
                }
            }
        }
        evidence.python_lines = lines.len() as u64;
        // on a tie, the line that sorts first
        let most = lines.into_iter().rev().max_by_key(|(_, ns)| *ns);
        if let Some((line, ns)) = most {
            (evidence.python, evidence.python_ns) = (Some(line), ns);
        }
    }
}

impl Occurrence {
    /// Returns the instants to look up, each with the time it represents. The number of a stretch's
    /// instants is proportional to its share of `total`.
    fn instants(self, total: i64) -> impl Iterator<Item = (i64, i64)> {
        let count = match self.is_span {
            // A long stretch has several lines: one lookup would attribute all of its time to one
            // of them.
            true => (self.length.saturating_mul(MOST_LOOKUPS) / total).max(1),
            false => 1,
        };
        let begin =
            move |part: i64| (i128::from(self.length) * i128::from(part)) / i128::from(count);
        (0..count).map(move |part| {
            let (from, until) = (begin(part) as i64, begin(part + 1) as i64);
            let middle = if self.is_span {
                from.midpoint(until)
            } else {
                0
            };
            (self.start.saturating_add(middle), until - from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occurrence(length: i64, is_span: bool) -> Occurrence {
        Occurrence {
            length,
            thread: ThreadIdx(0),
            start: 1_000,
            is_span,
        }
    }

    #[test]
    fn a_stretch_is_looked_at_as_often_as_its_length_is_worth() {
        let half: Vec<_> = occurrence(4_000, true).instants(8_000).collect();
        assert_eq!(half.len(), 500);
        assert_eq!((half[0], half[499]), ((1_004, 8), (4_996, 8)));
        let sum: i64 = half.iter().map(|(_, share)| share).sum();
        assert_eq!(sum, 4_000);
        let short: Vec<_> = occurrence(3, true).instants(1_000_000).collect();
        assert_eq!(short, [(1_001, 3)]);
        let call: Vec<_> = occurrence(4_000, false).instants(8_000).collect();
        assert_eq!(call, [(1_000, 4_000)]);
    }
}
