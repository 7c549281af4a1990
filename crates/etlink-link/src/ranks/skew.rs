//! Skew of collectives: the last rank, and the speed of the transfer once all had arrived.
//!
//! Sizes and factors follow nccl-tests. The algorithm bandwidth is the larger of input and output
//! over the transfer time. The bus bandwidth is that times a ring's traffic per byte: 2(n-1)/n for
//! all-reduce; (n-1)/n for all-gather, reduce-scatter, all-to-all, gather and scatter; 1 for
//! others.

use super::arrivals::{aligned, clock_error};
use super::delays::{DelayedCollective, RunDelays};
use super::join::{rank_list, side};
use super::{CommChannel, RankClock, RankSummary, RunJoin};
use etlink_model::{CollectiveKind, CommIdx, CommonNs, GlobalRank, RankIdx, UNIT_BYTES};
use serde::Serialize;
use std::collections::BTreeSet;

/// Skew of one collective or message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectiveSkew {
    /// Kind: `all_reduce`, `message`, …
    pub kind: String,
    /// Ranks: `ranks 0, 1`, or `rank 0 to rank 1`.
    pub ranks: String,
    /// Number of the group; 0 for a message.
    pub group: u32,
    /// Number of ranks.
    pub members: u64,
    /// Number of machines of these ranks; `None` if a rank's is unknown.
    pub machines: Option<u64>,
    /// True if the group follows from times of kernels, as the traces have no records.
    pub inferred: bool,
    /// `Seq`, or the index in the channel's order.
    pub number: i64,
    /// Element type; `None` if unknown.
    pub dtype: Option<String>,
    /// Largest of the ranks' sizes, bytes; `None` if no rank states one.
    pub bytes: Option<u64>,
    /// First arrival.
    pub start_ns: CommonNs,
    /// Rank that arrived last.
    pub last: GlobalRank,
    /// Step in which that rank launched it; `None` without steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Time from the first arrival to the last, ns.
    pub skew_ns: i64,
    /// Maximum error of that time by the clocks of the two ranks, ns; 0 if they share a clock, or if
    /// nothing bounds it.
    pub skew_error_ns: i64,
    /// Time from the second to last arrival to the last, ns, limited by the longest wait: the wait
    /// that only the last rank caused.
    pub alone_ns: i64,
    /// Total wait of all ranks, ns, as in [`super::StragglerStats`]: the sum of the next three
    /// fields.
    pub waited_ns: i64,
    /// Wait caused by the last rank's activity since the ranks were together, ns.
    pub caused_ns: i64,
    /// Wait caused by the later start of the last rank's step or recording, ns.
    pub began_late_ns: i64,
    /// Part of `began_late_ns` in which the last rank was not recorded yet, ns.
    pub start_skew_ns: i64,
    /// Wait caused by the last rank's own waits for others, ns.
    pub handed_on_ns: i64,
    /// Rank for which the last rank waited longest; `None` if nothing is handed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<GlobalRank>,
    /// Time from the last arrival to the last end, ns. `None` if a member's end is not recorded (a
    /// host op whose wait is not), or if a member has no trace: then the others may have waited for
    /// it.
    pub transfer_ns: Option<i64>,
    /// Bytes per second over the transfer.
    pub algorithm_bandwidth: Option<f64>,
    /// Bandwidth as the load of a ring's links, bytes per second.
    pub bus_bandwidth: Option<f64>,
}

impl CollectiveSkew {
    /// Returns true if the clocks do not show which rank arrived last.
    pub fn is_within_error(&self) -> bool {
        self.skew_error_ns > 0 && self.skew_ns <= self.skew_error_ns
    }

    /// Returns true if ranks arrived apart mostly because their recordings began apart.
    pub fn started_apart(&self) -> bool {
        is_start_skew(self.start_skew_ns, self.waited_ns)
    }
}

/// The only place that decides which collectives means and bandwidths leave out.
fn is_start_skew(start_skew_ns: i64, waited_ns: i64) -> bool {
    start_skew_ns > waited_ns / 2
}

/// A rank's wait in a collective to which ranks came apart mostly because their recordings began
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartSkewWait {
    /// Index of the rank.
    pub rank: RankIdx,
    /// Index of the collective among the rank's communications.
    pub communication: CommIdx,
    /// Wait for the last rank, ns.
    pub waits_ns: i64,
}

/// Returns the waits of all ranks in collectives for which [`CollectiveSkew::started_apart`] holds.
pub fn start_skew_waits(
    ranks: &[RankSummary],
    join: &RunJoin,
    clocks: &[RankClock],
) -> Vec<StartSkewWait> {
    let delays = RunDelays::new(ranks, join, clocks);
    let mut waits = vec![];
    for collective in &delays.collectives {
        if !is_start_skew(collective.own.start_skew_ns, collective.waited_ns) {
            continue;
        }
        for member in &collective.matched.members {
            let mut arrivals = collective.arrivals.iter();
            let arrival = arrivals.find(|arrival| arrival.rank == member.rank);
            if let Some(arrival) = arrival.filter(|arrival| arrival.waits_ns > 0) {
                waits.push(StartSkewWait {
                    rank: member.rank,
                    communication: member.communication,
                    waits_ns: arrival.waits_ns,
                });
            }
        }
    }
    waits
}

