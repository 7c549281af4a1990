//! Joins the ranks of one run.
//!
//! ```text
//! LinkedTrace of a rank ──> RankSummary   its communications, a hundred bytes each, with the
//!                             │           nodes that carry them out
//! summaries of all ranks ─────┼─> select_run   the traces of one run
//!                             ├─> infer_collectives  groups of kernels without records
//!                             └─> join_ranks ─> RunJoin { groups, matches }
//!                                   ├─> align_clocks       offset of each rank's clock
//!                                   ├─> collective_skews   late ranks, transfer times
//!                                   ├─> step_stragglers    awaited ranks per step,
//!                                   │                      and the causes (`delays`)
//!                                   ├─> wait_causes        causes of waits, node by node
//!                                   └─> DeadlockCheck      checks that all ranks finish
//! ```
//! Only the summary of a rank is kept, so a run of any size is joined in little memory. Everything
//! is O(n log n) in the communications.

mod arrivals;
mod clocks;
mod deadlock;
mod delays;
mod groups;
mod inferred;
mod join;
mod rank_set;
mod run_steps;
mod selection;
mod skew;
mod stated_steps;
mod step_numbers;
mod steps;
mod stragglers;
mod summary;
mod transfers;
mod wait_causes;

#[cfg(test)]
mod testing;

pub use arrivals::{CollectiveArrival, collective_arrivals};
pub use clocks::{ClockDrift, RankClock, align_clocks};
pub use deadlock::{CommRole, DeadlockCheck, order_conflicts, serialize_comms};
pub use groups::GroupResolver;
pub use inferred::{UnmatchedReason, infer_collectives, unmatched_reason};
pub use join::{
    CollectiveMatch, CommChannel, JoinProblem, JoinProblemKind, MatchMember, Mismatch,
    ProblemExample, RunJoin, join_ranks, rank_list,
};
pub use rank_set::RankSet;
pub use run_steps::{RunStep, RunSteps};
pub use selection::{ExcludeReason, RunSelection, select_run};
pub use skew::{CollectiveSkew, StartSkewWait, bus_factor, collective_skews, start_skew_waits};
pub use step_numbers::align_step_numbers;
pub use steps::{
    OPTIMIZER_STEP, RankSteps, SeparateRanges, StepExclusion, StepSpan, step_definition,
};
pub use stragglers::{
    StepStragglers, StragglerStats, step_stragglers, straggler_stats, worst_rank,
};
pub use summary::{
    CommExtent, Communication, GroupIdentity, LostCommunication, Peers, RankSummary,
    UnrecordedKernel, needs_all_ranks,
};
pub use transfers::{PairBytes, TransferTotals, pair_bytes, transfer_totals};
pub use wait_causes::{WaitCause, WaitCauses, wait_causes};
