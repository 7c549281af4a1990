use super::*;
use crate::ranks::GroupIdentity;
use crate::ranks::testing::{collective, message, rank};
use CollectiveKind::{AllReduce, AllToAll, Broadcast, Recv, Send};

fn joined(ranks: &[RankSummary]) -> (RunJoin, Vec<String>) {
    let join = join_ranks(ranks);
    let told = join.problems.iter().flat_map(|problem| {
        problem
            .examples
            .iter()
            .map(move |example| format!("{:?}: {}", problem.kind, example.what))
    });
    let told = told.collect();
    (join, told)
}

fn pair(numbers: [&[i64]; 2]) -> [RankSummary; 2] {
    let mut ranks = [0, 1].map(|at| rank(at, 2, &[&[0, 1]]));
    for (summary, numbers) in ranks.iter_mut().zip(numbers) {
        numbers
            .iter()
            .zip(0..)
            .for_each(|(seq, at)| collective(summary, AllReduce, 0, *seq, (at * 10, at * 10 + 5)));
    }
    ranks
}

fn whole(join: &RunJoin) -> Vec<(i64, bool)> {
    join.matches
        .iter()
        .map(|matched| (matched.number, matched.is_whole()))
        .collect()
}

#[test]
fn groups_have_one_number_on_all_ranks() {
    let ranks = [
        rank(0, 4, &[&[0, 2], &[0, 1]]),
        rank(1, 4, &[&[0, 1], &[1, 3], &[1]]),
        rank(2, 4, &[&[0, 2], &[0, 1, 2, 3]]),
    ];
    let (join, _) = joined(&ranks);
    let groups: Vec<_> = join.groups.into_iter().collect();
    assert_eq!(
        groups,
        [
            (1, vec![0, 1]),
            (2, vec![0, 1, 2, 3]),
            (3, vec![0, 2]),
            (4, vec![1, 3])
        ]
    );
}

#[test]
fn numbers_pair_windows_that_begin_at_different_times() {
    let (join, told) = joined(&pair([&[7, 8, 9], &[8, 9]]));
    assert_eq!(whole(&join), [(7, false), (8, true), (9, true)]);
    assert_eq!(
        told,
        ["Missing: all_reduce number 7 of ranks 0, 1 is missing on rank 1"]
    );
}

#[test]
fn what_a_longer_recording_has_more_is_missing_on_nobody() {
    // one collective per 1000 us, at varying times; rank 1 begins 30 before the others and ends 30
    // later
    let drawn = |machine: Option<&str>, ahead_ns: i64, seq: bool| {
        [0, 1, 2].map(|at| {
            let mut summary = rank(at, 3, &[&[0, 1, 2]]);
            summary.machine = machine.map(str::to_owned);
            summary.process = Some(100 + at);
            let numbers = if at == 1 { 0..80 } else { 30..50 };
            let ahead = if at == 1 { ahead_ns } else { 0 };
            for number in numbers.clone() {
                let end = 1_000_000_000 + number * 1_000_000 + number * number * 100 + ahead;
                let seq = if seq { number } else { -1 };
                collective(&mut summary, AllReduce, 0, seq, (end - 100_000, end));
            }
            let times = summary.communications.iter().map(|own| own.end_ns);
            let (first, last) = (times.clone().min(), times.max());
            let window = (first.unwrap_or_default(), last.unwrap_or_default());
            summary.window_ns = (UnixNs(window.0.0 - 200_000), window.1);
            summary
        })
    };
    for (machine, ahead_ns, seq) in [
        (Some("a"), 0, false),
        (None, 0, false),
        (None, 400_000, false),
        (Some("a"), 0, true),
    ] {
        let ranks = drawn(machine, ahead_ns, seq);
        let (join, told) = joined(&ranks);
        let is_outside = |text: &String| text.contains("before or after the recording");
        assert!(
            told.iter().all(is_outside),
            "{told:?} {machine:?} {ahead_ns} {seq}"
        );
        let all: Vec<_> = join
            .matches
            .iter()
            .filter(|one| one.outside.is_empty())
            .collect();
        assert_eq!(all.len(), 20);
        let is_at = |one: &&CollectiveMatch, rank: usize, index: u32| {
            one.members[rank].communication == CommIdx(index)
        };
        assert!(
            all.iter()
                .zip(0..)
                .all(|(one, at)| is_at(one, 0, at) && is_at(one, 1, 30 + at))
        );
    }
}

