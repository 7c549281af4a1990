//! Measures the accuracy of a network: per kind, per group, and for transfers that it was not
//! fitted to.

use super::cost::NetworkCost;
use super::regression::{CostedTransfer, MIN_TRANSFERS, NetworkLevel, fit_link};
use super::shape::{NetworkShape, find_shape};
use super::transfers::{MeasuredTransfer, MeasuredTransfers};
use serde::Serialize;
use std::collections::BTreeMap;

/// Measured transfers of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindFit {
    /// Kind of collective, or `send`.
    pub kind: &'static str,
    /// Number of transfers.
    pub count: u64,
    /// Measured time of the transfers, in nanoseconds.
    pub measured_ns: f64,
    /// Time of the network for the transfers, in nanoseconds.
    pub network_ns: f64,
    /// Median relative deviation of transfers from the median of those with the same ranks and
    /// size; `None` if no two transfers match.
    pub spread: Option<f64>,
    /// First half and second half, each with a network fitted to the other half. If there are too
    /// few transfers, one sum of all, each with the network of all others.
    pub held_out: Vec<HeldOut>,
}

/// Transfers of one kind that a network was not fitted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldOut {
    /// Measured time of the transfers, in nanoseconds.
    pub measured_ns: f64,
    /// Time of the other transfers' network for them, in nanoseconds.
    pub network_ns: f64,
    /// Average time of the other transfers with the same ranks and size, in nanoseconds: no network
    /// can predict more than the run repeats. `None` if a transfer has no match.
    pub repeated_ns: Option<f64>,
}

/// Transfers between the same ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupFit {
    /// Global ranks; sender and receiver of a message.
    pub ranks: Vec<u64>,
    /// Kinds of collectives, or `send`.
    pub kinds: Vec<&'static str>,
    /// Number of transfers.
    pub used: u64,
    /// Latency of a link fitted to these transfers alone, in nanoseconds; `None` if they are too
    /// few.
    pub latency_ns: Option<f64>,
    /// Bandwidth of that link, in GB/s of 2^30 bytes; `None` if the sizes do not determine it.
    pub bandwidth: Option<f64>,
    /// Measured time of the transfers, in nanoseconds.
    pub measured_ns: f64,
    /// Time of the network for the transfers, in nanoseconds.
    pub network_ns: f64,
    /// Median of the relative errors.
    pub median_error: f64,
}

/// Kind, ranks and size of a transfer.
type TransferKey = (&'static str, usize, u64);

fn key(transfer: &MeasuredTransfer) -> TransferKey {
    let kind = transfer.kind.name();
    (kind, transfer.group, transfer.bytes.to_bits())
}

/// Returns the median relative error of the `judged` quickest of the chosen transfers, compared
/// with their times in the network.
pub(super) fn median_error(
    measured: &MeasuredTransfers,
    chosen: &[usize],
    judged: usize,
    (shape, links): (NetworkShape, &[NetworkLevel]),
) -> f64 {
    let relative = |at: &usize| {
        let transfer = &measured.transfers[*at];
        shape.transfer_ns(measured, transfer, links) / transfer.ns
    };
    let mut ratios: Vec<f64> = chosen.iter().map(relative).collect();
    ratios.sort_unstable_by(|one, other| other.total_cmp(one));
    ratios.truncate(judged);
    median(ratios.iter().map(|ratio| (ratio - 1.0).abs()).collect()).unwrap_or(0.0)
}

/// Returns how many of `fitted` transfers, the quickest ones, show whether a fit is right: those
/// that have the fitted quantile in their middle. Slower ones were delayed.
pub(super) fn judged(fitted: usize, quantile: f64) -> usize {
    let judged = (2.0 * quantile * fitted as f64).ceil() as usize;
    judged.max(MIN_TRANSFERS).min(fitted)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Returns the accuracy by kind, in order of time.
pub(super) fn kinds(
    measured: &MeasuredTransfers,
    shape: NetworkShape,
    links: &[NetworkLevel],
) -> Vec<KindFit> {
    let folds = Folds::new(measured, shape.blocks.ranks);
    let mut found: Vec<KindFit> = vec![];
    for transfer in &measured.transfers {
        let kind = transfer.kind.name();
        if found.iter().any(|known| known.kind == kind) {
            continue;
        }
        let of_kind = measured.transfers.iter().enumerate();
        let of_kind = of_kind.filter(|(_, other)| other.kind.name() == kind);
        let chosen: Vec<usize> = of_kind.map(|(at, _)| at).collect();
        let transfers = || chosen.iter().map(|at| &measured.transfers[*at]);
        let network = |transfer| shape.transfer_ns(measured, transfer, links);
        found.push(KindFit {
            kind,
            count: chosen.len() as u64,
            measured_ns: transfers().map(|transfer| transfer.ns).sum(),
            network_ns: transfers().map(network).sum(),
            spread: spread(transfers()),
            held_out: folds.held_out(&chosen),
        });
    }
    found
}

fn spread<'t>(transfers: impl Iterator<Item = &'t MeasuredTransfer>) -> Option<f64> {
    let mut alike: BTreeMap<TransferKey, Vec<f64>> = BTreeMap::new();
    for transfer in transfers {
        alike.entry(key(transfer)).or_default().push(transfer.ns);
    }
    let mut distances = vec![];
    for times in alike.into_values().filter(|times| times.len() > 1) {
        let middle = median(times.clone()).unwrap_or(1.0);
        distances.extend(times.iter().map(|ns| (ns / middle - 1.0).abs()));
    }
    median(distances)
}

/// Networks fitted to parts of the transfers, to test them on other parts.
struct Folds<'m> {
    measured: &'m MeasuredTransfers,
    /// Part of each transfer.
    part: Vec<usize>,
    /// Network fitted without each part; `None` if the others are too few.
    networks: Vec<Option<(NetworkShape, Vec<NetworkLevel>)>>,
    /// True if the parts are halves in time, false if they are single transfers.
    are_halves: bool,
}

