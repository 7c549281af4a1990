//! Finds the rank that hangs a run, and its position, from the flight recorder dumps of all ranks.
//!
//! A rank whose first collective has not ended waits in it for the ranks of the group that have not
//! called it. The run hangs on a rank that others wait for and that waits for nobody: that rank is
//! busy outside all collectives. O(entries log entries).

mod compare;
mod groups;
mod report;
mod verdict;

#[cfg(test)]
mod tests;

pub use report::{
    AbsentCall, CallMismatch, CallPart, CollectivePlace, CutDump, FlightCall, HangProblem,
    HangReport, HangVerdict, PeerSide, RankDump, RankHang, StuckCollective, StuckMessage,
};

use compare::{call_mismatch, compare_sides};
use etlink_formats::flight_recorder::FlightEntry;
use etlink_model::{CollectiveKind, GlobalRank, NameId, dtype_bytes};
use groups::{GroupKey, GroupSides, Side, group_sides};
use verdict::add_verdict;

use std::collections::{BTreeMap, BTreeSet};

/// Reports which rank hangs, and where. `dumps` holds one dump per rank, sorted by rank.
pub fn hang_report(dumps: &[RankDump]) -> HangReport {
    hang_report_without(dumps, &BTreeSet::new())
}

/// Like [`hang_report`], for runs in which the dumps of the ranks `unusable` cannot be used.
pub fn hang_report_without(dumps: &[RankDump], unusable: &BTreeSet<GlobalRank>) -> HangReport {
    let groups = group_sides(dumps);
    let mut report = HangReport::default();
    let cut = dumps.iter().filter(|one| one.is_cut());
    let cut: BTreeSet<GlobalRank> = cut.map(|one| one.rank).collect();
    let mut problems = BTreeMap::new();
    let mut absent = BTreeSet::new();
    for group in &groups {
        report.collectives += group.numbers().len() as u64;
        absent.extend(group.absent.iter().copied());
        compare_sides(dumps, group, &mut problems);
        report.stuck.extend(stuck_collectives(dumps, &cut, group));
    }
    report.problems = problems.into_values().collect();
    report.unusable = absent.intersection(unusable).copied().collect();
    report.absent = absent.into_iter().collect();
    for stuck in &mut report.stuck {
        let unknown = stuck.unknown.iter().copied();
        stuck.unusable = unknown.filter(|rank| unusable.contains(rank)).collect();
    }
    for one in dumps {
        let mut place = rank_place(one, dumps, &cut, &groups);
        if let Some(message) = &mut place.message
            && message.side == PeerSide::Absent
            && message.peer.is_some_and(|peer| unusable.contains(&peer))
        {
            message.side = PeerSide::Unusable;
        }
        report.messages.extend(place.message);
        if one.is_cut() {
            let last = place.hang.last.clone();
            report.cut.push(CutDump::new(one.rank, last));
        }
        report.ranks.push(place.hang);
    }
    report.waited_for = waited_for(&report.ranks);
    // longest wait first: later waits may follow from it
    report
        .stuck
        .sort_by_key(|stuck| (stuck.not_called.is_empty(), stuck.created_ns));
    add_verdict(&mut report);
    report
}

/// Lists each call of each rank, by group, number and rank.
pub fn flight_calls(dumps: &[RankDump]) -> Vec<FlightCall> {
    let mut calls = vec![];
    let is_cut: Vec<bool> = dumps.iter().map(RankDump::is_cut).collect();
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
                    is_cut: is_cut[side.dump],
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

/// Returns the first collective of a group that has not ended on each rank.
fn stuck_collectives(
    dumps: &[RankDump],
    cut: &BTreeSet<GlobalRank>,
    group: &GroupSides,
) -> Vec<StuckCollective> {
    let mut stuck = vec![];
    let mut seen: BTreeSet<GlobalRank> = BTreeSet::new();
    for number in group.numbers() {
        let open = group.sides_of(number).iter();
        let open = open.filter(|side| !has_ended(dumps, side));
        let open: Vec<GlobalRank> = open.map(|side| side.rank).collect();
        // collectives after the one a rank waits in may only wait for that one
        if open.iter().any(|rank| !seen.contains(rank)) {
            stuck.extend(stuck_collective(dumps, cut, group, number));
        }
        seen.extend(open);
    }
    stuck
}

fn entry_of<'d>(dumps: &'d [RankDump], side: &Side) -> &'d FlightEntry {
    &dumps[side.dump].dump.entries[side.entry]
}

fn has_ended(dumps: &[RankDump], side: &Side) -> bool {
    dumps[side.dump].dump.has_ended(entry_of(dumps, side))
}

