//! Contents of the files that phases of a merge exchange.

use crate::merge::{KnownRank, MergeOptions, output_name};
use crate::phases::{PhaseIdentity, RankIdentity};
use crate::run::RunSet;
use etlink_chakra::{RankAgreement, RooflineDevice};
use etlink_link::ranks::{ClockDrift, RankClock, RankSummary};
use etlink_model::{GlobalRank, UnixNs};
use serde::{Deserialize, Serialize};

/// Returns the identity of a merge: its traces and the options that all phases must share.
pub(super) fn merge_identity(runs: &RunSet, options: &MergeOptions) -> PhaseIdentity {
    let how = &runs.options;
    let form = options.chakra;
    let settings = [
        ("version of etlink", env!("CARGO_PKG_VERSION").to_owned()),
        ("--format", format!("{:?}", options.format)),
        ("--latency", format!("{:?}", form.latency)),
        ("--no-gaps", form.no_gaps.to_string()),
        ("--dep-latencies", form.dep_latencies.to_string()),
        ("--pack", options.packing.ending().to_owned()),
        ("--attrs", form.attributes.name().to_owned()),
        ("--comm-only or --device-only", format!("{:?}", form.part)),
        ("--for or --compute", format!("{:?}", options.simulator)),
        ("--tensor-deps", format!("{:?}", how.tensor_deps)),
        ("--ranks", format!("{:?}", how.ranks)),
        ("--steps-by", format!("{:?}", how.steps_by)),
        ("--steps or --time", format!("{:?}", how.slice)),
        ("--strict", how.strict.to_string()),
        ("--allow-mismatch", how.allow_mismatch.to_string()),
        ("--no-align", (!how.align).to_string()),
    ];
    let names: Vec<String> = runs.runs.iter().map(|run| output_name(runs, run)).collect();
    let mut ranks = vec![];
    for &(run, place) in &runs.listed {
        let files = &runs.runs[run];
        let rank = &files.ranks[place];
        ranks.push(RankIdentity::new(
            &files.folder,
            &names[run],
            rank,
            &runs.state,
        ));
    }
    PhaseIdentity::new(ranks, settings)
}

/// Results of the first phase for a shard.
#[derive(Serialize, Deserialize)]
pub(super) struct ShardSummaries {
    pub(super) identity: PhaseIdentity,
    pub(super) ranks: Vec<SummarizedRank>,
}

/// Result of the first phase for one rank.
#[derive(Serialize, Deserialize)]
pub(super) struct SummarizedRank {
    /// Place among all ranks of the source.
    pub(super) place: usize,
    pub(super) outcome: RankOutcome,
}

/// Result of linking a rank.
#[derive(Serialize, Deserialize)]
pub(super) enum RankOutcome {
    /// Linked. The rank takes part in the join if its number is certain.
    Linked(Option<Box<LinkedSummary>>),
    /// Refused: the traces are damaged, and damaged traces were to be refused.
    Refused,
    /// The trace states a rank that was not requested.
    Unwanted,
    /// Failed to link, with the error.
    Failed(String),
}

/// Reason for excluding a rank whose traces were refused from the join.
pub(super) const REFUSED: &str = "refused under --strict";

impl RankOutcome {
    pub(super) fn is_unwanted(&self) -> bool {
        matches!(self, RankOutcome::Unwanted)
    }
}

/// Summary of a linked rank for the join.
#[derive(Serialize, Deserialize)]
pub(super) struct LinkedSummary {
    pub(super) facts: RankSummary,
    /// Sizes returned by [`etlink_chakra::simulated_sizes`].
    pub(super) sizes: Vec<Option<i64>>,
    /// Device of the rank.
    pub(super) device: RooflineDevice,
}

impl From<KnownRank> for LinkedSummary {
    fn from(known: KnownRank) -> LinkedSummary {
        LinkedSummary {
            facts: known.facts,
            sizes: known.sizes,
            device: known.device,
        }
    }
}

impl LinkedSummary {
    pub(super) fn into_known(self) -> KnownRank {
        KnownRank {
            facts: self.facts,
            sizes: self.sizes,
            device: self.device,
            trace: None,
        }
    }
}

/// Decisions of the join for the ranks of a shard.
#[derive(Serialize, Deserialize)]
pub(super) struct ShardAgreement {
    pub(super) identity: PhaseIdentity,
    pub(super) ranks: Vec<JoinedRank>,
    /// Places and errors of ranks that failed before the join.
    pub(super) failed: Vec<(usize, String)>,
}

/// Decisions of the join for one rank; without an agreement if the rank is not joined.
#[derive(Serialize, Deserialize)]
pub(super) struct JoinedRank {
    /// Place among all ranks of the source.
    pub(super) place: usize,
    pub(super) agreement: Option<RankAgreement>,
    pub(super) clock: StoredClock,
}

/// A [`RankClock`] with all its fields. Its JSON omits fields that carry no information.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredClock {
    rank: GlobalRank,
    offset_ns: i64,
    uncertainty_ns: Option<i64>,
    likely_error_ns: i64,
    support: u64,
    contradicted: bool,
    /// Drift, its uncertainty, and whether it is applied.
    drift: Option<(i64, i64, bool)>,
    at_ns: UnixNs,
    by_machine: bool,
}

impl From<RankClock> for StoredClock {
    fn from(clock: RankClock) -> StoredClock {
        let drift = clock.drift;
        StoredClock {
            rank: clock.rank,
            offset_ns: clock.offset_ns,
            uncertainty_ns: clock.uncertainty_ns,
            likely_error_ns: clock.likely_error_ns,
            support: clock.support,
            contradicted: clock.contradicted,
            drift: drift.map(|drift| (drift.ppb, drift.uncertainty_ppb, drift.applied)),
            at_ns: clock.at_ns,
            by_machine: clock.by_machine,
        }
    }
}

impl StoredClock {
    pub(super) fn to_clock(&self) -> RankClock {
        let drift = self
            .drift
            .map(|(ppb, uncertainty_ppb, applied)| ClockDrift {
                ppb,
                uncertainty_ppb,
                applied,
            });
        RankClock {
            rank: self.rank,
            offset_ns: self.offset_ns,
            uncertainty_ns: self.uncertainty_ns,
            likely_error_ns: self.likely_error_ns,
            support: self.support,
            contradicted: self.contradicted,
            drift,
            at_ns: self.at_ns,
            by_machine: self.by_machine,
        }
    }
}
