//! Computes the cost of a communication in ASTRA-sim's analytical networks: latencies of links, and
//! bytes that cross a rank's link one after another.
//!
//! With the files of [`crate::astra`], a rank sends one message at a time, over one link: so all
//! bytes that a rank sends pass its link, and the congestion-aware network takes the same time as
//! the unaware one. A collective is split into pieces, one after another: with a single one, the
//! rank that arrives last would find the messages of the others already there, and take less time.

use crate::astra::limits::DATASET_SPLITS;
use etlink_model::CollectiveKind;
use serde::Serialize;

/// Pieces of a collective.
const PIECES: f64 = DATASET_SPLITS as f64;
/// Latency in ASTRA-sim's example of eight H100, in nanoseconds.
pub(crate) const DEFAULT_LATENCY_NS: f64 = 936.25;
/// Bandwidth in ASTRA-sim's example, in GB/s of 2^30 bytes.
pub(crate) const DEFAULT_BANDWIDTH: f64 = 400.0;
/// Bytes per nanosecond of one GB/s; ASTRA-sim's GB have 2^30 bytes.
pub(super) const BYTES_PER_NS: f64 = 1.073_741_824;

/// Returns the time of a broadcast in the network of ASTRA-sim's example, in microseconds: the
/// latency of a message, and its bytes over one link, as if ranks pass on small pieces.
///
/// ASTRA-sim does not simulate broadcasts; it uses the duration of the node instead.
pub fn example_broadcast_micros(bytes: u64) -> u64 {
    let link = LinkSpeed {
        latency_ns: DEFAULT_LATENCY_NS,
        ns_per_byte: 1.0 / (DEFAULT_BANDWIDTH * BYTES_PER_NS),
    };
    let cost = NetworkCost {
        latencies: 1.0,
        bytes: bytes as f64,
    };
    (cost.time_ns(link) / 1e3).ceil() as u64
}

/// Algorithm by which the ranks of a group pass on a collective: a value of
/// `all-reduce-implementation` and similar keys in ASTRA-sim's system file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum CollectiveImplementation {
    /// From neighbour to neighbour.
    Ring,
    /// From each rank to all others, one after another: a window of one message. Without a window,
    /// the congestion-unaware network sends the messages to all ranks in the time of one.
    Direct1,
    /// In pairs at doubling distances; for 2, 4, 8, … ranks.
    HalvingDoubling,
}

impl CollectiveImplementation {
    /// Returns the name in the system file.
    pub fn name(self) -> &'static str {
        self.into()
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
        use CollectiveImplementation::{Direct1, HalvingDoubling, Ring};
        let n = ranks as f64;
        let (levels, part) = (n.log2(), bytes / n);
        let others = n - 1.0;
        // Number of consecutive messages of a piece, and the total bytes of all pieces.
        let (steps, in_all) = match (kind, algorithm) {
            (CollectiveKind::AllReduce, Ring | Direct1) => (2.0 * others, 2.0 * others * part),
            (CollectiveKind::AllReduce, HalvingDoubling) => (2.0 * levels, 2.0 * others * part),
            (CollectiveKind::AllGather, Ring | Direct1) => (others, others * bytes),
            (CollectiveKind::AllGather, HalvingDoubling) => (levels, others * bytes),
            (CollectiveKind::ReduceScatter, Ring | Direct1) => (others, others * part),
            (CollectiveKind::ReduceScatter, HalvingDoubling) => (levels, others * part),
            // Each rank's part travels around the ring to its destination.
            (CollectiveKind::AllToAll, Ring) => (n * others / 2.0, n * others / 2.0 * part),
            (CollectiveKind::AllToAll, Direct1 | HalvingDoubling) => (others, others * part),
            (CollectiveKind::Send | CollectiveKind::Recv, _) => {
                return Some(NetworkCost {
                    latencies: 1.0,
                    bytes,
                });
            }
            _ => return None,
        };
        Some(NetworkCost {
            latencies: PIECES * steps,
            bytes: in_all,
        })
    }

    pub(super) fn time_ns(self, link: LinkSpeed) -> f64 {
        self.latencies * link.latency_ns + self.bytes * link.ns_per_byte
    }
}

