//! Lengths of the steps in a run.

use super::Runs;
use etlink_link::ranks::{RankClock, RunSteps, StepExclusion, StepSpan};
use etlink_model::{DurationNs, GlobalRank, NodeIdx};
use etlink_replay::{StepBounds, changed_steps};
use serde::Serialize;

/// A step of a rank.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct RankStep {
    /// Rank of the step, in a run of several ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rank: Option<GlobalRank>,
    /// Name of the step.
    pub(super) step: String,
    /// Measured length in ns.
    pub(super) unchanged_ns: DurationNs,
    /// Length in ns in the run with changes; equals `unchanged_ns` without changes.
    pub(super) ns: DurationNs,
    /// Reason why the step does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) excluded: Option<StepExclusion>,
}

/// Mean length of the steps of a run that count.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct MeanStep {
    /// Number of steps: those that all ranks have, whole.
    pub(super) steps: u64,
    /// Number of other steps.
    pub(super) excluded: u64,
    /// Measured mean length in ns.
    pub(super) unchanged_ns: DurationNs,
    /// Mean length in ns in the run with changes.
    pub(super) ns: DurationNs,
}

/// Steps of a rank, and the rank's first node in the graph that ran.
pub(super) struct RankSteps<'s> {
    pub(super) rank: Option<GlobalRank>,
    pub(super) bounds: &'s [StepBounds],
    pub(super) first_node: NodeIdx,
}

/// Returns the steps of each rank, and the mean of the run; `None` if no step counts.
pub(super) fn replayed_steps(
    ranks: &[RankSteps<'_>],
    clocks: &[RankClock],
    runs: &Runs,
) -> (Vec<RankStep>, Option<MeanStep>) {
    let [before, after] = [runs.unchanged(), &runs.last].map(|run| -> Vec<Vec<StepSpan>> {
        let ranks = ranks.iter();
        ranks
            .map(|rank| changed_steps(rank.bounds, rank.first_node, runs.unchanged(), run))
            .collect()
    });
    let mut steps = vec![];
    for (rank, (before, after)) in ranks.iter().zip(before.iter().zip(&after)) {
        for (unchanged, changed) in before.iter().zip(after) {
            steps.push(RankStep {
                rank: rank.rank,
                step: unchanged.name.clone(),
                unchanged_ns: DurationNs(unchanged.length_ns()),
                ns: DurationNs(changed.length_ns()),
                excluded: unchanged.excluded,
            });
        }
    }
    let [before, after] = [before, after].map(|ranks| {
        let ranks: Vec<&[StepSpan]> = ranks.iter().map(Vec::as_slice).collect();
        RunSteps::new(&ranks, clocks)
    });
    let means = before.mean_ns().zip(after.mean_ns());
    let mean = means.map(|(unchanged_ns, ns)| {
        let counted = before.counted().count();
        MeanStep {
            steps: counted as u64,
            excluded: (before.all.len() - counted) as u64,
            unchanged_ns: DurationNs(unchanged_ns),
            ns: DurationNs(ns),
        }
    });
    (steps, mean)
}
