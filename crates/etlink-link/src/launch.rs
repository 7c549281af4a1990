//! The call that launched each device row, and the op that owns it.
//!
//! A call and the rows that it caused share a `correlation` id. Any call can launch: no list
//! of API names decides. One graph launch has thousands of rows. Ids are unique within a
//! process and a session at best, so where several calls bear one, the row's device says
//! which process, and the time says which call.

use crate::nest::Nesting;
use crate::trace::NoLaunch;
use etlink_model::{Anomalies, AnomalyKind, CallIdx, CollectiveKind, Correlation, DeviceTrace, HostIdx, Label, NameId, OpIdx, TimeNs};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// A row may start this much before its call and still be launched by it: the two clocks
/// are set against each other by CUPTI with about this error.
pub(crate) const CLOCK_TOLERANCE_NS: i64 = 2_000;

/// Per device row, what launched it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launches {
    pub(crate) row_call: Vec<CallIdx>,
    pub(crate) row_op: Vec<OpIdx>,
    pub(crate) no_launch: Vec<NoLaunch>,
    /// The row communicates with other ranks.
    pub(crate) collective: Vec<bool>,
}

/// Finds launches and owners. O(n log n).
pub(crate) fn launches(device: &DeviceTrace, nesting: &Nesting, op_host: &[HostIdx], anomalies: &mut Anomalies) -> Launches {
    let index = CallIndex::new(device);
    let params = device.names.find("record_param_comms");
    let mut found = Launches { collective: collectives(device), ..Launches::default() };
    for row in 0..device.rows.len() {
        let (call, reason) = index.find(row, anomalies);
        let op = call.get().map_or(OpIdx::NONE, |call| {
            let inner = nesting.call_op[call.index()];
            owner(device, nesting, op_host, inner, params.filter(|_| found.collective[row]))
        });
        found.row_call.push(call);
        found.row_op.push(op);
        found.no_launch.push(reason);
    }
    found
}

/// Per device row, whether its arguments or its name say that it communicates with other ranks.
fn collectives(device: &DeviceTrace) -> Vec<bool> {
    let is_kind = |name: &str| CollectiveKind::of(name) != CollectiveKind::Other;
    // few distinct names, many rows
    let (mut kernels, mut records) = (FxHashMap::default(), FxHashMap::default());
    let mut communicates = |row: usize| {
        let kernel = device.rows.name[row];
        let record = device.collectives.name.get(device.rows.collective[row] as usize);
        *kernels.entry(kernel).or_insert_with(|| is_nccl(device.names.get(kernel)))
            || record.is_some_and(|&name| *records.entry(name).or_insert_with(|| is_kind(device.names.get(name))))
    };
    (0..device.rows.len()).map(&mut communicates).collect()
}

/// NCCL and RCCL name their kernels `ncclKernel_…`, `ncclDevKernel_…`; HCCL rows are `hccl::…`.
fn is_nccl(kernel: &str) -> bool {
    ["ncclKernel", "ncclDevKernel", "rcclKernel", "hccl::"].iter().any(|prefix| kernel.starts_with(prefix))
}

/// The owner of a row whose call is inside `inner`: the innermost op that the host trace has
/// too; for a collective the `record_param_comms` around it.
fn owner(device: &DeviceTrace, nesting: &Nesting, op_host: &[HostIdx], inner: OpIdx, params: Option<NameId>) -> OpIdx {
    let up = |op: &OpIdx| nesting.op_parent[op.index()].get();
    let chain = || std::iter::successors(inner.get(), up);
    let communicates = params.and_then(|name| chain().find(|op| device.ops.name[op.index()] == name));
    communicates.or_else(|| chain().find(|op| op_host[op.index()] != HostIdx::NONE)).unwrap_or(inner)
}

/// Calls by correlation id.
struct CallIndex<'t> {
    device: &'t DeviceTrace,
    /// Call numbers by (correlation, start).
    by_id: Vec<u32>,
    first_start: Option<TimeNs>,
    /// The process that launches on each device.
    process: FxHashMap<i64, Label>,
}

