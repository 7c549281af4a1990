//! Data shared by the ranks of a run in one timeline, and the report of a timeline.

use super::MergeOptions;
use etlink_link::ranks::{RankClock, RankSummary, RunJoin, WaitCauses, wait_causes};
use etlink_model::CommonNs;
use serde::Serialize;

/// Data shared by the ranks of a run in one timeline.
pub(super) struct TimelineContext {
    /// The first start, ns since the Unix epoch by the first rank's clock.
    pub(super) origin_ns: CommonNs,
    /// Causes that ended the waits of each rank.
    pub(super) releases: WaitCauses,
    /// Names of ranks, by their place in the join.
    pub(super) names: Vec<String>,
}

/// Report of a written timeline.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineReport {
    /// Path of the file.
    pub output: String,
    /// Stored size, bytes.
    pub bytes: u64,
    /// Number of ranges of all ranks.
    pub slices: u64,
    /// Number of drawn edges.
    pub arrows: u64,
    /// Number of arrows between ranks.
    pub between_ranks: u32,
    /// Number of omitted arrows, because the rank that should have waited had continued.
    pub gone_on: u64,
}

impl TimelineContext {
    /// Builds the context from a join; `None` unless a timeline is written.
    pub(super) fn from_join(
        options: &MergeOptions,
        facts: &[RankSummary],
        join: &RunJoin,
        clocks: &[RankClock],
    ) -> Option<TimelineContext> {
        options.format.for_perfetto()?;
        let clock = |at: usize| clocks.get(at).copied().unwrap_or_default();
        let starts = facts
            .iter()
            .enumerate()
            .map(|(at, facts)| clock(at).aligned(facts.first_ns));
        let names = facts
            .iter()
            .map(|facts| format!("rank {}", facts.rank))
            .collect();
        Some(TimelineContext {
            // the earliest start: Perfetto's times are unsigned, so none may precede it
            origin_ns: starts.min().unwrap_or_default(),
            releases: wait_causes(facts, join, clocks),
            names,
        })
    }
}
