//! Writes a whole trace, table by table, so that tests can compare it with the file that it was read
//! from.

use etlink_formats::kineto::{
    CompleteEvent, EventArguments, FlowEvent, KinetoHeader, KinetoVersion, KinetoWriteOptions,
    KinetoWriter, TrackKey,
};
use etlink_model::{
    AuxiliaryKind, Collective, Correlation, DeviceHeader, DeviceQueue, DeviceTrace, DurationNs,
    GraphDependency, HostThread, NameId, ProcessGroup, RowIdx, RowKind, TimeNs, TrackLabel,
};
use serde_json::json;
use std::io::{self, Write};

/// Number of the first arrow of a dependency inside a graph.
const FIRST_DEPENDENCY: i64 = 1 << 40;

/// Writes a trace that was read or constructed.
///
/// Reading the text again gives the same trace: the same rows in the same order in each table, with
/// the same threads, queues, names, groups and communication records. Data that no table keeps
/// (flows of launches, counters, most arguments of kernels) is not written. Layouts without a time
/// base ([`KinetoVersion::has_whole_micros`]) contain whole microseconds.
pub(crate) fn write<W: Write>(
    trace: &DeviceTrace,
    out: W,
    options: KinetoWriteOptions,
) -> io::Result<W> {
    let header = KinetoHeader {
        base_ns: trace.header.base_ns.0,
        devices: device_properties(trace),
        metadata: header_metadata(&trace.header),
    };
    let mut encoder = TraceEncoder {
        trace,
        version: options.version,
        shift_ns: if options.version.has_whole_micros() {
            trace.header.base_ns.0
        } else {
            0
        },
        writer: KinetoWriter::new(out, &header, options)?,
    };
    // As in Kineto, the host's activities precede device activities.
    encoder.write_ops()?;
    encoder.write_calls()?;
    encoder.write_rows()?;
    encoder.write_graph_dependencies()?;
    encoder.write_syncs()?;
    encoder.write_waits()?;
    encoder.write_auxiliary()?;
    encoder.write_memory()?;
    encoder.write_names()?;
    let (_, end) = trace.window().unwrap_or_default();
    // The marker is placed at the last end, which readers take for the end of the window.
    let end = end.0 + encoder.shift_ns;
    encoder.writer.window_end(end)?;
    encoder.writer.finish("trace.json", &[])
}

/// Returns `deviceProperties`: names in their order, and the number of multiprocessors per device.
fn device_properties(trace: &DeviceTrace) -> Vec<String> {
    let mut devices: Vec<_> = trace
        .header
        .devices
        .iter()
        .enumerate()
        .map(|(id, name)| json!({"id": id, "name": name}))
        .collect();
    for (device, count) in &trace.multiprocessors {
        let place = usize::try_from(*device).ok();
        // Named devices come first, in order of their numbers.
        let named = place.filter(|place| *place < trace.header.devices.len());
        match named.and_then(|place| devices.get_mut(place)) {
            Some(known) => known["numSms"] = (*count).into(),
            // A device that the header does not name.
            None => devices.push(json!({"id": device, "numSms": count})),
        }
    }
    devices.iter().map(ToString::to_string).collect()
}

fn header_metadata(header: &DeviceHeader) -> Vec<(String, String)> {
    let mut metadata = vec![];
    if !header.trace_id.is_empty() {
        metadata.push(("trace_id".to_owned(), json!(header.trace_id).to_string()));
    }
    if let Some(info) = distributed_info(header) {
        metadata.push(("distributedInfo".to_owned(), info));
    }
    if !header.host_name.is_empty() {
        metadata.push(("host_name".to_owned(), json!(header.host_name).to_string()));
    }
    metadata
}

