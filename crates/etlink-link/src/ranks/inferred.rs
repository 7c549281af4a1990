//! Matches kernels without records to collectives, by their order and their ends.
//!
//! PyTorch before 2.2, kernels of captured graphs and the all-reduces of inference engines do not
//! record communications and peers. But ranks of a group run the same kinds in the same order, and
//! a collective ends nearly simultaneously on all of them, however late each arrived:
//! ```text
//! rank 0   [====]        [=======]     [==]
//! rank 1      [=]    [===========]   [====]     one group: ends differ by a constant
//! rank 2    [==]      [====]    [======]        another
//! ```
//! The constant is the clock difference of two machines; it is 0 on one machine. Kernels are
//! compared per stream, then per kind within the rest of a stream. Matched kernels get a group and
//! a number, as if recorded, and [`join_ranks`](super::join_ranks) does the rest. Sizes stay
//! unknown. O(k log k) in the kernels of a stream, times the groups.

use super::{
    CommExtent, Communication, GroupIdentity, Peers, RankSet, RankSummary, UnrecordedKernel,
};
use crate::limits::{ENDS_APART, LEAST_INFERRED, LEAST_INFERRED_OF_MACHINE, MAX_CLOCKS_APART};
use etlink_model::{CollectiveKind, GroupIdx, NodeIdx, StepIdx, UnixNs};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of extra kernels at either end of one rank's recording.
const MAX_SHIFT: i64 = 16;

/// Number of additional matches required for shifted sequences.
const MORE_FOR_SHIFT: usize = 2;

/// Number of kernels of a stream that are tried before all.
const SAMPLE: usize = 32;

/// Minimum number of kernels in ten that must end together. The root of a broadcast may finish
/// early.
const TOGETHER_OF_TEN: usize = 9;

/// First of the streams of communicators; each has a stream of its own, downwards.
const FIRST_NAMED_STREAM: i64 = -2;

/// Communications of a rank that were turned into kernels without records, by node.
type NamedComms = BTreeMap<NodeIdx, Communication>;

/// Kernels of a rank's stream, sorted by time, to be compared with another rank's.
struct KernelSequence {
    /// Index of the rank.
    rank: usize,
    stream: i64,
    /// Indexes among the rank's kernels without records.
    kernels: Vec<usize>,
}

/// Sequences of several ranks that form one group.
struct SequenceGroup {
    members: Vec<GroupMember>,
}

/// A sequence relative to the first of its group.
struct GroupMember {
    sequence: KernelSequence,
    /// Index of its kernel that matches the first sequence's first kernel.
    shift: i64,
    /// Typical difference of the ends, ns.
    apart_ns: i64,
}

/// Alignment of two sequences.
#[derive(Clone, Copy)]
struct SequenceFit {
    shift: i64,
    /// Clock difference.
    offset_ns: i64,
    apart_ns: i64,
    /// Number of kernels in twenty that do not end together.
    outliers: usize,
}

/// Assigns a group and a number to kernels without records that form collectives across ranks.
/// Returns the number of collectives found.
pub fn infer_collectives(ranks: &mut [RankSummary]) -> u64 {
    let named = forget_partial_communicators(ranks);
    if ranks
        .iter()
        .filter(|rank| !rank.unrecorded.is_empty())
        .count()
        < 2
    {
        return 0;
    }
    let mut used: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); ranks.len()];
    let mut found = Found::default();
    for by_kind in [false, true] {
        let groups = group_sequences(ranks, sequences(ranks, &used, by_kind));
        for group in groups.iter().filter(|group| group.has_unnamed()) {
            found.take(ranks, group, &mut used);
        }
    }
    let count = found.collectives.len() as u64;
    found.record(ranks, used, &named);
    count
}

