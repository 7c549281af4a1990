//! Fits the latency and time per byte with which a network reproduces measured transfers.
//!
//! The fit minimizes absolute errors, not squares, because delays of ranks by the operating system
//! are not caused by the network. All kinds of collectives have the same weight, regardless of
//! their transfer times.

use super::cost::{BYTES_PER_NS, DEFAULT_BANDWIDTH, DEFAULT_LATENCY_NS, LinkSpeed, NetworkCost};
use serde::Serialize;

/// Minimum number of transfers for a fit.
pub(super) const MIN_TRANSFERS: usize = 4;
const ITERATIONS: usize = 50;

/// A measured transfer and its cost in the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct CostedTransfer {
    pub(super) cost: NetworkCost,
    pub(super) ns: f64,
    /// Weight of the transfer's error.
    pub(super) weight: f64,
}

/// One dimension of the network.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkLevel {
    /// Number of ranks, or of blocks of ranks.
    pub size: u64,
    /// Latency of a message, in nanoseconds.
    pub latency_ns: f64,
    /// Bandwidth of a rank's link in GB/s of 2^30 bytes, as in ASTRA-sim.
    pub bandwidth: f64,
    /// True if the bandwidth is fitted to transfers; false if it comes from ASTRA-sim's example.
    pub bandwidth_is_fitted: bool,
    /// Number of fitted transfers.
    pub used: u64,
}

impl NetworkLevel {
    /// Returns the network of ASTRA-sim's example between `size` ranks.
    pub(crate) fn example(size: u64) -> NetworkLevel {
        NetworkLevel {
            size,
            latency_ns: DEFAULT_LATENCY_NS,
            bandwidth: DEFAULT_BANDWIDTH,
            bandwidth_is_fitted: false,
            used: 0,
        }
    }

    pub(super) fn speed(&self) -> LinkSpeed {
        LinkSpeed {
            latency_ns: self.latency_ns,
            ns_per_byte: 1.0 / (self.bandwidth * BYTES_PER_NS),
        }
    }
}

/// Fits a link; `None` if too few transfers determine it.
pub(super) fn fit_link(transfers: &[CostedTransfer], quantile: f64) -> Option<NetworkLevel> {
    if transfers.len() < MIN_TRANSFERS {
        return None;
    }
    let example_ns_per_byte = 1.0 / (DEFAULT_BANDWIDTH * BYTES_PER_NS);
    // If sizes hardly differ, or small transfers are slower, the bandwidth cannot be fitted.
    let candidates = [
        regress(transfers, quantile, None).map(|found| (found, true)),
        regress(transfers, quantile, Some(example_ns_per_byte)).map(|found| (found, false)),
    ];
    let mut usable = candidates.into_iter().flatten();
    let (link, bandwidth_is_fitted) =
        usable.find(|(link, _)| link.latency_ns >= 0.0 && link.ns_per_byte > 0.0)?;
    // Files contain this many digits, and the times subtracted from the ranks' waits have to match.
    Some(NetworkLevel {
        size: 0,
        used: 0,
        latency_ns: rounded(link.latency_ns, 2),
        bandwidth: rounded(1.0 / (link.ns_per_byte * BYTES_PER_NS), 6).max(1e-6),
        bandwidth_is_fitted,
    })
}

/// Returns the sum of errors that [`fit_link`] minimizes.
pub(super) fn loss(transfers: &[CostedTransfer], link: LinkSpeed, quantile: f64) -> f64 {
    let of_one = |transfer: &CostedTransfer| {
        let rest = transfer.ns - transfer.cost.time_ns(link);
        transfer.weight * side(rest, quantile) * rest.abs()
    };
    transfers.iter().map(of_one).sum()
}

fn side(rest: f64, quantile: f64) -> f64 {
    if rest > 0.0 { quantile } else { 1.0 - quantile }
}

