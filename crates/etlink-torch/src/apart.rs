//! Detects ranks that recorded different iterations.
//!
//! Each rank counts its own steps. A rank that made extra steps first records other iterations
//! under the same numbers. Ranks that synchronize in every iteration reach it at nearly the same
//! time, so the clocks of their cycles reveal the difference.

use crate::{Cycle, Rank};
use std::path::Path;

/// Largest expected difference between the clocks of two machines, ns.
const BETWEEN_MACHINES_NS: i64 = 1_000_000_000;
/// Largest expected difference between profiler start-up times on one machine, ns.
const ON_ONE_MACHINE_NS: i64 = 20_000_000;

/// Two ranks whose cycles of the same steps are more than a step apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApartCycles {
    /// First rank that was recorded.
    pub first: u32,
    /// Rank compared with the first one.
    pub rank: u32,
    /// Index of the cycle among the cycles of the first rank.
    pub cycle: usize,
    /// Delay of the other rank's cycle after the first rank's, ns; negative if it began earlier.
    pub later_ns: i64,
}

impl ApartCycles {
    /// Formats the distance between the two ranks and its probable cause.
    pub(crate) fn note(&self) -> String {
        format!(
            "rank {} recorded cycle {} {}, more than a step apart: one of the ranks may have made extra \
             steps before",
            self.rank,
            self.cycle,
            self.distance()
        )
    }

    /// Formats the distance, such as `0.200 s before rank 0`.
    pub fn distance(&self) -> String {
        format!(
            "{:.3} s {} rank {}",
            self.later_ns.unsigned_abs() as f64 / 1e9,
            if self.later_ns > 0 { "after" } else { "before" },
            self.first
        )
    }
}

/// Returns the cycles of each rank that are more than a step from those of the first rank.
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
    // Process groups that each number their ranks from 0 do not wait for each other.
    let is_of_group = |rank: &&Rank| rank.process.world == first.process.world;
    for rank in recorded.clone().filter(|rank| !is_first(rank)) {
        if !is_of_group(&rank) {
            continue;
        }
        // A restarted rank has several processes.
        for first in recorded.clone().filter(is_first) {
            apart.extend(apart_of(first, rank));
        }
    }
    apart
}

/// Returns the cycles of `rank` that are more than a step from the same cycles of `first`.
fn apart_of(first: &Rank, rank: &Rank) -> Vec<ApartCycles> {
    // Ranks on one machine share a clock, so they are compared much more closely.
    let is_one_machine = rank.process.host == first.process.host;
    let mut apart = vec![];
    for (index, expected) in first.process.cycles.iter().enumerate() {
        // Cycles are not matched by index, because a rank may have missed an earlier request, nor
        // by step alone, because a restarted program repeats its steps.
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

/// Returns the folder that holds the traces of a cycle.
fn folder(cycle: &Cycle) -> Option<&Path> {
    Path::new(&cycle.host_trace).parent()
}

/// Returns the delay of `cycle` after `expected`, ns; `None` unless both its begin and its end are
/// more than a step away.
fn distance_ns(expected: &Cycle, cycle: &Cycle, is_one_machine: bool) -> Option<i64> {
    let begin = cycle.begin?.unix_ns - expected.begin?.unix_ns;
    let end = cycle.end?.unix_ns - expected.end?.unix_ns;
    let step = step_ns(expected)?.max(step_ns(cycle)?);
    let limit = step.max(if is_one_machine {
        ON_ONE_MACHINE_NS
    } else {
        BETWEEN_MACHINES_NS
    });
    // Both ends must deviate in the same direction: a rank that is merely slow begins or ends with
    // the others.
    let is_apart = begin.signum() == end.signum() && begin.abs() > limit && end.abs() > limit;
    is_apart.then_some(begin)
}

/// Returns the mean duration of a recorded step, ns.
fn step_ns(cycle: &Cycle) -> Option<i64> {
    let steps = i64::try_from(cycle.last_step.checked_sub(cycle.first_step)? + 1).ok()?;
    Some((cycle.end?.unix_ns - cycle.begin?.unix_ns) / steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Process};

    /// Builds a rank that recorded steps 3 and 4 from `begin` to `end`, in ms.
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
                 one of the ranks may have made extra steps before"
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
