//! Finds the call that launched each device row, and the op that owns it.
//!
//! A call and the rows that it caused share a `correlation` id. Any call can launch: no list of API
//! names decides. One graph launch has thousands of rows. Ids are unique within a process and a
//! session at best. If several calls share an id, the row's device reveals the process, and the
//! time reveals the call.

use crate::device::call_end;
use crate::graph::kinds::NoLaunch;
use crate::host::nest::Nesting;
use crate::limits::{CLOCK_TOLERANCE, EARLY_START, MAX_VOTES};
use crate::search::seek;
use etlink_model::{
    Anomalies, AnomalyKind, CallIdx, CollectiveKind, Correlation, DeviceQueue, DeviceTrace,
    HostIdx, OpIdx, RowIdx, TimeNs, TrackLabel,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Launch of each device row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launches {
    pub(crate) row_call: Vec<CallIdx>,
    pub(crate) row_op: Vec<OpIdx>,
    pub(crate) no_launch: Vec<NoLaunch>,
    /// True for rows that communicate with other ranks.
    pub(crate) collective: Vec<bool>,
}

impl Launches {
    /// End of the call that launched a row; before all times if no call is known.
    pub(crate) fn ended(&self, device: &DeviceTrace, row: RowIdx) -> TimeNs {
        let call = self.row_call[row.index()].get();
        call.map_or(TimeNs(i64::MIN), |call| call_end(device, call))
    }

    /// Returns pairs of a process and a device that it launches to, sorted. A trace merged from
    /// several ranks has several processes. O(rows).
    pub(crate) fn processes(&self, device: &DeviceTrace) -> BTreeSet<(TrackLabel, i64)> {
        let mut pairs = BTreeSet::new();
        let mut last = None;
        for (call, queue) in self.row_call.iter().zip(&device.rows.queue) {
            let Some(call) = call.get() else { continue };
            let thread = device.calls.thread[call.index()];
            // Neighbours usually belong to one thread and queue.
            if last.replace((thread, *queue)) != Some((thread, *queue)) {
                let process = device.threads[thread.index()].pid;
                pairs.insert((process, device.queues[queue.index()].device));
            }
        }
        pairs
    }
}

/// Returns the state of a launch from the start of its call and the `start` of its row.
pub(crate) fn launch_state(called: TimeNs, start: TimeNs) -> NoLaunch {
    if called.since(start) <= EARLY_START.0 {
        NoLaunch::Launched
    } else {
        NoLaunch::StartsBeforeCall
    }
}

/// Finds launches and owners. O(n log n).
pub(crate) fn launches(
    device: &DeviceTrace,
    nesting: &Nesting,
    op_host: &[HostIdx],
) -> (Launches, Anomalies) {
    let mut anomalies = Anomalies::default();
    let mut index = CallIndex::new(device);
    let owners = Owners::new(device, nesting, op_host);
    let rows = device.rows.len();
    let mut found = Launches {
        row_call: Vec::with_capacity(rows),
        row_op: Vec::with_capacity(rows),
        no_launch: Vec::with_capacity(rows),
        collective: collectives(device),
    };
    for row in 0..rows {
        // An op that the host trace lacks cannot own a row in the exports, so `owner` climbs to the
        // innermost op that it has.
        let (call, reason) = index.find(row, &mut anomalies);
        let op = call.get().map_or(OpIdx::NONE, |call| {
            owners.owner(nesting.call_op[call.index()], found.collective[row])
        });
        found.row_call.push(call);
        found.row_op.push(op);
        found.no_launch.push(reason);
    }
    (found, anomalies)
}

/// Returns, per device row, true if its arguments or its name show that it communicates with other
/// ranks.
fn collectives(device: &DeviceTrace) -> Vec<bool> {
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
        // The name alone is enough: kernels of older PyTorch and of graph replays have no
        // `Collective name` (pytorch#131462).
        *kernels[kernel.index()]
            .get_or_insert_with(|| communicates_by_name(device.names.get(kernel)))
            || record.is_some_and(|&name| {
                *records[name.index()]
                    .get_or_insert_with(|| is_collective_name(device.names.get(name)))
            })
    };
    (0..device.rows.len()).map(&mut communicates).collect()
}

/// True for collectives; `wait`, `init` and the like are records of a group, but no collectives.
fn is_collective_name(name: &str) -> bool {
    CollectiveKind::from_name(name) != CollectiveKind::Other
}

