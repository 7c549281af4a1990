//! Attributes the lateness of ranks to its causes.
//!
//! A rank is late to a collective because of its activity since the ranks of that group were last
//! together: at the previous collective in which all of them took part. If the recording has none,
//! activity counts from each rank's start of the first common step; without steps, from the start
//! of its recording. In these cases a rank may have begun later, which is charged separately.
//!
//! The wait `w` of one rank for the last is divided as follows, with `waited` for a rank's waits
//! for others since that point:
//! ```text
//! began later   begin(last) - begin(rank)         no more than w
//! handed on     waited(last) - waited(rank)       no more than the rest
//! own activity  the rest
//! ```
//! The difference counts, not `waited(last)` alone: waits common to both made neither later than
//! the other. Böhme et al., "Identifying the root causes of wait states in large-scale parallel
//! applications" (ICPP 2010), call these the direct and the propagated costs of a delay.
//!
//! Time that is handed on is attributed by the way back: from the late rank's last wait to the rank
//! that it waited for, from that rank's previous wait to the next, and so on to the point at which
//! the ranks were together.
//! ```text
//! rank 0   |= work ==|=== late ====|
//! rank 1   |= work ==|  . waits .  |== work ==|        at | ranks 2 and 3 meet; rank 3 waits for
//! rank 2   |======== work =========|. waits . |== work ==|  rank 2. Way back from there: rank 2,
//! rank 3   |======== work ==================| . . waits .|  rank 1, rank 0
//! ```
//! A pipeline waits for its stages without any of them being late. So handed-on time is shared
//! among the ranks on the way by their longest times: among those above a level, by the excess over
//! that level.

use super::arrivals::{CollectiveArrival, aligned, arrivals_of, clock_error, last_of};
use super::{CollectiveMatch, CommChannel, RankClock, RankSummary, RunJoin};
use etlink_model::{CommonNs, GlobalRank, RankIdx};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of waits followed on the way back from a late rank. Between two meetings of a
/// group there are hundreds at most; without a limit, ranks that all send to each other would be
/// quadratic.
const MAX_HOPS: usize = 1_000;

/// Waits of others charged to a rank, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DelayCharge {
    /// Waits caused by the rank's own activity, ns.
    pub(super) caused_ns: i64,
    /// Waits caused by the rank's later start, ns.
    pub(super) began_late_ns: i64,
    /// Part of `began_late_ns` before the rank's recording began, ns.
    pub(super) start_skew_ns: i64,
    /// Likely error of `caused_ns` by the clocks, ns.
    pub(super) uncertainty_ns: i64,
}

impl DelayCharge {
    fn add(&mut self, share: DelayShare, ns: i64) {
        let sum = match share {
            DelayShare::Doing => &mut self.caused_ns,
            DelayShare::StepBegin => &mut self.began_late_ns,
            DelayShare::RecordingBegin => {
                self.start_skew_ns = self.start_skew_ns.saturating_add(ns);
                &mut self.began_late_ns
            }
            DelayShare::Uncertainty => &mut self.uncertainty_ns,
        };
        *sum = sum.saturating_add(ns);
    }
}

/// Cause of a rank's lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DelayShare {
    Doing,
    /// The rank was recorded before, but its step began later.
    StepBegin,
    /// The rank's recording began later.
    RecordingBegin,
    /// No cause, but the error of `Doing`.
    Uncertainty,
}

/// A collective that all ranks here have, with the causes of its last rank's lateness.
#[derive(Debug)]
pub(super) struct DelayedCollective<'r> {
    pub(super) matched: &'r CollectiveMatch,
    /// Arrivals, sorted by time.
    pub(super) arrivals: Vec<CollectiveArrival>,
    pub(super) last: CollectiveArrival,
    /// Total wait of the other ranks.
    pub(super) waited_ns: i64,
    /// Wait that only the last rank caused.
    pub(super) alone_ns: i64,
    /// Step in which the last rank launched the collective.
    pub(super) step: Option<&'r str>,
    /// Part of the wait caused by the last rank's own activity, and by its late start.
    pub(super) own: DelayCharge,
    /// Part of the wait that the last rank hands on.
    pub(super) handed_on_ns: i64,
    /// Rank charged with most of the handed-on wait.
    pub(super) waited_for: Option<GlobalRank>,
}

