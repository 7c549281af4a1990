//! Numbers the groups of all ranks.

use crate::ranks::{GroupIdentity, RankSet, RankSummary};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// Groups of all ranks.
pub(super) struct Numbers {
    /// Groups as in [`super::RunJoin::groups`].
    pub(super) groups: BTreeMap<u32, Vec<u64>>,
    /// Groups inferred from kernels.
    pub(super) inferred: BTreeSet<u32>,
    /// Number of each entry of [`RankSummary::groups`], per rank: 0 for a group of one rank, `None`
    /// if its ranks are unknown.
    pub(super) of_rank: Vec<Vec<Option<u32>>>,
}

/// Ranks of a group. Recorded and inferred groups are numbered separately.
#[derive(PartialEq, Eq, Hash)]
struct Resolved {
    ranks: RankSet,
    is_inferred: bool,
}

/// Numbers the sorted rank tuples from 1, inferred ones last.
pub(super) fn groups(ranks: &[RankSummary]) -> Numbers {
    // NCCL's communicator id is the same on all ranks of a group: its users are the group's ranks.
    let users = users(ranks);
    let given: BTreeSet<u64> = ranks
        .iter()
        .filter_map(|summary| u64::try_from(summary.rank.0).ok())
        .collect();
    let mut resolved: Vec<Vec<Option<Resolved>>> = Vec::with_capacity(ranks.len());
    for summary in ranks {
        let groups = summary.groups.iter();
        let of_rank = groups.map(|group| {
            let ranks = resolve(group, summary, &users, &given)?;
            let is_inferred = matches!(group, GroupIdentity::Inferred(_));
            Some(Resolved { ranks, is_inferred })
        });
        resolved.push(of_rank.collect());
    }
    let distinct: FxHashSet<&Resolved> = resolved
        .iter()
        .flatten()
        .flatten()
        .filter(|group| group.ranks.len() > 1)
        .collect();
    let mut sorted: Vec<&Resolved> = distinct.into_iter().collect();
    sorted.sort_by(|one, other| {
        let by_ranks = || one.ranks.iter().cmp(other.ranks.iter());
        one.is_inferred.cmp(&other.is_inferred).then_with(by_ranks)
    });
    let numbers: FxHashMap<&Resolved, u32> = sorted.iter().copied().zip(1..).collect();
    let mut of_rank = Vec::with_capacity(ranks.len());
    for groups in &resolved {
        // Groups of one rank are not in `numbers`.
        let of_groups = groups.iter().map(|group| {
            let group = group.as_ref()?;
            Some(numbers.get(group).copied().unwrap_or(0))
        });
        of_rank.push(of_groups.collect());
    }
    let numbered = || (1..).zip(&sorted);
    let groups = numbered().map(|(number, group)| (number, group.ranks.iter().collect()));
    let inferred = numbered().filter(|(_, group)| group.is_inferred);
    Numbers {
        groups: groups.collect(),
        inferred: inferred.map(|(number, _)| number).collect(),
        of_rank,
    }
}

/// Returns the ranks that use each communicator whose ranks no trace lists.
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
        GroupIdentity::Ranks(ranks) | GroupIdentity::Inferred(ranks) => Some(ranks.clone()),
        GroupIdentity::Only => Some(
            match summary.world_size.and_then(|size| u64::try_from(size).ok()) {
                Some(size) if size <= 1 << 20 => (0..size).collect(),
                _ => given.iter().copied().collect(),
            },
        ),
        GroupIdentity::Communicator(id, size) => {
            let users = users.get(id.as_str())?;
            // If there are fewer traces than ranks in the group, the users are not the whole group.
            [0, users.len() as u64]
                .contains(size)
                .then(|| users.iter().copied().collect())
        }
        GroupIdentity::Named(_) => None,
    }
}
