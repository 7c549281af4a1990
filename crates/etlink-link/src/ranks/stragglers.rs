//! Who made the others wait, per step and in all.
//!
//! With `a(r)` for the arrival of rank `r` at a collective or message by the first rank's clock,
//! and `l` for the rank that arrives last, rank `r` waits `a(l) - a(r)`. An arrival is the start of
//! the device row; where no device takes part, of the range in which Gloo carries it out, else of
//! the call ([`CommExtent`](super::CommExtent)). A rank that has come but does something else before it
//! stands still (a message, for which a wait is recorded) waits from then on, and one that needs
//! nothing of the last and was done before it came (a sender) does not wait. Of equal arrivals the
//! last by rank is the last. Who is charged with a wait, `delays` says; it counts for the step in
//! which `l` launched its side.
//!
//! `etlink replay` counts the same instants in a run of its own: what a rank waits there is what
//! the others alone hold it up, so that a rank which would have stood still for another reason (a
//! kernel that waits for an event) waits less there than here.

use super::arrivals::aligned;
use super::delays::{DelayCharge, DelayedCollective, RunDelays};
use super::{MatchMember, RankClock, RankSteps, RankSummary, RunJoin};
use etlink_model::{CommonNs, GlobalRank, RankIdx, StepIdx};
use serde::Serialize;
use std::collections::BTreeMap;

/// Of a step's ranks that made others wait, this many are kept, the worst.
const WORST: usize = 8;

/// How one rank's lateness adds up. Over all ranks, `caused_ns` and `began_late_ns` together are as
/// much as `waited_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StragglerStats {
    /// Global rank.
    pub rank: GlobalRank,
    /// Collectives and messages that it takes part in.
    pub collectives: u64,
    /// Those in which it came last.
    pub last: u64,
    /// What others waited, in any collective, for what it did since they were together, ns.
    pub caused_ns: i64,
    /// What others waited, in any collective, because its step or recording began later, ns.
    pub began_late_ns: i64,
    /// What others waited in those in which it came last, but for what it had itself waited for
    /// others, ns. It is charged to these.
    pub handed_on_ns: i64,
    /// What it waited for others, ns.
    pub waited_ns: i64,
}

/// One step of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepStragglers {
    /// Its name; `None`: what was launched before the first step, or in traces without steps.
    pub step: Option<String>,
    /// The first start of it; of the first arrival, if it is no step.
    pub start_ns: CommonNs,
    /// From its latest begin on a rank to its latest end, ns; 0 if it is no step.
    pub job_ns: i64,
    /// From its first begin on a rank to its latest, ns; 0 if it is no step.
    pub begin_spread_ns: i64,
    /// How long it was on the rank on which it was longest, ns; 0 if it is no step.
    pub longest_ns: i64,
    /// Collectives and messages whose last rank launched its side in this step.
    pub collectives: u64,
    /// Those of which another rank launched its side in another step.
    pub spans_steps: u64,
    /// What all ranks waited in them, ns.
    pub waited_ns: i64,
    /// Of that, what they waited because ranks began their steps or recordings later, ns.
    pub began_late_ns: i64,
    /// The ranks that the others waited for, that which caused most first; no more than 8.
    pub stragglers: Vec<StragglerStats>,
}

/// Sums per rank, in the ranks' order.
pub fn straggler_stats(
    ranks: &[RankSummary],
    join: &RunJoin,
    clocks: &[RankClock],
) -> Vec<StragglerStats> {
    let delays = RunDelays::new(ranks, join, clocks);
    let mut sums = RankSums::new(ranks);
    for collective in &delays.collectives {
        sums.add_collective(collective);
    }
    for ((_, rank), charge) in &delays.charges {
        sums.add_charge(*rank, *charge);
    }
    sums.ranks
}

