use super::*;
use crate::ranks::join_ranks;
use crate::ranks::testing::{collective, message, rank};
use CollectiveKind::{AllReduce, Broadcast};
use etlink_model::CollectiveKind;

/// Draws all-reduces at intervals of 1 ms, whose last rank changes, on clocks with offsets `off`.
fn drawn(off: &[i64], groups: &[&[u64]], rounds: i64) -> Vec<RankSummary> {
    let mut ranks: Vec<RankSummary> = (0..)
        .zip(off)
        .map(|(at, _)| rank(at, off.len() as i64, groups))
        .collect();
    for round in 0..rounds {
        for (number, group) in (0u32..).zip(groups) {
            for (place, &member) in group.iter().enumerate() {
                let arrival = if place as i64 == round % group.len() as i64 {
                    80_000
                } else {
                    1_000 * member as i64
                };
                let begin = round * 1_000_000 + i64::from(number) * 200_000;
                let at = member as usize;
                collective(
                    &mut ranks[at],
                    AllReduce,
                    number,
                    round,
                    (
                        begin + arrival - off[at],
                        begin + 90_000 + member as i64 - off[at],
                    ),
                );
            }
        }
    }
    ranks
}

fn offsets(ranks: &[RankSummary]) -> Vec<RankClock> {
    align_clocks(ranks, &join_ranks(ranks))
}

#[test]
fn skewed_clocks_are_recovered() {
    let off = [0, 7_000_000, -250_000, 31];
    let found = offsets(&drawn(&off, &[&[0, 1, 2, 3]], 8));
    for (clock, off) in found.iter().zip(off) {
        assert!((clock.offset_ns - off).abs() <= 5, "{clock:?}");
        assert!(
            !clock.contradicted && clock.uncertainty_ns.is_some_and(|within| within <= 11_000),
            "{clock:?}"
        );
    }
    assert_eq!(found[3].support, 8);
}

#[test]
fn ranks_without_a_common_group_are_reached_over_others() {
    let off = [0, 1_000, -3_000_000, 50_000];
    let found = offsets(&drawn(&off, &[&[0, 1], &[2, 3], &[1, 3]], 6));
    for (clock, off) in found.iter().zip(off) {
        assert!((clock.offset_ns - off).abs() <= 5, "{clock:?}");
    }
    assert!(
        found[1].uncertainty_ns < found[3].uncertainty_ns
            && found[3].uncertainty_ns < found[2].uncertainty_ns
    );
}

#[test]
fn what_nothing_tells_stays_as_it_is() {
    let mut ranks = drawn(&[0, 500], &[&[0, 1]], 3);
    ranks
        .iter_mut()
        .flat_map(|summary| &mut summary.communications)
        .for_each(|communication| {
            communication.on_device = false;
            communication.extent.is_transfer = false;
        });
    assert_eq!(
        offsets(&ranks)[1],
        RankClock {
            rank: GlobalRank(1),
            ..RankClock::default()
        },
        "calls return before their transfer ends"
    );
    let mut ranks = drawn(&[0, 500], &[&[0, 1]], 3);
    ranks
        .iter_mut()
        .flat_map(|summary| &mut summary.communications)
        .for_each(|communication| communication.kind = Broadcast);
    assert_eq!(
        offsets(&ranks)[1].uncertainty_ns,
        None,
        "the root of a broadcast waits for nobody"
    );
}

#[test]
fn a_clock_that_no_offset_fits_says_so() {
    let mut ranks = drawn(&[0, 0], &[&[0, 1]], 9);
    for (communication, round) in ranks[1].communications.iter_mut().zip(0..) {
        communication.start_ns.0 += round * 300_000;
        communication.end_ns.0 += round * 300_000;
    }
    let clock = offsets(&ranks)[1];
    assert!(clock.contradicted, "{clock:?}");
    assert_eq!(clock.offset_ns, -4 * 300_000 - 1, "the middle one");
}

