//! Groups of a run, with the calls of their ranks.

use super::report::{AbsentCall, RankDump};
use etlink_formats::flight_recorder::FlightEntry;
use etlink_link::ranks::rank_list;
use etlink_model::{GlobalRank, NameId};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// A group as identified by one rank.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKey {
    /// Ranks of the group; empty if the dump does not list them.
    ranks: Vec<u64>,
    desc: String,
    name: String,
}

impl GroupKey {
    pub(super) fn of(one: &RankDump, entry: &FlightEntry) -> GroupKey {
        let listed = one.dump.group_of(entry);
        GroupKey {
            ranks: listed.map_or(vec![], |group| group.ranks.clone()),
            desc: one.dump.names.get(entry.group_desc).to_owned(),
            name: one.dump.names.get(entry.group_name).to_owned(),
        }
    }
}

/// A call, as the positions of the dump and of the entry in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) rank: GlobalRank,
    pub(super) dump: usize,
    pub(super) entry: usize,
}

/// A group, with its ranks' calls.
#[derive(Debug, Default)]
pub(super) struct GroupSides {
    /// Ranks of the group; if no dump lists them, the ranks that have calls.
    pub(super) ranks: Vec<GlobalRank>,
    /// Ranks of the group without a dump.
    pub(super) absent: BTreeSet<GlobalRank>,
    /// Each rank's identification of the group.
    keys: BTreeMap<GlobalRank, GroupKey>,
    /// Calls by number, then by rank.
    calls: BTreeMap<i64, Vec<Side>>,
    /// Call with the highest number, for each rank with a dump.
    last: BTreeMap<GlobalRank, Side>,
}

impl GroupSides {
    /// Numbers of the group's collectives, ascending.
    pub(super) fn numbers(&self) -> Vec<i64> {
        self.calls.keys().copied().collect()
    }

    /// Calls of one collective, by rank.
    pub(super) fn sides_of(&self, number: i64) -> &[Side] {
        self.calls.get(&number).map_or(&[], |sides| sides)
    }

    /// True if a rank identifies the group by this key.
    pub(super) fn has(&self, rank: GlobalRank, key: &GroupKey) -> bool {
        self.keys.get(&rank) == Some(key)
    }

    /// Title of the group: `ranks 0, 1`.
    pub(super) fn title(&self) -> String {
        rank_list("rank", &self.ranks)
    }

    /// Returns the ranks with a dump that have not reached a number.
    pub(super) fn not_called(&self, dumps: &[RankDump], number: i64) -> Vec<AbsentCall> {
        let mut absent = vec![];
        for rank in &self.ranks {
            if self.absent.contains(rank) {
                continue;
            }
            let last = self.last.get(rank);
            let entry = last.map(|side| &dumps[side.dump].dump.entries[side.entry]);
            let last_number = entry.map_or(-1, |entry| entry.number);
            // an earlier call that the ring buffer dropped did happen
            if last_number < number {
                absent.push(AbsentCall {
                    rank: *rank,
                    last_number,
                    last_kind: entry.map_or("", |entry| entry.kind.name()),
                });
            }
        }
        absent
    }
}

/// Collects the groups of all dumps, by ranks and description. Group names can differ between ranks
/// (`ranks/groups.rs` of etlink-link). If the ranks are listed, ranks and description identify a
/// group, and several groups with the same ranks are matched by the order of their names.
pub(super) fn group_sides(dumps: &[RankDump]) -> Vec<GroupSides> {
    let with_dump: BTreeSet<GlobalRank> = dumps.iter().map(|one| one.rank).collect();
    let mut all: BTreeMap<(Vec<u64>, String, String, usize), GroupSides> = BTreeMap::new();
    for (place, one) in dumps.iter().enumerate() {
        // a group has thousands of calls, and thousands of ranks
        let mut known: FxHashMap<(NameId, NameId), GroupKey> = FxHashMap::default();
        for entry in &one.dump.entries {
            known
                .entry((entry.group_name, entry.group_desc))
                .or_insert_with(|| GroupKey::of(one, entry));
        }
        let keys: BTreeSet<GroupKey> = known.values().cloned().collect();
        let mut numbered: BTreeMap<GroupKey, (Vec<u64>, String, String, usize)> = BTreeMap::new();
        let mut counts: BTreeMap<(Vec<u64>, String), usize> = BTreeMap::new();
        for key in keys {
            // without ranks, only the name identifies a group
            let name = if key.ranks.is_empty() {
                key.name.clone()
            } else {
                String::new()
            };
            let count = counts
                .entry((key.ranks.clone(), key.desc.clone()))
                .or_default();
            let number = if key.ranks.is_empty() { 0 } else { *count };
            *count += 1;
            let shared = (key.ranks.clone(), key.desc.clone(), name, number);
            numbered.insert(key, shared);
        }
        for (key, shared) in &numbered {
            let group = all.entry(shared.clone()).or_default();
            group.keys.insert(one.rank, key.clone());
        }
        for (at, entry) in one.dump.entries.iter().enumerate() {
            let key = known.get(&(entry.group_name, entry.group_desc));
            let shared = key.and_then(|key| numbered.get(key));
            let Some(group) = shared.and_then(|shared| all.get_mut(shared)) else {
                continue;
            };
            if entry.is_message || entry.number < 0 {
                continue;
            }
            let side = Side {
                rank: one.rank,
                dump: place,
                entry: at,
            };
            let sides = group.calls.entry(entry.number).or_default();
            // the parts of a coalesced collective share one number
            if sides.last().is_none_or(|last| last.rank != one.rank) {
                sides.push(side);
            }
            let last = group.last.entry(one.rank).or_insert(side);
            if dumps[place].dump.entries[last.entry].number <= entry.number {
                *last = side;
            }
        }
    }
    let mut groups = vec![];
    for ((ranks, desc, ..), mut group) in all {
        let stated = ranks.iter().filter_map(|rank| i64::try_from(*rank).ok());
        group.ranks = if !ranks.is_empty() {
            stated.map(GlobalRank).collect()
        } else if desc == "default_pg" {
            // the default group contains all ranks (`init_process_group`)
            with_dump.iter().copied().collect()
        } else {
            group.keys.keys().copied().collect()
        };
        let absent = group.ranks.iter().filter(|rank| !with_dump.contains(rank));
        group.absent = absent.copied().collect();
        groups.push(group);
    }
    groups
}
