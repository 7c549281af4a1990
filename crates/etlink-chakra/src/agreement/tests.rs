use super::*;
use etlink_link::ranks::{Communication, GroupIdentity, Peers, RankSet, join_ranks};
use etlink_model::CollectiveKind::{AllReduce, AllToAll, Broadcast, Recv, Send};
use etlink_model::{CollectiveKind, GlobalRank, GroupIdx, UnixNs};

type Drawn<'a> = &'a [(CollectiveKind, Peers, i64, Option<i64>)];

const PAIR: Peers = Peers::Group(GroupIdx(0));

/// Creates a rank in a world of two with these communications: type, peers, number, size. Nodes are
/// numbered from 10.
fn rank(rank: i64, drawn: Drawn<'_>) -> (RankSummary, Vec<Option<i64>>) {
    let communication =
        |(node, &(kind, peers, seq, size)): (u32, &(CollectiveKind, Peers, i64, Option<i64>))| {
            Communication {
                node: NodeIdx(node),
                peers,
                kind,
                name: Default::default(),
                dtype: Default::default(),
                in_split: Default::default(),
                in_bytes: size.unwrap_or(0).unsigned_abs(),
                bytes: size.unwrap_or(0).unsigned_abs(),
                is_sized: size.is_some(),
                seq: Some(seq),
                start_ns: UnixNs(i64::from(node)),
                end_ns: UnixNs(i64::from(node) + 1),
                on_device: true,
                extent: Default::default(),
            }
        };
    let communications = (10u32..).zip(drawn).map(communication).collect();
    let groups = vec![GroupIdentity::Ranks(RankSet::from_iter([0, 1]))];
    (
        RankSummary {
            rank: GlobalRank(rank),
            groups,
            communications,
            ..RankSummary::default()
        },
        drawn.iter().map(|(.., size)| *size).collect(),
    )
}

fn agreed(ranks: &[Drawn<'_>], without_absent: bool) -> RunAgreement {
    let (facts, sizes): (Vec<RankSummary>, Vec<_>) =
        (0..).zip(ranks).map(|(at, drawn)| rank(at, drawn)).unzip();
    agree(&facts, &sizes, &join_ranks(&facts), without_absent)
}

fn decisions(agreed: &RunAgreement, rank: usize) -> Vec<CommDecision> {
    agreed.ranks[rank]
        .decisions
        .iter()
        .map(|(_, decision)| *decision)
        .collect()
}

const fn runs(bytes: i64) -> CommDecision {
    CommDecision::Communication {
        group: Some(1),
        bytes,
    }
}

const UNMATCHED: CommDecision = CommDecision::Compute(Demotion::Unmatched);

#[test]
fn equal_ranks_run_as_they_are() {
    let drawn: Drawn<'_> = &[(AllReduce, PAIR, 1, Some(8)), (Broadcast, PAIR, 2, Some(4))];
    let agreed = agreed(&[drawn, drawn], true);
    assert_eq!(
        (decisions(&agreed, 0), decisions(&agreed, 1)),
        (vec![runs(8), runs(4)], vec![runs(8), runs(4)])
    );
    assert_eq!(
        (agreed.groups, agreed.deadlocked),
        ([(1, vec![0, 1])].into(), vec![])
    );
}

#[test]
fn the_largest_size_wins() {
    let agreed = agreed(
        &[
            &[(AllToAll, PAIR, 1, Some(320))],
            &[(AllToAll, PAIR, 1, Some(704))],
        ],
        true,
    );
    assert_eq!(
        (decisions(&agreed, 0), decisions(&agreed, 1)),
        (vec![runs(704)], vec![runs(704)])
    );
}

#[test]
fn what_is_missing_or_something_else_on_a_rank_is_computation() {
    let one: Drawn<'_> = &[
        (AllReduce, PAIR, 1, Some(8)),
        (AllReduce, PAIR, 2, Some(4)),
        (AllReduce, PAIR, 3, Some(4)),
    ];
    let other: Drawn<'_> = &[(AllReduce, PAIR, 2, Some(4)), (Broadcast, PAIR, 3, Some(4))];
    let agreed = agreed(&[one, other], true);
    assert_eq!(
        (decisions(&agreed, 0), decisions(&agreed, 1)),
        (
            vec![UNMATCHED, runs(4), UNMATCHED],
            vec![runs(4), UNMATCHED]
        )
    );
    assert_eq!(
        agreed.ranks[0].decision_for(NodeIdx(99)),
        CommDecision::Compute(Demotion::UnknownGroup)
    );
}

