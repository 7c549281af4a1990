//! Decides on the communications that all ranks of one run write.
//!
//! ASTRA-sim matches collectives of a group by order, type and size, and messages by sender,
//! receiver and size. A rank whose counterpart is missing is stuck, and the simulator still exits
//! with 0. Traces of one run differ: a window may begin one collective later, and each rank of an
//! uneven all-to-all (experts) states its own sizes. A communication without counterpart therefore
//! becomes computation. If sizes differ, the largest is used; for an all-to-all, that of the link
//! that passes most bytes. Kernels of different groups can
//! overlap and begin in different orders on different ranks. They end in one order, so they are
//! serialized in this order. Communications that ranks still do in opposite order are removed.

use crate::WriteOptions;
use crate::demotion::Demotion;
use crate::et::communication::{SimulatedComm, comm_of, even_bytes};
use crate::rank_agreement::{CommDecision, RankAgreement};
use crate::roofline_device::RooflineDevice;
use etlink_link::LinkedTrace;
use etlink_link::ranks::{
    CollectiveMatch, CommChannel, Communication, DeadlockCheck, GroupResolver, MatchMember,
    RankSummary, RunJoin,
};
use etlink_model::{MatchIdx, NodeIdx, UnixNs};
use indexmap::IndexMap;
use std::collections::BTreeMap;
use std::io;

/// Decisions that the files of all ranks share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunAgreement {
    /// Decisions per rank, in the order of the summaries.
    pub ranks: Vec<RankAgreement>,
    /// Used groups by number: the contents of `comm_group.json`.
    pub groups: BTreeMap<u32, Vec<u64>>,
    /// Entries of [`RunJoin::matches`] that were removed because ranks do them in opposite order.
    pub deadlocked: Vec<MatchIdx>,
    /// Device of the ranks.
    pub device: RooflineDevice,
}

impl RunAgreement {
    /// Sets the device whose peaks determine roofline times on all ranks, because a simulator has a
    /// single device type.
    pub fn set_device(&mut self, device: RooflineDevice) {
        let peaks = device.peaks();
        self.ranks.iter_mut().for_each(|rank| rank.peaks = peaks);
        self.device = device;
    }

    /// Returns true if any file has a communication.
    pub fn communicates(&self) -> bool {
        let mut decisions = self.ranks.iter().flat_map(|rank| &rank.decisions);
        decisions.any(|(_, decision)| matches!(decision, CommDecision::Communication { .. }))
    }
}

/// Returns the size of each of a rank's communications, in their order; `None` for a communication
/// that becomes computation in any case.
pub fn simulated_sizes(trace: &LinkedTrace, facts: &RankSummary) -> Vec<Option<i64>> {
    let groups = GroupResolver::new(trace);
    let options = WriteOptions::default();
    let mut sizes = vec![];
    for own in &facts.communications {
        let comm = comm_of(trace, &groups, &options, own.node);
        sizes.push(match comm.and_then(Result::ok) {
            Some(
                SimulatedComm::Collective { bytes, .. } | SimulatedComm::PointToPoint { bytes, .. },
            ) => {
                let record = trace.collective(&trace.nodes.get(own.node));
                let even = record.and_then(|record| even_bytes(&groups, &record, facts.rank));
                Some(even.unwrap_or(bytes))
            }
            None => None,
        });
    }
    sizes
}