/// Like [`drawn`], on clocks that also run slow by `ppb`, seen over `seconds`.
fn drifting(
    off: &[i64],
    ppb: &[i64],
    groups: &[&[u64]],
    rounds: i64,
    seconds: i64,
) -> Vec<RankSummary> {
    let mut ranks = drawn(&vec![0; off.len()], groups, rounds);
    let spread = seconds * 1_000 / rounds;
    for ((summary, off), ppb) in ranks.iter_mut().zip(off).zip(ppb) {
        for communication in &mut summary.communications {
            let begun = communication.start_ns.0.div_euclid(1_000_000);
            let own = |true_ns: i64| {
                let true_ns = true_ns + begun * (spread - 1) * 1_000_000;
                let drift = i128::from(*ppb) * i128::from(true_ns) / 1_000_000_000;
                UnixNs(true_ns - off - drift as i64)
            };
            // the last hop takes up to 2 us, differently each time
            let hop = ((summary.rank.0 * 7 + begun + 1) * 48_271 % 2_147_483_647 * 48_271
                % 2_147_483_647)
                % 2_000;
            (communication.start_ns, communication.end_ns) = (
                own(communication.start_ns.0),
                own(communication.end_ns.0 + hop),
            );
        }
        summary.window_ns = (UnixNs(-off), UnixNs(seconds * 1_000_000_000 - off));
    }
    ranks
}

/// Largest error of a rank's times after alignment.
fn worst(ranks: &[RankSummary], clocks: &[RankClock], at: usize) -> i64 {
    let ends = ranks[0]
        .communications
        .iter()
        .zip(&ranks[at].communications);
    ends.map(|(reference, own)| (clocks[at].aligned(own.end_ns).0 - reference.end_ns.0).abs())
        .max()
        .unwrap_or(0)
}

#[test]
fn drift_is_recovered_and_applied() {
    let (off, ppb) = (
        [0, 7_000_000, -3_600_000_000_000, 31],
        [0, 50_000, -20_000, 1_000],
    );
    let ranks = drifting(&off, &ppb, &[&[0, 1, 2, 3]], 200, 10);
    let found = offsets(&ranks);
    for (at, (clock, ppb)) in found.iter().zip(ppb).enumerate().skip(1) {
        let drift = clock.drift.expect("a drift");
        assert!(drift.applied && !clock.contradicted, "{clock:?}");
        // the correction per second of such a slow clock is slightly more
        let ppb = ppb + ppb * ppb / 1_000_000_000;
        assert!(
            (drift.ppb - ppb).abs() <= drift.uncertainty_ppb
                && (10..=700).contains(&drift.uncertainty_ppb),
            "{clock:?}"
        );
        assert!(
            worst(&ranks, &found, at) <= 5_000,
            "{at}: {}",
            worst(&ranks, &found, at)
        );
    }
}

#[test]
fn a_drift_that_is_not_there_is_not_applied() {
    for seconds in [1, 10, 100] {
        let found = offsets(&drifting(
            &[0, 500, -90_000],
            &[0; 3],
            &[&[0, 1, 2]],
            100,
            seconds,
        ));
        for clock in &found[1..] {
            let drift = clock.drift.expect("a drift");
            assert!(
                !drift.applied && drift.ppb.abs() <= drift.uncertainty_ppb,
                "{clock:?}"
            );
        }
    }
}

#[test]
fn a_short_window_tells_no_drift() {
    // 50 ppm of 20 ms are 1 us, less than the ends differ
    let clock = offsets(&drifting(&[0, 500], &[0, 50_000], &[&[0, 1]], 20, 1))[1];
    assert!(clock.drift.is_some_and(|drift| drift.applied), "{clock:?}");
    let clock = offsets(&drawn(&[0, 500], &[&[0, 1]], 3))[1];
    assert!(
        clock
            .drift
            .is_none_or(|drift| !drift.applied && drift.uncertainty_ppb > 500_000),
        "{clock:?}"
    );
}

#[test]
fn drift_of_ranks_that_are_reached_over_others_adds_up() {
    let (off, ppb) = ([0, 1_000, -3_000_000, 50_000], [0, 40_000, -30_000, 20_000]);
    let ranks = drifting(&off, &ppb, &[&[0, 1], &[2, 3], &[1, 3]], 100, 10);
    let found = offsets(&ranks);
    for (clock, ppb) in found.iter().zip(ppb).skip(1) {
        let drift = clock.drift.expect("a drift");
        assert!(
            drift.applied && (drift.ppb - ppb).abs() <= drift.uncertainty_ppb.min(1_500),
            "{clock:?}"
        );
    }
    // rank 2 shares no collective with rank 0: check the position of a true time on its clock
    for moment in [0, 5_000_000_000, 10_000_000_000i64] {
        let drift = i128::from(ppb[2]) * i128::from(moment) / 1_000_000_000;
        let own = UnixNs(moment - off[2] - drift as i64);
        assert!(
            (found[2].aligned(own).0 - moment).abs() <= 10_000,
            "{moment}: {}",
            found[2].aligned(own).0 - moment
        );
    }
}

