//! How the ranks of a run fare together in the replay.

use etlink_link::ranks::JoinProblem;
use etlink_model::{DurationNs, GlobalRank};
use etlink_replay::{CrossStepFigures, JoinedCollectives, RankFigures};
use etlink_run::membership::Excluded;
use serde::Serialize;

/// How the ranks fared together.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct AllRanks {
    /// Number of ranks of the run, as most traces say it.
    pub(super) world_size: Option<i64>,
    /// Ranks of the run that have no trace here.
    pub(super) absent: Vec<GlobalRank>,
    /// Traces that could not be read, or are not of this run.
    pub(super) excluded: Vec<Excluded>,
    /// Collectives and messages.
    pub(super) collectives: Collectives,
    /// Each rank, in the run without changes.
    pub(super) ranks: Vec<RankReport>,
    /// Written graphs of which ranks wait for each other for ever: the run has no end, and the figures
    /// are of one without the collectives that are out of order.
    pub(super) is_deadlocked: bool,
    /// What is missing or unequal between the traces.
    pub(super) problems: Vec<JoinProblem>,
}

/// What holds the ranks together; times are sums over ranks, in the run without changes.
#[derive(Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Collectives {
    /// Begin when the last rank has come.
    pub(super) joined: u64,
    /// From the ranks' arrivals to the last ones'.
    pub(super) waiting_ns: DurationNs,
    /// From the last arrivals on.
    pub(super) transfer_ns: DurationNs,
    /// Not joined: they last as long as they were measured to.
    pub(super) local: Local,
}

/// Why collectives and messages are not joined.
#[derive(Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Local {
    #[serde(flatten)]
    pub(super) joined: JoinedCollectives,
    /// A rank was done before the last had come.
    pub(super) contradicted: u64,
    /// Ranks do them in opposite order.
    pub(super) out_of_order: u64,
}

/// One rank.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct RankReport {
    #[serde(flatten)]
    pub(super) figures: RankFigures,
    /// How well its steps predict each other, where there are three that do the same.
    pub(super) cross_step: Option<CrossStepFigures>,
    /// What was added to its times to have them by the first rank's clock, and how far that can be
    /// off.
    pub(super) clock_offset_ns: i64,
    pub(super) clock_uncertainty_ns: Option<i64>,
    /// No offset fits: the uncertainty is by how much one is missed.
    pub(super) clock_contradicted: bool,
}

/// How a rank fares when something changes.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct RankChange {
    pub(super) rank: GlobalRank,
    /// By how much its last node ends later.
    pub(super) end_change_ns: i64,
    pub(super) waiting_change_ns: i64,
    pub(super) transfer_change_ns: i64,
}
