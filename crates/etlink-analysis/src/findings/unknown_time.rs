//! Time without usable data, because the recorder lost too many device rows.
//!
//! A launch without its row looks like a host that does not launch, and a device that is idle. So
//! causes do not include their nodes in that time. Their nodes outside of it stay, with the
//! corresponding share of the cause's time.

use crate::findings::candidate::{CauseCandidate, CauseEvidence};
use etlink_link::LinkedTrace;
use etlink_model::{NodeIdx, TimeNs};
use etlink_replay::GraphEdits;

/// Times in which too many rows are missing.
pub(crate) struct UnknownTime<'t> {
    trace: &'t LinkedTrace,
    /// Ascending and disjoint.
    stretches: &'t [(TimeNs, TimeNs)],
    /// For each node: time that its thread or stream was idle before it, in ns; empty if all time
    /// is known.
    still_ns: Vec<i64>,
}

/// Number of nodes of a cause, and their time.
#[derive(Default)]
struct EditedTime {
    count: usize,
    time_ns: i64,
}

impl EditedTime {
    /// Adds a node.
    fn add(&mut self, time_ns: i64) {
        self.count += 1;
        self.time_ns = self.time_ns.saturating_add(time_ns);
    }

    /// Returns this time as a share of `all`.
    fn share_of(&self, all: &EditedTime) -> f64 {
        if all.time_ns > 0 {
            self.time_ns as f64 / all.time_ns as f64
        } else {
            self.count as f64 / all.count.max(1) as f64
        }
    }
}

impl UnknownTime<'_> {
    /// Finds the unknown time of a trace. O(nodes) if there is any.
    pub(crate) fn of_trace(trace: &LinkedTrace) -> UnknownTime<'_> {
        let sanity = trace.device.row_sanity.as_ref();
        let stretches = sanity.map_or(&[][..], |sanity| &sanity.unknown);
        let mut still_ns = vec![];
        if !stretches.is_empty() {
            let nodes = &trace.nodes;
            let tracks = nodes.track.iter().map(|track| track.index() + 1).max();
            let mut ended = vec![None; tracks.unwrap_or(0)];
            for node in nodes.indices() {
                let (at, start) = (node.index(), nodes.start[node.index()]);
                let ended = &mut ended[nodes.track[at].index()];
                let still = ended.map_or(0, |ended: TimeNs| start.since(ended).max(0));
                still_ns.push(still);
                *ended = (*ended).max(Some(start + nodes.duration[at]));
            }
        }
        UnknownTime {
            trace,
            stretches,
            still_ns,
        }
    }

    fn has_time(&self, time: TimeNs) -> bool {
        let after = self.stretches.partition_point(|(_, end)| *end <= time);
        let stretch = self.stretches.get(after);
        stretch.is_some_and(|(from, _)| *from <= time)
    }

    fn has(&self, node: NodeIdx) -> bool {
        self.has_time(self.trace.nodes.start[node.index()])
    }

    fn duration(&self, node: NodeIdx) -> i64 {
        self.trace.nodes.duration[node.index()].0
    }

    fn still(&self, node: NodeIdx) -> i64 {
        self.still_ns[node.index()]
    }

    /// Returns the durations and waits of nodes that a run without the cause would change.
    fn edited_time(&self, edits: &GraphEdits) -> EditedTime {
        let mut sum = EditedTime::default();
        for node in &edits.removed {
            sum.add(self.duration(*node).saturating_add(self.still(*node)));
        }
        for node in &edits.at_once {
            sum.add(self.still(*node));
        }
        for (node, factor) in &edits.scaled {
            sum.add((self.duration(*node) as f64 * (1.0 - factor).abs()) as i64);
        }
        for (node, _) in &edits.freed {
            sum.add(self.still(*node));
        }
        sum
    }

    /// Removes the nodes in such time from a cause, and reduces the evidence by their share.
    pub(crate) fn take_out_of(&self, candidate: &mut CauseCandidate) {
        if self.stretches.is_empty() {
            return;
        }
        let all = self.edited_time(&candidate.edits);
        let ways = std::iter::once(&mut candidate.edits).chain(&mut candidate.other_edits);
        for edits in ways {
            edits.removed.retain(|node| !self.has(*node));
            edits.at_once.retain(|node| !self.has(*node));
            edits.scaled.retain(|(node, _)| !self.has(*node));
            edits.freed.retain(|(node, _)| !self.has(*node));
        }
        let kept = self.edited_time(&candidate.edits);
        if kept.count == all.count {
            return;
        }
        let count_share = kept.count as f64 / all.count.max(1) as f64;
        let time_share = kept.share_of(&all);
        let evidence = &mut candidate.evidence;
        evidence.count = (evidence.count as f64 * count_share).round() as u64;
        let CauseEvidence {
            time_ns,
            exposed_ns,
            python_ns,
            whole_ns,
            before_launches_ns,
            after_launches_ns,
            ..
        } = evidence;
        let times = [
            time_ns,
            python_ns,
            whole_ns,
            before_launches_ns,
            after_launches_ns,
        ];
        for time in times.into_iter().chain(exposed_ns) {
            *time = (*time as f64 * time_share).round() as i64;
        }
        let is_unknown = |start: i64| self.has_time(TimeNs(start));
        if evidence.start_ns.is_some_and(is_unknown) {
            self.show_longest(candidate);
        }
    }

    /// Sets the span of a cause's evidence to its longest remaining node.
    fn show_longest(&self, candidate: &mut CauseCandidate) {
        let edits = &candidate.edits;
        let scaled = edits.scaled.iter().map(|(node, _)| node);
        let freed = edits.freed.iter().map(|(node, _)| node);
        let nodes = edits.removed.iter().chain(&edits.at_once);
        let nodes = nodes.chain(scaled).chain(freed);
        let whole = |node: &NodeIdx| self.duration(*node).saturating_add(self.still(*node));
        let Some(longest) = nodes.max_by_key(|node| (whole(node), **node)) else {
            return;
        };
        let start = self.trace.nodes.start[longest.index()].0;
        let (from, until) = (
            start - self.still(*longest),
            start + self.duration(*longest),
        );
        candidate.evidence.set_span(from, until);
    }
}
