//! Lengths of the steps in a run.

use super::Runs;
use etlink_link::ranks::{RankClock, RunSteps, StepExclusion, StepSpan};
use etlink_model::{DurationNs, GlobalRank, NodeIdx};
use etlink_replay::{ReplayRun, StepBounds, changed_steps};
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
    /// Length in ns without changes: as measured, without the overhead of recording if it is removed.
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
    /// Mean length in ns without changes.
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

/// Steps of the ranks of a run.
pub(super) struct RunOfSteps<'s> {
    pub(super) ranks: Vec<RankSteps<'s>>,
    pub(super) clocks: &'s [RankClock],
}

impl RunOfSteps<'_> {
    /// Returns the steps of each rank in the run `changed`.
    fn spans(&self, plain: &ReplayRun, changed: &ReplayRun) -> Vec<Vec<StepSpan>> {
        let ranks = self.ranks.iter();
        ranks
            .map(|rank| changed_steps(rank.bounds, rank.first_node, plain, changed))
            .collect()
    }

    fn matched(&self, ranks: &[Vec<StepSpan>]) -> RunSteps {
        let ranks: Vec<&[StepSpan]> = ranks.iter().map(Vec::as_slice).collect();
        RunSteps::new(&ranks, self.clocks)
    }

    /// Returns the mean length of the steps that count in the run `changed`; `None` without any.
    pub(super) fn mean(&self, plain: &ReplayRun, changed: &ReplayRun) -> Option<DurationNs> {
        let steps = self.matched(&self.spans(plain, changed));
        steps.mean_ns().map(DurationNs)
    }

    /// Returns the steps of each rank, and the mean of the run; `None` if no step counts.
    pub(super) fn replayed(&self, runs: &Runs) -> (Vec<RankStep>, Option<MeanStep>) {
        let plain = runs.unchanged();
        let [before, after] = [plain, &runs.last].map(|run| self.spans(plain, run));
        let mut steps = vec![];
        for (rank, (before, after)) in self.ranks.iter().zip(before.iter().zip(&after)) {
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
        let [before, after] = [before, after].map(|ranks| self.matched(&ranks));
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
}