/// Turns the collectives of a communicator that some of its ranks do not name into kernels without
/// records, if such a rank may have their kernels: its ranks are unknown, but its ends may show
/// them. Returns these communications of each rank.
fn forget_partial_communicators(ranks: &mut [RankSummary]) -> Vec<NamedComms> {
    let mut named = vec![NamedComms::new(); ranks.len()];
    if ranks.iter().all(|rank| rank.unrecorded.is_empty()) {
        return named;
    }
    let mut users: BTreeMap<(String, u64), BTreeMap<usize, BTreeSet<KindClass>>> = BTreeMap::new();
    for (rank, summary) in ranks.iter().enumerate() {
        let mut kinds = vec![BTreeSet::new(); summary.groups.len()];
        for one in summary.communications.iter().filter(|one| one.on_device) {
            if let Peers::Group(group) = one.peers {
                kinds[group.index()].insert(KindClass::of(one.kind));
            }
        }
        for (group, kinds) in summary.groups.iter().zip(kinds) {
            if let GroupIdentity::Communicator(name, size) = group {
                let users = users.entry((name.clone(), *size)).or_default();
                users.insert(rank, kinds);
            }
        }
    }
    users.retain(|(_, size), users| (users.len() as u64) < *size && may_have_more(ranks, users));
    for (summary, named) in ranks.iter_mut().zip(&mut named) {
        let is_partial = |group: &GroupIdentity| match group {
            GroupIdentity::Communicator(name, size) => users.contains_key(&(name.clone(), *size)),
            _ => false,
        };
        let partial: Vec<bool> = summary.groups.iter().map(is_partial).collect();
        let steps = std::mem::take(&mut summary.steps.by_comm).into_iter();
        let steps = steps.chain(std::iter::repeat(StepIdx::NONE));
        for (one, step) in std::mem::take(&mut summary.communications)
            .into_iter()
            .zip(steps)
        {
            match one.peers {
                Peers::Group(group) if one.on_device && partial[group.index()] => {
                    named.insert(one.node, one);
                    summary.unrecorded.push(UnrecordedKernel {
                        node: one.node,
                        name: one.name,
                        kind: one.kind,
                        stream: FIRST_NAMED_STREAM - group.index() as i64,
                        start_ns: one.start_ns,
                        end_ns: one.end_ns,
                        step,
                    });
                }
                _ => {
                    summary.communications.push(one);
                    summary.steps.by_comm.push(step);
                }
            }
        }
        summary
            .unrecorded
            .sort_by_key(|kernel| (kernel.start_ns, kernel.node));
    }
    named
}

/// True if a rank that does not name a communicator has as many kernels of its kinds as a fit takes,
/// recorded at the same time. `users` are the ranks that name it, with its kinds.
fn may_have_more(ranks: &[RankSummary], users: &BTreeMap<usize, BTreeSet<KindClass>>) -> bool {
    let kinds: BTreeSet<KindClass> = users.values().flatten().copied().collect();
    let mut others = ranks.iter().enumerate();
    others.any(|(other, summary)| {
        let alike = summary.unrecorded.iter();
        let alike = alike.filter(|kernel| kinds.contains(&KindClass::of(kernel.kind)));
        let alike = alike.take(LEAST_INFERRED).count();
        let may_meet = |user: &usize| {
            let rule = FitRule::of(&ranks[*user], summary);
            rule.is_some_and(|rule| alike >= rule.least)
        };
        alike > 0 && !users.contains_key(&other) && users.keys().any(may_meet)
    })
}

