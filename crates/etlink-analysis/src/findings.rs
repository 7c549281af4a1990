//! Causes of lost time in a run, each with the gain from removing it.
//!
//! ```text
//! LinkedTrace of a rank ─ rank_causes ─> RankCauses   candidates: the nodes behind each cause
//!                                            │
//! graph of the rank, or of all ranks ────────┴─ run_findings ─> RunFindings
//!                                                 a replay without each cause, ranked by gain
//! ```
//! A detector reports the evidence in the trace and the affected nodes of the graph, but not the
//! gain. The gain is the reduction of the window's length in a replay without these nodes
//! ([`GraphEdits`](etlink_replay::GraphEdits)). So time that something else would have taken anyway
//! is no gain, and a delay of all ranks counts for all. The kinds are rows of one table, [`KINDS`].
//! Pure; O(candidates · (nodes + edges)), with a bounded number of candidates per kind.

mod awaited;
mod candidate;
mod communication_time;
mod covered_time;
mod detect;
mod drain_times;
mod evidence;
mod finding;
mod host_span;
mod kind;
mod kinds;
mod launched_row;
mod launching;
mod limits;
mod overlap;
mod program_kind;
mod python_lines;
mod question;
mod rank_causes;
mod rank_work;
mod ranking;
mod ranks;
mod sentence;
mod start_up;
mod text;
mod title;
mod unknown_time;
mod view;

pub use candidate::{
    CauseCandidate, CauseEvidence, ProgramKind, RankCauses, RankWindow, RankWork, WindowEnds,
};
pub use finding::{CommunicationShare, JointGain, RankPart, RunFinding, RunFindings};
pub use kind::CauseKind;
pub use kinds::{KINDS, KindRule};
pub use question::{
    GraphAnswer, PredictedMemory, PredictedTime, PredictionBasis, QUESTIONS, QuestionError,
    RankAnswer, WhatIfQuestion, WorkPlace, answer_for_graph, straggler_edits,
};
pub use rank_causes::rank_causes;
pub use rank_work::{LongerWork, RankStepWork};
pub use ranking::run_findings;
