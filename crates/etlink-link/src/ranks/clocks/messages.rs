//! Clocks of ranks connected only by messages, such as pipeline stages.
//!
//! Data is received after it was sent. So each message bounds the offset between two clocks on one
//! side, and a message in the other direction bounds it on the other side:
//! ```text
//! rank 0    [s ==send==]           [=====recv===== e]
//! rank 1       [==recv== e]    [s ==send==]
//! ```
//! A ring has both bounds only across all of its ranks. These are difference constraints: the
//! smallest sum over all paths from the first rank to another bounds its offset from above, the
//! smallest sum over the paths back bounds it from below (Bellman and Ford). A sender's end is no
//! evidence: NCCL's buffers take small messages before the receiver arrives.
//!
//! A cycle of limits with a negative sum allows no offsets: messages are paired wrongly, or clocks
//! jump. Each limit is then loosened by an equal part, and the ranks are reported as contradicted,
//! with the missing amount.

use super::{RankClock, middle};
use crate::ranks::join::side;
use crate::ranks::{Communication, RankSummary, RunJoin};
use etlink_model::{CollectiveKind, RankIdx};
use std::collections::BTreeMap;

/// Maximum number of cycles that are loosened; beyond it, messages are no evidence.
const MAX_CONFLICTS: usize = 32;

/// Limit on clock offsets: the offset of `to` is at most that of `from` plus this.
#[derive(Clone, Copy, Debug)]
pub(super) struct OffsetLimit {
    pub(super) from: RankIdx,
    pub(super) to: RankIdx,
    pub(super) ns: i64,
}

impl OffsetLimit {
    fn reversed(self) -> OffsetLimit {
        OffsetLimit {
            from: self.to,
            to: self.from,
            ns: self.ns,
        }
    }
}

/// Determines clocks that `found` lacks, relative to the first rank, from messages and from the
/// known clocks between others. O(ranks · (messages + steps)) at worst.
pub(super) fn message_clocks(
    ranks: &[RankSummary],
    join: &RunJoin,
    steps: &BTreeMap<RankIdx, Vec<(RankIdx, RankClock)>>,
    found: &[Option<RankClock>],
) -> Vec<(RankIdx, RankClock)> {
    let (mut limits, support) = message_limits(ranks, join, Communication::ends_with_transfer);
    let mut missed = BTreeMap::new();
    if limits.is_empty() {
        return vec![];
    }
    for (from, others) in steps {
        // Misleading rows give no limit.
        let others = others.iter().filter(|(_, clock)| !clock.contradicted);
        limits.extend(others.map(|(to, clock)| {
            OffsetLimit {
                from: *from,
                to: *to,
                ns: clock
                    .offset_ns
                    .saturating_add(clock.uncertainty_ns.unwrap_or(0)),
            }
        }));
    }
    let Some(most) = loosened_sums(&mut limits, ranks.len(), &mut missed) else {
        return vec![];
    };
    let mut back: Vec<OffsetLimit> = limits.into_iter().map(OffsetLimit::reversed).collect();
    let Some(least) = loosened_sums(&mut back, ranks.len(), &mut missed) else {
        return vec![];
    };
    let mut clocks = vec![];
    for place in (0..ranks.len()).filter(|place| found[*place].is_none()) {
        // With messages in only one direction, the clock may be off by anything.
        let (Some(most), Some(back)) = (most[place], least[place]) else {
            continue;
        };
        let least = back.saturating_neg();
        let offset_ns = least.midpoint(most);
        let rank = RankIdx::new(place);
        let within = match missed.get(&rank) {
            Some(missed) => *missed,
            None => most.saturating_sub(offset_ns),
        };
        clocks.push((
            rank,
            RankClock {
                offset_ns,
                uncertainty_ns: Some(within),
                likely_error_ns: within,
                support: support[place],
                contradicted: missed.contains_key(&rank),
                at_ns: middle(ranks, rank),
                ..RankClock::default()
            },
        ));
    }
    clocks
}

