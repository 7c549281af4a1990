//! Which phase of a report is done, and what of it failed.

use super::shard::Shard;
use serde::Serialize;
use std::path::PathBuf;

/// Which part of a report is done here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportPhase {
    /// Where shards store what the join reads; all machines see it.
    pub folder: PathBuf,
    /// Which phase.
    pub step: ReportStep,
}

/// A phase of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportStep {
    /// Make of the ranks of a shard what the report needs of them, and store it.
    Summaries(Shard),
    /// Make the report of what all shards have stored.
    Join,
}

impl ReportPhase {
    /// Whether only a part of the ranks is worked on.
    pub fn is_shard(&self) -> bool {
        matches!(self.step, ReportStep::Summaries(_))
    }

    /// The ranks whose traces are read.
    pub fn shard(&self) -> Shard {
        match self.step {
            ReportStep::Summaries(shard) => shard,
            ReportStep::Join => Shard::NONE,
        }
    }
}

/// A rank that could not be linked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedRank {
    /// Its folder and label.
    pub name: String,
    /// Why.
    pub message: String,
}