/// Waits of one rank, sorted by end.
#[derive(Debug, Default)]
struct RankWaits {
    ends: Vec<CommonNs>,
    /// Total length of the first `n` waits; time of concurrent waits counts once.
    sums: Vec<i64>,
    /// Rank waited for.
    last: Vec<RankIdx>,
    /// Collective of each wait, by index in the order of last arrivals.
    place: Vec<usize>,
}

impl RankWaits {
    fn push(&mut self, waits_ns: i64, (last, end): (RankIdx, CommonNs), place: usize) {
        // Two communications of a rank can wait at once, on two streams or threads.
        let since_end = self.ends.last().map(|earlier| end.since(*earlier));
        let length = since_end.map_or(waits_ns, |since| waits_ns.min(since));
        let before = self.sum_before(self.ends.len());
        self.ends.push(end);
        self.sums.push(before.saturating_add(length));
        self.last.push(last);
        self.place.push(place);
    }

    fn sum_before(&self, wait: usize) -> i64 {
        wait.checked_sub(1).map_or(0, |before| self.sums[before])
    }

    /// Total length of the waits that ended after `from` and no later than `until`.
    fn sum_between(&self, from: CommonNs, until: CommonNs) -> i64 {
        let start = self.ends.partition_point(|end| *end <= from);
        let end = self.ends.partition_point(|end| *end <= until).max(start);
        self.sum_before(end).saturating_sub(self.sum_before(start))
    }

    /// Returns end, awaited rank and collective of the last wait in a collective before this one.
    fn last_before(&self, place: usize) -> Option<(CommonNs, RankIdx, usize)> {
        let next = self.place.partition_point(|other| *other < place);
        let wait = next.checked_sub(1)?;
        Some((self.ends[wait], self.last[wait], self.place[wait]))
    }
}

/// Charges for all waits in the collectives of a run.
#[derive(Debug, Default)]
pub(super) struct RunDelays<'r> {
    /// Delayed collectives, in the order of [`RunJoin::matches`].
    pub(super) collectives: Vec<DelayedCollective<'r>>,
    /// Charges by the step of the wait and by rank; they add up to the total wait.
    pub(super) charges: BTreeMap<(Option<&'r str>, RankIdx), DelayCharge>,
}

impl<'r> RunDelays<'r> {
    /// Computes the charges. O(c log c) in the sides of collectives, times the groups of a rank.
    pub(super) fn new(
        ranks: &'r [RankSummary],
        join: &'r RunJoin,
        clocks: &'r [RankClock],
    ) -> RunDelays<'r> {
        let mut delays = RunDelays::default();
        let mut meets: Vec<bool> = vec![];
        for matched in &join.matches {
            let Some((arrivals, is_meeting)) = arrivals_of(ranks, clocks, matched) else {
                continue;
            };
            let Some((last, waited_ns, alone_ns)) = last_of(&arrivals) else {
                continue;
            };
            meets.push(is_meeting);
            delays.collectives.push(DelayedCollective {
                matched,
                step: step_of(ranks, matched, last.rank),
                arrivals,
                last,
                waited_ns,
                alone_ns,
                own: DelayCharge::default(),
                handed_on_ns: 0,
                waited_for: None,
            });
        }
        let mut order: Vec<usize> = (0..delays.collectives.len()).collect();
        order.sort_by_key(|at| (delays.collectives[*at].last.at_ns, *at));
        let mut history = RunHistory::new(ranks, join, clocks, &delays.collectives);
        for (place, at) in order.into_iter().enumerate() {
            let collective = &mut delays.collectives[at];
            let charges = collective.charge_waits(&history, place);
            for ((rank, share), ns) in charges {
                let charge = delays.charges.entry((collective.step, rank)).or_default();
                charge.add(share, ns);
            }
            history.add(collective, place, meets[at]);
        }
        delays
    }
}