/// Collects the kernels without a group, by rank and stream, and optionally by kind.
fn sequences(
    ranks: &[RankSummary],
    used: &[BTreeSet<usize>],
    by_kind: bool,
) -> BTreeMap<BTreeSet<KindClass>, Vec<KernelSequence>> {
    let mut all: BTreeMap<BTreeSet<KindClass>, Vec<KernelSequence>> = BTreeMap::new();
    for (rank, summary) in ranks.iter().enumerate() {
        let mut own: BTreeMap<(i64, Option<KindClass>), Vec<usize>> = BTreeMap::new();
        for (at, kernel) in summary.unrecorded.iter().enumerate() {
            if !used[rank].contains(&at) {
                let class = by_kind.then_some(KindClass::of(kernel.kind));
                own.entry((kernel.stream, class)).or_default().push(at);
            }
        }
        for ((stream, _), kernels) in own {
            let classes = kernels.iter();
            let classes = classes.map(|at| KindClass::of(summary.unrecorded[*at].kind));
            all.entry(classes.collect())
                .or_default()
                .push(KernelSequence {
                    rank,
                    stream,
                    kernels,
                });
        }
    }
    all
}

/// Common class of two ranks' kernels in one collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KindClass {
    Collective(CollectiveKind),
    /// A send on one rank is a receive on the other. NCCL's kernel for both names neither.
    Message,
}

impl KindClass {
    fn of(kind: CollectiveKind) -> KindClass {
        match kind {
            CollectiveKind::Send | CollectiveKind::Recv => KindClass::Message,
            kind => KindClass::Collective(kind),
        }
    }
}

/// Adds each sequence to the best fitting group; a sequence that fits none begins a new group.
fn group_sequences(
    ranks: &[RankSummary],
    buckets: BTreeMap<BTreeSet<KindClass>, Vec<KernelSequence>>,
) -> Vec<SequenceGroup> {
    let mut groups = vec![];
    for (_, sequences) in buckets {
        let mut own: Vec<SequenceGroup> = vec![];
        for sequence in sequences {
            place(ranks, &mut own, sequence);
        }
        let mut again = vec![];
        own.iter_mut().for_each(|group| again.extend(group.split()));
        let mut rest: Vec<SequenceGroup> = vec![];
        for sequence in again {
            place(ranks, &mut rest, sequence);
        }
        groups.extend(own);
        groups.extend(rest);
    }
    groups.retain(|group| group.members.len() > 1);
    groups
}

fn place(ranks: &[RankSummary], groups: &mut Vec<SequenceGroup>, sequence: KernelSequence) {
    let mut best: Option<((i64, bool), usize, SequenceFit)> = None;
    for (at, group) in groups.iter().enumerate() {
        let first = &group.members[0].sequence;
        let has_rank = group
            .members
            .iter()
            .any(|one| one.sequence.rank == sequence.rank);
        if has_rank || is_full(ranks, group) {
            continue;
        }
        let Some(fit) = fit(ranks, first, &sequence) else {
            continue;
        };
        let key = (fit.apart_ns, first.stream != sequence.stream);
        if best.is_none_or(|(known, ..)| key < known) {
            best = Some((key, at, fit));
        }
    }
    let (group, shift, apart_ns) = match best {
        Some((_, at, fit)) => (at, fit.shift, fit.apart_ns),
        None => {
            groups.push(SequenceGroup { members: vec![] });
            (groups.len() - 1, 0, 0)
        }
    };
    groups[group].members.push(GroupMember {
        sequence,
        shift,
        apart_ns,
    });
}

/// True if the group can take no more sequences: messages have two sides.
fn is_full(ranks: &[RankSummary], group: &SequenceGroup) -> bool {
    let first = &group.members[0].sequence;
    let kernels = &ranks[first.rank].unrecorded;
    let mut kinds = first.kernels.iter().map(|at| kernels[*at].kind);
    group.members.len() == 2 && kinds.any(|kind| KindClass::of(kind) == KindClass::Message)
}

impl SequenceGroup {
    /// True if a kernel has no record; communicators alone show nothing that they do not state.
    fn has_unnamed(&self) -> bool {
        let mut streams = self.members.iter().map(|one| one.sequence.stream);
        streams.any(|stream| stream > FIRST_NAMED_STREAM)
    }

