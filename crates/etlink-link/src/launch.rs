//! The call that launched each device row, and the op that owns it.
//!
//! A call and the rows that it caused share a `correlation` id. Any call can launch: no list
//! of API names decides. One graph launch has thousands of rows. Ids are unique within a
//! process and a session at best, so where several calls bear one, the row's device says
//! which process, and the time says which call.

use crate::nest::Nesting;
use crate::search::seek;
use crate::trace::NoLaunch;
use etlink_model::{
    Anomalies, AnomalyKind, CallIdx, CollectiveKind, Correlation, DeviceTrace, HostIdx, NameId,
    OpIdx, ThreadIdx, TimeNs, TrackLabel,
};
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
pub(crate) fn launches(
    device: &DeviceTrace,
    nesting: &Nesting,
    op_host: &[HostIdx],
) -> (Launches, Anomalies) {
    let mut anomalies = Anomalies::default();
    let mut index = CallIndex::new(device);
    let params = device.names.find("record_param_comms");
    // without a match anywhere, every search for one would climb to the top
    let matched = op_host.iter().any(|node| node.get().is_some());
    let rows = device.rows.len();
    let mut found = Launches {
        row_call: Vec::with_capacity(rows),
        row_op: Vec::with_capacity(rows),
        no_launch: Vec::with_capacity(rows),
        collective: collectives(device),
    };
    for row in 0..rows {
        let (call, reason) = index.find(row, &mut anomalies);
        let op = call.get().map_or(OpIdx::NONE, |call| {
            let inner = nesting.call_op[call.index()];
            owner(
                device,
                nesting,
                op_host,
                inner,
                params.filter(|_| found.collective[row]),
                matched,
            )
        });
        found.row_call.push(call);
        found.row_op.push(op);
        found.no_launch.push(reason);
    }
    (found, anomalies)
}

/// Per device row, whether its arguments or its name say that it communicates with other ranks.
fn collectives(device: &DeviceTrace) -> Vec<bool> {
    let is_kind = |name: &str| CollectiveKind::of(name) != CollectiveKind::Other;
    // few distinct names, many rows
    let (mut kernels, mut records) = (
        vec![None; device.names.count()],
        vec![None; device.names.count()],
    );
    let mut communicates = |row: usize| {
        let kernel = device.rows.name[row];
        let record = device
            .collectives
            .name
            .get(device.rows.collective[row] as usize);
        *kernels[kernel.index()].get_or_insert_with(|| is_nccl(device.names.get(kernel)))
            || record.is_some_and(|&name| {
                *records[name.index()].get_or_insert_with(|| is_kind(device.names.get(name)))
            })
    };
    (0..device.rows.len()).map(&mut communicates).collect()
}

/// NCCL and RCCL name their kernels `ncclKernel_…`, `ncclDevKernel_…`; HCCL rows are `hccl::…`.
fn is_nccl(kernel: &str) -> bool {
    ["ncclKernel", "ncclDevKernel", "rcclKernel", "hccl::"]
        .iter()
        .any(|prefix| kernel.starts_with(prefix))
}

/// The owner of a row whose call is inside `inner`: the innermost op that the host trace has
/// too; for a collective the `record_param_comms` around it.
fn owner(
    device: &DeviceTrace,
    nesting: &Nesting,
    op_host: &[HostIdx],
    inner: OpIdx,
    params: Option<NameId>,
    matched: bool,
) -> OpIdx {
    let up = |op: &OpIdx| nesting.op_parent[op.index()].get();
    let chain = || std::iter::successors(inner.get(), up);
    let communicates =
        params.and_then(|name| chain().find(|op| device.ops.name[op.index()] == name));
    communicates
        .or_else(|| chain().find(|op| matched && op_host[op.index()] != HostIdx::NONE))
        .unwrap_or(inner)
}

/// A call that bears an id. In order of id, process and start: calls are numbered by their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    id: Correlation,
    process: u32,
    call: u32,
}

/// Calls by correlation id.
struct CallIndex<'t> {
    device: &'t DeviceTrace,
    calls: Vec<Entry>,
    /// Where the last one was found: rows and calls come in nearly the same order.
    last: usize,
    /// The processes that launch, by number: that of their label among all labels.
    processes: Vec<u32>,
    /// The process of each device, where every process has a device of its own.
    process_of: FxHashMap<i64, u32>,
}

