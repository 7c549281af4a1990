//! What ASTRA-sim's network takes for a communication, and the latency and bandwidth with which it
//! takes what was measured.
//!
//! Each communication says how long its transfer took: from the last rank's arrival to the end.
//! ASTRA-sim's analytical backend takes, over one switch and with the settings of
//! [`crate::astra::system`], a number of latencies and a time for its bytes. Both are linear in
//! what is looked for, so that a regression finds it. Absolute errors are weighed, not squares: a
//! rank that the operating system held up is no network. Transfers of host threads are disturbed
//! one way only, so of these the lowest tenth is fitted. O(communications).

use crate::agreement::RunAgreement;
use crate::aligned_ranks::AlignedRanks;
use crate::rank_agreement::CommDecision;
use etlink_link::ranks::{CollectiveMatch, CommChannel, RankClock, RankSummary, RunJoin};
use etlink_model::CollectiveKind;
use serde::Serialize;

/// Latency of ASTRA-sim's example of eight H100, ns.
pub(crate) const DEFAULT_LATENCY_NS: f64 = 936.25;
/// Its bandwidth, GB/s of 2^30 bytes.
pub(crate) const DEFAULT_BANDWIDTH: f64 = 400.0;

/// Fewer transfers than this tell nothing.
const MIN_TRANSFERS: usize = 4;
/// ASTRA-sim runs half of a collective's pieces at a time: `preferred-dataset-splits` over
/// `active-chunks-per-dimension`.
const ROUNDS: f64 = 2.0;
/// `preferred-dataset-splits`.
const PIECES: f64 = 4.0;
/// A message crosses a switch in two hops.
const HOPS: f64 = 2.0;
/// ASTRA-sim's GB are of 2^30 bytes: bytes per ns of one GB/s.
const BYTES_PER_NS: f64 = 1.073_741_824;
const ITERATIONS: usize = 50;
/// Of transfers of host threads this share is quicker than what is fitted.
const HOST_QUANTILE: f64 = 0.1;

/// Latency and bandwidth of one switch between all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetworkFit {
    /// Of a link, ns.
    pub latency_ns: f64,
    /// Of a link, GB/s of 2^30 bytes, as ASTRA-sim has it.
    pub bandwidth: f64,
    /// Whether the transfers tell the bandwidth; else it is ASTRA-sim's example's.
    pub bandwidth_is_fitted: bool,
    /// Transfers that were fitted.
    pub used: u64,
    /// Communications whose transfer nothing tells, or that ASTRA-sim gives no network time.
    pub unused: u64,
    /// Median of the relative errors of the fitted transfers.
    pub median_error: f64,
    /// Per kind, what was measured and what the network takes.
    pub kinds: Vec<KindFit>,
}

/// The fitted transfers of a kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindFit {
    /// Of collective, or `send`.
    pub kind: &'static str,
    /// How many.
    pub count: u64,
    /// What they took, ns.
    pub measured_ns: f64,
    /// What the network takes for them, ns.
    pub network_ns: f64,
}

/// What ASTRA-sim's network does for a communication.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NetworkCost {
    /// Times the latency of a link.
    latencies: f64,
    /// Bytes that go over a link one after the other.
    bytes: f64,
}

impl NetworkCost {
    /// Of a ring, message by message; `None` for what ASTRA-sim gives the node's own time.
    fn of(kind: CollectiveKind, ranks: usize, bytes: i64) -> Option<NetworkCost> {
        let (n, bytes) = (ranks as f64, bytes as f64);
        // How many messages follow each other in a piece, and the size of each in this buffer.
        let (steps, size) = match kind {
            CollectiveKind::AllReduce => (2.0 * (n - 1.0), bytes / n),
            CollectiveKind::AllGather => (n - 1.0, bytes),
            CollectiveKind::ReduceScatter => (n - 1.0, bytes / n),
            // Each rank's part goes around the ring until it is where it belongs.
            CollectiveKind::AllToAll => (n * (n - 1.0) / 2.0, bytes / n),
            CollectiveKind::Send | CollectiveKind::Recv => {
                return Some(NetworkCost {
                    latencies: HOPS,
                    bytes,
                });
            }
            _ => return None,
        };
        Some(NetworkCost {
            latencies: ROUNDS * steps * HOPS,
            bytes: ROUNDS * steps * size / PIECES,
        })
    }

    fn time_ns(self, latency_ns: f64, ns_per_byte: f64) -> f64 {
        self.latencies * latency_ns + self.bytes * ns_per_byte
    }
}

impl NetworkFit {
    /// What the network takes, ns; `None` for what ASTRA-sim gives the node's own time.
    pub(crate) fn time_ns(&self, kind: CollectiveKind, ranks: usize, bytes: i64) -> Option<i64> {
        let cost = NetworkCost::of(kind, ranks, bytes)?;
        let ns_per_byte = 1.0 / (self.bandwidth * BYTES_PER_NS);
        Some(cost.time_ns(self.latency_ns, ns_per_byte).round() as i64)
    }
}

