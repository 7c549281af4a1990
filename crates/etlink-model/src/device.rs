//! The device trace, as written by Kineto.
//!
//! Rows are sorted by kind of work into four tables: CPU ops (including user annotations), runtime
//! and driver calls, device rows (kernels, copies, memsets), and synchronisation rows. Each table
//! is in order of start time, longer first at equal starts, then file order.

pub(crate) mod assembler;
pub(crate) mod details;
pub(crate) mod keep_events;
pub(crate) mod recorder;
pub(crate) mod retime;
pub(crate) mod row_sanity;
mod time_order;

use crate::UnixNs;
use crate::columns::columns;
use crate::{
    Anomalies, CollectiveRecords, Correlation, DurationNs, GlobalRank, MarkedStep, NameId, Names,
    ProcessGroup, QueueIdx, RecordedDetails, RfId, RowIdx, RowSanity, SlicedStep, ThreadIdx,
    TimeNs, TraceRecorder,
};
use borsh::{BorshDeserialize, BorshSerialize};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A process or thread id as Kineto writes it: a number, rarely a string.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize,
)]
pub enum TrackLabel {
    /// A number, quoted or not.
    Int(i64),
    /// Any other string.
    Text(NameId),
}

/// A host thread.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize,
)]
pub struct HostThread {
    /// Process id.
    pub pid: TrackLabel,
    /// OS thread id.
    pub tid: TrackLabel,
}

/// A queue that runs device work in order, such as a stream.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize,
)]
pub struct DeviceQueue {
    /// Device number (Kineto `device`, else the row's pid).
    pub device: i64,
    /// CUDA context; 0 = none.
    pub context: i64,
    /// Stream number (Kineto `stream`, else the row's tid).
    pub stream: i64,
}

impl DeviceQueue {
    /// Returns a stream of device 0, context 1: the usual place of kernels in a process with one
    /// GPU.
    pub fn stream(stream: i64) -> Self {
        DeviceQueue {
            device: 0,
            context: 1,
            stream,
        }
    }
}

columns! {
    /// CPU ops and user annotations.
    table CpuOps;
    /// One `cpu_op` or `user_annotation`.
    row CpuOp {
        /// Op name (`name`).
        name: NameId,
        /// Host thread.
        thread: ThreadIdx,
        /// Start (`ts`).
        start: TimeNs,
        /// Duration (`dur`).
        duration: DurationNs,
        /// `Record function id`.
        rf_id: RfId,
        /// `External id`; -1 = none. Not safe as a join key: old traces mix two number spaces.
        external_id: i64,
        /// `Sequence number`; -1 = none.
        seq_id: i64,
        /// `Fwd thread id`, in the host trace's thread numbers; 0 = none.
        fwd_thread: u32,
        /// True if the category is `user_annotation`.
        annotation: bool,
        /// True if the end was not recorded (`finished`: false): the op lasts until the recording
        /// ends.
        unfinished: bool,
        /// `Input Dims`, as list text.
        shapes: NameId,
        /// `Input type`, as list text.
        types: NameId,
        /// `Input Strides`, as list text; from PyTorch 2.6 on.
        strides: NameId,
        /// `Concrete Inputs`: scalars and lists of numbers, list text.
        values: NameId,
        /// Row of [`DeviceTrace::collectives`]; `u32::MAX` = none.
        collective: u32,
    }
}

columns! {
    /// Runtime and driver calls.
    table RuntimeCalls;
    /// One `cuda_runtime` or `cuda_driver` call, or its counterpart for HIP, XPU, MTIA and others.
    row RuntimeCall {
        /// Call name (`name`).
        name: NameId,
        /// Host thread.
        thread: ThreadIdx,
        /// Start (`ts`).
        start: TimeNs,
        /// Duration (`dur`).
        duration: DurationNs,
        /// `correlation`, shared with the rows that the call launches.
        correlation: Correlation,
        /// `External id`; -1 = none.
        external_id: i64,
        /// Name of the launched kernel (`kernel`): HIP calls have it, CUDA calls do not.
        kernel: NameId,
    }
}