impl<'t> CallIndex<'t> {
    fn new(device: &'t DeviceTrace) -> Self {
        let mut labels: Vec<TrackLabel> = device.threads.iter().map(|thread| thread.pid).collect();
        labels.sort_unstable();
        labels.dedup();
        let number = |label| labels.partition_point(|other| *other < label) as u32;
        let of_thread: Vec<u32> = device
            .threads
            .iter()
            .map(|thread| number(thread.pid))
            .collect();
        let ids = device
            .calls
            .correlation
            .iter()
            .zip(&device.calls.thread)
            .zip(0..);
        let entry = |((&id, thread), call): ((&Correlation, &ThreadIdx), u32)| {
            id.get().map(|id| Entry {
                id,
                process: of_thread[thread.index()],
                call,
            })
        };
        let mut calls = Vec::with_capacity(device.calls.len());
        calls.extend(ids.filter_map(entry));
        // nearly in order already, which a merge sort takes as it is
        calls.sort();
        let mut launches = vec![false; labels.len()];
        calls
            .iter()
            .for_each(|entry| launches[entry.process as usize] = true);
        let processes = (0..)
            .zip(launches)
            .filter_map(|(process, launches)| launches.then_some(process))
            .collect();
        let mut index = CallIndex {
            device,
            calls,
            last: 0,
            processes,
            process_of: FxHashMap::default(),
        };
        if index.processes.len() > 1 {
            index.process_of = index.vote();
        }
        index
    }

    /// Per device the process with a fitting call for most of its rows: same id, begun before the row. First
    /// each process gets a device of its own, since the ranks of one program fit each other's rows too.
    /// Empty where a process is left without: devices are shared.
    fn vote(&mut self) -> FxHashMap<i64, u32> {
        let mut votes: FxHashMap<(i64, u32), u32> = FxHashMap::default();
        for row in 0..self.device.rows.len() {
            for at in 0..self.processes.len() {
                let process = self.processes[at];
                if self.latest(row, process).is_some_and(|(begun, ..)| begun) {
                    *votes.entry((self.device_of(row), process)).or_default() += 1;
                }
            }
        }
        let mut votes: Vec<_> = votes.into_iter().collect();
        votes.sort_unstable_by_key(|&((device, process), count)| (Reverse(count), device, process));
        let mut process_of: FxHashMap<i64, u32> = FxHashMap::default();
        for &((device, process), _) in &votes {
            if !process_of.contains_key(&device)
                && !process_of.values().any(|taken| *taken == process)
            {
                process_of.insert(device, process);
            }
        }
        if self.processes.len() > process_of.len() {
            return FxHashMap::default();
        }
        // a process may have several devices
        for ((device, process), _) in votes {
            process_of.entry(device).or_insert(process);
        }
        process_of
    }

    /// The latest call of a process with the row's id that began before it, but for the error of the
    /// clocks; `false` with the first one where all began after it. Last, whether others have the id.
    fn latest(&mut self, row: usize, process: u32) -> Option<(bool, u32, bool)> {
        let id = self.device.rows.correlation[row].get()?;
        let from = seek(&self.calls, self.last, |entry| {
            (entry.id, entry.process) < (id, process)
        });
        self.last = from;
        let calls = &self.calls[from..];
        let calls = &calls[..seek(calls, 0, |entry| (entry.id, entry.process) == (id, process))];
        let limit = self.device.rows.start[row]
            .0
            .saturating_add(CLOCK_TOLERANCE_NS);
        match calls.partition_point(|entry| self.device.calls.start[entry.call as usize].0 <= limit)
        {
            0 => calls
                .first()
                .map(|entry| (false, entry.call, calls.len() > 1)),
            begun => Some((true, calls[begun - 1].call, calls.len() > 1)),
        }
    }

    fn device_of(&self, row: usize) -> i64 {
        self.device.queues[self.device.rows.queue[row].index()].device
    }

    /// The call that launched `row`, or why there is none. A row never takes the call of a process
    /// that its device does not belong to.
    fn find(&mut self, row: usize, anomalies: &mut Anomalies) -> (CallIdx, NoLaunch) {
        let Some(id) = self.device.rows.correlation[row].get() else {
            return (CallIdx::NONE, NoLaunch::NoCorrelation);
        };
        let own = self.process_of.get(&self.device_of(row)).copied();
        let (mut several, mut begun, mut best) = (false, 0, None);
        for at in 0..own.map_or(self.processes.len(), |_| 1) {
            let Some(fitting) = self.latest(row, own.unwrap_or(self.processes[at])) else {
                continue;
            };
            several |= fitting.2;
            begun += u32::from(fitting.0);
            // calls are numbered by their start
            best = best.max(Some(fitting));
        }
        if several || begun > 1 {
            anomalies.note(AnomalyKind::DuplicateCorrelation, || {
                format!("correlation {}", id.0)
            });
        }
        match best {
            Some((true, call, _)) => (CallIdx(call), NoLaunch::Launched),
            Some((false, call, _)) => (CallIdx(call), NoLaunch::StartsBeforeCall),
            None => (
                CallIdx::NONE,
                self.why_none(id, self.device.rows.start[row]),
            ),
        }
    }

    /// Ids grow: a row whose id is below all recorded ones was launched before recording began.
    fn why_none(&self, id: Correlation, start: TimeNs) -> NoLaunch {
        let lowest = self.calls.first().map(|entry| entry.id);
        match self.device.calls.start.first().copied() {
            None => NoLaunch::NoCallsRecorded,
            Some(first) if start < first || lowest.is_some_and(|lowest| id < lowest) => {
                NoLaunch::BeforeWindow
            }
            Some(_) => NoLaunch::CallNotRecorded,
        }
    }
}
