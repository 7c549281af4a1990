//! Converts a Perfetto trace of PyTorch's own CUPTI collector to the Kineto JSON that the collector
//! writes for the same recording.
//!
//! ```text
//! clock snapshot ──────────────> "baseTimeNanoseconds"
//! begin and end of a range ────> {"ph": "X", "cat": "cpu_op", …, "args": {…}}
//! render stage of a GPU ───────> {"ph": "X", "cat": "kernel", "args": {"correlation": …}}
//! events that a stage waits for > {"ph": "s"}, {"ph": "f"}: dependencies in a CUDA graph
//! ```
//! Source: `_window_to_pftrace` in `torch/profiler/_cuspy/trace.py` and `cuspy_pftrace.cpp` of
//! PyTorch 2.15. The writer shortens overlapping rows of a queue, and omits the direction of copies
//! and `distributedInfo`. Memory is the open ranges, which are one group of the writer's (all
//! ranges of the host, all calls), plus the positions of rows.

use crate::pftrace::schema::compute_kernel_launch::Dim3;
use crate::pftrace::schema::track_event::Type;
use crate::pftrace::schema::{
    BuiltinClock, DebugAnnotation, GpuRenderStageEvent, InternedString, TracePacket,
    TrackDescriptor, TrackEvent,
};
use crate::pftrace::strings::{put_number, put_plain_value, put_text};
use crate::pftrace::text_reader::{EventText, PacketConverter, TextReader};
use crate::pftrace::words::CUT_ROWS_KEY;
use etlink_json::write::micros;
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;

/// Id of the first arrow between graph nodes (`_GRAPH_DEP_FLOW_ID_BASE`).
const FIRST_ARROW: u64 = 1 << 40;

/// Names of GPU stages, with their categories in Kineto's JSON (`_RENDER_STAGES`).
const STAGES: [(&str, &str); 6] = [
    ("Kernel", "kernel"),
    ("Memcpy", "gpu_memcpy"),
    ("Memset", "gpu_memset"),
    ("Annotation", "gpu_user_annotation"),
    ("EventRecord", "graph_event_node"),
    ("HostNode", "graph_host_node"),
];

/// Numeric arguments of render stages, with their names in Kineto's JSON (`_RENDER_EXTRA`).
const NUMBERS: [(&str, &str); 11] = [
    ("device id", "device"),
    ("context id", "context"),
    ("correlation", "correlation"),
    ("priority", "priority"),
    ("queued", "queued"),
    ("channel", "channel"),
    ("channel_type", "channel_type"),
    ("graph id", "graph id"),
    ("graph node id", "graph node id"),
    ("bytes", "bytes"),
    ("value", "value"),
];

/// Arguments of the trace, not of the row (`_gpu_panel_const_extra`).
const OF_TRACE: [&str; 3] = ["arch", "process_id", "process_name"];

/// Returns the JSON text of a Kineto trace, made from the packets of `source`, which must begin like
/// [`PerfettoOrigin::Torch`](crate::pftrace::PerfettoOrigin).
///
/// A truncated or damaged file ends the text early, with an error that states the position in the
/// file.
pub fn torch_text<R: Read>(source: R) -> impl Read {
    TextReader::new(source, TorchConverter::default())
}

#[derive(Debug, Default)]
struct TorchConverter {
    out: EventText,
    /// Reading of the trace's clock at the base time.
    base: i64,
    tracks: BTreeMap<u64, ThreadPlace>,
    names: BTreeMap<u64, String>,
    categories: BTreeMap<u64, String>,
    specifications: BTreeMap<u64, String>,
    /// Open ranges per track. Each group has all its begins first and then its ends, in the same
    /// order.
    open: BTreeMap<u64, VecDeque<OpenSlice>>,
    /// Positions of graph nodes.
    nodes: BTreeMap<u64, NodePlace>,
    /// Pairs of graph nodes: the waiting one, and the one it waits for.
    waits: Vec<(u64, u64)>,
    /// Positions of rows, from which shortened ones are counted.
    rows: Vec<LaneRow>,
}

/// A thread, or a queue of a GPU.
#[derive(Clone, Copy, Debug)]
struct ThreadPlace {
    pid: i32,
    tid: i32,
    /// True for the track with the profiler's own work.
    is_overhead: bool,
}

/// A range that has begun but not ended.
#[derive(Debug)]
struct OpenSlice {
    start: i64,
    /// Text of the event, with the position of its duration.
    text: Vec<u8>,
    duration_at: usize,
}

/// A row on its lane; sorts by lane and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LaneRow {
    gpu: i32,
    lane: i64,
    start: i64,
    end: i64,
    /// Stream that ran the row; differs from the lane if the row was moved.
    stream: i64,
}

