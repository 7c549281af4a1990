//! Who made the others wait, per step and in all.
//!
//! With `a(r)` for the arrival of rank `r` at a collective or message by the first rank's clock,
//! and `l` for the rank that arrives last, rank `r` waits `a(l) - a(r)`, and `l` caused the sum of
//! that over all `r`. It is charged to the step in which `l` launched its side. An arrival is the
//! start of the device row; where no device takes part, of the range in which Gloo carries it out,
//! else of the call ([`CommExtent`](super::Runs)). A rank that has come but does something else
//! before it stands still (a message, for which a wait is recorded) waits from then on, and one
//! that needs nothing of the last and was done before it came (a sender) does not wait. Of equal
//! arrivals the last by rank is the last.
//!
//! `etlink replay` counts the same instants in a run of its own: what a rank waits there is what
//! the others alone hold it up, so that a rank which would have stood still for another reason (a
//! kernel that waits for an event) waits less there than here.

use super::join::side;
use super::{CollectiveMatch, MatchMember, RankClock, RankSummary, RunJoin};
use etlink_model::{CommonNs, GlobalRank, RankIdx, UnixNs};
use serde::Serialize;
use std::collections::BTreeMap;

/// Of a step's ranks that made others wait, this many are kept, the worst.
const WORST: usize = 8;

/// How one rank's lateness adds up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StragglerStats {
    /// Global rank.
    pub rank: GlobalRank,
    /// Collectives and messages that it takes part in.
    pub collectives: u64,
    /// Those in which it came last.
    pub last: u64,
    /// What the others waited for it in those, summed over the others, ns.
    pub caused_ns: i64,
    /// What it alone made others wait in those, from the second to last arrival to its own, ns.
    pub alone_ns: i64,
    /// What it waited for others, ns.
    pub waited_ns: i64,
}

/// One step of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepStragglers {
    /// Its name; `None`: what was launched before the first step, or in traces without steps.
    pub step: Option<String>,
    /// The first start of it; of the first arrival, if it is no step.
    pub start_ns: CommonNs,
    /// How long it was on the rank on which it was longest, ns; 0 if it is no step.
    pub longest_ns: i64,
    /// Collectives and messages whose last rank launched its side in this step.
    pub collectives: u64,
    /// Those of which another rank launched its side in another step.
    pub spans_steps: u64,
    /// What all ranks waited in them, ns.
    pub waited_ns: i64,
    /// The ranks that the others waited for, that which caused most first; no more than 8.
    pub stragglers: Vec<StragglerStats>,
}

/// Sums per rank, in the ranks' order.
pub fn straggler_stats(
    ranks: &[RankSummary],
    join: &RunJoin,
    clocks: &[RankClock],
) -> Vec<StragglerStats> {
    let mut sums = Sums::new(ranks);
    join.matches
        .iter()
        .filter_map(|matched| collective_arrivals(ranks, clocks, matched))
        .for_each(|arrivals| sums.add(&arrivals));
    sums.ranks
}

/// Sums per step, in order of time; what is of no step comes first. O(collectives log collectives +
/// steps · ranks).
pub fn step_stragglers(
    ranks: &[RankSummary],
    join: &RunJoin,
    clocks: &[RankClock],
) -> Vec<StepStragglers> {
    let mut of_step: BTreeMap<Option<&str>, Vec<&CollectiveMatch>> = BTreeMap::new();
    for matched in &join.matches {
        let Some(arrivals) = collective_arrivals(ranks, clocks, matched) else {
            continue;
        };
        let Some((CollectiveArrival { rank: last, .. }, ..)) = last_of(&arrivals) else {
            continue;
        };
        let step = matched
            .members
            .iter()
            .find(|member| member.rank == last)
            .and_then(|member| step(ranks, *member));
        of_step.entry(step).or_default().push(matched);
    }
    let lengths = lengths(ranks, clocks);
    let mut steps: Vec<StepStragglers> = of_step
        .into_iter()
        .map(|(name, matches)| one(ranks, clocks, name, &matches, &lengths))
        .collect();
    steps.sort_by(|a, b| {
        (a.step.is_some(), a.start_ns, &a.step).cmp(&(b.step.is_some(), b.start_ns, &b.step))
    });
    steps
}

fn one(
    ranks: &[RankSummary],
    clocks: &[RankClock],
    name: Option<&str>,
    matches: &[&CollectiveMatch],
    lengths: &BTreeMap<&str, (CommonNs, i64)>,
) -> StepStragglers {
    let mut sums = Sums::new(ranks);
    let mut first = CommonNs(i64::MAX);
    for arrivals in matches
        .iter()
        .filter_map(|matched| collective_arrivals(ranks, clocks, matched))
    {
        sums.add(&arrivals);
        first = arrivals
            .first()
            .map_or(first, |arrival| arrival.at_ns.min(first));
    }
    let waited_ns = sums
        .ranks
        .iter()
        .fold(0i64, |sum, rank| sum.saturating_add(rank.waited_ns));
    let mut late: Vec<StragglerStats> = sums
        .ranks
        .into_iter()
        .filter(|rank| rank.caused_ns > 0)
        .collect();
    late.sort_by_key(|rank| (std::cmp::Reverse(rank.caused_ns), rank.rank));
    // A run of thousands of ranks and steps would otherwise make a report of millions of lines.
    late.truncate(WORST);
    let (start_ns, longest_ns) = name
        .and_then(|name| lengths.get(name).copied())
        .unwrap_or((first, 0));
    let spans_steps = matches
        .iter()
        .filter(|matched| {
            matched
                .members
                .iter()
                .any(|member| step(ranks, *member) != name)
        })
        .count() as u64;
    StepStragglers {
        step: name.map(str::to_owned),
        start_ns,
        longest_ns,
        collectives: matches.len() as u64,
        spans_steps,
        waited_ns,
        stragglers: late,
    }
}