#[test]
fn ranks_of_one_machine_have_one_clock() {
    let mut ranks = drawn(&[0, 500_000, 0], &[&[0, 1]], 8);
    ranks[1].machine = Some("b".into());
    ranks[2].machine = Some("b".into());
    let found = offsets(&ranks);
    let reached = found[1];
    assert_eq!(
        (
            found[2].offset_ns,
            found[2].uncertainty_ns,
            found[2].support
        ),
        (reached.offset_ns, reached.uncertainty_ns, reached.support)
    );
    assert!(!reached.by_machine && reached.offset_ns != 0);
    ranks[0].machine = Some("b".into());
    assert!(!offsets(&ranks)[1].by_machine, "collectives know better");
}

#[test]
fn of_ranks_of_one_machine_no_clock_is_estimated() {
    let mut ranks = drawn(&[0, 0, 0], &[&[0, 1]], 8);
    for summary in &mut ranks {
        summary.machine = Some("a".into());
    }
    for clock in &offsets(&ranks)[1..] {
        let told = (clock.by_machine, clock.offset_ns, clock.uncertainty_ns);
        assert_eq!(told, (true, 0, None));
    }
}

/// Machine names are ignored if clocks differ, but a clock that fits no offset shows no difference.
#[test]
fn a_clock_that_no_offset_fits_sets_no_ranks_of_one_machine_apart() {
    let mut ranks = drawn(&[0, 50_000_000], &[&[0, 1]], 9);
    for (communication, round) in ranks[1].communications.iter_mut().zip(0..) {
        communication.start_ns.0 += round * 300_000;
        communication.end_ns.0 += round * 300_000;
    }
    assert!(offsets(&ranks)[1].contradicted);
    for summary in &mut ranks {
        summary.machine = Some("a".into());
    }
    let clock = offsets(&ranks)[1];
    assert!(clock.by_machine && clock.offset_ns == 0, "{clock:?}");
}

/// Ranks 1 and 2 share collectives with ranks 0 and 3, and rank 3's clock differs when seen from
/// rank 2.
#[test]
fn of_ways_that_are_equally_sure_the_first_by_rank_counts() {
    let groups: [&[u64]; 4] = [&[0, 1], &[0, 2], &[1, 3], &[2, 3]];
    let mut ranks: Vec<RankSummary> = (0..4).map(|at| rank(at, 4, &groups)).collect();
    for (number, group) in (0u32..).zip(groups) {
        for round in 0..4 {
            let off = if number == 3 { 4_000 } else { 0 };
            for (member, off) in group.iter().zip([0, off]) {
                let is_late = (round % 2 == 0) == (*member == group[0]);
                let begin = round * 1_000_000 + if is_late { 80_000 } else { 0 };
                let end = round * 1_000_000 + 90_000;
                let span = (begin + off, end + off);
                collective(&mut ranks[*member as usize], AllReduce, number, round, span);
            }
        }
    }
    let found = offsets(&ranks);
    assert_eq!(found[1].uncertainty_ns, found[2].uncertainty_ns);
    assert_eq!(found[3].offset_ns, 0, "{:?}", found[3]);
}

#[test]
fn drift_on_the_way_is_kept_where_the_last_pair_tells_none() {
    let drift = |ppb, uncertainty_ppb, applied| {
        Some(ClockDrift {
            ppb,
            uncertainty_ppb,
            applied,
        })
    };
    assert_eq!(
        ClockDrift::sum(drift(40_000, 5, true), drift(-10_000, 7, true)),
        drift(30_000, 12, true)
    );
    assert_eq!(
        ClockDrift::sum(drift(40_000, 5, true), drift(3, 7, false)),
        drift(40_000, 12, true)
    );
    assert_eq!(
        ClockDrift::sum(drift(1, 5, false), drift(3, 7, false)),
        drift(4, 12, false)
    );
    assert_eq!(
        ClockDrift::sum(drift(40_000, 5, true), None),
        drift(40_000, 1_000_005, true)
    );
    assert_eq!(ClockDrift::sum(drift(1, 5, false), None), None);
}