/// True for kernels that communicate. NCCL and RCCL name theirs `ncclKernel_…`, `ncclDevKernel_…`;
/// HCCL rows are `hccl::…`. MSCCL, MSCCL++, and the all-reduces of vLLM, aiter and PyTorch over
/// memory shared by the ranks of a node have these words in kernel names, after `void` and
/// namespaces.
fn communicates_by_name(kernel: &str) -> bool {
    const PREFIXES: [&str; 5] = [
        "ncclKernel",
        "ncclDevKernel",
        "rcclKernel",
        "mscclKernel",
        "hccl::",
    ];
    const WORDS: [&str; 6] = [
        "rcclGenericKernel",
        "mscclpp::",
        "cross_device_reduce",
        "quickreduce::allreduce",
        "multimem_all_reduce",
        "_shot_all_reduce",
    ];
    PREFIXES.iter().any(|prefix| kernel.starts_with(prefix))
        || WORDS.iter().any(|word| kernel.contains(word))
}

/// Owners of rows, by the op around their call. Built once for all ops: a search upwards from each
/// row would take rows · depth.
struct Owners {
    /// Innermost op around each op, or itself, that the host trace has too; empty if there is none.
    matched: Vec<OpIdx>,
    /// Innermost `record_param_comms` around each op, or itself; empty if there is none.
    params: Vec<OpIdx>,
}

impl Owners {
    fn new(device: &DeviceTrace, nesting: &Nesting, op_host: &[HostIdx]) -> Owners {
        let params = device.names.find("record_param_comms");
        Owners {
            matched: innermost(&nesting.op_parent, |op| op_host[op] != HostIdx::NONE),
            params: innermost(&nesting.op_parent, |op| Some(device.ops.name[op]) == params),
        }
    }

    /// Returns the owner of a row whose call is inside `inner`; for a collective, the
    /// `record_param_comms` around it.
    fn owner(&self, inner: OpIdx, is_collective: bool) -> OpIdx {
        let Some(op) = inner.get().map(OpIdx::index) else {
            return inner;
        };
        let matched = self.matched.get(op).copied().and_then(OpIdx::get);
        let params = self.params.get(op).copied().and_then(OpIdx::get);
        // `record_param_comms` has size, type and group. The `nccl:all_reduce` annotation, which
        // may be inside it, has none of them.
        let communicates = if is_collective { params } else { None };
        communicates.or(matched).unwrap_or(inner)
    }
}

/// Returns, per op, the innermost wanted op among itself and the ops around it. Parents come before
/// their children. O(ops).
fn innermost(op_parent: &[OpIdx], is_wanted: impl Fn(usize) -> bool) -> Vec<OpIdx> {
    if !(0..op_parent.len()).any(&is_wanted) {
        return vec![];
    }
    let mut found: Vec<OpIdx> = Vec::with_capacity(op_parent.len());
    for (op, parent) in op_parent.iter().enumerate() {
        let around = parent.get().map_or(OpIdx::NONE, |parent| {
            debug_assert!(parent.index() < op, "a parent begins before its child");
            found[parent.index()]
        });
        found.push(if is_wanted(op) {
            OpIdx::new(op)
        } else {
            around
        });
    }
    found
}

/// A call with a correlation id. Sorted by id, process and start: calls are numbered by start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LaunchEntry {
    id: Correlation,
    process: u32,
    call: CallIdx,
}

/// Calls by correlation id.
struct CallIndex<'t> {
    device: &'t DeviceTrace,
    calls: Vec<LaunchEntry>,
    /// Index of the last result: rows and calls come in nearly the same order.
    last: usize,
    /// Processes that launch, by the index of their label among all labels.
    processes: Vec<u32>,
    /// Process of each device, if every process has its own device.
    process_of: FxHashMap<i64, u32>,
    /// Calls searched for rows of other devices; empty if there are no such rows.
    shared: SharedCalls,
}

/// Calls of all processes together, for rows of a device that several processes share. Hundreds of
/// processes count their ids from 1, so searching each of them would take rows · processes.
#[derive(Default)]
struct SharedCalls {
    ids: Vec<SharedId>,
    /// Calls by id, then by start.
    calls: Vec<CallIdx>,
    /// Index of the last id found.
    last: usize,
}

/// Calls with one id.
struct SharedId {
    id: Correlation,
    /// End of the calls in [`SharedCalls::calls`]; they begin at the end of the previous id's
    /// calls.
    end: usize,
    /// Latest of the first calls of all processes.
    latest_first: CallIdx,
    /// True if a process has several of these calls.
    repeats: bool,
}