/// Sums per step, in order of time; what is of no step comes first. O(collectives log collectives +
/// steps · ranks).
pub fn step_stragglers(
    ranks: &[RankSummary],
    join: &RunJoin,
    clocks: &[RankClock],
) -> Vec<StepStragglers> {
    let delays = RunDelays::new(ranks, join, clocks);
    let mut of_step: BTreeMap<Option<&str>, Vec<&DelayedCollective<'_>>> = BTreeMap::new();
    for collective in &delays.collectives {
        of_step.entry(collective.step).or_default().push(collective);
    }
    let times = step_times(ranks, clocks);
    let mut steps = Vec::with_capacity(of_step.len());
    for (name, collectives) in of_step {
        let first_arrivals = collectives.iter().filter_map(|one| one.arrivals.first());
        let first = first_arrivals.map(|arrival| arrival.at_ns).min();
        let time = name.and_then(|name| times.get(name));
        let mut step = StepStragglers {
            step: name.map(str::to_owned),
            start_ns: first.unwrap_or_default(),
            collectives: collectives.len() as u64,
            ..StepStragglers::default()
        };
        if let Some(time) = time {
            step.start_ns = time.first_begin;
            step.job_ns = time.last_end.since(time.last_begin).max(0);
            step.begin_spread_ns = time.last_begin.since(time.first_begin);
            step.longest_ns = time.longest_ns;
        }
        let mut sums = RankSums::new(ranks);
        for collective in collectives {
            sums.add_collective(collective);
            step.spans_steps += u64::from(spans_steps(ranks, collective));
            step.waited_ns = step.waited_ns.saturating_add(collective.waited_ns);
        }
        let of_ranks = (name, RankIdx(0))..=(name, RankIdx(u32::MAX));
        for ((_, rank), charge) in delays.charges.range(of_ranks) {
            sums.add_charge(*rank, *charge);
            step.began_late_ns = step.began_late_ns.saturating_add(charge.began_late_ns);
        }
        step.stragglers = sums.worst();
        steps.push(step);
    }
    steps.sort_by(|a, b| {
        (a.step.is_some(), a.start_ns, &a.step).cmp(&(b.step.is_some(), b.start_ns, &b.step))
    });
    steps
}

/// How long each step of the job is, from its latest begin on a rank to its latest end, ns; by name,
/// with the names. What is the rest of a step on all ranks is none.
pub fn job_step_times(ranks: &[RankSummary], clocks: &[RankClock]) -> Vec<(String, i64)> {
    let times = step_times(ranks, clocks).into_iter();
    times
        .filter(|(_, time)| time.is_whole)
        .map(|(name, time)| {
            let length = time.last_end.since(time.last_begin).max(0);
            (name.to_owned(), length)
        })
        .collect()
}

/// Returns how long the job is in steps, ns: in each from its latest begin on a rank to its latest
/// end. Time that is in several steps, as where ranks count them differently, counts once. None of
/// ranks without steps.
pub fn job_steps_total(ranks: &[RankSummary], clocks: &[RankClock]) -> Option<i64> {
    let times = step_times(ranks, clocks);
    let mut spans: Vec<(CommonNs, CommonNs)> = times
        .values()
        .filter(|time| time.is_whole)
        .map(|time| (time.last_begin, time.last_end))
        .collect();
    spans.sort_unstable();
    let (mut until, _) = *spans.first()?;
    let mut total = 0i64;
    for (begin, end) in spans {
        let begin = begin.max(until);
        total = total.saturating_add(end.since(begin).max(0));
        until = until.max(end);
    }
    Some(total)
}

/// Whether a rank's recording shows that its first step began later than the others'. Else its
/// recording may have begun later, in the middle of a step.
pub fn step_began_later(ranks: &[RankSummary], clocks: &[RankClock], rank: GlobalRank) -> bool {
    let mut begins = vec![];
    for (place, summary) in (0..).map(RankIdx).zip(ranks) {
        let Some(step) = summary.steps.all.first() else {
            continue;
        };
        let begin = aligned(clocks, place, step.start_ns);
        let recorded = aligned(clocks, place, summary.window_ns.0);
        begins.push((summary.rank, begin, recorded));
    }
    let first = begins.iter().map(|(_, begin, _)| *begin).min();
    let own = begins.iter().find(|(own, _, _)| *own == rank);
    own.zip(first)
        .is_some_and(|((_, begin, recorded), first)| *recorded <= first && first < *begin)
}

