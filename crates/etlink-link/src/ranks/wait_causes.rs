//! Causes of waits: in a collective, the last rank makes all others wait; in a message, the sender
//! makes the receiver wait.

use super::arrivals::{aligned, collective_arrivals};
use super::join::side;
use super::{CommChannel, MatchMember, RankClock, RankSummary, RunJoin};
use etlink_model::{CollectiveKind, CommonNs, NodeIdx, RankIdx, UnixNs};

/// One rank's side of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitCause {
    /// Node in which the rank waits or, on the causing side, arrives.
    pub node: NodeIdx,
    /// Number, from 1, shared by the two sides only.
    pub number: u32,
    /// Arrival of the other rank, by this rank's clock; on the waiting side 1 ns later. Never after
    /// the end of `node`.
    pub at_ns: UnixNs,
    /// True if this rank waited.
    pub waits: bool,
    /// True for messages.
    pub message: bool,
}

/// Causes of all waits in a run, one per side.
#[derive(Clone, Debug, Default)]
pub struct WaitCauses {
    /// Causes by rank index, in order of their numbers.
    pub of_rank: Vec<Vec<WaitCause>>,
    /// Number of causes.
    pub count: u32,
    /// Number of ranks that had gone on when the last arrived, or seem to have by their clocks:
    /// calls that do not wait for their transfer, or unaligned clocks.
    pub gone_on: u64,
}

/// Finds the causes in all collectives that every rank with a trace has. O(communications log
/// ranks).
pub fn wait_causes(ranks: &[RankSummary], join: &RunJoin, clocks: &[RankClock]) -> WaitCauses {
    let mut found = WaitCauses {
        of_rank: vec![vec![]; ranks.len()],
        ..WaitCauses::default()
    };
    for matched in &join.matches {
        let Some(arrivals) = collective_arrivals(ranks, clocks, matched) else {
            continue;
        };
        let message = matches!(matched.channel, CommChannel::Message { .. });
        let last = arrivals.last().map(|arrival| arrival.rank);
        let Some(from) = matched.members.iter().find(|member| {
            if message {
                side(ranks, **member).1.kind == CollectiveKind::Send
            } else {
                Some(member.rank) == last
            }
        }) else {
            continue;
        };
        let others = matched
            .members
            .iter()
            .filter(|member| member.rank != from.rank);
        others.for_each(|to| found.add(ranks, clocks, (*from, *to), message));
    }
    found
}

impl WaitCauses {
    fn add(
        &mut self,
        ranks: &[RankSummary],
        clocks: &[RankClock],
        (from, to): (MatchMember, MatchMember),
        message: bool,
    ) {
        let (cause, effect) = (side(ranks, from).1, side(ranks, to).1);
        let (given, since) = (cause.extent.arrives, cause.extent.arrival_ns);
        let there = aligned(clocks, from.rank, since);
        if !message && there <= aligned(clocks, to.rank, effect.extent.arrival_ns) {
            // both arrived at the same instant
            return;
        }
        let extent = effect.extent;
        let at_ns = own(clocks, to.rank, there.shifted(1), extent.start_ns).max(extent.start_ns);
        // By its clock, the rank had ended before the last arrival: an arrow backwards in time
        // would be wrong.
        if at_ns >= extent.end_ns.max(extent.start_ns.shifted(1)) {
            self.gone_on += 1;
            return;
        }
        self.count += 1;
        let number = self.count;
        let gives = WaitCause {
            node: given,
            number,
            at_ns: since,
            waits: false,
            message,
        };
        let waits = WaitCause {
            node: extent.waits,
            number,
            at_ns,
            waits: true,
            message,
        };
        for (member, release) in [(from, gives), (to, waits)] {
            self.of_rank
                .get_mut(member.rank.index())
                .into_iter()
                .for_each(|of| of.push(release));
        }
    }
}

/// Returns the first time of a rank's own clock, accurate to about a nanosecond, that is not before
/// `at` on the first rank's clock. `near` is an approximation.
fn own(clocks: &[RankClock], rank: RankIdx, at: CommonNs, near: UnixNs) -> UnixNs {
    let ahead = |own: UnixNs| at.since(aligned(clocks, rank, own));
    // clocks run at nearly the same speed, so each iteration leaves less than a thousandth
    let own = (0..3).fold(near, |own, _| own.shifted(ahead(own)));
    own.shifted(ahead(own).max(0))
}

#[cfg(test)]
mod tests;
