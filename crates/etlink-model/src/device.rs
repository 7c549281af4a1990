//! The device trace: what Kineto wrote.
//!
//! Rows are sorted by kind of work into four tables: CPU ops (also user annotations),
//! runtime and driver calls, device rows (kernels, copies, memsets), and synchronisation
//! rows. Each table is in order of start time, longer first at equal starts, then file order.

pub(crate) mod assembler;
pub(crate) mod details;
pub(crate) mod keep_events;
pub(crate) mod recorder;
pub(crate) mod row_sanity;
mod time_order;

use crate::UnixNs;
use crate::columns::columns;
use crate::{
    Anomalies, CollectiveRecords, Correlation, DurationNs, GlobalRank, MarkedStep, NameId, Names,
    ProcessGroup, QueueIdx, RecordedDetails, RfId, RowIdx, RowSanity, SlicedStep, ThreadIdx,
    TimeNs, TraceRecorder,
};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A process or thread id as Kineto writes it: a number, rarely a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TrackLabel {
    /// A number, also when it was quoted.
    Int(i64),
    /// Any other string.
    Text(NameId),
}

/// A host thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostThread {
    /// Process id.
    pub pid: TrackLabel,
    /// OS thread id.
    pub tid: TrackLabel,
}

/// A queue that runs device work in order: a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceQueue {
    /// Device number (Kineto `device`, else the row's pid).
    pub device: i64,
    /// CUDA context, 0 where there is none.
    pub context: i64,
    /// Stream (Kineto `stream`, else the row's tid).
    pub stream: i64,
}

impl DeviceQueue {
    /// A stream of device 0, context 1: where a process with one GPU runs its kernels.
    pub fn stream(stream: i64) -> Self {
        DeviceQueue {
            device: 0,
            context: 1,
            stream,
        }
    }
}

columns! {
    /// CPU ops.
    table CpuOps;
    /// `cpu_op` or `user_annotation`.
    row CpuOp {
        /// `name`.
        name: NameId,
        /// Host thread.
        thread: ThreadIdx,
        /// `ts`.
        start: TimeNs,
        /// `dur`.
        duration: DurationNs,
        /// `Record function id`.
        rf_id: RfId,
        /// `External id`, -1 = none. Joins nothing safely (old traces mix two number spaces).
        external_id: i64,
        /// `Sequence number`, -1 = none.
        seq_id: i64,
        /// `Fwd thread id` in the host trace's thread numbers, 0 = none.
        fwd_thread: u32,
        /// Category `user_annotation`.
        annotation: bool,
        /// Its end was not recorded (`finished`: false): it lasts until the recording does.
        unfinished: bool,
        /// `Input Dims`, list text.
        shapes: NameId,
        /// `Input type`, list text.
        types: NameId,
        /// `Concrete Inputs`, scalars and lists of numbers: list text.
        values: NameId,
        /// Row of [`DeviceTrace::collectives`], `u32::MAX` = none.
        collective: u32,
    }
}

columns! {
    /// Runtime and driver calls.
    table RuntimeCalls;
    /// `cuda_runtime`, `cuda_driver`, and the HIP, XPU, MTIA and other twins.
    row RuntimeCall {
        /// `name`.
        name: NameId,
        /// Host thread.
        thread: ThreadIdx,
        /// `ts`.
        start: TimeNs,
        /// `dur`.
        duration: DurationNs,
        /// `correlation`.
        correlation: Correlation,
        /// `External id`, -1 = none.
        external_id: i64,
        /// `kernel`, the name of what it launches: HIP calls have it, CUDA calls do not.
        kernel: NameId,
    }
}

/// What a device row does.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum RowKind {
    /// A kernel, or a device's own kind of work (`mtia_ccp_events`, `hpu_op`).
    #[default]
    Kernel,
    /// `gpu_memcpy`.
    Memcpy,
    /// `gpu_memset`.
    Memset,
    /// A node of a CUDA graph that is no work of the device: an event that it records
    /// (`graph_event_node`), or a function of the host that its stream waits for
    /// (`graph_host_node`).
    GraphNode,
}

columns! {
    /// Device rows.
    table DeviceRows;
    /// Work on a device.
    row DeviceRow {
        /// Kernel, copy or memset.
        kind: RowKind,
        /// `cat`, as written.
        category: NameId,
        /// `name`.
        name: NameId,
        /// Device, context and stream.
        queue: QueueIdx,
        /// `ts`.
        start: TimeNs,
        /// `dur`.
        duration: DurationNs,
        /// `correlation`.
        correlation: Correlation,
        /// `External id`, -1 = none.
        external_id: i64,
        /// `bytes` of a copy or memset.
        bytes: u64,
        /// `memory bandwidth (GB/s)` of a copy or memset as written; negative = none.
        gb_per_s: f64,
        /// `grid`, blocks in x, y, z; as the launch call was given it, so of some HIP calls
        /// threads.
        grid: [u32; 3],
        /// `block`, threads in x, y, z.
        block: [u32; 3],
        /// `graph node id`, 0 = not part of a graph.
        graph_node: u64,
        /// Row of [`DeviceTrace::collectives`], `u32::MAX` = none.
        collective: u32,
    }
}