/// Returns the tightest limit between the ranks of messages, and the number of messages of each
/// rank. `is_sure` tells if a side's record ends with its transfer.
pub(super) fn message_limits(
    ranks: &[RankSummary],
    join: &RunJoin,
    is_sure: impl Fn(&Communication) -> bool,
) -> (Vec<OffsetLimit>, Vec<u64>) {
    let mut limits: BTreeMap<(RankIdx, RankIdx), i64> = BTreeMap::new();
    let mut support = vec![0; ranks.len()];
    for matched in join.matches.iter().filter(|matched| matched.is_whole()) {
        let &[one, other] = &matched.members[..] else {
            continue;
        };
        let kinds = [one, other].map(|member| side(ranks, member).1.kind);
        let (sender, receiver) = match kinds {
            [CollectiveKind::Send, CollectiveKind::Recv] => (one, other),
            [CollectiveKind::Recv, CollectiveKind::Send] => (other, one),
            _ => continue,
        };
        let [sent, received] = [sender, receiver].map(|member| side(ranks, member).1);
        // A host call returns before its transfer ends, and would give a wrong limit.
        if !is_sure(sent) || !is_sure(received) {
            continue;
        }
        let ns = received.span().1.since(sent.span().0);
        let limit = limits.entry((receiver.rank, sender.rank)).or_insert(ns);
        *limit = ns.min(*limit);
        support[sender.rank.index()] += 1;
        support[receiver.rank.index()] += 1;
    }
    let limits = limits.into_iter();
    let limits = limits.map(|((from, to), ns)| OffsetLimit { from, to, ns });
    (limits.collect(), support)
}

/// Returns the smallest sum of limits on a path from the first rank to each; `None` for unreachable
/// ranks. Contradictory limits are loosened, and the gap is kept for their ranks. `None` as a whole
/// if too many contradict.
fn loosened_sums(
    limits: &mut [OffsetLimit],
    ranks: usize,
    missed: &mut BTreeMap<RankIdx, i64>,
) -> Option<Vec<Option<i64>>> {
    for _ in 0..MAX_CONFLICTS {
        let circle = match least_sums(limits, ranks) {
            Ok(sums) => return Some(sums),
            Err(circle) => circle,
        };
        let sum: i128 = circle.iter().map(|at| i128::from(limits[*at].ns)).sum();
        let miss = i64::try_from(-sum).ok().filter(|miss| *miss > 0)?;
        let part = miss / circle.len() as i64 + 1;
        for at in circle {
            let limit = &mut limits[at];
            limit.ns = limit.ns.saturating_add(part);
            let most = missed.entry(limit.to).or_insert(miss);
            *most = miss.max(*most);
        }
    }
    None
}

/// Returns the smallest sum of limits on a path from the first rank to each; `None` for unreachable
/// ranks.
///
/// # Errors
/// Returns the indexes of limits that form a contradictory cycle.
fn least_sums(limits: &[OffsetLimit], ranks: usize) -> Result<Vec<Option<i64>>, Vec<usize>> {
    let mut sums: Vec<Option<i64>> = vec![None; ranks];
    // Limit that determined each rank's sum.
    let mut by: Vec<Option<usize>> = vec![None; ranks];
    let mut last = None;
    if let Some(first) = sums.first_mut() {
        *first = Some(0);
    }
    for _ in 0..ranks {
        last = None;
        for (at, limit) in limits.iter().enumerate() {
            let Some(sum) = sums[limit.from.index()] else {
                continue;
            };
            let sum = sum.saturating_add(limit.ns);
            let known = &mut sums[limit.to.index()];
            if known.is_none_or(|known| sum < known) {
                *known = Some(sum);
                by[limit.to.index()] = Some(at);
                last = Some(limit.to);
            }
        }
        if last.is_none() {
            return Ok(sums);
        }
    }
    Err(last.map_or(vec![], |last| circle_before(limits, &by, last)))
}

/// Returns the limits of a cycle that leads to `rank`; each determined its rank's sum.
fn circle_before(limits: &[OffsetLimit], by: &[Option<usize>], rank: RankIdx) -> Vec<usize> {
    let before = |rank: RankIdx| by[rank.index()].map(|at| limits[at].from);
    // After as many steps back as there are ranks, the walk is inside the cycle.
    let mut at = Some(rank);
    for _ in 0..by.len() {
        at = at.and_then(before);
    }
    let Some(begin) = at else {
        return vec![];
    };
    let mut circle = vec![];
    let mut rank = begin;
    while let Some(limit) = by[rank.index()] {
        circle.push(limit);
        rank = limits[limit].from;
        if rank == begin {
            return circle;
        }
    }
    vec![]
}
