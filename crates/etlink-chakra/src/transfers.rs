//! What a run's ranks wait for each other, taken out of what each of them does by itself.
//!
//! A simulator has ranks wait at a collective until the last has come. A host thread that was
//! blocked meanwhile (Gloo, MPI) shall not take that time a second time, as computation. Nor shall
//! ranks whose recordings begin at different times begin at one instant: who was recorded first
//! waited for the others.

use crate::agreement::RunAgreement;
use crate::rank_agreement::{CommDecision, HostTransfer};
use etlink_link::ranks::{
    CollectiveMatch, Communication, MatchMember, RankClock, RankSummary, RunJoin,
};
use etlink_model::{CollectiveKind, CommonNs, DurationNs, RankIdx, UnixNs};

/// The ranks of a run by one clock.
pub(crate) struct AlignedRanks<'r> {
    facts: &'r [RankSummary],
    /// By rank; empty: times are not aligned.
    clocks: &'r [RankClock],
}

impl<'r> AlignedRanks<'r> {
    pub(crate) fn new(facts: &'r [RankSummary], clocks: &'r [RankClock]) -> AlignedRanks<'r> {
        AlignedRanks { facts, clocks }
    }

    fn common(&self, rank: RankIdx, own: UnixNs) -> CommonNs {
        let clock = self.clocks.get(rank.index()).copied().unwrap_or_default();
        clock.aligned(own)
    }

    pub(crate) fn communication(&self, member: MatchMember) -> &'r Communication {
        &self.facts[member.rank.index()].communications[member.communication.index()]
    }

    fn arrival(&self, member: MatchMember) -> CommonNs {
        let extent = self.communication(member).extent;
        self.common(member.rank, extent.arrival_ns)
    }

    /// From a rank's arrival to that of the last it needs.
    pub(crate) fn until_last(&self, joint: &CollectiveMatch, member: MatchMember) -> DurationNs {
        // A sender needs nobody.
        if self.communication(member).kind == CollectiveKind::Send {
            return DurationNs::ZERO;
        }
        let arrivals = joint.members.iter().map(|other| self.arrival(*other));
        let last = arrivals.max().unwrap_or_default();
        DurationNs(last.since(self.arrival(member)).max(0))
    }

    /// How much later than the first each rank begins. Nothing where clocks are not known.
    fn begin_offsets(&self) -> Vec<DurationNs> {
        let none = vec![DurationNs::ZERO; self.facts.len()];
        let is_known = |clock: &RankClock| clock.uncertainty_ns.is_some() || clock.by_machine;
        if self.clocks.len() != self.facts.len() || !self.clocks.iter().all(is_known) {
            return none;
        }
        let window = |(at, facts): (usize, &RankSummary)| {
            let (start, end) = facts.window_ns;
            let rank = RankIdx::new(at);
            (self.common(rank, start), self.common(rank, end))
        };
        let windows: Vec<(CommonNs, CommonNs)> =
            self.facts.iter().enumerate().map(window).collect();
        let Some(first) = windows.iter().map(|(start, _)| *start).min() else {
            return none;
        };
        // Ranks that were not recorded at the same time did not wait for each other.
        let is_apart = |end: CommonNs| windows.iter().any(|(start, _)| *start > end);
        if windows.iter().any(|(_, end)| is_apart(*end)) {
            return none;
        }
        let offsets = windows
            .iter()
            .map(|(start, _)| DurationNs(start.since(first)));
        offsets.collect()
    }
}

/// Says of each rank of a run that a simulator shall run what of its times is waiting for others.
/// O(communications).
pub fn set_waits(
    agreed: &mut RunAgreement,
    facts: &[RankSummary],
    join: &RunJoin,
    clocks: &[RankClock],
) {
    let ranks = AlignedRanks::new(facts, clocks);
    for joint in &join.matches {
        for member in &joint.members {
            let communication = ranks.communication(*member);
            let extent = communication.extent;
            let agreement = &mut agreed.ranks[member.rank.index()];
            // Of a device row all is one node. What nothing is known to wait for stays as it is.
            let is_split = !communication.on_device
                && extent.is_transfer
                && extent.waits >= communication.node
                && matches!(
                    agreement.decision_for(communication.node),
                    CommDecision::Communication { .. }
                );
            if is_split {
                agreement.host_transfers.push(HostTransfer {
                    node: communication.node,
                    carrier: extent.waits,
                    until_last: ranks.until_last(joint, *member),
                    network: None,
                });
            }
        }
    }
    let offsets = ranks.begin_offsets();
    for (agreement, offset) in agreed.ranks.iter_mut().zip(offsets) {
        agreement
            .host_transfers
            .sort_unstable_by_key(|transfer| transfer.node);
        agreement.begins_later = offset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::agree;
    use etlink_link::ranks::{CommExtent, GroupIdentity, Peers, RankSet, join_ranks};
    use etlink_model::{GlobalRank, GroupIdx, NodeIdx};

    /// A rank that calls an all-reduce at `arrives` and is blocked for it from 100 to 200.
    fn rank(rank: i64, window: (i64, i64), arrives: i64) -> RankSummary {
        let extent = CommExtent {
            arrives: NodeIdx(3),
            arrival_ns: UnixNs(arrives),
            waits: NodeIdx(5),
            start_ns: UnixNs(100),
            end_ns: UnixNs(200),
            is_transfer: true,
        };
        let communication = Communication {
            node: NodeIdx(3),
            peers: Peers::Group(GroupIdx(0)),
            kind: CollectiveKind::AllReduce,
            dtype: Default::default(),
            in_bytes: 8,
            bytes: 8,
            is_sized: true,
            seq: Some(1),
            start_ns: UnixNs(arrives),
            end_ns: UnixNs(arrives + 1),
            on_device: false,
            extent,
        };
        RankSummary {
            rank: GlobalRank(rank),
            window_ns: (UnixNs(window.0), UnixNs(window.1)),
            groups: vec![GroupIdentity::Ranks(RankSet::from_iter([0, 1]))],
            communications: vec![communication],
            ..RankSummary::default()
        }
    }

    fn waits(facts: &[RankSummary], by_machine: bool) -> Vec<(i64, Vec<i64>)> {
        let clock = RankClock {
            by_machine,
            ..RankClock::default()
        };
        let (join, sizes) = (join_ranks(facts), vec![vec![Some(8)]; facts.len()]);
        let mut agreed = agree(facts, &sizes, &join, true);
        set_waits(&mut agreed, facts, &join, &vec![clock; facts.len()]);
        let of_rank = |agreement: &crate::RankAgreement| {
            let transfers = agreement.host_transfers.iter();
            let until_last = transfers.map(|transfer| transfer.until_last.0).collect();
            (agreement.begins_later.0, until_last)
        };
        agreed.ranks.iter().map(of_rank).collect()
    }

    #[test]
    fn ranks_wait_from_their_arrival_to_the_last() {
        let facts = [rank(0, (0, 300), 40), rank(1, (25, 310), 90)];
        assert_eq!(waits(&facts, true), [(0, vec![50]), (25, vec![0])]);
    }

    #[test]
    fn begins_are_compared_only_by_clocks_that_are_known() {
        let facts = [rank(0, (0, 300), 40), rank(1, (25, 310), 90)];
        assert_eq!(waits(&facts, false), [(0, vec![50]), (0, vec![0])]);
        let apart = [rank(0, (0, 300), 40), rank(1, (400, 500), 90)];
        assert_eq!(waits(&apart, true), [(0, vec![50]), (0, vec![0])]);
    }
}
