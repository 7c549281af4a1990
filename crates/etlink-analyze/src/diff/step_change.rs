//! How long a step takes in two runs, and whether the difference is more than chance.
//!
//! A step of a run with several ranks takes as long as that of its slowest rank. It counts where all
//! ranks have it ([`CommonSteps`]). The *spread* of a run is the standard deviation of its step times. A change is *real* where the means differ by more than
//! `t · √(s₁²/n₁ + s₂²/n₂)`: Welch's test at 95 %, with Student's `t` for the degrees of freedom of
//! Welch and Satterthwaite. One step has no spread: nobody can know. Steps that the recording cuts do
//! not count ([`StepExclusion`](crate::StepExclusion)).

use super::common_steps::CommonSteps;
use crate::analysis::RankAnalysis;
use crate::duration_stats::DurationStats;
use crate::steps::{StepTime, step_period};
use serde::Serialize;

/// The two-sided 95 % points of Student's t, by degrees of freedom from 1
/// (<https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm>).
const STUDENT_T: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
];

/// Whether two runs differ by more than their steps among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeVerdict {
    /// By more than chance.
    Real,
    /// Chance may be all.
    WithinSpread,
    /// A run has one step alone, and so no spread.
    SpreadUnknown,
}

/// The step times of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepChange {
    /// Steps that the means are of: those that all ranks of the run have.
    pub steps: [u64; 2],
    /// Mean step times, ns.
    pub times_ns: [i64; 2],
    /// Their standard deviations, ns; none of one step.
    pub spreads_ns: [Option<f64>; 2],
    /// Mean time from a step's begin until it has ended on the host and on devices, ns. Step times
    /// are those on the host.
    pub whole_ns: [i64; 2],
    /// Median time from the end of one step to that of the next, on the host and on devices, of the
    /// rank on which it is longest, ns; none of a single step.
    pub periods_ns: [Option<i64>; 2],
    /// Of whole steps, mean time in which devices carry out, or wait for, what was launched before the
    /// recording, ns.
    pub before_recording_ns: [i64; 2],
    /// Mean time of a step in which no op and no runtime call runs, ns.
    pub between_ops_ns: [i64; 2],
    /// Second mean less first, ns.
    pub cost_ns: i64,
    /// Whether that is more than chance.
    pub verdict: ChangeVerdict,
}

impl StepChange {
    /// None where a run has no steps that all its ranks have; `common` are these.
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

    /// By how much of their mean steps vary, in the run in which they do more; none where neither
    /// is known.
    pub fn spread_share(&self) -> Option<f64> {
        self.spread_shares().into_iter().flatten().reduce(f64::max)
    }

    /// By how much of their mean the steps of each run vary.
    pub fn spread_shares(&self) -> [Option<f64>; 2] {
        [0, 1].map(|side| Some(self.spreads_ns[side]? / self.times_ns[side].max(1) as f64))
    }
}

/// By how many standard errors means may differ by chance. `errors` are squared, each of a mean of
/// so many `steps`.
fn student_t(errors: [f64; 2], steps: [f64; 2]) -> f64 {
    let sum = errors[0] + errors[1];
    let parts = [0, 1].map(|side| errors[side] * errors[side] / (steps[side] - 1.0));
    // no spread at all: any difference is more than that
    if sum <= 0.0 {
        return 0.0;
    }
    let freedom = (sum * sum / (parts[0] + parts[1])).floor() as usize;
    // beyond the table the normal distribution is near enough
    let place = freedom.max(1) - 1;
    STUDENT_T.get(place).copied().unwrap_or(2.0)
}

fn longest_period(ranks: &[&RankAnalysis]) -> Option<i64> {
    let periods = ranks.iter().filter_map(|rank| step_period(&rank.steps));
    periods.max()
}

/// Over all ranks.
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
        // 3 steps of 222 ± 2.6 ms and 29 of 333 ± 230 ms: the many steps decide
        let errors = [2.6 * 2.6 / 3.0, 230.0 * 230.0 / 29.0];
        assert_eq!(student_t(errors, [3.0, 29.0]), 2.0);
        // and the few where these vary
        assert_eq!(student_t([100.0, 0.1], [3.0, 29.0]), STUDENT_T[1]);
        assert_eq!(student_t([0.0, 0.0], [2.0, 2.0]), 0.0);
    }
}
