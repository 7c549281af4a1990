//! Opens a run: finds the traces of its ranks, pairs, reads, links, joins and writes them.
//!
//! This is the library below the command. It reads and writes files; it does not print, does not
//! look at the terminal and does not end the process: what it does is reported to a [`Progress`].
#![allow(
    clippy::disallowed_methods,
    reason = "the one library that reads and writes files, and measures how long that took"
)]

mod cancel;
pub mod discover;
pub mod graphs;
pub mod input;
pub mod interrupt;
pub mod job;
pub mod joined;
pub mod manifest;
pub mod membership;
pub mod memory;
pub mod output;
pub mod perfetto;
mod progress;
pub mod run;
pub mod text;

pub use cancel::{Cancellation, Cancelled};
pub use joined::JoinedRun;
pub use membership::{Excluded, Exclusion, Members};
pub use progress::{Progress, ProgressListener};
pub use run::{LinkedRank, RankContent, RunOptions, RunSet, RunSource, WrittenRank};
