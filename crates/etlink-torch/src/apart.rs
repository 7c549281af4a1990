//! Whether the ranks recorded the same iterations.
//!
//! Ranks count steps each for itself. One that made extra steps first records other iterations
//! under the same numbers. Ranks that wait for each other in every iteration pass the same one at
//! nearly the same time, so the clocks of their cycles tell.

use crate::{Cycle, Rank};
use std::path::Path;

/// Clocks of different machines may differ by this, ns.
const BETWEEN_MACHINES_NS: i64 = 1_000_000_000;
/// The profiler of one rank may take longer to start than that of another, ns.
const ON_ONE_MACHINE_NS: i64 = 20_000_000;

/// Two ranks whose cycles of the same steps lie at least a step apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApartCycles {
    /// The first rank that was recorded.
    pub first: u32,
    /// The other one.
    pub rank: u32,
    /// The place of the cycle among those of the first rank.
    pub cycle: usize,
    /// How much later the other one began, ns.
    pub later_ns: i64,
}

impl ApartCycles {
    /// How far they are apart, and what may be the reason.
    pub(crate) fn note(&self) -> String {
        format!(
            "rank {} recorded cycle {} {}, more than a step apart: did one of them make extra steps \
             before?",
            self.rank,
            self.cycle,
            self.distance()
        )
    }

    /// Such as `0.200 s before rank 0`.
    pub fn distance(&self) -> String {
        format!(
            "{:.3} s {} rank {}",
            self.later_ns.unsigned_abs() as f64 / 1e9,
            if self.later_ns > 0 { "after" } else { "before" },
            self.first
        )
    }
}

/// The cycles of each rank that lie at least a step from those of the first one.
pub fn apart_cycles(ranks: &[Rank]) -> Vec<ApartCycles> {
    let recorded = ranks.iter().filter(|rank| rank.process.rank.is_some());
    let Some(first) = recorded
        .clone()
        .find(|rank| !rank.process.cycles.is_empty())
    else {
        return vec![];
    };
    let is_first = |rank: &&Rank| rank.process.rank == first.process.rank;
    let mut apart = vec![];
    // Groups of processes that number their ranks each from 0 do not wait for each other.
    let is_of_group = |rank: &&Rank| rank.process.world == first.process.world;
    for rank in recorded.clone().filter(|rank| !is_first(rank)) {
        if !is_of_group(&rank) {
            continue;
        }
        // A rank that was started again has several processes.
        for first in recorded.clone().filter(is_first) {
            apart.extend(apart_of(first, rank));
        }
    }
    apart
}

/// The cycles of `rank` that lie at least a step from those of `first`.
fn apart_of(first: &Rank, rank: &Rank) -> Vec<ApartCycles> {
    // One machine has one clock, so that its ranks are compared much more closely.
    let is_one_machine = rank.process.host == first.process.host;
    let mut apart = vec![];
    for (index, expected) in first.process.cycles.iter().enumerate() {
        // Not by its place: one of them may have missed what was asked for before. Nor by the step
        // alone: a program that was started again makes it once more.
        let mut cycles = rank.process.cycles.iter();
        let same = cycles.find(|cycle| {
            cycle.first_step == expected.first_step && folder(cycle) == folder(expected)
        });
        let distance = same.and_then(|cycle| distance_ns(expected, cycle, is_one_machine));
        let Some(later_ns) = distance else {
            continue;
        };
        apart.push(ApartCycles {
            first: first.process.rank.unwrap_or_default(),
            rank: rank.process.rank.unwrap_or_default(),
            cycle: index,
            later_ns,
        });
    }
    apart
}

/// The folder of its traces.
fn folder(cycle: &Cycle) -> Option<&Path> {
    Path::new(&cycle.host_trace).parent()
}

/// How much later than `expected` a cycle began, ns, if it both began and ended more than a step
/// from it.
fn distance_ns(expected: &Cycle, cycle: &Cycle, is_one_machine: bool) -> Option<i64> {
    let begin = cycle.begin?.unix_ns - expected.begin?.unix_ns;
    let end = cycle.end?.unix_ns - expected.end?.unix_ns;
    let step = step_ns(expected)?.max(step_ns(cycle)?);
    let limit = step.max(if is_one_machine {
        ON_ONE_MACHINE_NS
    } else {
        BETWEEN_MACHINES_NS
    });
    // Both ends have to lie on one side: a rank that is only slow begins or ends with the others.
    let is_apart = begin.signum() == end.signum() && begin.abs() > limit && end.abs() > limit;
    is_apart.then_some(begin)
}

/// How long a recorded step took, ns.
fn step_ns(cycle: &Cycle) -> Option<i64> {
    let steps = i64::try_from(cycle.last_step.checked_sub(cycle.first_step)? + 1).ok()?;
    Some((cycle.end?.unix_ns - cycle.begin?.unix_ns) / steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Process};

    /// Steps 3 and 4 from `begin` to `end`, in ms.
    fn rank(rank: u32, begin: i64, end: i64) -> Rank {
        let clock = |ms: i64| {
            Some(Clock {
                unix_ns: ms * 1_000_000,
                monotonic_ns: 0,
            })
        };
        let cycle = Cycle {
            first_step: 3,
            last_step: 4,
            begin: clock(begin),
            end: clock(end),
            ..Cycle::default()
        };
        let process = Process {
            rank: Some(rank),
            cycles: vec![cycle],
            ..Process::default()
        };
        Rank {
            process,
            lost: false,
        }
    }

    #[test]
    fn a_rank_that_made_extra_steps_is_noted() {
        let apart = apart_cycles(&[rank(0, 1000, 1200), rank(1, 800, 1000)]);
        let notes: Vec<String> = apart.iter().map(ApartCycles::note).collect();
        assert_eq!(
            notes,
            [
                "rank 1 recorded cycle 0 0.200 s before rank 0, more than a step apart: \
                 did one of them make extra steps before?"
            ]
        );
    }

    #[test]
    fn a_program_that_was_started_again_is_compared_with_itself() {
        let in_folder = |mut rank: Rank, folder: &str| {
            rank.process.cycles[0].host_trace = format!("{folder}/torch_et_0.json");
            rank
        };
        let again = [
            in_folder(rank(0, 1000, 1200), "cycle_3"),
            in_folder(rank(0, 9000, 9200), "cycle_4"),
            in_folder(rank(1, 1000, 1200), "cycle_3"),
            in_folder(rank(1, 8000, 8200), "cycle_4"),
        ];
        let apart = apart_cycles(&again);
        assert_eq!(apart.len(), 1, "{apart:?}");
        assert_eq!((apart[0].cycle, apart[0].later_ns), (0, -1_000_000_000));
    }

    #[test]
    fn ranks_that_wait_for_each_other_are_not() {
        assert!(apart_cycles(&[rank(0, 1000, 1200), rank(1, 1090, 1210)]).is_empty());
        assert!(apart_cycles(&[rank(0, 1000, 1002), rank(1, 1010, 1012)]).is_empty());
    }
}
