//! How far the ranks' clocks are apart.
//!
//! A collective in which every rank needs data of every other cannot end on any rank before it has
//! begun on all. So a rank's offset lies between two bounds, which each further collective can only
//! narrow:
//! ```text
//! rank 0    [s0 ======= e0]                s0 - e <= offset <= e0 - s
//! rank n          [s ======= e]
//! ```
//! Between the bounds the estimate is the median of the differences of the ends, which are the same
//! instant but for the last hop. Clocks that run at different speeds have an offset that moves;
//! `drift` finds how fast. Only device rows are used: a host call returns before its transfer ends.
//! Ranks that share no group with the first are reached over others; uncertainties add up. Ranks
//! that no collective reaches, but whose machine's clock another rank has, have that rank's.

mod drift;
mod pair;
mod points;

pub use drift::ClockDrift;

use super::join::side;
use super::summary::needs_all_ranks;
use super::{MatchMember, RankSummary, RunJoin};
use pair::fit;
use points::moved;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One rank's clock against that of the first rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RankClock {
    /// Global rank.
    pub rank: i64,
    /// What to add to its times to have them by the first rank's clock, ns; if a drift is applied,
    /// to those at `at_ns`. 0 where nothing tells.
    pub offset_ns: i64,
    /// The offset is not further off than this, ns; where `contradicted`, the collectives leave no
    /// offset and this is by how much they miss one. `None` where nothing tells, and where only the
    /// machine does.
    pub uncertainty_ns: Option<i64>,
    /// How many collectives support it, of the least supported step on the way from the first rank.
    pub support: u64,
    /// No offset, with or without a drift, fits all collectives: rows are not what they seem.
    pub contradicted: bool,
    /// How fast the offset moves; `None` where too few collectives tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<ClockDrift>,
    /// The middle of the rank's window, ns since the Unix epoch by its own clock.
    pub at_ns: i64,
    /// No collective tells: the offset is that of another rank whose machine has the same clock.
    pub by_machine: bool,
}

impl RankClock {
    /// A time of this rank by the first rank's clock.
    pub fn aligned(&self, ns: i64) -> i64 {
        let drift = self
            .drift
            .filter(|drift| drift.applied)
            .map_or(0, |drift| moved(drift.ppb, ns.saturating_sub(self.at_ns)));
        ns.saturating_add(self.offset_ns).saturating_add(drift)
    }

    /// This clock is that of `other` against the first rank's, seen through `step`, which is that
    /// of a third against `other`'s.
    fn then(self, step: RankClock) -> RankClock {
        RankClock {
            rank: 0,
            offset_ns: self
                .aligned(step.aligned(step.at_ns))
                .saturating_sub(step.at_ns),
            uncertainty_ns: sum_known(self.uncertainty_ns, step.uncertainty_ns),
            support: self.support.min(step.support),
            contradicted: self.contradicted || step.contradicted,
            drift: ClockDrift::sum(self.drift, step.drift),
            at_ns: step.at_ns,
            by_machine: self.by_machine || step.by_machine,
        }
    }

    /// The same from the other side, whose window's middle is `at_ns`.
    fn inverse(self, at_ns: i64) -> RankClock {
        let own = at_ns.saturating_sub(self.offset_ns);
        RankClock {
            offset_ns: own.saturating_sub(self.aligned(own)),
            at_ns,
            drift: self.drift.map(ClockDrift::inverse),
            ..self
        }
    }
}

/// The sum, where both are known.
fn sum_known(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    Some(one?.saturating_add(other?))
}

