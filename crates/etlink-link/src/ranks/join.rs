//! Matches the communications of the ranks.
//!
//! Collectives of a group are paired by their number in it (`Seq`) if the ranks count alike, else
//! by their order in the group; messages by their order from one rank to another. Gloo counts sends
//! and receives with the collectives, so numbers can differ between ranks: then order decides.
//!
//! A side whose device row the recorder lost keeps its place in that order, as it was launched, so
//! later sides still face their own. Nothing is computed from such a collective, nor from one that
//! is a device row on one rank and a call on another: the arrival of a rank's device is unknown.
//! Only [`CollectiveMatch::is_whole`] decides this.

pub(super) mod problems;
mod resolve;

pub use problems::{JoinProblem, JoinProblemKind, ProblemExample, rank_list};

use super::inferred::{TimedComm, shift_of};
use super::stated_steps::shift_by_steps;
use super::{Communication, GroupIdentity, Peers, RankSummary};
use etlink_model::{CollectiveKind, CommIdx, GlobalRank, GroupIdx, NodeIdx, RankIdx, UnixNs};
use problems::Problems;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Participants of a communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommChannel {
    /// Ranks of a group, by its number in [`RunJoin::groups`].
    Group(u32),
    /// Message from one global rank to another.
    Message {
        /// Sender.
        src: GlobalRank,
        /// Receiver.
        dst: GlobalRank,
    },
}

/// One rank's side of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatchMember {
    /// Index of the rank among the joined ones.
    pub rank: RankIdx,
    /// Index among the rank's communications.
    pub communication: CommIdx,
}

/// Difference between the ranks of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The kind of the collective differs, or two sends face each other.
    Kind,
    /// The element type differs.
    Dtype,
    /// The size differs.
    Size,
    /// One rank has a device row, another only the call.
    Recorded,
    /// A rank lost unidentified rows, so order does not show which sides face each other.
    Order,
}

/// Communications of several ranks that are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveMatch {
    /// Participants.
    pub channel: CommChannel,
    /// `Seq`, or the index in the channel's order.
    pub number: i64,
    /// Kind according to the first rank.
    pub kind: CollectiveKind,
    /// Sides, sorted by rank.
    pub members: Vec<MatchMember>,
    /// Global ranks whose traces are here but lack it.
    pub missing: Vec<GlobalRank>,
    /// Global ranks whose traces have its launch, but not its device row: the recorder lost it.
    pub lost: Vec<GlobalRank>,
    /// Global ranks whose recordings had ended or had not begun.
    pub outside: Vec<GlobalRank>,
    /// Number of participating ranks whose traces are not here.
    pub absent: u32,
    /// Most serious difference; `None` if the sides agree.
    pub differs: Option<Mismatch>,
}

impl CollectiveMatch {
    /// True if the traces of several of its ranks are here; otherwise there is nothing to compare.
    pub fn is_shared(&self) -> bool {
        self.members.len() + self.missing.len() + self.lost.len() > 1
    }

    /// True if all ranks whose traces are here have it with the same kind, so their times can be
    /// compared.
    pub fn is_whole(&self) -> bool {
        self.is_one() && self.outside.is_empty()
    }

    /// True if all ranks that recorded its time have it with the same kind.
    fn is_one(&self) -> bool {
        use Mismatch::{Kind, Order, Recorded};
        let are_alike = !matches!(self.differs, Some(Kind | Order | Recorded));
        self.missing.is_empty() && self.lost.is_empty() && are_alike
    }
}

/// Common groups and communications of the ranks.
#[derive(Clone, Debug, Default)]
pub struct RunJoin {
    /// Groups by number from 1, as ascending global ranks. Groups of one rank are left out.
    pub groups: BTreeMap<u32, Vec<u64>>,
    /// Groups that no record names: their kernels end together.
    pub inferred: BTreeSet<u32>,
    /// Communications, sorted by first start on the ranks' own clocks.
    pub matches: Vec<CollectiveMatch>,
    /// Missing, differing or unknown communications.
    pub problems: Vec<JoinProblem>,
}

