//! Collects events in tables, first per chunk, then appended in file order.

use crate::kineto::dependencies::DependencyArrows;
use crate::kineto::event::{EventKind, KinetoEvent, dims, int, stream};
use crate::kineto::outline::{NOTHING, OutlineBuilder, SliceEvents};
use crate::kineto::sizes::CopySizes;
use etlink_json::{JsonValue, object_fields, unescape};
use etlink_model::{
    AnomalyKind, AuxiliaryEvent, AuxiliaryKind, Collective, Correlation, CounterRange, CpuOp,
    DeviceQueue, DeviceRow, DeviceTrace, DurationNs, EventDetail, HostThread, IndexByValue,
    KeepEvents, MemoryRow, NameId, OtherEvent, QueueIdx, RawNameCache, RecordedDetails, RfId,
    RowKind, RuntimeCall, StreamOp, SyncRow, TextSpan, ThreadIdx, ThreadWait, TimeNs, TrackLabel,
};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// Tables of one chunk, numbered by its own names, threads and queues. Rows are removed once they
/// have been appended; names stay for later chunks that reuse the tables.
#[derive(Default)]
pub(crate) struct ChunkTables {
    trace: DeviceTrace,
    /// Number of events per phase and category.
    events: IndexMap<NameId, u64, FxBuildHasher>,
    key: Vec<u8>,
    threads: IndexByValue<HostThread>,
    queues: IndexByValue<DeviceQueue>,
    tracks: IndexByValue<HostThread>,
    sizes: CopySizes,
    arrows: DependencyArrows,
    /// Strings as written in the file.
    texts: RawNameCache,
    /// Number of each name in the whole trace.
    renamed: Vec<NameId>,
}

impl ChunkTables {
    /// Adds an event to the table of its kind.
    pub(crate) fn push(&mut self, event: &KinetoEvent<'_>, keep: KeepEvents) {
        self.count_event(event);
        match event.kind {
            EventKind::Other => return self.push_other(event, keep),
            EventKind::Auxiliary(_) if keep < KeepEvents::Auxiliary => return,
            EventKind::Metadata => return self.push_name(event),
            EventKind::Flow => return self.arrows.push_arrow(event),
            EventKind::Instant
                if keep < KeepEvents::Memory
                    || !matches!(event.name, b"[memory]" | b"[OutOfMemory]") =>
            {
                return self.push_other(event, keep);
            }
            _ => {}
        }
        let Some((start, duration)) = self.event_times(event) else {
            return;
        };
        if keep == KeepEvents::Everything {
            match event.kind {
                EventKind::ThreadWait => self.push_other(event, keep),
                _ => self.push_detail(event),
            }
        }
        // This is the first event of the chunk. `append_around` keeps only the first chunk's value.
        if self.events.values().eq(&[1]) {
            self.trace.first_start = Some(start);
        }
        match event.kind {
            EventKind::Op => self.push_op(event, start, duration),
            EventKind::Call => self.push_call(event, start, duration),
            EventKind::Sync => self.push_sync(event, start, duration),
            EventKind::ThreadWait => self.push_wait(event, start, duration),
            EventKind::Kernel => self.push_row(event, RowKind::Kernel, start, duration),
            EventKind::Memcpy => self.push_row(event, RowKind::Memcpy, start, duration),
            EventKind::Memset => self.push_row(event, RowKind::Memset, start, duration),
            EventKind::GraphNode => self.push_row(event, RowKind::GraphNode, start, duration),
            EventKind::Auxiliary(kind) => self.push_aside(event, kind, start, duration),
            EventKind::Instant => self.push_memory(event, start),
            // These kinds returned above; the match stays exhaustive for future kinds.
            EventKind::Other | EventKind::Metadata | EventKind::Flow => {}
        }
    }