impl<'m> Folds<'m> {
    fn new(measured: &'m MeasuredTransfers, ranks: u64) -> Folds<'m> {
        let halves = Folds::with_parts(measured, halves(measured), ranks, true);
        if halves.networks.iter().all(Option::is_some) {
            return halves;
        }
        // If there are few transfers, each one is tested with the network of all others.
        let single = (0..measured.transfers.len()).collect();
        Folds::with_parts(measured, single, ranks, false)
    }

    fn with_parts(
        measured: &'m MeasuredTransfers,
        part: Vec<usize>,
        ranks: u64,
        are_halves: bool,
    ) -> Folds<'m> {
        let parts = part.iter().max().map_or(0, |last| last + 1);
        let network = |held_out: usize| {
            let others = part.iter().enumerate();
            let others = others.filter(|(_, part)| **part != held_out);
            let others: Vec<usize> = others.map(|(at, _)| at).collect();
            find_shape(measured, &others, ranks)
        };
        Folds {
            measured,
            networks: (0..parts).map(network).collect(),
            part,
            are_halves,
        }
    }

    /// Returns the two halves of some transfers, or their total if each is held out alone; empty if
    /// the others determine no network.
    fn held_out(&self, chosen: &[usize]) -> Vec<HeldOut> {
        let halves: Vec<Vec<usize>> = if self.are_halves {
            (0..2)
                .map(|half| {
                    let of_half = chosen.iter().filter(|at| self.part[**at] == half);
                    of_half.copied().collect()
                })
                .collect()
        } else {
            vec![chosen.to_vec()]
        };
        let found: Option<Vec<HeldOut>> =
            halves.iter().map(|half| self.sums(half, chosen)).collect();
        found.unwrap_or_default()
    }

    fn sums(&self, held_out: &[usize], of_kind: &[usize]) -> Option<HeldOut> {
        let mut sums = HeldOut {
            repeated_ns: Some(0.0),
            ..HeldOut::default()
        };
        let mut alike: BTreeMap<TransferKey, Vec<usize>> = BTreeMap::new();
        for at in of_kind {
            let known = alike.entry(key(&self.measured.transfers[*at])).or_default();
            known.push(*at);
        }
        for at in held_out {
            let transfer = &self.measured.transfers[*at];
            let (shape, links) = self.networks[self.part[*at]].as_ref()?;
            sums.measured_ns += transfer.ns;
            sums.network_ns += shape.transfer_ns(self.measured, transfer, links);
            let others = alike[&key(transfer)].iter();
            let others = others.filter(|other| self.part[**other] != self.part[*at]);
            let times: Vec<f64> = others
                .map(|other| self.measured.transfers[*other].ns)
                .collect();
            let average = times.iter().sum::<f64>() / times.len() as f64;
            let repeated = if !times.is_empty() {
                sums.repeated_ns
            } else {
                None
            };
            sums.repeated_ns = repeated.map(|sum| sum + average);
        }
        (!held_out.is_empty()).then_some(sums)
    }
}

