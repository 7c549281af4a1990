//! What the ranks of one run have to agree on.
//!
//! ASTRA-sim matches collectives of a group by order, type and size, and messages by sender,
//! receiver and size; a rank whose counterpart does not come is stuck, and the simulator still
//! returns 0. Traces of one run differ: a window begins one collective later, and each rank of an
//! uneven all-to-all (experts) says its own size. So what has no counterpart becomes computation,
//! and where sizes differ the largest is taken. Kernels of different groups can overlap, and begin
//! in different orders on different ranks; they end in one order, so that is the order in which
//! they go one after the other. What ranks do in opposite order all the same is taken out.

use crate::WriteOptions;
use crate::demotion::Demotion;
use crate::et::communication::{SimulatedComm, comm_of};
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

/// What all ranks are written with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunAgreement {
    /// By rank, in the order of the facts.
    pub ranks: Vec<RankAgreement>,
    /// The groups that are used, by number: what `comm_group.json` has to say.
    pub groups: BTreeMap<u32, Vec<u64>>,
    /// Entries of [`RunJoin::matches`] that were taken out because ranks do them in opposite order.
    pub deadlocked: Vec<MatchIdx>,
    /// The device of the ranks.
    pub device: RooflineDevice,
}

impl RunAgreement {
    /// Sets the device that the times of a roofline are for: of all ranks, as a simulator has one.
    pub fn set_device(&mut self, device: RooflineDevice) {
        let peaks = device.peaks();
        self.ranks.iter_mut().for_each(|rank| rank.peaks = peaks);
        self.device = device;
    }

    /// Whether a file has a communication.
    pub fn communicates(&self) -> bool {
        let mut decisions = self.ranks.iter().flat_map(|rank| &rank.decisions);
        decisions.any(|(_, decision)| matches!(decision, CommDecision::Communication { .. }))
    }
}

/// The sizes with which a rank's communications would be written as such, in their order; `None`
/// for those that are computation on any account.
pub fn simulated_sizes(trace: &LinkedTrace, facts: &RankSummary) -> Vec<Option<i64>> {
    let groups = GroupResolver::new(trace);
    let options = WriteOptions::default();
    let mut sizes = vec![];
    for own in &facts.communications {
        let comm = comm_of(trace, &groups, &options, own.node);
        sizes.push(match comm.and_then(Result::ok) {
            Some(
                SimulatedComm::Collective { bytes, .. } | SimulatedComm::PointToPoint { bytes, .. },
            ) => Some(bytes),
            None => None,
        });
    }
    sizes
}

/// Decides what all ranks write. `sizes` are those of [`simulated_sizes`], rank by rank. Ranks
/// whose traces are not given take part in everything, unless the files are `to_run` by themselves,
/// with communications in turn.
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
    // The order of starts comes first, as it is that of the nodes and needs no list of its own.
    let mut deadlocked = serial_order(facts, join, &decisions, SerialOrder::Start).into_removed();
    let by_end = (to_run && !deadlocked.is_empty())
        .then(|| serial_order(facts, join, &decisions, SerialOrder::End).into_removed());
    // Kernels of several groups overlap and end in one order on all ranks; that order is used only
    // if it saves collectives.
    let by_end = by_end.filter(|out| out.len() < deadlocked.len());
    let order = if by_end.is_some() {
        SerialOrder::End
    } else {
        SerialOrder::Start
    };
    deadlocked = by_end.unwrap_or(deadlocked);
    for &joint in &deadlocked {
        decisions[joint.index()] = CommDecision::Compute(Demotion::OrderDiffers);
    }
    let mut agreed = RunAgreement {
        ranks: vec![RankAgreement::default(); facts.len()],
        groups: BTreeMap::new(),
        deadlocked,
        device: RooflineDevice::default(),
    };
    // Only groups that some communication still uses are listed: ASTRA-sim builds all it reads.
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
            // Members are indexes into the summaries that were joined, so that each has its node.
            let node = facts[part.rank.index()].communications[part.communication.index()].node;
            agreed.ranks[part.rank.index()]
                .decisions
                .push((node, *decision));
        }
    }
    for (facts, agreement) in facts.iter().zip(&mut agreed.ranks) {
        // Matches come group by group; `decision_for` searches by node.
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

/// In which order a rank's communications go one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SerialOrder {
    Start,
    End,
}

impl SerialOrder {
    /// Nodes are numbered by their starts.
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
    // A collective that a rank lacks would leave the others waiting in ASTRA-sim, which ends with 0
    // all the same.
    if !joint.is_whole() {
        return CommDecision::Compute(Demotion::Unmatched);
    }
    let Some(bytes) = sizes.and_then(|sizes| sizes.into_iter().max()) else {
        return CommDecision::Compute(Demotion::CannotRunElsewhere);
    };
    // A rank without a file gets an idle one, which never comes.
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

/// What each rank does in turn.
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
/// Those of `out`.
pub fn write_groups(
    groups: &BTreeMap<u32, Vec<u64>>,
    out: &mut (impl io::Write + ?Sized),
) -> io::Result<()> {
    // Keys are decimal strings, which is how ASTRA-sim looks up a `pg_name`.
    let groups: IndexMap<String, &[u64]> = groups
        .iter()
        .map(|(number, ranks)| (number.to_string(), ranks.as_slice()))
        .collect();
    serde_json::to_writer(&mut *out, &groups)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests;
