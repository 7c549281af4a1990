//! Matches collectives with the backend's worker threads that carry them out: Gloo.
//!
//! ```text
//! producer   record_param_comms(allreduce, Seq 7)   record_param_comms(wait, Seq 7) . . . . ____
//! consumer                               |== gloo:all_reduce ========================|
//! ```
//! **Use.** Stock `ProcessGroupGloo` writes `gloo:` ranges
//! (`AsyncWork::recordAsyncWorkProfilingInfo`) but no `record_param_comms`: its traces have nothing
//! pending here. Records come from backends that wrap Gloo, and from programs that call
//! `record_param_comms` themselves.
//!
//! Without any record, the ops `c10d::allreduce_` reveal which collectives were handed over, but
//! not their group. Then one queue per kind is used for all groups.
//!
//! Each group of Gloo has its own worker threads (`ProcessGroupGloo::runLoop`), which take its
//! collectives in the order in which they were handed over. So a thread serves one group, and a
//! range is the group's first pending collective of its kind. Ranges do not name their group: see
//! [`GroupChoice`].
//!
//! If the record of the wait contradicts this, by ending before the range, there is no handoff. If
//! a wait is not recorded (the reducer of DDP waits for a future), the producer waited if it did
//! nothing when the range ended, and continued soon after. A damaged trace may have lost ranges;
//! then order is no evidence for their kind. O(n log n).

use crate::host::Handoff;
use crate::limits::{MAX_GROUPS_TRIED, USUAL_WAKE, WAKE_LATENCY, ends_before};
use etlink_model::{CollectiveKind, DeviceTrace, NameId, OpIdx, Severity, ThreadIdx, TimeNs};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A collective handed to a group's workers that none has begun.
#[derive(Clone, Copy)]
struct Pending {
    op: OpIdx,
    thread: ThreadIdx,
    end: TimeNs,
    key: CollectiveKey,
    /// Number of elements of the input; 0 if the record does not state it.
    elements: u64,
}

/// A collective carried out by a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarriedOut {
    /// Record of the handover.
    pub(crate) given: OpIdx,
    /// Range of the worker.
    pub(crate) range: OpIdx,
    pub(crate) handoff: Handoff,
}

/// Name of the group, and number in it (`Seq`).
type CollectiveKey = (NameId, i64);

/// A collective as identified by one thread.
pub(crate) type ThreadKey = (ThreadIdx, CollectiveKey);

/// Collectives of one kind in a group.
type QueueKey = (NameId, CollectiveKind);

/// Pairs the records of collectives with the ranges that carry them out.
pub(crate) fn pending_collectives(device: &DeviceTrace) -> Vec<CarriedOut> {
    if device.names.iter().all(|name| !name.starts_with("gloo:")) {
        return vec![];
    }
    let ops = &device.ops;
    let mut waits: FxHashMap<ThreadKey, (TimeNs, TimeNs)> = FxHashMap::default();
    for (key, op) in recorded_waits(device) {
        waits.insert(key, (ops.start[op], ops.start[op] + ops.duration[op]));
    }
    // A lost range shifts all pairs after it by one, and nothing in the trace would show that.
    let kinds = OpKinds::new(device);
    let unsure = unsure_kinds(&kinds);
    let mut groups = GroupChoice::new(&kinds);
    // end of each thread's work so far
    let mut busy: FxHashMap<ThreadIdx, TimeNs> = FxHashMap::default();
    let mut found = vec![];
    for op in 0..ops.len() {
        let (thread, start) = (ops.thread[op], ops.start[op]);
        let end = start + ops.duration[op];
        if let Some(kind) = kinds.gloo_range(op) {
            let idle = busy.insert(thread, end);
            let Some(given) = groups.take(device, op, kind, &waits) else {
                continue;
            };
            // `take` still counts the collective as carried out, or the next range would get it.
            if given.thread == thread || unsure.contains(&kind) {
                continue;
            }
            let wait = waits.get(&(given.thread, given.key)).copied();
            // A worker does one thing at a time: a range that begins before the last has ended is
            // not its own.
            let overlaps = idle.is_some_and(|idle| idle > start);
            let outlasts_wait = wait.is_some_and(|(_, until)| !ends_before(end, until));
            if overlaps || outlasts_wait || start >= end {
                continue;
            }
            found.push(CarriedOut {
                given: given.op,
                range: OpIdx::new(op),
                handoff: Handoff {
                    producer: given.thread,
                    consumer: thread,
                    start,
                    end,
                    ended_late: false,
                    idle,
                    given: given.end.min(start),
                    wait: wait.map(|(from, _)| from),
                    woken: woken(end, wait),
                    inferred: true,
                },
            });
        } else if let Some((kind, key)) = kinds.recorded_collective(op)
            && kind != CollectiveKind::Other
        {
            groups.give(
                gloo_kind(kind),
                Pending {
                    op: OpIdx::new(op),
                    thread,
                    end,
                    key,
                    elements: kinds.elements(op),
                },
            );
        }
        if let Some(until) = busy.get_mut(&thread) {
            *until = end.max(*until);
        }
    }
    found
}