/// Returns `distributedInfo` (`torch/profiler/profiler.py`, `_get_distributed_info`); `None` if
/// nothing is known.
fn distributed_info(header: &DeviceHeader) -> Option<String> {
    let is_said = header.rank.is_some()
        || header.world_size.is_some()
        || !header.backend.is_empty()
        || !header.groups.is_empty();
    if !is_said {
        return None;
    }
    let mut info = json!({});
    if !header.backend.is_empty() {
        info["backend"] = header.backend.as_str().into();
    }
    if let Some(rank) = header.rank {
        info["rank"] = rank.0.into();
    }
    if let Some(world_size) = header.world_size {
        info["world_size"] = world_size.into();
    }
    if !header.groups.is_empty() {
        info["pg_count"] = header.groups.len().into();
        info["pg_config"] = header.groups.iter().map(group_config).collect();
    }
    Some(info.to_string())
}

fn group_config(group: &ProcessGroup) -> serde_json::Value {
    json!({
        "pg_name": group.name,
        "pg_desc": group.desc,
        "backend_config": group.backend,
        "pg_size": group.size,
        "ranks": group.ranks,
    })
}

struct TraceEncoder<'t, W> {
    trace: &'t DeviceTrace,
    version: KinetoVersion,
    /// Nanoseconds added to each time, so that it counts from the origin of the layout.
    shift_ns: i64,
    writer: KinetoWriter<W>,
}