columns! {
    /// Recorded dependencies between the nodes of a CUDA graph, within one launch.
    table GraphDependencies;
    /// Such a dependency.
    row GraphDependency {
        /// The row that depends on `cause`.
        effect: RowIdx,
        /// Where it has ended, `effect` may start.
        cause: RowIdx,
    }
}

columns! {
    /// Which op made an input of another op, where a recorder names both ops.
    table OpProducers;
    /// An input of an op.
    row OpProducer {
        /// The op that reads it.
        reader: RfId,
        /// The op that made it.
        producer: RfId,
    }
}

columns! {
    /// Synchronisation rows.
    table SyncRows;
    /// `cuda_sync`, `xpu_sync`: written when `enable_cuda_sync_events` was on.
    row SyncRow {
        /// `name`: `Stream Wait Event`, `Stream Sync`, `Context Sync`, `Event Sync`.
        name: NameId,
        /// Stream that waits; its stream is -1 for a host wait.
        queue: QueueIdx,
        /// That -1 is written as 4294967295 (Kineto of 2023).
        unsigned: bool,
        /// `ts`.
        start: TimeNs,
        /// `dur`.
        duration: DurationNs,
        /// `correlation` of the synchronising call.
        correlation: Correlation,
        /// `wait_on_stream`, -1 = none.
        wait_stream: i64,
        /// `wait_on_cuda_event_record_corr_id`.
        wait_record: Correlation,
        /// `wait_on_cuda_event_id`, -1 = none.
        wait_event: i64,
    }
}

columns! {
    /// Waits of host threads, as `etlink record` records them.
    table ThreadWaits;
    /// `etlink_wait`: a call in which a thread waited for another, or could have.
    row ThreadWait {
        /// `name`: what was called.
        name: NameId,
        /// Host thread.
        thread: ThreadIdx,
        /// `ts`.
        start: TimeNs,
        /// `dur`; 0 of a call that does not wait and ends the wait of others.
        duration: DurationNs,
        /// `after`, the number of what ended the wait; 0 = not known.
        after: u64,
        /// `frees`, the number of what its end lets go on; 0 = nothing.
        frees: u64,
    }
}

/// What an auxiliary event is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum AuxiliaryKind {
    /// `python_function`: a frame of the Python stack.
    #[default]
    Python,
    /// `overhead`: what the profiler itself took.
    Overhead,
    /// `gpu_user_annotation`: a user annotation from the first to the last row that it launched to
    /// a stream.
    DeviceAnnotation,
}

columns! {
    /// Auxiliary events.
    table AuxiliaryEvents;
    /// A row that no graph needs.
    row AuxiliaryEvent {
        /// What it is.
        kind: AuxiliaryKind,
        /// `name`.
        name: NameId,
        /// Host thread of a frame, else none.
        thread: ThreadIdx,
        /// `ts`.
        start: TimeNs,
        /// `dur`.
        duration: DurationNs,
    }
}

columns! {
    /// CPU ops that bear a stream: launches of Triton kernels by compiled code.
    table StreamOps;
    /// Such an op; it is in [`DeviceTrace::ops`] too.
    row StreamOp {
        /// `name`.
        name: NameId,
        /// `stream`.
        stream: i64,
        /// `ts`.
        start: TimeNs,
        /// `dur`.
        duration: DurationNs,
    }
}

columns! {
    /// What CUPTI's range profiler counted.
    table CounterRanges;
    /// `cuda_profiler_range`: a kernel, run alone, with what was counted of it.
    row CounterRange {
        /// `name`, that of the kernel.
        name: NameId,
        /// `ts`.
        start: TimeNs,
        /// `dur`.
        duration: DurationNs,
        /// A line for each counter: its name, a blank, its value as written.
        values: NameId,
    }
}

columns! {
    /// Allocations and frees.
    table MemoryRows;
    /// `[memory]` or `[OutOfMemory]`: written when `profile_memory` was on.
    row MemoryRow {
        /// `name`: `[OutOfMemory]` is of memory that could not be had.
        name: NameId,
        /// `ts`.
        time: TimeNs,
        /// `Device Type` as `c10::DeviceType` numbers them: 0 CPU, 1 CUDA, 6 HIP, …
        device_type: i32,
        /// `Device Id`, -1 for the CPU.
        device: i32,
        /// `Bytes`: allocated, or, negative, freed.
        bytes: i64,
        /// `Total Allocated` after that, bytes; 0 where the allocator does not say it (CPU).
        allocated: u64,
        /// `Total Reserved` after that, bytes.
        reserved: u64,
    }
}

