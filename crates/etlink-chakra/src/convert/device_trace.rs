//! Converts a written graph (`.et`, its JSON, ET+) to a device trace, as far as its nodes allow.
//!
//! Device nodes become rows, runtime nodes become calls (all slices of one call together), and
//! communication nodes keep type, size and group. A written graph has no annotations, sizes of
//! copies, grids, allocations, nor communications that no simulator runs, such as barriers. Only a
//! tree (ET+) has ops and steps as recorded, but it has no calls and does not state a row's launch.

use super::groups::GroupList;
use super::placement::{NodeNumbers, row_kind, runs_on_device};
use super::replay_graph::is_communication;
use crate::finding::FindingKind;
use crate::proto::{CollectiveCommType, NodeType};
use crate::read::{ChakraGraph, CommAttrs};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{
    Anomalies, AnomalyKind, Collective, Correlation, CpuOp, DeviceQueue, DeviceRow, DeviceTrace,
    Diagnostic, DiagnosticCode, DurationNs, GlobalRank, HostThread, NameId, QueueIdx, RuntimeCall,
    ThreadIdx, TimeNs, TrackLabel, UnixNs,
};
use indexmap::{IndexMap, IndexSet};

/// Returns the linked trace of the rows of `file`; `None` if it has neither rows, nor
/// communications of the host, nor, being a tree, ops. Waits of rows follow from the times: the
/// file's edges are used only for the starts of calls. Damage of the file is listed in the
/// anomalies. O(n log n).
///
/// # Errors
/// Fails like [`etlink_link::link`].
pub fn linked_trace(
    file: &ChakraGraph,
    rank: Option<i64>,
    groups: &GroupList,
) -> Result<Option<LinkedTrace>, etlink_link::Error> {
    let mut converter = Converter::new(file, rank, groups);
    for index in 0..file.len() {
        if let Some(start) = file.start_ns[index] {
            converter.add_node(index, TimeNs(start));
        }
    }
    let device = converter.finish();
    if device.rows.is_empty() && device.ops.is_empty() {
        return Ok(None);
    }
    let has_no_device_work = device.rows.is_empty() && device.calls.is_empty();
    let mut trace = etlink_link::link(None, device, LinkOptions::default())?;
    if has_no_device_work {
        // Replaces the note on a device trace without device work.
        trace.report.diagnostics = vec![Diagnostic::new(
            DiagnosticCode::DataMissing,
            NO_DEVICE_NODES,
        )];
    }
    Ok(Some(trace))
}

/// Note on a graph that only has host ops.
const NO_DEVICE_NODES: &str = "the graph has no device nodes and no launching calls: a CPU run, or its \
                               traces have none";

/// Prefix of the names of a host trace's roots.
const ROOT: &str = "[pytorch|profiler|execution_trace|";

/// A device trace under construction.
struct Converter<'f> {
    file: &'f ChakraGraph,
    groups: &'f GroupList,
    numbers: NodeNumbers,
    device: DeviceTrace,
    rows: Vec<DeviceRow>,
    ops: Vec<CpuOp>,
    /// Calls by correlation, thread and name: a call in several slices is several nodes.
    calls: IndexMap<(Correlation, ThreadIdx, NameId), RuntimeCall>,
    threads: IndexSet<HostThread>,
    queues: IndexSet<DeviceQueue>,
}

impl<'f> Converter<'f> {
    fn new(file: &'f ChakraGraph, rank: Option<i64>, groups: &'f GroupList) -> Self {
        let mut device = DeviceTrace {
            bytes: file.bytes,
            anomalies: anomalies(file),
            ..DeviceTrace::default()
        };
        device.header.rank = rank.map(GlobalRank);
        device.header.base_ns = UnixNs(file.base_time_ns().unwrap_or(0));
        device.header.world_size = file.metadata_int("world_size");
        Converter {
            file,
            groups,
            numbers: NodeNumbers::new(file),
            device,
            rows: vec![],
            ops: vec![],
            calls: IndexMap::new(),
            threads: IndexSet::new(),
            queues: IndexSet::new(),
        }
    }

