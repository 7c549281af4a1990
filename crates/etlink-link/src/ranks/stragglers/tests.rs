use super::*;
use crate::ranks::testing::{collective, rank};
use crate::ranks::{
    RankSteps, StepSpan, align_clocks, collective_skews, join_ranks, start_skew_waits,
};
use etlink_model::CollectiveKind::AllReduce;
use etlink_model::{StepIdx, UnixNs};

/// Draws all-reduces of three ranks with these arrivals, at intervals of 1000 ns, in these steps of
/// each rank.
fn drawn(rounds: &[[i64; 3]], of: [&[u32]; 3]) -> (Vec<RankSummary>, RunJoin) {
    let mut ranks: Vec<RankSummary> = (0..3).map(|at| rank(at, 3, &[&[0, 1, 2]])).collect();
    for (round, starts) in (0..).zip(rounds) {
        for (summary, start) in ranks.iter_mut().zip(starts) {
            collective(
                summary,
                AllReduce,
                0,
                round,
                (1000 * round + start, 1000 * round + 900),
            );
        }
    }
    for (summary, of) in ranks.iter_mut().zip(of) {
        let step = |(name, start_ns, end_ns): (&str, i64, i64)| {
            let span = (UnixNs(start_ns + summary.rank.0), UnixNs(end_ns));
            StepSpan::on_host(name.into(), span)
        };
        summary.steps = RankSteps {
            all: [("ProfilerStep#9", 0, 1950), ("ProfilerStep#10", 1950, 4000)]
                .map(step)
                .into(),
            by_comm: of.iter().copied().map(StepIdx).collect(),
        };
    }
    let join = join_ranks(&ranks);
    (ranks, join)
}

#[test]
fn the_last_is_charged_what_each_of_the_others_waited() {
    let (ranks, join) = drawn(&[[0, 20, 320], [0, 50, 10]], [&[0, 0]; 3]);
    let sums = straggler_stats(&ranks, &join, &[]);
    assert_eq!(
        sums[2],
        StragglerStats {
            rank: GlobalRank(2),
            collectives: 2,
            last: 1,
            // the ranks began their first step a nanosecond apart
            caused_ns: 318 + 299,
            began_late_ns: 2 + 1,
            start_skew_ns: 0,
            handed_on_ns: 0,
            caused_uncertainty_ns: 0,
            waited_ns: 40
        }
    );
    assert_eq!(
        sums[1],
        StragglerStats {
            rank: GlobalRank(1),
            collectives: 2,
            last: 1,
            caused_ns: 50 + 40,
            began_late_ns: 0,
            start_skew_ns: 0,
            handed_on_ns: 0,
            caused_uncertainty_ns: 0,
            waited_ns: 300
        }
    );
    assert_eq!(
        sums[0],
        StragglerStats {
            rank: GlobalRank(0),
            collectives: 2,
            last: 0,
            caused_ns: 0,
            began_late_ns: 0,
            start_skew_ns: 0,
            handed_on_ns: 0,
            caused_uncertainty_ns: 0,
            waited_ns: 320 + 50
        }
    );
}