#[test]
fn what_one_rank_cannot_run_no_rank_runs() {
    let agreed = agreed(
        &[
            &[(AllReduce, PAIR, 1, Some(8))],
            &[(AllReduce, PAIR, 1, None)],
        ],
        true,
    );
    assert_eq!(
        decisions(&agreed, 0),
        [CommDecision::Compute(Demotion::CannotRunElsewhere)],
        "it is matched"
    );
    assert!(agreed.groups.is_empty());
}

#[test]
fn ranks_whose_traces_are_not_here_take_part_unless_the_files_shall_run() {
    let alone: Drawn<'_> = &[
        (AllReduce, PAIR, 1, Some(8)),
        (Send, Peers::Peer(Some(GlobalRank(1))), 2, Some(8)),
    ];
    assert_eq!(
        decisions(&agreed(&[alone], false), 0),
        [
            runs(8),
            CommDecision::Communication {
                group: None,
                bytes: 8
            }
        ]
    );
    assert_eq!(
        decisions(&agreed(&[alone], true), 0),
        [CommDecision::Compute(Demotion::AbsentRank); 2]
    );
}

#[test]
fn opposite_orders_are_taken_out() {
    let one: Drawn<'_> = &[
        (AllReduce, PAIR, 1, Some(8)),
        (Recv, Peers::Peer(Some(GlobalRank(1))), 0, Some(8)),
    ];
    let other: Drawn<'_> = &[
        (AllReduce, PAIR, 1, Some(8)),
        (Send, Peers::Peer(Some(GlobalRank(0))), 0, Some(8)),
    ];
    assert!(agreed(&[one, other], true).deadlocked.is_empty());
    let swapped: Drawn<'_> = &[other[1], other[0]];
    assert!(
        agreed(&[one, swapped], true).deadlocked.is_empty(),
        "a send goes at once"
    );
    let stuck = agreed(&[&[one[1], one[0]], other], true);
    assert_eq!(stuck.deadlocked.len(), 1);
    assert!(decisions(&stuck, 0).contains(&CommDecision::Compute(Demotion::OrderDiffers)));
}

#[test]
fn kernels_that_overlap_take_turns_in_the_order_of_their_ends() {
    let one: Drawn<'_> = &[
        (AllReduce, PAIR, 1, Some(8)),
        (AllReduce, Peers::Group(GroupIdx(1)), 1, Some(4)),
    ];
    let other: Drawn<'_> = &[one[1], one[0]];
    let (mut facts, sizes): (Vec<RankSummary>, Vec<_>) = (0..)
        .zip([one, other])
        .map(|(at, drawn)| rank(at, drawn))
        .unzip();
    for facts in &mut facts {
        facts
            .groups
            .push(GroupIdentity::Ranks(RankSet::from_iter([0, 1, 2])));
        facts.communications.iter_mut().for_each(|communication| {
            communication.end_ns.0 = if communication.peers == PAIR { 90 } else { 80 }
        });
    }
    let join = join_ranks(&facts);
    let plain = agree(&facts, &sizes, &join, false);
    assert_eq!(
        (plain.deadlocked.len(), plain.ranks[0].serial_order.len()),
        (1, 0),
        "no file says so: one is taken out"
    );
    facts.push(rank(2, &[one[1]]).0);
    facts[2]
        .groups
        .push(GroupIdentity::Ranks(RankSet::from_iter([0, 1, 2])));
    let sizes = [sizes, vec![vec![Some(4)]]].concat();
    let join = etlink_link::ranks::join_ranks(&facts);
    let run = agree(&facts, &sizes, &join, true);
    assert_eq!(
        (
            run.deadlocked.len(),
            &run.ranks[0].serial_order[..],
            &run.ranks[1].serial_order[..]
        ),
        (0, &[11, 10].map(NodeIdx)[..], &[10, 11].map(NodeIdx)[..])
    );
}

#[test]
fn groups_as_the_simulator_reads_them() {
    let mut text = vec![];
    write_groups(
        &[(1, vec![0, 1]), (2, vec![2, 3]), (10, vec![0, 1, 2, 3])].into(),
        &mut text,
    )
    .expect("writes");
    assert_eq!(
        String::from_utf8_lossy(&text),
        "{\"1\":[0,1],\"2\":[2,3],\"10\":[0,1,2,3]}\n"
    );
}