/// Computes the skew of each collective that all ranks with a trace have, in order of time.
pub fn collective_skews(
    ranks: &[RankSummary],
    join: &RunJoin,
    clocks: &[RankClock],
) -> Vec<CollectiveSkew> {
    let delays = RunDelays::new(ranks, join, clocks);
    let collectives = delays.collectives.iter();
    collectives
        .filter_map(|collective| skew(ranks, join, clocks, collective))
        .collect()
}

fn skew(
    ranks: &[RankSummary],
    join: &RunJoin,
    clocks: &[RankClock],
    collective: &DelayedCollective<'_>,
) -> Option<CollectiveSkew> {
    let (matched, last) = (collective.matched, collective.last);
    let first = collective.arrivals.first()?;
    let pair = [first.rank, last.rank];
    let bound = |clock: &RankClock| clock.uncertainty_ns.unwrap_or(0);
    let (mut end, mut bytes) = (None, None);
    // an absent rank may have arrived even later
    let mut is_known = matched.absent == 0;
    for member in &matched.members {
        let communication = side(ranks, *member).1;
        let own_end = communication.span().1;
        end = end.max(Some(aligned(clocks, member.rank, own_end)));
        bytes = bytes.max(communication.is_sized.then_some(communication.bytes));
        is_known &= communication.ends_with_transfer();
    }
    let transfer_ns =
        // With wrong clocks, the last arrival may be after the end: a transfer of no time has no
        // bandwidth.
        Some(end?.since(last.at_ns)).filter(|transfer| *transfer > 0 && is_known);
    let late = ranks.get(last.rank.index())?;
    let (kind, ranks_text, group, n) = match matched.channel {
        CommChannel::Message { src, dst } => (
            "message".to_owned(),
            format!("rank {src} to rank {dst}"),
            0,
            2,
        ),
        CommChannel::Group(group) => {
            let group_ranks = join.groups.get(&group).map_or(&[][..], |ranks| ranks);
            (
                matched.kind.name().to_owned(),
                rank_list("rank", group_ranks),
                group,
                group_ranks.len(),
            )
        }
    };
    let sides = matched.members.iter().map(|member| side(ranks, *member));
    let machines = sides.clone().map(|(summary, _)| summary.machine.as_deref());
    let machines: Option<BTreeSet<&str>> = machines.collect();
    let dtype = sides.map(|(summary, one)| summary.names.get(one.dtype));
    let dtype = dtype
        .max()
        .filter(|name| !name.is_empty() && *name != UNIT_BYTES);
    let moved = bytes.filter(|bytes| *bytes > 0);
    let algorithm = transfer_ns
        .zip(moved)
        .map(|(transfer, bytes)| bytes as f64 / transfer as f64 * 1e9);
    Some(CollectiveSkew {
        kind,
        ranks: ranks_text,
        group,
        members: n as u64,
        machines: machines.map(|machines| machines.len() as u64),
        inferred: join.inferred.contains(&group),
        number: matched.number,
        dtype: dtype.map(str::to_owned),
        bytes,
        start_ns: first.at_ns,
        last: late.rank,
        step: collective.step.map(str::to_owned),
        skew_ns: last.at_ns.since(first.at_ns),
        skew_error_ns: clock_error(ranks, clocks, pair, bound),
        alone_ns: collective.alone_ns,
        waited_ns: collective.waited_ns,
        caused_ns: collective.own.caused_ns,
        began_late_ns: collective.own.began_late_ns,
        start_skew_ns: collective.own.start_skew_ns,
        handed_on_ns: collective.handed_on_ns,
        waited_for: collective.waited_for,
        transfer_ns,
        algorithm_bandwidth: algorithm,
        bus_bandwidth: algorithm.map(|bandwidth| bandwidth * bus_factor(matched.kind, n as f64)),
    })
}

/// Traffic of a ring per byte of a collective between `n` ranks (nccl-tests).
pub fn bus_factor(kind: CollectiveKind, n: f64) -> f64 {
    use CollectiveKind as Kind;
    match kind {
        Kind::AllReduce => 2.0 * (n - 1.0) / n,
        Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll | Kind::Gather | Kind::Scatter => {
            (n - 1.0) / n
        }
        Kind::Reduce | Kind::Broadcast | Kind::Barrier | Kind::Send | Kind::Recv | Kind::Other => {
            1.0
        }
    }
}

#[cfg(test)]
mod tests;
