use super::*;
use crate::ranks::testing::{collective, message, rank};
use crate::ranks::{CommExtent, align_clocks, join_ranks};
use CollectiveKind::{AllReduce, Recv, Send};

/// Draws ranks that arrive at `starts` at an all-reduce that ends at 400.
fn meeting(starts: &[i64]) -> Vec<RankSummary> {
    let group_ranks: Vec<u64> = (0..starts.len() as u64).collect();
    let mut ranks: Vec<RankSummary> = (0..)
        .zip(starts)
        .map(|(at, _)| rank(at, starts.len() as i64, &[&group_ranks]))
        .collect();
    ranks
        .iter_mut()
        .zip(starts)
        .for_each(|(summary, start)| collective(summary, AllReduce, 0, 5, (*start, 400)));
    ranks
}

fn of(ranks: &[RankSummary], clocks: &[RankClock]) -> WaitCauses {
    wait_causes(ranks, &join_ranks(ranks), clocks)
}

/// Per rank: number, time, and true if it waits.
fn brief(found: &WaitCauses) -> Vec<Vec<(u32, i64, bool)>> {
    found
        .of_rank
        .iter()
        .map(|of| {
            of.iter()
                .map(|release| (release.number, release.at_ns.0, release.waits))
                .collect()
        })
        .collect()
}

#[test]
fn the_last_releases_all_who_came_before() {
    let found = of(&meeting(&[0, 300, 20]), &[]);
    assert_eq!(
        brief(&found),
        [
            vec![(1, 301, true)],
            vec![(1, 300, false), (2, 300, false)],
            vec![(2, 301, true)]
        ]
    );
    assert_eq!((found.count, found.gone_on), (2, 0));
    assert_eq!(found.of_rank[0][0].node, NodeIdx(10));
}

#[test]
fn who_comes_with_the_last_does_not_wait() {
    let found = of(&meeting(&[300, 0, 300]), &[]);
    assert_eq!(
        brief(&found),
        [vec![], vec![(1, 301, true)], vec![(1, 300, false)]]
    );
}

#[test]
fn each_side_has_its_own_clock() {
    let mut ranks = meeting(&[0, 300]);
    let communication = &mut ranks[1].communications[0];
    (communication.start_ns, communication.end_ns) = (
        communication.start_ns.shifted(5_000),
        communication.end_ns.shifted(5_000),
    );
    communication.extent =
        CommExtent::from_node(NodeIdx(10), (communication.start_ns, communication.end_ns));
    let clocks = align_clocks(&ranks, &join_ranks(&ranks));
    assert_eq!(clocks[1].offset_ns, -5_000);
    assert_eq!(
        brief(&of(&ranks, &clocks)),
        [vec![(1, 301, true)], vec![(1, 5_300, false)]]
    );
    let found = of(&ranks, &[]);
    assert_eq!(
        (found.count, found.gone_on),
        (0, 1),
        "by clocks that are apart rank 0 had ended"
    );
}

#[test]
fn who_waits_is_released_after_the_arrival_also_by_clocks_that_drift() {
    use crate::ranks::ClockDrift;
    for ppb in [-900_000, -7, 0, 13, 350_000, 900_000] {
        let mut ranks = meeting(&[0, 3_000_000]);
        ranks
            .iter_mut()
            .for_each(|summary| summary.communications[0].extent.end_ns.0 = 9_000_000);
        let drift = Some(ClockDrift {
            ppb,
            uncertainty_ppb: 0,
            applied: true,
        });
        let clocks = [
            RankClock {
                drift,
                at_ns: UnixNs(-50_000_000),
                ..RankClock::default()
            },
            RankClock {
                offset_ns: 5_000,
                ..RankClock::default()
            },
        ];
        let found = of(&ranks, &clocks);
        let [waits, cause] = [0, 1].map(|rank| clocks[rank].aligned(found.of_rank[rank][0].at_ns));
        assert!(
            (1..=2).contains(&waits.since(cause)),
            "{ppb}: {waits:?} after {cause:?}"
        );
    }
}

#[test]
fn a_message_goes_from_the_send_whoever_came_first() {
    for (send, recv, released) in [(100, 97, 101), (40, 97, 97), (97, 97, 98)] {
        let mut ranks = [0, 1].map(|at| rank(at, 2, &[]));
        message(&mut ranks[0], Recv, Some(1), recv);
        message(&mut ranks[1], Send, Some(0), send);
        let found = of(&ranks, &[]);
        assert_eq!(brief(&found), [[(1, released, true)], [(1, send, false)]]);
        assert!(found.of_rank[0][0].message);
    }
}

#[test]
fn nobody_knows_who_came_last_where_a_rank_is_missing() {
    let mut ranks = meeting(&[0, 300, 20]);
    ranks[2].communications.clear();
    assert_eq!(of(&ranks, &[]).count, 0);
}

#[test]
fn calls_that_have_returned_meet_where_their_workers_run_them() {
    let mut ranks = meeting(&[0, 300, 20]);
    for summary in &mut ranks {
        let communication = &mut summary.communications[0];
        communication.end_ns = communication.start_ns.shifted(10);
        communication.extent = CommExtent::from_node(
            NodeIdx(20),
            (communication.start_ns.shifted(5), UnixNs(400)),
        );
    }
    ranks[2].communications[0].extent =
        CommExtent::from_node(NodeIdx(20), (UnixNs(350), UnixNs(400)));
    let found = of(&ranks, &[]);
    assert_eq!(
        brief(&found),
        [
            vec![(1, 351, true)],
            vec![(2, 351, true)],
            vec![(1, 350, false), (2, 350, false)]
        ]
    );
    assert_eq!(
        [found.of_rank[0][0].node, found.of_rank[2][0].node],
        [NodeIdx(20); 2]
    );
    ranks[0].communications[0].extent.end_ns.0 = 301;
    assert_eq!(of(&ranks, &[]).gone_on, 1);
}
