//! Who came late, and how fast the transfer was once all were there.
//!
//! Sizes and factors are those of nccl-tests: the algorithm bandwidth is the larger of input and output over the transfer
//! time, the bus bandwidth that times what a ring sends per byte: all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all,
//! gather and scatter (n-1)/n; others 1.

use super::join::{kind_text, list, side};
use super::{Channel, Clock, Facts, Join, Joint};
use etlink_model::CollectiveKind;
use serde::Serialize;

/// One collective or message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Skew {
    /// `all_reduce`, `message`, …
    pub kind: String,
    /// `ranks 0, 1`, or `rank 0 to rank 1`.
    pub ranks: String,
    /// Number of its group, 0 for a message.
    pub group: u32,
    /// `Seq`, or the place in the channel's order.
    pub number: i64,
    /// Largest of the ranks' sizes, bytes.
    pub bytes: u64,
    /// First arrival, ns by the first rank's clock since the Unix epoch.
    pub start_ns: i64,
    /// The rank that came last.
    pub last: i64,
    /// From the first arrival to the last, ns.
    pub skew_ns: i64,
    /// From the second to last arrival to the last, ns: what the last alone made the others wait.
    pub alone_ns: i64,
    /// From the last arrival to the last end, ns. `None` where ends are not recorded (calls of host ops).
    pub transfer_ns: Option<i64>,
    /// Bytes per second over the transfer.
    pub algorithm_bandwidth: Option<f64>,
    /// The same, as what a ring's links carry.
    pub bus_bandwidth: Option<f64>,
}

/// How one rank's lateness adds up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lateness {
    /// Global rank.
    pub rank: i64,
    /// Collectives and messages that it takes part in.
    pub joints: u64,
    /// Those in which it came last.
    pub last: u64,
    /// What it alone made others wait in those, ns.
    pub alone_ns: i64,
    /// What it waited for others, ns: from its arrival to the last.
    pub waited_ns: i64,
}

/// All joints that every rank whose trace is here has, in order of time.
pub fn skews(ranks: &[Facts], join: &Join, clocks: &[Clock]) -> Vec<Skew> {
    join.joints.iter().filter_map(|joint| skew(ranks, join, clocks, joint)).collect()
}

/// Sums per rank, in the ranks' order.
pub fn lateness(ranks: &[Facts], join: &Join, clocks: &[Clock]) -> Vec<Lateness> {
    let mut all: Vec<Lateness> = ranks.iter().map(|facts| Lateness { rank: facts.rank, ..Lateness::default() }).collect();
    for joint in &join.joints {
        let Some(arrivals) = arrivals(ranks, clocks, joint) else { continue };
        let (last, alone) = last_of(&arrivals);
        for &(start, at) in &arrivals {
            let Some(rank) = all.get_mut(at as usize) else { continue };
            rank.joints += 1;
            rank.waited_ns = rank.waited_ns.saturating_add(last.0.saturating_sub(start));
            if at == last.1 {
                rank.last += 1;
                rank.alone_ns = rank.alone_ns.saturating_add(alone);
            }
        }
    }
    all
}

fn offset(clocks: &[Clock], at: u32) -> i64 {
    clocks.get(at as usize).map_or(0, |clock| clock.offset_ns)
}

/// When each rank arrived, by place of the rank, ascending in time; `None` for joints that not all have.
fn arrivals(ranks: &[Facts], clocks: &[Clock], joint: &Joint) -> Option<Vec<(i64, u32)>> {
    let start = |part: &super::Part| (side(ranks, *part).1.start_ns.saturating_add(offset(clocks, part.rank)), part.rank);
    let mut arrivals: Vec<(i64, u32)> = joint.parts.iter().map(start).collect();
    arrivals.sort_unstable();
    (joint.is_whole() && arrivals.len() > 1).then_some(arrivals)
}

/// The last arrival and how much later it was than the one before it.
fn last_of(arrivals: &[(i64, u32)]) -> ((i64, u32), i64) {
    match arrivals {
        [.., before, last] => (*last, last.0.saturating_sub(before.0)),
        [last] => (*last, 0),
        [] => ((0, 0), 0),
    }
}

fn skew(ranks: &[Facts], join: &Join, clocks: &[Clock], joint: &Joint) -> Option<Skew> {
    let arrivals = arrivals(ranks, clocks, joint)?;
    let (last, alone_ns) = last_of(&arrivals);
    let first = arrivals.first()?.0;
    let sides = || joint.parts.iter().map(|part| (side(ranks, *part).1, offset(clocks, part.rank)));
    let end = sides().map(|(communication, offset)| communication.end_ns.saturating_add(offset)).max()?;
    let bytes = sides().map(|(communication, _)| communication.bytes).max()?;
    let transfer_ns = Some(end.saturating_sub(last.0)).filter(|transfer| *transfer > 0 && sides().all(|(communication, _)| communication.on_device));
    let (kind, ranks_text, group, n) = match joint.channel {
        Channel::Message { src, dst } => ("message".to_owned(), format!("rank {src} to rank {dst}"), 0, 2),
        Channel::Group(group) => {
            let members = join.groups.get(&group).map_or(&[][..], |ranks| ranks);
            (kind_text(joint.kind), list("rank", members), group, members.len())
        }
    };
    let algorithm = transfer_ns.filter(|_| bytes > 0).map(|transfer| bytes as f64 / transfer as f64 * 1e9);
    Some(Skew {
        kind,
        ranks: ranks_text,
        group,
        number: joint.number,
        bytes,
        start_ns: first,
        last: ranks.get(last.1 as usize)?.rank,
        skew_ns: last.0.saturating_sub(first),
        alone_ns,
        transfer_ns,
        algorithm_bandwidth: algorithm,
        bus_bandwidth: algorithm.map(|bandwidth| bandwidth * bus_factor(joint.kind, n as f64)),
    })
}

fn bus_factor(kind: CollectiveKind, n: f64) -> f64 {
    use CollectiveKind as Kind;
    match kind {
        Kind::AllReduce => 2.0 * (n - 1.0) / n,
        Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll | Kind::Gather | Kind::Scatter => (n - 1.0) / n,
        Kind::Reduce | Kind::Broadcast | Kind::Barrier | Kind::Send | Kind::Recv | Kind::Other => 1.0,
    }
}

#[cfg(test)]
mod tests;
