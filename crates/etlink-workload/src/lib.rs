//! Workloads for simulators, converted from or to Chakra graphs.
//!
//! ```text
//! graphs of all ranks ──> goal::write_goal ───────> GOAL, for LogGOPSim and ATLAHS
//! text of ASTRA-sim 1.0 > text_workload ──────────> Chakra graphs
//! a few numbers ────────> generate ───────────────> graphs of all ranks
//! graphs of N ranks ────> scale ──────────────────> graphs of M ranks
//! ```
//! All functions are pure: texts and messages in, texts and messages out.

mod builder;
pub mod generate;
pub mod goal;
pub mod scale;
mod set;
pub mod text_workload;

pub use builder::{Message, NodeId, WorkloadBuilder};
pub use set::WorkloadSet;