/// The clocks of all ranks, in their order, against the first. O(communications log
/// communications).
pub fn align_clocks(ranks: &[RankSummary], join: &RunJoin) -> Vec<RankClock> {
    let steps = steps(ranks, join);
    let mut found: Vec<Option<RankClock>> = vec![None; ranks.len()];
    // collectives before machines, then the least uncertain way
    let key = |clock: &RankClock| (clock.by_machine, clock.uncertainty_ns.unwrap_or(0));
    let first = RankClock {
        uncertainty_ns: Some(0),
        support: u64::MAX,
        drift: Some(ClockDrift::NONE),
        at_ns: middle(ranks, 0),
        ..RankClock::default()
    };
    // Dijkstra's algorithm over ranks: uncertainties only grow along a way, so the first clock that
    // leaves the queue is the best.
    let mut open = BTreeSet::from([((false, 0i64), 0u32)]);
    let mut best: BTreeMap<u32, RankClock> = BTreeMap::from([(0, first)]);
    while let Some((_, at)) = open.pop_first() {
        let (Some(slot), Some(&clock)) = (found.get_mut(at as usize), best.get(&at)) else {
            continue;
        };
        if slot.replace(clock).is_some() {
            continue;
        }
        for &(next, step) in steps.get(&at).into_iter().flatten() {
            let clock = clock.then(step);
            let better = best.get(&next).is_none_or(|known| key(&clock) < key(known));
            if better && found.get(next as usize) == Some(&None) {
                best.insert(next, clock);
                open.insert((key(&clock), next));
            }
        }
    }
    let clock = |(at, (summary, found)): (usize, (&RankSummary, Option<RankClock>))| {
        // The first rank's clock is the reference: it has no offset, whatever else was found for
        // it.
        let found = found.filter(|_| at > 0).map(RankClock::told);
        RankClock {
            rank: summary.rank,
            at_ns: middle(ranks, at as u32),
            ..found.unwrap_or_default()
        }
    };
    let mut clocks: Vec<RankClock> = ranks.iter().zip(found).enumerate().map(clock).collect();
    if let Some(first) = clocks.first_mut() {
        first.uncertainty_ns = Some(0);
    }
    clocks
}

impl RankClock {
    /// What is said of a clock that was found.
    fn told(self) -> RankClock {
        if self.by_machine {
            RankClock {
                uncertainty_ns: None,
                support: 0,
                drift: self.drift.filter(|drift| drift.applied),
                ..self
            }
        } else {
            self
        }
    }
}

/// From each rank, by place, the clocks of others against its own.
fn steps(ranks: &[RankSummary], join: &RunJoin) -> BTreeMap<u32, Vec<(u32, RankClock)>> {
    let mut steps: BTreeMap<u32, Vec<(u32, RankClock)>> = BTreeMap::new();
    let mut put = |reference: u32, other: u32, clock: RankClock| {
        steps.entry(reference).or_default().push((other, clock));
        steps
            .entry(other)
            .or_default()
            .push((reference, clock.inverse(middle(ranks, reference))));
    };
    for ((reference, other), members) in pairs(ranks, join) {
        let sides = members
            .iter()
            .map(|(reference, other)| (side(ranks, *reference).1, side(ranks, *other).1));
        if let Some(clock) = fit(sides, middle(ranks, other)) {
            put(reference, other, clock);
        }
    }
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    for (at, summary) in (0u32..).zip(ranks) {
        let Some(machine) = &summary.machine else {
            continue;
        };
        // Ranks of one machine form a star around the first of them: all pairs would be quadratic
        // in its GPUs.
        let reference = *known.entry(machine).or_insert(at);
        if reference != at {
            let at_ns = middle(ranks, at);
            put(
                reference,
                at,
                RankClock {
                    uncertainty_ns: Some(0),
                    support: u64::MAX,
                    drift: Some(ClockDrift::NONE),
                    by_machine: true,
                    at_ns,
                    ..RankClock::default()
                },
            );
        }
    }
    steps
}

/// The middle of a rank's window.
fn middle(ranks: &[RankSummary], at: u32) -> i64 {
    let (start, end) = ranks
        .get(at as usize)
        .map_or((0, 0), |summary| summary.window_ns);
    start.midpoint(end)
}

/// The two ranks' sides of all their common collectives.
type Sides = Vec<(MatchMember, MatchMember)>;

/// Each rank of a collective against the first of it.
fn pairs(ranks: &[RankSummary], join: &RunJoin) -> BTreeMap<(u32, u32), Sides> {
    let mut pairs: BTreeMap<(u32, u32), Sides> = BTreeMap::new();
    for matched in join
        .matches
        .iter()
        .filter(|matched| matched.is_whole() && needs_all_ranks(matched.kind))
    {
        let mut members = matched
            .members
            .iter()
            // A host call of Gloo or of an asynchronous collective returns before its transfer
            // ends, and would give bounds that are wrong.
            .filter(|member| side(ranks, **member).1.on_device);
        let Some(first) = members.next() else {
            continue;
        };
        for member in members {
            pairs
                .entry((first.rank, member.rank))
                .or_default()
                .push((*first, *member));
        }
    }
    pairs
}

#[cfg(test)]
mod tests;
