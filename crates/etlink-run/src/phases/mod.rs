//! Work on the ranks of a run in phases, for many machines that share a folder.
//!
//! ```text
//! summaries, shard 0 ──┐
//! summaries, shard 1 ──┼── join (one place) ── a report; or what each shard of a merge writes
//! summaries, shard 2 ──┘
//! ```
//! Each [`Shard`] does what is to be done with each of its ranks, and stores what came of it. The
//! join reads that instead of the traces. A phase can be run again at any time. What was done on
//! other files, or with other options, is refused.
//!
//! Here are the phases of reports. Those of a merge are in [`merge::phases`](crate::merge::phases).

mod error;
mod files;
mod identity;
mod listing;
mod reports;
mod shard;
mod step;
mod stored;

pub(crate) use error::AGREEMENT;
pub use error::{EarlierPhase, PhaseError, StoredError};
pub(crate) use files::ShardFiles;
pub(crate) use identity::{PhaseIdentity, RankIdentity};
pub(crate) use listing::{FolderState, RunListing};
pub use reports::{Phased, ReportWork, ShardResults};
pub use shard::{Shard, ShardError};
pub use step::{FailedRank, ReportPhase, ReportStep};