impl SharedCalls {
    /// Builds the index from sorted `entries`.
    fn new(entries: &[LaunchEntry]) -> SharedCalls {
        let mut shared = SharedCalls {
            calls: Vec::with_capacity(entries.len()),
            ..SharedCalls::default()
        };
        for of_id in entries.chunk_by(|one, next| one.id == next.id) {
            let (mut latest_first, mut repeats) = (CallIdx(0), false);
            for of_process in of_id.chunk_by(|one, next| one.process == next.process) {
                latest_first = latest_first.max(of_process[0].call);
                repeats |= of_process.len() > 1;
            }
            let begin = shared.calls.len();
            shared.calls.extend(of_id.iter().map(|entry| entry.call));
            // calls are numbered by start
            shared.calls[begin..].sort_unstable();
            shared.ids.push(SharedId {
                id: of_id[0].id,
                end: shared.calls.len(),
                latest_first,
                repeats,
            });
        }
        shared
    }

    /// Returns the id and its calls.
    fn with_id(&mut self, id: Correlation) -> Option<(&SharedId, &[CallIdx])> {
        self.last = seek(&self.ids, self.last, |known| known.id < id);
        let known = self.ids.get(self.last).filter(|known| known.id == id)?;
        let begin = match self.last.checked_sub(1) {
            Some(before) => self.ids[before].end,
            None => 0,
        };
        Some((known, &self.calls[begin..known.end]))
    }
}

