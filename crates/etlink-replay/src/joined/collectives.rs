//! What links ranks in traces, as collectives of their graphs.

use super::{CollectiveNodes, MemberNodes};
use etlink_link::ranks::{RankSummary, RunJoin};
use serde::Serialize;

/// The collectives of a run, and how many communications are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JoinedCollectives {
    /// Those that can be joined.
    #[serde(skip)]
    pub collectives: Vec<CollectiveNodes>,
    /// Not all ranks whose traces are here have it, or they say different kinds.
    pub unmatched: u64,
    /// Only one rank's trace is here.
    pub alone: u64,
    /// Of a side nothing is recorded that ends with the transfer.
    pub without_transfer: u64,
}

/// Joins the ranks' nodes. O(parts).
pub fn collective_nodes(summaries: &[RankSummary], join: &RunJoin) -> JoinedCollectives {
    let mut joined = JoinedCollectives::default();
    for collective in &join.matches {
        let member = |member: &etlink_link::ranks::MatchMember| {
            let communication = summaries
                .get(member.rank.index())?
                .communications
                .get(member.communication as usize)?;
            let runs = communication.extent;
            let joined = MemberNodes {
                rank: member.rank.0,
                arrives: runs.arrives,
                transfer: runs.waits,
                needs_all: communication.needs_all(),
            };
            runs.is_transfer.then_some(joined)
        };
        let members: Option<Vec<MemberNodes>> = collective.members.iter().map(member).collect();
        match members {
            // The order of the arms is the order of reasons: a collective is counted once, for the
            // first that holds.
            _ if collective.members.len() < 2 && collective.missing.is_empty() => joined.alone += 1,
            _ if !collective.is_whole() => joined.unmatched += 1,
            None => joined.without_transfer += 1,
            Some(members) => joined.collectives.push(CollectiveNodes {
                name: join.describe(collective),
                members,
            }),
        }
    }
    joined
}
