//! Computes the cost of a communication in ASTRA-sim's analytical network (congestion unaware):
//! latencies of links, and bytes that cross a link one after another.
//!
//! With the settings of [`crate::astra::system`], a collective is split into four pieces, and two
//! pieces run at a time.

use etlink_model::CollectiveKind;
use serde::Serialize;

/// Rounds of a collective: ASTRA-sim runs half of its pieces at a time, `preferred-dataset-splits`
/// over `active-chunks-per-dimension`.
const ROUNDS: f64 = 2.0;
/// Value of `preferred-dataset-splits`.
const PIECES: f64 = 4.0;
/// Hops of a message across a switch.
const HOPS: f64 = 2.0;
/// Latency in ASTRA-sim's example of eight H100, in nanoseconds.
pub(crate) const DEFAULT_LATENCY_NS: f64 = 936.25;
/// Bandwidth in ASTRA-sim's example, in GB/s of 2^30 bytes.
pub(crate) const DEFAULT_BANDWIDTH: f64 = 400.0;
/// Bytes per nanosecond of one GB/s; ASTRA-sim's GB have 2^30 bytes.
pub(super) const BYTES_PER_NS: f64 = 1.073_741_824;

/// Returns the time of a broadcast in the network of ASTRA-sim's example, in microseconds: the two
/// hops of a message, and its bytes over one link, as if ranks pass on small pieces.
///
/// ASTRA-sim does not simulate broadcasts; it uses the duration of the node instead.
pub fn example_broadcast_micros(bytes: u64) -> u64 {
    let link = LinkSpeed {
        latency_ns: DEFAULT_LATENCY_NS,
        ns_per_byte: 1.0 / (DEFAULT_BANDWIDTH * BYTES_PER_NS),
    };
    let cost = NetworkCost {
        latencies: HOPS,
        bytes: bytes as f64,
    };
    (cost.time_ns(link) / 1e3).ceil() as u64
}

/// Algorithm by which the ranks of a group pass on a collective: a value of
/// `all-reduce-implementation` and similar keys in ASTRA-sim's system file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum CollectiveImplementation {
    /// From neighbour to neighbour.
    #[default]
    Ring,
    /// From each rank to all others at once.
    Direct,
    /// In pairs at doubling distances; for 2, 4, 8, … ranks.
    HalvingDoubling,
}

impl CollectiveImplementation {
    /// Returns the name in the system file.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns true if ASTRA-sim supports the combination; otherwise it ends with an error.
    pub(super) fn runs(self, kind: CollectiveKind, ranks: usize) -> bool {
        self != CollectiveImplementation::HalvingDoubling
            || kind != CollectiveKind::AllToAll && ranks.is_power_of_two()
    }
}

/// Speed of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LinkSpeed {
    pub(super) latency_ns: f64,
    pub(super) ns_per_byte: f64,
}

/// Cost of a communication in ASTRA-sim's network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NetworkCost {
    /// Number of link latencies.
    pub(super) latencies: f64,
    /// Bytes that cross a link one after another.
    pub(super) bytes: f64,
}

impl NetworkCost {
    /// Computes the cost in one dimension; `None` if ASTRA-sim uses the node's own time.
    pub(super) fn new(
        kind: CollectiveKind,
        algorithm: CollectiveImplementation,
        ranks: usize,
        bytes: f64,
    ) -> Option<NetworkCost> {
        use CollectiveImplementation::{Direct, HalvingDoubling, Ring};
        let n = ranks as f64;
        let (levels, part) = (n.log2(), bytes / n);
        // Number of consecutive messages, and their total bytes.
        let (steps, in_all) = match (kind, algorithm) {
            (CollectiveKind::AllReduce, Ring) => (2.0 * (n - 1.0), 2.0 * (n - 1.0) * part),
            (CollectiveKind::AllReduce, Direct) => (2.0, 2.0 * part),
            (CollectiveKind::AllReduce, HalvingDoubling) => (2.0 * levels, 2.0 * (n - 1.0) * part),
            (CollectiveKind::AllGather, Ring) => (n - 1.0, (n - 1.0) * bytes),
            (CollectiveKind::AllGather, Direct) => (1.0, bytes),
            (CollectiveKind::AllGather, HalvingDoubling) => (levels, (n - 1.0) * bytes),
            (CollectiveKind::ReduceScatter, Ring) => (n - 1.0, (n - 1.0) * part),
            (CollectiveKind::ReduceScatter, Direct) => (1.0, part),
            (CollectiveKind::ReduceScatter, HalvingDoubling) => (levels, (n - 1.0) * part),
            // Each rank's part travels around the ring to its destination.
            (CollectiveKind::AllToAll, Ring) => (n * (n - 1.0) / 2.0, n * (n - 1.0) / 2.0 * part),
            (CollectiveKind::AllToAll, Direct | HalvingDoubling) => (1.0, part),
            (CollectiveKind::Send | CollectiveKind::Recv, _) => {
                return Some(NetworkCost {
                    latencies: HOPS,
                    bytes,
                });
            }
            _ => return None,
        };
        Some(NetworkCost {
            latencies: ROUNDS * steps * HOPS,
            bytes: ROUNDS * in_all / PIECES,
        })
    }

    pub(super) fn time_ns(self, link: LinkSpeed) -> f64 {
        self.latencies * link.latency_ns + self.bytes * link.ns_per_byte
    }
}

