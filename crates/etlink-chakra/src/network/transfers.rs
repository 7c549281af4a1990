//! The transfers that a run's communications tell.

use crate::agreement::RunAgreement;
use crate::aligned_ranks::AlignedRanks;
use crate::rank_agreement::CommDecision;
use etlink_link::ranks::{CollectiveMatch, CommChannel, RankClock, RankSummary, RunJoin};
use etlink_model::CollectiveKind;
use std::collections::BTreeMap;

/// Of transfers of host threads this share is quicker than what is fitted.
const HOST_QUANTILE: f64 = 0.1;
/// The same of devices.
const DEVICE_QUANTILE: f64 = 0.5;

/// A transfer that was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredTransfer {
    pub(super) kind: CollectiveKind,
    /// Between whom: place in [`MeasuredTransfers::groups`].
    pub(super) group: usize,
    pub(super) bytes: f64,
    pub(super) ns: f64,
}

/// All of a run, in order of time.
#[derive(Debug, Default)]
pub(super) struct MeasuredTransfers {
    pub(super) transfers: Vec<MeasuredTransfer>,
    /// Global ranks, ascending; of a message the sender and the receiver.
    pub(super) groups: Vec<Vec<u64>>,
    /// Communications whose transfer nothing tells, or that ASTRA-sim gives no network time.
    pub(super) unused: u64,
    /// Which share of the transfers is quicker than what is fitted.
    pub(super) quantile: f64,
}

impl MeasuredTransfers {
    pub(super) fn new(
        agreed: &RunAgreement,
        facts: &[RankSummary],
        join: &RunJoin,
        clocks: &[RankClock],
    ) -> MeasuredTransfers {
        let ranks = AlignedRanks::new(facts, clocks);
        let (mut measured, mut on_host) = (MeasuredTransfers::default(), true);
        let mut places: BTreeMap<CommChannel, usize> = BTreeMap::new();
        for joint in &join.matches {
            let Some(bytes) = simulated_bytes(agreed, facts, joint) else {
                continue;
            };
            match ranks.transfer_ns(joint) {
                Some(ns) if has_network_time(joint.kind) => {
                    let groups = &mut measured.groups;
                    let group = *places.entry(joint.channel).or_insert_with(|| {
                        groups.push(member_ranks(join, joint));
                        groups.len() - 1
                    });
                    measured.transfers.push(MeasuredTransfer {
                        kind: joint.kind,
                        group,
                        bytes: bytes as f64,
                        ns,
                    });
                }
                _ => measured.unused += 1,
            }
            let mut members = joint.members.iter();
            on_host &= members.all(|member| !ranks.communication(*member).on_device);
        }
        measured.quantile = if on_host {
            HOST_QUANTILE
        } else {
            DEVICE_QUANTILE
        };
        measured
    }

    pub(super) fn members(&self, transfer: &MeasuredTransfer) -> &[u64] {
        &self.groups[transfer.group]
    }
}

/// Whether ASTRA-sim's network times it, and not the node.
fn has_network_time(kind: CollectiveKind) -> bool {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, Recv, ReduceScatter, Send};
    matches!(
        kind,
        AllGather | AllReduce | AllToAll | Recv | ReduceScatter | Send
    )
}

/// The size with which a communication is simulated; `None` for what is computation.
fn simulated_bytes(
    agreed: &RunAgreement,
    facts: &[RankSummary],
    joint: &CollectiveMatch,
) -> Option<i64> {
    let member = joint.members.first()?;
    let communications = &facts[member.rank.index()].communications;
    let node = communications[member.communication.index()].node;
    match agreed.ranks[member.rank.index()].decision_for(node) {
        CommDecision::Communication { bytes, .. } => Some(bytes),
        CommDecision::Compute(_) => None,
    }
}

/// The global ranks between which something is communicated, ascending.
pub(crate) fn member_ranks(join: &RunJoin, joint: &CollectiveMatch) -> Vec<u64> {
    match joint.channel {
        CommChannel::Group(number) => join.groups.get(&number).cloned().unwrap_or_default(),
        CommChannel::Message { src, dst } => {
            let ranks = [src, dst].map(|rank| u64::try_from(rank.0).unwrap_or(0));
            ranks.to_vec()
        }
    }
}