    /// Keeps CUPTI's counters of a kernel.
    fn push_counters(&mut self, event: &KinetoEvent<'_>, start: TimeNs, duration: DurationNs) {
        let mut lines = String::new();
        for (key, value) in object_fields(event.args_text) {
            let (key, value) = (unescape(key), value.text());
            lines.push_str(&format!("{key} {value}\n"));
        }
        let row = CounterRange {
            name: self.name_of(event.name),
            start,
            duration,
            values: self.trace.names.intern(&lines),
        };
        self.trace.counter_ranges.push(row);
    }

    /// Keeps an event of no table: counters always, other events if everything is kept.
    fn push_other(&mut self, event: &KinetoEvent<'_>, keep: KeepEvents) {
        let has_counters = event.is_counter_range();
        let is_shown = matches!(event.phase, b"X" | b"i" | b"I" | b"C");
        let is_kept = keep == KeepEvents::Everything && is_shown;
        if !has_counters && !is_kept && !event.is_recording() {
            return;
        }
        let Some((start, duration)) = self.event_times(event) else {
            return;
        };
        if event.is_recording() {
            let known = self.trace.recorded_from.into_iter();
            self.trace.recorded_from = known.chain([start]).min();
        }
        if has_counters {
            self.push_counters(event, start, duration);
        }
        if !is_kept {
            return;
        }
        let row = OtherEvent {
            phase: self.name_of(event.phase),
            name: self.name_of(event.name),
            start,
            duration,
        };
        let detail = self.detail(event);
        let details = self.trace.details.get_or_insert_default();
        details.others.push(row);
        details.other_details.push(detail);
    }

    /// Keeps the details of an event that the columns of its table omit.
    fn push_detail(&mut self, event: &KinetoEvent<'_>) {
        let detail = self.detail(event);
        let details = self.trace.details.get_or_insert_default();
        let table = match event.kind {
            EventKind::Op => &mut details.ops,
            EventKind::Call => &mut details.calls,
            EventKind::Kernel | EventKind::Memcpy | EventKind::Memset | EventKind::GraphNode => {
                &mut details.rows
            }
            EventKind::Sync => &mut details.syncs,
            EventKind::Auxiliary(_) => &mut details.auxiliary,
            EventKind::Instant => &mut details.memory,
            // Waits are kept whole, among the events of no table.
            EventKind::ThreadWait | EventKind::Other | EventKind::Metadata | EventKind::Flow => {
                return;
            }
        };
        table.push(detail);
    }

    fn detail(&mut self, event: &KinetoEvent<'_>) -> EventDetail {
        let track = HostThread {
            pid: self.track_label(event.pid),
            tid: self.track_label(event.tid),
        };
        let category = self.name_of(event.category);
        let details = self.trace.details.get_or_insert_default();
        let track = self.tracks.place_of(&mut details.tracks, track);
        let start = details.text.len() as u64;
        // An event is no larger than `MAX_ELEMENT_BYTES`, which fits 32 bits.
        let bytes = event.args_text.len() as u32;
        details.text.extend_from_slice(event.args_text);
        EventDetail {
            category,
            track: u32::try_from(track).unwrap_or(u32::MAX),
            args: TextSpan { start, bytes },
        }
    }

    /// Records the name of a process or thread. A name without ids belongs to no process or thread
    /// with ops.
    fn push_name(&mut self, event: &KinetoEvent<'_>) {
        let name = self.name(event.args.name);
        if name == NameId::EMPTY || event.pid.is_none() {
            return;
        }
        let thread = HostThread {
            pid: self.track_label(event.pid),
            tid: self.track_label(event.tid),
        };
        match event.name {
            // Traces repeat such rows hundreds of thousands of times. The last name counts.
            b"process_name" => {
                self.trace.process_names.insert(thread.pid, name);
            }
            b"thread_name" if event.tid.is_some() => {
                self.trace.thread_names.insert(thread, name);
            }
            _ => {}
        }
    }