/// A transfer that was measured.
#[derive(Clone, Copy, Debug)]
struct MeasuredTransfer {
    kind: CollectiveKind,
    cost: NetworkCost,
    ns: f64,
}

/// Fits one switch to the communications of a run; `None` where too few tell their transfer.
pub fn fit_network(
    agreed: &RunAgreement,
    facts: &[RankSummary],
    join: &RunJoin,
    clocks: &[RankClock],
) -> Option<NetworkFit> {
    let ranks = AlignedRanks::new(facts, clocks);
    let (mut transfers, mut unused, mut on_host) = (vec![], 0, true);
    for joint in &join.matches {
        let Some(bytes) = simulated_bytes(agreed, facts, joint) else {
            continue;
        };
        let cost = NetworkCost::of(joint.kind, rank_count(join, joint), bytes);
        match cost.zip(ranks.transfer_ns(joint)) {
            Some((cost, ns)) => transfers.push(MeasuredTransfer {
                kind: joint.kind,
                cost,
                ns,
            }),
            None => unused += 1,
        }
        let mut members = joint.members.iter();
        on_host &= members.all(|member| !ranks.communication(*member).on_device);
    }
    let mut fit = fit_transfers(&transfers, if on_host { HOST_QUANTILE } else { 0.5 })?;
    fit.unused = unused;
    Some(fit)
}

/// Ranks that take part in a communication.
pub(crate) fn rank_count(join: &RunJoin, joint: &CollectiveMatch) -> usize {
    match joint.channel {
        CommChannel::Group(number) => join.groups.get(&number).map_or(0, Vec::len),
        CommChannel::Message { .. } => 2,
    }
}

/// The size with which a communication is simulated; `None` for what is computation.
fn simulated_bytes(
    agreed: &RunAgreement,
    facts: &[RankSummary],
    joint: &CollectiveMatch,
) -> Option<i64> {
    let member = joint.members.first()?;
    let communications = &facts[member.rank.index()].communications;
    let node = communications[member.communication.index()].node;
    match agreed.ranks[member.rank.index()].decision_for(node) {
        CommDecision::Communication { bytes, .. } => Some(bytes),
        CommDecision::Compute(_) => None,
    }
}

/// The quantile regression of transfers on latency and bytes, by weighted least squares.
fn fit_transfers(transfers: &[MeasuredTransfer], quantile: f64) -> Option<NetworkFit> {
    if transfers.len() < MIN_TRANSFERS {
        return None;
    }
    let example_ns_per_byte = 1.0 / (DEFAULT_BANDWIDTH * BYTES_PER_NS);
    // Where sizes hardly differ, or small ones are slower, bytes tell nothing.
    let candidates = [
        regress(transfers, quantile, None).map(|found| (found, true)),
        regress(transfers, quantile, Some(example_ns_per_byte)).map(|found| (found, false)),
    ];
    let mut usable = candidates.into_iter().flatten();
    let ((latency, ns_per_byte), bandwidth_is_fitted) =
        usable.find(|((latency, ns_per_byte), _)| *latency >= 0.0 && *ns_per_byte > 0.0)?;
    // Files have these digits, and what is taken out of the ranks' waits has to be the same.
    let latency_ns = rounded(latency, 2);
    let bandwidth = rounded(1.0 / (ns_per_byte * BYTES_PER_NS), 6).max(1e-6);
    let ns_per_byte = 1.0 / (bandwidth * BYTES_PER_NS);
    let mut kinds: Vec<KindFit> = vec![];
    let mut errors = vec![];
    for transfer in transfers {
        let network_ns = transfer.cost.time_ns(latency_ns, ns_per_byte);
        errors.push((network_ns / transfer.ns - 1.0).abs());
        let kind = transfer.kind.name();
        let place = kinds.iter().position(|known| known.kind == kind);
        let place = place.unwrap_or_else(|| {
            kinds.push(KindFit {
                kind,
                count: 0,
                measured_ns: 0.0,
                network_ns: 0.0,
            });
            kinds.len() - 1
        });
        let known = &mut kinds[place];
        known.count += 1;
        known.measured_ns += transfer.ns;
        known.network_ns += network_ns;
    }
    errors.sort_unstable_by(f64::total_cmp);
    Some(NetworkFit {
        latency_ns,
        bandwidth,
        bandwidth_is_fitted,
        used: transfers.len() as u64,
        unused: 0,
        median_error: errors[errors.len() / 2],
        kinds,
    })
}

