//! Who made whom wait: in a collective the rank that came last all others, in a message the sender
//! the receiver.

use super::arrivals::{aligned, collective_arrivals};
use super::join::side;
use super::{CommChannel, MatchMember, RankClock, RankSummary, RunJoin};
use etlink_model::{CollectiveKind, CommonNs, NodeIdx, RankIdx, UnixNs};

/// One rank's side of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitCause {
    /// The node in which it waits; of who gives, that with which it arrives.
    pub node: NodeIdx,
    /// Common to both sides, and to no other two. From 1.
    pub number: u32,
    /// When the other rank was there, by this rank's clock: of who waits, 1 ns later. Never after
    /// that node.
    pub at_ns: UnixNs,
    /// Whether this rank waited.
    pub waits: bool,
    /// Whether it is a message.
    pub message: bool,
}

/// The wait causes of a run: each is there twice, once per side.
#[derive(Clone, Debug, Default)]
pub struct WaitCauses {
    /// By place of the rank, in order of their numbers.
    pub of_rank: Vec<Vec<WaitCause>>,
    /// How many there are.
    pub count: u32,
    /// How many ranks had gone on when the last came, or by their clocks seem to have: a call that
    /// does not wait for its transfer, clocks that are not aligned.
    pub gone_on: u64,
}

/// Of all collectives that every rank whose trace is here has. O(communications log ranks).
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
            // they came at the same instant
            return;
        }
        let extent = effect.extent;
        let at_ns = own(clocks, to.rank, there.shifted(1), extent.start_ns).max(extent.start_ns);
        // By its clock the rank had ended before the last came: an arrow backwards in time would be
        // wrong.
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

/// The first time of a rank's own clock, to the nanosecond or so, that is not before `at` by the
/// first rank's; `near` is one not far from it.
fn own(clocks: &[RankClock], rank: RankIdx, at: CommonNs, near: UnixNs) -> UnixNs {
    let ahead = |own: UnixNs| at.since(aligned(clocks, rank, own));
    // clocks run at nearly the same speed, so that each step leaves less than a thousandth
    let own = (0..3).fold(near, |own, _| own.shifted(ahead(own)));
    own.shifted(ahead(own).max(0))
}

#[cfg(test)]
mod tests;
