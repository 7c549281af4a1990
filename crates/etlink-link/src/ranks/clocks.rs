//! Offsets between the ranks' clocks.
//!
//! A collective in which every rank needs data of every other cannot end on any rank before it has
//! begun on all. So a rank's offset is between two bounds, which each further collective can only
//! narrow:
//! ```text
//! rank 0    [s0 ======= e0]                s0 - e <= offset <= e0 - s
//! rank n          [s ======= e]
//! ```
//! Between the bounds, the estimate is the median of the differences of the ends, which are
//! simultaneous except for the last hop. If clocks run at different speeds, the offset changes;
//! `drift` finds its rate. Host calls return before their transfer ends and are no evidence; device
//! rows, and operations that wait for a call's work or carry it out, end with the transfer. Ranks
//! that share no group with the first are reached over others; uncertainties add up. If no
//! collective leads to a rank, messages bound its offset ([`messages`]).
//!
//! Ranks of one machine share a clock: Kineto reports device times on the host's clock. If
//! collectives contradict this, the clocks are separate: containers on several machines can have
//! the same name.

mod drift;
mod messages;
mod pair;
mod points;

pub use drift::ClockDrift;

use super::join::side;
use super::summary::needs_all_ranks;
use super::{Communication, MatchMember, RankSummary, RunJoin};
use etlink_model::{CommonNs, GlobalRank, RankIdx, TimeNs, UnixNs};
use messages::{message_clocks, message_limits};
use pair::fit;
use points::moved;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Least difference of the ends of a collective that tells nothing about clocks, ns.
const END_SPREAD_NS: i64 = 2_000;

/// Clock of one rank relative to the first rank's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankClock {
    /// Global rank.
    pub rank: GlobalRank,
    /// Offset to the first rank's clock, added to the rank's times, ns; with an applied drift, the
    /// offset at `at_ns`. 0 if unknown.
    pub offset_ns: i64,
    /// Maximum error of the offset, ns. If `contradicted`, the collectives allow no offset, and
    /// this is the gap between their bounds. `None` if the offset is unknown or comes from the
    /// machine.
    pub uncertainty_ns: Option<i64>,
    /// Likely error of the offset, ns, if the collectives show it: the spread of the differences of
    /// their ends, and the offset itself if the clocks may also be one, so that the ends differ.
    pub likely_error_ns: i64,
    /// Number of collectives that support the offset, for the least supported step from the first
    /// rank. For a clock known by its machine, number of collectives that confirm it; 0 means
    /// unchecked.
    pub support: u64,
    /// True if no offset, with or without a drift, fits all collectives or all messages: some rows
    /// are misleading.
    pub contradicted: bool,
    /// Rate of change of the offset; `None` if there are too few collectives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<ClockDrift>,
    /// Middle of the rank's window, by its own clock.
    pub at_ns: UnixNs,
    /// True if the clock is the first rank's, since both are on one machine.
    pub by_machine: bool,
}

impl RankClock {
    /// Converts a time of this rank to the first rank's clock.
    pub fn aligned(&self, own: UnixNs) -> CommonNs {
        let moved = self.drift_after(own.since(self.at_ns));
        CommonNs(own.shifted(self.offset_ns).shifted(moved).0)
    }

    /// Change of the offset `ns` nanoseconds after the middle of the window.
    fn drift_after(&self, ns: i64) -> i64 {
        let drift = self.drift.filter(|drift| drift.applied);
        drift.map_or(0, |drift| moved(drift.ppb, ns))
    }

    /// Converts an instant of this rank's trace to the first rank's clock. Both count from `base`,
    /// the origin of the trace by its own clock.
    pub fn aligned_trace_time(&self, base: UnixNs, time: TimeNs) -> TimeNs {
        // Not by way of Unix time: times in damaged traces may exceed its range, and would lose
        // their differences.
        let moved = self.drift_after(time.0.saturating_sub(self.at_ns.since(base)));
        time.shifted(self.offset_ns).shifted(moved)
    }

