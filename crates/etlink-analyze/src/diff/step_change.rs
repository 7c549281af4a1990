//! Compares the step times of two runs, and tests if the difference is more than chance.
//!
//! A step of a run with several ranks takes as long as it does on the slowest rank. It counts if
//! all ranks have it ([`CommonSteps`]). The *spread* of a run is the standard deviation of its step
//! times. A change is *real* if the means differ by more than `t · √(s₁²/n₁ + s₂²/n₂)`: Welch's
//! test at 95 %, with Student's `t` for the degrees of freedom by Welch and Satterthwaite. A single
//! step has no spread, so no verdict is possible. Steps that the recording truncates do not count
//! ([`StepExclusion`](crate::StepExclusion)).

use super::common_steps::CommonSteps;
use crate::analysis::RankAnalysis;
use crate::duration_stats::DurationStats;
use crate::steps::{StepTime, step_period};
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
    /// Mean step times, ns.
    pub times_ns: [i64; 2],
    /// Standard deviations of the step times, ns; `None` for a single step.
    pub spreads_ns: [Option<f64>; 2],
    /// Mean time from the start of a step until it has ended on the host and on devices, ns.
    /// `times_ns` are times on the host only.
    pub whole_ns: [i64; 2],
    /// Median time from the end of one step to the end of the next, on the host and on devices, on
    /// the rank on which it is longest, ns; `None` for a single step.
    pub periods_ns: [Option<i64>; 2],
    /// Mean time per step in which devices carry out, or wait for, work launched before the
    /// recording, ns.
    pub before_recording_ns: [i64; 2],
    /// Mean time of a step in which no op and no runtime call runs, ns.
    pub between_ops_ns: [i64; 2],
    /// Second mean less first, ns.
    pub cost_ns: i64,
    /// Verdict on that difference.
    pub verdict: ChangeVerdict,
}

impl StepChange {
    /// Compares the steps in `common`, which all ranks of a run have. `None` if a run has no such
    /// steps.
    pub(super) fn from_ranks(
        runs: [&[&RankAnalysis]; 2],
        common: &[CommonSteps<'_>; 2],
    ) -> Option<StepChange> {
        let stats = common.each_ref().map(step_stats);
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
        let mean_of =
            |time_of: fn(&StepTime) -> i64| common.each_ref().map(|run| mean_time(run, time_of));
        Some(StepChange {
            steps: stats.map(|stats| stats.count),
            times_ns,
            spreads_ns,
            whole_ns: mean_of(StepTime::whole_ns),
            periods_ns: runs.map(longest_period),
            before_recording_ns: mean_of(|step| step.before_recording_ns),
            between_ops_ns: mean_of(|step| step.between_ops_ns),
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

fn longest_period(ranks: &[&RankAnalysis]) -> Option<i64> {
    let periods = ranks.iter().filter_map(|rank| step_period(&rank.steps));
    periods.max()
}

/// Averages a time over the common steps of all ranks.
fn mean_time(common: &CommonSteps<'_>, time_of: fn(&StepTime) -> i64) -> i64 {
    let mut stats = DurationStats::default();
    let steps = common.steps.iter().flatten();
    steps.for_each(|step| stats.add(time_of(step)));
    stats.mean_ns().round() as i64
}

fn step_stats(common: &CommonSteps<'_>) -> DurationStats {
    let mut stats = DurationStats::default();
    common.longest().for_each(|ns| stats.add(ns));
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