    /// Removes sequences whose ends differ from the first's much more than the others' do: groups
    /// in lockstep, such as those of one layer on several nodes, are separate.
    fn split(&mut self) -> Vec<KernelSequence> {
        let mut apart: Vec<i64> = self
            .members
            .iter()
            .skip(1)
            .map(|one| one.apart_ns)
            .collect();
        apart.sort_unstable();
        // times of older traces are rounded to one microsecond
        let gap = apart
            .windows(2)
            .find(|pair| pair[1] > 5 * pair[0].max(1_000));
        let Some(limit) = gap.map(|pair| pair[0]) else {
            return vec![];
        };
        let (kept, out): (Vec<_>, Vec<_>) = std::mem::take(&mut self.members)
            .into_iter()
            .partition(|one| one.apart_ns <= limit);
        self.members = kept;
        out.into_iter().map(|one| one.sequence).collect()
    }
}

/// Kind of a communication, and its time on a rank.
#[derive(Clone, Copy)]
pub(super) struct TimedComm {
    pub(super) kind: CollectiveKind,
    pub(super) start_ns: UnixNs,
    pub(super) end_ns: UnixNs,
}

impl KernelSequence {
    fn timed(&self, ranks: &[RankSummary]) -> Vec<TimedComm> {
        let kernels = &ranks[self.rank].unrecorded;
        let kernels = self.kernels.iter().map(|at| kernels[*at]);
        kernels
            .map(|kernel| TimedComm {
                kind: kernel.kind,
                start_ns: kernel.start_ns,
                end_ns: kernel.end_ns,
            })
            .collect()
    }
}

/// Aligns `other` with `first`.
fn fit(
    ranks: &[RankSummary],
    first: &KernelSequence,
    other: &KernelSequence,
) -> Option<SequenceFit> {
    let rule = FitRule::of(&ranks[first.rank], &ranks[other.rank])?;
    fit_sequences(&rule, &first.timed(ranks), &other.timed(ranks))
}

/// Returns the number of communications by which another rank's list is shifted against a rank's,
/// by their ends; `None` if the ends are inconclusive.
pub(super) fn shift_of(
    (one, first): (&RankSummary, &[TimedComm]),
    (two, other): (&RankSummary, &[TimedComm]),
) -> Option<i64> {
    let rule = FitRule::of(one, two)?;
    // in a regular loop, any shift fits clocks with an unknown offset
    if !rule.same_clock && first.len() == other.len() {
        return None;
    }
    Some(fit_sequences(&rule, first, other)?.shift)
}

/// Finds the shift and offset at which kinds agree and ends coincide. Tries shifts around 0, and
/// around the shift of equal times.
fn fit_sequences(rule: &FitRule, one: &[TimedComm], two: &[TimedComm]) -> Option<SequenceFit> {
    let before = |all: &[TimedComm], end_ns| all.partition_point(|comm| comm.end_ns < end_ns);
    let (first, other) = (one.first()?, two.first()?);
    let by_time = before(two, first.end_ns) as i64 - before(one, other.end_ns) as i64;
    let around = |middle: i64| middle - MAX_SHIFT..=middle + MAX_SHIFT;
    let shifts: BTreeSet<i64> = around(0).chain(around(by_time)).collect();
    let mut shifts: Vec<i64> = shifts.into_iter().collect();
    shifts.sort_by_key(|shift| (shift.abs(), *shift));
    let mut best: Option<SequenceFit> = None;
    for shift in shifts {
        let pairs = Pairs { one, two, shift };
        let Some(fit) = pairs.fit(rule) else {
            continue;
        };
        // In a regular loop several shifts fit, but clocks are nearly right.
        let key = |fit: SequenceFit| (fit.outliers, fit.offset_ns.abs());
        if best.is_none_or(|known| key(fit) < key(known)) {
            best = Some(fit);
        }
    }
    best
}

/// Certainty of two ranks' clocks, and the evidence it requires.
struct FitRule {
    max_offset_ns: i64,
    /// True if no offset is removed.
    same_clock: bool,
    least: usize,
}