/// Returns the step of a rank's side of a collective.
fn step_of<'r>(
    ranks: &'r [RankSummary],
    matched: &CollectiveMatch,
    rank: RankIdx,
) -> Option<&'r str> {
    let member = matched.members.iter().find(|member| member.rank == rank)?;
    let steps = &ranks.get(rank.index())?.steps;
    Some(steps.get(member.communication)?.name.as_str())
}

type Charges = BTreeMap<(RankIdx, DelayShare), i64>;

impl DelayedCollective<'_> {
    /// Charges each rank's wait to the last rank, for its activity and late start, and to the ranks
    /// that delayed it.
    fn charge_waits(&mut self, history: &RunHistory<'_>, place: usize) -> Charges {
        let (since, last) = (history.compared_since(self), self.last);
        let begin = history.time_since(&since, last.rank);
        let last_waited = history.waits[last.rank.index()].sum_between(begin, last.at_ns);
        // Most collectives hand nothing on, and need no way back.
        let mut way: Option<WayBack> = None;
        let (mut charges, mut givers) = (Charges::new(), Charges::new());
        // errors of the waits that are charged to this rank, and handed on
        let (mut own_error_ns, mut handed_error_ns) = (0i64, 0i64);
        for arrival in &self.arrivals {
            let waits_ns = arrival.waits_ns;
            if arrival.rank == last.rank || waits_ns <= 0 {
                continue;
            }
            let own_begin = history.time_since(&since, arrival.rank);
            let began_late_ns = begin.since(own_begin).clamp(0, waits_ns);
            let own_waits = &history.waits[arrival.rank.index()];
            let waited = own_waits.sum_between(own_begin, arrival.at_ns);
            let more_ns = last_waited.saturating_sub(waited);
            let mut handed_on_ns = more_ns.clamp(0, waits_ns - began_late_ns);
            if handed_on_ns > 0 {
                let way = way.get_or_insert_with(|| history.way_back(&since, last, place));
                handed_on_ns = way.share(handed_on_ns, &mut givers);
            }
            let own_ns = waits_ns - began_late_ns - handed_on_ns;
            let error_ns = history.uncertainty(last.rank, arrival.rank);
            let error_of = if own_ns >= handed_on_ns {
                &mut own_error_ns
            } else {
                &mut handed_error_ns
            };
            *error_of = error_of.saturating_add(error_ns);
            self.own.add(DelayShare::Doing, own_ns);
            let begin_share = history.begin_share(last.rank, own_begin);
            self.own.add(begin_share, began_late_ns);
            self.handed_on_ns = self.handed_on_ns.saturating_add(handed_on_ns);
        }
        // A rank that the last one waited for may itself have waited for it before: that part is
        // the last rank's own.
        if let Some(ns) = givers.remove(&(last.rank, DelayShare::Doing)) {
            self.own.add(DelayShare::Doing, ns);
            self.handed_on_ns = self.handed_on_ns.saturating_sub(ns);
        }
        let most = givers
            .iter()
            .max_by_key(|((rank, _), ns)| (**ns, std::cmp::Reverse(*rank)));
        self.waited_for = most.map(|((rank, _), _)| history.ranks[rank.index()].rank);
        self.own.uncertainty_ns = own_error_ns;
        charges.insert((last.rank, DelayShare::Doing), self.own.caused_ns);
        let own_step_ns = self.own.began_late_ns - self.own.start_skew_ns;
        charges.insert((last.rank, DelayShare::StepBegin), own_step_ns);
        let recording = (last.rank, DelayShare::RecordingBegin);
        charges.insert(recording, self.own.start_skew_ns);
        charges.insert((last.rank, DelayShare::Uncertainty), own_error_ns);
        for (rank, _) in givers.clone().into_keys() {
            givers.insert((rank, DelayShare::Uncertainty), handed_error_ns);
        }
        for (giver, ns) in givers {
            let sum = charges.entry(giver).or_default();
            *sum = sum.saturating_add(ns);
        }
        charges
    }
}

