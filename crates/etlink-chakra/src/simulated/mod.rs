//! What ASTRA-sim says of a run, beside what was measured of it.
//!
//! ```text
//! its log ──────────> AstraLog ───────┐
//! .et of each rank ──> GraphComms ────┼─> SimulatedRun ──┐
//!                                     │                  ├─> SimulationReport
//! RankSummary of each rank, joined ───┴─> MeasuredRun ───┘
//! ```
//! The log numbers nodes, and the files that were simulated say what these are. The measured side
//! is the recording: in files for simulators what a host thread was blocked for is cut into what
//! the network takes and a rest.

mod comms;
mod log;
mod measured;
mod report;
mod spans;
mod timeline;

#[cfg(test)]
mod tests;

pub use comms::{Between, GraphComms, NodeLane, SimulatedError, SimulatedRun, SimulatedSlice};
pub use log::{AstraLog, AstraLogReader, LoggedNode, LoggedRank, LoggedStatistics, is_astra_log};
pub use measured::MeasuredRun;
pub use report::{
    ComparedComm, ComparedKind, ComparedRank, SimulationReport, StuckRank, compare_simulation,
};
pub use spans::{CommSpan, RankSpans, communication_spans};
pub use timeline::write_timeline;