    /// Composes this clock of `other` relative to the first rank with `step`, a third rank's clock
    /// relative to `other`.
    fn then(self, step: RankClock) -> RankClock {
        // Reference time of `step`, converted to the other rank's own time.
        let between = UnixNs(step.aligned(step.at_ns).0);
        RankClock {
            rank: GlobalRank::default(),
            offset_ns: self.aligned(between).0.saturating_sub(step.at_ns.0),
            uncertainty_ns: sum_known(self.uncertainty_ns, step.uncertainty_ns),
            likely_error_ns: self.likely_error_ns.saturating_add(step.likely_error_ns),
            support: self.support.min(step.support),
            contradicted: self.contradicted || step.contradicted,
            drift: ClockDrift::sum(self.drift, step.drift),
            at_ns: step.at_ns,
            // on another machine, all ranks are as far off as the one that collectives reach
            by_machine: self.by_machine && step.by_machine,
        }
    }

    /// Inverts the clock, for a rank whose window's middle is `at_ns`.
    fn inverse(self, at_ns: UnixNs) -> RankClock {
        let own = at_ns.shifted(self.offset_ns.saturating_neg());
        RankClock {
            offset_ns: own.0.saturating_sub(self.aligned(own).0),
            at_ns,
            drift: self.drift.map(ClockDrift::inverse),
            ..self
        }
    }
}

/// Sums two values; `None` if either is unknown.
fn sum_known(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    Some(one?.saturating_add(other?))
}

/// Determines the clocks of all ranks relative to the first, in rank order. O(communications log
/// communications).
pub fn align_clocks(ranks: &[RankSummary], join: &RunJoin) -> Vec<RankClock> {
    let ClockSteps {
        mut steps,
        borne_out,
    } = steps(ranks, join);
    let mut found = reach_ranks(ranks, &steps);
    if found.iter().any(Option::is_none) {
        let by_messages = message_clocks(ranks, join, &steps, &found);
        if !by_messages.is_empty() {
            steps.entry(RankIdx(0)).or_default().extend(by_messages);
            found = reach_ranks(ranks, &steps);
        }
    }
    let mut clocks: Vec<RankClock> = Vec::with_capacity(ranks.len());
    for (at, (summary, found)) in ranks.iter().zip(found).enumerate() {
        // The first rank's clock is the reference: its offset is 0, whatever else was found.
        let support = borne_out.get(&RankIdx::new(at)).copied().unwrap_or(0);
        let found = if at > 0 { found } else { None };
        let found = found.map(|clock| clock.reported(support));
        clocks.push(RankClock {
            rank: summary.rank,
            at_ns: middle(ranks, RankIdx::new(at)),
            ..found.unwrap_or_default()
        });
    }
    if let Some(first) = clocks.first_mut() {
        first.uncertainty_ns = Some(0);
    }
    clocks
}

/// Returns the clocks of all ranks reachable from the first, each by the least uncertain path.
fn reach_ranks(
    ranks: &[RankSummary],
    steps: &BTreeMap<RankIdx, Vec<(RankIdx, RankClock)>>,
) -> Vec<Option<RankClock>> {
    let mut found: Vec<Option<RankClock>> = vec![None; ranks.len()];
    let first = RankClock {
        uncertainty_ns: Some(0),
        support: u64::MAX,
        drift: Some(ClockDrift::NONE),
        at_ns: middle(ranks, RankIdx(0)),
        by_machine: true,
        ..RankClock::default()
    };
    // Dijkstra's algorithm over ranks: uncertainties only grow along a path, so the first clock
    // that leaves the queue is the best.
    let mut open = BTreeSet::from([((0i64, false), RankIdx(0))]);
    let mut best: BTreeMap<RankIdx, RankClock> = BTreeMap::from([(RankIdx(0), first)]);
    while let Some((_, at)) = open.pop_first() {
        let (Some(slot), Some(&clock)) = (found.get_mut(at.index()), best.get(&at)) else {
            continue;
        };
        if slot.replace(clock).is_some() {
            continue;
        }
        for &(next, step) in steps.get(&at).into_iter().flatten() {
            let clock = clock.then(step);
            let better = best
                .get(&next)
                .is_none_or(|known| clock.rank_of_way() < known.rank_of_way());
            if better && found.get(next.index()) == Some(&None) {
                best.insert(next, clock);
                open.insert((clock.rank_of_way(), next));
            }
        }
    }
    found
}

