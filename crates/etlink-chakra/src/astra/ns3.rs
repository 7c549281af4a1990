//! Writes configurations of ASTRA-sim's ns-3 network: the physical topology, the logical one, and
//! the main configuration.
//!
//! The formats are those that `ReadConf` and `SetupNetwork` of astra-sim/astra-network-ns3
//! (`scratch/common.h`) read. Unmeasured values come from its `scratch/config`.

use super::analytical::network_levels;
use crate::NetworkFit;
use crate::network::NetworkLevel;

/// Names of the files.
pub(super) mod ns3_file {
    /// Main configuration, which names the other files.
    pub(crate) const CONFIG: &str = "ns3_config.txt";
    /// Nodes and links.
    pub(crate) const TOPOLOGY: &str = "ns3_topology.txt";
    /// Ranks per dimension.
    pub(crate) const LOGICAL: &str = "ns3_logical.json";
    /// Flows in addition to the ranks' flows: none.
    pub(crate) const FLOWS: &str = "ns3_flows.txt";
    /// Nodes whose packets are traced: none.
    pub(crate) const TRACED: &str = "ns3_traced.txt";
}

/// All of these names.
pub(super) const NS3_FILES: [&str; 5] = [
    ns3_file::CONFIG,
    ns3_file::TOPOLOGY,
    ns3_file::LOGICAL,
    ns3_file::FLOWS,
    ns3_file::TRACED,
];

/// Bits in a GB of 2^30 bytes.
const BITS_PER_GB: f64 = 8.0 * 1_073_741_824.0;

/// Returns all files by name.
pub(super) fn ns3_files(ranks: u64, fit: Option<&NetworkFit>) -> Vec<(&'static str, String)> {
    let levels = network_levels(ranks, fit);
    vec![
        (ns3_file::CONFIG, config(&levels)),
        (ns3_file::TOPOLOGY, topology(&levels)),
        (ns3_file::LOGICAL, logical(&levels)),
        (ns3_file::FLOWS, "0\n".to_owned()),
        (ns3_file::TRACED, "0\n".to_owned()),
    ]
}

fn bits_per_second(level: &NetworkLevel) -> u64 {
    (level.bandwidth * BITS_PER_GB).round().max(1.0) as u64
}

/// Returns the latency of a rank's link to its switch: a message within a block crosses two of them.
pub(super) fn link_latency_ns(level: &NetworkLevel) -> f64 {
    level.latency_ns / 2.0
}

/// Returns the latency of a link between switches: a message also crosses two links of ranks on its
/// way.
pub(super) fn added_latency_ns(within: &NetworkLevel, across: &NetworkLevel) -> f64 {
    (link_latency_ns(across) - link_latency_ns(within)).max(1.0)
}

/// Writes a topology with one switch for all ranks. With two levels it has one switch per block,
/// connected by as many switches as a block has ranks, so that each rank has its own link across.
fn topology(levels: &[NetworkLevel]) -> String {
    let mut links = vec![];
    let link = |from: u64, to: u64, rate: u64, latency_ns: f64| {
        // ns-3 does not accept fractions of a nanosecond everywhere, so whole ones are used.
        let latency_ns = latency_ns.round().max(1.0);
        format!("{from} {to} {rate}bps {latency_ns}ns 0\n")
    };
    let (ranks, switches): (u64, u64) = match levels {
        [within, across] => {
            let (ranks, blocks) = (within.size * across.size, across.size);
            for rank in 0..ranks {
                let switch = ranks + rank / within.size;
                links.push(link(
                    switch,
                    rank,
                    bits_per_second(within),
                    link_latency_ns(within),
                ));
            }
            for block in 0..blocks {
                for place in 0..within.size {
                    let (from, to) = (ranks + blocks + place, ranks + block);
                    let latency = added_latency_ns(within, across);
                    links.push(link(from, to, bits_per_second(across), latency));
                }
            }
            (ranks, blocks + within.size)
        }
        levels => {
            let ranks = levels.iter().map(|level| level.size).sum();
            for level in levels {
                for rank in 0..ranks {
                    let latency = link_latency_ns(level);
                    links.push(link(ranks, rank, bits_per_second(level), latency));
                }
            }
            (ranks, 1)
        }
    };
    let numbers: Vec<String> = (ranks..ranks + switches).map(|at| at.to_string()).collect();
    format!(
        "{} {switches} {}\n{}\n{}",
        ranks + switches,
        links.len(),
        numbers.join(" "),
        links.concat()
    )
}

fn logical(levels: &[NetworkLevel]) -> String {
    let sizes: Vec<String> = levels
        .iter()
        .map(|level| format!("\"{}\"", level.size))
        .collect();
    format!("{{\n  \"logical-dims\": [{}]\n}}\n", sizes.join(", "))
}

/// Queue thresholds in packets of a kilobyte, as in the example for 100 Gb/s.
const KMAX_AT_100G: f64 = 1600.0;
const KMIN_AT_100G: f64 = 400.0;