/// What stands around the events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceHeader {
    /// Who recorded it.
    pub recorder: TraceRecorder,
    /// `baseTimeNanoseconds`: the origin of trace time; 0 where times are Unix times.
    pub base_ns: UnixNs,
    /// `distributedInfo.rank`.
    pub rank: Option<GlobalRank>,
    /// `distributedInfo.world_size`.
    pub world_size: Option<i64>,
    /// `distributedInfo.backend`.
    pub backend: String,
    /// `distributedInfo.pg_config`.
    pub groups: Vec<ProcessGroup>,
    /// `trace_id`.
    pub trace_id: String,
    /// `host_name`: the machine on which it was recorded; empty where that is not written.
    pub host_name: String,
    /// Names of the devices (`deviceProperties`).
    pub devices: Vec<String>,
    /// Errors and warnings that the recorder wrote about itself.
    pub diagnoses: Vec<String>,
}

/// More messages of a recorder are not kept: it may write one for each event.
const MOST_DIAGNOSES: usize = 64;

/// A longer message is cut: no line of a report is longer.
const MOST_DIAGNOSIS_CHARS: usize = 300;

impl DeviceHeader {
    /// Keeps an error or a warning of the recorder.
    pub fn note_diagnosis(&mut self, text: &str) {
        if self.diagnoses.len() < MOST_DIAGNOSES {
            let words: Vec<&str> = text.split_whitespace().collect();
            let line = words.join(" ").chars().take(MOST_DIAGNOSIS_CHARS).collect();
            self.diagnoses.push(line);
        }
    }

    /// What a device is called. ROCm numbers its devices otherwise in rows than in properties:
    /// where all have one name, so has this one.
    pub fn device_name(&self, device: i64) -> Option<&str> {
        let (first, others) = self.devices.split_first()?;
        let name = if others.iter().all(|other| other == first) {
            Some(first)
        } else {
            let place = usize::try_from(device).ok()?;
            self.devices.get(place)
        };
        name.map(String::as_str).filter(|name| !name.is_empty())
    }

    /// An instant of this trace by its machine's clock.
    pub fn unix_time(&self, time: TimeNs) -> UnixNs {
        self.base_ns.shifted(time.0)
    }

    /// An instant by the machine's clock as the trace's own rows have it.
    pub fn trace_time(&self, time: UnixNs) -> TimeNs {
        TimeNs(time.since(self.base_ns))
    }
}

/// A Kineto trace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceTrace {
    /// What stands around the events.
    pub header: DeviceHeader,
    /// Strings.
    pub names: Names,
    /// Host threads, in order of first use.
    pub threads: Vec<HostThread>,
    /// What the trace calls its processes (`process_name`), each once.
    pub process_names: IndexMap<TrackLabel, NameId, FxBuildHasher>,
    /// What it calls its threads (`thread_name`), each once.
    pub thread_names: IndexMap<HostThread, NameId, FxBuildHasher>,
    /// Queues, in order of first use.
    pub queues: Vec<DeviceQueue>,
    /// Those whose rows say their stream; of the others it is the rows' `tid`.
    pub stated_queues: BTreeSet<QueueIdx>,
    /// CPU ops by start.
    pub ops: CpuOps,
    /// Runtime calls by start.
    pub calls: RuntimeCalls,
    /// Device rows by start.
    pub rows: DeviceRows,
    /// Synchronisation rows by start.
    pub syncs: SyncRows,
    /// Dependencies inside CUDA graphs, by effect; only PyTorch's own CUPTI collector (2.15,
    /// `enable_graph_dependencies`) writes them.
    pub graph_dependencies: GraphDependencies,
    /// Inputs that an op of another thread made, by start of the reader; only Nsight Systems has
    /// them, of `emit_nvtx`.
    pub op_producers: OpProducers,
    /// Waits of host threads by start.
    pub waits: ThreadWaits,
    /// Rows that no graph needs, by start; empty unless the reader was asked for them.
    pub auxiliary: AuxiliaryEvents,
    /// CPU ops that bear a stream, by start.
    pub stream_ops: StreamOps,
    /// What the program called a node of a CUDA graph when it captured it, by the launch and the
    /// node; only PyTorch's own CUPTI collector (2.15) writes it.
    pub node_annotations: IndexMap<(Correlation, u64), NameId, FxBuildHasher>,
    /// Allocations and frees by time; empty unless the reader was asked for them.
    pub memory: MemoryRows,
    /// What CUPTI's range profiler counted, by start.
    pub counter_ranges: CounterRanges,
    /// What the tables leave out; `None` unless the reader was asked for it.
    #[serde(skip)]
    pub details: Option<Box<RecordedDetails>>,
    /// Multiprocessors per device, as `deviceProperties` (`numSms`) or `blocks per SM` of a kernel
    /// say.
    pub multiprocessors: IndexMap<i64, u32, FxBuildHasher>,
    /// Communication arguments of ops and rows.
    pub collectives: CollectiveRecords,
    /// The ranges that the user takes for steps, in order, none inside another; `None`: nobody said
    /// what a step is, and names tell.
    pub marked_steps: Option<Vec<MarkedStep>>,
    /// The whole steps of a slice, in order; `None`: the trace is whole.
    #[serde(skip)]
    pub sliced_steps: Option<Vec<SlicedStep>>,
    /// Whether any op has the key `Record function id` (PyTorch 2.4 on), be it 0.
    pub has_rf_ids: bool,
    /// Events by `ph cat`, all of them, also those that no table keeps.
    pub events: IndexMap<String, u64, FxBuildHasher>,
    /// What was wrong.
    #[serde(with = "crate::anomaly::stored")]
    pub anomalies: Anomalies,
    /// What the device rows lack; `None`: nobody has looked yet.
    pub row_sanity: Option<RowSanity>,
    /// Start of the file's first event, if a table keeps it.
    pub first_start: Option<TimeNs>,
    /// Size of the trace, unpacked, bytes.
    pub bytes: u64,
}

