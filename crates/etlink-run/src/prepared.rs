//! Outcome of preparing the results of a shard's ranks.

use serde::Serialize;

/// Shard of the ranks whose results are now in the cache.
#[derive(Clone, Debug, Serialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("only shard {shard}/{shards} was prepared: the same command without it gives the result")]
pub struct PreparedShard {
    /// Number of the shard, from 0.
    pub shard: u32,
    /// Number of shards.
    pub shards: u32,
    /// Number of ranks in the shard.
    pub ranks: usize,
    /// Ranks that failed, with their errors.
    pub failed: Vec<FailedRank>,
}

/// A rank that could not be linked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedRank {
    /// Folder and label of the rank.
    pub name: String,
    /// Error of the rank.
    pub message: String,
}
