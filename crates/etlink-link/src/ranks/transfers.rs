//! Transfers of a run in total: by kind and group, or also by the size of the message.
//!
//! Bandwidths are as of nccl-tests: bytes over transfer times, each collective once, from the rank
//! with most. A transfer lasts from the last arrival to the last end, so that waits for late ranks do
//! not count. Skews that follow from steps or recordings that began apart are left out.

use super::join::side;
use super::{CollectiveSkew, CommChannel, RankSummary, RunJoin};
use etlink_model::CollectiveKind;
use serde::Serialize;
use std::collections::BTreeMap;

/// Sums of collectives or messages of one kind between the same ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferTotals {
    /// Kind: `all_reduce`, `message`, …
    pub kind: String,
    /// Ranks: `ranks 0, 1`, or `rank 0 to rank 1`.
    pub ranks: String,
    /// Number of the group; 0 for messages.
    pub group: u32,
    /// Number of ranks.
    pub members: u64,
    /// Number of machines of these ranks; `None` if a rank's is unknown.
    pub machines: Option<u64>,
    /// True if the group follows from times of kernels, as the traces have no records.
    pub inferred: bool,
    /// Element type; `None` if it is unknown, or if several are summed.
    pub dtype: Option<String>,
    /// Size of each, bytes; `None` if it is unknown, or if several are summed.
    pub bytes: Option<u64>,
    /// Number of collectives or messages.
    pub count: u64,
    /// Bytes of all; `None` if no size is known.
    pub total_bytes: Option<u64>,
    /// Sum of the known transfer times, ns.
    pub transfer_ns: i64,
    /// Number of known transfer times.
    pub timed: u64,
    /// Median transfer time, ns; `None` if no transfer time is known. So are the next two.
    pub median_transfer_ns: Option<i64>,
    /// Shortest transfer time, ns.
    pub min_transfer_ns: Option<i64>,
    /// Longest transfer time, ns.
    pub max_transfer_ns: Option<i64>,
    /// Mean time between the first and the last arrival, ns; `None` if ranks started apart before
    /// all. So are the next two.
    pub mean_skew_ns: Option<i64>,
    /// Median time between the first and the last arrival, ns.
    pub median_skew_ns: Option<i64>,
    /// Longest time between the first and the last arrival, ns.
    pub max_skew_ns: Option<i64>,
    /// Number of collectives before which ranks started apart, whose skew is left out.
    pub started_apart: u64,
    /// Bytes per ns of transfer.
    pub algorithm_gb_per_s: Option<f64>,
    /// Load of a ring's links, bytes per ns.
    pub bus_gb_per_s: Option<f64>,
    /// Load of the links divided by their rate; `None` if the data sheet of the devices lacks it, or
    /// if the ranks are not on one machine.
    pub link_share: Option<f64>,
}

/// Sums the transfers of a run: by kind and ranks, and with `by_size` also by element type and size.
/// `link_gb_per_s` is the rate of the devices' links to each other. O(n log n).
pub fn transfer_totals(
    collectives: &[CollectiveSkew],
    by_size: bool,
    link_gb_per_s: Option<f64>,
) -> Vec<TransferTotals> {
    let mut groups: BTreeMap<_, Vec<&CollectiveSkew>> = BTreeMap::new();
    for skew in collectives {
        let of_size = by_size.then_some((&skew.dtype, skew.bytes));
        let key = (skew.group, &skew.kind, &skew.ranks, of_size);
        groups.entry(key).or_default().push(skew);
    }
    let all = groups.into_values();
    all.map(|skews| totals(&skews, by_size, link_gb_per_s))
        .collect()
}

fn totals(skews: &[&CollectiveSkew], by_size: bool, link_gb_per_s: Option<f64>) -> TransferTotals {
    let first = skews[0];
    let mut transfers: Vec<i64> = skews.iter().filter_map(|skew| skew.transfer_ns).collect();
    transfers.sort_unstable();
    let together = skews.iter().filter(|skew| !skew.started_apart());
    let mut apart: Vec<i64> = together.map(|skew| skew.skew_ns).collect();
    apart.sort_unstable();
    let skew_sum = apart.iter().copied().fold(0, i64::saturating_add);
    // an unknown size has no bandwidth, and its time would make that of the others too low
    let sized = skews.iter().filter_map(|skew| {
        let bytes = skew.bytes.filter(|bytes| *bytes > 0)?;
        Some((bytes as f64, skew.transfer_ns? as f64))
    });
    let (moved, time) = sized.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let algorithm = (time > 0.0).then(|| moved / time);
    let factor = skews
        .iter()
        .find_map(|skew| Some(skew.bus_bandwidth? / skew.algorithm_bandwidth?));
    let bus = algorithm.zip(factor).map(|(rate, factor)| rate * factor);
    let link = if first.machines == Some(1) {
        link_gb_per_s
    } else {
        None
    };
    let (dtype, bytes) = if by_size {
        (first.dtype.clone(), first.bytes)
    } else {
        (None, None)
    };
    TransferTotals {
        kind: first.kind.clone(),
        ranks: first.ranks.clone(),
        group: first.group,
        members: first.members,
        machines: first.machines,
        inferred: first.inferred,
        dtype,
        bytes,
        count: skews.len() as u64,
        total_bytes: skews
            .iter()
            .filter_map(|skew| skew.bytes)
            .reduce(u64::saturating_add),
        transfer_ns: transfers.iter().copied().fold(0, i64::saturating_add),
        timed: transfers.len() as u64,
        median_transfer_ns: median(&transfers),
        min_transfer_ns: transfers.first().copied(),
        max_transfer_ns: transfers.last().copied(),
        mean_skew_ns: (!apart.is_empty()).then(|| skew_sum / apart.len() as i64),
        median_skew_ns: median(&apart),
        max_skew_ns: apart.last().copied(),
        started_apart: (skews.len() - apart.len()) as u64,
        algorithm_gb_per_s: algorithm,
        bus_gb_per_s: bus,
        link_share: bus.zip(link).map(|(bus, link)| bus / link),
    }
}