/// Kind of work of a device row.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    BorshSerialize,
    BorshDeserialize,
)]
pub enum RowKind {
    /// A kernel, or a device's own kind of work (`mtia_ccp_events`, `hpu_op`).
    #[default]
    Kernel,
    /// A copy (`gpu_memcpy`).
    Memcpy,
    /// A memset (`gpu_memset`).
    Memset,
    /// A CUDA graph node without device work: an event that it records (`graph_event_node`), or a
    /// host function that its stream waits for (`graph_host_node`).
    GraphNode,
}

columns! {
    /// Device rows: kernels, copies, memsets.
    table DeviceRows;
    /// One piece of work on a device.
    row DeviceRow {
        /// Kind of work.
        kind: RowKind,
        /// Category (`cat`), as written.
        category: NameId,
        /// Row name (`name`).
        name: NameId,
        /// Device, context and stream.
        queue: QueueIdx,
        /// Start (`ts`).
        start: TimeNs,
        /// Duration (`dur`).
        duration: DurationNs,
        /// `correlation`, shared with the launch call.
        correlation: Correlation,
        /// `External id`; -1 = none.
        external_id: i64,
        /// Bytes of a copy or memset (`bytes`).
        bytes: u64,
        /// `memory bandwidth (GB/s)` of a copy or memset as written; negative = none.
        gb_per_s: f64,
        /// Blocks in x, y, z (`grid`), as passed to the launch call; some HIP calls pass threads.
        grid: [u32; 3],
        /// Threads per block in x, y, z (`block`).
        block: [u32; 3],
        /// `graph node id`; 0 = not part of a graph.
        graph_node: u64,
        /// Row of [`DeviceTrace::collectives`]; `u32::MAX` = none.
        collective: u32,
    }
}

columns! {
    /// Recorded dependencies between the nodes of a CUDA graph, within one launch.
    table GraphDependencies;
    /// One recorded dependency.
    row GraphDependency {
        /// The row that depends on `cause`.
        effect: RowIdx,
        /// Row that must end before `effect` may start.
        cause: RowIdx,
    }
}

columns! {
    /// Producers of op inputs, if a recorder names both ops.
    table OpProducers;
    /// One input of an op and its producer.
    row OpProducer {
        /// Op that reads the input.
        reader: RfId,
        /// Op that produced the input.
        producer: RfId,
    }
}

columns! {
    /// Synchronisation rows.
    table SyncRows;
    /// One `cuda_sync` or `xpu_sync` row, written if `enable_cuda_sync_events` was on.
    row SyncRow {
        /// Kind of wait (`name`): `Stream Wait Event`, `Stream Sync`, `Context Sync`, `Event Sync`.
        name: NameId,
        /// Queue that waits; the stream of a host wait is -1.
        queue: QueueIdx,
        /// True if that -1 is written as 4294967295 (Kineto of 2023).
        unsigned: bool,
        /// Start (`ts`).
        start: TimeNs,
        /// Duration (`dur`).
        duration: DurationNs,
        /// `correlation` of the synchronising call.
        correlation: Correlation,
        /// Stream waited for (`wait_on_stream`); -1 = none.
        wait_stream: i64,
        /// Correlation of the event's record call (`wait_on_cuda_event_record_corr_id`).
        wait_record: Correlation,
        /// Event waited for (`wait_on_cuda_event_id`); -1 = none.
        wait_event: i64,
    }
}

columns! {
    /// Waits of host threads, as `etlink record` records them.
    table ThreadWaits;
    /// One `etlink_wait`: a call in which a thread waited for another, or could have.
    row ThreadWait {
        /// Name of the call (`name`).
        name: NameId,
        /// Host thread.
        thread: ThreadIdx,
        /// Start (`ts`).
        start: TimeNs,
        /// Duration (`dur`); 0 for a call that does not wait but ends the waits of others.
        duration: DurationNs,
        /// Number of the event that ended the wait (`after`); 0 = unknown.
        after: u64,
        /// Number of the event that lets others continue when the call ends (`frees`); 0 = nothing.
        frees: u64,
    }
}

