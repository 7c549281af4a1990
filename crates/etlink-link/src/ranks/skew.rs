//! Who came late, and how fast the transfer was once all were there.
//!
//! Sizes and factors are those of nccl-tests: the algorithm bandwidth is the larger of input and
//! output over the transfer time, the bus bandwidth that times what a ring sends per byte:
//! all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all, gather and scatter (n-1)/n; others
//! 1.

use super::arrivals::aligned;
use super::delays::{DelayedCollective, RunDelays};
use super::join::{rank_list, side};
use super::{CommChannel, RankClock, RankSummary, RunJoin};
use etlink_model::{CollectiveKind, CommonNs, GlobalRank};
use serde::Serialize;

/// One collective or message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectiveSkew {
    /// `all_reduce`, `message`, …
    pub kind: String,
    /// `ranks 0, 1`, or `rank 0 to rank 1`.
    pub ranks: String,
    /// Number of its group, 0 for a message.
    pub group: u32,
    /// `Seq`, or the place in the channel's order.
    pub number: i64,
    /// Largest of the ranks' sizes, bytes; none where no rank says one.
    pub bytes: Option<u64>,
    /// First arrival.
    pub start_ns: CommonNs,
    /// The rank that came last.
    pub last: GlobalRank,
    /// The step in which that rank launched it, if it has steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// From the first arrival to the last, ns.
    pub skew_ns: i64,
    /// From the second to last arrival to the last, ns, if anyone waited so long: what the last
    /// alone made the others wait.
    pub alone_ns: i64,
    /// What all ranks waited, summed, ns: as in [`super::StragglerStats`]. It is the sum of the next
    /// three.
    pub waited_ns: i64,
    /// What they waited for what the last did since the ranks were together, ns.
    pub caused_ns: i64,
    /// What they waited because its step or recording began later, ns.
    pub began_late_ns: i64,
    /// What they waited because the last had itself waited for others, ns.
    pub handed_on_ns: i64,
    /// The rank for which it had waited longest, where it hands on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<GlobalRank>,
    /// From the last arrival to the last end, ns. `None` where ends are not recorded (calls of host
    /// ops), and where a member has no trace: then the others may have waited for it.
    pub transfer_ns: Option<i64>,
    /// Bytes per second over the transfer.
    pub algorithm_bandwidth: Option<f64>,
    /// The same, as what a ring's links carry.
    pub bus_bandwidth: Option<f64>,
}

/// All collectives that every rank whose trace is here has, in order of time.
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
    let first = collective.arrivals.first()?.at_ns;
    let (mut end, mut bytes) = (None, None);
    // an absent rank may have come later still
    let mut is_known = matched.absent == 0;
    for member in &matched.members {
        let communication = side(ranks, *member).1;
        end = end.max(Some(aligned(clocks, member.rank, communication.end_ns)));
        bytes = bytes.max(communication.is_sized.then_some(communication.bytes));
        is_known &= communication.on_device;
    }
    let transfer_ns =
        // Clocks that are off can have the last come after the end: a transfer of no time has no
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
    let moved = bytes.filter(|bytes| *bytes > 0);
    let algorithm = transfer_ns
        .zip(moved)
        .map(|(transfer, bytes)| bytes as f64 / transfer as f64 * 1e9);
    Some(CollectiveSkew {
        kind,
        ranks: ranks_text,
        group,
        number: matched.number,
        bytes,
        start_ns: first,
        last: late.rank,
        step: collective.step.map(str::to_owned),
        skew_ns: last.at_ns.since(first),
        alone_ns: collective.alone_ns,
        waited_ns: collective.waited_ns,
        caused_ns: collective.own.caused_ns,
        began_late_ns: collective.own.began_late_ns,
        handed_on_ns: collective.handed_on_ns,
        waited_for: collective.waited_for,
        transfer_ns,
        algorithm_bandwidth: algorithm,
        bus_bandwidth: algorithm.map(|bandwidth| bandwidth * bus_factor(matched.kind, n as f64)),
    })
}

/// What a ring sends per byte of a collective between `n` ranks (nccl-tests).
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