fn step(ranks: &[RankSummary], member: MatchMember) -> Option<&str> {
    let summary = ranks.get(member.rank.index())?;
    Some(summary.steps.get(member.communication)?.name.as_str())
}

/// Per step, its first start and the longest that it took on a rank.
fn lengths<'f>(
    ranks: &'f [RankSummary],
    clocks: &[RankClock],
) -> BTreeMap<&'f str, (CommonNs, i64)> {
    let mut lengths: BTreeMap<&str, (CommonNs, i64)> = BTreeMap::new();
    for (at, summary) in ranks.iter().enumerate() {
        for step in &summary.steps.all {
            let start = aligned(clocks, RankIdx::new(at), step.start_ns);
            let length = step.end_ns.since(step.start_ns);
            let (first, longest) = lengths.entry(&step.name).or_insert((start, length));
            (*first, *longest) = (start.min(*first), length.max(*longest));
        }
    }
    lengths
}

struct Sums {
    ranks: Vec<StragglerStats>,
}

impl Sums {
    fn new(ranks: &[RankSummary]) -> Sums {
        Sums {
            ranks: ranks
                .iter()
                .map(|summary| StragglerStats {
                    rank: summary.rank,
                    ..StragglerStats::default()
                })
                .collect(),
        }
    }

    fn add(&mut self, arrivals: &[CollectiveArrival]) {
        for arrival in arrivals {
            let Some(rank) = self.ranks.get_mut(arrival.rank.index()) else {
                continue;
            };
            rank.collectives += 1;
            rank.waited_ns = rank.waited_ns.saturating_add(arrival.waits_ns);
        }
        let Some((last, caused, alone)) = last_of(arrivals) else {
            return;
        };
        let Some(rank) = self.ranks.get_mut(last.rank.index()) else {
            return;
        };
        rank.last += 1;
        rank.alone_ns = rank.alone_ns.saturating_add(alone);
        rank.caused_ns = rank.caused_ns.saturating_add(caused);
    }
}

/// A time of a rank by the first rank's clock, as far as it is known.
pub(super) fn aligned(clocks: &[RankClock], rank: RankIdx, own: UnixNs) -> CommonNs {
    let clock = clocks.get(rank.index());
    // Without a clock the machines' clocks are taken to agree.
    clock.map_or(CommonNs(own.0), |clock| clock.aligned(own))
}

/// One rank's side of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CollectiveArrival {
    /// When it came.
    pub at_ns: CommonNs,
    /// Which rank, by place.
    pub rank: RankIdx,
    /// How long it then waited for the last to come, ns.
    pub waits_ns: i64,
}

/// How the ranks came, ascending in time; `None` for collectives that not all have.
pub fn collective_arrivals(
    ranks: &[RankSummary],
    clocks: &[RankClock],
    matched: &CollectiveMatch,
) -> Option<Vec<CollectiveArrival>> {
    let mut arrivals: Vec<CollectiveArrival> = Vec::with_capacity(matched.members.len());
    for member in &matched.members {
        let extent = side(ranks, *member).1.extent;
        arrivals.push(CollectiveArrival {
            at_ns: aligned(clocks, member.rank, extent.arrival_ns),
            rank: member.rank,
            waits_ns: 0,
        });
    }
    let last = arrivals.iter().map(|arrival| arrival.at_ns).max()?;
    for (arrival, member) in arrivals.iter_mut().zip(&matched.members) {
        let communication = side(ranks, *member).1;
        let extent = communication.extent;
        // A sender, or the root of a broadcast, needs nothing of the others and can be done before
        // they come.
        let gone_on = extent.is_transfer
            && !communication.needs_all()
            && aligned(clocks, member.rank, extent.end_ns) < last;
        // A rank waits from when it stands still: between its call and that it can do other work.
        let since = aligned(clocks, member.rank, extent.start_ns.max(extent.arrival_ns));
        if !gone_on {
            arrival.waits_ns = last.since(since).max(0);
        }
    }
    arrivals.sort_unstable();
    (matched.is_whole() && arrivals.len() > 1).then_some(arrivals)
}

/// The last arrival, what all others waited for it, and what they would not have but for it.
pub(super) fn last_of(arrivals: &[CollectiveArrival]) -> Option<(CollectiveArrival, i64, i64)> {
    let [.., before, last] = arrivals else {
        return None;
    };
    let waits = arrivals.iter().map(|arrival| arrival.waits_ns);
    // Nobody can have waited longer for the last alone than for all.
    let alone = last.at_ns.since(before.at_ns).min(waits.clone().max()?);
    Some((*last, waits.fold(0, i64::saturating_add), alone))
}

#[cfg(test)]
mod tests;
