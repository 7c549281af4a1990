//! Which communications of the ranks are one.
//!
//! Collectives of a group are paired by their number in it (`Seq`), where the ranks count alike,
//! else by their order in the group; messages by their order from one rank to another. Gloo counts
//! sends and receives with the collectives, so that numbers can differ between ranks: then order
//! tells.

pub(super) mod problems;
mod resolve;

pub use problems::{JoinProblem, JoinProblemKind, ProblemExample, rank_list};

use super::{Communication, Peers, RankSummary};
use etlink_model::{CollectiveKind, CommIdx, GlobalRank, GroupIdx, RankIdx, UnixNs};
use problems::Problems;
use std::collections::{BTreeMap, BTreeSet};

/// Between whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommChannel {
    /// The ranks of a group, by its number in [`RunJoin::groups`].
    Group(u32),
    /// From one global rank to another.
    Message {
        /// The sender.
        src: GlobalRank,
        /// The receiver.
        dst: GlobalRank,
    },
}

/// One rank's side of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatchMember {
    /// Which of the joined ranks, by place.
    pub rank: RankIdx,
    /// Which of its communications.
    pub communication: CommIdx,
}

/// What the ranks of a collective say differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The type of the collective, or two sends face each other.
    Kind,
    /// The element type.
    Dtype,
    /// The size.
    Size,
}

/// Communications that are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveMatch {
    /// Between whom.
    pub channel: CommChannel,
    /// `Seq`, or the place in the channel's order.
    pub number: i64,
    /// What the first rank says it is.
    pub kind: CollectiveKind,
    /// By rank.
    pub members: Vec<MatchMember>,
    /// Global ranks whose traces are here but do not have it.
    pub missing: Vec<GlobalRank>,
    /// How many ranks take part whose traces are not here.
    pub absent: u32,
    /// What does not agree, the gravest.
    pub differs: Option<Mismatch>,
}

impl CollectiveMatch {
    /// Whether the traces of several of its ranks are here; else there is nothing to compare.
    pub fn is_shared(&self) -> bool {
        self.members.len() + self.missing.len() > 1
    }

    /// Whether all ranks whose traces are here have it and say the same kind.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.differs != Some(Mismatch::Kind)
    }
}

/// What the ranks have in common.
#[derive(Clone, Debug, Default)]
pub struct RunJoin {
    /// Groups by number from 1, as ascending global ranks. A group of one rank is none.
    pub groups: BTreeMap<u32, Vec<u64>>,
    /// Those of them that no record names: their kernels end together.
    pub inferred: BTreeSet<u32>,
    /// By first start, as the ranks' own clocks have it.
    pub matches: Vec<CollectiveMatch>,
    /// What is missing, unequal or not known.
    pub problems: Vec<JoinProblem>,
}

impl RunJoin {
    /// Whether there are communications of which nothing is known but that they are: no sentence on
    /// the run is complete.
    pub fn has_unrecorded(&self) -> bool {
        let mut problems = self.problems.iter();
        problems.any(|problem| problem.kind == JoinProblemKind::GlooUnrecorded)
    }

    /// Ranks, by place, that have collectives or messages with others but none that fits, while
    /// those of others do: their traces are probably of another run.
    pub fn ranks_without_match(&self, ranks: usize) -> Vec<RankIdx> {
        let (mut has, mut fits) = (vec![false; ranks], vec![false; ranks]);
        for matched in &self.matches {
            for member in &matched.members {
                let at = member.rank.index();
                (has[at], fits[at]) = (
                    has[at] || matched.is_shared(),
                    fits[at] || matched.is_whole() && matched.members.len() > 1,
                );
            }
        }
        let any = fits.contains(&true);
        (0..ranks)
            .filter(|at| any && has[*at] && !fits[*at])
            .map(RankIdx::new)
            .collect()
    }

    /// A collective for people: `all_reduce 9 of ranks 0, 1`, `message 3 from rank 0 to rank 1`.
    pub fn describe(&self, matched: &CollectiveMatch) -> String {
        match matched.channel {
            CommChannel::Message { src, dst } => {
                format!("message {} from rank {src} to rank {dst}", matched.number)
            }
            CommChannel::Group(_) => format!(
                "{} {} of {}",
                matched.kind.name(),
                matched.number,
                rank_list("rank", &self.group_ranks(matched.channel))
            ),
        }
    }