/// Causes of a late rank's delay.
struct WayBack {
    /// Rank at the end of the way, and the time by which its step or recording began later than the
    /// late rank's.
    began_later: (RankIdx, DelayShare, i64),
    /// Time of each rank's activity on the way, ns, longest first.
    doings: Vec<(RankIdx, i64)>,
}

impl WayBack {
    /// Shares `ns`: first to the rank that began later, as between two ranks; the rest to the ranks
    /// above a level, each by its excess over the level. Returns the amount that could be shared.
    fn share(&self, ns: i64, givers: &mut Charges) -> i64 {
        let mut left = ns;
        let mut give = |rank: RankIdx, share: DelayShare, most: i64| {
            let given = most.clamp(0, left);
            left -= given;
            if given > 0 {
                let sum = givers.entry((rank, share)).or_default();
                *sum = sum.saturating_add(given);
            }
            left
        };
        let (first, begin_share, later) = self.began_later;
        let rest = give(first, begin_share, later);
        let (mut level, mut count, mut sum) = (0, 0, 0i64);
        for (place, (_, doing)) in self.doings.iter().enumerate() {
            (count, sum) = (count + 1, sum.saturating_add(*doing));
            let next = self.doings.get(place + 1).map_or(0, |(_, doing)| *doing);
            // At the next one's level these would give at least as much: their level is not below
            // it.
            if sum.saturating_sub(next.saturating_mul(count)) >= rest {
                level = (sum - rest).max(0) / count;
                break;
            }
        }
        for (rank, doing) in self.doings.iter().take(count as usize) {
            give(*rank, DelayShare::Doing, doing - level);
        }
        ns - left
    }
}

/// Point from which the activities of ranks are compared.
enum ComparedSince<'r> {
    /// The ranks were together at this time.
    Meeting(CommonNs),
    /// Each rank began this step.
    Step(&'r str),
    /// Each rank began its recording.
    Recording,
}

/// State of the collectives so far.
struct RunHistory<'r> {
    ranks: &'r [RankSummary],
    clocks: &'r [RankClock],
    /// Waits by rank.
    waits: Vec<RankWaits>,
    /// Last arrival at each channel's last collective in which all waited.
    meetings: BTreeMap<CommChannel, CommonNs>,
    /// Channels whose ranks include all ranks of a channel: if they are together, so are that
    /// channel's.
    wider: BTreeMap<CommChannel, Vec<CommChannel>>,
    /// First step that all ranks of a channel have.
    steps: BTreeMap<CommChannel, &'r str>,
}

impl<'r> RunHistory<'r> {
    fn new(
        ranks: &'r [RankSummary],
        join: &RunJoin,
        clocks: &'r [RankClock],
        collectives: &[DelayedCollective<'r>],
    ) -> RunHistory<'r> {
        let mut members: BTreeMap<CommChannel, BTreeSet<RankIdx>> = BTreeMap::new();
        for collective in collectives {
            let channel = members.entry(collective.matched.channel).or_default();
            channel.extend(collective.matched.members.iter().map(|member| member.rank));
        }
        let mut steps = BTreeMap::new();
        for (channel, members) in &members {
            if let Some(step) = first_common_step(ranks, members) {
                steps.insert(*channel, step);
            }
        }
        let mut waits = Vec::new();
        waits.resize_with(ranks.len(), RankWaits::default);
        RunHistory {
            ranks,
            clocks,
            waits,
            meetings: BTreeMap::new(),
            wider: wider_channels(join, members.keys().copied()),
            steps,
        }
    }

    fn add(&mut self, collective: &DelayedCollective<'_>, place: usize, is_meeting: bool) {
        let last = (collective.last.rank, collective.last.at_ns);
        for arrival in &collective.arrivals {
            if arrival.rank != last.0 && arrival.waits_ns > 0 {
                self.waits[arrival.rank.index()].push(arrival.waits_ns, last, place);
            }
        }
        if is_meeting {
            self.meetings.insert(collective.matched.channel, last.1);
        }
    }

