//! What the ranks of a run have to know of each other to be drawn in one file, and what was drawn.

use super::MergeOptions;
use etlink_link::ranks::{RankClock, RankSummary, RunJoin, WaitCauses, wait_causes};
use etlink_model::CommonNs;
use serde::Serialize;

/// What the ranks have to know of each other.
pub(super) struct TimelineContext {
    /// The first start, ns since the Unix epoch by the first rank's clock.
    pub(super) origin_ns: CommonNs,
    /// Who ended the waits of each rank.
    pub(super) releases: WaitCauses,
    /// By place of the rank.
    pub(super) names: Vec<String>,
}

/// What was written.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineReport {
    /// The file.
    pub output: String,
    /// Its stored size, bytes.
    pub bytes: u64,
    /// Ranges of all ranks.
    pub slices: u64,
    /// Edges that are drawn.
    pub arrows: u64,
    /// Arrows between ranks.
    pub between_ranks: u32,
    /// Arrows that are left out because the rank that should have waited had gone on.
    pub gone_on: u64,
}

impl TimelineContext {
    /// Nothing unless a timeline is to be written.
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
            // the earliest start: Perfetto's times are unsigned, so none may lie before it
            origin_ns: starts.min().unwrap_or_default(),
            releases: wait_causes(facts, join, clocks),
            names,
        })
    }
}
