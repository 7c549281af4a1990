use super::*;
use crate::ranks::testing::{collective, message, rank};
use crate::ranks::{CommExtent, align_clocks, join_ranks};
use CollectiveKind::{AllGather, AllReduce, Recv, Send};
use etlink_model::{NodeIdx, UnixNs};

/// Rank 2 of four arrives 300 ns after the others, which arrive at 0, 10 and 20; the transfer takes
/// 100 ns.
fn late(kind: CollectiveKind) -> (Vec<RankSummary>, RunJoin) {
    let mut ranks: Vec<RankSummary> = (0..4).map(|at| rank(at, 4, &[&[0, 1, 2, 3]])).collect();
    for (summary, start) in ranks.iter_mut().zip([0, 10, 320, 20]) {
        collective(summary, kind, 0, 5, (start, 420));
    }
    let join = join_ranks(&ranks);
    (ranks, join)
}

#[test]
fn the_last_rank_is_named_with_what_it_cost() {
    let (ranks, join) = late(AllReduce);
    let skews = collective_skews(&ranks, &join, &[]);
    let found = &skews[0];
    assert_eq!(
        (
            found.last.0,
            found.skew_ns,
            found.alone_ns,
            found.transfer_ns
        ),
        (2, 320, 300, Some(100))
    );
    assert_eq!(
        (found.kind.as_str(), found.ranks.as_str(), found.number),
        ("all_reduce", "ranks 0, 1, 2, 3", 5)
    );
    assert_eq!(
        (found.algorithm_bandwidth, found.bus_bandwidth),
        (Some(10.24e9), Some(15.36e9))
    );
    assert_eq!(
        (found.waited_ns, found.step.as_deref()),
        (320 + 310 + 300, None)
    );
}

#[test]
fn bus_bandwidth_by_type() {
    let (ranks, join) = late(AllGather);
    assert_eq!(
        collective_skews(&ranks, &join, &[])[0].bus_bandwidth,
        Some(7.68e9)
    );
}

#[test]
fn a_transfer_of_no_time_has_no_bandwidth() {
    let mut ranks = [0, 1].map(|at| rank(at, 2, &[&[0, 1]]));
    for (summary, start) in ranks.iter_mut().zip([0, 320]) {
        collective(summary, AllReduce, 0, 5, (start, 320));
    }
    let join = join_ranks(&ranks);
    let skews = collective_skews(&ranks, &join, &[]);
    assert_eq!(skews[0].transfer_ns, None);
    assert_eq!(skews[0].algorithm_bandwidth, None);
}

#[test]
fn aligned_clocks_decide_who_was_late() {
    let (mut ranks, join) = late(AllReduce);
    let communication = &mut ranks[2].communications[0];
    (communication.start_ns, communication.end_ns) = (
        communication.start_ns.shifted(-5_000),
        communication.end_ns.shifted(-5_000),
    );
    communication.extent =
        CommExtent::from_node(NodeIdx(10), (communication.start_ns, communication.end_ns));
    assert_eq!(
        collective_skews(&ranks, &join, &[])[0].last,
        GlobalRank(3),
        "by clocks that are 5 us apart"
    );
    let clocks = align_clocks(&ranks, &join);
    assert_eq!(
        collective_skews(&ranks, &join, &clocks)[0].last,
        GlobalRank(2)
    );
}

#[test]
fn a_message_is_between_two() {
    let mut ranks = [0, 1].map(|at| rank(at, 2, &[]));
    message(&mut ranks[0], Send, Some(1), 100);
    message(&mut ranks[1], Recv, Some(0), 40);
    let join = join_ranks(&ranks);
    let found = &collective_skews(&ranks, &join, &[])[0];
    assert_eq!(
        (
            found.kind.as_str(),
            found.ranks.as_str(),
            found.last.0,
            found.skew_ns
        ),
        ("message", "rank 0 to rank 1", 0, 60)
    );
}

#[test]
fn host_ops_have_a_transfer_where_its_end_is_recorded() {
    for (is_transfer, transfer_ns) in [(true, Some(180)), (false, None)] {
        let (mut ranks, join) = late(AllReduce);
        let call = &mut ranks[0].communications[0];
        // the call returns at once, and the wait for it ends last
        call.on_device = false;
        call.end_ns = UnixNs(5);
        call.extent.end_ns = UnixNs(500);
        call.extent.is_transfer = is_transfer;
        let found = &collective_skews(&ranks, &join, &[])[0];
        assert_eq!((found.skew_ns, found.transfer_ns), (320, transfer_ns));
        assert_eq!(found.bus_bandwidth.is_some(), is_transfer);
    }
}

#[test]
fn without_the_trace_of_a_member_nobody_knows_when_the_transfer_began() {
    let (ranks, _) = late(AllReduce);
    let here = [ranks[0].clone(), ranks[1].clone(), ranks[3].clone()];
    let found = &collective_skews(&here, &join_ranks(&here), &[])[0];
    assert_eq!(
        (found.skew_ns, found.transfer_ns),
        (20, None),
        "it was 100, and rank 2 came at 320"
    );
    assert_eq!(
        (found.algorithm_bandwidth, found.bus_bandwidth),
        (None, None)
    );
}
