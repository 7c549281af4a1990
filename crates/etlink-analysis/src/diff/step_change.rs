//! Compares the step times of two runs, and tests if the difference is more than chance.
//!
//! The steps of a run and their lengths are those of [`RunSteps`]. The *spread* of a run is the
//! standard deviation of the lengths. A change is *real* if the means differ by more than
//! `t · √(s₁²/n₁ + s₂²/n₂)`: Welch's test at 95 %, with Student's `t` for the degrees of freedom by
//! Welch and Satterthwaite. A single step has no spread, so no verdict is possible.

use crate::analysis::RankAnalysis;
use crate::duration_stats::DurationStats;
use crate::steps::counted_steps;
use etlink_link::ranks::RunSteps;
use serde::Serialize;

/// Two-sided 95 % points of Student's t, by degrees of freedom from 1
/// (<https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm>).
const STUDENT_T: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
];

/// Verdict on whether two runs differ by more than their own steps vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeVerdict {
    /// The means are equal.
    Unchanged,
    /// The difference is more than chance.
    Real,
    /// The difference may be chance.
    WithinSpread,
    /// A run has only one step, so no spread.
    SpreadUnknown,
}

/// Step times of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepChange {
    /// Number of steps in the means: those that all ranks of the run have.
    pub steps: [u64; 2],
    /// Mean lengths of the steps, ns.
    pub times_ns: [i64; 2],
    /// Standard deviations of the step times, ns; `None` for a single step.
    pub spreads_ns: [Option<f64>; 2],
    /// Mean time of a step in which no op and no runtime call runs, ns.
    pub between_ops_ns: [i64; 2],
    /// Second mean less first, ns.
    pub cost_ns: i64,
    /// Verdict on that difference.
    pub verdict: ChangeVerdict,
}

impl StepChange {
    /// Compares the steps that count. `None` if a run has no such steps.
    pub(super) fn from_ranks(
        runs: [&[&RankAnalysis]; 2],
        run_steps: [&RunSteps; 2],
    ) -> Option<StepChange> {
        let stats = run_steps.map(step_stats);
        if stats.iter().any(|stats| stats.count == 0) {
            return None;
        }
        let times_ns = stats.map(|stats| stats.mean_ns().round() as i64);
        let spreads_ns = stats.map(|stats| stats.stddev_ns());
        let cost_ns = times_ns[1].saturating_sub(times_ns[0]);
        let verdict = match spreads_ns {
            _ if cost_ns == 0 => ChangeVerdict::Unchanged,
            [Some(first), Some(second)] => {
                let steps = stats.map(|stats| stats.count as f64);
                let errors = [first * first / steps[0], second * second / steps[1]];
                let error = (errors[0] + errors[1]).sqrt();
                if cost_ns.unsigned_abs() as f64 > student_t(errors, steps) * error {
                    ChangeVerdict::Real
                } else {
                    ChangeVerdict::WithinSpread
                }
            }
            _ => ChangeVerdict::SpreadUnknown,
        };
        Some(StepChange {
            steps: stats.map(|stats| stats.count),
            times_ns,
            spreads_ns,
            between_ops_ns: runs.map(mean_between_ops),
            cost_ns,
            verdict,
        })
    }

    /// Standard deviation of steps relative to their mean, in the run with the larger one; `None`
    /// if neither is known.
    pub fn spread_share(&self) -> Option<f64> {
        self.spread_shares().into_iter().flatten().reduce(f64::max)
    }

    /// Standard deviation of each run's steps relative to their mean.
    pub fn spread_shares(&self) -> [Option<f64>; 2] {
        [0, 1].map(|side| Some(self.spreads_ns[side]? / self.times_ns[side].max(1) as f64))
    }
}

/// Returns the number of standard errors by which means may differ by chance. `errors` holds the
/// squared standard error of each mean, `steps` the number of steps of each.
fn student_t(errors: [f64; 2], steps: [f64; 2]) -> f64 {
    let sum = errors[0] + errors[1];
    let parts = [0, 1].map(|side| errors[side] * errors[side] / (steps[side] - 1.0));
    // without any spread, every difference is significant
    if sum <= 0.0 {
        return 0.0;
    }
    let freedom = (sum * sum / (parts[0] + parts[1])).floor() as usize;
    // beyond the table, the normal distribution is close enough
    let place = freedom.max(1) - 1;
    STUDENT_T.get(place).copied().unwrap_or(2.0)
}

/// Averages the time outside ops and calls over the steps of all ranks that count.
fn mean_between_ops(ranks: &[&RankAnalysis]) -> i64 {
    let mut stats = DurationStats::default();
    let steps = ranks.iter().flat_map(|rank| counted_steps(&rank.steps));
    steps.for_each(|step| stats.add(step.between_ops_ns));
    stats.mean_ns().round() as i64
}

fn step_stats(steps: &RunSteps) -> DurationStats {
    let mut stats = DurationStats::default();
    steps.lengths().for_each(|ns| stats.add(ns));
    stats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_of_freedom_are_those_of_the_run_that_varies() {
        // 3 steps of 222 ± 2.6 ms and 29 of 333 ± 230 ms: the larger set decides
        let errors = [2.6 * 2.6 / 3.0, 230.0 * 230.0 / 29.0];
        assert_eq!(student_t(errors, [3.0, 29.0]), 2.0);
        // and the smaller set, if its times vary
        assert_eq!(student_t([100.0, 0.1], [3.0, 29.0]), STUDENT_T[1]);
        assert_eq!(student_t([0.0, 0.0], [2.0, 2.0]), 0.0);
    }
}