/// Position of a graph's row.
#[derive(Clone, Copy, Debug)]
struct NodePlace {
    gpu: i32,
    lane: i64,
    start: i64,
    end: i64,
}

impl PacketConverter for TorchConverter {
    fn out(&mut self) -> &mut EventText {
        &mut self.out
    }

    fn add_packet(&mut self, packet: TracePacket) -> Result<(), String> {
        if let Some(snapshot) = &packet.clock_snapshot {
            let clock = |id: BuiltinClock| {
                let mut clocks = snapshot.clocks.iter();
                let clock = clocks.find(|clock| clock.clock_id() == id as u32)?;
                i64::try_from(clock.timestamp()).ok()
            };
            let boot = clock(BuiltinClock::Boottime).ok_or("its clock is out of range")?;
            let real = clock(BuiltinClock::Realtime).ok_or("its clock is out of range")?;
            if !self.out.has_begun {
                self.base = boot;
                self.begin_events(real);
            }
        }
        if let Some(track) = &packet.track_descriptor {
            self.add_track(track)?;
        }
        if let Some(data) = &packet.interned_data {
            learn(&mut self.names, &data.event_names);
            learn(&mut self.categories, &data.event_categories);
            learn(&mut self.specifications, &data.gpu_specifications);
        }
        if packet.track_event.is_none() && packet.gpu_render_stage_event.is_none() {
            return Ok(());
        }
        let at = packet.timestamp.and_then(|at| i64::try_from(at).ok());
        let at = at.and_then(|at| at.checked_sub(self.base));
        let at = at.ok_or("its time is out of range")?;
        if let Some(event) = &packet.track_event {
            self.add_event(at, event)?;
        }
        match &packet.gpu_render_stage_event {
            Some(stage) => self.add_stage(at, stage),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), &'static str> {
        if self.open.values().any(|open| !open.is_empty()) {
            return Err("its ranges end");
        }
        self.put_arrows();
        self.begin_events(0);
        self.out.text.extend_from_slice(b"\n]");
        let cut = self.count_cut_rows();
        if cut > 0 {
            let cut = format!(", \"{CUT_ROWS_KEY}\": {cut}");
            self.out.text.extend_from_slice(cut.as_bytes());
        }
        self.out.text.extend_from_slice(b"}\n");
        Ok(())
    }

    fn give_up(&mut self) {
        // graph nodes read so far are valid
        self.put_arrows();
    }
}

impl TorchConverter {
    /// Counts rows that end exactly when the next one on their lane, from another stream, begins:
    /// the writer shortens overlapping rows to that point, and by chance rows of two streams hardly
    /// ever meet to the nanosecond. O(rows log rows).
    fn count_cut_rows(&mut self) -> usize {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_unstable();
        let pairs = rows.windows(2).filter(|pair| {
            let (row, next) = (pair[0], pair[1]);
            (row.gpu, row.lane) == (next.gpu, next.lane)
                && row.end == next.start
                && row.stream != next.stream
        });
        pairs.count()
    }

    /// Adds a track, which is a process or a thread, with its name.
    fn add_track(&mut self, track: &TrackDescriptor) -> Result<(), String> {
        if let Some(process) = &track.process {
            let name = process.process_name();
            return self.put_name("process_name", process.pid(), 0, name);
        }
        let Some(thread) = &track.thread else {
            return Ok(());
        };
        let place = ThreadPlace {
            pid: thread.pid(),
            tid: thread.tid(),
            is_overhead: thread.thread_name() == "Overhead",
        };
        self.tracks.insert(track.uuid(), place);
        self.put_name("thread_name", place.pid, place.tid, thread.thread_name())
    }

    fn put_name(&mut self, what: &str, pid: i32, tid: i32, name: &str) -> Result<(), String> {
        let mut event = format!(
            "{{\"name\": \"{what}\", \"ph\": \"M\", \"pid\": {pid}, \"tid\": {tid}, \
             \"args\": {{\"name\": "
        )
        .into_bytes();
        put_text(&mut event, name)?;
        event.extend_from_slice(b"}}");
        self.put_event(&event);
        Ok(())
    }

