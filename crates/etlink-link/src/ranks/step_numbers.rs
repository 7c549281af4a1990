//! Aligns the step numbers of ranks that count differently.
//!
//! A profiler counts the calls of its `step()`. A rank that called it once more before the loop
//! numbers each step one higher than the others, so steps of one name are different iterations.
//! Collectives reveal this: a common collective of two ranks belongs to one iteration.

use super::stated_steps::{number_of, share_steps};
use super::{RankSummary, RunJoin};
use etlink_model::{GlobalRank, PROFILER_STEP, RankIdx};
use std::collections::BTreeMap;

/// Minimum number of collectives in ten of two ranks that must show the same difference.
const AGREE_OF_TEN: u64 = 9;

/// Renumbers the steps of ranks that count higher or lower than the first rank by a constant. Numbers
/// stay if steps of equal numbers coincide by the ranks' own clocks. Returns these ranks with the constant. O(sides of collectives).
pub fn align_step_numbers(ranks: &mut [RankSummary], join: &RunJoin) -> Vec<(GlobalRank, i64)> {
    // Number of collectives per pair of ranks and difference of their steps' numbers.
    let mut votes: BTreeMap<(RankIdx, RankIdx), BTreeMap<i64, u64>> = BTreeMap::new();
    for matched in join.matches.iter().filter(|matched| matched.is_whole()) {
        let numbers = matched.members.iter().filter_map(|member| {
            let steps = &ranks.get(member.rank.index())?.steps;
            let number = number_of(&steps.get(member.communication)?.name)?;
            Some((member.rank, number))
        });
        let numbers: Vec<(RankIdx, i64)> = numbers.collect();
        let Some((first, rest)) = numbers.split_first() else {
            continue;
        };
        for (rank, number) in rest {
            let of_pair = votes.entry((first.0, *rank)).or_default();
            *of_pair.entry(number.saturating_sub(first.1)).or_default() += 1;
        }
    }
    let mut shifts: BTreeMap<RankIdx, i64> = BTreeMap::from([(RankIdx(0), 0)]);
    // In rank order: the first rank's numbers reach later ones over those between.
    for ((reference, other), votes) in votes {
        let all: u64 = votes.values().sum();
        let most = votes.iter().max_by_key(|(_, count)| **count);
        let (Some((difference, count)), Some(shift)) = (most, shifts.get(&reference)) else {
            continue;
        };
        let (one, two) = (&ranks[reference.index()], &ranks[other.index()]);
        if 10 * count >= AGREE_OF_TEN * all && !share_steps(one, two) {
            let shift = shift + difference;
            shifts.entry(other).or_insert(shift);
        }
    }
    let mut shifted = vec![];
    for (rank, shift) in shifts.into_iter().filter(|(_, shift)| *shift != 0) {
        let Some(summary) = ranks.get_mut(rank.index()) else {
            continue;
        };
        for step in &mut summary.steps.all {
            if let Some(number) = number_of(&step.name) {
                step.name = format!("{PROFILER_STEP}{}", number.saturating_sub(shift));
            }
        }
        shifted.push((summary.rank, shift));
    }
    shifted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::testing::{collective, rank};
    use crate::ranks::{StepSpan, join_ranks};
    use etlink_model::{CollectiveKind, StepIdx, UnixNs};

    /// Ranks with these numbers of the first step, whose clocks are `ahead` of the first.
    fn run(first_step: [i64; 3], ahead: i64) -> Vec<RankSummary> {
        let mut ranks = [0, 1, 2].map(|at| rank(at, 3, &[&[0, 1, 2]]));
        for (summary, first) in ranks.iter_mut().zip(first_step) {
            for number in 0..4 {
                let at = number * 100 + ahead * summary.rank.0;
                collective(summary, CollectiveKind::AllReduce, 0, number, (at, at + 50));
                let name = format!("ProfilerStep#{}", first + number);
                let span = (UnixNs(at), UnixNs(at + 100));
                summary.steps.all.push(StepSpan::on_host(name, span));
                summary.steps.by_comm.push(StepIdx::new(number as usize));
            }
        }
        ranks.to_vec()
    }

    #[test]
    fn numbers_that_differ_by_a_constant_become_those_of_the_first_rank() {
        let mut ranks = run([5, 6, 5], 0);
        let join = join_ranks(&ranks);
        let found = align_step_numbers(&mut ranks, &join);
        assert_eq!(found, [(GlobalRank(1), 1)]);
        assert_eq!(ranks[1].steps.all, ranks[0].steps.all);
        assert_eq!(align_step_numbers(&mut ranks, &join), []);
    }

    #[test]
    fn numbers_of_steps_that_coincide_are_kept_and_join_collectives() {
        // recorded from step 5, 6 and 7 on, one step of 100 ns after the other
        let mut ranks = run([5, 6, 7], 100);
        for summary in &mut ranks {
            for own in &mut summary.communications {
                own.seq = None;
            }
        }
        let join = join_ranks(&ranks);
        let whole = join.matches.iter().filter(|matched| matched.is_whole());
        assert_eq!(whole.count(), 2);
        assert_eq!(align_step_numbers(&mut ranks, &join), []);
        assert_eq!(ranks[2].steps.all[0].name, "ProfilerStep#7");
    }
}
