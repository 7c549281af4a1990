//! The latencies and bandwidths with which ASTRA-sim's network takes what was measured.
//!
//! Each communication says how long its transfer took: from the last rank's arrival to the end.
//! ASTRA-sim's analytical backend takes, with the settings of [`crate::astra::system`], a number of
//! latencies and a time for its bytes. Both are linear in what is looked for, so that a regression
//! finds it. Transfers of host threads are disturbed one way only, so of these the lowest tenth is
//! fitted. Two levels are written where groups show them. O(communications).

mod accuracy;
mod cost;
mod levels;
mod regression;
mod shape;
mod transfers;

pub use accuracy::{GroupFit, HeldOut, KindFit};
pub use cost::{CollectiveImplementation, example_broadcast_micros};
pub(crate) use cost::{DEFAULT_BANDWIDTH, DEFAULT_LATENCY_NS};
pub use shape::{CollectiveImplementations, NetworkLevel};
pub(crate) use transfers::member_ranks;

use crate::agreement::RunAgreement;
use etlink_link::ranks::{RankClock, RankSummary, RunJoin};
use etlink_model::CollectiveKind;
use levels::RankBlocks;
use regression::FittedLink;
use serde::Serialize;
use shape::NetworkShape;
use transfers::MeasuredTransfers;

/// Speeds of a network between all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkFit {
    /// One, or two: within blocks of neighbouring ranks, and across these.
    pub levels: Vec<NetworkLevel>,
    /// How ranks pass collectives on; over two levels all are rings.
    pub algorithms: CollectiveImplementations,
    /// Transfers that were fitted.
    pub used: u64,
    /// Communications whose transfer nothing tells, or that ASTRA-sim gives no network time.
    pub unused: u64,
    /// Over two levels: communications between ranks of other places in other blocks, which
    /// ASTRA-sim takes for neighbours.
    pub mixed: u64,
    /// Median of the relative errors of the fitted transfers.
    pub median_error: f64,
    /// Per kind, what was measured and what the network takes.
    pub kinds: Vec<KindFit>,
    /// The same per group or pair of ranks, with the speed that its transfers alone tell.
    pub groups: Vec<GroupFit>,
}

impl NetworkFit {
    /// What the network takes between ranks, ascending, ns; `None` for what ASTRA-sim gives the
    /// node's own time.
    pub(crate) fn time_ns(&self, kind: CollectiveKind, members: &[u64], bytes: i64) -> Option<i64> {
        let ns = self
            .shape()
            .time_ns(kind, members, bytes as f64, &self.links())?;
        Some(ns.round() as i64)
    }

    /// Whether it has two dimensions.
    pub fn is_hierarchical(&self) -> bool {
        self.levels.len() > 1
    }

    fn shape(&self) -> NetworkShape {
        let ranks = self.levels.iter().map(|level| level.size).product();
        let block = self.levels.first().map_or(ranks, |level| level.size);
        NetworkShape {
            blocks: RankBlocks { ranks, block },
            algorithms: self.algorithms,
        }
    }

    fn links(&self) -> Vec<FittedLink> {
        let link = |level: &NetworkLevel| FittedLink {
            latency_ns: level.latency_ns,
            bandwidth: level.bandwidth,
            bandwidth_is_fitted: level.bandwidth_is_fitted,
        };
        self.levels.iter().map(link).collect()
    }
}

/// Fits a network of so many ranks to the communications of a run; `None` where too few tell their
/// transfer.
pub fn fit_network(
    agreed: &RunAgreement,
    facts: &[RankSummary],
    join: &RunJoin,
    clocks: &[RankClock],
    ranks: u64,
) -> Option<NetworkFit> {
    let measured = MeasuredTransfers::new(agreed, facts, join, clocks);
    let all: Vec<usize> = (0..measured.transfers.len()).collect();
    let (shape, links) = shape::find_shape(&measured, &all, ranks)?;
    let mut fit = NetworkFit {
        levels: shape.levels(&links, &measured),
        algorithms: shape.algorithms,
        used: all.len() as u64,
        unused: measured.unused,
        mixed: shape.mixed(&measured),
        median_error: 0.0,
        kinds: accuracy::kinds(&measured, shape, &links),
        groups: accuracy::groups(&measured, shape, &links),
    };
    fit.median_error = accuracy::median_error(&measured, &all, shape, &links);
    Some(fit)
}
