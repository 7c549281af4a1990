use super::*;
use crate::ranks::join;
use crate::ranks::testing::{collective, rank};
use CollectiveKind::{AllReduce, Broadcast};

/// All-reduces at 1 ms distance, in which rank `late` of each comes last, on clocks that are `off` by so much.
fn drawn(off: &[i64], groups: &[&[u64]], rounds: i64) -> Vec<Facts> {
    let mut ranks: Vec<Facts> = (0..).zip(off).map(|(at, _)| rank(at, off.len() as i64, groups)).collect();
    for round in 0..rounds {
        for (number, group) in (0u32..).zip(groups) {
            for (place, &member) in group.iter().enumerate() {
                let arrival = if place as i64 == round % group.len() as i64 { 80_000 } else { 1_000 * member as i64 };
                let begin = round * 1_000_000 + i64::from(number) * 200_000;
                let at = member as usize;
                collective(&mut ranks[at], AllReduce, number, round, (begin + arrival - off[at], begin + 90_000 + member as i64 - off[at]));
            }
        }
    }
    ranks
}

fn offsets(ranks: &[Facts]) -> Vec<Clock> {
    clocks(ranks, &join(ranks))
}

#[test]
fn skewed_clocks_are_recovered() {
    let off = [0, 7_000_000, -250_000, 31];
    let found = offsets(&drawn(&off, &[&[0, 1, 2, 3]], 8));
    for (clock, off) in found.iter().zip(off) {
        assert!((clock.offset_ns - off).abs() <= 5, "{clock:?}");
        assert!(!clock.contradicted && clock.uncertainty_ns.is_some_and(|within| within <= 11_000), "{clock:?}");
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
    assert!(found[1].uncertainty_ns < found[3].uncertainty_ns && found[3].uncertainty_ns < found[2].uncertainty_ns);
}

#[test]
fn what_nothing_tells_stays_as_it_is() {
    let mut ranks = drawn(&[0, 500], &[&[0, 1]], 3);
    ranks.iter_mut().flat_map(|facts| &mut facts.communications).for_each(|communication| communication.on_device = false);
    assert_eq!(offsets(&ranks)[1], Clock { rank: 1, ..Clock::default() }, "calls return before their transfer ends");
    let mut ranks = drawn(&[0, 500], &[&[0, 1]], 3);
    ranks.iter_mut().flat_map(|facts| &mut facts.communications).for_each(|communication| communication.kind = Broadcast);
    assert_eq!(offsets(&ranks)[1].uncertainty_ns, None, "the root of a broadcast waits for nobody");
}

#[test]
fn a_clock_that_no_offset_fits_says_so() {
    let mut ranks = drawn(&[0, 0], &[&[0, 1]], 9);
    for (communication, round) in ranks[1].communications.iter_mut().zip(0..) {
        communication.start_ns += round * 300_000;
        communication.end_ns += round * 300_000;
    }
    let clock = offsets(&ranks)[1];
    assert!(clock.contradicted, "{clock:?}");
    assert_eq!(clock.offset_ns, -4 * 300_000 - 1, "the middle one");
}