impl RankClock {
    /// True if the ends of collectives differ more between the ranks than among each other.
    fn is_likely_apart(&self) -> bool {
        // Of a spread as large as the bounds allow nothing is known.
        if self.uncertainty_ns == Some(self.likely_error_ns) {
            return false;
        }
        let spread = self
            .likely_error_ns
            .saturating_sub(self.offset_ns.saturating_abs());
        self.offset_ns.saturating_abs() > spread.max(END_SPREAD_NS).saturating_mul(10)
    }

    /// Sort key of paths to a rank: the least uncertain first; among equals, those by machine.
    fn rank_of_way(&self) -> (i64, bool) {
        (self.uncertainty_ns.unwrap_or(0), !self.by_machine)
    }

    /// Returns the clock as reported. `borne_out` is the number of collectives that confirm the
    /// machine's clock.
    fn reported(self, borne_out: u64) -> RankClock {
        if self.by_machine {
            RankClock {
                uncertainty_ns: None,
                support: borne_out,
                drift: self.drift.filter(|drift| drift.applied),
                ..self
            }
        } else {
            self
        }
    }
}

/// Evidence about clocks.
struct ClockSteps {
    /// Clocks of other ranks relative to each rank, by index.
    steps: BTreeMap<RankIdx, Vec<(RankIdx, RankClock)>>,
    /// Number of collectives that confirm that a rank has its machine's clock.
    borne_out: BTreeMap<RankIdx, u64>,
}

