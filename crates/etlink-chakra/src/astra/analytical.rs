//! Writes the file of ASTRA-sim's analytical network, and describes the origin of its speeds.

use super::MIN_RANKS;
use crate::network::{DEFAULT_BANDWIDTH, DEFAULT_LATENCY_NS, MOST_ERROR, NetworkFit, NetworkLevel};
use etlink_link::ranks::rank_list;

/// Describes the network of ASTRA-sim's example.
pub(super) fn example_network() -> String {
    format!("{DEFAULT_BANDWIDTH} GiB/s and {DEFAULT_LATENCY_NS} ns from ASTRA-sim's example")
}

/// Maximum number of groups listed in a README.
const LISTED_GROUPS: usize = 16;

/// Returns a network file in GiB/s and ns, with a link between each two ranks of a level; unmeasured
/// values come from ASTRA-sim's example.
///
/// A rank sends one message at a time, so its links never carry more than one of them would. Over a
/// switch, the congestion-aware network would count the bytes of a message twice: on the link to the
/// switch, and on the link from it.
pub(super) fn network(ranks: u64, fit: Option<&NetworkFit>) -> String {
    let levels = network_levels(ranks, fit);
    let list = |value: fn(&NetworkLevel) -> String| {
        let values: Vec<String> = levels.iter().map(value).collect();
        values.join(", ")
    };
    format!(
        "topology: [ {} ]\nnpus_count: [ {} ]\nbandwidth: [ {} ]  # GiB/s\nlatency: [ {} ]  # ns\n",
        list(|_| "FullyConnected".to_owned()),
        list(|level| level.size.to_string()),
        list(|level| level.bandwidth.to_string()),
        list(|level| level.latency_ns.to_string()),
    )
}

/// Returns the levels of a network of `ranks` ranks: the fitted levels, or the example's.
pub(super) fn network_levels(ranks: u64, fit: Option<&NetworkFit>) -> Vec<NetworkLevel> {
    match fit {
        Some(fit) => fit.levels.clone(),
        // A single rank gets an idle neighbour, because a network needs two.
        None => vec![NetworkLevel::example(ranks.max(MIN_RANKS))],
    }
}

/// Scales another run's network to `ranks` ranks by enlarging its last level. Returns `None` if the
/// sizes do not divide evenly, or if the file has a different form.
pub fn scaled_network(text: &str, ranks: u64) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_sizes = |line: &&str| {
        line.split_once(':')
            .is_some_and(|(key, _)| key.trim_end() == SIZES)
    };
    let place = lines.iter().position(is_sizes)?;
    let (_, list) = lines[place].split_once(':')?;
    let list = without_comment(list);
    let (mut sizes, after) = if list.is_empty() {
        let items = lines[place + 1..].iter().map_while(|line| block_item(line));
        let sizes: Vec<u64> = items.collect();
        let after = place + 1 + sizes.len();
        (sizes, after)
    } else {
        let items = list.strip_prefix('[')?.strip_suffix(']')?.split(',');
        let sizes: Result<Vec<u64>, _> = items.map(|size| size.trim().parse()).collect();
        (sizes.ok()?, place + 1)
    };
    sizes.pop()?;
    let within = sizes
        .iter()
        .try_fold(1, |all: u64, size| all.checked_mul(*size))?;
    if within == 0 || !ranks.is_multiple_of(within) || ranks / within < 2 {
        return None;
    }
    sizes.push(ranks / within);
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    let scaled = format!("{SIZES}: [ {} ]", sizes.join(", "));
    let scaled = [&lines[..place], &[&scaled], &lines[after..]].concat();
    Some(scaled.join("\n") + "\n")
}

/// Key of the sizes of the levels.
const SIZES: &str = "npus_count";

fn without_comment(text: &str) -> &str {
    let (text, _) = text.split_once('#').unwrap_or((text, ""));
    text.trim()
}

/// Parses a number from a list with one item per line.
fn block_item(line: &str) -> Option<u64> {
    without_comment(line).strip_prefix('-')?.trim().parse().ok()
}

/// Describes the network and the origin of its speeds in a clause.
pub fn network_note(fit: Option<&NetworkFit>) -> String {
    let Some(fit) = fit else {
        return format!(
            "{}, because too few communications show their transfer time",
            example_network()
        );
    };
    if fit.is_rejected {
        return format!(
            "{}, because no link fits: the best one misses half of the {} by more than {:.0} %, and \
             the bound is {:.0} %",
            example_network(),
            judged_transfers(fit),
            100.0 * fit.fit_error,
            100.0 * MOST_ERROR
        );
    }
    let mut text = match &fit.levels[..] {
        [within, across] => format!(
            "two levels: within blocks of {} ranks {}; across blocks, which are slower, {}",
            within.size,
            level_clause(within),
            level_clause(across)
        ),
        levels => {
            let levels: Vec<String> = levels.iter().map(level_clause).collect();
            format!("one level, {}", levels.join(", "))
        }
    };
    if fit.judged < fit.used {
        text += &format!(
            ". Half of all transfers differ from it by more than {:.0} %: the operating system delays \
             host threads, so the quickest tenth is fitted",
            100.0 * fit.median_error
        );
    }
    text += &format!(
        ". Half of the {} differ from it by more than {:.0} %",
        judged_transfers(fit),
        100.0 * fit.fit_error
    );
    if fit.fit_error > ROUGH_ERROR {
        text += ": a rough fit";
    }
    if fit.unused > 0 {
        text += &format!(". {} communications show no transfer time", fit.unused);
    }
    if fit.mixed > 0 {
        text += &format!(
            ". {} transfers are between different positions of several blocks, which ASTRA-sim treats \
             as neighbours in one block",
            fit.mixed
        );
    }
    text
}