    fn count_event(&mut self, event: &KinetoEvent<'_>) {
        self.key.clear();
        self.key.extend_from_slice(event.phase);
        self.key.push(b' ');
        self.key.extend_from_slice(event.category);
        // The buffer is taken out so that `name_of` can borrow all of `self`.
        let key = std::mem::take(&mut self.key);
        let name = self.name_of(&key);
        self.key = key;
        // Usually there are a dozen pairs of phase and category. A writer that puts a number into
        // each category creates as many pairs as events, and a list would be searched for each
        // event.
        *self.events.entry(name).or_default() += 1;
    }

    /// Reads start and duration. Kineto prints negative ones as `-1.-500`, because `fmtTs` of
    /// `output_json.cpp` gives quotient and remainder their own signs. Such a start is before the
    /// origin; such a duration is invalid. An event without a numeric start is skipped: at 0 it
    /// would stretch the window by years.
    fn event_times(&mut self, event: &KinetoEvent<'_>) -> Option<(TimeNs, DurationNs)> {
        let anomalies = &mut self.trace.anomalies;
        let place = || format!("{:?}", unescape(event.name));
        let start = event.start.and_then(JsonValue::time_ns).map(TimeNs);
        let Some(start) = start.filter(|start| start.is_in_range()) else {
            anomalies.note(
                // A number that is too large is reported as such: it indicates a wrong unit, not a
                // missing time.
                if event
                    .start
                    .and_then(parse_float)
                    .is_some_and(f64::is_finite)
                {
                    AnomalyKind::TimeOutOfRange
                } else {
                    AnomalyKind::NoTime
                },
                place,
            );
            return None;
        };
        // Instants have no duration.
        let Some(duration) = event.duration else {
            return Some((start, DurationNs::ZERO));
        };
        let ns = duration.time_ns();
        if ns.is_none_or(|ns| ns < 0) {
            let digits = duration.raw().iter().any(u8::is_ascii_digit);
            let negative = digits && duration.raw().starts_with(b"-");
            anomalies.note(
                if negative {
                    AnomalyKind::NegativeDuration
                } else {
                    AnomalyKind::BadNumber
                },
                place,
            );
        }
        let duration = DurationNs(ns.unwrap_or(0).max(0));
        if !(start + duration).is_in_range() {
            anomalies.note(AnomalyKind::TimeOutOfRange, place);
            return None;
        }
        Some((start, duration))
    }

    fn push_aside(
        &mut self,
        event: &KinetoEvent<'_>,
        kind: AuxiliaryKind,
        start: TimeNs,
        duration: DurationNs,
    ) {
        let row = AuxiliaryEvent {
            kind,
            name: self.name_of(event.name),
            thread: if kind == AuxiliaryKind::Python {
                self.intern_thread(event)
            } else {
                ThreadIdx::NONE
            },
            start,
            duration,
        };
        self.trace.auxiliary.push(row);
    }

    fn push_op(&mut self, event: &KinetoEvent<'_>, start: TimeNs, duration: DurationNs) {
        let args = &event.args;
        let unfinished = args.finished.and_then(JsonValue::boolean) == Some(false);
        if unfinished {
            self.trace.anomalies.note(AnomalyKind::Unfinished, || {
                format!("{:?}", unescape(event.name))
            });
        }
        // The key counts even if its value is 0: PyTorch 2.4 and later write it without an observer
        // too, and then no op can be joined by it.
        self.trace.has_rf_ids |= args.rf_id.is_some();
        let op = CpuOp {
            name: self.name_of(event.name),
            thread: self.intern_thread(event),
            start,
            duration,
            rf_id: RfId(args.rf_id.and_then(JsonValue::uint).unwrap_or(0)),
            external_id: int(args.external_id).unwrap_or(-1),
            seq_id: int(args.seq_id).unwrap_or(-1),
            fwd_thread: args
                .fwd_thread
                .and_then(JsonValue::uint)
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(0),
            annotation: event.category == b"user_annotation",
            unfinished,
            shapes: self.name(args.shapes),
            types: self.name(args.types),
            strides: self.name(args.strides),
            values: self.name(args.values),
            collective: self.push_collective(event),
        };
        // Inductor's Triton launchers put `stream` on the op (`CachingAutotuner.run`); aten ops
        // have none.
        if let Some(stream) = stream(args.stream).filter(|stream| *stream >= 0) {
            self.trace.stream_ops.push(StreamOp {
                name: op.name,
                stream,
                start,
                duration,
            });
        }
        self.trace.ops.push(op);
    }

