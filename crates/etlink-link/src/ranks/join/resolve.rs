//! One number per group for all ranks.

use crate::ranks::{GroupIdentity, RankSet, RankSummary};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// The groups of all ranks.
pub(super) struct Numbers {
    /// As [`super::RunJoin::groups`].
    pub(super) groups: BTreeMap<u32, Vec<u64>>,
    /// Per rank, per entry of [`RankSummary::groups`]: its number, 0 for a group of one rank,
    /// `None` where its ranks are not known.
    pub(super) of_rank: Vec<Vec<Option<u32>>>,
}

/// Numbers the sorted rank tuples from 1.
pub(super) fn groups(ranks: &[RankSummary]) -> Numbers {
    // NCCL's communicator id is the same on all ranks of a group: those that use it are its ranks.
    let users = users(ranks);
    let given: BTreeSet<u64> = ranks
        .iter()
        .filter_map(|summary| u64::try_from(summary.rank.0).ok())
        .collect();
    let mut resolved: Vec<Vec<Option<RankSet>>> = Vec::with_capacity(ranks.len());
    for summary in ranks {
        let groups = summary.groups.iter();
        let of_rank = groups.map(|group| resolve(group, summary, &users, &given));
        resolved.push(of_rank.collect());
    }
    let distinct: FxHashSet<&RankSet> = resolved
        .iter()
        .flatten()
        .flatten()
        .filter(|ranks| ranks.len() > 1)
        .collect();
    let mut sorted: Vec<&RankSet> = distinct.into_iter().collect();
    sorted.sort_by(|one, other| one.iter().cmp(other.iter()));
    let numbers: FxHashMap<&RankSet, u32> = sorted.iter().copied().zip(1..).collect();
    let mut of_rank = Vec::with_capacity(ranks.len());
    for groups in &resolved {
        // A group of one rank is not among `numbers`.
        let of_groups = groups.iter().map(|ranks| {
            let ranks = ranks.as_ref()?;
            Some(numbers.get(ranks).copied().unwrap_or(0))
        });
        of_rank.push(of_groups.collect());
    }
    let groups = (1..).zip(sorted.iter().map(|ranks| ranks.iter().collect()));
    Numbers {
        groups: groups.collect(),
        of_rank,
    }
}

/// Which ranks use a communicator whose ranks no trace lists.
fn users(ranks: &[RankSummary]) -> BTreeMap<&str, BTreeSet<u64>> {
    let mut users: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for summary in ranks {
        for group in &summary.groups {
            if let (GroupIdentity::Communicator(id, _), Ok(rank)) =
                (group, u64::try_from(summary.rank.0))
            {
                users.entry(id).or_default().insert(rank);
            }
        }
    }
    users
}

fn resolve(
    group: &GroupIdentity,
    summary: &RankSummary,
    users: &BTreeMap<&str, BTreeSet<u64>>,
    given: &BTreeSet<u64>,
) -> Option<RankSet> {
    match group {
        GroupIdentity::Ranks(ranks) => Some(ranks.clone()),
        GroupIdentity::Only => Some(
            match summary.world_size.and_then(|size| u64::try_from(size).ok()) {
                Some(size) if size <= 1 << 20 => (0..size).collect(),
                _ => given.iter().copied().collect(),
            },
        ),
        GroupIdentity::Communicator(id, size) => {
            let users = users.get(id.as_str())?;
            // With fewer traces than the group has ranks, the users are not the whole group.
            [0, users.len() as u64]
                .contains(size)
                .then(|| users.iter().copied().collect())
        }
        GroupIdentity::Named(_) => None,
    }
}
