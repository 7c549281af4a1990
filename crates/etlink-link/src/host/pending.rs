//! Collectives that a worker thread of the backend carries out: Gloo.
//!
//! ```text
//! producer   record_param_comms(allreduce, Seq 7)   record_param_comms(wait, Seq 7) . . . . ____
//! consumer                               |== gloo:all_reduce ========================|
//! ```
//! **Whom this serves.** Stock `ProcessGroupGloo` writes `gloo:` ranges
//! (`AsyncWork::recordAsyncWorkProfilingInfo`) but no `record_param_comms`: its traces have nothing
//! pending here. Records come from backends that wrap Gloo, and from programs that call
//! `record_param_comms` themselves.
//!
//! Without any record the ops `c10d::allreduce_` say what was given, though not the group. Then
//! one queue per kind stands for all groups.
//!
//! Each group of Gloo has worker threads of its own (`ProcessGroupGloo::runLoop`), which take its
//! collectives in the order in which they were given. So a thread serves one group, and a range is
//! the first collective of its kind that the group was given before and has not carried out. Ranges
//! do not name their group: see [`GroupChoice`].
//!
//! Where the record of the wait says otherwise, by ending before the range does, there is no
//! handoff. Where a wait is not recorded (the reducer of DDP waits for a future), the producer
//! waited if it did nothing when the range ended, and went on soon after. A damaged trace can have
//! lost ranges, and then order says nothing of their kind. O(n log n).

use crate::host::Handoff;
use crate::limits::{MAX_GROUPS_TRIED, USUAL_WAKE, WAKE_LATENCY, ends_before};
use etlink_model::{CollectiveKind, DeviceTrace, NameId, OpIdx, Severity, ThreadIdx, TimeNs};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A collective that was given to a group's workers and that none has begun.
#[derive(Clone, Copy)]
struct Pending {
    op: OpIdx,
    thread: ThreadIdx,
    end: TimeNs,
    key: CollectiveKey,
    /// Elements of the input; 0 where the record does not say.
    elements: u64,
}

/// A collective that a worker carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarriedOut {
    /// The record of its being given.
    pub(crate) given: OpIdx,
    /// The worker's range.
    pub(crate) range: OpIdx,
    pub(crate) handoff: Handoff,
}

/// Name of the group, and number in it (`Seq`).
type CollectiveKey = (NameId, i64);

/// A collective as one thread knows it.
pub(crate) type ThreadKey = (ThreadIdx, CollectiveKey);

/// A group's collectives of one kind.
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
    // when each thread is done with what it did so far
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

/// When a thread that waits for what ended at `end` had woken. Its recorded wait does nothing else
/// until it returns.
fn woken(end: TimeNs, wait: Option<(TimeNs, TimeNs)>) -> TimeNs {
    let returned = wait.map_or(end, |(_, until)| until.max(end));
    if returned.since(end) <= WAKE_LATENCY.0 {
        returned
    } else {
        end + USUAL_WAKE
    }
}

/// Finds the group that a worker thread serves, and what it has pending.
///
/// A thread keeps its group. The first of its ranges chooses: of the groups that have this kind
/// pending, those whose size or wait contradicts the range are out, and so are those with fewer
/// collectives than the thread has ranges. Of the rest one whose number of collectives is that of
/// the thread's ranges goes first, then the earliest given.
struct GroupChoice {
    queues: FxHashMap<QueueKey, VecDeque<Pending>>,
    /// Per kind, the groups that have some pending, by the first of them.
    waiting: FxHashMap<CollectiveKind, BTreeSet<(OpIdx, NameId)>>,
    served: FxHashMap<ThreadIdx, NameId>,
    /// How many ranges each thread has, by kind.
    ranges: FxHashMap<(ThreadIdx, CollectiveKind), u64>,
    /// How many collectives each group has, by kind.
    given: FxHashMap<QueueKey, u64>,
}

impl GroupChoice {
    fn new(kinds: &OpKinds<'_>) -> GroupChoice {
        let ops = &kinds.device.ops;
        let mut choice = GroupChoice {
            queues: FxHashMap::default(),
            waiting: FxHashMap::default(),
            served: FxHashMap::default(),
            ranges: FxHashMap::default(),
            given: FxHashMap::default(),
        };
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

    /// A collective that workers are to carry out.
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

    /// The collective that range `op` carries out.
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
            // Two groups can have collectives of one kind and size pending. That with exactly as
            // many of them as the thread has ranges is its own.
            if given == ranges {
                return Some(group);
            }
            earliest = earliest.or(Some(group));
        }
        // of none that fits the first given is taken, and its wait then refuses the handoff
        let first = self.waiting.get(&kind)?.first().map(|(_, group)| *group);
        earliest.or(first)
    }
}

/// Elements of the first tensor in list text: `[[1024], []]` -> 1024. `None` where shapes were not
/// recorded.
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

/// What ops communicate, by their names and records.
struct OpKinds<'d> {
    device: &'d DeviceTrace,
    // few names, many ops
    /// Per name, what a range of Gloo with it carries out.
    ranges: Vec<Option<CollectiveKind>>,
    /// Per name, the kind that a record with it has; `None` of those that no record has.
    records: Vec<Option<CollectiveKind>>,
    /// Per name, the kind that an op with it begins; empty where records say it.
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

    /// The kind of collective that a range of Gloo carries out; `None` for other ops.
    fn gloo_range(&self, op: usize) -> Option<CollectiveKind> {
        self.ranges[self.device.ops.name[op].index()]
    }

    /// What an op's record says: kind, group and number.
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

    /// Elements of the input that an op's record says; 0 where it does not.
    fn elements(&self, op: usize) -> u64 {
        let row = self.device.ops.collective[op] as usize;
        let elements = self.device.collectives.in_elements.get(row).copied();
        elements.unwrap_or(0)
    }
}

/// The kind that an op of this name begins: `c10d::allreduce_` (`Ops.cpp` of c10d).
fn begun_by_op(name: &str) -> Option<CollectiveKind> {
    let kind = CollectiveKind::from_name(name.strip_prefix("c10d::")?);
    Some(kind).filter(|kind| *kind != CollectiveKind::Other)
}

/// The ranges in which workers of Gloo communicate.
pub(crate) fn gloo_ranges(device: &DeviceTrace) -> impl Iterator<Item = OpIdx> {
    let names = (0..).map(NameId).zip(device.names.iter());
    let gloo: Vec<NameId> = names
        .filter(|(_, name)| name.starts_with("gloo:"))
        .map(|(name, _)| name)
        .collect();
    // no walk over the ops of the many traces without one
    let ops = if gloo.is_empty() { 0 } else { device.ops.len() };
    let ranges = (0..ops).filter(move |op| gloo.contains(&device.ops.name[*op]));
    ranges.map(OpIdx::new)
}

/// Kinds of which a damaged trace has not as many ranges as were given.
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

/// The kind as Gloo runs it: it has no reduce-scatter of its own
/// (`ProcessGroupGloo::_reduce_scatter_base`).
fn gloo_kind(kind: CollectiveKind) -> CollectiveKind {
    match kind {
        CollectiveKind::ReduceScatter => CollectiveKind::AllReduce,
        kind => kind,
    }
}

/// Records of waits, by what they wait for.
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

/// What an op's record says that it is about.
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