/// Returns the half of its kind that each transfer belongs to, 0 or 1.
fn halves(measured: &MeasuredTransfers) -> Vec<usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for transfer in &measured.transfers {
        *counts.entry(transfer.kind.name()).or_default() += 1;
    }
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let half = |transfer: &MeasuredTransfer| {
        let kind = transfer.kind.name();
        let place = seen.entry(kind).or_default();
        *place += 1;
        usize::from(2 * *place > counts[kind])
    };
    measured.transfers.iter().map(half).collect()
}

/// Returns the accuracy by group, those with the most transfers first.
pub(super) fn groups(
    measured: &MeasuredTransfers,
    shape: NetworkShape,
    links: &[NetworkLevel],
) -> Vec<GroupFit> {
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, transfer) in measured.transfers.iter().enumerate() {
        members.entry(transfer.group).or_default().push(at);
    }
    let mut found: Vec<GroupFit> = vec![];
    for (group, chosen) in members {
        let transfers = || chosen.iter().map(|at| &measured.transfers[*at]);
        let network = |transfer| shape.transfer_ns(measured, transfer, links);
        let own = own_link(measured, shape, &chosen);
        let mut kinds: Vec<&str> = transfers().map(|transfer| transfer.kind.name()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let tells_bandwidth = own.as_ref().filter(|link| link.bandwidth_is_fitted);
        found.push(GroupFit {
            ranks: measured.groups[group].clone(),
            kinds,
            used: chosen.len() as u64,
            latency_ns: own.as_ref().map(|link| link.latency_ns),
            bandwidth: tells_bandwidth.map(|link| link.bandwidth),
            measured_ns: transfers().map(|transfer| transfer.ns).sum(),
            network_ns: transfers().map(network).sum(),
            median_error: median_error(measured, &chosen, chosen.len(), (shape, links)),
        });
    }
    found.sort_by_key(|group| std::cmp::Reverse(group.used));
    found
}

/// Fits a link to the transfers of one group alone, as if they crossed a single switch.
fn own_link(
    measured: &MeasuredTransfers,
    shape: NetworkShape,
    chosen: &[usize],
) -> Option<NetworkLevel> {
    let costed = |at: &usize| -> Option<CostedTransfer> {
        let transfer = &measured.transfers[*at];
        let ranks = measured.members(transfer).len();
        let algorithm = shape.algorithms.of(transfer.kind);
        Some(CostedTransfer {
            cost: NetworkCost::new(transfer.kind, algorithm, ranks, transfer.bytes)?,
            ns: transfer.ns,
            weight: 1.0,
        })
    };
    let transfers: Option<Vec<CostedTransfer>> = chosen.iter().map(costed).collect();
    fit_link(&transfers?, measured.quantile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_model::CollectiveKind::AllReduce;

    /// Four of five transfers were delayed to several times their length.
    #[test]
    fn delays_of_host_threads_are_no_errors_of_the_fit() {
        let shape = NetworkShape::flat(2);
        let link = NetworkLevel {
            latency_ns: 20_000.0,
            bandwidth: 1.0,
            bandwidth_is_fitted: true,
            ..NetworkLevel::example(2)
        };
        let mut measured = MeasuredTransfers {
            groups: vec![vec![0, 1]],
            quantile: 0.1,
            ..MeasuredTransfers::default()
        };
        let sizes = [4e3, 9e4, 1.6e6];
        for at in 0u32..60 {
            let bytes = sizes[at as usize % 3];
            let ns = shape.time_ns(AllReduce, &[0, 1], bytes, &[link]);
            let delay = if at % 5 == 0 {
                1.0
            } else {
                3.0 + f64::from(at % 7)
            };
            measured.transfers.push(MeasuredTransfer {
                kind: AllReduce,
                group: 0,
                bytes,
                ns: delay * ns.expect("a cost"),
            });
        }
        let fitted = shape.fitted(&measured);
        let links = shape.fit(&measured, &fitted).expect("a fit");
        let error = |judged| median_error(&measured, &fitted, judged, (shape, &links));
        assert!(error(judged(60, 0.1)) < 0.05, "{links:?}");
        assert!(error(60) > 0.5, "{links:?}");
        assert_eq!(
            (judged(60, 0.5), judged(60, 0.1), judged(3, 0.1)),
            (60, 12, 3)
        );
    }
}
