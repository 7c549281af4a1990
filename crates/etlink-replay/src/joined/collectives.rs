//! What links ranks in traces, as collectives of their graphs.

use super::{CollectiveNodes, MemberNodes};
use etlink_link::ranks::{MatchMember, RankSummary, RunJoin};
use serde::Serialize;

/// The collectives of a run, and how many communications are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        let members = collective.members.iter();
        let nodes = members.map(|member| member_nodes(summaries, *member));
        match nodes.collect::<Option<Vec<MemberNodes>>>() {
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

/// The nodes of one rank's side; `None` where nothing is recorded that ends with the transfer.
fn member_nodes(summaries: &[RankSummary], member: MatchMember) -> Option<MemberNodes> {
    let summary = summaries.get(member.rank.index())?;
    let communication = summary.communications.get(member.communication.index())?;
    let extent = communication.extent;
    // A call that returns at once (Gloo without a recorded wait) ends before its transfer does:
    // joined, it would hold up the others and itself go on.
    extent.is_transfer.then_some(MemberNodes {
        rank: member.rank,
        arrives: extent.arrives,
        transfer: extent.waits,
        needs_all: communication.needs_all(),
    })
}