    fn push_call(&mut self, event: &KinetoEvent<'_>, start: TimeNs, duration: DurationNs) {
        let call = RuntimeCall {
            name: self.name_of(event.name),
            thread: self.intern_thread(event),
            start,
            duration,
            correlation: parse_correlation(event.args.correlation),
            external_id: int(event.args.external_id).unwrap_or(-1),
            kernel: self.name(event.args.kernel),
        };
        // Other calls of ROCm have a `size` too, such as the size of an allocation.
        if call.correlation != Correlation::NONE
            && contains_bytes(event.name, b"emcpy")
            && let Some(size) = int(event.args.size)
            && let Ok(bytes) = u64::try_from(size)
        {
            self.sizes.push(call.correlation, bytes);
        }
        self.trace.calls.push(call);
    }

    fn push_row(
        &mut self,
        event: &KinetoEvent<'_>,
        kind: RowKind,
        start: TimeNs,
        duration: DurationNs,
    ) {
        let args = &event.args;
        let row = DeviceRow {
            kind,
            category: self.name_of(event.category),
            name: self.name_of(event.name),
            queue: self.intern_queue(event),
            start,
            duration,
            correlation: parse_correlation(args.correlation),
            external_id: int(args.external_id).unwrap_or(-1),
            bytes: args.bytes.and_then(JsonValue::uint).unwrap_or(0),
            // Kineto omits the bandwidth if it would divide by a duration of 0.
            gb_per_s: args.gb_per_s.and_then(parse_float).unwrap_or(-1.0),
            grid: dims(args.grid),
            block: dims(args.block),
            graph_node: args.graph_node.and_then(JsonValue::uint).unwrap_or(0),
            collective: self.push_collective(event),
        };
        self.note_multiprocessors(&row, args.blocks_per_sm);
        // `_annotation_to_args` spreads the annotation of a node: a dict by its keys, a text as
        // `annotation`.
        if row.graph_node != 0
            && let Some(note) = args.name.or(args.annotation)
        {
            let note = self.name_of(note.raw());
            let key = (row.correlation, row.graph_node);
            self.trace.node_annotations.insert(key, note);
        }
        if args.original_stream.is_some() {
            let queue = self.trace.queues.get(row.queue.index());
            let lane = stream(args.stream).or(int(event.tid));
            if let (Some(queue), Some(lane)) = (queue, lane) {
                self.arrows.push_moved(*queue, lane, (start, duration));
            }
        }
        self.trace.rows.push(row);
    }

    fn push_memory(&mut self, event: &KinetoEvent<'_>, time: TimeNs) {
        let args = &event.args;
        let row = MemoryRow {
            name: self.name_of(event.name),
            time,
            device_type: small_int(args.device_type),
            device: small_int(args.device_id),
            bytes: int(args.memory_bytes).unwrap_or(0),
            allocated: uint_or_zero(args.allocated),
            reserved: uint_or_zero(args.reserved),
            address: uint_or_zero(args.memory_address),
        };
        self.trace.memory.push(row);
    }

    /// Derives the number of multiprocessors of a device from its first kernel with `blocks per
    /// SM`.
    fn note_multiprocessors(&mut self, row: &DeviceRow, blocks_per_sm: Option<JsonValue<'_>>) {
        // `blocks per SM` is blocks of the grid / multiprocessors (`CuptiActivity.cpp`), solved
        // here for the latter.
        let device = self
            .trace
            .queues
            .get(row.queue.index())
            .map_or(0, |queue| queue.device);
        if blocks_per_sm.is_none() || self.trace.multiprocessors.contains_key(&device) {
            return;
        }
        let blocks = row.grid.iter().map(|n| f64::from(*n)).product::<f64>();
        let per_sm = blocks_per_sm.and_then(parse_float).unwrap_or(0.0);
        let count = (blocks / per_sm).round();
        // A quotient of 0 or NaN carries no information about the device.
        if (1.0..1e6).contains(&count) {
            self.trace.note_multiprocessors(device, count as u32);
        }
    }