/// Draws a machine whose ranks send to each other, `rounds` times. A message leaves when its sender
/// is ready, and arrives `took` later, if the receiver is ready. Messages are `(from, to, took)`,
/// in sequence. Clocks have offsets `off`.
fn sent(off: &[i64], messages: &[(i64, i64, i64)], rounds: i64) -> Vec<RankSummary> {
    let mut ranks: Vec<RankSummary> = (0..)
        .zip(off)
        .map(|(at, _)| rank(at, off.len() as i64, &[]))
        .collect();
    let mut now = vec![0; off.len()];
    for round in 0..rounds {
        for (number, &(from, to, took)) in (0i64..).zip(messages) {
            let (sender, receiver) = (from as usize, to as usize);
            // Each rank works for a different time before it sends.
            now[sender] += 40_000 + (round * 7 + number * 3) % 11 * 1_000;
            let (start, waits_since) = (now[sender], now[receiver]);
            // Buffers take the message, so the sender continues at once.
            now[sender] += took / 4;
            now[receiver] = (start + took).max(now[receiver]);
            let spans = [
                (sender, CollectiveKind::Send, to, start, now[sender]),
                (
                    receiver,
                    CollectiveKind::Recv,
                    from,
                    waits_since,
                    now[receiver],
                ),
            ];
            for (at, kind, peer, start, end) in spans {
                message(&mut ranks[at], kind, Some(peer), start - off[at]);
                let last = ranks[at].communications.last_mut().expect("a message");
                last.end_ns = UnixNs(end - off[at]);
            }
        }
    }
    ranks
}

#[test]
fn messages_both_ways_or_round_a_ring_tell_the_clocks() {
    let off = [0, 9_000_000, -4_000_000, 123_456];
    let pipeline = [
        (0, 1, 9_000),
        (1, 2, 8_000),
        (2, 3, 9_000),
        (3, 2, 7_000),
        (2, 1, 9_000),
        (1, 0, 9_000),
    ];
    let ring = [(0, 1, 6_000), (1, 2, 6_000), (2, 3, 6_000), (3, 0, 6_000)];
    for messages in [&pipeline[..], &ring] {
        let found = offsets(&sent(&off, messages, 12));
        for (clock, off) in found.iter().zip(off) {
            let within = clock.uncertainty_ns.expect("messages tell");
            assert!(within <= 30_000, "{clock:?}");
            assert!((clock.offset_ns - off).abs() <= within, "{clock:?}, {off}");
        }
        assert!(found[3].support >= 24, "{:?}", found[3]);
    }
}

#[test]
fn messages_one_way_tell_no_clock() {
    let found = offsets(&sent(&[0, 5_000_000], &[(0, 1, 9_000)], 12));
    assert_eq!((found[1].offset_ns, found[1].uncertainty_ns), (0, None));
}

#[test]
fn messages_that_contradict_each_other_are_told() {
    let off = [0, 9_000_000, -4_000_000];
    let messages = [(0, 1, 9_000), (1, 2, 8_000), (2, 1, 7_000), (1, 0, 9_000)];
    let mut ranks = sent(&off, &messages, 12);
    // Messages of rank 2 appear to leave 100 us after their arrival.
    for communication in &mut ranks[2].communications {
        if communication.kind == CollectiveKind::Send {
            communication.start_ns.0 += 115_000;
            communication.end_ns.0 += 115_000;
        }
    }
    let found = offsets(&ranks);
    let said = [&found[1], &found[2]].map(|clock| clock.contradicted);
    assert_eq!(said, [true, true], "{found:?}");
    for (clock, off) in found.iter().zip(off).skip(1) {
        let missed = clock.uncertainty_ns.expect("by how much");
        assert!((70_000..=115_000).contains(&missed), "{clock:?}");
        assert!((clock.offset_ns - off).abs() <= 100_000, "{clock:?}, {off}");
    }
    // Ranks outside the cycle are not.
    let mut ranks = sent(&[0, 5_000_000], &[(0, 1, 9_000), (1, 0, 9_000)], 12);
    assert!(!offsets(&ranks)[1].contradicted);
    ranks[1].communications.truncate(1);
    assert!(!offsets(&ranks)[1].contradicted);
}

