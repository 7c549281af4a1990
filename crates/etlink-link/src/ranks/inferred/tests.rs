//! Draws runs with known groups; ranks of several runs are mixed.

use super::*;
use crate::ranks::{UnrecordedKernel, align_clocks, join_ranks, straggler_stats};
use etlink_model::{GlobalRank, NodeIdx};

/// Random numbers by SplitMix64 (Steele et al., 2014).
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % most.max(1) as u64) as i64
    }
}

/// A run whose ranks meet in groups of `group_size` consecutive ranks.
struct DrawnRun {
    ranks: i64,
    group_size: i64,
    kernels: i64,
    kind: CollectiveKind,
    /// Clock difference between its ranks, ns; 0 on one machine.
    clocks_ns: i64,
    /// Name of the machine, if its traces state it.
    machine: Option<&'static str>,
    begin_ns: i64,
    /// Rank that arrives later at the middle collective, and its delay.
    late: Option<(i64, i64)>,
}

impl DrawnRun {
    const SMALL: DrawnRun = DrawnRun {
        ranks: 4,
        group_size: 4,
        kernels: 8,
        kind: CollectiveKind::AllReduce,
        clocks_ns: 0,
        machine: None,
        begin_ns: 1_000_000_000,
        late: None,
    };

    fn draw(&self, draw: &mut Draw) -> Vec<RankSummary> {
        let mut all = vec![];
        let mut at: Vec<i64> = (0..self.ranks)
            .map(|_| self.begin_ns + draw.below(3_000_000))
            .collect();
        let clocks: Vec<i64> = (0..self.ranks)
            .map(|_| draw.below(self.clocks_ns))
            .collect();
        for rank in 0..self.ranks {
            all.push(RankSummary {
                rank: GlobalRank(rank),
                machine: self.machine.map(str::to_owned),
                process: Some(100 + rank),
                ..RankSummary::default()
            });
        }
        for number in 0..self.kernels {
            for group in 0..self.ranks / self.group_size {
                let members = group * self.group_size..(group + 1) * self.group_size;
                for rank in members.clone() {
                    let late = self
                        .late
                        .filter(|late| *late == (rank, late.1) && number == self.kernels / 2);
                    at[rank as usize] +=
                        200_000 + draw.below(900_000) + late.map_or(0, |late| late.1);
                }
                let last = members
                    .clone()
                    .map(|rank| at[rank as usize])
                    .max()
                    .unwrap_or(0);
                let end = last + 30_000 + draw.below(20_000);
                for rank in members {
                    let clock = clocks[rank as usize];
                    let own_end = end + draw.below(4_000);
                    all[rank as usize].unrecorded.push(UnrecordedKernel {
                        node: NodeIdx(number as u32),
                        name: Default::default(),
                        kind: self.kind,
                        stream: 20,
                        start_ns: UnixNs(at[rank as usize] + clock),
                        end_ns: UnixNs(own_end + clock),
                        step: StepIdx::NONE,
                    });
                    at[rank as usize] = own_end;
                }
            }
        }
        for summary in &mut all {
            set_window(summary);
        }
        all
    }
}

fn set_window(summary: &mut RankSummary) {
    let (Some(first), Some(last)) = (summary.unrecorded.first(), summary.unrecorded.last()) else {
        return;
    };
    summary.window_ns = (first.start_ns, last.end_ns);
}

/// Returns the ranks of each inferred group.
fn groups(ranks: &[RankSummary]) -> Vec<Vec<u64>> {
    let join = join_ranks(ranks);
    join.inferred
        .iter()
        .map(|number| join.groups[number].clone())
        .collect()
}