impl<'t, W: Write> TraceEncoder<'t, W> {
    fn write_ops(&mut self) -> io::Result<()> {
        let trace = self.trace;
        // Both tables have the same order, so one pass finds the stream of each op.
        let mut stream_ops = StreamsOfOps::new(trace);
        for row in 0..trace.ops.len() {
            let op = trace.ops.row(row);
            let stream = stream_ops.stream(op.name, op.start, op.duration);
            let category = match (op.annotation, self.version) {
                (true, _) => "user_annotation",
                (false, KinetoVersion::Torch1_8) => "Operator",
                (false, _) => "cpu_op",
            };
            let thread = trace.threads[op.thread.index()];
            let event = self.complete_event(category, op.name, thread, op.start, op.duration);
            let event = with_external_id(event, op.external_id);
            self.writer.complete(&event, |args| {
                // PyTorch writes both keys or neither.
                if op.seq_id != -1 || op.fwd_thread != 0 {
                    args.number("Sequence number", op.seq_id)?;
                    args.number("Fwd thread id", op.fwd_thread)?;
                }
                // The key is written even if the id is 0: its presence alone shows that PyTorch is
                // 2.4 or later.
                if trace.has_rf_ids {
                    args.number("Record function id", op.rf_id.0)?;
                }
                named(trace, args, "Input type", op.types)?;
                named(trace, args, "Input Strides", op.strides)?;
                named(trace, args, "Input Dims", op.shapes)?;
                named(trace, args, "Concrete Inputs", op.values)?;
                if let Some(stream) = stream {
                    args.number("stream", stream)?;
                }
                communication_arguments(trace, args, op.collective)?;
                if op.unfinished {
                    args.number("finished", false)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn write_calls(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for row in 0..trace.calls.len() {
            let call = trace.calls.row(row);
            let category = match self.version {
                KinetoVersion::Torch1_8 => "Runtime",
                _ => call_category(trace.names.get(call.name)),
            };
            let thread = trace.threads[call.thread.index()];
            let event = self.complete_event(category, call.name, thread, call.start, call.duration);
            let event = with_external_id(event, call.external_id);
            self.writer.complete(&event, |args| {
                correlation(args, call.correlation)?;
                if call.kernel != NameId::EMPTY {
                    args.text("kernel", trace.names.get(call.kernel))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn write_rows(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for index in 0..trace.rows.len() {
            let row = trace.rows.row(index);
            let queue = trace.queues[row.queue.index()];
            let category = trace.names.get(row.category);
            let category = match (category, row.kind) {
                // A trace that was constructed rather than read has no category text.
                ("", RowKind::Kernel) => "kernel",
                ("", RowKind::Memcpy) => "gpu_memcpy",
                ("", RowKind::Memset) => "gpu_memset",
                ("", RowKind::GraphNode) => "graph_event_node",
                _ => category,
            };
            let event = self.device_event(category, row.name, queue, row.start, row.duration);
            let event = with_external_id(event, row.external_id);
            self.writer.complete(&event, |args| {
                queue_arguments(args, queue, queue.stream)?;
                correlation(args, row.correlation)?;
                args.break_line();
                if row.bytes > 0 {
                    args.number("bytes", row.bytes)?;
                }
                if row.gb_per_s >= 0.0 {
                    args.number("memory bandwidth (GB/s)", row.gb_per_s)?;
                }
                if row.grid != [0; 3] {
                    args.number("grid", row.grid)?;
                    args.break_line();
                }
                if row.block != [0; 3] {
                    args.number("block", row.block)?;
                }
                if row.graph_node != 0 {
                    args.number("graph node id", row.graph_node)?;
                    let note = trace.row_annotation(RowIdx::new(index));
                    if !note.is_empty() {
                        args.text("name", note)?;
                    }
                }
                communication_arguments(trace, args, row.collective)
            })?;
        }
        Ok(())
    }

    /// Writes one arrow per dependency, from the end of the cause to the start of the effect.
    fn write_graph_dependencies(&mut self) -> io::Result<()> {
        let trace = self.trace;
        let rows = &trace.rows;
        for (index, id) in (0..trace.graph_dependencies.len()).zip(FIRST_DEPENDENCY..) {
            let GraphDependency { effect, cause } = trace.graph_dependencies.row(index);
            let ended = rows.start[cause.index()] + rows.duration[cause.index()];
            self.write_arrow_end(id, false, cause, ended)?;
            self.write_arrow_end(id, true, effect, rows.start[effect.index()])?;
        }
        Ok(())
    }

    fn write_arrow_end(
        &mut self,
        id: i64,
        is_end: bool,
        row: RowIdx,
        time: TimeNs,
    ) -> io::Result<()> {
        let queue = self.trace.rows.queue[row.index()];
        let queue = self.trace.queues[queue.index()];
        self.writer.flow(&FlowEvent {
            is_end,
            category: "ac2g",
            id,
            pid: TrackKey::Number(queue.device),
            tid: TrackKey::Number(queue.stream),
            time_ns: time.0 + self.shift_ns,
        })
    }

    fn write_syncs(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for index in 0..trace.syncs.len() {
            let row = trace.syncs.row(index);
            let queue = trace.queues[row.queue.index()];
            let event = self.device_event("cuda_sync", row.name, queue, row.start, row.duration);
            // Kineto of 2023 prints -1 as an unsigned number.
            let stream = if row.unsigned {
                i64::from(u32::MAX)
            } else {
                queue.stream
            };
            self.writer.complete(&event, |args| {
                args.text("cuda_sync_kind", trace.names.get(row.name))?;
                args.break_line();
                if row.wait_stream != -1 {
                    args.number("wait_on_stream", row.wait_stream)?;
                }
                if let Some(record) = row.wait_record.get() {
                    args.number("wait_on_cuda_event_record_corr_id", record.0)?;
                }
                if row.wait_event != -1 {
                    args.number("wait_on_cuda_event_id", row.wait_event)?;
                }
                args.number("stream", stream)?;
                correlation(args, row.correlation)?;
                args.break_line();
                args.number("device", queue.device)?;
                args.number("context", queue.context)
            })?;
        }
        Ok(())
    }

    /// Writes waits of threads in the form that `etlink record` adds.
    fn write_waits(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for index in 0..trace.waits.len() {
            let row = trace.waits.row(index);
            let Some(&thread) = trace.threads.get(row.thread.index()) else {
                debug_assert!(false, "a wait of no thread");
                continue;
            };
            let event =
                self.complete_event("etlink_wait", row.name, thread, row.start, row.duration);
            self.writer.complete(&event, |args| {
                for (key, number) in [("after", row.after), ("frees", row.frees)] {
                    if number != 0 {
                        args.number(key, number)?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn write_auxiliary(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for index in 0..trace.auxiliary.len() {
            let row = trace.auxiliary.row(index);
            let category = match row.kind {
                AuxiliaryKind::Python => "python_function",
                AuxiliaryKind::Overhead => "overhead",
                AuxiliaryKind::DeviceAnnotation => "gpu_user_annotation",
            };
            // Kineto puts overheads on process -1 (`overhead pid −1` in `output_json.cpp`).
            let nowhere = HostThread {
                pid: TrackLabel::Int(-1),
                tid: TrackLabel::Int(0),
            };
            let thread = trace.threads.get(row.thread.index());
            let thread = thread.copied().unwrap_or(nowhere);
            let event = self.complete_event(category, row.name, thread, row.start, row.duration);
            self.writer.complete(&event, |_| Ok(()))?;
        }
        Ok(())
    }

    fn write_memory(&mut self) -> io::Result<()> {
        let trace = self.trace;
        // The table does not keep the allocating process; in nearly all traces it is the first
        // thread's process.
        let process = trace.threads.first().copied();
        let process = process.map_or(TrackKey::Number(0), |thread| track_key(trace, thread.pid));
        for index in 0..trace.memory.len() {
            let row = trace.memory.row(index);
            let name = trace.names.get(row.name);
            let time = row.time.0 + self.shift_ns;
            self.writer.thread_instant(
                ("cpu_instant_event", name),
                (process, process),
                time,
                |args| {
                    args.number("Total Reserved", row.reserved)?;
                    args.number("Total Allocated", row.allocated)?;
                    args.number("Bytes", row.bytes)?;
                    if row.address != 0 {
                        args.number("Addr", row.address)?;
                    }
                    args.number("Device Id", row.device)?;
                    args.number("Device Type", row.device_type)
                },
            )?;
        }
        Ok(())
    }

    /// Writes the names of processes and threads.
    fn write_names(&mut self) -> io::Result<()> {
        let trace = self.trace;
        let (start, _) = trace.window().unwrap_or_default();
        let start = start.0 + self.shift_ns;
        for (pid, name) in &trace.process_names {
            let track = (track_key(trace, *pid), TrackKey::Number(0));
            let name = json!(trace.names.get(*name)).to_string();
            self.writer
                .metadata("process_name", track, start, ("name", &name))?;
        }
        for (thread, name) in &trace.thread_names {
            let track = (track_key(trace, thread.pid), track_key(trace, thread.tid));
            let name = json!(trace.names.get(*name)).to_string();
            self.writer
                .metadata("thread_name", track, start, ("name", &name))?;
        }
        Ok(())
    }

    fn complete_event(
        &self,
        category: &'t str,
        name: NameId,
        thread: HostThread,
        start: TimeNs,
        duration: DurationNs,
    ) -> CompleteEvent<'t> {
        CompleteEvent {
            category,
            name: self.trace.names.get(name),
            pid: track_key(self.trace, thread.pid),
            tid: track_key(self.trace, thread.tid),
            start_ns: start.0 + self.shift_ns,
            duration_ns: duration.0,
            external_id: None,
        }
    }

    fn device_event(
        &self,
        category: &'t str,
        name: NameId,
        queue: DeviceQueue,
        start: TimeNs,
        duration: DurationNs,
    ) -> CompleteEvent<'t> {
        CompleteEvent {
            category,
            name: self.trace.names.get(name),
            pid: TrackKey::Number(queue.device),
            tid: TrackKey::Number(queue.stream),
            start_ns: start.0 + self.shift_ns,
            duration_ns: duration.0,
            external_id: None,
        }
    }
}

fn with_external_id(event: CompleteEvent<'_>, id: i64) -> CompleteEvent<'_> {
    CompleteEvent {
        external_id: Some(id).filter(|id| *id != -1),
        ..event
    }
}

fn track_key(trace: &DeviceTrace, label: TrackLabel) -> TrackKey<'_> {
    match label {
        TrackLabel::Int(number) => TrackKey::Number(number),
        TrackLabel::Text(name) => TrackKey::Text(trace.names.get(name)),
    }
}

/// Returns the category of a runtime call, which tables do not keep, derived from its name.
// HIP calls have the category `cuda_runtime` in Kineto's own files too.
fn call_category(name: &str) -> &'static str {
    if has_call_prefix(name, "cu") {
        "cuda_driver"
    } else if has_call_prefix(name, "ur") || has_call_prefix(name, "ze") {
        "xpu_runtime"
    } else if name.starts_with("runFunction") {
        "mtia_runtime"
    } else {
        "cuda_runtime"
    }
}

/// Returns true if `prefix` is the library's prefix: `cuLaunchKernel` has `cu`, `cudaLaunchKernel`
/// does not.
fn has_call_prefix(name: &str, prefix: &str) -> bool {
    let rest = name.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
}

fn queue_arguments(
    args: &mut EventArguments<'_>,
    queue: DeviceQueue,
    stream: i64,
) -> io::Result<()> {
    args.number("device", queue.device)?;
    if queue.context != 0 {
        args.number("context", queue.context)?;
    }
    args.break_line();
    args.number("stream", stream)
}

fn correlation(args: &mut EventArguments<'_>, id: Correlation) -> io::Result<()> {
    id.get()
        .map_or(Ok(()), |id| args.number("correlation", id.0))
}

/// Writes a list that was kept as text.
fn named(
    trace: &DeviceTrace,
    args: &mut EventArguments<'_>,
    key: &str,
    list: NameId,
) -> io::Result<()> {
    match trace.names.get(list) {
        "" => Ok(()),
        text => args.raw(key, text),
    }
}

/// Writes the arguments of `record_param_comms`, with the keys of `saveNcclMeta`
/// (`torch/csrc/profiler/util.cpp`).
fn communication_arguments(
    trace: &DeviceTrace,
    args: &mut EventArguments<'_>,
    row: u32,
) -> io::Result<()> {
    let row = row as usize;
    if row >= trace.collectives.len() {
        return Ok(());
    }
    let record: Collective = trace.collectives.row(row);
    let text = |id: NameId| trace.names.get(id);
    args.text("Collective name", text(record.name))?;
    for (key, value) in [
        ("dtype", text(record.dtype)),
        ("In split size", text(record.in_split)),
        ("Out split size", text(record.out_split)),
        ("Process Group Name", text(record.group_name)),
        ("Process Group Description", text(record.group_desc)),
        ("Process Group Ranks", text(record.group_ranks)),
    ] {
        if !value.is_empty() {
            args.text(key, value)?;
        }
    }
    args.number("In msg nelems", record.in_elements)?;
    args.number("Out msg nelems", record.out_elements)?;
    args.number("Group size", record.group_size)?;
    for (key, value) in [
        ("Global rank start", record.rank_start),
        ("Global rank stride", record.rank_stride),
        ("Rank", record.rank),
        ("Src Rank", record.src),
        ("Dst Rank", record.dst),
        ("Seq", record.seq),
    ] {
        if value != -1 {
            args.number(key, value)?;
        }
    }
    args.number("Is asynchronized op", record.asynchronous)?;
    match text(record.comms_id) {
        "" => Ok(()),
        // A number in all known files, but kept as text.
        id if id.bytes().all(|byte| byte.is_ascii_digit()) => args.raw("Comms Id", id),
        id => args.text("Comms Id", id),
    }
}

/// Cursor over the CPU ops that have a stream; these ops are in a table of their own, in the same
/// order.
struct StreamsOfOps<'t> {
    trace: &'t DeviceTrace,
    next: usize,
}

impl<'t> StreamsOfOps<'t> {
    fn new(trace: &'t DeviceTrace) -> Self {
        StreamsOfOps { trace, next: 0 }
    }

    /// Returns the stream of an op if it is the next one in the table.
    fn stream(&mut self, name: NameId, start: TimeNs, duration: DurationNs) -> Option<i64> {
        let table = &self.trace.stream_ops;
        if self.next >= table.len() {
            return None;
        }
        let row = table.row(self.next);
        let is_it = (row.name, row.start, row.duration) == (name, start, duration);
        self.next += usize::from(is_it);
        is_it.then_some(row.stream)
    }
}
