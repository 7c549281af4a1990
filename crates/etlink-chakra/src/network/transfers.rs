//! Collects the measured transfers of a run's communications.

use crate::agreement::RunAgreement;
use crate::aligned_ranks::AlignedRanks;
use crate::rank_agreement::CommDecision;
use etlink_link::ranks::{CollectiveMatch, CommChannel, RankClock, RankSummary, RunJoin};
use etlink_model::CollectiveKind;
use std::collections::BTreeMap;

/// Fraction of host threads' transfers that are faster than the fit.
const HOST_QUANTILE: f64 = 0.1;
/// Fraction of devices' transfers that are faster than the fit.
const DEVICE_QUANTILE: f64 = 0.5;

/// A measured transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredTransfer {
    pub(super) kind: CollectiveKind,
    /// Index of the participating ranks in [`MeasuredTransfers::groups`].
    pub(super) group: usize,
    pub(super) bytes: f64,
    pub(super) ns: f64,
}

/// All measured transfers of a run, in order of time.
#[derive(Debug, Default)]
pub(super) struct MeasuredTransfers {
    pub(super) transfers: Vec<MeasuredTransfer>,
    /// Global ranks in ascending order; sender and receiver of a message.
    pub(super) groups: Vec<Vec<u64>>,
    /// Communications whose transfer time is unknown, or that ASTRA-sim gives no network time.
    pub(super) unused: u64,
    /// Fraction of the transfers that are faster than the fit.
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

/// Returns true if ASTRA-sim's network determines the time, not the node.
fn has_network_time(kind: CollectiveKind) -> bool {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, Recv, ReduceScatter, Send};
    matches!(
        kind,
        AllGather | AllReduce | AllToAll | Recv | ReduceScatter | Send
    )
}

/// Returns the simulated size of a communication; `None` if it is computation.
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

/// Returns the global ranks that take part in a communication, in ascending order.
pub(crate) fn member_ranks(join: &RunJoin, joint: &CollectiveMatch) -> Vec<u64> {
    match joint.channel {
        CommChannel::Group(number) => join.groups.get(&number).cloned().unwrap_or_default(),
        CommChannel::Message { src, dst } => {
            let ranks = [src, dst].map(|rank| u64::try_from(rank.0).unwrap_or(0));
            ranks.to_vec()
        }
    }
}