#[test]
fn a_late_rank_is_found_without_records() {
    for clocks_ns in [0, 5_000_000] {
        let run = DrawnRun {
            clocks_ns,
            kernels: 40,
            late: Some((2, 12_000_000)),
            ..DrawnRun::SMALL
        };
        let mut ranks = run.draw(&mut Draw(7));
        assert_eq!(infer_collectives(&mut ranks), 40);
        assert_eq!(groups(&ranks), [[0, 1, 2, 3]]);
        assert!(ranks.iter().all(|rank| rank.unrecorded.is_empty()));
        let join = join_ranks(&ranks);
        assert!(
            join.matches
                .iter()
                .all(|one| one.is_whole() && one.members.len() == 4)
        );
        let clocks = align_clocks(&ranks, &join);
        let stats = straggler_stats(&ranks, &join, &clocks);
        let worst = stats.iter().max_by_key(|rank| rank.caused_ns);
        assert_eq!(worst.map(|rank| rank.rank), Some(GlobalRank(2)));
        assert!(
            stats[2].caused_ns > 33_000_000,
            "three ranks waited for 12 ms"
        );
    }
}

#[test]
fn groups_of_one_run_are_told_apart() {
    for seed in 0..50 {
        let run = DrawnRun {
            ranks: 8,
            group_size: 2,
            clocks_ns: 2_000_000,
            ..DrawnRun::SMALL
        };
        let mut ranks = run.draw(&mut Draw(seed));
        infer_collectives(&mut ranks);
        let expected = [[0, 1], [2, 3], [4, 5], [6, 7]];
        assert_eq!(groups(&ranks), expected, "seed {seed}");
    }
}

#[test]
fn a_recording_may_begin_and_end_elsewhere() {
    let run = DrawnRun {
        kernels: 12,
        ..DrawnRun::SMALL
    };
    let mut ranks = run.draw(&mut Draw(3));
    ranks[1].unrecorded.remove(0);
    ranks[3].unrecorded.truncate(10);
    assert_eq!(infer_collectives(&mut ranks), 9);
    let left: Vec<usize> = ranks.iter().map(|rank| rank.unrecorded.len()).collect();
    assert_eq!(left, [3, 2, 3, 1]);
}

/// Names the communicator of all kernels of a rank.
fn name_communicator(summary: &mut RankSummary) {
    let identity = GroupIdentity::Communicator("0x7f".to_owned(), 4);
    summary.groups.push(identity);
    let used = (0..summary.unrecorded.len()).collect();
    let named = summary.unrecorded.iter().map(|kernel| {
        let times = (kernel.start_ns, kernel.end_ns);
        let communication = Communication {
            node: kernel.node,
            name: kernel.name,
            peers: Peers::Group(GroupIdx::new(0)),
            kind: kernel.kind,
            dtype: Default::default(),
            in_split: Default::default(),
            in_bytes: 64,
            bytes: 64,
            is_sized: true,
            seq: None,
            start_ns: kernel.start_ns,
            end_ns: kernel.end_ns,
            on_device: true,
            extent: CommExtent::from_node(kernel.node, times),
        };
        (communication, StepIdx::NONE)
    });
    let named: Vec<_> = named.collect();
    summary.add_inferred(named, &used);
}

#[test]
fn a_communicator_that_one_rank_does_not_name_is_joined_by_ends() {
    let mut ranks = DrawnRun::SMALL.draw(&mut Draw(5));
    ranks[..3].iter_mut().for_each(name_communicator);
    let mut all = ranks.clone();
    assert_eq!(infer_collectives(&mut all), 8);
    assert_eq!(unmatched_reason(&all), None);
    // sizes are kept, and a kernel without a size does not contradict them
    let sized = |rank: &RankSummary| rank.communications.iter().all(|one| one.bytes == 64);
    assert!(all[..3].iter().all(sized));
    let join = join_ranks(&all);
    assert!(join.matches.iter().all(|one| one.differs.is_none()));
    // nothing is taken from ranks that all name it
    ranks.pop();
    assert_eq!(infer_collectives(&mut ranks), 0);
    assert!(ranks.iter().all(|rank| rank.communications.len() == 8));
}