fn config(levels: &[NetworkLevel]) -> String {
    let mut rates: Vec<u64> = levels.iter().map(bits_per_second).collect();
    rates.sort_unstable();
    rates.dedup();
    // `SetupNetwork` fails if a link's rate has no entry.
    let map = |value: &dyn Fn(u64) -> String| {
        let entries: Vec<String> = rates
            .iter()
            .map(|rate| format!("{rate} {}", value(*rate)))
            .collect();
        format!("{} {}", rates.len(), entries.join(" "))
    };
    let at_rate = |at_100g: f64, rate: u64| {
        let threshold = at_100g * rate as f64 / 100e9;
        threshold.round().clamp(1.0, 8.0 * at_100g).to_string()
    };
    let slowest_mb = rates.first().map_or(1.0, |rate| *rate as f64 / 1e6);
    // No flow is slowed below this rate: the example's, or a tenth of a slower link.
    let least_mb = (slowest_mb / 10.0).floor().clamp(1.0, 100.0);
    format!(
        "ENABLE_QCN 1
USE_DYNAMIC_PFC_THRESHOLD 1
PACKET_PAYLOAD_SIZE 1000
TOPOLOGY_FILE {topology}
FLOW_FILE {flows}
TRACE_FILE {traced}
TRACE_OUTPUT_FILE ns3_packets.tr
FCT_OUTPUT_FILE ns3_flow_times.txt
PFC_OUTPUT_FILE ns3_pauses.txt
SIMULATOR_STOP_TIME 40000000000000.00
CC_MODE 12
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
CLAMP_TARGET_RATE 0
RP_TIMER 900
EWMA_GAIN 0.00390625
FAST_RECOVERY_TIMES 1
RATE_AI {least_mb}Mb/s
RATE_HAI {least_mb}Mb/s
MIN_RATE {least_mb}Mb/s
DCTCP_RATE_AI 1000Mb/s
ERROR_RATE_PER_LINK 0.0000
L2_CHUNK_SIZE 4000
L2_ACK_INTERVAL 1
L2_BACK_TO_ZERO 0
HAS_WIN 1
GLOBAL_T 0
VAR_WIN 1
FAST_REACT 1
U_TARGET 0.95
MI_THRESH 0
INT_MULTI 1
MULTI_RATE 0
SAMPLE_FEEDBACK 0
PINT_LOG_BASE 1.05
PINT_PROB 1.0
NIC_TOTAL_PAUSE_TIME 0
RATE_BOUND 1
ACK_HIGH_PRIO 0
LINK_DOWN 0 0 0
ENABLE_TRACE 0
KMAX_MAP {kmax}
KMIN_MAP {kmin}
PMAX_MAP {pmax}
BUFFER_SIZE 32
QLEN_MON_FILE ns3_queues.txt
QLEN_MON_START 0
QLEN_MON_END 20000
",
        topology = ns3_file::TOPOLOGY,
        flows = ns3_file::FLOWS,
        traced = ns3_file::TRACED,
        kmax = map(&|rate| at_rate(KMAX_AT_100G, rate)),
        kmin = map(&|rate| at_rate(KMIN_AT_100G, rate)),
        pmax = map(&|_| "0.2".to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::two_level_fit;
    use std::collections::BTreeSet;

    /// Parses a topology like `SetupNetwork`: nodes, switches, links.
    fn read_topology(text: &str) -> (u64, Vec<u64>, Vec<(u64, u64, String)>) {
        let mut words = text.split_whitespace();
        let mut next = || words.next().expect("a word");
        let mut number = || next().parse::<u64>().expect("a number");
        let [nodes, switches, links] = [number(), number(), number()];
        let switches = (0..switches).map(|_| number()).collect();
        let links = (0..links).map(|_| {
            let (from, to) = (next().parse(), next().parse());
            let rate = next().to_owned();
            assert!(next().ends_with("ns"));
            assert_eq!(next(), "0");
            (from.expect("a node"), to.expect("a node"), rate)
        });
        let links: Vec<_> = links.collect();
        assert_eq!(words.next(), None);
        (nodes, switches, links)
    }

    #[test]
    fn every_rank_is_linked_and_every_rate_has_thresholds() {
        for (fit, ranks, switches, links) in [
            (None, 8, 1, 8),
            (Some(two_level_fit(4, 2)), 8, 2 + 4, 8 + 2 * 4),
        ] {
            let files = ns3_files(8, fit.as_ref());
            let text = |name: &str| {
                let file = files.iter().find(|(known, _)| *known == name);
                file.expect("a file").1.clone()
            };
            let (nodes, switch_ids, found) = read_topology(&text(ns3_file::TOPOLOGY));
            assert_eq!(
                (nodes, switch_ids.len()),
                (ranks + switches, switches as usize)
            );
            assert_eq!(found.len(), links);
            // `get_nic_rate`: each rank has one link, and all of these have the same rate.
            let own: Vec<_> = found.iter().filter(|(_, to, _)| *to < ranks).collect();
            assert_eq!(own.len() as u64, ranks);
            let config = text(ns3_file::CONFIG);
            let rates: BTreeSet<&str> = found
                .iter()
                .map(|(_, _, rate)| rate.trim_end_matches("bps"))
                .collect();
            for map in ["KMAX_MAP", "KMIN_MAP", "PMAX_MAP"] {
                let line = config.lines().find(|line| line.starts_with(map));
                let words: Vec<&str> = line.expect("a map").split(' ').collect();
                assert_eq!(words[1], rates.len().to_string());
                assert!(rates.iter().all(|rate| words.contains(rate)), "{words:?}");
            }
            let logical: serde_json::Value =
                serde_json::from_str(&text(ns3_file::LOGICAL)).expect("JSON");
            let dims = logical["logical-dims"].as_array().expect("dimensions");
            let product: u64 = dims
                .iter()
                .map(|size| {
                    size.as_str()
                        .expect("text")
                        .parse::<u64>()
                        .expect("a number")
                })
                .product();
            assert_eq!(product, ranks);
        }
    }
}
