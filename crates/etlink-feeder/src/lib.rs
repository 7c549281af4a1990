//! Feeds a simulator with the nodes of a Chakra graph: tracks which nodes may be issued and which
//! have ended, and returns their contents.
//!
//! ```text
//! .et ──> index ──> Feeder ──> next node whose dependencies have ended ──> simulator
//!                     ▲                                                       │
//!                     └───────────────────── it has ended ────────────────────┘
//! ```
//! Only the index of a graph is kept: ids, offsets in the file and edges. The rest of a node is
//! read on request. [`IssueOrder`] decides which of several issuable nodes comes first.
//! [`Feeder::with_scratch`] keeps the index in a file, and as much of it in memory as you grant.
//! [`c_api`] is the C interface.

pub mod c_api;
mod columns;
mod error;
mod feeder;
mod id_heap;
mod index;
mod sorted_ids;
mod stock_set;

pub use columns::ScratchFile;
pub use error::FeederError;
pub use etlink_chakra::proto::{GlobalMetadata, Node, NodeType};
pub use feeder::{Feeder, IssueOrder};
