//! Compares ASTRA-sim's results for a run with its measurements.
//!
//! ```text
//! its log ──────────> AstraLog ───────┐
//! .et of each rank ──> GraphComms ────┼─> SimulatedRun ──┐
//!                                     │                  ├─> SimulationReport
//! RankSummary of each rank, joined ───┴─> MeasuredRun ───┘
//! ```
//! The log numbers nodes, and the simulated files describe them. The measured side is the recording
//! itself, because files for simulators split the blocked time of a host thread into the network's
//! time and a rest.

mod comms;
mod log;
mod measured;
mod report;
mod spans;
mod timeline;

#[cfg(test)]
mod tests;

pub use comms::{Between, GraphComms, NodeLane, SimulatedRun, SimulatedSlice};
pub use log::{AstraLog, AstraLogReader, LoggedNode, LoggedRank, LoggedStatistics, is_astra_log};
pub use measured::MeasuredRun;
pub use report::{
    ComparedComm, ComparedKind, ComparedRank, SimulationReport, StuckRank, compare_simulation,
};
pub use spans::{CommSpan, RankSpans, communication_spans};
pub use timeline::write_timeline;