/// Whether ranks launched their sides in different steps.
fn spans_steps(ranks: &[RankSummary], collective: &DelayedCollective<'_>) -> bool {
    let mut members = collective.matched.members.iter();
    members.any(|member| step(ranks, *member) != collective.step)
}

fn step(ranks: &[RankSummary], member: MatchMember) -> Option<&str> {
    let summary = ranks.get(member.rank.index())?;
    Some(summary.steps.get(member.communication)?.name.as_str())
}

/// When the ranks did a step.
struct StepTimes {
    first_begin: CommonNs,
    last_begin: CommonNs,
    last_end: CommonNs,
    longest_ns: i64,
    /// On a rank it is more than the rest of a step.
    is_whole: bool,
}

fn step_times<'f>(ranks: &'f [RankSummary], clocks: &[RankClock]) -> BTreeMap<&'f str, StepTimes> {
    let mut times: BTreeMap<&str, StepTimes> = BTreeMap::new();
    for (at, summary) in ranks.iter().enumerate() {
        let stubs = RankSteps::stubs(&summary.steps.all);
        for (place, step) in summary.steps.all.iter().enumerate() {
            let begin = aligned(clocks, RankIdx::new(at), step.start_ns);
            let end = aligned(clocks, RankIdx::new(at), step.end_ns);
            let time = times.entry(&step.name).or_insert(StepTimes {
                first_begin: begin,
                last_begin: begin,
                last_end: end,
                longest_ns: 0,
                is_whole: false,
            });
            time.is_whole |= !stubs.contains(&StepIdx::new(place));
            time.first_begin = begin.min(time.first_begin);
            time.last_begin = begin.max(time.last_begin);
            time.last_end = end.max(time.last_end);
            time.longest_ns = step.end_ns.since(step.start_ns).max(time.longest_ns);
        }
    }
    times
}

struct RankSums {
    ranks: Vec<StragglerStats>,
}

impl RankSums {
    fn new(ranks: &[RankSummary]) -> RankSums {
        RankSums {
            ranks: ranks
                .iter()
                .map(|summary| StragglerStats {
                    rank: summary.rank,
                    ..StragglerStats::default()
                })
                .collect(),
        }
    }

    fn add_collective(&mut self, collective: &DelayedCollective<'_>) {
        for arrival in &collective.arrivals {
            let Some(rank) = self.ranks.get_mut(arrival.rank.index()) else {
                continue;
            };
            rank.collectives += 1;
            rank.waited_ns = rank.waited_ns.saturating_add(arrival.waits_ns);
        }
        if let Some(rank) = self.ranks.get_mut(collective.last.rank.index()) {
            rank.last += 1;
            let handed_on_ns = collective.handed_on_ns;
            rank.handed_on_ns = rank.handed_on_ns.saturating_add(handed_on_ns);
        }
    }

    fn add_charge(&mut self, rank: RankIdx, charge: DelayCharge) {
        if let Some(rank) = self.ranks.get_mut(rank.index()) {
            rank.caused_ns = rank.caused_ns.saturating_add(charge.caused_ns);
            rank.began_late_ns = rank.began_late_ns.saturating_add(charge.began_late_ns);
        }
    }

    /// Those for whom others waited, the worst first.
    fn worst(self) -> Vec<StragglerStats> {
        let mut late = self.ranks;
        late.retain(|rank| rank.caused_ns > 0 || rank.began_late_ns > 0);
        late.sort_by_key(|rank| {
            let worst = std::cmp::Reverse((rank.caused_ns, rank.began_late_ns));
            (worst, rank.rank)
        });
        // A run of thousands of ranks and steps would otherwise make a report of millions of lines.
        late.truncate(WORST);
        late
    }
}

#[cfg(test)]
mod tests;