#[test]
fn order_pairs_where_numbers_are_a_ranks_own() {
    assert_eq!(
        whole(&joined(&pair([&[7, 8], &[30, 31]])).0),
        [(0, true), (1, true)]
    );
    assert_eq!(
        whole(&joined(&pair([&[-1, -1], &[-1, -1]])).0),
        [(0, true), (1, true)]
    );
    assert_eq!(
        whole(&joined(&pair([&[4, 4, 5], &[4, 4, 5]])).0),
        [(4, true), (4, true), (5, true)],
        "coalesced ones share theirs"
    );
}

#[test]
fn what_differs_is_named() {
    let mut ranks = pair([&[1, 2, 3], &[1, 2, 3]]);
    ranks[1].communications[0].kind = Broadcast;
    ranks[1].communications[1].in_bytes = 8;
    ranks[1].communications[2].dtype = ranks[1].names.intern("Half");
    let (join, told) = joined(&ranks);
    assert_eq!(
        join.matches
            .iter()
            .map(|matched| matched.differs)
            .collect::<Vec<_>>(),
        [
            Some(Mismatch::Kind),
            Some(Mismatch::Size),
            Some(Mismatch::Dtype)
        ]
    );
    let name = |number| format!("all_reduce number {number} of ranks 0, 1");
    assert_eq!(
        told,
        [
            format!(
                "KindDiffers: {}: all_reduce on rank 0, broadcast on rank 1",
                name(1)
            ),
            format!("DtypeDiffers: {}: Float on rank 0, Half on rank 1", name(3)),
            format!(
                "SizeDiffers: {}: 1024 bytes on rank 0, 8 bytes on rank 1",
                name(2)
            ),
        ]
    );
}

#[test]
fn a_rank_that_fits_nobody_is_a_stranger() {
    let mut ranks = [0, 1, 2].map(|at| rank(at, 3, &[&[0, 1], &[0, 1, 2]]));
    ranks
        .iter_mut()
        .take(2)
        .for_each(|summary| collective(summary, AllReduce, 0, 1, (0, 5)));
    collective(&mut ranks[2], Broadcast, 1, 1, (0, 5));
    assert_eq!(join_ranks(&ranks).strangers(&ranks), [[GlobalRank(2)]]);
    assert_eq!(
        join_ranks(&ranks[2..]).strangers(&ranks[2..]),
        [[]; 0] as [[GlobalRank; 0]; 0],
        "when nothing fits nobody is strange"
    );
}

/// Ranks 0 and 1 are of one run, ranks 2 and 3 of another: each pair has a group of its own, and the
/// group of all has collectives of other kinds.
#[test]
fn ranks_that_fit_among_themselves_are_strangers_together() {
    let groups: [&[u64]; 3] = [&[0, 1], &[2, 3], &[0, 1, 2, 3]];
    let mut ranks = [0, 1, 2, 3].map(|at| rank(at, 4, &groups));
    for (at, summary) in (0..).zip(&mut ranks) {
        collective(summary, AllReduce, at / 2, 1, (0, 5));
    }
    assert!(
        join_ranks(&ranks).strangers(&ranks).is_empty(),
        "nothing is shared"
    );
    for (at, summary) in ranks.iter_mut().enumerate() {
        let kind = if at < 2 { AllReduce } else { Broadcast };
        collective(summary, kind, 2, 1, (10, 15));
    }
    let strangers = [[GlobalRank(2), GlobalRank(3)]];
    assert_eq!(join_ranks(&ranks).strangers(&ranks), strangers);
}

#[test]
fn a_rank_whose_partners_have_no_traces_is_no_stranger() {
    let [first, second] = pair([&[7], &[7]]);
    let mut third = rank(2, 4, &[&[2, 3], &[1, 2]]);
    collective(&mut third, AllReduce, 0, 1, (0, 5));
    let mut ranks = [first, second, third];
    assert!(join_ranks(&ranks).strangers(&ranks).is_empty());
    // a collective that only it has matches nobody either
    collective(&mut ranks[2], AllReduce, 1, 1, (10, 15));
    assert_eq!(join_ranks(&ranks).strangers(&ranks), [[GlobalRank(2)]]);
}