    fn add_node(&mut self, index: usize, start: TimeNs) {
        let file = self.file;
        let kind = file.kind_of(index);
        // During these nodes, nothing is known to run.
        if matches!(
            kind,
            "boundary" | "unexplained_wait" | "latency" | "host_gap"
        ) {
            return;
        }
        let name = self.device.names.intern(file.name_of(index));
        let duration = DurationNs(file.inclusive_ns[index].max(0));
        let correlation = file.correlation[index].map_or(Correlation::NONE, Correlation);
        // A graph for simulators splits ops into slices and steps into gaps, so ranges are lost.
        let is_tree = file.format.is_tree();
        if runs_on_device(file, index, file.place_of(index)) {
            let row = self.device_row(index, name, start, duration, correlation);
            self.rows.push(row);
        } else if is_tree {
            // A root lasts as long as its thread, and does nothing.
            if !file.name_of(index).starts_with(ROOT) {
                let op = self.host_op(index, name, start, duration);
                let node = u32::try_from(index);
                let annotation = node.is_ok_and(|node| file.annotations.contains(&node));
                self.ops.push(CpuOp { annotation, ..op });
            }
        } else if is_communication(file.node_type[index]) {
            let collective = self.collective(index);
            let op = self.host_op(index, name, start, duration);
            self.ops.push(CpuOp { collective, ..op });
        } else if kind == "runtime" && correlation != Correlation::NONE {
            self.add_call(index, name, start, duration, correlation);
        }
    }

    fn finish(mut self) -> DeviceTrace {
        // Tables of a trace are ordered by start, nodes of ET+ files by id.
        self.rows.sort_by_key(|row| row.start);
        self.calls
            .sort_by(|_, call, _, other| call.start.cmp(&other.start));
        self.ops.sort_by_key(|op| op.start);
        let mut device = self.device;
        self.ops.into_iter().for_each(|op| device.ops.push(op));
        self.rows.into_iter().for_each(|row| device.rows.push(row));
        // Calls are built slice by slice, so their starts are known only now.
        let calls = self.calls.into_values();
        calls.for_each(|call| device.calls.push(call));
        device.threads = self.threads.into_iter().collect();
        device.queues = self.queues.into_iter().collect();
        device
    }

    fn device_row(
        &mut self,
        index: usize,
        name: NameId,
        start: TimeNs,
        duration: DurationNs,
        correlation: Correlation,
    ) -> DeviceRow {
        let place = self.file.place_of(index);
        let queue = DeviceQueue {
            device: place.device.unwrap_or(0),
            // A written node names device and stream, but no context.
            context: 0,
            stream: place.stream.unwrap_or(0),
        };
        DeviceRow {
            kind: row_kind(self.file.name_of(index)),
            name,
            queue: QueueIdx::new(self.queues.insert_full(queue).0),
            start,
            duration,
            correlation,
            // The file does not state a row's op by number: the launch identifies it by
            // correlation.
            external_id: -1,
            gb_per_s: -1.0,
            collective: self.collective(index),
            ..DeviceRow::default()
        }
    }

    fn host_op(
        &mut self,
        index: usize,
        name: NameId,
        start: TimeNs,
        duration: DurationNs,
    ) -> CpuOp {
        CpuOp {
            name,
            thread: self.thread(index),
            start,
            duration,
            external_id: -1,
            seq_id: -1,
            collective: u32::MAX,
            ..CpuOp::default()
        }
    }

    /// Adds a call, or another slice of a known call. Slices arrive in order of time.
    fn add_call(
        &mut self,
        index: usize,
        name: NameId,
        start: TimeNs,
        duration: DurationNs,
        correlation: Correlation,
    ) {
        let thread = self.thread(index);
        let begin = self.call_start(index, start);
        // Two calls of a thread may share a correlation (a runtime call and its driver call).
        let key = (correlation, thread, name);
        let call = self.calls.entry(key).or_insert(RuntimeCall {
            name,
            thread,
            start: begin,
            duration,
            correlation,
            external_id: -1,
            kernel: NameId::EMPTY,
        });
        // Slices may omit waits between them, so the end counts and not the sum.
        let until_end = start + duration - call.start;
        call.duration = call.duration.max(until_end);
    }

