//! Collectives that a worker thread of the backend runs: Gloo.
//!
//! ```text
//! giver    record_param_comms(allreduce, Seq 7)  …   record_param_comms(wait, Seq 7) . . . . ____
//! worker                                     |== gloo:all_reduce ======================|
//! ```
//! A group's works are run in the order in which they were given, so each `gloo:` range is the first collective of its
//! kind that was given before it began and has not been run yet. Where the record of the wait says otherwise, by ending
//! before the range does, there is no handoff. Where a wait is not recorded (the reducer of DDP waits for a future), the
//! giver waited if it did nothing when the range ended, and went on soon after. A damaged trace can have lost ranges, and then
//! order tells nothing of their kind. O(n log n).

use crate::handoffs::Handoff;
use crate::waits::ends_before;
use etlink_model::{CollectiveKind, DeviceTrace, NameId, OpIdx, Severity, TimeNs};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};

/// A collective that was given to a worker.
#[derive(Clone, Copy)]
struct Given {
    op: OpIdx,
    thread: u32,
    end: TimeNs,
    key: (NameId, i64),
}

/// A collective that a worker ran.
pub(crate) struct Work {
    /// The record of its being given.
    pub(crate) given: OpIdx,
    /// The worker's range.
    pub(crate) run: OpIdx,
    pub(crate) handoff: Handoff,
}

/// By thread, group and number of a collective.
pub(crate) type Key = (u32, (NameId, i64));

/// Finds them all.
pub(crate) fn queued(device: &DeviceTrace) -> Vec<Work> {
    let is_gloo = |op: usize| device.names.get(device.ops.name[op]).strip_prefix("gloo:");
    let ops = &device.ops;
    if device.names.iter().all(|name| !name.starts_with("gloo:")) {
        return vec![];
    }
    let mut given: FxHashMap<CollectiveKind, VecDeque<Given>> = FxHashMap::default();
    let mut busy: FxHashMap<u32, TimeNs> = FxHashMap::default();
    let until = |op: usize| (ops.start[op], ops.start[op] + ops.duration[op]);
    let waits: FxHashMap<Key, (TimeNs, TimeNs)> =
        waits(device).map(|(key, op)| (key, until(op))).collect();
    let unsure = unsure(device);
    let mut found = vec![];
    for op in 0..ops.len() {
        let (thread, start, end) = (
            ops.thread[op].0,
            ops.start[op],
            ops.start[op] + ops.duration[op],
        );
        if let Some(name) = is_gloo(op) {
            let of_kind = given.get_mut(&run_as(CollectiveKind::of(name)));
            let idle = busy.insert(thread, end);
            let sure = |given: &Given| {
                given.thread != thread && !unsure.contains(&run_as(CollectiveKind::of(name)))
            };
            let Some(given) = of_kind.and_then(VecDeque::pop_front).filter(sure) else {
                continue;
            };
            let wait = waits.get(&(given.thread, given.key)).copied();
            if idle.is_some_and(|idle| idle > start)
                || wait.is_some_and(|(_, until)| !ends_before(end, until))
                || start >= end
            {
                continue;
            }
            let (giver, worker, at) = (given.thread, thread, given.end.min(start));
            let wait = wait.map(|(from, _)| from);
            let handoff = Handoff {
                giver,
                worker,
                start,
                end,
                idle,
                given: at,
                wait,
                inferred: true,
            };
            found.push(Work {
                given: given.op,
                run: OpIdx::new(op),
                handoff,
            });
        } else if let Some((kind, key)) =
            collective(device, op).filter(|(kind, _)| *kind != CollectiveKind::Other)
        {
            given.entry(run_as(kind)).or_default().push_back(Given {
                op: OpIdx::new(op),
                thread,
                end,
                key,
            });
        }
        let until = busy.get_mut(&thread);
        until.into_iter().for_each(|until| *until = end.max(*until));
    }
    found
}

/// Kinds of which a damaged trace has not as many ranges as were given.
fn unsure(device: &DeviceTrace) -> Vec<CollectiveKind> {
    if device
        .anomalies
        .iter()
        .all(|(kind, _)| kind.severity() != Severity::Damage)
    {
        return vec![];
    }
    let mut missing: BTreeMap<CollectiveKind, i64> = BTreeMap::new();
    for op in 0..device.ops.len() {
        if let Some(name) = device.names.get(device.ops.name[op]).strip_prefix("gloo:") {
            *missing.entry(run_as(CollectiveKind::of(name))).or_default() -= 1;
        } else if let Some((kind, _)) = collective(device, op) {
            *missing.entry(run_as(kind)).or_default() += 1;
        }
    }
    missing
        .into_iter()
        .filter(|(_, missing)| *missing != 0)
        .map(|(kind, _)| kind)
        .collect()
}

/// Gloo has no reduce-scatter of its own.
fn run_as(kind: CollectiveKind) -> CollectiveKind {
    if kind == CollectiveKind::ReduceScatter {
        CollectiveKind::AllReduce
    } else {
        kind
    }
}

/// What an op's record says: kind, group and number.
fn collective(device: &DeviceTrace, op: usize) -> Option<(CollectiveKind, (NameId, i64))> {
    let row = device.ops.collective[op] as usize;
    let name = device.names.get(*device.collectives.name.get(row)?);
    Some((
        CollectiveKind::of(name),
        (
            device.collectives.group_name[row],
            device.collectives.seq[row],
        ),
    ))
}

/// Records of waits, by what they wait for.
pub(crate) fn waits(device: &DeviceTrace) -> impl Iterator<Item = (Key, usize)> {
    let (ops, records) = (&device.ops, &device.collectives);
    let is_wait = |op: &usize| {
        records
            .name
            .get(ops.collective[*op] as usize)
            .is_some_and(|name| device.names.get(*name) == "wait")
    };
    (0..ops.len())
        .filter(is_wait)
        .filter_map(|op| Some((key(device, op)?, op)))
}

/// What an op's record says that it is about.
pub(crate) fn key(device: &DeviceTrace, op: usize) -> Option<Key> {
    Some((device.ops.thread[op].0, collective(device, op)?.1))
}
