//! Results of replaying the ranks of a run together.

use etlink_link::ranks::JoinProblem;
use etlink_model::{DurationNs, GlobalRank};
use etlink_replay::{CrossStepFigures, JoinedCollectives, RankFigures};
use etlink_run::membership::Excluded;
use serde::Serialize;

/// Results over all ranks.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct AllRanks {
    /// Number of ranks in the run, according to most traces.
    pub(super) world_size: Option<i64>,
    /// Ranks of the run that have no trace here.
    pub(super) absent: Vec<GlobalRank>,
    /// Traces that could not be read, or do not belong to this run.
    pub(super) excluded: Vec<Excluded>,
    /// Collectives and messages.
    pub(super) collectives: Collectives,
    /// Results per rank, in the run without changes.
    pub(super) ranks: Vec<RankReport>,
    /// True if ranks of written graphs wait for each other forever. The run has no end, so the
    /// figures ignore the collectives that are out of order.
    pub(super) is_deadlocked: bool,
    /// Inconsistencies between the traces.
    pub(super) problems: Vec<JoinProblem>,
}

/// Communication between the ranks. Times are sums over ranks, in the run without changes.
#[derive(Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Collectives {
    /// Collectives and messages that start once the last rank has arrived.
    pub(super) joined: u64,
    /// Time from the ranks' arrivals to the last arrivals.
    pub(super) waiting_ns: DurationNs,
    /// Time from the last arrivals on.
    pub(super) transfer_ns: DurationNs,
    /// Collectives and messages that are not joined: they keep their measured durations.
    pub(super) local: Local,
}

/// Counts of unjoined collectives and messages, by reason.
#[derive(Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Local {
    #[serde(flatten)]
    pub(super) joined: JoinedCollectives,
    /// A rank finished before the last rank had arrived.
    pub(super) contradicted: u64,
    /// Ranks run them in opposite orders.
    pub(super) out_of_order: u64,
}

/// Results of a rank.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct RankReport {
    #[serde(flatten)]
    pub(super) figures: RankFigures,
    /// Errors of predicting one step from another; `None` if there are fewer than three steps with
    /// the same work.
    pub(super) cross_step: Option<CrossStepFigures>,
    /// Time added to the rank's times to get the first rank's clock, and its uncertainty.
    pub(super) clock_offset_ns: i64,
    pub(super) clock_uncertainty_ns: Option<i64>,
    /// True if no offset fits; the uncertainty is then the amount by which one fails to.
    pub(super) clock_contradicted: bool,
}

/// Effect of the changes on a rank.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct RankChange {
    pub(super) rank: GlobalRank,
    /// Delay of the end of the rank's last work.
    pub(super) end_change_ns: i64,
    pub(super) waiting_change_ns: i64,
    pub(super) transfer_change_ns: i64,
}