/// Decides the communications that all ranks write. `sizes` are the results of [`simulated_sizes`],
/// rank by rank. Ranks without traces are assumed to take part in everything, unless `to_run` is
/// set: the files are then run on their own, with serialized communications.
pub fn agree(
    facts: &[RankSummary],
    sizes: &[Vec<Option<i64>>],
    join: &RunJoin,
    to_run: bool,
) -> RunAgreement {
    let mut decisions: Vec<CommDecision> = join
        .matches
        .iter()
        .map(|joint| match_decision(joint, sizes, to_run))
        .collect();
    // The order of starts comes first, because it is the order of the nodes and needs no list of
    // its own.
    let removed = |order| serial_order(facts, join, &decisions, order).into_removed();
    let (mut order, mut deadlocked) = (SerialOrder::Start, removed(SerialOrder::Start));
    // Kernels of several groups overlap and end in the same order on all ranks; that order is used
    // only if it saves collectives.
    if to_run && !deadlocked.is_empty() {
        let by_end = removed(SerialOrder::End);
        if by_end.len() < deadlocked.len() {
            (order, deadlocked) = (SerialOrder::End, by_end);
        }
    }
    for &joint in &deadlocked {
        decisions[joint.index()] = CommDecision::Compute(Demotion::OrderDiffers);
    }
    let mut agreed = RunAgreement {
        ranks: vec![RankAgreement::default(); facts.len()],
        groups: BTreeMap::new(),
        deadlocked,
        device: RooflineDevice::default(),
    };
    // Only groups still used by a communication are listed: ASTRA-sim builds all groups it reads.
    for (joint, decision) in join.matches.iter().zip(&decisions) {
        if let CommDecision::Communication {
            group: Some(number),
            ..
        } = decision
            && let Some(ranks) = join.groups.get(number)
        {
            agreed
                .groups
                .entry(*number)
                .or_insert_with(|| ranks.clone());
        }
        for part in &joint.members {
            // Members are indices into the joined summaries, so each has its node.
            let node = facts[part.rank.index()].communications[part.communication.index()].node;
            agreed.ranks[part.rank.index()]
                .decisions
                .push((node, *decision));
        }
    }
    for (facts, agreement) in facts.iter().zip(&mut agreed.ranks) {
        // Matches are grouped by group; `decision_for` searches by node.
        agreement.decisions.sort_unstable_by_key(|(node, _)| *node);
        if order == SerialOrder::End {
            let mut serial_order: Vec<&Communication> = facts.communications.iter().collect();
            serial_order.sort_by_key(|communication| order.key(communication));
            agreement.serial_order = serial_order
                .into_iter()
                .map(|communication| communication.node)
                .collect();
        }
    }
    agreed
}

/// Order in which a rank's communications are serialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SerialOrder {
    Start,
    End,
}

impl SerialOrder {
    /// Returns the sort key of a communication. Nodes are numbered by their starts.
    fn key(self, communication: &Communication) -> (UnixNs, NodeIdx) {
        match self {
            SerialOrder::Start => (UnixNs::default(), communication.node),
            SerialOrder::End => (communication.end_ns, communication.node),
        }
    }
}

fn match_decision(
    joint: &CollectiveMatch,
    sizes: &[Vec<Option<i64>>],
    without_absent: bool,
) -> CommDecision {
    let members = joint.members.iter();
    let sizes: Option<Vec<i64>> = members.map(|part| simulated_size(sizes, part)).collect();
    // If a rank lacks a collective, the others would wait in ASTRA-sim, which returns 0 all the
    // same.
    if !joint.is_whole() {
        return CommDecision::Compute(Demotion::Unmatched);
    }
    let Some(bytes) = sizes.and_then(|sizes| sizes.into_iter().max()) else {
        return CommDecision::Compute(Demotion::CannotRunElsewhere);
    };
    // A rank without a file gets an idle one, which never arrives.
    if without_absent && joint.absent > 0 {
        return CommDecision::Compute(Demotion::AbsentRank);
    }
    let group = match joint.channel {
        CommChannel::Group(number) => Some(number),
        CommChannel::Message { .. } => None,
    };
    CommDecision::Communication { group, bytes }
}

fn simulated_size(sizes: &[Vec<Option<i64>>], part: &MatchMember) -> Option<i64> {
    let of_rank = sizes.get(part.rank.index())?;
    *of_rank.get(part.communication.index())?
}

/// Checks the order in which each rank does its communications.
fn serial_order(
    facts: &[RankSummary],
    join: &RunJoin,
    decisions: &[CommDecision],
    order: SerialOrder,
) -> DeadlockCheck {
    DeadlockCheck::from_matches(
        facts,
        join,
        |joint| matches!(decisions[joint.index()], CommDecision::Communication { .. }),
        |communication| order.key(communication),
    )
}

/// Writes ASTRA-sim's group configuration: `{"1":[0,1],"2":[2,3]}`.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_groups(
    groups: &BTreeMap<u32, Vec<u64>>,
    out: &mut (impl io::Write + ?Sized),
) -> io::Result<()> {
    // Keys are decimal strings, as ASTRA-sim looks up a `pg_name`.
    let groups: IndexMap<String, &[u64]> = groups
        .iter()
        .map(|(number, ranks)| (number.to_string(), ranks.as_slice()))
        .collect();
    serde_json::to_writer(&mut *out, &groups)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests;