    /// The ranks of a channel.
    pub fn group_ranks(&self, channel: CommChannel) -> Vec<GlobalRank> {
        match channel {
            CommChannel::Message { src, dst } => vec![src, dst],
            CommChannel::Group(number) => {
                let ranks = self.groups.get(&number).into_iter().flatten();
                ranks
                    .filter_map(|rank| i64::try_from(*rank).ok())
                    .map(GlobalRank)
                    .collect()
            }
        }
    }
}

/// Per rank, by place, its communications in a channel, in order of time.
type RankLists = BTreeMap<RankIdx, Vec<CommIdx>>;

/// Joins the ranks of one run; no two are of the same rank.
pub fn join_ranks(ranks: &[RankSummary]) -> RunJoin {
    let numbers = resolve::groups(ranks);
    let mut join = RunJoin {
        groups: numbers.groups,
        inferred: numbers.inferred,
        ..RunJoin::default()
    };
    let mut problems = Problems::default();
    let mut channels: BTreeMap<CommChannel, RankLists> = BTreeMap::new();
    for (at, summary) in (0u32..).map(RankIdx).zip(ranks) {
        problems.gloo_unrecorded(summary);
        for (index, communication) in (0u32..).map(CommIdx).zip(&summary.communications) {
            let group = |group: GroupIdx| *numbers.of_rank.get(at.index())?.get(group.index())?;
            match channel_of(&join, summary, communication, group) {
                Ok(Some(channel)) => channels
                    .entry(channel)
                    .or_default()
                    .entry(at)
                    .or_default()
                    .push(index),
                Ok(None) => {}
                Err(kind) => problems.stray(kind, summary, communication),
            }
        }
    }
    let given: BTreeSet<GlobalRank> = ranks.iter().map(|summary| summary.rank).collect();
    for (channel, lists) in &channels {
        let group_ranks = join.group_ranks(*channel);
        // Messages have no number in common: a group's `Seq` counts those of all pairs.
        let numbered = matches!(channel, CommChannel::Group(_)) && numbered(ranks, lists);
        for (number, members) in paired(ranks, lists, numbered) {
            join.matches.push(matched(
                ranks,
                &given,
                &group_ranks,
                *channel,
                number,
                members,
            ));
        }
    }
    join.matches.sort_by_cached_key(|matched| {
        let start = first_start(ranks, matched);
        (start, matched.channel, matched.number)
    });
    for matched in &join.matches {
        problems.matched(ranks, &join.groups, matched);
    }
    join.problems = problems.sorted();
    join
}

/// When the first rank begins it, by that rank's own clock.
fn first_start(ranks: &[RankSummary], matched: &CollectiveMatch) -> Option<UnixNs> {
    let members = matched.members.iter();
    members.map(|member| side(ranks, *member).1.start_ns).min()
}

fn channel_of(
    join: &RunJoin,
    summary: &RankSummary,
    communication: &Communication,
    group_number: impl Fn(GroupIdx) -> Option<u32>,
) -> Result<Option<CommChannel>, JoinProblemKind> {
    let own = summary.rank;
    match (communication.peers, communication.kind) {
        (Peers::Peer(None), _) => Err(JoinProblemKind::UnknownPeer),
        (Peers::Peer(Some(peer)), _) if peer == own => Err(JoinProblemKind::OwnPeer),
        (Peers::Peer(Some(peer)), CollectiveKind::Send) => Ok(Some(CommChannel::Message {
            src: own,
            dst: peer,
        })),
        (Peers::Peer(Some(peer)), _) => Ok(Some(CommChannel::Message {
            src: peer,
            dst: own,
        })),
        (Peers::Group(group), _) => {
            let number = group_number(group).ok_or(JoinProblemKind::UnknownGroup)?;
            match join.groups.get(&number) {
                // a group of one rank
                None => Ok(None),
                Some(ranks) if u64::try_from(own.0).is_ok_and(|own| ranks.contains(&own)) => {
                    Ok(Some(CommChannel::Group(number)))
                }
                Some(_) => Err(JoinProblemKind::NotAMember),
            }
        }
    }
}