/// Kind of an auxiliary event.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    BorshSerialize,
    BorshDeserialize,
)]
pub enum AuxiliaryKind {
    /// A frame of the Python stack (`python_function`).
    #[default]
    Python,
    /// Time used by the profiler itself (`overhead`).
    Overhead,
    /// A user annotation on a device (`gpu_user_annotation`), from the first to the last row that
    /// the annotation launched to a stream.
    DeviceAnnotation,
}

columns! {
    /// Auxiliary events.
    table AuxiliaryEvents;
    /// One event that no graph needs.
    row AuxiliaryEvent {
        /// Kind of event.
        kind: AuxiliaryKind,
        /// Event name (`name`).
        name: NameId,
        /// Host thread of a Python frame, else none.
        thread: ThreadIdx,
        /// Start (`ts`).
        start: TimeNs,
        /// Duration (`dur`).
        duration: DurationNs,
    }
}

columns! {
    /// CPU ops with a stream: launches of Triton kernels by compiled code.
    table StreamOps;
    /// One op with a stream; [`DeviceTrace::ops`] contains it too.
    row StreamOp {
        /// Op name (`name`).
        name: NameId,
        /// Stream number (`stream`).
        stream: i64,
        /// Start (`ts`).
        start: TimeNs,
        /// Duration (`dur`).
        duration: DurationNs,
    }
}

columns! {
    /// Counters of CUPTI's range profiler.
    table CounterRanges;
    /// One `cuda_profiler_range`: a kernel that ran alone, with its counters.
    row CounterRange {
        /// Name of the kernel (`name`).
        name: NameId,
        /// Start (`ts`).
        start: TimeNs,
        /// Duration (`dur`).
        duration: DurationNs,
        /// Counters, one line each: name, space, value as written.
        values: NameId,
    }
}

columns! {
    /// Allocations and frees.
    table MemoryRows;
    /// One `[memory]` or `[OutOfMemory]` event, written if `profile_memory` was on.
    row MemoryRow {
        /// Event name (`name`); `[OutOfMemory]` is a failed allocation.
        name: NameId,
        /// Time of the event (`ts`).
        time: TimeNs,
        /// `Device Type` as `c10::DeviceType` numbers them: 0 CPU, 1 CUDA, 6 HIP, …
        device_type: i32,
        /// `Device Id`; -1 for the CPU.
        device: i32,
        /// Bytes allocated, or freed if negative (`Bytes`).
        bytes: i64,
        /// Bytes allocated in total after the event (`Total Allocated`); 0 if the allocator does
        /// not report it (CPU).
        allocated: u64,
        /// Bytes reserved in total after the event (`Total Reserved`).
        reserved: u64,
        /// Address of the block (`Addr`); 0 if not written.
        address: u64,
    }
}

/// Document fields around the events.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize, Deserialize,
)]
pub struct DeviceHeader {
    /// Recorder of the trace.
    pub recorder: TraceRecorder,
    /// Origin of trace time (`baseTimeNanoseconds`); 0 if times are Unix times.
    pub base_ns: UnixNs,
    /// Rank in the job (`distributedInfo.rank`).
    pub rank: Option<GlobalRank>,
    /// Number of ranks in the job (`distributedInfo.world_size`).
    pub world_size: Option<i64>,
    /// Communication backend (`distributedInfo.backend`).
    pub backend: String,
    /// Process groups (`distributedInfo.pg_config`).
    pub groups: Vec<ProcessGroup>,
    /// Id of the trace (`trace_id`).
    pub trace_id: String,
    /// Machine that recorded the trace (`host_name`); empty if not written.
    pub host_name: String,
    /// Names of the devices (`deviceProperties`).
    pub devices: Vec<String>,
    /// Errors and warnings of the recorder about itself.
    pub diagnoses: Vec<String>,
}

