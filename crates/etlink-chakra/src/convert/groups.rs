//! Ranks of process groups, as listed in `comm_group.json`.

use etlink_link::ranks::{GroupIdentity, RankSet};
use std::collections::BTreeMap;

/// Global ranks of groups, by `pg_name`.
pub type GroupList = BTreeMap<String, Vec<i64>>;

/// Known groups of a run of written graphs.
#[derive(Clone, Debug, Default)]
pub struct GroupRanks {
    listed: GroupList,
    all: RankSet,
}

impl GroupRanks {
    /// Creates the groups from `listed`, the content of `comm_group.json`, and `all`, the ranks
    /// that have files.
    pub fn new(listed: GroupList, all: impl IntoIterator<Item = i64>) -> GroupRanks {
        GroupRanks {
            listed,
            all: non_negative(all),
        }
    }

    /// Returns the group with this name. A collective without a group includes all ranks:
    /// ASTRA-sim's `Workload.cc` interprets it so, and this crate writes the group of all ranks
    /// that way.
    pub(crate) fn group(&self, name: &str) -> GroupIdentity {
        match self.listed.get(name) {
            Some(ranks) => GroupIdentity::Ranks(non_negative(ranks.iter().copied())),
            // `0` is PyTorch's default group, which `chakra_converter` writes under that name.
            None if name.is_empty() || name == "0" => GroupIdentity::Ranks(self.all.clone()),
            None => GroupIdentity::Named(name.to_owned()),
        }
    }
}

fn non_negative(ranks: impl IntoIterator<Item = i64>) -> RankSet {
    ranks
        .into_iter()
        .filter_map(|rank| u64::try_from(rank).ok())
        .collect()
}
