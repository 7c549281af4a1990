//! Steps of the profiler that two ranks number equally.

use super::{RankSummary, StepSpan};
use etlink_model::{CommIdx, PROFILER_STEP};
use std::collections::BTreeMap;

pub(super) fn number_of(step: &str) -> Option<i64> {
    step.strip_prefix(PROFILER_STEP)?.parse().ok()
}

fn by_number(rank: &RankSummary) -> BTreeMap<i64, &StepSpan> {
    let steps = rank.steps.all.iter();
    let numbered = steps.filter_map(|step| Some((number_of(&step.name)?, step)));
    numbered.collect()
}

/// Returns true if steps of equal numbers coincide by the ranks' own clocks: half of them begin less
/// than half a step apart.
pub(super) fn share_steps(one: &RankSummary, two: &RankSummary) -> bool {
    let (one, two) = (by_number(one), by_number(two));
    let common = one.iter().filter_map(|(number, step)| {
        let other = two.get(number)?;
        let apart = step.start_ns.since(other.start_ns).unsigned_abs();
        let length = step.end_ns.since(step.start_ns).max(0) as u64;
        Some(2 * apart < length)
    });
    let common: Vec<bool> = common.collect();
    let close = common.iter().filter(|is_close| **is_close).count();
    close > 0 && 2 * close >= common.len()
}

/// Returns the number of communications by which the list of `two` is shifted against that of `one`,
/// by the steps that both number equally at the same time; `None` without such steps.
pub(super) fn shift_by_steps(
    (one, first): (&RankSummary, &[CommIdx]),
    (two, other): (&RankSummary, &[CommIdx]),
) -> Option<i64> {
    if !share_steps(one, two) {
        return None;
    }
    let places = |rank: &RankSummary, list: &[CommIdx]| {
        let mut places: BTreeMap<i64, i64> = BTreeMap::new();
        for (place, own) in (0..).zip(list) {
            let number = rank.steps.get(*own).and_then(|step| number_of(&step.name));
            if let Some(number) = number {
                places.entry(number).or_insert(place);
            }
        }
        places
    };
    let (one, two) = (places(one, first), places(two, other));
    let mut votes: BTreeMap<i64, usize> = BTreeMap::new();
    for (number, place) in &one {
        if let Some(other) = two.get(number) {
            *votes.entry(other - place).or_default() += 1;
        }
    }
    let most = votes.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(shift, _)| shift)
}