/// Error of half of the transfers from which on a fit is called rough.
const ROUGH_ERROR: f64 = 0.3;

/// Names the transfers that show the error of a fit.
fn judged_transfers(fit: &NetworkFit) -> String {
    if fit.judged < fit.used {
        format!("{} quickest of {} transfers", fit.judged, fit.used)
    } else {
        format!("{} transfers", fit.used)
    }
}

fn level_clause(level: &NetworkLevel) -> String {
    let size = if level.bandwidth_is_fitted {
        ""
    } else {
        " (the bandwidth is ASTRA-sim's example, because sizes do not show it)"
    };
    format!(
        "{} GiB/s{size} and {} ns, fitted to {} transfers",
        level.bandwidth, level.latency_ns, level.used
    )
}

/// Formats tables for a README: measured times and times of the network, per kind and per group.
pub(super) fn fit_tables(fit: &NetworkFit) -> String {
    let millis = |ns: f64| format!("{:.3}", ns / 1e6);
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let change =
        |network: f64, measured: f64| format!("{:+.0} %", 100.0 * (network / measured - 1.0));
    let unknown = || "-".to_owned();
    let network = if fit.is_rejected {
        "the best fit, which is not used"
    } else {
        "the network"
    };
    let mut text = format!(
        "Time of the measured transfers on {network}, from the last rank's arrival to the end. \
                    *Held out*: change for each half of a kind's transfers, \
                    on a network fitted to the other half (of few transfers: each on a network fitted to all \
                    others). *Repeats*: change to the mean of the other \
                    transfers with the same ranks and size. *Spread*: distance of such transfers \
                    from their median.\n\n\
                    | kind | transfers | measured, ms | network, ms | change | held out | repeats | spread |\n\
                    |---|---|---|---|---|---|---|---|\n"
    );
    for kind in &fit.kinds {
        let halves = |ns: fn(&crate::HeldOut) -> Option<f64>| {
            let of_half = kind.held_out.iter().map(|half| match ns(half) {
                Some(ns) => change(ns, half.measured_ns),
                None => unknown(),
            });
            let of_half: Vec<String> = of_half.collect();
            if of_half.is_empty() {
                unknown()
            } else {
                of_half.join(", ")
            }
        };
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
            kind.kind,
            kind.count,
            millis(kind.measured_ns),
            millis(kind.network_ns),
            change(kind.network_ns, kind.measured_ns),
            halves(|half| Some(half.network_ns)),
            halves(|half| half.repeated_ns),
            kind.spread.map_or_else(unknown, percent)
        );
    }
    text += &format!(
        "\nPer group: *Own latency* and *own GiB/s* are those of a link fitted to the group's transfers \
         alone (of host threads, as with Gloo, to the quickest tenth). *Network* and *median error* \
         are of {network}. It is the same for all groups.\n\n\
         | group | kinds | transfers | own latency, ns | own GiB/s | measured, ms | network, ms | median error |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for group in fit.groups.iter().take(LISTED_GROUPS) {
        let known = |value: Option<f64>| value.map_or_else(unknown, |value| value.to_string());
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
            rank_list("rank", &group.ranks),
            group.kinds.join(", "),
            group.used,
            known(group.latency_ns),
            known(group.bandwidth),
            millis(group.measured_ns),
            millis(group.network_ns),
            percent(group.median_error)
        );
    }
    if fit.groups.len() > LISTED_GROUPS {
        text += &format!(
            "\n{} of {} groups; `etlink merge --json` lists all.\n",
            LISTED_GROUPS,
            fit.groups.len()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_level_of_a_network_is_scaled() {
        let of = |list: &str| format!("topology: [ Switch ]\nnpus_count: {list}\nlatency: [ 5 ]\n");
        assert_eq!(scaled_network(&of("[ 8 ]"), 64), Some(of("[ 64 ]")));
        assert_eq!(scaled_network(&of("[ 8, 2 ]"), 64), Some(of("[ 8, 8 ]")));
        assert_eq!(scaled_network(&of("[ 8, 2 ]"), 12), None);
        assert_eq!(scaled_network(&of("[ 8, 2 ]"), 8), None);
        assert_eq!(scaled_network("of somebody else", 64), None);
    }

    #[test]
    fn a_network_is_scaled_however_its_list_is_written() {
        let scaled = Some("npus_count: [ 8, 4 ]\nlatency: [ 5, 7 ]\n".to_owned());
        for list in [
            "npus_count : [8,2]",
            "npus_count: [ 8, 2 ]   # hosts of 8",
            "npus_count:\n  - 8\n  - 2",
            "npus_count:   # hosts of 8\n- 8 # within\n- 2",
        ] {
            let text = format!("{list}\nlatency: [ 5, 7 ]\n");
            assert_eq!(scaled_network(&text, 32), scaled, "{list}");
        }
        for list in [
            "npus_count:",
            "npus_count: 8",
            "npus_count: [ 8,",
            "npus_count: [ 9999999999, 9999999999, 2 ]",
        ] {
            assert_eq!(scaled_network(list, 32), None, "{list}");
        }
    }

    #[test]
    fn two_levels_are_two_dimensions() {
        let text = network(8, Some(&crate::tests::two_level_fit(4, 2)));
        assert_eq!(
            text,
            "topology: [ FullyConnected, FullyConnected ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 200, 25 ]  # GiB/s\n\
             latency: [ 500, 4000 ]  # ns\n"
        );
        assert!(network(1, None).contains("npus_count: [ 2 ]"));
    }
}
