//! Feeds a simulator with the nodes of a Chakra graph: which may be issued, which have ended, what
//! each of them is.
//!
//! ```text
//! .et ──> GraphIndex ──> Feeder ──> next node whose dependencies have ended ──> simulator
//!                          ▲                                                       │
//!                          └───────────────────── it has ended ────────────────────┘
//! ```
//! [`GraphIndex`] is all that stays of a graph in memory: ids, places in the file and edges. The
//! rest of a node is read when it is asked for. [`IssueOrder`] says which of several nodes that may
//! be issued comes first. [`c_api`] has the same for C.

pub mod c_api;
mod error;
mod feeder;
mod index;
mod stock_set;

pub use error::FeederError;
pub use etlink_chakra::proto::{GlobalMetadata, Node, NodeType};
pub use feeder::{Feeder, IssueOrder};
pub use index::GraphIndex;