/// Number of recorder messages kept: a recorder may write one per event.
const MOST_DIAGNOSES: usize = 64;

/// Length to which a recorder message is truncated, in characters: the longest line of a report.
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

    /// Returns the name of a device. ROCm numbers devices differently in rows and in properties, so
    /// if all devices share one name, any number has that name.
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

    /// Converts an instant of this trace to its machine's clock.
    pub fn unix_time(&self, time: TimeNs) -> UnixNs {
        self.base_ns.shifted(time.0)
    }

    /// Converts an instant of the machine's clock to trace time.
    pub fn trace_time(&self, time: UnixNs) -> TimeNs {
        TimeNs(time.since(self.base_ns))
    }
}

/// A Kineto trace.
#[derive(Clone, Debug, Default, BorshSerialize, BorshDeserialize)]
pub struct DeviceTrace {
    /// Document fields around the events.
    pub header: DeviceHeader,
    /// Interned strings.
    pub names: Names,
    /// Host threads, in order of first use.
    pub threads: Vec<HostThread>,
    /// Names of processes in the trace (`process_name`).
    pub process_names: IndexMap<TrackLabel, NameId, FxBuildHasher>,
    /// Names of threads in the trace (`thread_name`).
    pub thread_names: IndexMap<HostThread, NameId, FxBuildHasher>,
    /// Queues, in order of first use.
    pub queues: Vec<DeviceQueue>,
    /// Queues whose rows state their stream; for the others, the stream is the rows' `tid`.
    pub stated_queues: BTreeSet<QueueIdx>,
    /// CPU ops by start.
    pub ops: CpuOps,
    /// Runtime calls by start.
    pub calls: RuntimeCalls,
    /// Device rows by start.
    pub rows: DeviceRows,
    /// Synchronisation rows by start.
    pub syncs: SyncRows,
    /// Dependencies inside CUDA graphs, by effect. Only PyTorch's own CUPTI collector (2.15,
    /// `enable_graph_dependencies`) writes them.
    pub graph_dependencies: GraphDependencies,
    /// Inputs produced by an op of another thread, by start of the reader. Only Nsight Systems has
    /// them, from `emit_nvtx`.
    pub op_producers: OpProducers,
    /// Waits of host threads by start.
    pub waits: ThreadWaits,
    /// Events that no graph needs, by start; empty unless the reader was asked for them.
    pub auxiliary: AuxiliaryEvents,
    /// CPU ops with a stream, by start.
    pub stream_ops: StreamOps,
    /// Names that the program gave to CUDA graph nodes during capture, by launch and node. Only
    /// PyTorch's own CUPTI collector (2.15) writes them.
    pub node_annotations: IndexMap<(Correlation, u64), NameId, FxBuildHasher>,
    /// Allocations and frees by time; empty unless the reader was asked for them.
    pub memory: MemoryRows,
    /// Counters of CUPTI's range profiler, by start.
    pub counter_ranges: CounterRanges,
    /// Data that the tables leave out; `None` unless the reader was asked for it.
    #[borsh(skip)]
    pub details: Option<Box<RecordedDetails>>,
    /// Multiprocessors per device, from `deviceProperties` (`numSms`) or a kernel's `blocks per
    /// SM`.
    pub multiprocessors: IndexMap<i64, u32, FxBuildHasher>,
    /// Communication arguments of ops and rows.
    pub collectives: CollectiveRecords,
    /// Ranges that the user marked as steps, in order, not nested; `None` if the user marked none
    /// and steps are found by name.
    pub marked_steps: Option<Vec<MarkedStep>>,
    /// Whole steps of a slice, in order; `None` if the trace is not a slice.
    #[borsh(skip)]
    pub sliced_steps: Option<Vec<SlicedStep>>,
    /// True if any op has the key `Record function id` (PyTorch 2.4 and later), even with value 0.
    pub has_rf_ids: bool,
    /// Number of events by `ph cat`, including those that no table keeps.
    pub events: IndexMap<String, u64, FxBuildHasher>,
    /// Damage found while reading.
    pub anomalies: Anomalies,
    /// Gaps in the device rows; `None` until they are checked.
    pub row_sanity: Option<RowSanity>,
    /// Start of the file's first event, if a table keeps that event.
    pub first_start: Option<TimeNs>,
    /// Start of the recording, if the trace states it; work may begin later.
    pub recorded_from: Option<TimeNs>,
    /// Uncompressed size of the trace, in bytes.
    pub bytes: u64,
}