    fn add_event(&mut self, at: i64, event: &TrackEvent) -> Result<(), String> {
        match event.r#type() {
            Type::SliceBegin => self.begin_slice(at, event),
            Type::SliceEnd => self.end_slice(at, event.track_uuid()),
            // the writer makes no other kinds
            _ => Ok(()),
        }
    }

    fn begin_slice(&mut self, at: i64, event: &TrackEvent) -> Result<(), String> {
        let uuid = event.track_uuid();
        let place = self.tracks.get(&uuid);
        let place = *place.ok_or("its event is on an undescribed track")?;
        let category = event.category_iids.first();
        let category = category.and_then(|iid| self.categories.get(iid));
        let mut annotations = event.debug_annotations.iter();
        let is_sync = annotations.any(|annotation| annotation.name() == "cuda_sync_kind");
        // waiting calls and the profiler's own work are written without a category
        let category = match category {
            Some(category) => category.as_str(),
            None if is_sync => "cuda_sync",
            None if place.is_overhead => "overhead",
            None => "",
        };
        let name = self.names.get(&event.name_iid()).map_or("", |name| name);
        let mut text = begin_event(category, name)?;
        put_place(&mut text, i64::from(place.pid), i64::from(place.tid), at)?;
        let duration_at = text.len();
        if !event.debug_annotations.is_empty() {
            text.extend_from_slice(b", \"args\": ");
            put_object(&mut text, &event.debug_annotations)?;
        }
        text.push(b'}');
        self.open.entry(uuid).or_default().push_back(OpenSlice {
            start: at,
            text,
            duration_at,
        });
        Ok(())
    }

    fn end_slice(&mut self, at: i64, uuid: u64) -> Result<(), String> {
        let open = self.open.get_mut(&uuid).and_then(VecDeque::pop_front);
        let open = open.ok_or("a range ends without a start")?;
        let (head, tail) = open.text.split_at(open.duration_at);
        let mut event = head.to_vec();
        // Overlapping rows of a queue are shortened, at worst to nothing.
        put_duration(&mut event, at.saturating_sub(open.start).max(0))?;
        event.extend_from_slice(tail);
        self.put_event(&event);
        Ok(())
    }

    /// Adds work on a GPU.
    fn add_stage(&mut self, at: i64, stage: &GpuRenderStageEvent) -> Result<(), String> {
        let what = self.specifications.get(&stage.stage_iid());
        let what = what.ok_or("its stage has no name")?.clone();
        let category = STAGES.iter().find(|(name, _)| *name == what);
        let (_, category) = category.ok_or("its stage is not one of PyTorch's")?;
        let extra = |key: &str| {
            let mut all = stage.extra_data.iter();
            all.find(|data| data.name() == key).map(|data| data.value())
        };
        let stream: i64 = extra("stream id")
            .and_then(|stream| stream.parse().ok())
            .unwrap_or(0);
        let queue = self.specifications.get(&stage.hw_queue_iid());
        let lane = queue.and_then(|name| lane_number(name)).unwrap_or(stream);
        let named = self.names.get(&stage.name_iid());
        let name = match (named, extra("host fn")) {
            (Some(name), _) => name.clone(),
            // named as in the JSON
            (None, Some(function)) => format!("{what}: {function}"),
            (None, None) => what,
        };
        let duration = i64::try_from(stage.duration()).unwrap_or(0);
        // annotations enclose rows, and are never shortened
        if *category != "gpu_user_annotation" {
            self.rows.push(LaneRow {
                gpu: stage.gpu_id(),
                lane,
                start: at,
                end: at.saturating_add(duration),
                stream,
            });
        }
        let mut text = begin_event(category, &name)?;
        put_place(&mut text, i64::from(stage.gpu_id()), lane, at)?;
        put_duration(&mut text, duration)?;
        text.extend_from_slice(format!(", \"args\": {{\"stream\": {lane}").as_bytes());
        if lane != stream {
            text.extend_from_slice(format!(", \"original_stream\": {stream}").as_bytes());
        }
        if let Some(launch) = &stage.launch {
            put_dims(&mut text, "grid", launch.grid_size.as_ref());
            put_dims(&mut text, "block", launch.workgroup_size.as_ref());
        }
        for data in &stage.extra_data {
            let (key, value) = (data.name(), data.value());
            if key == "stream id" || OF_TRACE.contains(&key) {
                continue;
            }
            let numeric = NUMBERS.iter().find(|(name, _)| *name == key);
            text.extend_from_slice(b", ");
            put_text(&mut text, numeric.map_or(key, |(_, name)| name))?;
            text.extend_from_slice(b": ");
            match value.parse::<i64>() {
                Ok(value) if numeric.is_some() => put_number(&mut text, value)?,
                _ => put_text(&mut text, value)?,
            }
        }
        text.extend_from_slice(b"}}");
        self.put_event(&text);
        if extra("graph node id").is_some() {
            let place = NodePlace {
                gpu: stage.gpu_id(),
                lane,
                start: at,
                end: at.saturating_add(duration),
            };
            self.nodes.insert(stage.event_id(), place);
            let causes = stage.event_wait_ids.iter();
            self.waits
                .extend(causes.map(|cause| (*cause, stage.event_id())));
        }
        Ok(())
    }

    /// Appends the dependencies between graph nodes: a node can wait for one that comes later in
    /// the file.
    fn put_arrows(&mut self) {
        let waits = std::mem::take(&mut self.waits);
        for (id, (cause, effect)) in (FIRST_ARROW..).zip(waits) {
            let (Some(&from), Some(&to)) = (self.nodes.get(&cause), self.nodes.get(&effect)) else {
                continue;
            };
            let sides = [
                ("s", from, from.end, ""),
                ("f", to, to.start, ", \"bp\": \"e\""),
            ];
            for (phase, place, at, more) in sides {
                let mut event = format!(
                    "{{\"ph\": \"{phase}\", \"id\": {id}, \"cat\": \"ac2g\", \"name\": \"ac2g\""
                )
                .into_bytes();
                // a time that cannot be formatted belongs to no row
                if put_place(&mut event, i64::from(place.gpu), place.lane, at).is_ok() {
                    event.extend_from_slice(more.as_bytes());
                    event.push(b'}');
                    self.put_event(&event);
                }
            }
        }
    }

    fn put_event(&mut self, event: &[u8]) {
        self.begin_events(0);
        self.out.put_event(&[event]);
    }

    /// Writes the text before the events; `real` is the base time in ns since the Unix epoch.
    fn begin_events(&mut self, real: i64) {
        self.out.begin(|| {
            format!("{{\"schemaVersion\": 1, \"baseTimeNanoseconds\": {real},\n\"traceEvents\": [")
        });
    }
}