    /// Returns the point from which the ranks of a collective are compared.
    fn compared_since(&self, collective: &DelayedCollective<'_>) -> ComparedSince<'r> {
        let channel = collective.matched.channel;
        let wider = self.wider.get(&channel).into_iter().flatten();
        let meetings = wider
            .chain([&channel])
            .filter_map(|one| self.meetings.get(one));
        if let Some(last) = meetings.max() {
            return ComparedSince::Meeting(*last);
        }
        let Some(step) = self.steps.get(&channel) else {
            return ComparedSince::Recording;
        };
        let since = ComparedSince::Step(step);
        // Work launched before the first step shows nothing about the start of that step.
        let mut arrivals = collective.arrivals.iter();
        if arrivals.any(|one| self.time_since(&since, one.rank) > one.at_ns) {
            return ComparedSince::Recording;
        }
        since
    }

    fn time_since(&self, since: &ComparedSince<'_>, rank: RankIdx) -> CommonNs {
        let summary = &self.ranks[rank.index()];
        let own = match since {
            ComparedSince::Meeting(at) => return *at,
            ComparedSince::Step(name) => {
                let mut steps = summary.steps.all.iter();
                steps
                    .find(|step| step.name == *name)
                    .map(|step| step.start_ns)
            }
            ComparedSince::Recording => None,
        };
        aligned(self.clocks, rank, own.unwrap_or(summary.recorded_from()))
    }

    /// Returns the share of a delay by a rank that began later than another one, which began at
    /// `other_begin`.
    fn begin_share(&self, rank: RankIdx, other_begin: CommonNs) -> DelayShare {
        let recorded_from = self.ranks[rank.index()].recorded_from();
        if aligned(self.clocks, rank, recorded_from) <= other_begin {
            DelayShare::StepBegin
        } else {
            DelayShare::RecordingBegin
        }
    }

    /// Likely error of the difference of two ranks' times, ns; 0 for times of one clock.
    fn uncertainty(&self, one: RankIdx, other: RankIdx) -> i64 {
        clock_error(self.ranks, self.clocks, [one, other], |clock| {
            clock.likely_error_ns
        })
    }

    /// Start of a rank's first step or, without steps, of its recording.
    fn first_begin(&self, rank: RankIdx) -> CommonNs {
        let summary = &self.ranks[rank.index()];
        let step = summary.steps.all.first();
        let own = step.map_or(summary.recorded_from(), |step| step.start_ns);
        aligned(self.clocks, rank, own)
    }

    /// Follows the causes of the last rank's delay since that point: the activity of ranks while it
    /// waited for them, and while these waited for others.
    fn way_back(
        &self,
        since: &ComparedSince<'_>,
        late: CollectiveArrival,
        place: usize,
    ) -> WayBack {
        let mut doings: BTreeMap<RankIdx, i64> = BTreeMap::new();
        let mut began_later = (late.rank, DelayShare::StepBegin, 0);
        let (mut rank, mut until, mut place) = (late.rank, late.at_ns, place);
        let mut is_late_itself = true;
        for hop in 0..=MAX_HOPS {
            let mut begin = self.time_since(since, rank);
            if let ComparedSince::Meeting(_) = since {
                // A rank of another group may have begun after these met. Time before a rank's
                // first step counts from the meeting.
                let first = self.first_begin(rank);
                if first <= until {
                    begin = begin.max(first);
                }
            }
            let wait = self.waits[rank.index()].last_before(place);
            let wait = wait.filter(|(end, ..)| *end > begin && hop < MAX_HOPS);
            let from = wait.map_or(begin, |(end, ..)| end);
            // The late rank's activity after its last wait is its own, not handed on.
            if !is_late_itself {
                *doings.entry(rank).or_default() += until.since(from).max(0);
            }
            let Some((end, giver, collective)) = wait else {
                let late_begin = self.time_since(since, late.rank);
                let share = self.begin_share(rank, late_begin);
                began_later = (rank, share, begin.since(late_begin));
                break;
            };
            (rank, until, place, is_late_itself) = (giver, end, collective, false);
        }
        let mut doings: Vec<(RankIdx, i64)> = doings.into_iter().collect();
        doings.sort_by_key(|(rank, ns)| (std::cmp::Reverse(*ns), *rank));
        WayBack {
            began_later,
            doings,
        }
    }
}

/// Returns the first step that all of these ranks have.
fn first_common_step<'r>(ranks: &'r [RankSummary], members: &BTreeSet<RankIdx>) -> Option<&'r str> {
    let steps_of = |rank: &RankIdx| &ranks[rank.index()].steps.all;
    let first = steps_of(members.first()?);
    first.iter().map(|step| step.name.as_str()).find(|name| {
        // Nearly all recordings begin with the same step on all ranks.
        let mut others = members.iter().map(steps_of);
        others.all(|steps| steps.iter().any(|step| step.name == *name))
    })
}

