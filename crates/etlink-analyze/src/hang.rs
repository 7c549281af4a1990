//! Which rank hangs where, by the dumps of the flight recorder of all ranks.
//!
//! A rank whose first collective has not ended waits in it for the ranks of the group that have not
//! called it. A rank that others wait for and that waits for nobody is what the run hangs on: what it
//! does instead is outside of all collectives. O(entries log entries).

mod compare;
mod groups;
mod report;

#[cfg(test)]
mod tests;

pub use report::{
    AbsentCall, CollectivePlace, FlightCall, HangProblem, HangReport, RankDump, RankHang,
    StuckCollective,
};

use compare::compare_sides;
use etlink_flight_recorder::FlightEntry;
use etlink_model::{CollectiveKind, GlobalRank, NameId, dtype_bytes};
use groups::{GroupKey, GroupSides, group_sides};

use std::collections::{BTreeMap, BTreeSet};

/// Says which rank hangs where. `dumps` are by rank, one of each.
pub fn hang_report(dumps: &[RankDump]) -> HangReport {
    let groups = group_sides(dumps);
    let mut report = HangReport::default();
    let mut problems = BTreeMap::new();
    let mut absent = BTreeSet::new();
    for group in &groups {
        report.collectives += group.numbers().len() as u64;
        absent.extend(group.absent.iter().copied());
        compare_sides(dumps, group, &mut problems);
        report.stuck.extend(first_stuck(dumps, group));
    }
    report.problems = problems.into_values().collect();
    report.absent = absent.into_iter().collect();
    report.ranks = dumps
        .iter()
        .map(|one| rank_place(one, dumps, &groups))
        .collect();
    report.waited_for = waited_for(&report.ranks);
    // those that wait longest first: what comes later may follow from them
    report
        .stuck
        .sort_by_key(|stuck| (stuck.not_called.is_empty(), stuck.created_ns));
    report
}

/// Each call of each rank, by group, number and rank.
pub fn flight_calls(dumps: &[RankDump]) -> Vec<FlightCall> {
    let mut calls = vec![];
    for group in group_sides(dumps) {
        for number in group.numbers() {
            for side in group.sides_of(number) {
                let one = &dumps[side.dump];
                let name = |id: NameId| one.dump.names.get(id).to_owned();
                let entry = &one.dump.entries[side.entry];
                calls.push(FlightCall {
                    kind: entry.kind.name(),
                    ranks: group.title(),
                    group: name(entry.group_name),
                    number,
                    rank: one.rank,
                    state: entry.state.name(),
                    ended: one.dump.has_ended(entry),
                    created_ns: entry.created.0,
                    dtype: name(entry.dtype),
                    in_sizes: name(entry.in_sizes),
                    out_sizes: name(entry.out_sizes),
                    place: name(entry.place),
                });
            }
        }
    }
    calls
}

/// The first collective of a group that has not ended in a rank which called it.
fn first_stuck(dumps: &[RankDump], group: &GroupSides) -> Option<StuckCollective> {
    for number in group.numbers() {
        let sides = group.sides_of(number);
        let entry_of = |side: &groups::Side| &dumps[side.dump].dump.entries[side.entry];
        let has_ended = |side: &&groups::Side| dumps[side.dump].dump.has_ended(entry_of(side));
        let is_open = |side: &&groups::Side| !has_ended(side);
        let waiting: Vec<GlobalRank> = sides.iter().filter(is_open).map(|side| side.rank).collect();
        if waiting.is_empty() {
            continue;
        }
        let ended = sides.iter().filter(has_ended);
        let first = sides.first()?;
        let entry = entry_of(first);
        let names = &dumps[first.dump].dump.names;
        let created = sides
            .iter()
            .filter(is_open)
            .map(|side| entry_of(side).created.0);
        return Some(StuckCollective {
            kind: entry.kind.name(),
            ranks: group.title(),
            group: names.get(entry.group_name).to_owned(),
            group_desc: names.get(entry.group_desc).to_owned(),
            number,
            bytes: entry
                .in_elements
                .saturating_mul(dtype_bytes(names.get(entry.dtype)).unwrap_or(0)),
            dtype: names.get(entry.dtype).to_owned(),
            sizes: names.get(entry.in_sizes).to_owned(),
            waiting,
            ended: ended.map(|side| side.rank).collect(),
            not_called: group.not_called(dumps, number),
            unknown: group.absent.iter().copied().collect(),
            created_ns: created.max().unwrap_or(0),
        });
    }
    None
}

fn rank_place(one: &RankDump, dumps: &[RankDump], groups: &[GroupSides]) -> RankHang {
    let entries = &one.dump.entries;
    let place = |entry: &FlightEntry| collective_place(one, entry);
    let hanging = entries.iter().find(|entry| !one.dump.has_ended(entry));
    let waits_for = hanging.map_or(vec![], |entry| {
        let key = GroupKey::of(one, entry);
        let group = groups.iter().find(|group| group.has(one.rank, &key));
        match group {
            Some(group) if entry.is_message => message_peer(one, entry, dumps, group),
            Some(group) => {
                let absent = group.not_called(dumps, entry.number);
                absent.iter().map(|call| call.rank).collect()
            }
            None => vec![],
        }
    });
    RankHang {
        rank: one.rank,
        entries: entries.len() as u64,
        hangs_in: hanging.map(place),
        last: entries.last().map(place),
        waits_for,
    }
}

fn collective_place(one: &RankDump, entry: &FlightEntry) -> CollectivePlace {
    let name = |id: NameId| one.dump.names.get(id).to_owned();
    CollectivePlace {
        kind: entry.kind.name(),
        group: name(entry.group_name),
        group_desc: name(entry.group_desc),
        number: if entry.is_message {
            entry.message_number
        } else {
            entry.number
        },
        state: entry.state.name(),
        created_ns: entry.created.0,
        place: name(entry.place),
    }
}

/// The other side of a message that has not ended, unless that is in it too.
fn message_peer(
    one: &RankDump,
    entry: &FlightEntry,
    dumps: &[RankDump],
    group: &GroupSides,
) -> Vec<GlobalRank> {
    // the peer is a place in the group
    let place = usize::try_from(entry.peer).ok();
    let Some(peer) = place.and_then(|place| group.ranks.get(place)).copied() else {
        return vec![];
    };
    let other_kind = match entry.kind {
        CollectiveKind::Send => CollectiveKind::Recv,
        _ => CollectiveKind::Send,
    };
    let own_place = group.ranks.iter().position(|rank| *rank == one.rank);
    let of_peer = dumps.iter().find(|other| other.rank == peer);
    let is_called = of_peer.is_some_and(|other| {
        other.dump.entries.iter().any(|open| {
            !other.dump.has_ended(open)
                && open.kind == other_kind
                && usize::try_from(open.peer).ok() == own_place
        })
    });
    match is_called {
        true => vec![],
        false => vec![peer],
    }
}

/// Ranks that others wait for and that wait for nobody.
fn waited_for(ranks: &[RankHang]) -> Vec<GlobalRank> {
    let wanted: BTreeSet<GlobalRank> = ranks
        .iter()
        .flat_map(|rank| rank.waits_for.iter().copied())
        .collect();
    let waits = |rank: &GlobalRank| {
        let own = ranks.iter().find(|place| place.rank == *rank);
        own.is_some_and(|place| !place.waits_for.is_empty())
    };
    wanted.into_iter().filter(|rank| !waits(rank)).collect()
}