/// Returns the median of sorted values: of an even number the lower one of the middle.
fn median(sorted: &[i64]) -> Option<i64> {
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// Bytes of a group's all-to-alls from one rank to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairBytes {
    /// Number of the group.
    pub group: u32,
    /// Global rank that sends.
    pub from: u64,
    /// Global rank that receives.
    pub to: u64,
    /// Bytes over all of these all-to-alls.
    pub bytes: u64,
    /// Number of the group's all-to-alls whose sizes all ranks state.
    pub count: u64,
    /// Bytes that the receiver gets from all ranks, divided by the mean of the group's ranks.
    pub received_to_mean: f64,
}

/// Sums the bytes of each pair of ranks over the all-to-alls with stated sizes. O(n · ranks²).
pub fn pair_bytes(summaries: &[RankSummary], join: &RunJoin) -> Vec<PairBytes> {
    let mut groups: BTreeMap<u32, (u64, Vec<Vec<u64>>)> = BTreeMap::new();
    let matches = join.matches.iter();
    for matched in matches.filter(|one| one.kind == CollectiveKind::AllToAll && one.absent == 0) {
        let CommChannel::Group(group) = matched.channel else {
            continue;
        };
        let ranks = join.groups.get(&group).map_or(0, Vec::len);
        let rows = matched.members.iter().map(|member| {
            let (summary, one) = side(summaries, *member);
            sent_bytes(summary.names.get(one.in_split), one.in_bytes, ranks)
        });
        let Some(rows) = rows.collect::<Option<Vec<Vec<u64>>>>() else {
            continue;
        };
        if rows.len() != ranks {
            continue;
        }
        let blank = || (0, vec![vec![0; ranks]; ranks]);
        let (count, sums) = groups.entry(group).or_insert_with(blank);
        *count += 1;
        for (sum, bytes) in sums.iter_mut().flatten().zip(rows.into_iter().flatten()) {
            *sum = sum.saturating_add(bytes);
        }
    }
    let pairs = groups.into_iter().flat_map(|(group, (count, sums))| {
        let ranks = &join.groups[&group];
        group_pairs(group, count, ranks, &sums)
    });
    pairs.collect()
}

/// Lists the pairs of a group from a row of bytes per sender.
fn group_pairs(group: u32, count: u64, ranks: &[u64], sums: &[Vec<u64>]) -> Vec<PairBytes> {
    let received = |to: usize| sums.iter().map(|row| row[to]).fold(0, u64::saturating_add);
    let received: Vec<u64> = (0..ranks.len()).map(received).collect();
    let mean = received.iter().copied().fold(0, u64::saturating_add) as f64 / ranks.len() as f64;
    let mut pairs = vec![];
    for (from, row) in ranks.iter().zip(sums) {
        for (at, to) in ranks.iter().enumerate() {
            pairs.push(PairBytes {
                group,
                from: *from,
                to: *to,
                bytes: row[at],
                count,
                received_to_mean: if mean > 0.0 {
                    received[at] as f64 / mean
                } else {
                    1.0
                },
            });
        }
    }
    pairs
}

/// Splits the bytes that a rank sends by its list of sizes; without a list equally. `None` if the
/// list has another number of ranks.
fn sent_bytes(split: &str, bytes: u64, ranks: usize) -> Option<Vec<u64>> {
    let inner = split.trim_matches(|letter: char| letter == '[' || letter == ']');
    let parts = inner
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let parts: Vec<u64> = parts.map(str::parse).collect::<Result<_, _>>().ok()?;
    let n = ranks as u64;
    if parts.is_empty() {
        return Some(vec![bytes / n; ranks]);
    }
    let sum: u128 = parts.iter().copied().map(u128::from).sum();
    if parts.len() != ranks || sum == 0 {
        return None;
    }
    let of_part = |part: u64| (u128::from(bytes) * u128::from(part) / sum) as u64;
    Some(parts.into_iter().map(of_part).collect())
}
