//! Measured times of a run, in the terms of a simulator.

use super::comms::{Between, CommMember};
use crate::aligned_ranks::AlignedRanks;
use etlink_link::ranks::{CollectiveMatch, CommChannel, RankClock, RankSummary, RunJoin};
use etlink_model::{CollectiveKind, GlobalRank, RankIdx};
use std::collections::BTreeMap;

/// A recorded run by one clock, which counts from the first start of a rank.
#[derive(Clone, Debug, Default)]
pub struct MeasuredRun {
    /// Start and end of each rank, in nanoseconds.
    pub windows: BTreeMap<i64, (i64, i64)>,
    /// Communications of the ranks, in order of time.
    pub(super) comms: Vec<MeasuredComm>,
}

/// A collective or message.
#[derive(Clone, Debug)]
pub(super) struct MeasuredComm {
    pub(super) between: Between,
    pub(super) kind: &'static str,
    /// Number in the group, as counted in the traces.
    pub(super) number: i64,
    pub(super) members: Vec<CommMember>,
    /// True if the traces of all participating ranks are present. Otherwise the last rank to arrive
    /// may be one without a trace.
    pub(super) is_complete: bool,
    /// Time from the last arrival to the end of the transfer, as used to fit networks: if host
    /// threads wait, to the end of the first rank. `None` if unknown.
    pub(super) transfer_ns: Option<i64>,
}

impl MeasuredRun {
    /// Extracts the measured times of a joined run. O(communications).
    pub fn new(summaries: &[RankSummary], join: &RunJoin, clocks: &[RankClock]) -> MeasuredRun {
        let ranks = AlignedRanks::new(summaries, clocks);
        let times = ranks.simulation_times();
        let mut run = MeasuredRun::default();
        for (at, (summary, times)) in summaries.iter().zip(&times).enumerate() {
            let (start, end) = summary.window_ns;
            let window = [start, end].map(|own| times.of(ranks.common(RankIdx::new(at), own)));
            run.windows.insert(summary.rank.0, (window[0], window[1]));
        }
        for matched in &join.matches {
            let members = matched.members.iter().map(|member| {
                let communication = ranks.communication(*member);
                let extent = communication.extent;
                let at = |own| times[member.rank.index()].of(ranks.common(member.rank, own));
                CommMember {
                    rank: summaries[member.rank.index()].rank.0,
                    arrives_ns: at(extent.arrival_ns),
                    ends_ns: extent.is_transfer.then(|| at(extent.end_ns)),
                    sends: communication.kind == CollectiveKind::Send,
                }
            });
            let is_complete =
                matched.missing.is_empty() && matched.outside.is_empty() && matched.absent == 0;
            let transfer_ns = if is_complete {
                ranks.transfer_ns(matched)
            } else {
                None
            };
            run.comms.push(MeasuredComm {
                between: between(join, matched),
                kind: kind_name(matched),
                number: matched.number,
                is_complete,
                transfer_ns: transfer_ns.map(|ns| ns.round() as i64),
                members: members.collect(),
            });
        }
        run
    }
}

fn between(join: &RunJoin, matched: &CollectiveMatch) -> Between {
    match matched.channel {
        CommChannel::Message { src, dst } => Between::Message {
            src: src.0,
            dst: dst.0,
        },
        CommChannel::Group(_) => {
            let ranks = join.group_ranks(matched.channel);
            Between::Ranks(ranks.into_iter().map(|GlobalRank(rank)| rank).collect())
        }
    }
}

fn kind_name(matched: &CollectiveMatch) -> &'static str {
    match matched.channel {
        CommChannel::Message { .. } => "message",
        CommChannel::Group(_) => matched.kind.name(),
    }
}
