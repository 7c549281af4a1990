//! Clocks of ranks that only messages join, as the stages of a pipeline.
//!
//! What is received has been sent before. So each message bounds how far two clocks are apart from
//! one side, and one that goes back bounds it from the other:
//! ```text
//! rank 0    [s ==send==]           [=====recv===== e]
//! rank 1       [==recv== e]    [s ==send==]
//! ```
//! A ring has both only over all of its ranks. These are difference constraints: the least sum over
//! all ways from the first rank to another bounds its offset from above, that over the ways back
//! from below (Bellman and Ford). A sender's end says nothing: NCCL's buffers take small messages
//! before the receiver has come.
//!
//! Limits round a circle of ranks that add up to less than nothing leave no offsets: messages are
//! paired wrongly, or clocks jump. Each limit is then loosened by an equal part, and the ranks are
//! told as contradicted, with what was missing.

use super::{RankClock, middle};
use crate::ranks::join::side;
use crate::ranks::{Communication, RankSummary, RunJoin};
use etlink_model::{CollectiveKind, RankIdx};
use std::collections::BTreeMap;

/// No more circles than this are loosened: then the messages tell nothing.
const MAX_CONFLICTS: usize = 32;

/// The offset of `to` is at most that of `from` and this more.
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

/// What messages tell of the clocks of ranks that `found` lacks, against the first rank's, together
/// with what is known between others. O(ranks · (messages + steps)) at worst.
pub(super) fn message_clocks(
    ranks: &[RankSummary],
    join: &RunJoin,
    steps: &BTreeMap<RankIdx, Vec<(RankIdx, RankClock)>>,
    found: &[Option<RankClock>],
) -> Vec<(RankIdx, RankClock)> {
    let (mut limits, support) = message_limits(ranks, join, |side| side.on_device);
    let mut missed = BTreeMap::new();
    if limits.is_empty() {
        return vec![];
    }
    for (from, others) in steps {
        // Where rows are not what they seem there is no limit.
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
        // With messages in one direction alone the clock can be off by anything.
        let (Some(most), Some(back)) = (most[place], least[place]) else {
            continue;
        };
        let least = back.saturating_neg();
        let offset_ns = least.midpoint(most);
        let rank = RankIdx::new(place);
        clocks.push((
            rank,
            RankClock {
                offset_ns,
                uncertainty_ns: Some(match missed.get(&rank) {
                    Some(missed) => *missed,
                    None => most.saturating_sub(offset_ns),
                }),
                support: support[place],
                contradicted: missed.contains_key(&rank),
                at_ns: middle(ranks, rank),
                ..RankClock::default()
            },
        ));
    }
    clocks
}

/// The tightest limit between the ranks of messages, and how many messages each rank has.
/// `is_sure`: what is recorded of a side ends with its transfer.
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
        // A call of the host returns before its transfer ends, and would give a wrong limit.
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

/// From the first rank, the least sum of limits on the way to each; none where no way leads.
/// Limits that contradict each other are loosened, and by how much they missed is kept for their
/// ranks. `None` where too many do.
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

/// From the first rank, the least sum of limits on the way to each; none where no way leads.
///
/// # Errors
/// Limits round a circle of ranks that contradict each other, by place.
fn least_sums(limits: &[OffsetLimit], ranks: usize) -> Result<Vec<Option<i64>>, Vec<usize>> {
    let mut sums: Vec<Option<i64>> = vec![None; ranks];
    // Per rank, the limit that gave its sum.
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

/// The limits of a circle that leads to `rank`, each being what gave its rank's sum.
fn circle_before(limits: &[OffsetLimit], by: &[Option<usize>], rank: RankIdx) -> Vec<usize> {
    let before = |rank: RankIdx| by[rank.index()].map(|at| limits[at].from);
    // After as many steps back as there are ranks one is in the circle.
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