impl DeviceTrace {
    /// Returns whether it has no op, no runtime call and no device row: at most annotations.
    pub fn has_no_work(&self) -> bool {
        self.rows.is_empty() && self.calls.is_empty() && self.ops.annotation.iter().all(|own| *own)
    }

    /// What the program called a row that is a node of a CUDA graph; empty where it did not.
    pub fn row_annotation(&self, row: RowIdx) -> &str {
        // few traces have any, and all rows are asked for
        if self.node_annotations.is_empty() {
            return "";
        }
        let (rows, at) = (&self.rows, row.index());
        let node = rows.correlation.get(at).zip(rows.graph_node.get(at));
        let key = node.map(|(launch, node)| (*launch, *node));
        let name = key.and_then(|key| self.node_annotations.get(&key));
        name.map_or("", |name| self.names.get(*name))
    }

    /// First start and last end over all tables, `None` for a trace without timed rows.
    pub fn window(&self) -> Option<(TimeNs, TimeNs)> {
        // `stream_ops` need no look: each of them is one of the ops.
        let tables = [
            (&self.ops.start, &self.ops.duration),
            (&self.calls.start, &self.calls.duration),
            (&self.rows.start, &self.rows.duration),
        ];
        let spans = tables.into_iter().flat_map(|(starts, durations)| {
            starts.iter().zip(durations).map(|(&s, &d)| (s, s + d))
        });
        // Waits and auxiliary events are no work: they do not widen the window.
        spans.reduce(|(first, last), (start, end)| (first.min(start), last.max(end)))
    }

    /// The first start over all that the trace has. It may be before the window: a frame of Python
    /// begins before the recording does.
    pub fn first_start_of_all(&self) -> Option<TimeNs> {
        let others = self.details.as_ref().map(|details| &details.others.start);
        let tables = [&self.syncs.start, &self.auxiliary.start, &self.memory.time];
        let tables = tables.into_iter().chain(others);
        let firsts = tables.filter_map(|starts| starts.first().copied());
        let window = self.window().map(|(start, _)| start);
        firsts.chain(window).min()
    }

    /// Keeps how many multiprocessors a device has, unless that is known.
    pub fn note_multiprocessors(&mut self, device: i64, count: u32) {
        // The first figure stays. Kernels are read before the header, so theirs wins over `numSms`.
        self.multiprocessors.entry(device).or_insert(count);
    }

    /// How many multiprocessors a device has. ROCm numbers its devices otherwise in rows than in
    /// properties: where all that are known have as many, so has this one.
    pub fn multiprocessors(&self, device: i64) -> Option<u32> {
        if let Some(count) = self.multiprocessors.get(&device) {
            return Some(*count);
        }
        let (_, count) = self.multiprocessors.first()?;
        let are_alike = self.multiprocessors.values().all(|other| other == count);
        are_alike.then_some(*count)
    }

    /// A thread or process label as text.
    pub fn label(&self, label: TrackLabel) -> String {
        match label {
            TrackLabel::Int(number) => number.to_string(),
            TrackLabel::Text(name) => self.names.get(name).to_owned(),
        }
    }
}
