//! How long a step takes in two runs, and whether the difference is more than chance.
//!
//! A step of a run with several ranks takes as long as that of its slowest rank, where all ranks
//! have as many steps; else the steps of all ranks count one by one. The *spread* of a run is the
//! standard deviation of its step times. A change is *real* where the means differ by more than
//! `t · √(s₁²/n₁ + s₂²/n₂)`: Welch's test at 95 %, with Student's `t` for the smaller number of
//! steps less one, which errs on the side of chance. One step has no spread: nobody can know.

use crate::analysis::RankAnalysis;
use crate::duration_stats::DurationStats;
use serde::Serialize;

/// The two-sided 95 % points of Student's t, by degrees of freedom from 1
/// (<https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm>).
const STUDENT_T: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
];

/// Whether two runs differ by more than their steps among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
pub struct StepChange {
    /// Steps that the means are of.
    pub steps: [u64; 2],
    /// Mean step times, ns.
    pub times_ns: [i64; 2],
    /// Their standard deviations, ns; none of one step.
    pub spreads_ns: [Option<f64>; 2],
    /// Second mean less first, ns.
    pub cost_ns: i64,
    /// Whether that is more than chance.
    pub verdict: ChangeVerdict,
}

impl StepChange {
    /// None where a run has no steps.
    pub(super) fn from_ranks(runs: [&[&RankAnalysis]; 2]) -> Option<StepChange> {
        let stats = runs.map(step_stats);
        if stats.iter().any(|stats| stats.count == 0) {
            return None;
        }
        let times_ns = stats.map(|stats| stats.mean_ns().round() as i64);
        let spreads_ns = stats.map(|stats| stats.stddev_ns());
        let cost_ns = times_ns[1].saturating_sub(times_ns[0]);
        let verdict = match spreads_ns {
            [Some(first), Some(second)] => {
                let steps = stats.map(|stats| stats.count as f64);
                let error = (first * first / steps[0] + second * second / steps[1]).sqrt();
                let least = stats[0].count.min(stats[1].count);
                // beyond the table the normal distribution is near enough
                let freedom = usize::try_from(least)
                    .unwrap_or(usize::MAX)
                    .saturating_sub(2);
                let t = STUDENT_T.get(freedom).copied().unwrap_or(2.0);
                match cost_ns.unsigned_abs() as f64 > t * error {
                    true => ChangeVerdict::Real,
                    false => ChangeVerdict::WithinSpread,
                }
            }
            _ => ChangeVerdict::SpreadUnknown,
        };
        Some(StepChange {
            steps: stats.map(|stats| stats.count),
            times_ns,
            spreads_ns,
            cost_ns,
            verdict,
        })
    }

    /// By how much of their mean steps vary, in the run in which they do more; none where neither
    /// is known.
    pub fn spread_share(&self) -> Option<f64> {
        let shares = self.spreads_ns.iter().zip(self.times_ns);
        let shares = shares.filter_map(|(spread, mean)| Some((*spread)? / mean.max(1) as f64));
        shares.reduce(f64::max)
    }
}

fn step_stats(ranks: &[&RankAnalysis]) -> DurationStats {
    let mut stats = DurationStats::default();
    let counts = ranks.iter().map(|rank| rank.steps.len());
    let most = counts.clone().max().unwrap_or(0);
    if counts.clone().all(|count| count == most) {
        for step in 0..most {
            let each = ranks.iter().map(|rank| rank.steps[step].duration_ns);
            stats.add(each.max().unwrap_or(0));
        }
    } else {
        let steps = ranks.iter().flat_map(|rank| &rank.steps);
        steps.for_each(|step| stats.add(step.duration_ns));
    }
    stats
}