impl RunJoin {
    /// True if there are communications without any record: no statement about the run is complete.
    pub fn has_unrecorded(&self) -> bool {
        let mut problems = self.problems.iter();
        problems.any(|problem| problem.kind == JoinProblemKind::GlooUnrecorded)
    }

    /// Returns the parts of the ranks that match among themselves, but not in the communications
    /// that they share with the others: their traces are probably from another run. The largest
    /// part is none of them, nor is any if nothing fits and no kinds differ.
    pub fn strangers(&self, ranks: &[RankSummary]) -> Vec<Vec<GlobalRank>> {
        let mut part: Vec<usize> = (0..ranks.len()).collect();
        for matched in self.matches.iter().filter(|matched| matched.is_one()) {
            for pair in matched.members.windows(2) {
                let [to, from] = [pair[0], pair[1]].map(|member| part[member.rank.index()]);
                if from != to {
                    let moved = part.iter_mut().filter(|part| **part == from);
                    moved.for_each(|part| *part = to);
                }
            }
        }
        let places = ranks.iter().map(|summary| summary.rank).zip(0..);
        let places: BTreeMap<GlobalRank, usize> = places.collect();
        // a rank without any communication is no stranger: nothing of it could match
        let mut communicates = vec![false; ranks.len()];
        for member in self.matches.iter().flat_map(|matched| &matched.members) {
            communicates[member.rank.index()] = true;
        }
        let mut apart = BTreeSet::new();
        for matched in self.matches.iter().filter(|matched| !matched.is_one()) {
            let members = matched.members.iter().map(|member| member.rank.index());
            let lacking = matched.missing.iter().chain(&matched.lost);
            let lacking = lacking.filter_map(|rank| places.get(rank).copied());
            let lacking = lacking.filter(|at| communicates[*at]);
            let parts: BTreeSet<usize> = members.chain(lacking).map(|at| part[at]).collect();
            if parts.len() > 1 {
                apart.extend(parts);
            }
        }
        let mut parts: BTreeMap<usize, Vec<GlobalRank>> = BTreeMap::new();
        for (part, summary) in part.into_iter().zip(ranks) {
            parts.entry(part).or_default().push(summary.rank);
        }
        let kinds_differ = |matched: &CollectiveMatch| matched.differs == Some(Mismatch::Kind);
        if parts.len() == ranks.len() && !self.matches.iter().any(kinds_differ) {
            return vec![];
        }
        let sizes = parts.iter().map(|(part, own)| (own.len(), Reverse(*part)));
        if let Some((_, Reverse(largest))) = sizes.max() {
            apart.remove(&largest);
        }
        parts.retain(|part, _| apart.contains(part));
        parts.into_values().collect()
    }

    /// Describes a collective: `all_reduce 9 of ranks 0, 1`, `message 3 from rank 0 to rank 1`.
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

    /// Returns the ranks of a channel.
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

/// Sides in a channel, by rank index, sorted by time.
type RankLists = BTreeMap<RankIdx, Vec<RankSide>>;

/// A rank's side of a collective, by index in the rank's list.
#[derive(Clone, Copy, Debug)]
enum RankSide {
    Recorded(CommIdx),
    /// Index in [`RankSummary::lost`].
    Lost(usize),
}

impl RankSide {
    /// Lists the sides of a rank. Lost ones come before the next launched one.
    fn all(summary: &RankSummary) -> Vec<RankSide> {
        let mut lost: Vec<(NodeIdx, usize)> = vec![];
        for (place, one) in summary.lost.iter().enumerate() {
            lost.push((one.before, place));
        }
        lost.sort_unstable();
        let mut lost = lost.into_iter().peekable();
        let mut sides = vec![];
        for (index, communication) in (0u32..).map(CommIdx).zip(&summary.communications) {
            while let Some((_, place)) = lost.next_if(|(before, _)| *before <= communication.node) {
                sides.push(RankSide::Lost(place));
            }
            sides.push(RankSide::Recorded(index));
        }
        sides.extend(lost.map(|(_, place)| RankSide::Lost(place)));
        sides
    }

