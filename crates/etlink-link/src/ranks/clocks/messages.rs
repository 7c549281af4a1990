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

use super::{RankClock, middle};
use crate::ranks::join::side;
use crate::ranks::{RankSummary, RunJoin};
use etlink_model::{CollectiveKind, RankIdx};
use std::collections::BTreeMap;

/// The offset of `to` is at most that of `from` and this more.
#[derive(Clone, Copy, Debug)]
struct OffsetLimit {
    from: RankIdx,
    to: RankIdx,
    ns: i64,
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
    let (mut limits, support) = message_limits(ranks, join);
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
    let Some(most) = least_sums(&limits, ranks.len()) else {
        return vec![];
    };
    let back: Vec<OffsetLimit> = limits.into_iter().map(OffsetLimit::reversed).collect();
    let Some(least) = least_sums(&back, ranks.len()) else {
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
                uncertainty_ns: Some(most.saturating_sub(offset_ns)),
                support: support[place],
                at_ns: middle(ranks, rank),
                ..RankClock::default()
            },
        ));
    }
    clocks
}

/// The tightest limit between the ranks of messages, and how many messages each rank has.
fn message_limits(ranks: &[RankSummary], join: &RunJoin) -> (Vec<OffsetLimit>, Vec<u64>) {
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
        if !sent.on_device || !received.on_device {
            continue;
        }
        let ns = received.end_ns.since(sent.start_ns);
        let limit = limits.entry((receiver.rank, sender.rank)).or_insert(ns);
        *limit = ns.min(*limit);
        support[sender.rank.index()] += 1;
        support[receiver.rank.index()] += 1;
    }
    let limits = limits.into_iter();
    let limits = limits.map(|((from, to), ns)| OffsetLimit { from, to, ns });
    (limits.collect(), support)
}

/// From the first rank, the least sum of limits on the way to each; none where no way leads. None at
/// all if the limits contradict each other: then messages are paired wrongly.
fn least_sums(limits: &[OffsetLimit], ranks: usize) -> Option<Vec<Option<i64>>> {
    let mut sums: Vec<Option<i64>> = vec![None; ranks];
    *sums.first_mut()? = Some(0);
    for _ in 0..ranks {
        let mut changed = false;
        for limit in limits {
            let Some(sum) = sums[limit.from.index()] else {
                continue;
            };
            let sum = sum.saturating_add(limit.ns);
            let known = &mut sums[limit.to.index()];
            if known.is_none_or(|known| sum < known) {
                *known = Some(sum);
                changed = true;
            }
        }
        if !changed {
            return Some(sums);
        }
    }
    None
}
