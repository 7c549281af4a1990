//! Converts written graphs to the types that other crates work on.
//!
//! ```text
//! ChakraGraph ─┬─ replay_graph ────> etlink_replay::ReplayGraph   to run
//!              ├─ tree_graph ──────> etlink_replay::ReplayGraph   to draw (ET+ has no deps)
//!              ├─ linked_trace ────> LinkedTrace            to analyze
//!              └─ summarize_rank ──> etlink_link::ranks     to join with other ranks
//! ```
//! A file states that a node waits, but not why: reasons follow from the places where both nodes
//! run.

mod collective;
mod device_trace;
mod groups;
mod placement;
mod rank_summary;
mod replay_graph;

#[cfg(test)]
mod tests;

pub use collective::{collective_kind, comm_type};
pub use device_trace::linked_trace;
pub(crate) use rank_summary::communication_kind;
pub(crate) use replay_graph::is_communication;

pub use groups::{GroupList, GroupRanks};
pub(crate) use placement::row_kind;
pub use placement::{NodeNumbers, runs_on_device};
pub use rank_summary::{is_idle_rank, summarize_rank};
pub use replay_graph::{NodeNames, replay_graph, stock_graph, tree_graph};
