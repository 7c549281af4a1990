//! Workloads for simulators, converted from or to Chakra graphs.
//!
//! ```text
//! graphs of all ranks ──> goal::write_goal ───────> GOAL, for LogGOPSim and ATLAHS
//! a few numbers ────────> generate ───────────────> graphs of all ranks
//! workload of SimAI ────> generate::simai ────────> graphs of a pipeline stage's ranks
//! graphs of N ranks ────> scale ──────────────────> graphs of M ranks
//! ```
//! All functions are pure: texts and messages in, texts and messages out.

mod builder;
pub mod generate;
pub mod goal;
pub mod scale;
mod set;

pub use builder::{Message, NodeId, WorkloadBuilder};
pub use set::WorkloadSet;