/// Returns the time at which a thread that waited until `end` had woken. During its recorded wait
/// it does nothing else until the wait returns.
fn woken(end: TimeNs, wait: Option<(TimeNs, TimeNs)>) -> TimeNs {
    let returned = wait.map_or(end, |(_, until)| until.max(end));
    if returned.since(end) <= WAKE_LATENCY.0 {
        returned
    } else {
        end + USUAL_WAKE
    }
}

/// Finds the group that a worker thread serves, and the group's pending collectives.
///
/// A thread keeps its group. The first of its ranges chooses among the groups with a pending
/// collective of its kind. Excluded are groups whose size or wait contradicts the range, and groups
/// with fewer collectives than the thread has ranges. Preferred is a group with exactly as many
/// collectives as the thread has ranges, then the earliest handed over.
#[derive(Default)]
struct GroupChoice {
    queues: FxHashMap<QueueKey, VecDeque<Pending>>,
    /// Groups with pending collectives, per kind, by the first of these.
    waiting: FxHashMap<CollectiveKind, BTreeSet<(OpIdx, NameId)>>,
    served: FxHashMap<ThreadIdx, NameId>,
    /// Number of ranges of each thread, by kind.
    ranges: FxHashMap<(ThreadIdx, CollectiveKind), u64>,
    /// Number of collectives of each group, by kind.
    given: FxHashMap<QueueKey, u64>,
}

impl GroupChoice {
    fn new(kinds: &OpKinds<'_>) -> GroupChoice {
        let ops = &kinds.device.ops;
        let mut choice = GroupChoice::default();
        for op in 0..ops.len() {
            if let Some(kind) = kinds.gloo_range(op) {
                let key = (ops.thread[op], kind);
                *choice.ranges.entry(key).or_default() += 1;
            } else if let Some((kind, (group, _))) = kinds.recorded_collective(op) {
                *choice.given.entry((group, gloo_kind(kind))).or_default() += 1;
            }
        }
        choice
    }

    /// Adds a collective for workers to carry out.
    fn give(&mut self, kind: CollectiveKind, pending: Pending) {
        let group = pending.key.0;
        let queue = self.queues.entry((group, kind)).or_default();
        // Only the head of a queue is in `waiting`: Gloo's workers take a group's collectives in
        // order.
        if queue.is_empty() {
            let waiting = self.waiting.entry(kind).or_default();
            waiting.insert((pending.op, group));
        }
        queue.push_back(pending);
    }

    /// Takes the collective that range `op` carries out.
    fn take(
        &mut self,
        device: &DeviceTrace,
        op: usize,
        kind: CollectiveKind,
        waits: &FxHashMap<ThreadKey, (TimeNs, TimeNs)>,
    ) -> Option<Pending> {
        let thread = device.ops.thread[op];
        let group = match self.served.get(&thread) {
            Some(group) => *group,
            None => {
                let group = self.choose(device, op, kind, waits)?;
                self.served.insert(thread, group);
                group
            }
        };
        let queue = self.queues.get_mut(&(group, kind))?;
        let first = queue.pop_front()?;
        let waiting = self.waiting.entry(kind).or_default();
        waiting.remove(&(first.op, group));
        if let Some(next) = queue.front() {
            waiting.insert((next.op, group));
        }
        Some(first)
    }

