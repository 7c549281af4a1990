//! Straggling ranks, per step and in total.
//!
//! With `a(r)` for the arrival of rank `r` at a collective or message by the first rank's clock,
//! and `l` for the rank that arrives last, rank `r` waits `a(l) - a(r)`. An arrival is the start of
//! the device row; without a device, the start of the range in which Gloo carries it out, else of
//! the call ([`CommExtent`](super::CommExtent)). A rank that has arrived but does something else
//! before it stands still (a message with a recorded wait) waits from then on. A rank that needs
//! nothing from the last and had finished before its arrival (a sender) does not wait. Of equal
//! arrivals, the highest rank is the last. `delays` decides which ranks are charged with a wait; it
//! counts for the step in which `l` launched its side.
//!
//! `etlink replay` counts the same instants in its simulated run. There, a rank's wait is the time
//! that only the others delay it: a rank that would have stood still for another reason (a kernel
//! that waits for an event) waits less there than here.

use super::delays::{DelayCharge, DelayedCollective, RunDelays};
use super::{MatchMember, RankClock, RankSummary, RunJoin, RunSteps};
use etlink_model::{CommonNs, GlobalRank, RankIdx};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of straggling ranks kept per step, the worst first.
const WORST: usize = 8;

/// Totals of one rank's lateness. Summed over all ranks, `caused_ns` and `began_late_ns` together
/// equal `waited_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StragglerStats {
    /// Global rank.
    pub rank: GlobalRank,
    /// Number of collectives and messages that it takes part in.
    pub collectives: u64,
    /// Number of these in which it arrived last.
    pub last: u64,
    /// Waits of others, in any collective, caused by its activity since they were together, ns.
    pub caused_ns: i64,
    /// Likely error of `caused_ns` by the clocks of the ranks: the sum over these waits, ns. The rank
    /// is not shown to be late unless `caused_ns` exceeds it.
    pub caused_uncertainty_ns: i64,
    /// Waits of others, in any collective, caused by the later start of its step or recording, ns.
    pub began_late_ns: i64,
    /// Part of `began_late_ns` in which the rank was not recorded yet, ns.
    pub start_skew_ns: i64,
    /// Waits of others in collectives in which it arrived last, caused by its own waits for other
    /// ranks, ns. They are charged to those ranks.
    pub handed_on_ns: i64,
    /// Waits of the rank for others, ns.
    pub waited_ns: i64,
}

impl StragglerStats {
    /// Returns true if the rank held others up by more than the error of the clocks.
    pub fn is_late(&self) -> bool {
        self.caused_ns > self.caused_uncertainty_ns
    }

    /// Waits of others for its work, unless the clocks do not show them; ns.
    pub fn waits_for_work_ns(&self) -> i64 {
        if self.is_late() { self.caused_ns } else { 0 }
    }

    /// True if others waited for its late steps alone: it was recorded when theirs began. Otherwise
    /// its recording may have begun in the middle of a step.
    pub fn began_steps_later(&self) -> bool {
        self.began_late_ns > 0 && self.start_skew_ns == 0
    }

    /// Waits of others for its work and its late starts, ns.
    pub fn waits_for_it_ns(&self) -> i64 {
        self.waits_for_work_ns().saturating_add(self.began_late_ns)
    }
}

/// Returns the rank with the largest value, if any is positive; the first on a tie.
pub fn worst_rank(
    ranks: &[StragglerStats],
    of: fn(&StragglerStats) -> i64,
) -> Option<&StragglerStats> {
    let late = ranks.iter().filter(|rank| of(rank) > 0);
    late.max_by_key(|rank| (of(rank), std::cmp::Reverse(rank.rank)))
}

/// Stragglers in one step, over all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepStragglers {
    /// Name of the step; `None` for work launched before the first step, or without steps.
    pub step: Option<String>,
    /// First start of the step; without a step, the first arrival.
    pub start_ns: CommonNs,
    /// Begin of its length: its begin on the last rank; without a step, `start_ns`.
    pub begin_ns: CommonNs,
    /// Length of the step, from `begin_ns` to its end on the last rank, ns; 0 without a step.
    pub length_ns: i64,
    /// Time from its first start on a rank to its latest, ns; 0 without a step.
    pub begin_spread_ns: i64,
    /// Number of collectives and messages whose last rank launched its side in this step.
    pub collectives: u64,
    /// Number of these whose sides were launched in different steps.
    pub spans_steps: u64,
    /// Total wait of all ranks in them, ns.
    pub waited_ns: i64,
    /// Part of that wait caused by later starts of steps or recordings, ns.
    pub began_late_ns: i64,
    /// Ranks that the others waited for, worst first; at most 8.
    pub stragglers: Vec<StragglerStats>,
}

/// Totals per rank, in rank order.
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

/// Totals per step, sorted by time; work outside steps comes first. O(collectives log collectives +
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
    let run = RunSteps::of_ranks(ranks, clocks);
    let mut steps = Vec::with_capacity(of_step.len());
    for (name, collectives) in of_step {
        let first_arrivals = collectives.iter().filter_map(|one| one.arrivals.first());
        let first = first_arrivals.map(|arrival| arrival.at_ns).min();
        let mut step = StepStragglers {
            step: name.map(str::to_owned),
            start_ns: first.unwrap_or_default(),
            begin_ns: first.unwrap_or_default(),
            collectives: collectives.len() as u64,
            ..StepStragglers::default()
        };
        if let Some(time) = name.and_then(|name| run.find(name)) {
            step.start_ns = time.first_start_ns;
            (step.begin_ns, step.length_ns) = (time.begin_ns, time.length_ns());
            step.begin_spread_ns = time.last_start_ns.since(time.first_start_ns);
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

/// True if ranks launched their sides in different steps.
fn spans_steps(ranks: &[RankSummary], collective: &DelayedCollective<'_>) -> bool {
    let mut members = collective.matched.members.iter();
    members.any(|member| step(ranks, *member) != collective.step)
}

fn step(ranks: &[RankSummary], member: MatchMember) -> Option<&str> {
    let summary = ranks.get(member.rank.index())?;
    Some(summary.steps.get(member.communication)?.name.as_str())
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
            rank.caused_uncertainty_ns = rank
                .caused_uncertainty_ns
                .saturating_add(charge.uncertainty_ns);
            rank.began_late_ns = rank.began_late_ns.saturating_add(charge.began_late_ns);
            rank.start_skew_ns = rank.start_skew_ns.saturating_add(charge.start_skew_ns);
        }
    }

    /// Returns the ranks that others waited for, worst first.
    fn worst(self) -> Vec<StragglerStats> {
        let mut late = self.ranks;
        late.retain(|rank| rank.caused_ns > 0 || rank.began_late_ns > 0);
        late.sort_by_key(|rank| {
            let worst = std::cmp::Reverse((rank.caused_ns, rank.began_late_ns));
            (worst, rank.rank)
        });
        // Otherwise, a run of thousands of ranks and steps would make a report of millions of
        // lines.
        late.truncate(WORST);
        late
    }
}

#[cfg(test)]
mod tests;