fn learn(known: &mut BTreeMap<u64, String>, strings: &[InternedString]) {
    for string in strings {
        known.insert(string.iid(), string.name().to_owned());
    }
}

/// Parses the number at the start of a queue's name: `[0013] stream 13`.
fn lane_number(name: &str) -> Option<i64> {
    let (number, _) = name.strip_prefix('[')?.split_once(']')?;
    // written as the 32 bits of a signed number
    let number: u32 = number.parse().ok()?;
    Some(i64::from(number as i32))
}

fn begin_event(category: &str, name: &str) -> Result<Vec<u8>, String> {
    let mut event = b"{\"ph\": \"X\"".to_vec();
    if !category.is_empty() {
        event.extend_from_slice(b", \"cat\": ");
        put_text(&mut event, category)?;
    }
    event.extend_from_slice(b", \"name\": ");
    put_text(&mut event, name)?;
    Ok(event)
}

fn put_place(out: &mut Vec<u8>, pid: i64, tid: i64, at: i64) -> Result<(), String> {
    let place = format!(", \"pid\": {pid}, \"tid\": {tid}, \"ts\": ");
    out.extend_from_slice(place.as_bytes());
    micros(out, at).map_err(|error| error.to_string())
}

fn put_duration(out: &mut Vec<u8>, ns: i64) -> Result<(), String> {
    out.extend_from_slice(b", \"dur\": ");
    micros(out, ns).map_err(|error| error.to_string())
}

fn put_dims(out: &mut Vec<u8>, key: &str, dims: Option<&Dim3>) {
    if let Some(dims) = dims {
        let (x, y, z) = (dims.x(), dims.y(), dims.z());
        out.extend_from_slice(format!(", \"{key}\": [{x}, {y}, {z}]").as_bytes());
    }
}

fn put_object(out: &mut Vec<u8>, entries: &[DebugAnnotation]) -> Result<(), String> {
    out.push(b'{');
    for (place, entry) in entries.iter().enumerate() {
        out.extend_from_slice(if place > 0 { b", " } else { b"" });
        put_text(out, entry.name())?;
        out.extend_from_slice(b": ");
        put_value(out, entry)?;
    }
    out.push(b'}');
    Ok(())
}

/// Appends the value of an argument. The decoder limits the nesting of messages, and so of values,
/// to 100 (`RECURSION_LIMIT` of prost).
fn put_value(out: &mut Vec<u8>, value: &DebugAnnotation) -> Result<(), String> {
    if put_plain_value(out, value)? {
        return Ok(());
    }
    if !value.dict_entries.is_empty() {
        return put_object(out, &value.dict_entries);
    }
    // an empty object has no entries either, and is indistinguishable from an empty list
    out.push(b'[');
    for (place, item) in value.array_values.iter().enumerate() {
        out.extend_from_slice(if place > 0 { b", " } else { b"" });
        put_value(out, item)?;
    }
    out.push(b']');
    Ok(())
}
