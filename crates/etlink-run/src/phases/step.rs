//! Phases of a report, and ranks that failed in them.

use super::shard::Shard;
use serde::Serialize;
use std::path::PathBuf;

/// A phase of a report and its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportPhase {
    /// Folder of the stored results, shared by all machines.
    pub folder: PathBuf,
    /// The phase.
    pub step: ReportStep,
}

/// A phase of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportStep {
    /// Computes and stores the results of a shard's ranks.
    Summaries(Shard),
    /// Builds the report from the results of all shards.
    Join,
}

impl ReportPhase {
    /// Returns true if only a part of the ranks is processed.
    pub fn is_shard(&self) -> bool {
        matches!(self.step, ReportStep::Summaries(_))
    }

    /// Returns the ranks whose traces are read.
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
    /// Folder and label of the rank.
    pub name: String,
    /// Error of the rank.
    pub message: String,
}