    fn push_sync(&mut self, event: &KinetoEvent<'_>, start: TimeNs, duration: DurationNs) {
        let args = &event.args;
        let row = SyncRow {
            name: self.name_of(event.name),
            queue: self.intern_queue(event),
            unsigned: int(args.stream) == Some(i64::from(u32::MAX)),
            start,
            duration,
            correlation: parse_correlation(args.correlation),
            // Kineto omits these, or writes -1, if it did not see the awaited `cudaEventRecord`.
            wait_stream: stream(args.wait_stream).unwrap_or(-1),
            wait_record: parse_correlation(args.wait_record),
            wait_event: int(args.wait_event).unwrap_or(-1),
        };
        self.trace.syncs.push(row);
    }

    fn push_wait(&mut self, event: &KinetoEvent<'_>, start: TimeNs, duration: DurationNs) {
        let number = |value: Option<JsonValue<'_>>| value.and_then(JsonValue::uint).unwrap_or(0);
        let row = ThreadWait {
            name: self.name_of(event.name),
            thread: self.intern_thread(event),
            start,
            duration,
            after: number(event.args.after),
            frees: number(event.args.frees),
        };
        self.trace.waits.push(row);
    }

    /// Adds the communication record of an op or kernel and returns its row; `u32::MAX` if the
    /// event names no collective.
    fn push_collective(&mut self, event: &KinetoEvent<'_>) -> u32 {
        let args = &event.args;
        // Kineto copies name, type, element counts and split to a kernel all or none, so the name
        // decides.
        if args.collective.is_none() {
            return u32::MAX;
        }
        let record = Collective {
            name: self.name(args.collective),
            dtype: self.name(args.dtype),
            in_elements: uint_or_zero(args.in_elements),
            out_elements: uint_or_zero(args.out_elements),
            in_split: self.name(args.in_split),
            out_split: self.name(args.out_split),
            rank_start: rank_or_none(args.rank_start),
            rank_stride: rank_or_none(args.rank_stride),
            group_size: uint_or_zero(args.group_size),
            group_name: self.name(args.group_name),
            group_desc: self.name(args.group_desc),
            group_ranks: self.name(args.group_ranks),
            rank: rank_or_none(args.rank),
            src: rank_or_none(args.src),
            dst: rank_or_none(args.dst),
            seq: rank_or_none(args.seq),
            p2p: false,
            asynchronous: args
                .asynchronous
                .and_then(JsonValue::boolean)
                .unwrap_or(false),
            comms_id: self.name(args.comms_id),
        };
        self.trace.collectives.push(record);
        u32::try_from(self.trace.collectives.len() - 1).unwrap_or(u32::MAX)
    }

    fn name(&mut self, value: Option<JsonValue<'_>>) -> NameId {
        value.map_or(NameId::EMPTY, |value| self.name_of(value.raw()))
    }

    fn name_of(&mut self, raw: &[u8]) -> NameId {
        let names = &mut self.trace.names;
        self.texts.name(raw, || names.intern(&unescape(raw)))
    }

    fn intern_thread(&mut self, event: &KinetoEvent<'_>) -> ThreadIdx {
        // Such rows come from other writers. They are kept on thread 0, so that their kernels keep
        // a launch.
        if event.pid.is_none() || event.tid.is_none() {
            self.trace.anomalies.note(AnomalyKind::NoThread, || {
                format!("{:?}", unescape(event.name))
            });
        }
        let thread = HostThread {
            pid: self.track_label(event.pid),
            tid: self.track_label(event.tid),
        };
        ThreadIdx::new(self.threads.place_of(&mut self.trace.threads, thread))
    }