#[test]
fn an_uneven_all_to_all_is_no_problem() {
    let mut ranks = pair([&[1], &[1]]);
    ranks
        .iter_mut()
        .for_each(|summary| summary.communications[0].kind = AllToAll);
    ranks[1].communications[0].in_bytes = 8;
    let (join, told) = joined(&ranks);
    assert_eq!(
        (join.matches[0].differs, told.len()),
        (Some(Mismatch::Size), 0)
    );
}

#[test]
fn what_a_trace_does_not_say_is_no_number() {
    let mut ranks = pair([&[1, 2], &[1, 2]]);
    ranks[1].communications[0].in_bytes = 0;
    ranks[1].communications[1].dtype = ranks[1].names.intern("");
    let told = joined(&ranks).1;
    assert!(
        told.iter()
            .any(|line| line.ends_with("1024 bytes on rank 0, no size on rank 1")),
        "{told:?}"
    );
    assert!(
        told.iter()
            .any(|line| line.ends_with("Float on rank 0, no element type on rank 1")),
        "{told:?}"
    );
}

#[test]
fn messages_are_paired_in_order() {
    let mut ranks = [0, 1].map(|at| rank(at, 2, &[]));
    message(&mut ranks[0], Send, Some(1), 0);
    message(&mut ranks[0], Send, Some(1), 10);
    message(&mut ranks[0], Recv, None, 20);
    message(&mut ranks[0], Send, Some(0), 30);
    message(&mut ranks[1], Recv, Some(0), 15);
    let (join, told) = joined(&ranks);
    assert_eq!(whole(&join), [(0, true), (1, false)]);
    let missing = "SendWithoutRecv: message 1 from rank 0 to rank 1 is missing on rank 1";
    assert_eq!(
        told,
        [
            missing,
            "UnknownPeer: recv on rank 0",
            "OwnPeer: send on rank 0"
        ]
    );
}

#[test]
fn ranks_that_are_not_here_are_counted_not_missed() {
    let mut ranks = [rank(0, 4, &[&[0, 1, 2, 3]]), rank(3, 4, &[&[0, 1, 2, 3]])];
    ranks
        .iter_mut()
        .for_each(|summary| collective(summary, AllReduce, 0, 1, (0, 5)));
    let (join, told) = joined(&ranks);
    assert_eq!(
        (
            join.matches[0].absent,
            join.matches[0].is_whole(),
            told.len()
        ),
        (2, true, 0)
    );
}

#[test]
fn a_rank_that_is_not_in_its_group_is_told() {
    let mut ranks = [rank(0, 2, &[&[0, 1]]), rank(5, 2, &[&[0, 1]])];
    ranks
        .iter_mut()
        .for_each(|summary| collective(summary, AllReduce, 0, 1, (0, 5)));
    assert_eq!(joined(&ranks).1, ["NotAMember: all_reduce on rank 5"]);
}

#[test]
fn groups_without_ranks_are_found_by_what_else_tells() {
    let named = |at: i64, group: GroupIdentity| {
        let mut summary = rank(at, 2, &[]);
        summary.groups = vec![group];
        collective(&mut summary, AllReduce, 0, 1, (0, 5));
        summary
    };
    let groups = |one, other| {
        joined(&[named(0, one), named(1, other)])
            .0
            .groups
            .into_values()
            .collect::<Vec<_>>()
    };
    let communicator = |size| GroupIdentity::Communicator("0xab".into(), size);
    assert_eq!(groups(GroupIdentity::Only, GroupIdentity::Only), [[0, 1]]);
    assert_eq!(groups(communicator(2), communicator(2)), [[0, 1]]);
    assert!(
        groups(communicator(8), communicator(8)).is_empty(),
        "six users are not here"
    );
    assert!(
        groups(
            GroupIdentity::Named("a".into()),
            GroupIdentity::Named("b".into())
        )
        .is_empty()
    );
}