impl FitRule {
    /// Returns the rule for two ranks; `None` if their recordings do not overlap, or if two ranks
    /// of one machine are one process.
    fn of(one: &RankSummary, two: &RankSummary) -> Option<FitRule> {
        let (a, b) = (one.window_ns, two.window_ns);
        let overlap = a.1.min(b.1).since(a.0.max(b.0));
        let shorter = a.1.since(a.0).min(b.1.since(b.0));
        if overlap <= 0 || one.has_no_clock || two.has_no_clock {
            return None;
        }
        let same_clock = one.machine.is_some() && one.machine == two.machine;
        if same_clock && one.process.is_some() && one.process == two.process {
            return None;
        }
        Some(if same_clock {
            FitRule {
                max_offset_ns: ENDS_APART.0,
                same_clock,
                least: LEAST_INFERRED_OF_MACHINE,
            }
        } else {
            FitRule {
                max_offset_ns: MAX_CLOCKS_APART.0.min(shorter / 2),
                same_clock,
                least: LEAST_INFERRED,
            }
        })
    }
}

/// Reason why kernels without records match no kernel of another rank. Later ones mean that more
/// fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnmatchedReason {
    /// No other rank here has such kernels.
    NoOtherRank,
    /// Recordings of different ranks do not overlap, or have no clock.
    NoOverlap,
    /// Two ranks have too few of them to compare their ends.
    TooFew,
    /// Kinds or ends differ from those of all other ranks.
    EndsDiffer,
}

impl UnmatchedReason {
    /// Describes the reason, to follow the number of kernels.
    pub fn describe(self) -> String {
        match self {
            UnmatchedReason::NoOtherRank => "no other rank here has such kernels".to_owned(),
            UnmatchedReason::NoOverlap => {
                "the recordings of their ranks do not overlap in time".to_owned()
            }
            UnmatchedReason::TooFew => format!(
                "their ranks have too few to compare ends ({LEAST_INFERRED_OF_MACHINE} on one \
                 machine, else {LEAST_INFERRED})"
            ),
            UnmatchedReason::EndsDiffer => {
                "they do not end together on any two ranks here, so the \
                 other ranks of their groups probably have no trace"
                    .to_owned()
            }
        }
    }
}

/// Returns the reason why kernels are left after [`infer_collectives`]; `None` if none are left.
pub fn unmatched_reason(ranks: &[RankSummary]) -> Option<UnmatchedReason> {
    let left = ranks.iter().filter(|rank| !rank.unrecorded.is_empty());
    let left: Vec<&RankSummary> = left.collect();
    let mut reason = UnmatchedReason::NoOtherRank;
    for (at, one) in left.iter().enumerate() {
        for two in &left[at + 1..] {
            let fewer = one.unrecorded.len().min(two.unrecorded.len());
            reason = reason.max(match FitRule::of(one, two) {
                None => UnmatchedReason::NoOverlap,
                Some(rule) if fewer < rule.least => UnmatchedReason::TooFew,
                // nothing means more
                Some(_) => return Some(UnmatchedReason::EndsDiffer),
            });
        }
    }
    (!left.is_empty()).then_some(reason)
}

/// Communications of two ranks by index, with one sequence shifted against the other.
struct Pairs<'r> {
    one: &'r [TimedComm],
    two: &'r [TimedComm],
    shift: i64,
}