impl<'t> CallIndex<'t> {
    fn new(device: &'t DeviceTrace) -> Self {
        let mut labels: Vec<TrackLabel> = device.threads.iter().map(|thread| thread.pid).collect();
        labels.sort_unstable();
        labels.dedup();
        let mut of_thread: Vec<u32> = Vec::with_capacity(device.threads.len());
        for thread in &device.threads {
            of_thread.push(labels.partition_point(|label| *label < thread.pid) as u32);
        }
        let mut calls = Vec::with_capacity(device.calls.len());
        for (call, id) in (0..).map(CallIdx).zip(&device.calls.correlation) {
            let process = of_thread[device.calls.thread[call.index()].index()];
            calls.extend(id.get().map(|id| LaunchEntry { id, process, call }));
        }
        // nearly sorted already, which a merge sort exploits
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
            shared: SharedCalls::default(),
        };
        // CUPTI counts correlation ids from 1 in each process, so merged traces of several ranks
        // share them.
        if index.processes.len() > 1 {
            index.process_of = index.vote();
            let has_owner = |queue: &DeviceQueue| index.process_of.contains_key(&queue.device);
            if !device.queues.iter().all(has_owner) {
                index.shared = SharedCalls::new(&index.calls);
            }
        }
        index
    }

    /// Maps each device to the process with a fitting call (same id, begun before the row) for most
    /// of its rows. First, each process gets its own device, since ranks of one program fit each
    /// other's rows too. Empty if a process is left without a device: then devices are shared.
    fn vote(&mut self) -> FxHashMap<i64, u32> {
        let queues = &self.device.queues;
        let devices: FxHashSet<i64> = queues.iter().map(|queue| queue.device).collect();
        // Not every process can get its own device, whatever the votes are.
        if self.processes.len() > devices.len() {
            return FxHashMap::default();
        }
        let mut votes: FxHashMap<(i64, u32), u32> = FxHashMap::default();
        // An even sample, not the first rows, which may all be of one device.
        let lookups = self.device.rows.len() * self.processes.len();
        for row in (0..self.device.rows.len()).step_by(lookups.div_ceil(MAX_VOTES).max(1)) {
            let Some(id) = self.device.rows.correlation[row].get() else {
                continue;
            };
            let mut process = self.next_process(id, 0);
            while let Some(of) = process {
                if self.latest(row, of).is_some_and(|(begun, ..)| begun) {
                    *votes.entry((self.device_of(row), of)).or_default() += 1;
                }
                process = self.next_process(id, of + 1);
            }
        }
        let mut votes: Vec<_> = votes.into_iter().collect();
        votes.sort_unstable_by_key(|&((device, process), count)| (Reverse(count), device, process));
        let mut process_of: FxHashMap<i64, u32> = FxHashMap::default();
        let mut taken: FxHashSet<u32> = FxHashSet::default();
        for &((device, process), _) in &votes {
            if !process_of.contains_key(&device) && taken.insert(process) {
                process_of.insert(device, process);
            }
        }
        // With a shared device, the vote would give one process the other's rows: then time alone
        // decides.
        if self.processes.len() > process_of.len() {
            return FxHashMap::default();
        }
        // a process may have several devices
        for ((device, process), _) in votes {
            process_of.entry(device).or_insert(process);
        }
        process_of
    }

    /// Returns the latest call of a process with the row's id that began before the row, within
    /// clock tolerance. The first value is false, with the first call, if all began after the row.
    /// The last value is true if other calls have the id.
    fn latest(&mut self, row: usize, process: u32) -> Option<(bool, CallIdx, bool)> {
        let id = self.device.rows.correlation[row].get()?;
        // Rows and calls come in nearly the same order, so a search from the last place takes a
        // step or two.
        let from = seek(&self.calls, self.last, |entry| {
            (entry.id, entry.process) < (id, process)
        });
        self.last = from;
        let calls = &self.calls[from..];
        let calls = &calls[..seek(calls, 0, |entry| (entry.id, entry.process) == (id, process))];
        // CUPTI converts device times to host times, which may put a kernel's start before its
        // launch call.
        let limit = self.device.rows.start[row] + CLOCK_TOLERANCE;
        let starts = &self.device.calls.start;
        match calls.partition_point(|entry| starts[entry.call.index()] <= limit) {
            0 => calls
                .first()
                .map(|entry| (false, entry.call, calls.len() > 1)),
            begun => Some((true, calls[begun - 1].call, calls.len() > 1)),
        }
    }

    /// Like `latest`, over all processes. The last value is true if a process has the id twice, or
    /// if several processes have a call that began before the row.
    fn latest_of_any(&mut self, row: usize, id: Correlation) -> Option<(bool, CallIdx, bool)> {
        let limit = self.device.rows.start[row] + CLOCK_TOLERANCE;
        let starts = &self.device.calls.start;
        let (known, calls) = self.shared.with_id(id)?;
        match calls.partition_point(|call| starts[call.index()] <= limit) {
            0 => Some((false, known.latest_first, known.repeats)),
            begun => Some((true, calls[begun - 1], known.repeats || begun > 1)),
        }
    }

    /// Returns the first process from number `from` on with a call of this id: of many processes,
    /// few have one.
    fn next_process(&self, id: Correlation, from: u32) -> Option<u32> {
        let at = seek(&self.calls, self.last, |entry| {
            (entry.id, entry.process) < (id, from)
        });
        let entry = self.calls.get(at)?;
        (entry.id == id).then_some(entry.process)
    }

    fn device_of(&self, row: usize) -> i64 {
        self.device.queues[self.device.rows.queue[row].index()].device
    }

    /// Returns the call that launched `row`, or the reason there is none. A row never gets a call
    /// of a process that its device does not belong to.
    fn find(&mut self, row: usize, anomalies: &mut Anomalies) -> (CallIdx, NoLaunch) {
        let Some(id) = self.device.rows.correlation[row].get() else {
            return (CallIdx::NONE, NoLaunch::NoCorrelation);
        };
        // Most traces have one process, and need no vote.
        let own = match self.processes[..] {
            [only] => Some(only),
            _ => self.process_of.get(&self.device_of(row)).copied(),
        };
        let fitting = match own {
            Some(process) => self.latest(row, process),
            None => self.latest_of_any(row, id),
        };
        if fitting.is_some_and(|(.., is_ambiguous)| is_ambiguous) {
            anomalies.note(AnomalyKind::DuplicateCorrelation, || {
                format!("correlation {}", id.0)
            });
        }
        match fitting {
            Some((true, call, _)) => (call, NoLaunch::Launched),
            Some((false, call, _)) => {
                let called = self.device.calls.start[call.index()];
                (call, launch_state(called, self.device.rows.start[row]))
            }
            None => (
                CallIdx::NONE,
                self.why_none(id, self.device.rows.start[row]),
            ),
        }
    }

    /// Returns the reason no call has this id. Ids grow: a row with an id below all recorded ones
    /// was launched before recording began.
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

#[cfg(test)]
mod tests {
    use super::communicates_by_name;

    #[test]
    fn kernels_of_all_libraries_communicate() {
        for (kernel, communicates) in [
            (
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
                true,
            ),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", true),
            (
                "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
                true,
            ),
            (
                "void rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)",
                true,
            ),
            ("mscclKernel_Sum_half_SIMPLE", true),
            ("void mscclpp::allreduce8Kernel<__half>", true),
            (
                "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>",
                true,
            ),
            ("void aiter::cross_device_reduce_2stage<bf16, 8>", true),
            ("void c10d::symm_mem::two_shot_all_reduce_kernel<4>", true),
            ("void at::native::reduce_kernel<512, 1>", false),
            ("ampere_sgemm_128x64_nn", false),
        ] {
            assert_eq!(communicates_by_name(kernel), communicates, "{kernel}");
        }
    }
}