    fn peers(self, summary: &RankSummary) -> (Peers, CollectiveKind) {
        match self {
            RankSide::Recorded(index) => {
                let one = &summary.communications[index.index()];
                (one.peers, one.kind)
            }
            RankSide::Lost(place) => (summary.lost[place].peers, summary.lost[place].kind),
        }
    }

    fn seq(self, summary: &RankSummary) -> Option<i64> {
        match self {
            RankSide::Recorded(index) => summary.communications[index.index()].seq,
            RankSide::Lost(place) => summary.lost[place].seq,
        }
    }
}

/// Sides that form one collective.
#[derive(Default)]
struct PairedSides {
    members: Vec<MatchMember>,
    lost: Vec<GlobalRank>,
}

/// Joins the ranks of one run, which must be distinct.
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
        let group = |group: GroupIdx| *numbers.of_rank.get(at.index())?.get(group.index())?;
        for side in RankSide::all(summary) {
            let communication = match side {
                RankSide::Recorded(index) => Some(&summary.communications[index.index()]),
                RankSide::Lost(_) => None,
            };
            let (peers, kind) = side.peers(summary);
            match channel_of(&join, summary.rank, peers, kind, group) {
                Ok(Some(channel)) => {
                    let lists: &mut RankLists = channels.entry(channel).or_default();
                    lists.entry(at).or_default().push(side);
                }
                Ok(None) => {}
                Err(kind) => {
                    communication.inspect(|one| problems.stray(kind, summary, one));
                }
            }
        }
    }
    let given: BTreeSet<GlobalRank> = ranks.iter().map(|summary| summary.rank).collect();
    for (channel, lists) in &channels {
        let group_ranks = join.group_ranks(*channel);
        // Messages have no common number: a group's `Seq` counts those of all pairs.
        let numbered = matches!(channel, CommChannel::Group(_)) && numbered(ranks, lists);
        let is_order_known = numbered || is_order_known(ranks, lists);
        let mut of_channel = vec![];
        for (number, sides) in paired(ranks, lists, numbered) {
            if sides.members.is_empty() {
                continue;
            }
            let mut matched = matched(ranks, &given, &group_ranks, *channel, number, sides);
            if !is_order_known {
                matched.differs = Some(Mismatch::Order);
            }
            of_channel.push(matched);
        }
        set_outside(ranks, &mut of_channel);
        join.matches.append(&mut of_channel);
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

/// Start of the collective on its first rank, by that rank's own clock.
fn first_start(ranks: &[RankSummary], matched: &CollectiveMatch) -> Option<UnixNs> {
    let members = matched.members.iter();
    members.map(|member| side(ranks, *member).1.start_ns).min()
}

fn channel_of(
    join: &RunJoin,
    own: GlobalRank,
    peers: Peers,
    kind: CollectiveKind,
    group_number: impl Fn(GroupIdx) -> Option<u32>,
) -> Result<Option<CommChannel>, JoinProblemKind> {
    match (peers, kind) {
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

/// Returns the rank and the communication of a side.
pub(super) fn side(ranks: &[RankSummary], member: MatchMember) -> (&RankSummary, &Communication) {
    let summary = &ranks[member.rank.index()];
    (
        summary,
        &summary.communications[member.communication.index()],
    )
}

/// True if `Seq` identifies the collectives: most numbers are common to all ranks.
fn numbered(ranks: &[RankSummary], lists: &RankLists) -> bool {
    let mut all: Vec<BTreeSet<i64>> = Vec::with_capacity(lists.len());
    for (rank, list) in lists {
        let numbers = list.iter().map(|side| side.seq(&ranks[rank.index()]));
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

/// True if the n-th side of one rank is the n-th of another. Unidentified lost rows may belong to
/// this channel, and all ranks would then have equally many only if none did.
fn is_order_known(ranks: &[RankSummary], lists: &RankLists) -> bool {
    let mut counts = lists.values().map(Vec::len);
    let first = counts.next();
    let lacks = |rank: &RankIdx| ranks[rank.index()].lost_unnamed > 0;
    counts.all(|count| Some(count) == first) || !lists.keys().any(lacks)
}

/// Groups sides by number, and by order among those that share one (coalesced collectives).
fn paired(
    ranks: &[RankSummary],
    lists: &RankLists,
    numbered: bool,
) -> impl Iterator<Item = (i64, PairedSides)> {
    let mut found: BTreeMap<(i64, u32), PairedSides> = BTreeMap::new();
    let firsts = if numbered {
        BTreeMap::new()
    } else {
        first_numbers(ranks, lists)
    };
    for (&rank, list) in lists {
        let mut seen: BTreeMap<i64, u32> = BTreeMap::new();
        let summary = &ranks[rank.index()];
        let first = firsts.get(&rank).copied().unwrap_or(0);
        for (place, side) in (first..).zip(list) {
            let number = match side.seq(summary) {
                Some(number) if numbered => number,
                _ => place,
            };
            // Collectives within one `ncclGroupStart` and `ncclGroupEnd` share a number
            // (`_coalescing_manager`).
            let again = seen.entry(number).or_default();
            let paired = found.entry((number, *again)).or_default();
            match *side {
                RankSide::Recorded(communication) => paired.members.push(MatchMember {
                    rank,
                    communication,
                }),
                RankSide::Lost(_) => paired.lost.push(summary.rank),
            }
            *again += 1;
        }
    }
    found
        .into_iter()
        .map(|((number, _), sides)| (number, sides))
}

/// Returns the number of each rank's first communication if nothing numbers them: recordings begin
/// at different times, and ends show the shift, or else steps that both ranks number equally. The
/// first to begin counts from 0.
fn first_numbers(ranks: &[RankSummary], lists: &RankLists) -> BTreeMap<RankIdx, i64> {
    let recorded = |list: &[RankSide]| -> Option<Vec<CommIdx>> {
        let all = list.iter().map(|side| match side {
            RankSide::Recorded(index) => Some(*index),
            // the time of a lost side is unknown
            RankSide::Lost(_) => None,
        });
        all.collect()
    };
    let recorded = lists
        .iter()
        .map(|(rank, list)| Some((*rank, recorded(list)?)));
    let Some(recorded) = recorded.collect::<Option<Vec<_>>>() else {
        return BTreeMap::new();
    };
    let Some((reference, first)) = recorded.first() else {
        return BTreeMap::new();
    };
    let timed = |summary: &RankSummary, list: &[CommIdx]| -> Vec<TimedComm> {
        let all = list.iter().map(|index| {
            let own = &summary.communications[index.index()];
            TimedComm {
                kind: own.kind,
                start_ns: own.start_ns,
                end_ns: own.end_ns,
            }
        });
        all.collect()
    };
    let one = &ranks[reference.index()];
    let first_timed = timed(one, first);
    let mut firsts = BTreeMap::from([(*reference, 0)]);
    for (rank, other) in &recorded[1..] {
        let two = &ranks[rank.index()];
        let by_ends = shift_of((one, &first_timed), (two, &timed(two, other)));
        let shift = by_ends.or_else(|| shift_by_steps((one, first), (two, other)));
        firsts.insert(*rank, -shift.unwrap_or(0));
    }
    let least = firsts.values().min().copied().unwrap_or(0);
    firsts.values_mut().for_each(|first| *first -= least);
    firsts
}

/// Separates ranks that miss a collective of a channel from those that were not recorded at the
/// time: it is before their first or after their last one, and before or after everything they
/// recorded.
fn set_outside(ranks: &[RankSummary], matches: &mut [CollectiveMatch]) {
    if matches.iter().all(|matched| matched.missing.is_empty()) {
        return;
    }
    let mut spans: Vec<Option<(usize, usize)>> = vec![None; ranks.len()];
    for (place, matched) in matches.iter().enumerate() {
        for member in &matched.members {
            let span = &mut spans[member.rank.index()];
            *span = Some((span.map_or(place, |(first, _)| first), place));
        }
    }
    let places: BTreeMap<GlobalRank, usize> =
        ranks.iter().map(|summary| summary.rank).zip(0..).collect();
    for place in 0..matches.len() {
        let mut outside = vec![];
        for rank in &matches[place].missing {
            let Some((at, span)) = places.get(rank).and_then(|at| Some((*at, spans[*at]?))) else {
                continue;
            };
            let is_before = place < span.0;
            let near = if is_before { span.0 } else { span.1 };
            if (is_before || place > span.1)
                && is_outside(
                    ranks,
                    &ranks[at],
                    &matches[near].members,
                    &matches[place],
                    is_before,
                )
            {
                outside.push(*rank);
            }
        }
        let matched = &mut matches[place];
        matched.missing.retain(|rank| !outside.contains(rank));
        matched.outside = outside;
    }
}

/// True if a collective is before or after everything a rank recorded, by the rank's clock. `near`
/// is the nearest collective of the channel that the rank has.
fn is_outside(
    ranks: &[RankSummary],
    summary: &RankSummary,
    near: &[MatchMember],
    matched: &CollectiveMatch,
    is_before: bool,
) -> bool {
    let (begin, end) = summary.window_ns;
    if begin >= end {
        return false;
    }
    let mut own = near.iter().map(|member| side(ranks, *member));
    let own = own.find(|(other, _)| other.rank == summary.rank);
    let of_rank = |rank: RankIdx| near.iter().find(|member| member.rank == rank);
    let shared = matched
        .members
        .iter()
        .find_map(|member| Some((*member, *of_rank(member.rank)?)));
    let (Some((_, own)), Some((there, near))) = (own, shared) else {
        return false;
    };
    let ahead = own.end_ns.since(side(ranks, near).1.end_ns);
    let there = side(ranks, there).1;
    if is_before {
        there.start_ns.since(begin).saturating_add(ahead) < 0
    } else {
        there.end_ns.since(end).saturating_add(ahead) > 0
    }
}

fn matched(
    ranks: &[RankSummary],
    given: &BTreeSet<GlobalRank>,
    group_ranks: &[GlobalRank],
    channel: CommChannel,
    number: i64,
    PairedSides { members, lost }: PairedSides,
) -> CollectiveMatch {
    let have = members.iter().map(|member| side(ranks, *member).0.rank);
    let have: BTreeSet<GlobalRank> = have.chain(lost.iter().copied()).collect();
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
        lost,
        outside: vec![],
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
        .any(|((_, one), (_, other))| one.on_device != other.on_device)
    {
        return Some(Mismatch::Recorded);
    }
    // of an inferred collective, some ranks may have a size from a log
    let is_inferred = |summary: &RankSummary, one: &Communication| match one.peers {
        Peers::Group(group) => matches!(
            summary.groups.get(group.index()),
            Some(GroupIdentity::Inferred(_))
        ),
        Peers::Peer(_) => false,
    };
    let mut pairs = pairs.filter(|((summary, one), (_, other))| {
        one.is_sized == other.is_sized || !is_inferred(summary, one)
    });
    if pairs
        .clone()
        .any(|((a, one), (b, other))| a.names.get(one.dtype) != b.names.get(other.dtype))
    {
        return Some(Mismatch::Dtype);
    }
    let is_other_size = pairs.any(|((_, one), (_, other))| one.in_bytes != other.in_bytes);
    is_other_size.then_some(Mismatch::Size)
}

#[cfg(test)]
mod tests;
