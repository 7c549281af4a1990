//! Converts the matches of a join to collectives of the ranks' graphs.

use super::{CollectiveNodes, MemberNodes};
use etlink_link::ranks::{MatchMember, RankSummary, RunJoin};
use serde::Serialize;

/// Collectives of a run, and counts of communications that cannot be joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JoinedCollectives {
    /// Collectives that can be joined.
    #[serde(skip)]
    pub collectives: Vec<CollectiveNodes>,
    /// Number of collectives that some of the present ranks lack, or for which ranks state
    /// different kinds.
    pub unmatched: u64,
    /// Number of collectives for which only one rank's trace is present.
    pub alone: u64,
    /// Number of collectives with a part for which no recorded node ends with the transfer.
    pub without_transfer: u64,
}

/// Converts the matches of a join. O(parts).
pub fn collective_nodes(summaries: &[RankSummary], join: &RunJoin) -> JoinedCollectives {
    let mut joined = JoinedCollectives::default();
    for collective in &join.matches {
        let members = collective.members.iter();
        let nodes = members.map(|member| member_nodes(summaries, *member));
        match nodes.collect::<Option<Vec<MemberNodes>>>() {
            // The arms follow the order of reasons: a collective is counted once, for the first
            // that applies.
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

/// Returns the nodes of one rank's part; `None` if no recorded node ends with the transfer.
fn member_nodes(summaries: &[RankSummary], member: MatchMember) -> Option<MemberNodes> {
    let summary = summaries.get(member.rank.index())?;
    let communication = summary.communications.get(member.communication.index())?;
    let extent = communication.extent;
    // A call that returns at once (Gloo without a recorded wait) ends before its transfer does: if
    // joined, it would hold up the others but continue itself.
    extent.is_transfer.then_some(MemberNodes {
        rank: member.rank,
        arrives: extent.arrives,
        transfer: extent.waits,
        needs_all: communication.needs_all(),
    })
}
