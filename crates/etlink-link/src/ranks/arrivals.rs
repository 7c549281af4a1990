//! Arrivals of the ranks at collectives, and their waits.

use super::join::side;
use super::{CollectiveMatch, RankClock, RankSummary};
use etlink_model::{CommonNs, RankIdx, UnixNs};

/// Converts a rank's time to the first rank's clock, as far as that is known.
pub(super) fn aligned(clocks: &[RankClock], rank: RankIdx, own: UnixNs) -> CommonNs {
    let clock = clocks.get(rank.index());
    // Without a known offset, the machines' clocks are taken to agree.
    clock.map_or(CommonNs(own.0), |clock| clock.aligned(own))
}

/// Returns the error of the difference of two ranks' times, ns, from that of each clock; 0 for
/// times of one clock.
pub(super) fn clock_error(
    ranks: &[RankSummary],
    clocks: &[RankClock],
    pair: [RankIdx; 2],
    error: impl Fn(&RankClock) -> i64,
) -> i64 {
    let [Some(first), Some(second)] = pair.map(|rank| clocks.get(rank.index())) else {
        return 0;
    };
    let [one, other] = pair.map(|rank| ranks[rank.index()].machine.as_ref());
    if one.is_some() && one == other && first.offset_ns == second.offset_ns {
        return 0;
    }
    error(first).saturating_add(error(second))
}

/// Arrival of one rank at a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CollectiveArrival {
    /// Time of the arrival.
    pub at_ns: CommonNs,
    /// Index of the rank.
    pub rank: RankIdx,
    /// Wait of the rank for the last arrival, ns.
    pub waits_ns: i64,
}

/// Returns the arrivals, sorted by time; `None` for collectives that some rank lacks.
pub fn collective_arrivals(
    ranks: &[RankSummary],
    clocks: &[RankClock],
    matched: &CollectiveMatch,
) -> Option<Vec<CollectiveArrival>> {
    arrivals_of(ranks, clocks, matched).map(|(arrivals, _)| arrivals)
}

/// Like [`collective_arrivals`]. Also returns true if all ranks were together at the last arrival:
/// none had gone on.
pub(super) fn arrivals_of(
    ranks: &[RankSummary],
    clocks: &[RankClock],
    matched: &CollectiveMatch,
) -> Option<(Vec<CollectiveArrival>, bool)> {
    let mut is_meeting = true;
    let mut arrivals: Vec<CollectiveArrival> = Vec::with_capacity(matched.members.len());
    for member in &matched.members {
        let extent = side(ranks, *member).1.extent;
        arrivals.push(CollectiveArrival {
            at_ns: aligned(clocks, member.rank, extent.arrival_ns),
            rank: member.rank,
            waits_ns: 0,
        });
    }
    let last = arrivals.iter().map(|arrival| arrival.at_ns).max()?;
    for (arrival, member) in arrivals.iter_mut().zip(&matched.members) {
        let communication = side(ranks, *member).1;
        let extent = communication.extent;
        // A sender, or the root of a broadcast, needs nothing from the others and can finish before
        // they arrive.
        let gone_on = extent.is_transfer
            && !communication.needs_all()
            && aligned(clocks, member.rank, extent.end_ns) < last;
        // A rank waits from the time it stands still: after its call it can do other work.
        let since = aligned(clocks, member.rank, extent.start_ns.max(extent.arrival_ns));
        if !gone_on {
            arrival.waits_ns = last.since(since).max(0);
        }
        is_meeting &= !gone_on;
    }
    arrivals.sort_unstable();
    (matched.is_whole() && arrivals.len() > 1).then_some((arrivals, is_meeting))
}

/// Returns the last arrival, the others' total wait for it, and the part of the wait that it alone
/// caused.
pub(super) fn last_of(arrivals: &[CollectiveArrival]) -> Option<(CollectiveArrival, i64, i64)> {
    let [.., before, last] = arrivals else {
        return None;
    };
    let waits = arrivals.iter().map(|arrival| arrival.waits_ns);
    // The wait for the last alone cannot exceed the wait for all.
    let alone = last.at_ns.since(before.at_ns).min(waits.clone().max()?);
    Some((*last, waits.fold(0, i64::saturating_add), alone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::join_ranks;
    use crate::ranks::testing::{message, rank};
    use etlink_model::CollectiveKind::{Recv, Send};

    #[test]
    fn a_sender_that_has_gone_on_met_nobody() {
        for (received, waits_ns, is_meeting) in [(50, 0, false), (3, 3, true)] {
            let mut ranks = [0, 1].map(|at| rank(at, 2, &[]));
            message(&mut ranks[0], Send, Some(1), 0);
            message(&mut ranks[1], Recv, Some(0), received);
            let join = join_ranks(&ranks);
            let found = arrivals_of(&ranks, &[], &join.matches[0]);
            let (arrivals, meets) = found.expect("both are there");
            assert_eq!((arrivals[0].waits_ns, meets), (waits_ns, is_meeting));
        }
    }
}
