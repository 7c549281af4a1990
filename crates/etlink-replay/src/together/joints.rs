//! What links ranks in traces, as joints of their graphs.

use super::{CollectiveNodes, MemberNodes};
use etlink_link::ranks::{RankSummary, RunJoin};
use serde::Serialize;

/// The joints of a run, and how many communications are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JoinedCollectives {
    /// Those that can be joined.
    #[serde(skip)]
    pub joints: Vec<CollectiveNodes>,
    /// Not all ranks whose traces are here have it, or they say different kinds.
    pub unmatched: u64,
    /// Only one rank's trace is here.
    pub alone: u64,
    /// Of a side nothing is recorded that ends with the transfer.
    pub without_transfer: u64,
}

/// Joins the ranks' nodes. O(parts).
pub fn collective_nodes(facts: &[RankSummary], join: &RunJoin) -> JoinedCollectives {
    let mut joined = JoinedCollectives::default();
    for joint in &join.joints {
        let part = |part: &etlink_link::ranks::MatchMember| {
            let communication = facts
                .get(part.rank as usize)?
                .communications
                .get(part.communication as usize)?;
            let runs = communication.runs;
            let joined = MemberNodes {
                rank: part.rank,
                arrives: runs.arrives,
                transfer: runs.waits,
                needs_all: communication.needs_all(),
            };
            runs.is_transfer.then_some(joined)
        };
        let parts: Option<Vec<MemberNodes>> = joint.parts.iter().map(part).collect();
        match parts {
            _ if joint.parts.len() < 2 && joint.missing.is_empty() => joined.alone += 1,
            _ if !joint.is_whole() => joined.unmatched += 1,
            None => joined.without_transfer += 1,
            Some(parts) => joined.joints.push(CollectiveNodes {
                name: join.describe(joint),
                parts,
            }),
        }
    }
    joined
}
