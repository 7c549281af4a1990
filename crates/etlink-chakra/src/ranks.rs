//! What the ranks of one run have to agree on.
//!
//! ASTRA-sim matches collectives of a group by order, type and size, and messages by sender, receiver and size; a rank whose
//! counterpart does not come is stuck, and the simulator still returns 0. Traces of one run differ: a window begins one
//! collective later, and each rank of an uneven all-to-all (experts) says its own size. So what has no counterpart becomes
//! computation, and where sizes differ the largest is taken. Kernels of different groups can overlap, and begin in different
//! orders on different ranks; they end in one order, so that is the order in which they take turns. What ranks do in opposite
//! order all the same is taken out.

use crate::et::comm::{Comm, comm_of};
use crate::{Demotion, WriteOptions};
use etlink_link::LinkedTrace;
use etlink_link::ranks::{
    CollectiveMatch, CommChannel, Communication, DeadlockCheck, GroupResolver, RankSummary, RunJoin,
};
use indexmap::IndexMap;
use std::collections::BTreeMap;
use std::io;

/// What becomes of a communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A communication node.
    Communication {
        /// Number of its group, for a collective.
        group: Option<u32>,
        /// Size, the same on all ranks.
        bytes: i64,
    },
    /// Computation with the measured duration.
    Compute(Demotion),
}

/// What one rank is written with: [`WriteOptions::agreed`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// By ascending node.
    fates: Vec<(u32, Fate)>,
    /// Nodes in the order in which they take turns, where that is not the order of nodes.
    pub(crate) turns: Vec<u32>,
}

impl Agreement {
    /// What becomes of a node; what no rank has spoken of is of a group that is not known.
    pub fn of(&self, node: u32) -> Fate {
        let at = self.fates.binary_search_by_key(&node, |(node, _)| *node);
        at.map_or(Fate::Compute(Demotion::UnknownGroup), |at| self.fates[at].1)
    }
}

/// What all ranks are written with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// By rank, in the order of the facts.
    pub ranks: Vec<Agreement>,
    /// The groups that are used, by number: what `comm_group.json` has to say.
    pub groups: BTreeMap<u32, Vec<u64>>,
    /// Entries of [`RunJoin::joints`] that were taken out because ranks do them in opposite order.
    pub out_of_turn: Vec<u32>,
}

/// The sizes with which a rank's communications would be written as such, in their order; `None` for those that are
/// computation on any account.
pub fn simulated(trace: &LinkedTrace, facts: &RankSummary) -> Vec<Option<i64>> {
    let (groups, options) = (GroupResolver::new(trace), WriteOptions::default());
    let size = |node: u32| match comm_of(trace, &groups, &options, node as usize)?.ok()? {
        Comm::Collective { bytes, .. } | Comm::PointToPoint { bytes, .. } => Some(bytes),
    };
    facts
        .communications
        .iter()
        .map(|communication| size(communication.node))
        .collect()
}

/// Decides what all ranks write. `sizes` are those of [`simulated`], rank by rank. Ranks whose traces are not given take part
/// in everything, unless the files are `to_run` by themselves, with communications in turn.
pub fn agree(
    facts: &[RankSummary],
    sizes: &[Vec<Option<i64>>],
    join: &RunJoin,
    to_run: bool,
) -> Agreed {
    let mut fates: Vec<Fate> = join
        .matches
        .iter()
        .map(|joint| fate(joint, sizes, to_run))
        .collect();
    let mut out_of_turn = turns(facts, join, &fates, Order::Start).into_removed();
    let by_end = (to_run && !out_of_turn.is_empty())
        .then(|| turns(facts, join, &fates, Order::End).into_removed());
    let by_end = by_end.filter(|out| out.len() < out_of_turn.len());
    let order = if by_end.is_some() {
        Order::End
    } else {
        Order::Start
    };
    out_of_turn = by_end.unwrap_or(out_of_turn);
    for &joint in &out_of_turn {
        fates[joint as usize] = Fate::Compute(Demotion::OrderDiffers);
    }
    let mut agreed = Agreed {
        ranks: vec![Agreement::default(); facts.len()],
        groups: BTreeMap::new(),
        out_of_turn,
    };
    for (joint, fate) in join.matches.iter().zip(&fates) {
        if let Fate::Communication {
            group: Some(number),
            ..
        } = fate
            && let Some(ranks) = join.groups.get(number)
        {
            agreed
                .groups
                .entry(*number)
                .or_insert_with(|| ranks.clone());
        }
        for part in &joint.members {
            let node = facts[part.rank as usize].communications[part.communication as usize].node;
            agreed.ranks[part.rank as usize].fates.push((node, *fate));
        }
    }
    for (facts, agreement) in facts.iter().zip(&mut agreed.ranks) {
        agreement.fates.sort_unstable_by_key(|(node, _)| *node);
        if order == Order::End {
            let mut turns: Vec<&Communication> = facts.communications.iter().collect();
            turns.sort_by_key(|communication| order.key(communication));
            agreement.turns = turns
                .into_iter()
                .map(|communication| communication.node)
                .collect();
        }
    }
    agreed
}

/// In which order a rank's communications take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Start,
    End,
}

impl Order {
    /// Nodes are numbered by their starts.
    fn key(self, communication: &Communication) -> (i64, u32) {
        match self {
            Order::Start => (0, communication.node),
            Order::End => (communication.end_ns, communication.node),
        }
    }
}

fn fate(joint: &CollectiveMatch, sizes: &[Vec<Option<i64>>], without_absent: bool) -> Fate {
    let size = |part: &etlink_link::ranks::MatchMember| {
        sizes
            .get(part.rank as usize)?
            .get(part.communication as usize)
            .copied()?
    };
    let sizes: Option<Vec<i64>> = joint.members.iter().map(size).collect();
    if !joint.is_whole() {
        return Fate::Compute(Demotion::Unmatched);
    }
    let Some(bytes) = sizes.and_then(|sizes| sizes.into_iter().max()) else {
        return Fate::Compute(Demotion::CannotRunElsewhere);
    };
    if without_absent && joint.absent > 0 {
        return Fate::Compute(Demotion::AbsentRank);
    }
    let group = match joint.channel {
        CommChannel::Group(number) => Some(number),
        CommChannel::Message { .. } => None,
    };
    Fate::Communication { group, bytes }
}

/// What each rank does in turn.
fn turns(facts: &[RankSummary], join: &RunJoin, fates: &[Fate], order: Order) -> DeadlockCheck {
    DeadlockCheck::from_matches(
        facts,
        join,
        |joint| matches!(fates[joint], Fate::Communication { .. }),
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
    let groups: IndexMap<String, &[u64]> = groups
        .iter()
        .map(|(number, ranks)| (number.to_string(), ranks.as_slice()))
        .collect();
    serde_json::to_writer(&mut *out, &groups)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests;