/// A part's rank and communication.
pub(super) fn side(ranks: &[RankSummary], member: MatchMember) -> (&RankSummary, &Communication) {
    let summary = &ranks[member.rank.index()];
    (
        summary,
        &summary.communications[member.communication.index()],
    )
}

/// Whether `Seq` tells which collectives are one: most numbers are common to all ranks.
fn numbered(ranks: &[RankSummary], lists: &RankLists) -> bool {
    let mut all: Vec<BTreeSet<i64>> = Vec::with_capacity(lists.len());
    for (rank, list) in lists {
        let communications = &ranks[rank.index()].communications;
        let numbers = list
            .iter()
            .map(|communication| communications[communication.index()].seq);
        match numbers.collect() {
            Some(numbers) => all.push(numbers),
            None => return false,
        }
    }
    let longest = all.iter().map(BTreeSet::len).max().unwrap_or(0);
    let shared = all.into_iter().reduce(|all, other| &all & &other);
    // Recording windows differ by some collectives at both ends; ranks that count differently share
    // few numbers.
    shared.is_some_and(|shared| 2 * shared.len() >= longest)
}

/// Parts by number, and by order among those that share one (coalesced collectives).
fn paired(
    ranks: &[RankSummary],
    lists: &RankLists,
    numbered: bool,
) -> impl Iterator<Item = (i64, Vec<MatchMember>)> {
    let mut found: BTreeMap<(i64, u32), Vec<MatchMember>> = BTreeMap::new();
    for (&rank, list) in lists {
        let mut seen: BTreeMap<i64, u32> = BTreeMap::new();
        for (place, &communication) in (0..).zip(list) {
            let member = MatchMember {
                rank,
                communication,
            };
            let number = match side(ranks, member).1.seq {
                Some(number) if numbered => number,
                _ => place,
            };
            // Collectives of one `ncclGroupStart` and `ncclGroupEnd` share a number
            // (`_coalescing_manager`).
            let again = seen.entry(number).or_default();
            found.entry((number, *again)).or_default().push(member);
            *again += 1;
        }
    }
    found
        .into_iter()
        .map(|((number, _), members)| (number, members))
}

fn matched(
    ranks: &[RankSummary],
    given: &BTreeSet<GlobalRank>,
    group_ranks: &[GlobalRank],
    channel: CommChannel,
    number: i64,
    members: Vec<MatchMember>,
) -> CollectiveMatch {
    let have: BTreeSet<GlobalRank> = members
        .iter()
        .map(|member| side(ranks, *member).0.rank)
        .collect();
    let missing = group_ranks
        .iter()
        .copied()
        .filter(|rank| given.contains(rank) && !have.contains(rank))
        .collect();
    let absent = group_ranks
        .iter()
        .filter(|rank| !given.contains(rank))
        .count();
    let kind = members
        .first()
        .map_or(CollectiveKind::Other, |member| side(ranks, *member).1.kind);
    let differs = differs(ranks, &members);
    CollectiveMatch {
        channel,
        number,
        kind,
        members,
        missing,
        absent: u32::try_from(absent).unwrap_or(u32::MAX),
        differs,
    }
}

fn differs(ranks: &[RankSummary], members: &[MatchMember]) -> Option<Mismatch> {
    let pairs = members
        .windows(2)
        .map(|pair| (side(ranks, pair[0]), side(ranks, pair[1])));
    // The two sides of a message must differ in kind, those of a collective must agree. No channel
    // has both messages and collectives.
    if pairs
        .clone()
        .any(|((_, one), (_, other))| (one.kind == other.kind) == one.is_message())
    {
        return Some(Mismatch::Kind);
    }
    if pairs
        .clone()
        .any(|((a, one), (b, other))| a.names.get(one.dtype) != b.names.get(other.dtype))
    {
        return Some(Mismatch::Dtype);
    }
    let mut pairs = pairs;
    let is_other_size = pairs.any(|((_, one), (_, other))| one.in_bytes != other.in_bytes);
    is_other_size.then_some(Mismatch::Size)
}

#[cfg(test)]
mod tests;