    fn track_label(&mut self, value: Option<JsonValue<'_>>) -> TrackLabel {
        match int(value) {
            Some(number) => TrackLabel::Int(number),
            None => value.map_or(TrackLabel::Int(0), |value| {
                TrackLabel::Text(self.name_of(value.raw()))
            }),
        }
    }

    fn intern_queue(&mut self, event: &KinetoEvent<'_>) -> QueueIdx {
        let args = &event.args;
        // A row that was moved to another lane for display has that lane as `stream`.
        let stated = stream(args.original_stream).or(stream(args.stream));
        let queue = DeviceQueue {
            // Rows of MTIA and of old files lack these arguments; their pid is the device, their
            // tid the stream.
            device: int(args.device).or(int(event.pid)).unwrap_or(0),
            context: int(args.context).unwrap_or(0),
            stream: stated.or(int(event.tid)).unwrap_or(0),
        };
        let queue = QueueIdx::new(self.queues.place_of(&mut self.trace.queues, queue));
        if stated.is_some() {
            self.trace.stated_queues.insert(queue);
        }
        queue
    }
}

fn parse_float(value: JsonValue<'_>) -> Option<f64> {
    let text = std::str::from_utf8(value.raw()).ok()?;
    text.parse().ok()
}

/// Parses an unsigned number; absent and unreadable ones are 0.
fn uint_or_zero(value: Option<JsonValue<'_>>) -> u64 {
    value.and_then(JsonValue::uint).unwrap_or(0)
}

/// Parses a rank or sequence number; absent ones are -1, because 0 is valid.
fn rank_or_none(value: Option<JsonValue<'_>>) -> i64 {
    int(value).unwrap_or(-1)
}

/// Parses the type or number of a device; -1 if absent.
fn small_int(value: Option<JsonValue<'_>>) -> i32 {
    int(value)
        .and_then(|number| i32::try_from(number).ok())
        .unwrap_or(-1)
}

/// Parses a correlation id. Tracers write 0 for a call without an id.
fn parse_correlation(value: Option<JsonValue<'_>>) -> Correlation {
    int(value)
        .filter(|id| *id != 0)
        .map_or(Correlation::NONE, Correlation)
}

fn contains_bytes(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|window| window == part)
}

/// Parts of the chunks that are kept.
pub(crate) enum KeptChunks<'k> {
    /// All events.
    Whole,
    /// Events that run in a slice or may have been launched in it.
    Slice(&'k SliceEvents),
    /// Events that determine the start and end of a slice.
    Outline(OutlineBuilder<'k>),
}

/// Builder that merges the tables of chunks.
pub(crate) struct DeviceTraceBuilder<'k> {
    kept: KeptChunks<'k>,
    trace: DeviceTrace,
    threads: IndexByValue<HostThread>,
    queues: IndexByValue<DeviceQueue>,
    tracks: IndexByValue<HostThread>,
    sizes: CopySizes,
    arrows: DependencyArrows,
}