#[test]
fn a_communicator_is_kept_if_other_kernels_do_not_fit() {
    let mut named = DrawnRun::SMALL.draw(&mut Draw(5));
    named.truncate(2);
    named.iter_mut().for_each(name_communicator);
    let others = DrawnRun::SMALL.draw(&mut Draw(6));
    // kernels of other kinds on a rank that names it, alike ones there, and alike ones elsewhere
    let mut message = others[0].unrecorded[0];
    message.kind = CollectiveKind::Send;
    let mut with_message = named.clone();
    with_message[0].unrecorded.push(message);
    let mut with_alike = named.clone();
    with_alike[1].unrecorded = others[1].unrecorded.clone();
    let with_other = [&named[..], &others[2..3]].concat();
    for mut ranks in [with_message, with_alike, with_other] {
        let known = ranks.clone();
        assert_eq!(infer_collectives(&mut ranks), 0);
        for (rank, known) in ranks.iter().zip(known) {
            assert_eq!(rank.communications, known.communications);
            assert_eq!(rank.unrecorded, known.unrecorded);
        }
    }
}

#[test]
fn kernels_that_are_left_have_a_reason() {
    let run = |kernels, begin_ns| {
        let run = DrawnRun {
            kernels,
            begin_ns,
            ..DrawnRun::SMALL
        };
        run.draw(&mut Draw(9))
    };
    let others = DrawnRun::SMALL.draw(&mut Draw(10));
    let reason = |one: &RankSummary, two: &RankSummary| {
        let mut ranks = vec![one.clone(), two.clone()];
        assert_eq!(infer_collectives(&mut ranks), 0);
        unmatched_reason(&ranks)
    };
    let own = run(8, DrawnRun::SMALL.begin_ns);
    let silent = RankSummary::default();
    let later = run(8, 9 * DrawnRun::SMALL.begin_ns);
    let few = run(2, DrawnRun::SMALL.begin_ns);
    for (two, want) in [
        (&silent, UnmatchedReason::NoOtherRank),
        (&later[1], UnmatchedReason::NoOverlap),
        (&few[1], UnmatchedReason::TooFew),
        (&others[1], UnmatchedReason::EndsDiffer),
    ] {
        assert_eq!(reason(&own[0], two), Some(want));
    }
}

#[test]
fn sends_and_receives_are_messages() {
    let run = DrawnRun {
        ranks: 2,
        group_size: 2,
        kind: CollectiveKind::Send,
        ..DrawnRun::SMALL
    };
    let mut ranks = run.draw(&mut Draw(1));
    let mut alike = ranks.clone();
    assert_eq!(infer_collectives(&mut alike), 0, "two senders");
    for kernel in &mut ranks[1].unrecorded {
        kernel.kind = CollectiveKind::Recv;
    }
    assert_eq!(infer_collectives(&mut ranks), 8);
    let join = join_ranks(&ranks);
    assert!(
        join.matches
            .iter()
            .all(|one| one.members.len() == 2 && one.differs.is_none())
    );
}

/// Ranks of several runs, at the same time and on the same machines, are never joined.
#[test]
fn ranks_of_different_runs_are_not_joined() {
    for seed in 0..2_000 {
        let mut draw = Draw(seed);
        let mut mixed: Vec<(i64, RankSummary)> = vec![];
        let machine = [None, Some("one")][draw.below(2) as usize];
        for number in 0..2 + draw.below(2) {
            let run = DrawnRun {
                ranks: 4,
                group_size: [2, 4][draw.below(2) as usize],
                kernels: 2 + draw.below(12),
                clocks_ns: if machine.is_none() {
                    draw.below(3_000_000)
                } else {
                    0
                },
                machine,
                begin_ns: 1_000_000_000 + draw.below(2_000_000),
                late: Some((draw.below(4), draw.below(3_000_000))),
                ..DrawnRun::SMALL
            };
            for mut rank in run.draw(&mut draw) {
                rank.rank = GlobalRank(mixed.len() as i64);
                rank.process = Some(mixed.len() as i64);
                if draw.below(3) > 0 {
                    mixed.push((number, rank));
                }
            }
        }
        for (place, (_, rank)) in mixed.iter_mut().enumerate() {
            rank.rank = GlobalRank(place as i64);
        }
        let (runs, mut ranks): (Vec<i64>, Vec<RankSummary>) = mixed.into_iter().unzip();
        infer_collectives(&mut ranks);
        for group in groups(&ranks) {
            let of_runs: BTreeSet<i64> = group.iter().map(|rank| runs[*rank as usize]).collect();
            assert_eq!(of_runs.len(), 1, "seed {seed}: {group:?}");
        }
    }
}