    fn choose(
        &self,
        device: &DeviceTrace,
        op: usize,
        kind: CollectiveKind,
        waits: &FxHashMap<ThreadKey, (TimeNs, TimeNs)>,
    ) -> Option<NameId> {
        let end = device.ops.start[op] + device.ops.duration[op];
        let ranges = self.ranges.get(&(device.ops.thread[op], kind)).copied();
        let elements = elements_of(device.names.get(device.ops.shapes[op]));
        let mut earliest = None;
        for &(_, group) in self.waiting.get(&kind)?.iter().take(MAX_GROUPS_TRIED) {
            let Some(first) = self.queues.get(&(group, kind)).and_then(VecDeque::front) else {
                debug_assert!(false, "a group without a queue is waiting");
                continue;
            };
            let given = self.given.get(&(group, kind)).copied();
            let wait = waits.get(&(first.thread, first.key));
            let other_size =
                elements.is_some_and(|elements| first.elements > 0 && first.elements != elements);
            let outlasts_wait = wait.is_some_and(|(_, until)| !ends_before(end, *until));
            if other_size || outlasts_wait || given < ranges {
                continue;
            }
            // Two groups may have pending collectives of the same kind and size. The group with
            // exactly as many as the thread has ranges is the right one.
            if given == ranges {
                return Some(group);
            }
            earliest = earliest.or(Some(group));
        }
        // if none fits, the earliest is taken, and its wait then rejects the handoff
        let first = self.waiting.get(&kind)?.first().map(|(_, group)| *group);
        earliest.or(first)
    }
}

/// Parses the elements of the first tensor in list text: `[[1024], []]` -> 1024. `None` if shapes
/// were not recorded.
fn elements_of(shapes: &str) -> Option<u64> {
    // Gloo's range has its tensors as `Input Dims` (`AsyncWork::recordAsyncWorkProfilingInfo`), a
    // list of lists.
    let dims = shapes.trim_start_matches('[');
    let (dims, _) = dims.split_once(']')?;
    let mut elements = 1u64;
    for dim in dims.split(',') {
        let dim: u64 = dim.trim().parse().ok()?;
        elements = elements.checked_mul(dim)?;
    }
    Some(elements)
}

/// Communication of ops, by their names and records.
struct OpKinds<'d> {
    device: &'d DeviceTrace,
    // few names, many ops
    /// Kind that a Gloo range carries out, per name.
    ranges: Vec<Option<CollectiveKind>>,
    /// Kind of a record, per name; `None` for names without a record.
    records: Vec<Option<CollectiveKind>>,
    /// Kind that an op begins, per name; empty if there are records.
    begun: Vec<Option<CollectiveKind>>,
}

impl OpKinds<'_> {
    fn new(device: &DeviceTrace) -> OpKinds<'_> {
        let gloo = |name: &str| {
            let kind = name.strip_prefix("gloo:")?;
            Some(gloo_kind(CollectiveKind::from_name(kind)))
        };
        let mut records = vec![None; device.names.count()];
        for &name in &device.collectives.name {
            let kind = &mut records[name.index()];
            kind.get_or_insert_with(|| CollectiveKind::from_name(device.names.get(name)));
        }
        let is_known =
            |kind: &Option<CollectiveKind>| kind.is_some_and(|kind| kind != CollectiveKind::Other);
        let begun = if records.iter().any(is_known) {
            vec![]
        } else {
            device.names.iter().map(begun_by_op).collect()
        };
        OpKinds {
            device,
            ranges: device.names.iter().map(gloo).collect(),
            records,
            begun,
        }
    }

    /// Kind of collective that a range of Gloo carries out; `None` for other ops.
    fn gloo_range(&self, op: usize) -> Option<CollectiveKind> {
        self.ranges[self.device.ops.name[op].index()]
    }

    /// Kind, group and number in an op's record; `None` without a record.
    fn recorded_collective(&self, op: usize) -> Option<(CollectiveKind, CollectiveKey)> {
        let records = &self.device.collectives;
        let row = self.device.ops.collective[op] as usize;
        let Some(name) = records.name.get(row) else {
            let kind = *self.begun.get(self.device.ops.name[op].index())?;
            return Some((kind?, (NameId(0), -1)));
        };
        let kind = self.records[name.index()]?;
        Some((kind, (records.group_name[row], records.seq[row])))
    }

    /// Elements of the input in an op's record; 0 if not stated.
    fn elements(&self, op: usize) -> u64 {
        let row = self.device.ops.collective[op] as usize;
        let elements = self.device.collectives.in_elements.get(row).copied();
        elements.unwrap_or(0)
    }
}

