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
//! `drift` finds how fast. Calls of the host return before their transfer ends, and say nothing; device
//! rows, and what waits for a call's work or carries it out, end with it.
//! Ranks that share no group with the first are reached over others; uncertainties add up. Where
//! no collective leads, messages bound the offsets ([`messages`]).
//!
//! Ranks of one machine have one clock: Kineto has device times by the host's clock. But where
//! collectives show that they differ, they do: containers of several machines can have one name.

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

/// One rank's clock against that of the first rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankClock {
    /// Global rank.
    pub rank: GlobalRank,
    /// What to add to its times to have them by the first rank's clock, ns; if a drift is applied,
    /// to those at `at_ns`. 0 where nothing tells.
    pub offset_ns: i64,
    /// The offset is not further off than this, ns; where `contradicted`, the collectives leave no
    /// offset and this is by how much they miss one. `None` where nothing tells, and where the
    /// machine does.
    pub uncertainty_ns: Option<i64>,
    /// How many collectives support it, of the least supported step on the way from the first rank;
    /// where the machine tells, how many bear that out: with none it is not checked.
    pub support: u64,
    /// No offset, with or without a drift, fits all collectives, or all messages: rows are not what
    /// they seem.
    pub contradicted: bool,
    /// How fast the offset moves; `None` where too few collectives tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<ClockDrift>,
    /// The middle of the rank's window, by its own clock.
    pub at_ns: UnixNs,
    /// It is the first rank's clock: they are of one machine.
    pub by_machine: bool,
}

impl RankClock {
    /// A time of this rank by the first rank's clock.
    pub fn aligned(&self, own: UnixNs) -> CommonNs {
        let moved = self.drift_after(own.since(self.at_ns));
        CommonNs(own.shifted(self.offset_ns).shifted(moved).0)
    }

    /// By how much the offset has moved `ns` nanoseconds after the middle of the window.
    fn drift_after(&self, ns: i64) -> i64 {
        let drift = self.drift.filter(|drift| drift.applied);
        drift.map_or(0, |drift| moved(drift.ppb, ns))
    }

    /// An instant of this rank's trace by the first rank's clock. Both count from `base`, the
    /// origin of the trace by its own clock.
    pub fn aligned_trace_time(&self, base: UnixNs, time: TimeNs) -> TimeNs {
        // Not over Unix time: damaged traces have times that end there, and would lose their
        // differences.
        let moved = self.drift_after(time.0.saturating_sub(self.at_ns.since(base)));
        time.shifted(self.offset_ns).shifted(moved)
    }

    /// This clock is that of `other` against the first rank's, seen through `step`, which is that
    /// of a third against `other`'s.
    fn then(self, step: RankClock) -> RankClock {
        // What is common to `step` is the other rank's own time.
        let between = UnixNs(step.aligned(step.at_ns).0);
        RankClock {
            rank: GlobalRank::default(),
            offset_ns: self.aligned(between).0.saturating_sub(step.at_ns.0),
            uncertainty_ns: sum_known(self.uncertainty_ns, step.uncertainty_ns),
            support: self.support.min(step.support),
            contradicted: self.contradicted || step.contradicted,
            drift: ClockDrift::sum(self.drift, step.drift),
            at_ns: step.at_ns,
            // of another machine's ranks, each is as far off as the one that collectives reach
            by_machine: self.by_machine && step.by_machine,
        }
    }

    /// The same from the other side, whose window's middle is `at_ns`.
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

/// The sum, where both are known.
fn sum_known(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    Some(one?.saturating_add(other?))
}

/// The clocks of all ranks, in their order, against the first. O(communications log
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
        // The first rank's clock is the reference: it has no offset, whatever else was found for
        // it.
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

/// The clocks of the ranks to which steps lead from the first, each by the least uncertain way.
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
    // Dijkstra's algorithm over ranks: uncertainties only grow along a way, so the first clock that
    // leaves the queue is the best.
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
    /// By what ways to a rank are compared: the least uncertain; of equals that over machines.
    fn rank_of_way(&self) -> (i64, bool) {
        (self.uncertainty_ns.unwrap_or(0), !self.by_machine)
    }

    /// What is said of a clock that was found. `borne_out`: how many collectives agree with what the
    /// machine tells.
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

/// What tells of clocks.
struct ClockSteps {
    /// From each rank, by place, the clocks of others against its own.
    steps: BTreeMap<RankIdx, Vec<(RankIdx, RankClock)>>,
    /// How many collectives agree that a rank has the clock of its machine.
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
    // Ranks whose machines' names are one and whose clocks are not.
    let mut apart: BTreeSet<RankIdx> = BTreeSet::new();
    for ((reference, other), members) in pairs(ranks, join) {
        let sides = members
            .iter()
            .map(|(reference, other)| (side(ranks, *reference).1, side(ranks, *other).1));
        if let Some(clock) = fit(sides, middle(ranks, other)) {
            let own = [reference, other].map(|rank| &ranks[rank.index()].machine);
            let is_off = clock.offset_ns.saturating_abs() > clock.uncertainty_ns.unwrap_or(0);
            let is_one = own[0].is_some() && own[0] == own[1] && !clock.contradicted;
            if is_one && is_off {
                apart.insert(other);
            } else if is_one {
                for rank in [reference, other] {
                    *borne_out.entry(rank).or_default() += clock.support;
                }
            }
            put(reference, other, clock);
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

/// What messages say of ranks whose machines' names are one.
#[derive(Default)]
struct MachineMessages {
    /// Ranks that receive, by one clock, what has not been sent: it is not one.
    apart: BTreeSet<RankIdx>,
    /// The two ranks of each direction in which all was sent before it was received.
    agreeing: Vec<RankIdx>,
}

fn machine_messages(ranks: &[RankSummary], join: &RunJoin) -> MachineMessages {
    let (limits, _) = message_limits(ranks, join, Communication::ends_with_transfer);
    let of_machine = limits.into_iter();
    let of_machine = of_machine.filter(|limit| is_one_machine(ranks, limit.from, limit.to));
    let (mut broken, agreeing): (Vec<_>, Vec<_>) = of_machine.partition(|limit| limit.ns < 0);
    let mut found = MachineMessages::default();
    // Whose clock it is that differs, most of the broken limits say; of two ranks the later one's.
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

/// The middle of a rank's window.
fn middle(ranks: &[RankSummary], at: RankIdx) -> UnixNs {
    let (start, end) = ranks
        .get(at.index())
        .map(|summary| summary.window_ns)
        .unwrap_or_default();
    UnixNs(start.0.midpoint(end.0))
}

/// Whether two ranks name one machine and were recorded at the same time. Then what the host shows
/// of collectives can contradict that they have one clock.
fn is_one_machine(ranks: &[RankSummary], one: RankIdx, other: RankIdx) -> bool {
    let [one, other] = [one, other].map(|rank| &ranks[rank.index()]);
    let (a, b) = (one.window_ns, other.window_ns);
    one.machine.is_some() && one.machine == other.machine && a.0 < b.1 && b.0 < a.1
}

/// The two ranks' sides of all their common collectives.
type Sides = Vec<(MatchMember, MatchMember)>;

/// Each rank of a collective against the first of it.
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
            // ends, and would give bounds that are wrong. What carries it out, or waits for it,
            // ends with the transfer.
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