    /// Returns the start of the call that this slice belongs to. A call's work before it waited for
    /// a device has no node: it follows the previous work of its thread.
    fn call_start(&self, index: usize, start: TimeNs) -> TimeNs {
        let file = self.file;
        // A latency that is a node has the deps of the node after it.
        let latency = self
            .numbers
            .deps(file, index)
            .find(|dep| file.kind_of(*dep) == "latency");
        let waiter = latency.unwrap_or(index);
        let waited_for_device = self
            .numbers
            .deps(file, waiter)
            .any(|dep| runs_on_device(file, dep, file.place_of(dep)));
        // A call that did not wait has its first slice at its own start.
        if !waited_for_device {
            return start;
        }
        let last_end = self
            .numbers
            .deps(file, waiter)
            .filter(|dep| file.place[*dep] == file.place[index])
            .filter_map(|dep| {
                let dep_start = TimeNs(file.start_ns[dep]?);
                Some(dep_start + DurationNs(file.duration_ns[dep].max(0)))
            })
            .max();
        last_end.map_or(start, |end| end.min(start))
    }

    fn thread(&mut self, index: usize) -> ThreadIdx {
        let place = self.file.place_of(index);
        let thread = HostThread {
            pid: self.label(place.pid),
            tid: self.label(place.tid),
        };
        ThreadIdx::new(self.threads.insert_full(thread).0)
    }

    /// Converts a label of the file to a label of the trace, whose texts are renumbered.
    fn label(&mut self, label: Option<TrackLabel>) -> TrackLabel {
        match label {
            Some(TrackLabel::Text(text)) => {
                TrackLabel::Text(self.device.names.intern(self.file.names.get(text)))
            }
            Some(number) => number,
            // Other writers' files name no thread; a single number keeps their nodes together.
            None => TrackLabel::Int(0),
        }
    }

    /// Adds the record of a communication node and returns its number; `u32::MAX` for other nodes.
    fn collective(&mut self, index: usize) -> u32 {
        let comm = self.file.comm_of(index);
        let name = match self.file.node_type[index] {
            NodeType::CommSendNode => "send",
            NodeType::CommRecvNode => "recv",
            NodeType::CommCollNode => comm.collective_type().map_or("", |kind| kind.as_str_name()),
            _ => return u32::MAX,
        };
        let record = self.collective_record(name, &comm);
        self.device.collectives.push(record);
        (self.device.collectives.len() - 1) as u32
    }

    fn collective_record(&mut self, name: &str, comm: &CommAttrs) -> Collective {
        // A size below 0 is damage that `check` reports.
        let bytes = comm.size.map_or(0, |size| size.max(0).cast_unsigned());
        let group = comm.group.map_or("", |group| self.file.names.get(group));
        let ranks = self.groups.get(group);
        let group_size = match (ranks, self.device.header.world_size) {
            (Some(ranks), _) => ranks.len() as u64,
            (None, Some(world)) if group.is_empty() => world.max(0).cast_unsigned(),
            _ => 0,
        };
        // The size of an all-gather covers only the rank's own part.
        let out_elements = if name == CollectiveCommType::AllGather.as_str_name() {
            bytes.saturating_mul(group_size.max(1))
        } else {
            0
        };
        // `[0, 1]`, as in `Process Group Ranks` of a Kineto file.
        let ranks = ranks.map_or(String::new(), |ranks| format!("{ranks:?}"));
        let names = &mut self.device.names;
        Collective {
            name: names.intern(name),
            // The file has sizes in bytes, so its elements are bytes. Without a type, the size of a
            // record is unknown.
            dtype: names.intern(comm.size.map_or("", |_| "Byte")),
            in_elements: bytes,
            out_elements,
            group_size,
            group_name: names.intern(group),
            group_ranks: names.intern(&ranks),
            src: comm.src.unwrap_or(-1),
            dst: comm.dst.unwrap_or(-1),
            ..Collective::absent()
        }
    }
}

/// Converts the reader's findings of damage to anomalies of traces.
fn anomalies(file: &ChakraGraph) -> Anomalies {
    let mut anomalies = Anomalies::default();
    for finding in file.findings.damage() {
        let kind = match finding.kind {
            FindingKind::Truncated => AnomalyKind::Truncated,
            FindingKind::NodeCountDiffers => AnomalyKind::NodeCountDiffers,
            _ => AnomalyKind::Undecodable,
        };
        let first = finding.examples.first();
        let detail = first.map(|example| example.detail.clone());
        anomalies.add(kind, finding.count, detail);
    }
    anomalies
}
