//! Work on the ranks of a run in phases, for several machines that share a folder.
//!
//! ```text
//! summaries, shard 0 ──┐
//! summaries, shard 1 ──┼── join (one place) ── a report, or decisions for the shards of a merge
//! summaries, shard 2 ──┘
//! ```
//! Each [`Shard`] processes its ranks and stores their results. The join reads these instead of the
//! traces. Each phase can be repeated at any time. Results of other files or options are refused.
//!
//! This module contains the phases of reports. For the phases of a merge, see
//! [`merge::phases`](crate::merge::phases).

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