impl Pairs<'_> {
    /// Indexes of the first sequence that both have.
    fn common(&self) -> std::ops::Range<i64> {
        let (one, two) = (self.one.len() as i64, self.two.len() as i64);
        let start = (-self.shift).max(0);
        start..one.min(two - self.shift).max(start)
    }

    fn at(&self, place: i64) -> (&TimedComm, &TimedComm) {
        let other = place + self.shift;
        (&self.one[place as usize], &self.two[other as usize])
    }

    fn fit(&self, rule: &FitRule) -> Option<SequenceFit> {
        let common = self.common();
        let count = (common.end - common.start) as usize;
        let shorter = self.one.len().min(self.two.len());
        // Each additional shift is another chance of an accidental fit.
        let least = rule.least + if self.shift == 0 { 0 } else { MORE_FOR_SHIFT };
        if count < least || 4 * count < 3 * shorter {
            return None;
        }
        let mut kinds = common.clone().map(|place| self.at(place));
        if kinds.any(|(one, two)| !are_alike(one.kind, two.kind)) {
            return None;
        }
        let every = count.div_ceil(SAMPLE);
        if every > 1 {
            self.fit_of(common.clone().step_by(every), rule)?;
        }
        self.fit_of(common, rule)
    }

    fn fit_of(
        &self,
        places: impl Iterator<Item = i64> + Clone,
        rule: &FitRule,
    ) -> Option<SequenceFit> {
        let mut ends: Vec<i64> = vec![];
        for place in places.clone() {
            let (one, two) = self.at(place);
            ends.push(one.end_ns.since(two.end_ns));
        }
        let middle = ends.len() / 2;
        let median = *ends.select_nth_unstable(middle).1;
        if median.abs() > rule.max_offset_ns {
            return None;
        }
        let offset_ns = if rule.same_clock { 0 } else { median };
        let (mut together, mut apart) = (0, vec![]);
        for place in places {
            let (one, two) = self.at(place);
            let ns = one.end_ns.since(two.end_ns).saturating_sub(offset_ns).abs();
            let longer = one
                .end_ns
                .since(one.start_ns)
                .max(two.end_ns.since(two.start_ns));
            together += usize::from(ns <= ENDS_APART.0.max(longer / 50));
            apart.push(ns);
        }
        if 10 * together < TOGETHER_OF_TEN * apart.len() {
            return None;
        }
        let middle = apart.len() / 2;
        let outliers = 20 * (apart.len() - together) / apart.len();
        Some(SequenceFit {
            shift: self.shift,
            offset_ns: median,
            apart_ns: *apart.select_nth_unstable(middle).1,
            outliers,
        })
    }
}

/// True if kernels of two ranks can be sides of one communication; for a message, one sends and the
/// other receives.
fn are_alike(one: CollectiveKind, other: CollectiveKind) -> bool {
    let is_message = KindClass::of(one) == KindClass::Message;
    KindClass::of(one) == KindClass::of(other) && (one != other || !is_message)
}

/// Kernels that form one collective.
struct InferredCollective {
    /// End of the collective on its first rank.
    end_ns: UnixNs,
    ranks: RankSet,
    /// Each kernel by the indexes of its rank and of itself.
    sides: Vec<(usize, usize)>,
}

/// Collectives found so far.
#[derive(Default)]
struct Found {
    collectives: Vec<InferredCollective>,
}

impl Found {
    fn take(&mut self, ranks: &[RankSummary], group: &SequenceGroup, used: &mut [BTreeSet<usize>]) {
        let numbers = group
            .members
            .iter()
            .map(|one| ranks[one.sequence.rank].rank.0);
        let set: RankSet = numbers
            .filter_map(|rank| u64::try_from(rank).ok())
            .collect();
        for place in 0..group.members[0].sequence.kernels.len() as i64 {
            let kernel_of = |one: &GroupMember| {
                let at = usize::try_from(place + one.shift).ok()?;
                Some((one.sequence.rank, *one.sequence.kernels.get(at)?))
            };
            // some ranks have one more at the ends of recordings
            let Some(sides) = group
                .members
                .iter()
                .map(kernel_of)
                .collect::<Option<Vec<_>>>()
            else {
                continue;
            };
            let (rank, at) = sides[0];
            for (rank, at) in &sides {
                used[*rank].insert(*at);
            }
            self.collectives.push(InferredCollective {
                end_ns: ranks[rank].unrecorded[at].end_ns,
                ranks: set.clone(),
                sides,
            });
        }
    }