#[test]
fn each_step_has_its_stragglers() {
    let (ranks, join) = drawn(&[[0, 20, 320], [0, 50, 10], [100, 0, 0]], [&[0, 0, 1]; 3]);
    let steps = step_stragglers(&ranks, &join, &[]);
    let told: Vec<_> = steps
        .iter()
        .map(|step| {
            (
                step.step.as_deref(),
                step.collectives,
                step.spans_steps,
                step.waited_ns,
                step.length_ns,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (Some("ProfilerStep#9"), 2, 0, 620 + 90, 1948),
            (Some("ProfilerStep#10"), 1, 0, 200, 2048)
        ]
    );
    assert_eq!(steps[0].begin_spread_ns, 2);
    // the last rank begins the next step as much later as the begins of the step are apart
    let [first, second] = [0, 1].map(|at: usize| &steps[at]);
    let next_ns = second.begin_ns.since(first.begin_ns);
    assert_eq!(next_ns, first.length_ns + first.begin_spread_ns);
    assert!(first.start_ns <= first.begin_ns);
    let late = |step: &StepStragglers| {
        step.stragglers
            .iter()
            .map(|rank| (rank.rank.0, rank.caused_ns))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (late(&steps[0]), late(&steps[1])),
        (vec![(2, 617), (1, 90)], vec![(0, 200)])
    );
    let caused: i64 = straggler_stats(&ranks, &join, &[])
        .iter()
        .map(|rank| rank.caused_ns + rank.began_late_ns)
        .sum();
    assert_eq!(steps.iter().map(|step| step.waited_ns).sum::<i64>(), caused);
}

#[test]
fn a_collective_is_of_the_step_in_which_the_last_launched_it() {
    let (ranks, join) = drawn(&[[0, 20, 320]], [&[0], &[0], &[1]]);
    let steps = step_stragglers(&ranks, &join, &[]);
    assert_eq!(
        (steps.len(), steps[0].step.as_deref(), steps[0].spans_steps),
        (1, Some("ProfilerStep#10"), 1)
    );
}

#[test]
fn what_is_of_no_step_comes_first() {
    let (ranks, join) = drawn(&[[0, 20, 320], [0, 50, 10]], [&[StepIdx::NONE.0, 0]; 3]);
    let steps = step_stragglers(&ranks, &join, &[]);
    assert_eq!(
        steps
            .iter()
            .map(|step| step.step.as_deref())
            .collect::<Vec<_>>(),
        [None, Some("ProfilerStep#9")]
    );
    assert_eq!(steps[0].start_ns.0, 0, "the first arrival");
}

#[test]
fn delay_that_is_handed_on_is_charged_where_it_arose() {
    // rank 0 works for 500 ns more; rank 1 waits for it, and rank 2 for rank 1
    let mut ranks: Vec<RankSummary> = (0..3).map(|at| rank(at, 3, &[&[0, 1], &[1, 2]])).collect();
    collective(&mut ranks[0], AllReduce, 0, 1, (600, 610));
    collective(&mut ranks[1], AllReduce, 0, 1, (100, 610));
    collective(&mut ranks[1], AllReduce, 1, 1, (710, 720));
    collective(&mut ranks[2], AllReduce, 1, 1, (210, 720));
    let sums = straggler_stats(&ranks, &join_ranks(&ranks), &[]);
    let charged: Vec<_> = sums
        .iter()
        .map(|rank| (rank.caused_ns, rank.handed_on_ns, rank.waited_ns))
        .collect();
    assert_eq!(charged, [(1000, 0, 0), (0, 500, 500), (0, 0, 500)]);
}

/// Each rank waits for the previous one. The recording of rank 1 begins when rank 0 arrives:
/// earlier time delays nobody.
#[test]
fn a_wait_that_ends_as_a_rank_begins_is_none_of_it() {
    let groups: [&[u64]; 3] = [&[0, 1], &[1, 2], &[2, 3]];
    let mut ranks: Vec<RankSummary> = (0..4).map(|at| rank(at, 4, &groups)).collect();
    for (at, starts) in [(0, [600, 100]), (1, [710, 210]), (2, [820, 320])] {
        for (member, start) in starts.into_iter().enumerate() {
            let span = (start, starts[0] + 10);
            collective(&mut ranks[at + member], AllReduce, at as u32, 1, span);
        }
    }
    ranks[1].window_ns.0 = UnixNs(600);
    let sums = straggler_stats(&ranks, &join_ranks(&ranks), &[]);
    let charged: Vec<_> = sums
        .iter()
        .map(|rank| (rank.caused_ns, rank.handed_on_ns, rank.began_late_ns))
        .collect();
    let late = 500;
    assert_eq!(
        charged,
        [(late, 0, 0), (0, 0, 2 * late), (0, late, 0), (0, 0, 0)]
    );
}

#[test]
fn what_a_rank_brought_with_it_is_told_apart() {
    let mut ranks: Vec<RankSummary> = (0..2).map(|at| rank(at, 2, &[&[0, 1]])).collect();
    for (summary, begin) in ranks.iter_mut().zip([0, 300]) {
        summary.window_ns = (UnixNs(begin), UnixNs(2_000));
        // rank 1 itself caused 20 of its delay
        let late = begin / 15;
        collective(summary, AllReduce, 0, 1, (begin + late + 100, 500));
        collective(summary, AllReduce, 0, 2, (1_000 + begin, 1_400));
    }
    let sums = straggler_stats(&ranks, &join_ranks(&ranks), &[]);
    let first = (sums[1].began_late_ns, sums[1].caused_ns);
    assert_eq!(
        first,
        (300, 20 + 300),
        "later meetings compare with the first"
    );
}

/// Two ranks begin a step 50 apart and meet once. Rank 1 is late because its recording began later
/// only if it was not recorded when rank 0 began.
#[test]
fn a_late_step_of_a_recorded_rank_is_no_start_skew() {
    // first event, stated start of the recording
    for (first, stated, start_skew_ns) in [(0, None, 0), (120, None, 50), (120, Some(100), 0)] {
        let mut ranks: Vec<RankSummary> = (0..2).map(|at| rank(at, 2, &[&[0, 1]])).collect();
        for (summary, begin) in ranks.iter_mut().zip([100, 150]) {
            summary.window_ns = (UnixNs(begin.min(100)), UnixNs(1_000));
            let span = (UnixNs(begin), UnixNs(900));
            summary.steps.all = vec![StepSpan::on_host("step 1".to_owned(), span)];
            collective(summary, AllReduce, 0, 1, (begin + 10, 300));
        }
        ranks[1].window_ns.0 = UnixNs(first);
        ranks[1].stated_start_ns = stated.map(UnixNs);
        let join = join_ranks(&ranks);
        let late = straggler_stats(&ranks, &join, &[])[1];
        assert_eq!(
            (late.began_late_ns, late.start_skew_ns),
            (50, start_skew_ns)
        );
        assert_eq!(late.began_steps_later(), start_skew_ns == 0);
        let waits = start_skew_waits(&ranks, &join, &[]);
        let waits: Vec<_> = waits.iter().map(|one| (one.rank.0, one.waits_ns)).collect();
        let want = if start_skew_ns > 0 {
            vec![(0, 50)]
        } else {
            vec![]
        };
        assert_eq!(waits, want);
        assert_eq!(
            collective_skews(&ranks, &join, &[])[0].started_apart(),
            start_skew_ns > 0
        );
    }
}

/// Without steps, ranks are compared since their recordings began.
#[test]
fn a_recorded_rank_that_did_nothing_is_late_by_itself() {
    for (stated, charged) in [(None, (0, 500)), (Some(0), (500, 0))] {
        let mut ranks: Vec<RankSummary> = (0..2).map(|at| rank(at, 2, &[&[0, 1]])).collect();
        for (summary, begin) in ranks.iter_mut().zip([0, 500]) {
            summary.window_ns = (UnixNs(begin), UnixNs(1_000));
            collective(summary, AllReduce, 0, 1, (begin + 10, 600));
        }
        ranks[1].stated_start_ns = stated.map(UnixNs);
        let late = straggler_stats(&ranks, &join_ranks(&ranks), &[])[1];
        assert_eq!((late.caused_ns, late.start_skew_ns), charged);
    }
}

#[test]
fn a_rank_that_only_began_late_is_among_the_worst() {
    let of = |rank: i64, caused_ns: i64, began_late_ns: i64| StragglerStats {
        rank: GlobalRank(rank),
        caused_ns,
        began_late_ns,
        ..StragglerStats::default()
    };
    let sums = RankSums {
        ranks: vec![of(0, 0, 5), of(1, 0, 0), of(2, 3, 0)],
    };
    let worst = sums.worst();
    assert_eq!(Vec::from_iter(worst.iter().map(|one| one.rank.0)), [2, 0]);
}

#[test]
fn the_error_of_a_sum_of_waits_is_the_sum_of_their_errors() {
    // rank 2 comes 10 later each time, and its clock may be off by as much
    let (mut ranks, join) = drawn(&[[0, 0, 10]; 40], [&[0; 40]; 3]);
    let clocks = |errors: [i64; 3]| {
        let clock = |likely_error_ns| RankClock {
            likely_error_ns,
            ..RankClock::default()
        };
        errors.map(clock)
    };
    let sums = straggler_stats(&ranks, &join, &clocks([0, 0, 15]));
    assert_eq!(sums[2].caused_uncertainty_ns, 15 * 2 * 40);
    assert!(!sums[2].is_late() && sums[2].caused_ns > 15);
    // a clock that is better known shows it
    let sums = straggler_stats(&ranks, &join, &clocks([0, 0, 5]));
    assert!(sums[2].is_late());
    // an error of either clock counts, except of ranks that share one
    let sums = straggler_stats(&ranks, &join, &clocks([0, 7, 7]));
    assert_eq!(sums[2].caused_uncertainty_ns, (7 + 14) * 40);
    ranks[1].machine = Some("a".into());
    ranks[2].machine = Some("a".into());
    let sums = straggler_stats(&ranks, &join, &clocks([0, 7, 7]));
    assert_eq!(sums[2].caused_uncertainty_ns, 7 * 40);
}

#[test]
fn a_rank_is_late_where_ends_agree_and_not_where_they_are_as_far_apart() {
    for (start, end, is_late) in [(30, 0, true), (0, 30, false), (130, 0, true)] {
        let mut ranks: Vec<RankSummary> = (0..2).map(|at| rank(at, 2, &[&[0, 1]])).collect();
        for round in 0..20 {
            let at = 1_000 * round;
            collective(&mut ranks[0], AllReduce, 0, round, (at, at + 200));
            let other = (at + start, at + 200 + end);
            collective(&mut ranks[1], AllReduce, 0, round, other);
        }
        let join = join_ranks(&ranks);
        let clocks = align_clocks(&ranks, &join);
        let sums = straggler_stats(&ranks, &join, &clocks);
        let late: Vec<bool> = sums.iter().map(StragglerStats::is_late).collect();
        assert_eq!(late.contains(&true), is_late, "{start} {end}: {sums:?}");
        assert!(
            sums.iter().any(|rank| rank.caused_ns >= 19 * 30),
            "{sums:?}"
        );
    }
}