fn steps(ranks: &[RankSummary], join: &RunJoin) -> ClockSteps {
    let mut borne_out: BTreeMap<RankIdx, u64> = BTreeMap::new();
    let mut steps: BTreeMap<RankIdx, Vec<(RankIdx, RankClock)>> = BTreeMap::new();
    let mut put = |reference: RankIdx, other: RankIdx, clock: RankClock| {
        steps.entry(reference).or_default().push((other, clock));
        steps
            .entry(other)
            .or_default()
            .push((reference, clock.inverse(middle(ranks, reference))));
    };
    // Ranks with equal machine names but different clocks.
    let mut apart: BTreeSet<RankIdx> = BTreeSet::new();
    let mut same_name = vec![];
    for ((reference, other), members) in pairs(ranks, join) {
        let sides = members
            .iter()
            .map(|(reference, other)| (side(ranks, *reference).1, side(ranks, *other).1));
        if let Some(clock) = fit(sides, middle(ranks, other)) {
            let own = [reference, other].map(|rank| &ranks[rank.index()].machine);
            if own[0].is_some() && own[0] == own[1] && !clock.contradicted {
                same_name.push((reference, other, clock));
            }
            put(reference, other, clock);
        }
    }
    let excludes_one =
        |clock: &RankClock| clock.offset_ns.saturating_abs() > clock.uncertainty_ns.unwrap_or(0);
    let machine = |rank: RankIdx| ranks[rank.index()].machine.as_deref();
    let excluded = same_name.iter().filter(|one| excludes_one(&one.2));
    let shared_names: BTreeSet<_> = excluded.map(|one| machine(one.1)).collect();
    for (reference, other, clock) in &same_name {
        // The name of several machines proves nothing, so the likely offset decides.
        let is_likely_apart = shared_names.contains(&machine(*other)) && clock.is_likely_apart();
        if excludes_one(clock) || is_likely_apart {
            apart.insert(*other);
        } else {
            for rank in [reference, other] {
                *borne_out.entry(*rank).or_default() += clock.support;
            }
        }
    }
    let by_messages = machine_messages(ranks, join);
    apart.extend(by_messages.apart);
    for rank in by_messages.agreeing {
        *borne_out.entry(rank).or_default() += 1;
    }
    let mut known: BTreeMap<&str, RankIdx> = BTreeMap::new();
    for (at, summary) in (0u32..).map(RankIdx).zip(ranks) {
        if apart.contains(&at) {
            continue;
        }
        let Some(machine) = summary.machine.as_ref() else {
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
    ClockSteps { steps, borne_out }
}

/// Evidence from messages about ranks with equal machine names.
#[derive(Default)]
struct MachineMessages {
    /// Ranks that, on a shared clock, receive data before it was sent: the clock is not shared.
    apart: BTreeSet<RankIdx>,
    /// Both ranks of each direction in which everything was sent before it was received.
    agreeing: Vec<RankIdx>,
}

fn machine_messages(ranks: &[RankSummary], join: &RunJoin) -> MachineMessages {
    let (limits, _) = message_limits(ranks, join, Communication::ends_with_transfer);
    let of_machine = limits.into_iter();
    let of_machine = of_machine.filter(|limit| is_one_machine(ranks, limit.from, limit.to));
    let (mut broken, agreeing): (Vec<_>, Vec<_>) = of_machine.partition(|limit| limit.ns < 0);
    let mut found = MachineMessages::default();
    // The rank in most broken limits has the different clock; of two ranks, the later one.
    while !broken.is_empty() {
        let mut counts: BTreeMap<RankIdx, usize> = BTreeMap::new();
        for limit in &broken {
            *counts.entry(limit.from).or_default() += 1;
            *counts.entry(limit.to).or_default() += 1;
        }
        let worst = counts
            .into_iter()
            .max_by_key(|(rank, count)| (*count, *rank));
        let Some((worst, _)) = worst else { break };
        broken.retain(|limit| limit.from != worst && limit.to != worst);
        found.apart.insert(worst);
    }
    for limit in agreeing {
        if !found.apart.contains(&limit.from) && !found.apart.contains(&limit.to) {
            found.agreeing.extend([limit.from, limit.to]);
        }
    }
    found
}

/// Middle of a rank's window.
fn middle(ranks: &[RankSummary], at: RankIdx) -> UnixNs {
    let (start, end) = ranks
        .get(at.index())
        .map(|summary| summary.window_ns)
        .unwrap_or_default();
    UnixNs(start.0.midpoint(end.0))
}

/// True if two ranks name one machine and were recorded at the same time. Then host times of
/// collectives can contradict a shared clock.
fn is_one_machine(ranks: &[RankSummary], one: RankIdx, other: RankIdx) -> bool {
    let [one, other] = [one, other].map(|rank| &ranks[rank.index()]);
    let (a, b) = (one.window_ns, other.window_ns);
    one.machine.is_some() && one.machine == other.machine && a.0 < b.1 && b.0 < a.1
}

/// Both ranks' sides of all their common collectives.
type Sides = Vec<(MatchMember, MatchMember)>;

/// Pairs each rank of a collective with its first rank.
fn pairs(ranks: &[RankSummary], join: &RunJoin) -> BTreeMap<(RankIdx, RankIdx), Sides> {
    let mut pairs: BTreeMap<(RankIdx, RankIdx), Sides> = BTreeMap::new();
    for matched in join
        .matches
        .iter()
        .filter(|matched| matched.is_whole() && needs_all_ranks(matched.kind))
    {
        let mut members = matched
            .members
            .iter()
            // A host call of Gloo or of an asynchronous collective returns before its transfer
            // ends, and would give wrong bounds. The operation that carries it out, or waits for
            // it, ends with the transfer.
            .filter(|member| side(ranks, **member).1.ends_with_transfer());
        let Some(first) = members.next() else {
            continue;
        };
        let is_on_device = side(ranks, *first).1.on_device;
        for member in members {
            let both = is_on_device && side(ranks, *member).1.on_device;
            if !both && !is_one_machine(ranks, first.rank, member.rank) {
                continue;
            }
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
