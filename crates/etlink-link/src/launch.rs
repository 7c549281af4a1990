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
    // without a match anywhere, every search for one would climb to the top
    let matched = op_host.iter().any(|node| node.get().is_some());
    let mut found = Launches { collective: collectives(device), ..Launches::default() };
    for row in 0..device.rows.len() {
        let (call, reason) = index.find(row, anomalies);
        let op = call.get().map_or(OpIdx::NONE, |call| {
            let inner = nesting.call_op[call.index()];
            owner(device, nesting, op_host, inner, params.filter(|_| found.collective[row]), matched)
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
fn owner(device: &DeviceTrace, nesting: &Nesting, op_host: &[HostIdx], inner: OpIdx, params: Option<NameId>, matched: bool) -> OpIdx {
    let up = |op: &OpIdx| nesting.op_parent[op.index()].get();
    let chain = || std::iter::successors(inner.get(), up);
    let communicates = params.and_then(|name| chain().find(|op| device.ops.name[op.index()] == name));
    communicates.or_else(|| chain().find(|op| matched && op_host[op.index()] != HostIdx::NONE)).unwrap_or(inner)
}

/// Calls by correlation id.
struct CallIndex<'t> {
    device: &'t DeviceTrace,
    /// Call numbers by (correlation, process, start).
    by_id: Vec<u32>,
    first_start: Option<TimeNs>,
    /// The processes that launch, sorted.
    processes: Vec<Label>,
    /// The process of each device, where every process has a device of its own.
    process_of: FxHashMap<i64, Label>,
}

impl<'t> CallIndex<'t> {
    fn new(device: &'t DeviceTrace) -> Self {
        let by_id = (0..device.calls.len() as u32).filter(|&call| device.calls.correlation[call as usize] != Correlation::NONE).collect();
        let first_start = device.calls.start.first().copied();
        let mut index = CallIndex { device, by_id, first_start, processes: vec![], process_of: FxHashMap::default() };
        let mut by_id = std::mem::take(&mut index.by_id);
        by_id.sort_by_key(|&call| (device.calls.correlation[call as usize], index.pid(call)));
        index.processes = by_id.iter().map(|&call| index.pid(call)).collect();
        index.by_id = by_id;
        index.processes.sort_unstable();
        index.processes.dedup();
        if index.processes.len() > 1 {
            index.process_of = index.vote();
        }
        index
    }

    /// Per device the process with a fitting call for most of its rows: same id, begun before the row. First
    /// each process gets a device of its own, since the ranks of one program fit each other's rows too.
    /// Empty where a process is left without: devices are shared.
    fn vote(&self) -> FxHashMap<i64, Label> {
        let mut votes: FxHashMap<(i64, Label), u32> = FxHashMap::default();
        for row in 0..self.device.rows.len() {
            for pid in self.processes.iter().filter(|pid| self.latest(row, **pid).is_some_and(|(begun, ..)| begun)) {
                *votes.entry((self.device_of(row), *pid)).or_default() += 1;
            }
        }
        let mut votes: Vec<_> = votes.into_iter().collect();
        votes.sort_unstable_by_key(|&((device, pid), count)| (Reverse(count), device, pid));
        let mut process_of: FxHashMap<i64, Label> = FxHashMap::default();
        for &((device, pid), _) in &votes {
            if !process_of.contains_key(&device) && !process_of.values().any(|taken| *taken == pid) {
                process_of.insert(device, pid);
            }
        }
        if self.processes.len() > process_of.len() {
            return FxHashMap::default();
        }
        // a process may have several devices
        for ((device, pid), _) in votes {
            process_of.entry(device).or_insert(pid);
        }
        process_of
    }

    /// The latest call of a process with the row's id that began before it, but for the error of the
    /// clocks; `false` with the first one where all began after it. Last, whether others have the id.
    fn latest(&self, row: usize, pid: Label) -> Option<(bool, u32, bool)> {
        let id = self.device.rows.correlation[row].get()?;
        let key = |call: &u32| (self.device.calls.correlation[*call as usize], self.pid(*call));
        let from = self.by_id.partition_point(|call| key(call) < (id, pid));
        let calls = &self.by_id[from..from + self.by_id[from..].partition_point(|call| key(call) == (id, pid))];
        let limit = self.device.rows.start[row].0.saturating_add(CLOCK_TOLERANCE_NS);
        match calls.partition_point(|&call| self.device.calls.start[call as usize].0 <= limit) {
            0 => calls.first().map(|&call| (false, call, calls.len() > 1)),
            begun => Some((true, calls[begun - 1], calls.len() > 1)),
        }
    }

    fn device_of(&self, row: usize) -> i64 {
        self.device.queues[self.device.rows.queue[row].index()].device
    }

    fn pid(&self, call: u32) -> Label {
        self.device.threads[self.device.calls.thread[call as usize].index()].pid
    }

    /// The call that launched `row`, or why there is none. A row never takes the call of a process
    /// that its device does not belong to.
    fn find(&self, row: usize, anomalies: &mut Anomalies) -> (CallIdx, NoLaunch) {
        let Some(id) = self.device.rows.correlation[row].get() else { return (CallIdx::NONE, NoLaunch::NoCorrelation) };
        let own = self.process_of.get(&self.device_of(row));
        let processes = own.map_or(&self.processes[..], std::slice::from_ref);
        let fitting = || processes.iter().filter_map(|pid| self.latest(row, *pid));
        if fitting().any(|(.., several)| several) || fitting().filter(|(begun, ..)| *begun).nth(1).is_some() {
            anomalies.note(AnomalyKind::DuplicateCorrelation, || format!("correlation {}", id.0));
        }
        // calls are numbered by their start
        match fitting().max() {
            Some((true, call, _)) => (CallIdx(call), NoLaunch::Launched),
            Some((false, call, _)) => (CallIdx(call), NoLaunch::StartsBeforeCall),
            None => (CallIdx::NONE, self.why_none(id, self.device.rows.start[row])),
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