#[test]
fn messages_join_groups_that_have_clocks() {
    let off = [0, 2_000_000, -700_000, -700_000];
    // Ranks 2 and 3 share collectives, and only rank 2 has messages with rank 0.
    let mut ranks = drawn(&off, &[&[0, 1], &[2, 3]], 8);
    let messages = sent(&off, &[(0, 2, 5_000), (2, 0, 5_000)], 6);
    for (own, other) in ranks.iter_mut().zip(messages) {
        own.communications.extend(other.communications);
    }
    for (clock, off) in offsets(&ranks).iter().zip(off) {
        let within = clock.uncertainty_ns.expect("all are reached");
        assert!((clock.offset_ns - off).abs() <= within, "{clock:?}, {off}");
        assert!(within <= 40_000, "{clock:?}");
    }
}

/// Two machines have one name. Operations that wait for a call's work end with the transfer; the
/// call does not.
#[test]
fn two_clocks_of_one_name_are_seen_on_the_host() {
    for (ends_with_transfer, off) in [(true, 20_000_000), (true, 0), (false, 20_000_000)] {
        let mut ranks = drawn(&[0, off], &[&[0, 1]], 6);
        for summary in &mut ranks {
            summary.machine = Some("localhost".into());
            summary.window_ns = (UnixNs(-30_000_000), UnixNs(30_000_000));
            for own in &mut summary.communications {
                own.on_device = false;
                own.extent.is_transfer = ends_with_transfer;
            }
        }
        let found = offsets(&ranks)[1];
        if ends_with_transfer && off > 0 {
            assert!(!found.by_machine, "{found:?}");
            assert!((found.offset_ns - off).abs() <= found.uncertainty_ns.unwrap_or(0));
        } else {
            assert!(found.by_machine && found.offset_ns == 0, "{found:?}");
            assert_eq!(found.support > 0, ends_with_transfer, "{found:?}");
        }
    }
}

/// Rank 1 shows that machines share a name. Nothing proves that rank 2 is apart too, but its ends
/// always differ by the same 200 us, those of rank 3 by 3 ns.
#[test]
fn a_name_of_two_machines_proves_no_clock() {
    let one_name = |off: &[i64], group: &[u64]| {
        let mut ranks = drawn(off, &[group], 8);
        for summary in &mut ranks {
            summary.machine = Some("localhost".into());
            for own in &mut summary.communications {
                own.end_ns.0 += 400_000;
            }
        }
        offsets(&ranks)
    };
    let found = one_name(&[0, 9_000_000, 200_000, 0], &[0, 1, 2, 3]);
    assert!((found[2].offset_ns - 200_000).abs() <= 5, "{:?}", found[2]);
    assert_eq!(
        found
            .iter()
            .map(|clock| clock.by_machine)
            .collect::<Vec<_>>(),
        [false, false, false, true]
    );
    let unchallenged = one_name(&[0, 200_000, 0], &[0, 1, 2]);
    assert!(unchallenged[1..].iter().all(|clock| clock.by_machine));
}

/// A message cannot be received before it was sent.
#[test]
fn messages_show_two_clocks_of_one_name() {
    let mut ranks = [0, 1, 2].map(|at| rank(at, 3, &[]));
    for (at, ahead) in [(0, 0), (1, 20_000_000), (2, 0)] {
        ranks[at].machine = Some("localhost".into());
        ranks[at].window_ns = (UnixNs(-30_000_000), UnixNs(30_000_000));
        for round in 0..4 {
            for other in (0..3).filter(|other| *other != at as i64) {
                let time = round * 1_000 + ahead;
                message(&mut ranks[at], CollectiveKind::Send, Some(other), time);
                message(
                    &mut ranks[at],
                    CollectiveKind::Recv,
                    Some(other),
                    time + 100,
                );
            }
        }
    }
    let found = offsets(&ranks);
    assert!(found[2].by_machine && found[2].support > 0, "{found:?}");
    assert!(!found[1].by_machine, "{found:?}");
    assert!((found[1].offset_ns + 20_000_000).abs() < 1_000, "{found:?}");
}