impl<'t> CallIndex<'t> {
    fn new(device: &'t DeviceTrace) -> Self {
        let ids = &device.calls.correlation;
        let mut by_id: Vec<u32> = (0..device.calls.len() as u32).filter(|&call| ids[call as usize] != Correlation::NONE).collect();
        by_id.sort_by_key(|&call| ids[call as usize]);
        let mut index = CallIndex { device, by_id, first_start: device.calls.start.first().copied(), process: FxHashMap::default() };
        index.process = index.vote();
        index
    }

    /// Per device the process with a fitting call for most of its rows: same id, begun before the row. Where
    /// processes fit alike, as the ranks of one program do, each gets a device of its own, in order.
    fn vote(&self) -> FxHashMap<i64, Label> {
        let mut votes: FxHashMap<(i64, Label), u32> = FxHashMap::default();
        for row in 0..self.device.rows.len() {
            let mut before = None;
            for &call in self.calls(self.device.rows.correlation[row]).iter().filter(|&&call| self.begun(call, row)) {
                // a session may use an id again: one vote for each process
                if before.replace(self.pid(call)) != Some(self.pid(call)) {
                    *votes.entry((self.device_of(row), self.pid(call))).or_default() += 1;
                }
            }
        }
        let mut votes: Vec<_> = votes.into_iter().collect();
        votes.sort_unstable_by_key(|&((device, pid), count)| (device, Reverse(count), pid));
        let mut taken: Vec<Label> = vec![];
        let mut process = FxHashMap::default();
        for of_device in votes.chunk_by(|((a, _), _), ((b, _), _)| a == b) {
            let best = of_device.iter().take_while(|(_, count)| *count == of_device[0].1).map(|((_, pid), _)| *pid);
            let own = best.clone().find(|pid| !taken.contains(pid)).or(best.clone().next());
            taken.extend(own);
            process.extend(own.map(|pid| (of_device[0].0.0, pid)));
        }
        process
    }

    /// Whether the call began before the row did, but for the error of the clocks.
    fn begun(&self, call: u32, row: usize) -> bool {
        self.device.calls.start[call as usize].0 <= self.device.rows.start[row].0.saturating_add(CLOCK_TOLERANCE_NS)
    }

    fn calls(&self, id: Correlation) -> &[u32] {
        let ids = &self.device.calls.correlation;
        let from = self.by_id.partition_point(|&call| ids[call as usize] < id);
        let len = self.by_id[from..].partition_point(|&call| ids[call as usize] == id);
        &self.by_id[from..from + len]
    }

    fn device_of(&self, row: usize) -> i64 {
        self.device.queues[self.device.rows.queue[row].index()].device
    }

    fn pid(&self, call: u32) -> Label {
        self.device.threads[self.device.calls.thread[call as usize].index()].pid
    }

    /// The call that launched `row`, or why there is none.
    fn find(&self, row: usize, anomalies: &mut Anomalies) -> (CallIdx, NoLaunch) {
        let Some(id) = self.device.rows.correlation[row].get() else { return (CallIdx::NONE, NoLaunch::NoCorrelation) };
        let start = self.device.rows.start[row];
        let calls = self.calls(id);
        let process = self.process.get(&self.device_of(row)).filter(|_| calls.len() > 1);
        let own = |call: &&u32| process.is_none_or(|pid| self.pid(**call) == *pid);
        let scoped = if calls.iter().any(|call| own(&call)) { calls.iter().filter(own).copied().collect() } else { calls.to_vec() };
        if scoped.len() > 1 {
            anomalies.note(AnomalyKind::DuplicateCorrelation, || format!("correlation {}", id.0));
        }
        let begun = |call: &&u32| self.begun(**call, row);
        match scoped.iter().rfind(begun).or(scoped.last()) {
            Some(&call) if begun(&&call) => (CallIdx(call), NoLaunch::Launched),
            Some(&call) => (CallIdx(call), NoLaunch::StartsBeforeCall),
            None => (CallIdx::NONE, self.why_none(id, start)),
        }
    }

    /// Ids grow: a row whose id is below all recorded ones was launched before recording began.
    fn why_none(&self, id: Correlation, start: TimeNs) -> NoLaunch {
        let lowest = self.by_id.first().map(|&call| self.device.calls.correlation[call as usize]);
        match self.first_start {
            None => NoLaunch::NoCallsRecorded,
            Some(first) if start < first || lowest.is_some_and(|lowest| id < lowest) => NoLaunch::BeforeWindow,
            Some(_) => NoLaunch::CallNotRecorded,
        }
    }
}