impl DeviceTrace {
    /// Returns true if there is no op, no runtime call and no device row: at most annotations.
    pub fn has_no_work(&self) -> bool {
        self.rows.is_empty() && self.calls.is_empty() && self.ops.annotation.iter().all(|own| *own)
    }

    /// Returns the name that the program gave to a row's CUDA graph node; empty if none.
    pub fn row_annotation(&self, row: RowIdx) -> &str {
        // few traces have any, and this is called for every row
        if self.node_annotations.is_empty() {
            return "";
        }
        let (rows, at) = (&self.rows, row.index());
        let node = rows.correlation.get(at).zip(rows.graph_node.get(at));
        let key = node.map(|(launch, node)| (*launch, *node));
        let name = key.and_then(|key| self.node_annotations.get(&key));
        name.map_or("", |name| self.names.get(*name))
    }

    /// Returns the first start and the last end over all tables; `None` if no row has a time.
    pub fn window(&self) -> Option<(TimeNs, TimeNs)> {
        // `stream_ops` are skipped: each of them is also one of the ops.
        let tables = [
            (&self.ops.start, &self.ops.duration),
            (&self.calls.start, &self.calls.duration),
            (&self.rows.start, &self.rows.duration),
        ];
        let spans = tables.into_iter().flat_map(|(starts, durations)| {
            starts.iter().zip(durations).map(|(&s, &d)| (s, s + d))
        });
        // Waits and auxiliary events are not work, so they do not widen the window.
        spans.reduce(|(first, last), (start, end)| (first.min(start), last.max(end)))
    }

    /// Returns the first start over all events. It may precede the window: a Python frame can begin
    /// before the recording.
    pub fn first_start_of_all(&self) -> Option<TimeNs> {
        let others = self.details.as_ref().map(|details| &details.others.start);
        let tables = [&self.syncs.start, &self.auxiliary.start, &self.memory.time];
        let tables = tables.into_iter().chain(others);
        let firsts = tables.filter_map(|starts| starts.first().copied());
        let window = self.window().map(|(start, _)| start);
        firsts.chain(window).min()
    }

    /// Records the multiprocessor count of a device, unless it is already known.
    pub fn note_multiprocessors(&mut self, device: i64, count: u32) {
        // The first figure stays. Kernels are read before the header, so their figure wins over
        // `numSms`.
        self.multiprocessors.entry(device).or_insert(count);
    }

    /// Returns the multiprocessor count of a device. ROCm numbers devices differently in rows and
    /// in properties, so if all known devices have the same count, any number has it.
    pub fn multiprocessors(&self, device: i64) -> Option<u32> {
        if let Some(count) = self.multiprocessors.get(&device) {
            return Some(*count);
        }
        let (_, count) = self.multiprocessors.first()?;
        let are_alike = self.multiprocessors.values().all(|other| other == count);
        are_alike.then_some(*count)
    }

    /// Returns a thread or process label as text.
    pub fn label(&self, label: TrackLabel) -> String {
        match label {
            TrackLabel::Int(number) => number.to_string(),
            TrackLabel::Text(name) => self.names.get(name).to_owned(),
        }
    }
}