/// Returns, per channel, the other channels that contain all of its ranks.
fn wider_channels(
    join: &RunJoin,
    channels: impl Iterator<Item = CommChannel>,
) -> BTreeMap<CommChannel, Vec<CommChannel>> {
    let mut groups_of: BTreeMap<u64, Vec<(u32, &[u64])>> = BTreeMap::new();
    for (number, ranks) in &join.groups {
        for rank in ranks {
            groups_of.entry(*rank).or_default().push((*number, ranks));
        }
    }
    let mut wider = BTreeMap::new();
    for channel in channels {
        let (ranks, mut others) = match channel {
            // The reply is as good a meeting as the message.
            CommChannel::Message { src, dst } => (
                vec![src.0, dst.0],
                vec![CommChannel::Message { src: dst, dst: src }],
            ),
            CommChannel::Group(number) => {
                let ranks = join.groups.get(&number).into_iter().flatten();
                (
                    ranks.filter_map(|rank| i64::try_from(*rank).ok()).collect(),
                    vec![],
                )
            }
        };
        let ranks: Vec<u64> = ranks
            .into_iter()
            .filter_map(|rank| rank.try_into().ok())
            .collect();
        let groups = ranks.first().and_then(|first| groups_of.get(first));
        for (number, group) in groups.into_iter().flatten() {
            let other = CommChannel::Group(*number);
            // Groups are sorted, and no two have the same ranks.
            let holds_all = group.len() >= ranks.len()
                && ranks.iter().all(|rank| group.binary_search(rank).is_ok());
            if other != channel && holds_all {
                others.push(other);
            }
        }
        wider.insert(channel, others);
    }
    wider
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(ns: i64, later: i64, doings: &[i64]) -> (i64, Vec<(u32, DelayShare, i64)>) {
        let doings = (0u32..).map(RankIdx).zip(doings.iter().copied());
        let way = WayBack {
            began_later: (RankIdx(9), DelayShare::StepBegin, later),
            doings: doings.collect(),
        };
        let mut givers = Charges::new();
        let given = way.share(ns, &mut givers);
        let givers = givers
            .into_iter()
            .map(|((rank, share), ns)| (rank.0, share, ns));
        (given, givers.collect())
    }

    #[test]
    fn those_above_a_level_share_what_is_handed_on() {
        use DelayShare::{Doing, StepBegin};
        let doings = [10, 6, 1];
        assert_eq!(shared(3, 0, &doings), (3, vec![(0, Doing, 3)]));
        assert_eq!(
            shared(8, 0, &doings),
            (8, vec![(0, Doing, 6), (1, Doing, 2)])
        );
        // a rank that began later gives first
        let want = vec![(0, Doing, 3), (9, StepBegin, 5)];
        assert_eq!(shared(8, 5, &doings), (8, want));
        // no more than all ranks did
        let want = vec![(0, Doing, 10), (1, Doing, 6), (2, Doing, 1)];
        assert_eq!(shared(50, 0, &doings), (17, want));
    }
}