fn stuck_collective(
    dumps: &[RankDump],
    cut: &BTreeSet<GlobalRank>,
    group: &GroupSides,
    number: i64,
) -> Option<StuckCollective> {
    let sides = group.sides_of(number);
    let (ended, open): (Vec<&Side>, Vec<&Side>) =
        sides.iter().partition(|side| has_ended(dumps, side));
    let first = sides.first()?;
    let entry = entry_of(dumps, first);
    let names = &dumps[first.dump].dump.names;
    let created = open.iter().map(|side| entry_of(dumps, side).created.0);
    let (may_be_absent, not_called) = absent_calls(dumps, cut, group, number);
    Some(StuckCollective {
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
        waiting: open.iter().map(|side| side.rank).collect(),
        ended: ended.iter().map(|side| side.rank).collect(),
        not_called,
        unknown: group.absent.iter().copied().collect(),
        // filled in by the report, which knows which of them have a dump
        unusable: vec![],
        cut: may_be_absent,
        mismatch: call_mismatch(dumps, sides),
        created_ns: created.max().unwrap_or(0),
    })
}

/// Returns the ranks that have not reached a number: those with a truncated dump, which may have
/// called it, and the others.
fn absent_calls(
    dumps: &[RankDump],
    cut: &BTreeSet<GlobalRank>,
    group: &GroupSides,
    number: i64,
) -> (Vec<AbsentCall>, Vec<AbsentCall>) {
    let absent = group.not_called(dumps, number).into_iter();
    absent.partition(|call| cut.contains(&call.rank))
}

/// Position of a rank, and the message in which it waits.
struct RankPlace {
    hang: RankHang,
    message: Option<StuckMessage>,
}

fn rank_place(
    one: &RankDump,
    dumps: &[RankDump],
    cut: &BTreeSet<GlobalRank>,
    groups: &[GroupSides],
) -> RankPlace {
    let entries = &one.dump.entries;
    let place = |entry: &FlightEntry| collective_place(one, entry);
    let hanging = entries.iter().find(|entry| !one.dump.has_ended(entry));
    let mut found = RankPlace {
        hang: RankHang {
            rank: one.rank,
            entries: entries.len() as u64,
            hangs_in: hanging.map(place),
            last: entries.last().map(place),
            is_cut: one.is_cut(),
            ..RankHang::default()
        },
        message: None,
    };
    let Some(entry) = hanging else {
        return found;
    };
    let key = GroupKey::of(one, entry);
    let Some(group) = groups.iter().find(|group| group.has(one.rank, &key)) else {
        return found;
    };
    let hang = &mut found.hang;
    if entry.is_message {
        let message = stuck_message(one, entry, dumps, group);
        match message.side {
            PeerSide::Missing => hang.waits_for.extend(message.peer),
            PeerSide::Cut | PeerSide::Absent | PeerSide::Unusable => {
                hang.may_wait_for.extend(message.peer)
            }
            PeerSide::Met | PeerSide::Unnamed => {}
        }
        found.message = Some(message);
        return found;
    }
    let (may_be_absent, absent) = absent_calls(dumps, cut, group, entry.number);
    hang.waits_for = absent.iter().map(|call| call.rank).collect();
    let may_be_absent = may_be_absent.iter().map(|call| call.rank);
    hang.may_wait_for = may_be_absent.chain(group.absent.iter().copied()).collect();
    hang.may_wait_for.sort();
    found
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

/// Describes a message that has not ended, and its other side.
fn stuck_message(
    one: &RankDump,
    entry: &FlightEntry,
    dumps: &[RankDump],
    group: &GroupSides,
) -> StuckMessage {
    let mut message = StuckMessage {
        rank: one.rank,
        call: collective_place(one, entry),
        ..StuckMessage::default()
    };
    // the peer is an index into the group
    let place = usize::try_from(entry.peer).ok();
    let Some(peer) = place.and_then(|place| group.ranks.get(place)).copied() else {
        return message;
    };
    message.peer = Some(peer);
    let Some(other) = dumps.iter().find(|other| other.rank == peer) else {
        message.side = PeerSide::Absent;
        return message;
    };
    let other_kind = match entry.kind {
        CollectiveKind::Send => CollectiveKind::Recv,
        _ => CollectiveKind::Send,
    };
    let own_place = group.ranks.iter().position(|rank| *rank == one.rank);
    let is_called = other.dump.entries.iter().any(|open| {
        !other.dump.has_ended(open)
            && open.kind == other_kind
            && usize::try_from(open.peer).ok() == own_place
    });
    message.side = match (is_called, other.is_cut()) {
        (true, _) => PeerSide::Met,
        (false, true) => PeerSide::Cut,
        (false, false) => PeerSide::Missing,
    };
    message
}

/// Returns the ranks that others wait for and that wait for nobody.
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
