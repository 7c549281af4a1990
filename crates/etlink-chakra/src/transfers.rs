//! Separates waits of a run's ranks for each other from their own work.
//!
//! A simulator makes ranks wait at a collective until the last has arrived. A host thread that was
//! blocked meanwhile (Gloo, MPI) must not spend this time again as computation. Nor may ranks whose
//! recordings begin at different times begin simultaneously: ranks that were recorded first waited
//! for the others.

use crate::agreement::RunAgreement;
use crate::aligned_ranks::AlignedRanks;
use crate::network::{NetworkFit, member_ranks};
use crate::rank_agreement::{CommDecision, HostTransfer};
use etlink_link::ranks::{RankClock, RankSummary, RunJoin};
use etlink_model::DurationNs;

/// Determines, for each rank of a run to simulate, which of its times are waits for others, and how
/// much of them the simulator's network takes. O(communications).
pub fn set_waits(
    agreed: &mut RunAgreement,
    facts: &[RankSummary],
    join: &RunJoin,
    clocks: &[RankClock],
    network: Option<&NetworkFit>,
) {
    let ranks = AlignedRanks::new(facts, clocks);
    for joint in &join.matches {
        let ranks_between = member_ranks(join, joint);
        for member in &joint.members {
            let communication = ranks.communication(*member);
            let extent = communication.extent;
            let agreement = &mut agreed.ranks[member.rank.index()];
            // A device row is a single node. A node without known dependents stays unchanged.
            let is_split = !communication.on_device
                && extent.is_transfer
                && extent.waits >= communication.node;
            let decision = agreement.decision_for(communication.node);
            if let CommDecision::Communication { bytes, .. } = decision
                && is_split
            {
                let time =
                    |network: &NetworkFit| network.time_ns(joint.kind, &ranks_between, bytes);
                agreement.host_transfers.push(HostTransfer {
                    node: communication.node,
                    carrier: extent.waits,
                    until_last: ranks.until_last(joint, *member),
                    network: network.and_then(time).map(DurationNs),
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
    use etlink_link::ranks::{
        CommExtent, Communication, GroupIdentity, Peers, RankSet, join_ranks,
    };
    use etlink_model::{CollectiveKind, GlobalRank, GroupIdx, NodeIdx, UnixNs};

    /// Creates a rank that calls an all-reduce at `arrives` and is blocked in it from 100 to 200.
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
            name: Default::default(),
            kind: CollectiveKind::AllReduce,
            dtype: Default::default(),
            in_split: Default::default(),
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
        set_waits(&mut agreed, facts, &join, &vec![clock; facts.len()], None);
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