/// Returns the time of a collective of all ranks over two dimensions: `block` ranks within each of
/// `blocks` blocks. Each piece crosses the dimensions one after another, while other pieces are in
/// the other dimension.
pub(super) fn hierarchical_ns(
    kind: CollectiveKind,
    algorithm: CollectiveImplementation,
    bytes: f64,
    (block, within): (usize, LinkSpeed),
    (blocks, across): (usize, LinkSpeed),
) -> Option<f64> {
    // Only a part of the bytes is left across blocks once each block has reduced its own.
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
    let first = NetworkCost::new(kind, algorithm, block, gathered)?.time_ns(within) / PIECES;
    let second = NetworkCost::new(kind, algorithm, blocks, share)?.time_ns(across) / PIECES;
    Some(match kind {
        // Within the blocks first, and once more at the end.
        CollectiveKind::AllReduce => (first + PIECES * second).max(PIECES * first),
        _ => first + second + (PIECES - 1.0) * first.max(second),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use CollectiveImplementation::{Direct1, HalvingDoubling, Ring};
    use CollectiveKind::{AllGather, AllReduce, AllToAll, Recv, ReduceScatter};

    const TEN_US_1_GBPS: LinkSpeed = LinkSpeed {
        latency_ns: 10_000.0,
        ns_per_byte: 1.0 / BYTES_PER_NS,
    };

    fn assert_close(ns: f64, cycles: u32, what: &str) {
        let error = ns / f64::from(cycles) - 1.0;
        assert!(error.abs() < 0.003, "{what}: {ns} {cycles}");
    }

    /// Times that ASTRA-sim 518bd51 logs for a single collective over links of 1 GB/s and 10 µs, with
    /// the settings of [`crate::astra::system`]: the same in both analytical networks.
    #[test]
    fn costs_are_those_of_the_simulator() {
        for (kind, algorithm, ranks, bytes, cycles) in ONE_LEVEL {
            let cost = NetworkCost::new(kind, algorithm, ranks, bytes).expect("a cost");
            let what = format!("{kind:?} {algorithm:?} {ranks} {bytes}");
            assert_close(cost.time_ns(TEN_US_1_GBPS), cycles, &what);
        }
    }

    const ONE_LEVEL: [(CollectiveKind, CollectiveImplementation, usize, f64, u32); 20] = [
        (AllReduce, Ring, 2, 4_096.0, 83_820),
        (AllReduce, Ring, 4, 1_000_000.0, 1_638_112),
        (AllReduce, Ring, 8, 65_536.0, 666_936),
        (AllGather, Ring, 2, 4_096.0, 43_820),
        (AllGather, Ring, 4, 1_000_000.0, 2_913_976),
        (AllGather, Ring, 8, 65_536.0, 707_256),
        (ReduceScatter, Ring, 2, 4_096.0, 41_912),
        (ReduceScatter, Ring, 4, 1_000_000.0, 819_616),
        (ReduceScatter, Ring, 8, 65_536.0, 333_512),
        (AllToAll, Ring, 2, 4_096.0, 41_912),
        (AllToAll, Ring, 4, 1_000_000.0, 1_636_996),
        (Recv, Ring, 2, 4_096.0, 13_814),
        (AllReduce, Direct1, 4, 1_000_000.0, 1_637_740),
        (AllGather, Direct1, 8, 65_536.0, 707_256),
        (ReduceScatter, Direct1, 4, 1_000_000.0, 819_244),
        (AllToAll, Direct1, 4, 1_000_000.0, 818_500),
        (AllToAll, Direct1, 8, 1_000_000.0, 1_094_916),
        (AllReduce, HalvingDoubling, 8, 65_536.0, 346_864),
        (AllGather, HalvingDoubling, 4, 65_536.0, 263_112),
        (ReduceScatter, HalvingDoubling, 8, 1_000_000.0, 935_468),
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
            let algorithm = match kind {
                AllToAll => Direct1,
                _ => Ring,
            };
            let (within, across) = ((block, within), (blocks, across));
            let ns = hierarchical_ns(kind, algorithm, bytes, within, across);
            let what = format!("{kind:?} {block} x {blocks}, {bytes}");
            assert_close(ns.expect("a cost"), cycles, &what);
        }
    }

    const TWO_LEVELS: [(CollectiveKind, usize, usize, f64, u32); 12] = [
        (AllReduce, 2, 2, 1_000_000.0, 909_512),
        (AllReduce, 4, 2, 65_536.0, 477_592),
        (AllReduce, 2, 4, 1_000_000.0, 1_942_512),
        (AllGather, 2, 2, 1_000_000.0, 1_187_896),
        (AllGather, 4, 2, 65_536.0, 300_197),
        (AllGather, 2, 4, 1_000_000.0, 3_497_110),
        (ReduceScatter, 2, 2, 1_000_000.0, 455_037),
        (ReduceScatter, 4, 2, 65_536.0, 238_813),
        (ReduceScatter, 2, 4, 1_000_000.0, 971_621),
        (AllToAll, 2, 2, 1_000_000.0, 687_311),
        (AllToAll, 4, 2, 65_536.0, 261_671),
        (AllToAll, 2, 4, 1_000_000.0, 1_320_143),
    ];
}
