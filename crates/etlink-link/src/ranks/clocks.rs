//! How far the ranks' clocks are apart.
//!
//! A collective in which every rank needs data of every other cannot end on any rank before it has begun on all. So a rank's
//! offset lies between two bounds, which each further collective can only narrow:
//! ```text
//! rank 0    [s0 ======= e0]                s0 - e <= offset <= e0 - s
//! rank n          [s ======= e]
//! ```
//! Between the bounds the estimate is the median of the differences of the ends, which are the same instant but for the last
//! hop. Only device rows are used: a host call returns before its transfer ends. Ranks that share no group with the first are
//! reached over others; uncertainties add up.

use super::join::side;
use super::{Communication, Facts, Join};
use etlink_model::CollectiveKind;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One rank's clock against that of the first rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Clock {
    /// Global rank.
    pub rank: i64,
    /// What to add to its times to have them by the first rank's clock, ns. 0 where nothing tells.
    pub offset_ns: i64,
    /// The offset is not further off than this, ns; where `contradicted`, the collectives leave no offset and this is by how
    /// much they miss one. `None` where nothing tells.
    pub uncertainty_ns: Option<i64>,
    /// How many collectives support it, of the least supported step on the way from the first rank.
    pub support: u64,
    /// No single offset fits all collectives: the clocks drift, or rows are not what they seem.
    pub contradicted: bool,
}

/// Differences of one rank to another, from their common collectives.
#[derive(Default)]
struct Pair {
    ends: Vec<i64>,
    lower: Option<i64>,
    upper: Option<i64>,
}

impl Pair {
    fn add(&mut self, reference: &Communication, other: &Communication) {
        let (lower, upper) = (reference.start_ns.saturating_sub(other.end_ns), reference.end_ns.saturating_sub(other.start_ns));
        self.lower = Some(self.lower.map_or(lower, |known| known.max(lower)));
        self.upper = Some(self.upper.map_or(upper, |known| known.min(upper)));
        self.ends.push(reference.end_ns.saturating_sub(other.end_ns));
    }

    /// The offset of the other rank's clock against the reference's.
    fn clock(mut self) -> Option<Clock> {
        let (lower, upper) = (self.lower?, self.upper?);
        let support = self.ends.len() as u64;
        let middle = self.ends.len() / 2;
        let median = *self.ends.select_nth_unstable(middle).1;
        let contradicted = lower > upper;
        let offset_ns = if contradicted { median } else { median.clamp(lower, upper) };
        let uncertainty =
            if contradicted { lower.saturating_sub(upper) } else { offset_ns.saturating_sub(lower).max(upper.saturating_sub(offset_ns)) };
        Some(Clock { rank: 0, offset_ns, uncertainty_ns: Some(uncertainty), support, contradicted })
    }
}

/// The clocks of all ranks, in their order, against the first. O(communications + pairs log pairs).
pub fn clocks(ranks: &[Facts], join: &Join) -> Vec<Clock> {
    let mut steps: BTreeMap<u32, Vec<(u32, Clock)>> = BTreeMap::new();
    for ((reference, other), pair) in pairs(ranks, join) {
        let Some(clock) = pair.clock() else { continue };
        steps.entry(reference).or_default().push((other, clock));
        steps.entry(other).or_default().push((reference, Clock { offset_ns: clock.offset_ns.saturating_neg(), ..clock }));
    }
    let mut found: Vec<Option<Clock>> = vec![None; ranks.len()];
    // the least uncertain way first
    let mut open = BTreeSet::from([(0i64, 0u32)]);
    let mut best: BTreeMap<u32, Clock> = BTreeMap::from([(0, Clock { uncertainty_ns: Some(0), support: u64::MAX, ..Clock::default() })]);
    while let Some((_, at)) = open.pop_first() {
        let (Some(slot), Some(&clock)) = (found.get_mut(at as usize), best.get(&at)) else { continue };
        if slot.replace(clock).is_some() {
            continue;
        }
        for &(next, step) in steps.get(&at).into_iter().flatten() {
            let clock = clock.then(step);
            let better = best.get(&next).is_none_or(|known| clock.uncertainty_ns < known.uncertainty_ns);
            if better && found.get(next as usize) == Some(&None) {
                best.insert(next, clock);
                open.insert((clock.uncertainty_ns.unwrap_or(0), next));
            }
        }
    }
    let clock = |(facts, found): (&Facts, Option<Clock>)| Clock { rank: facts.rank, ..found.unwrap_or_default() };
    let mut clocks: Vec<Clock> = ranks.iter().zip(found).map(clock).collect();
    if let Some(first) = clocks.first_mut() {
        first.support = 0;
    }
    clocks
}

impl Clock {
    fn then(self, step: Clock) -> Clock {
        let sum = |a: Option<i64>, b: Option<i64>| Some(a?.saturating_add(b?));
        Clock {
            rank: 0,
            offset_ns: self.offset_ns.saturating_add(step.offset_ns),
            uncertainty_ns: sum(self.uncertainty_ns, step.uncertainty_ns),
            support: self.support.min(step.support),
            contradicted: self.contradicted || step.contradicted,
        }
    }
}

/// Each rank of a collective against the first of it.
fn pairs(ranks: &[Facts], join: &Join) -> BTreeMap<(u32, u32), Pair> {
    let mut pairs: BTreeMap<(u32, u32), Pair> = BTreeMap::new();
    for joint in join.joints.iter().filter(|joint| joint.is_whole() && needs_all(joint.kind)) {
        let mut parts = joint.parts.iter().filter(|part| side(ranks, **part).1.on_device);
        let Some(first) = parts.next() else { continue };
        for part in parts {
            let pair = pairs.entry((first.rank, part.rank)).or_default();
            pair.add(side(ranks, *first).1, side(ranks, *part).1);
        }
    }
    pairs
}

/// Whether every rank needs something of every other.
fn needs_all(kind: CollectiveKind) -> bool {
    use CollectiveKind as Kind;
    matches!(kind, Kind::AllReduce | Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll | Kind::Barrier)
}

#[cfg(test)]
mod tests;