/// Returns the time of a collective of all ranks over two dimensions: `block` ranks within each of
/// `blocks` blocks.
///
/// ASTRA-sim processes the dimensions one after another, per piece: while the first pair of pieces
/// is in one dimension, the second pair is in the other.
pub(super) fn hierarchical_ns(
    kind: CollectiveKind,
    bytes: f64,
    (block, within): (usize, LinkSpeed),
    (blocks, across): (usize, LinkSpeed),
) -> Option<f64> {
    let share = match kind {
        CollectiveKind::AllReduce | CollectiveKind::ReduceScatter => bytes / block as f64,
        CollectiveKind::AllGather | CollectiveKind::AllToAll => bytes,
        _ => return None,
    };
    // An all-gather begins across blocks, and has more to pass on within them.
    let gathered = match kind {
        CollectiveKind::AllGather => bytes * blocks as f64,
        _ => bytes,
    };
    let ring = CollectiveImplementation::Ring;
    let first = NetworkCost::new(kind, ring, block, gathered)?.time_ns(within) / ROUNDS;
    let second = NetworkCost::new(kind, ring, blocks, share)?.time_ns(across) / ROUNDS;
    Some(match kind {
        // Within the blocks first, and once more at the end.
        CollectiveKind::AllReduce => (first + ROUNDS * second).max(ROUNDS * first),
        _ => first + second + first.max(second),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use CollectiveImplementation::{Direct, HalvingDoubling, Ring};
    use CollectiveKind::{AllGather, AllReduce, AllToAll, Recv, ReduceScatter};

    const TEN_US_1_GBPS: LinkSpeed = LinkSpeed {
        latency_ns: 10_000.0,
        ns_per_byte: 1.0 / BYTES_PER_NS,
    };

    fn assert_close(ns: f64, cycles: u32, what: &str) {
        let error = ns / f64::from(cycles) - 1.0;
        assert!(error.abs() < 0.003, "{what}: {ns} {cycles}");
    }

    /// Times that ASTRA-sim 518bd51 logs for a single collective: analytical, congestion unaware,
    /// one switch of 1 GB/s and 10 µs, and the settings of [`crate::astra::system`].
    #[test]
    fn costs_are_those_of_the_simulator() {
        for (kind, algorithm, ranks, bytes, cycles) in ONE_SWITCH {
            let cost = NetworkCost::new(kind, algorithm, ranks, bytes).expect("a cost");
            let what = format!("{kind:?} {algorithm:?} {ranks} {bytes}");
            assert_close(cost.time_ns(TEN_US_1_GBPS), cycles, &what);
        }
    }

    const ONE_SWITCH: [(CollectiveKind, CollectiveImplementation, usize, f64, u32); 20] = [
        (AllReduce, Ring, 2, 4_096.0, 81_910),
        (AllReduce, Ring, 4, 1_000_000.0, 938_822),
        (AllReduce, Ring, 8, 65_536.0, 613_426),
        (AllGather, Ring, 2, 4_096.0, 41_910),
        (AllGather, Ring, 4, 1_000_000.0, 1_516_988),
        (AllGather, Ring, 8, 65_536.0, 493_628),
        (ReduceScatter, Ring, 2, 4_096.0, 40_956),
        (ReduceScatter, Ring, 4, 1_000_000.0, 469_574),
        (ReduceScatter, Ring, 8, 65_536.0, 306_714),
        (AllToAll, Ring, 2, 4_096.0, 40_956),
        (AllToAll, Ring, 4, 1_000_000.0, 938_498),
        (AllToAll, Ring, 8, 65_536.0, 1_226_850),
        (Recv, Ring, 2, 4_096.0, 23_814),
        (AllReduce, Direct, 4, 1_000_000.0, 312_943),
        (AllGather, Direct, 8, 65_536.0, 70_521),
        (ReduceScatter, Direct, 4, 1_000_000.0, 156_527),
        (AllToAll, Direct, 8, 1_000_000.0, 98_211),
        (AllReduce, HalvingDoubling, 8, 65_536.0, 293_421),
        (AllGather, HalvingDoubling, 4, 65_536.0, 171_557),
        (ReduceScatter, HalvingDoubling, 8, 1_000_000.0, 527_621),
    ];

    /// Times over two dimensions, of 10 µs and 50 µs, 10 GB/s and 1 GB/s.
    #[test]
    fn costs_of_two_levels_are_those_of_the_simulator() {
        let within = LinkSpeed {
            latency_ns: 10_000.0,
            ns_per_byte: 0.1 / BYTES_PER_NS,
        };
        let across = LinkSpeed {
            latency_ns: 50_000.0,
            ns_per_byte: 1.0 / BYTES_PER_NS,
        };
        for (kind, block, blocks, bytes, cycles) in TWO_LEVELS {
            let ns = hierarchical_ns(kind, bytes, (block, within), (blocks, across));
            let what = format!("{kind:?} {block} x {blocks}, {bytes}");
            assert_close(ns.expect("a cost"), cycles, &what);
        }
    }

    const TWO_LEVELS: [(CollectiveKind, usize, usize, f64, u32); 12] = [
        (AllReduce, 2, 2, 1_000_000.0, 696_340),
        (AllReduce, 4, 2, 65_536.0, 529_938),
        (AllReduce, 2, 4, 1_000_000.0, 1_612_810),
        (AllGather, 2, 2, 1_000_000.0, 732_233),
        (AllGather, 4, 2, 65_536.0, 299_678),
        (AllGather, 2, 4, 1_000_000.0, 2_110_123),
        (ReduceScatter, 2, 2, 1_000_000.0, 348_281),
        (ReduceScatter, 4, 2, 65_536.0, 264_975),
        (ReduceScatter, 2, 4, 1_000_000.0, 806_543),
        (AllToAll, 2, 2, 1_000_000.0, 464_478),
        (AllToAll, 4, 2, 65_536.0, 352_218),
        (AllToAll, 2, 4, 1_000_000.0, 1_930_142),
    ];
}