    /// Converts the kernels to communications. Those of communicators keep their sizes, and are
    /// put back as they were if none of their kind fits.
    fn record(
        mut self,
        ranks: &mut [RankSummary],
        mut used: Vec<BTreeSet<usize>>,
        named: &[NamedComms],
    ) {
        self.collectives
            .sort_by_key(|one| (one.end_ns, one.sides[0]));
        let mut added: Vec<Vec<(Communication, StepIdx)>> = vec![vec![]; ranks.len()];
        for (number, one) in (0..).zip(&self.collectives) {
            let sides = &one.sides;
            for (rank, at) in sides {
                let summary = &mut ranks[*rank];
                let identity = GroupIdentity::Inferred(one.ranks.clone());
                let known = summary.groups.iter().position(|group| *group == identity);
                let group = known.unwrap_or_else(|| {
                    summary.groups.push(identity);
                    summary.groups.len() - 1
                });
                let dtype = summary.names.intern("");
                let kernel = summary.unrecorded[*at];
                let peers = match KindClass::of(kernel.kind) {
                    KindClass::Collective(_) => Peers::Group(GroupIdx::new(group)),
                    KindClass::Message => {
                        let other = sides.iter().find(|(other, _)| other != rank);
                        Peers::Peer(other.map(|(other, _)| ranks[*other].rank))
                    }
                };
                let times = (kernel.start_ns, kernel.end_ns);
                let unknown = Communication {
                    node: kernel.node,
                    peers,
                    name: kernel.name,
                    kind: kernel.kind,
                    dtype,
                    in_split: dtype,
                    in_bytes: 0,
                    bytes: 0,
                    is_sized: false,
                    seq: Some(number),
                    start_ns: kernel.start_ns,
                    end_ns: kernel.end_ns,
                    on_device: true,
                    extent: CommExtent::from_node(kernel.node, times),
                };
                let known = named[*rank].get(&kernel.node);
                let communication = known.map_or(unknown, |known| Communication {
                    peers,
                    seq: unknown.seq,
                    ..*known
                });
                added[*rank].push((communication, kernel.step));
            }
        }
        for (rank, summary) in ranks.iter_mut().enumerate() {
            let (added, used) = (&mut added[rank], &mut used[rank]);
            let of = |kernel: &UnrecordedKernel| (kernel.stream, KindClass::of(kernel.kind));
            let fitting = used.iter().map(|at| of(&summary.unrecorded[*at]));
            let fitting: BTreeSet<(i64, KindClass)> = fitting.collect();
            for (at, kernel) in summary.unrecorded.iter().enumerate() {
                if kernel.stream <= FIRST_NAMED_STREAM
                    && !fitting.contains(&of(kernel))
                    && let Some(known) = named[rank].get(&kernel.node)
                {
                    added.push((*known, kernel.step));
                    used.insert(at);
                }
            }
            summary.add_inferred(std::mem::take(added), used);
        }
    }
}

impl RankSummary {
    /// Inserts communications among the recorded ones, sorted by time, and removes their kernels
    /// from those without records.
    fn add_inferred(&mut self, added: Vec<(Communication, StepIdx)>, used: &BTreeSet<usize>) {
        if added.is_empty() {
            return;
        }
        let steps = std::mem::take(&mut self.steps.by_comm).into_iter();
        let steps = steps.chain(std::iter::repeat(StepIdx::NONE));
        let mut all: Vec<(Communication, StepIdx)> = std::mem::take(&mut self.communications)
            .into_iter()
            .zip(steps)
            .collect();
        all.extend(added);
        all.sort_by_key(|(communication, _)| communication.node);
        (self.communications, self.steps.by_comm) = all.into_iter().unzip();
        let mut place = 0..;
        self.unrecorded
            .retain(|_| place.next().is_some_and(|at| !used.contains(&at)));
    }
}

#[cfg(test)]
mod tests;
