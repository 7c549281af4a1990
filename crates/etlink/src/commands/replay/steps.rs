//! Lengths of a rank's steps in a run.

use super::Runs;
use anyhow::Result;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_analyze::{KernelRules, StepExclusion, StepTime, analyze_steps};
use etlink_link::LinkedTrace;
use etlink_model::{GlobalRank, NodeIdx};
use etlink_replay::{ReplayGraph, StepBounds, StepLength, step_bounds, step_lengths};
use serde::Serialize;
use std::collections::BTreeMap;

/// A step of a rank.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct RankStep {
    /// Rank of the step, in a run of several ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rank: Option<GlobalRank>,
    #[serde(flatten)]
    pub(super) length: StepLength,
    /// Reason why medians ignore the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) excluded: Option<StepExclusion>,
    /// Measured time in which only work from before the recording runs, in ns.
    pub(super) before_recording_ns: i64,
}

impl RankStep {
    /// Returns the steps of a rank. `first_node` is the rank's first node in the graph that ran.
    pub(super) fn from_runs(
        rank: Option<GlobalRank>,
        steps: &ReplaySteps,
        first_node: NodeIdx,
        runs: &Runs,
    ) -> Vec<RankStep> {
        let lengths = step_lengths(&steps.bounds, first_node, runs.unchanged(), &runs.last);
        let times = steps.times.iter().map(|time| (&time.name[..], time));
        let times: BTreeMap<&str, &StepTime> = times.collect();
        let with_length = |length: StepLength| {
            let time = times.get(&length.step[..]);
            RankStep {
                rank,
                excluded: time.and_then(|time| time.excluded),
                before_recording_ns: time.map_or(0, |time| time.before_recording_ns),
                length,
            }
        };
        lengths.into_iter().map(with_length).collect()
    }
}

/// The steps of a trace: bounds in the graph, and times as in `etlink analyze`.
#[derive(Default, BorshSerialize, BorshDeserialize)]
pub(super) struct ReplaySteps {
    bounds: Vec<StepBounds>,
    times: Vec<StepTime>,
}

impl ReplaySteps {
    pub(super) fn new(trace: &LinkedTrace, graph: &ReplayGraph) -> Result<ReplaySteps> {
        let rules = KernelRules::built_in()?;
        Ok(ReplaySteps {
            bounds: step_bounds(trace, graph),
            times: analyze_steps(trace, &rules),
        })
    }
}
