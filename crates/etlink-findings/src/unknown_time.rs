//! Time of which nothing can be said: the recorder lost too many device rows.
//!
//! A launch without its row looks like a host that does not launch, and a device that idles. So what a
//! cause is made of in that time is no part of it.

use crate::candidate::CauseCandidate;
use etlink_link::LinkedTrace;
use etlink_model::{NodeIdx, TimeNs};

/// When too many rows are missing.
pub(crate) struct UnknownTime<'t> {
    trace: &'t LinkedTrace,
    /// Ascending and apart.
    stretches: &'t [(TimeNs, TimeNs)],
}

impl UnknownTime<'_> {
    pub(crate) fn of_trace(trace: &LinkedTrace) -> UnknownTime<'_> {
        let sanity = trace.device.row_sanity.as_ref();
        UnknownTime {
            trace,
            stretches: sanity.map_or(&[], |sanity| &sanity.unknown),
        }
    }

    fn has(&self, node: NodeIdx) -> bool {
        let start = self.trace.nodes.start[node.index()];
        let after = self.stretches.partition_point(|(_, end)| *end <= start);
        self.stretches
            .get(after)
            .is_some_and(|(from, _)| *from <= start)
    }

    /// Takes the nodes of such time out of a cause, with their share of what it counts.
    pub(crate) fn take_out_of(&self, candidate: &mut CauseCandidate) {
        if self.stretches.is_empty() {
            return;
        }
        let ways = std::iter::once(&mut candidate.edits).chain(&mut candidate.other_edits);
        let (mut kept, mut all) = (0usize, 0usize);
        for edits in ways {
            all += edits.len();
            edits.removed.retain(|node| !self.has(*node));
            edits.at_once.retain(|node| !self.has(*node));
            edits.scaled.retain(|(node, _)| !self.has(*node));
            edits.freed.retain(|(node, _)| !self.has(*node));
            kept += edits.len();
        }
        // What is outside cannot be told by itself from the little that is left.
        if kept * 2 < all {
            candidate.edits = Default::default();
            candidate.other_edits = None;
            return;
        }
        let share = kept as f64 / all.max(1) as f64;
        let evidence = &mut candidate.evidence;
        evidence.count = (evidence.count as f64 * share).round() as u64;
        evidence.time_ns = (evidence.time_ns as f64 * share).round() as i64;
    }
}
