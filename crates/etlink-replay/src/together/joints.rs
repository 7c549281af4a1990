//! What links ranks in traces, as joints of their graphs.

use super::{Joint, Part};
use etlink_link::ranks::{Channel, Facts, Join, Transfer, needs_all};
use etlink_model::CollectiveKind;
use serde::Serialize;

/// The joints of a run, and how many communications are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Joined {
    /// Those that can be joined.
    #[serde(skip)]
    pub joints: Vec<Joint>,
    /// Not all ranks whose traces are here have it, or they say different kinds.
    pub unmatched: u64,
    /// Only one rank's trace is here.
    pub alone: u64,
    /// Of a side nothing is recorded that ends with the transfer.
    pub without_transfer: u64,
}

/// `transfers` are those of each rank, in the order of its communications. O(parts).
pub fn joints(facts: &[Facts], join: &Join, transfers: &[Vec<Option<Transfer>>]) -> Joined {
    let mut joined = Joined::default();
    for joint in &join.joints {
        let message = matches!(joint.channel, Channel::Message { .. });
        let part = |part: &etlink_link::ranks::Part| {
            let (rank, communication) = (part.rank as usize, part.communication as usize);
            let transfer = transfers.get(rank)?.get(communication).copied().flatten()?;
            let kind = facts.get(rank)?.communications.get(communication)?.kind;
            let needs_all = if message { kind == CollectiveKind::Recv } else { needs_all(kind) };
            Some(Part { rank: part.rank, arrives: transfer.arrives, transfer: transfer.node, needs_all })
        };
        let parts: Option<Vec<Part>> = joint.parts.iter().map(part).collect();
        match parts {
            _ if joint.parts.len() < 2 && joint.missing.is_empty() => joined.alone += 1,
            _ if !joint.is_whole() => joined.unmatched += 1,
            None => joined.without_transfer += 1,
            Some(parts) => joined.joints.push(Joint { name: join.describe(joint), parts }),
        }
    }
    joined
}