impl<'k> DeviceTraceBuilder<'k> {
    pub(crate) fn new(kept: KeptChunks<'k>) -> DeviceTraceBuilder<'k> {
        DeviceTraceBuilder {
            kept,
            trace: DeviceTrace::default(),
            threads: IndexByValue::default(),
            queues: IndexByValue::default(),
            tracks: IndexByValue::default(),
            sizes: CopySizes::default(),
            arrows: DependencyArrows::default(),
        }
    }

    /// Appends the next chunk in file order, and empties it.
    pub(crate) fn append(&mut self, chunk: &mut ChunkTables) {
        let ChunkTables {
            trace: part,
            events,
            renamed: names,
            threads,
            queues,
            tracks,
            sizes,
            arrows,
            ..
        } = chunk;
        // All names, threads and queues are numbered, so that they agree between two readings of a
        // file.
        match &mut self.kept {
            KeptChunks::Whole => {}
            KeptChunks::Slice(slice) => {
                part.keep(slice.time, &|row| slice.may_await(row));
                arrows.keep(slice.with_rows());
            }
            KeptChunks::Outline(outline) => {
                outline.add(part);
                arrows.keep(NOTHING);
            }
        }
        let all = &mut self.trace;
        // The lists below are drained, so the chunk's record of their positions would be wrong.
        threads.clear();
        queues.clear();
        tracks.clear();
        self.sizes.append(sizes);
        self.arrows.append(arrows);
        all.names.absorb(&part.names, names);
        append_around(all, part, events, names);
        if let Some(details) = part.details.take() {
            let all = all.details.get_or_insert_default();
            append_details(all, *details, names, &mut self.tracks);
        }
        let threads = part
            .threads
            .drain(..)
            .map(|thread| renumber_thread(thread, names));
        let threads: Vec<_> = threads
            .map(|thread| ThreadIdx::new(self.threads.place_of(&mut all.threads, thread)))
            .collect();
        let queues: Vec<_> = part
            .queues
            .drain(..)
            .map(|queue| QueueIdx::new(self.queues.place_of(&mut all.queues, queue)))
            .collect();
        let stated = std::mem::take(&mut part.stated_queues).into_iter();
        all.stated_queues
            .extend(stated.map(|queue| queues[queue.index()]));
        // Communication records are appended unchanged, so their row numbers shift by the existing
        // count.
        let base = u32::try_from(all.collectives.len()).unwrap_or(u32::MAX);
        renumber_names(part, names);
        for column in [
            &mut part.ops.thread,
            &mut part.calls.thread,
            &mut part.waits.thread,
            &mut part.auxiliary.thread,
        ] {
            column
                .iter_mut()
                // Auxiliary events of a device have no thread.
                .filter(|thread| **thread != ThreadIdx::NONE)
                .for_each(|thread| *thread = threads[thread.index()]);
        }
        for column in [&mut part.rows.queue, &mut part.syncs.queue] {
            column
                .iter_mut()
                .for_each(|queue| *queue = queues[queue.index()]);
        }
        for column in [&mut part.ops.collective, &mut part.rows.collective] {
            column
                .iter_mut()
                .filter(|row| **row != u32::MAX)
                .for_each(|row| *row += base);
        }
        all.ops.append(&mut part.ops);
        all.calls.append(&mut part.calls);
        all.rows.append(&mut part.rows);
        all.syncs.append(&mut part.syncs);
        all.waits.append(&mut part.waits);
        all.auxiliary.append(&mut part.auxiliary);
        all.stream_ops.append(&mut part.stream_ops);
        all.memory.append(&mut part.memory);
        all.counter_ranges.append(&mut part.counter_ranges);
        all.collectives.append(&mut part.collectives);
        // Otherwise the names of a trace with ever new names would grow with it.
        if part.names.is_large() {
            *chunk = ChunkTables::default();
        }
    }

    /// Returns the trace with its tables sorted by time; `None` if a table is too long for its row
    /// numbers.
    pub(crate) fn finish(self) -> Option<(DeviceTrace, KeptChunks<'k>)> {
        let mut trace = self.trace;
        trace.sort_by_time()?;
        // A call may be in another chunk than its copy, so this waits for all rows.
        self.sizes.give(&mut trace.rows);
        // Arrows are found by place and time, so the rows have to be sorted first.
        self.arrows.resolve(&mut trace);
        Some((trace, self.kept))
    }
}

/// Appends details that the tables omit.
fn append_details(
    all: &mut RecordedDetails,
    mut part: RecordedDetails,
    names: &[NameId],
    places: &mut IndexByValue<HostThread>,
) {
    let tracks: Vec<u32> = part
        .tracks
        .iter()
        .map(|track| places.place_of(&mut all.tracks, renumber_thread(*track, names)))
        .map(|track| u32::try_from(track).unwrap_or(u32::MAX))
        .collect();
    let base = all.text.len() as u64;
    all.text.append(&mut part.text);
    for (all, part) in [
        (&mut all.ops, &mut part.ops),
        (&mut all.calls, &mut part.calls),
        (&mut all.rows, &mut part.rows),
        (&mut all.syncs, &mut part.syncs),
        (&mut all.auxiliary, &mut part.auxiliary),
        (&mut all.memory, &mut part.memory),
        (&mut all.other_details, &mut part.other_details),
    ] {
        for category in &mut part.category {
            *category = names[category.index()];
        }
        for track in &mut part.track {
            *track = tracks[*track as usize];
        }
        for args in &mut part.args {
            args.start += base;
        }
        all.append(part);
    }
    for column in [&mut part.others.phase, &mut part.others.name] {
        for name in column {
            *name = names[name.index()];
        }
    }
    all.others.append(&mut part.others);
}

/// Appends everything outside the tables.
fn append_around(
    all: &mut DeviceTrace,
    part: &mut DeviceTrace,
    events: &mut IndexMap<NameId, u64, FxBuildHasher>,
    names: &[NameId],
) {
    let first_start = part.first_start.take();
    // No earlier chunk had an event, so this chunk's first event is the file's.
    if all.events.is_empty() {
        all.first_start = first_start;
    }
    let starts = all.recorded_from.into_iter();
    all.recorded_from = starts.chain(part.recorded_from.take()).min();
    for (name, count) in events.drain(..) {
        *all.events
            .entry(part.names.get(name).to_owned())
            .or_default() += count;
    }
    for (pid, name) in part.process_names.drain(..) {
        all.process_names
            .insert(renumber_label(pid, names), names[name.index()]);
    }
    for (thread, name) in part.thread_names.drain(..) {
        all.thread_names
            .insert(renumber_thread(thread, names), names[name.index()]);
    }
    for (node, note) in part.node_annotations.drain(..) {
        all.node_annotations.insert(node, names[note.index()]);
    }
    all.has_rf_ids |= part.has_rf_ids;
    all.anomalies.merge(std::mem::take(&mut part.anomalies));
    part.multiprocessors
        .drain(..)
        .for_each(|(device, count)| all.note_multiprocessors(device, count));
}

fn renumber_thread(thread: HostThread, names: &[NameId]) -> HostThread {
    HostThread {
        pid: renumber_label(thread.pid, names),
        tid: renumber_label(thread.tid, names),
    }
}

fn renumber_label(label: TrackLabel, names: &[NameId]) -> TrackLabel {
    match label {
        TrackLabel::Text(name) => TrackLabel::Text(names[name.index()]),
        number @ TrackLabel::Int(_) => number,
    }
}

/// Replaces the chunk's name numbers with the trace's.
fn renumber_names(part: &mut DeviceTrace, names: &[NameId]) {
    let DeviceTrace {
        ops,
        calls,
        rows,
        syncs,
        waits,
        stream_ops,
        auxiliary,
        memory,
        counter_ranges,
        collectives: c,
        ..
    } = part;
    let columns = [
        &mut ops.name,
        &mut ops.shapes,
        &mut ops.types,
        &mut ops.strides,
        &mut ops.values,
        &mut calls.name,
        &mut calls.kernel,
        &mut rows.name,
        &mut rows.category,
        &mut syncs.name,
        &mut waits.name,
        &mut auxiliary.name,
        &mut stream_ops.name,
        &mut memory.name,
        &mut counter_ranges.name,
        &mut counter_ranges.values,
        &mut c.name,
        &mut c.dtype,
        &mut c.in_split,
        &mut c.out_split,
        &mut c.group_name,
        &mut c.group_desc,
        &mut c.group_ranks,
        &mut c.comms_id,
    ];
    for column in columns {
        column
            .iter_mut()
            .for_each(|name| *name = names[name.index()]);
    }
}