/// Computes the quantile regression of transfers on latency and bytes, by weighted least squares;
/// with a given `ns_per_byte`, on the latency alone. Returns `None` if the transfers do not
/// separate the two.
fn regress(
    transfers: &[CostedTransfer],
    quantile: f64,
    ns_per_byte: Option<f64>,
) -> Option<LinkSpeed> {
    let mut found: Option<LinkSpeed> = None;
    for _ in 0..ITERATIONS {
        let [mut aa, mut ab, mut bb, mut at, mut bt] = [0.0; 5];
        for transfer in transfers {
            let NetworkCost { latencies, bytes } = transfer.cost;
            let weight = found.map_or(1.0, |link| {
                let rest = transfer.ns - transfer.cost.time_ns(link);
                // Errors below a thousandth have the same weight, so that no weight is unbounded.
                side(rest, quantile) / rest.abs().max(transfer.ns * 1e-3)
            });
            let weight = weight * transfer.weight;
            aa += weight * latencies * latencies;
            ab += weight * latencies * bytes;
            bb += weight * bytes * bytes;
            at += weight * latencies * transfer.ns;
            bt += weight * bytes * transfer.ns;
        }
        found = Some(match ns_per_byte {
            Some(ns_per_byte) => LinkSpeed {
                latency_ns: ((at - ab * ns_per_byte) / aa).max(0.0),
                ns_per_byte,
            },
            None => {
                let determinant = aa * bb - ab * ab;
                if determinant <= aa * bb * 1e-9 {
                    return None;
                }
                LinkSpeed {
                    latency_ns: (at * bb - bt * ab) / determinant,
                    ns_per_byte: (bt * aa - at * ab) / determinant,
                }
            }
        });
    }
    found
}

fn rounded(value: f64, digits: i32) -> f64 {
    let unit = 10f64.powi(digits);
    (value * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use super::super::cost::CollectiveImplementation::Ring;
    use super::*;
    use etlink_model::CollectiveKind::{AllGather, AllReduce, AllToAll, Recv, ReduceScatter};

    fn drawn(noise: impl Fn(usize) -> f64) -> Vec<CostedTransfer> {
        let sizes = [1e3, 5e4, 2e5, 4e3, 9e5, 2e4, 3e3, 4e5];
        let kinds = [AllReduce, AllGather, ReduceScatter, Recv];
        let link = LinkSpeed {
            latency_ns: 5_000.0,
            ns_per_byte: 1.0 / (3.0 * BYTES_PER_NS),
        };
        let mut transfers = vec![];
        for (at, bytes) in sizes.into_iter().cycle().take(32).enumerate() {
            let cost = NetworkCost::new(kinds[at / 8], Ring, 4, bytes).expect("a cost");
            let ns = cost.time_ns(link) + noise(at);
            transfers.push(CostedTransfer {
                cost,
                ns,
                weight: 1.0,
            });
        }
        transfers
    }

    #[test]
    fn latency_and_bandwidth_come_back() {
        let fit = fit_link(&drawn(|_| 0.0), 0.5).expect("a fit");
        assert!((fit.latency_ns - 5_000.0).abs() < 1.0, "{fit:?}");
        assert!((fit.bandwidth - 3.0).abs() < 1e-3, "{fit:?}");
        // Some transfers were delayed by milliseconds: the others show the network's time.
        let held_up = |at: usize| if at % 5 == 2 { 3e6 } else { 0.0 };
        let fit = fit_link(&drawn(held_up), 0.25).expect("a fit");
        assert!((fit.latency_ns / 5_000.0 - 1.0).abs() < 0.02, "{fit:?}");
        assert!((fit.bandwidth / 3.0 - 1.0).abs() < 0.02, "{fit:?}");
    }

    #[test]
    fn sizes_that_tell_nothing_leave_the_bandwidth_alone() {
        let cost = NetworkCost::new(AllToAll, Ring, 2, 512.0).expect("a cost");
        let transfer = CostedTransfer {
            cost,
            ns: 80_000.0,
            weight: 1.0,
        };
        let fit = fit_link(&[transfer; 4], 0.5).expect("a fit");
        assert!(!fit.bandwidth_is_fitted && fit.bandwidth == DEFAULT_BANDWIDTH);
        let network_ns = 4.0 * cost.time_ns(fit.speed());
        assert!((network_ns / 320_000.0 - 1.0).abs() < 0.01);
        assert_eq!(fit_link(&[transfer; 3], 0.5), None);
    }
}
