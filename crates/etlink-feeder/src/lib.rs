//! Feeds a simulator with the nodes of a Chakra graph: which may be issued, which have ended, what
//! each of them is.
//!
//! ```text
//! .et ──> index ──> Feeder ──> next node whose dependencies have ended ──> simulator
//!                     ▲                                                       │
//!                     └───────────────────── it has ended ────────────────────┘
//! ```
//! The index is all that is kept of a graph: ids, places in the file and edges. The rest of a node is
//! read when it is asked for. [`IssueOrder`] says which of several nodes that may be issued comes
//! first. [`Feeder::with_scratch`] keeps the index in a file, with as much of it in memory as you
//! say. [`c_api`] has the same for C.

pub mod c_api;
mod error;
mod feeder;
mod id_order_set;
mod index;
mod paged_file;
mod progress;
mod sorted_ids;
mod stock_set;
mod storage;

pub use error::FeederError;
pub use etlink_chakra::proto::{GlobalMetadata, Node, NodeType};
pub use feeder::Feeder;
pub use paged_file::ScratchFile;
pub use progress::IssueOrder;