/// Kind that an op with this name begins: `c10d::allreduce_` (`Ops.cpp` of c10d).
fn begun_by_op(name: &str) -> Option<CollectiveKind> {
    let kind = CollectiveKind::from_name(name.strip_prefix("c10d::")?);
    Some(kind).filter(|kind| *kind != CollectiveKind::Other)
}

/// Returns the ranges in which workers of Gloo communicate.
pub(crate) fn gloo_ranges(device: &DeviceTrace) -> impl Iterator<Item = OpIdx> {
    let names = (0..).map(NameId).zip(device.names.iter());
    let gloo: Vec<NameId> = names
        .filter(|(_, name)| name.starts_with("gloo:"))
        .map(|(name, _)| name)
        .collect();
    // avoids walking over the ops of the many traces without such ranges
    let ops = if gloo.is_empty() { 0 } else { device.ops.len() };
    let ranges = (0..ops).filter(move |op| gloo.contains(&device.ops.name[*op]));
    ranges.map(OpIdx::new)
}

/// Returns the kinds for which a damaged trace has fewer ranges than collectives.
fn unsure_kinds(kinds: &OpKinds<'_>) -> Vec<CollectiveKind> {
    let device = kinds.device;
    let mut anomalies = device.anomalies.iter().map(|(kind, _)| kind);
    if anomalies.all(|kind| kind.severity() != Severity::Damage) {
        return vec![];
    }
    let mut missing: BTreeMap<CollectiveKind, i64> = BTreeMap::new();
    for op in 0..device.ops.len() {
        if let Some(kind) = kinds.gloo_range(op) {
            *missing.entry(kind).or_default() -= 1;
        } else if let Some((kind, _)) = kinds.recorded_collective(op) {
            *missing.entry(gloo_kind(kind)).or_default() += 1;
        }
    }
    missing.retain(|_, missing| *missing != 0);
    missing.into_keys().collect()
}

/// Returns the kind as Gloo runs it: it has no reduce-scatter of its own
/// (`ProcessGroupGloo::_reduce_scatter_base`).
fn gloo_kind(kind: CollectiveKind) -> CollectiveKind {
    match kind {
        CollectiveKind::ReduceScatter => CollectiveKind::AllReduce,
        kind => kind,
    }
}

/// Returns the records of waits, by the awaited collective.
pub(crate) fn recorded_waits(device: &DeviceTrace) -> impl Iterator<Item = (ThreadKey, usize)> {
    let wait = device.names.find("wait");
    let records = &device.collectives;
    let is_wait = move |op: &usize| {
        let name = records.name.get(device.ops.collective[*op] as usize);
        name.is_some() && name.copied() == wait
    };
    let waits = (0..device.ops.len()).filter(is_wait);
    waits.filter_map(|op| Some((collective_key(device, op)?, op)))
}

/// Returns the collective that an op's record refers to.
pub(crate) fn collective_key(device: &DeviceTrace, op: usize) -> Option<ThreadKey> {
    let records = &device.collectives;
    let row = device.ops.collective[op] as usize;
    let key = (*records.group_name.get(row)?, records.seq[row]);
    Some((device.ops.thread[op], key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_the_first_tensor() {
        assert_eq!(elements_of("[[4, 8], []]"), Some(32));
        assert_eq!(elements_of("[[[7]], []]"), Some(7));
        for text in ["", "[]", "[[], [3]]", "null"] {
            assert_eq!(elements_of(text), None, "{text}");
        }
    }
}
