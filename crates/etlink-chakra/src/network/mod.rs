//! Fits latencies and bandwidths with which ASTRA-sim's network reproduces measured transfers.
//!
//! The time of each communication's transfer runs from the last rank's arrival to the end. With the
//! settings of [`crate::astra::system`], ASTRA-sim's analytical backends take a number of latencies
//! and a time for the bytes that pass a rank's link. Both are linear in the unknowns, so a regression
//! finds them. The bandwidth is therefore that of a link, whatever the number of ranks.
//! Disturbances only lengthen transfers of host threads, so the fastest tenth of these is fitted.
//! Two levels are written if groups show them. O(communications).

mod accuracy;
mod cost;
mod levels;
mod regression;
mod shape;
mod transfers;

pub use accuracy::{GroupFit, HeldOut, KindFit};
pub use cost::{CollectiveImplementation, example_broadcast_micros};
pub(crate) use cost::{DEFAULT_BANDWIDTH, DEFAULT_LATENCY_NS};
pub use regression::NetworkLevel;
pub use shape::CollectiveImplementations;
pub(crate) use transfers::member_ranks;

use crate::agreement::RunAgreement;
use etlink_link::ranks::{RankClock, RankSummary, RunJoin};
use etlink_model::CollectiveKind;
use levels::RankBlocks;
use serde::Serialize;
use shape::NetworkShape;
use transfers::MeasuredTransfers;

/// Median relative error above which a fit is not used: the network is no link, or the transfers are
/// no measurements of it.
pub(crate) const MOST_ERROR: f64 = 0.5;

/// Fitted speeds of a network between all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkFit {
    /// One level, or two: within blocks of neighbouring ranks, and across blocks. If the fit is
    /// rejected, the level of ASTRA-sim's example.
    pub levels: Vec<NetworkLevel>,
    /// True if the error of the fit is above 0.5, so that the values of ASTRA-sim's example are written.
    pub is_rejected: bool,
    /// Algorithms of collectives.
    pub algorithms: CollectiveImplementations,
    /// Number of fitted transfers.
    pub used: u64,
    /// Communications whose transfer time is unknown, or that ASTRA-sim gives no network time.
    pub unused: u64,
    /// With two levels: communications between ranks at different positions in different blocks,
    /// which ASTRA-sim treats as neighbours.
    pub mixed: u64,
    /// Median relative error of all fitted transfers, even if the fit is rejected.
    pub median_error: f64,
    /// Number of fitted transfers that show the error of the fit: all those of devices, the quickest
    /// fifth of those of host threads, of which the quickest tenth is fitted; at least four.
    pub judged: u64,
    /// Median relative error of these, even if the fit is rejected.
    pub fit_error: f64,
    /// Measured times and times of the fitted network, per kind.
    pub kinds: Vec<KindFit>,
    /// Measured times and times of the fitted network per group or pair of ranks, with the speed that its
    /// transfers alone give.
    pub groups: Vec<GroupFit>,
}

impl NetworkFit {
    /// Returns the time of the network between ranks, given in ascending order, in nanoseconds;
    /// `None` if ASTRA-sim uses the node's own time.
    pub(crate) fn time_ns(&self, kind: CollectiveKind, members: &[u64], bytes: i64) -> Option<i64> {
        let ns = self
            .shape()
            .time_ns(kind, members, bytes as f64, &self.levels)?;
        Some(ns.round() as i64)
    }

    fn shape(&self) -> NetworkShape {
        let ranks = self.levels.iter().map(|level| level.size).product();
        let block = self.levels.first().map_or(ranks, |level| level.size);
        NetworkShape {
            blocks: RankBlocks { ranks, block },
            algorithms: self.algorithms,
        }
    }
}

/// Fits a network of `ranks` ranks to the communications of a run; `None` if too few transfer times
/// are known.
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
    let fitted = shape.fitted(&measured);
    let judged = accuracy::judged(fitted.len(), measured.quantile);
    let error =
        |judged| accuracy::median_error(&measured, &fitted, judged, (shape, links.as_slice()));
    let mut fit = NetworkFit {
        levels: shape.levels(&links, &measured),
        is_rejected: false,
        algorithms: shape.algorithms,
        used: fitted.len() as u64,
        unused: measured.unused,
        mixed: shape.mixed(&measured),
        median_error: error(fitted.len()),
        judged: judged as u64,
        fit_error: error(judged),
        kinds: accuracy::kinds(&measured, shape, &links),
        groups: accuracy::groups(&measured, shape, &links),
    };
    if fit.fit_error > MOST_ERROR {
        fit.is_rejected = true;
        fit.levels = vec![NetworkLevel::example(ranks)];
        fit.algorithms = CollectiveImplementations::default();
        fit.mixed = 0;
    }
    Some(fit)
}