/// Latency and ns per byte; with `ns_per_byte` given the latency alone. `None` where the transfers
/// do not tell the two apart.
fn regress(
    transfers: &[MeasuredTransfer],
    quantile: f64,
    ns_per_byte: Option<f64>,
) -> Option<(f64, f64)> {
    let mut found: Option<(f64, f64)> = None;
    for _ in 0..ITERATIONS {
        let [mut aa, mut ab, mut bb, mut at, mut bt] = [0.0; 5];
        for transfer in transfers {
            let NetworkCost { latencies, bytes } = transfer.cost;
            let weight = found.map_or(1.0, |(latency, per_byte)| {
                let rest = transfer.ns - transfer.cost.time_ns(latency, per_byte);
                let side = if rest > 0.0 { quantile } else { 1.0 - quantile };
                // Errors below a thousandth count alike, so that no weight is without bound.
                side / rest.abs().max(transfer.ns * 1e-3)
            });
            aa += weight * latencies * latencies;
            ab += weight * latencies * bytes;
            bb += weight * bytes * bytes;
            at += weight * latencies * transfer.ns;
            bt += weight * bytes * transfer.ns;
        }
        found = Some(match ns_per_byte {
            Some(per_byte) => (((at - ab * per_byte) / aa).max(0.0), per_byte),
            None => {
                let determinant = aa * bb - ab * ab;
                if determinant <= aa * bb * 1e-9 {
                    return None;
                }
                (
                    (at * bb - bt * ab) / determinant,
                    (bt * aa - at * ab) / determinant,
                )
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
    use super::*;
    use CollectiveKind::{AllGather, AllReduce, AllToAll, Recv, ReduceScatter};

    /// What ASTRA-sim 518bd51 logs for one collective alone: analytical, congestion unaware, one
    /// switch of 1 GB/s and 10 us, and the settings of [`crate::astra::system`].
    #[test]
    fn costs_are_those_of_the_simulator() {
        for (kind, ranks, bytes, cycles) in ASTRA_SIM {
            let fit = NetworkFit {
                latency_ns: 10_000.0,
                bandwidth: 1.0,
                bandwidth_is_fitted: true,
                used: 0,
                unused: 0,
                median_error: 0.0,
                kinds: vec![],
            };
            let ns = fit.time_ns(kind, ranks, bytes).expect("a cost") as f64;
            let error = ns / f64::from(cycles) - 1.0;
            assert!(
                error.abs() < 0.002,
                "{kind:?} {ranks} {bytes}: {ns} {cycles}"
            );
        }
    }

    const ASTRA_SIM: [(CollectiveKind, usize, i64, u32); 13] = [
        (AllReduce, 2, 4_096, 81_910),
        (AllReduce, 4, 1_000_000, 938_822),
        (AllReduce, 8, 65_536, 613_426),
        (AllGather, 2, 4_096, 41_910),
        (AllGather, 4, 1_000_000, 1_516_988),
        (AllGather, 8, 65_536, 493_628),
        (ReduceScatter, 2, 4_096, 40_956),
        (ReduceScatter, 4, 1_000_000, 469_574),
        (ReduceScatter, 8, 65_536, 306_714),
        (AllToAll, 2, 4_096, 40_956),
        (AllToAll, 4, 1_000_000, 938_498),
        (AllToAll, 8, 65_536, 1_226_850),
        (Recv, 2, 4_096, 23_814),
    ];

    fn drawn(noise: impl Fn(usize) -> f64) -> Vec<MeasuredTransfer> {
        let sizes = [
            1_000, 50_000, 200_000, 4_000, 900_000, 20_000, 3_000, 400_000,
        ];
        let kinds = [AllReduce, AllGather, ReduceScatter, Recv];
        let mut transfers = vec![];
        for (at, bytes) in sizes.into_iter().cycle().take(32).enumerate() {
            let kind = kinds[at / 8];
            let cost = NetworkCost::of(kind, 4, bytes).expect("a cost");
            let ns = cost.time_ns(5_000.0, 1.0 / (3.0 * BYTES_PER_NS)) + noise(at);
            transfers.push(MeasuredTransfer { kind, cost, ns });
        }
        transfers
    }

    #[test]
    fn latency_and_bandwidth_come_back() {
        let fit = fit_transfers(&drawn(|_| 0.0), 0.5).expect("a fit");
        assert!((fit.latency_ns - 5_000.0).abs() < 1.0, "{fit:?}");
        assert!((fit.bandwidth - 3.0).abs() < 1e-3, "{fit:?}");
        // Some were held up for milliseconds: the others say what the network takes.
        let held_up = |at: usize| if at % 5 == 2 { 3e6 } else { 0.0 };
        let fit = fit_transfers(&drawn(held_up), 0.25).expect("a fit");
        assert!((fit.latency_ns / 5_000.0 - 1.0).abs() < 0.02, "{fit:?}");
        assert!((fit.bandwidth / 3.0 - 1.0).abs() < 0.02, "{fit:?}");
    }

    #[test]
    fn sizes_that_tell_nothing_leave_the_bandwidth_alone() {
        let cost = NetworkCost::of(AllToAll, 2, 512).expect("a cost");
        let transfers = vec![
            MeasuredTransfer {
                kind: AllToAll,
                cost,
                ns: 80_000.0
            };
            4
        ];
        let fit = fit_transfers(&transfers, 0.5).expect("a fit");
        assert!(!fit.bandwidth_is_fitted && fit.bandwidth == DEFAULT_BANDWIDTH);
        assert!((fit.kinds[0].network_ns / 320_000.0 - 1.0).abs() < 0.01);
        assert_eq!(fit_transfers(&transfers[1..], 0.5), None);
    }
}
