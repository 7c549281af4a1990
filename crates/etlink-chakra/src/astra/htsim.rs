//! Writes the topology of ASTRA-sim's htsim network, a fat tree, in the format that
//! `FatTreeTopology::load` of Broadcom/csg-htsim reads.

use super::analytical::network_levels;
use super::ns3::{added_latency_ns, link_latency_ns};
use crate::NetworkFit;
use crate::network::NetworkLevel;

/// Name of the topology's file.
pub(super) const HTSIM_TOPOLOGY: &str = "htsim.topo";

/// Gb in a GB of 2^30 bytes.
const GIGABITS_PER_GB: f64 = 8.0 * 1.073_741_824;

/// Returns a topology with one switch for all ranks, or with one switch per block and as many above
/// as a block has ranks. Speeds are whole Gb/s and latencies whole ns, because htsim reads no
/// fractions.
pub(super) fn htsim_topology(ranks: u64, fit: Option<&NetworkFit>) -> String {
    let levels = network_levels(ranks, fit);
    match &levels[..] {
        [within, across] => {
            // htsim requires a switch's total speed down to be a multiple of its total speed up.
            let slow = gigabits(across);
            let times = (gigabits(within) / slow).max(1);
            let latency = added_latency_ns(within, across).round();
            format!(
                "{}\n{}\n{}",
                head(within.size * across.size),
                tier(
                    0,
                    times * slow,
                    within.size,
                    Some(within.size),
                    link_latency_ns(within)
                ),
                tier(1, slow, across.size * times, None, latency)
            )
        }
        levels => {
            let size = levels.iter().map(|level| level.size).sum();
            let speed = levels.first().map_or(1, gigabits);
            let latency = levels.first().map_or(1.0, link_latency_ns);
            // htsim requires two tiers: the upper one has one link, which nothing crosses.
            format!(
                "{}\n{}Oversubscribed {size}\n\n{}",
                head(size),
                tier(0, speed, size, Some(1), latency),
                tier(1, speed, 1, None, 1.0)
            )
        }
    }
}

fn gigabits(level: &NetworkLevel) -> u64 {
    exact_gigabits(level).round().max(1.0) as u64
}

fn exact_gigabits(level: &NetworkLevel) -> f64 {
    level.bandwidth * GIGABITS_PER_GB
}

/// Relative error of a speed above which it is reported.
const ROUNDED: f64 = 0.05;

/// Describes speeds of the topology that differ from the fitted ones because htsim reads whole
/// Gb/s, in a clause; `None` if none differs.
pub fn rounded_speeds(fit: &NetworkFit) -> Option<String> {
    let mut speeds: Vec<u64> = fit.levels.iter().map(gigabits).collect();
    if let [within, across] = &mut speeds[..] {
        // As the lower tier is written.
        *within = (*within / *across).max(1) * *across;
    }
    let mut parts = vec![];
    for (level, written) in fit.levels.iter().zip(speeds) {
        let fitted = exact_gigabits(level);
        if (written as f64 - fitted).abs() > ROUNDED * fitted {
            parts.push(format!(
                "{written} Gb/s instead of {fitted:.3} ({:.1} times as fast)",
                written as f64 / fitted
            ));
        }
    }
    let is_rounded = !parts.is_empty();
    is_rounded.then(|| format!("its links have {}", parts.join(" and ")))
}

fn head(ranks: u64) -> String {
    format!("Nodes {ranks}\nTiers 2\nPodsize {ranks}\n")
}

fn tier(number: u8, speed: u64, down: u64, up: Option<u64>, latency_ns: f64) -> String {
    let up = up.map_or(String::new(), |up| format!("Radix_Up {up}\n"));
    let latency = latency_ns.round().max(1.0);
    format!(
        "Tier {number}\nDownlink_speed_Gbps {speed}\nRadix_Down {down}\n{up}Downlink_Latency_ns \
         {latency}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::two_level_fit;
    use std::collections::BTreeMap;

    /// Parses the numbers of a file: of the head, and of each tier.
    fn read_numbers(text: &str) -> Vec<BTreeMap<&str, u64>> {
        let mut parts = vec![BTreeMap::new()];
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (key, value) = line.split_once(' ').expect("a key and a value");
            if key == "Tier" {
                parts.push(BTreeMap::new());
            }
            let part = parts.last_mut().expect("a part");
            part.insert(key, value.parse().expect("a number"));
        }
        parts
    }

    #[test]
    fn speeds_that_are_no_whole_gigabits_are_told() {
        let mut fit = two_level_fit(4, 2);
        for level in &mut fit.levels {
            level.bandwidth = 100.0 / GIGABITS_PER_GB;
        }
        assert_eq!(rounded_speeds(&fit), None);
        fit.levels[1].bandwidth = 0.011_7;
        let told = rounded_speeds(&fit).expect("is told");
        assert!(
            told.contains("1 Gb/s instead of 0.101 (10.0 times as fast)"),
            "{told}"
        );
    }

    /// Checks the assertions of `FatTreeTopology::set_custom_params` for two tiers.
    #[test]
    fn the_tree_is_one_that_htsim_builds() {
        for fit in [None, Some(two_level_fit(4, 2)), Some(two_level_fit(2, 8))] {
            let ranks = fit
                .as_ref()
                .map_or(6, |fit| fit.levels.iter().map(|level| level.size).product());
            let text = htsim_topology(ranks, fit.as_ref());
            let parts = read_numbers(&text);
            let [head, tor, agg] = &parts[..] else {
                panic!("{parts:?}");
            };
            assert_eq!((head["Nodes"], head["Podsize"]), (ranks, ranks));
            let oversubscribed = tor.get("Oversubscribed").copied().unwrap_or(1);
            assert_eq!(head["Podsize"] % tor["Radix_Down"], 0);
            let down = ranks * tor["Downlink_speed_Gbps"];
            let up = agg["Downlink_speed_Gbps"] * oversubscribed;
            assert_eq!(down % up, 0);
            assert_eq!(tor["Radix_Down"] / tor["Radix_Up"], oversubscribed);
            assert_eq!(down / up % agg["Radix_Down"], 0);
            assert_eq!(down / up / agg["Radix_Down"], tor["Radix_Up"]);
            assert!(tor["Downlink_Latency_ns"] > 0 && agg["Downlink_Latency_ns"] > 0);
        }
    }
}
