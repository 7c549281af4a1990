//! Assembles a device trace from tracks and events.

use crate::Error;
use crate::xla::event::{StreamWork, XlaEvent};
use crate::xla::hlo::{hlo_collective, is_async_mark};
use crate::xla::track::{LineKind, PlaneKind, XlaTrack};
use etlink_model::{
    Anomalies, AuxiliaryEvent, AuxiliaryKind, Collective, Correlation, CpuOp, DeviceQueue,
    DeviceRow, DeviceTrace, DeviceTraceAssembler, DurationNs, HostThread, KeepEvents, MarkedStep,
    NameId, Names, OpIdx, QueueIdx, RowKind, RuntimeCall, StepWork, ThreadIdx, TimeNs,
    TraceRecorder, TrackLabel, UnixNs,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Marks a name without a row in the table of collectives.
const NO_RECORD: u32 = u32::MAX;

/// Contents of a profile.
#[derive(Debug, Default)]
pub(crate) struct XlaProfile {
    pub(crate) names: Names,
    pub(crate) tracks: Vec<XlaTrack>,
    pub(crate) events: Vec<XlaEvent>,
    /// Number of Python frames that are not kept.
    pub(crate) frames: u64,
    /// Process id of the host.
    pub(crate) process: i64,
    /// `profile_start_time`: the origin of relative times; 0 if unknown.
    pub(crate) started: UnixNs,
    pub(crate) host_name: String,
    /// Errors and warnings of the profiler.
    pub(crate) diagnoses: Vec<String>,
    /// Device names by device number, as stated by planes.
    pub(crate) device_names: Vec<(i64, String)>,
    /// Core counts by device number, as stated by planes.
    pub(crate) core_counts: Vec<(i64, u32)>,
    pub(crate) anomalies: Anomalies,
    pub(crate) bytes: u64,
}

/// Destination of a track's events.
#[derive(Clone, Copy, Debug)]
enum Destination {
    /// Ops, calls and frames of a thread.
    Thread(ThreadIdx),
    /// Rows of a queue.
    Rows { queue: QueueIdx, kind: LineKind },
    /// Annotations of a device.
    Annotations,
    /// Steps shown by a device.
    Steps(ThreadIdx),
    /// Discarded: another view of events in other tracks.
    Nowhere,
}

/// Builds the device trace of a profile. O(events · log events).
pub(crate) fn assemble(profile: XlaProfile, keep: KeepEvents) -> Result<DeviceTrace, Error> {
    let XlaProfile {
        names,
        tracks,
        events,
        ..
    } = profile;
    let mut builder = TraceBuilder {
        assembler: DeviceTraceAssembler::default(),
        keep,
        records: FxHashMap::default(),
        step_names: FxHashSet::default(),
    };
    builder.assembler.trace.names = names;
    if profile.frames > 0 {
        builder
            .assembler
            .count_events("X python_function", profile.frames);
    }
    let marks_steps = events.iter().any(|event| event.step.is_some());
    let destinations = builder.place_tracks(&tracks, profile.process, marks_steps);
    let containers = nested_ops(&events, &destinations);
    let mut launches = vec![];
    for (place, event) in events.iter().enumerate() {
        let Some(destination) = destinations.get(event.track as usize) else {
            continue;
        };
        match *destination {
            Destination::Thread(thread) => {
                let is_launch = builder.push_host(event, thread);
                launches.extend(is_launch.then_some(place));
            }
            Destination::Rows { .. } if containers.contains(&place) => {
                builder.push_annotation(event);
            }
            Destination::Rows { queue, kind } => builder.push_row(event, queue, kind),
            Destination::Annotations => builder.push_annotation(event),
            Destination::Steps(thread) => builder.push_device_step(event, thread),
            Destination::Nowhere => builder.assembler.count_events("X xla_derived", 1),
        }
    }
    builder.push_launching_ops(&events, launches, &destinations);
    let TraceBuilder {
        mut assembler,
        step_names,
        ..
    } = builder;
    let trace = &mut assembler.trace;
    trace.anomalies.merge(profile.anomalies);
    trace.header.recorder = TraceRecorder::Xla;
    trace.header.host_name = profile.host_name;
    for text in &profile.diagnoses {
        trace.header.note_diagnosis(text);
    }
    trace.header.devices = names_by_number(profile.device_names);
    for (device, count) in profile.core_counts {
        trace.note_multiprocessors(device, count);
    }
    trace.bytes = profile.bytes;
    let mut trace = assembler.finish().ok_or(Error::TooManyRows)?;
    // The profiler subtracts its start from all times (`NormalizeTimestamps`). Old files lack this
    // step and hold Unix times.
    let is_relative = trace
        .window()
        .is_some_and(|(start, _)| start.0 < profile.started.0 / 2);
    if is_relative {
        trace.header.base_ns = profile.started;
    }
    trace.marked_steps = marked_steps(&trace, &step_names);
    Ok(trace)
}

/// Returns names in the order of the devices' numbers; empty if a number is missing.
fn names_by_number(mut names: Vec<(i64, String)>) -> Vec<String> {
    names.sort();
    names.dedup_by_key(|(device, _)| *device);
    let is_whole = names
        .iter()
        .zip(0..)
        .all(|((device, _), place)| *device == place);
    let texts = names.into_iter().map(|(_, name)| name);
    if is_whole {
        texts.collect()
    } else {
        // A misplaced name would be another device's.
        Default::default()
    }
}

/// Returns the steps of one thread, without nested ones; `None` if none are marked.
fn marked_steps(trace: &DeviceTrace, step_names: &FxHashSet<NameId>) -> Option<Vec<MarkedStep>> {
    let ops = &trace.ops;
    let mut steps = vec![];
    let mut last: Option<(ThreadIdx, TimeNs)> = None;
    for op in (0..ops.len()).filter(|op| ops.annotation[*op]) {
        let (thread, start) = (ops.thread[op], ops.start[op]);
        // Threads that train concurrently each have their steps; the first thread's are taken.
        let is_next = last.is_none_or(|(first, end)| first == thread && end <= start);
        if is_next && step_names.contains(&ops.name[op]) {
            last = Some((thread, start + ops.duration[op]));
            steps.push(MarkedStep {
                op: OpIdx::new(op),
                work: StepWork::default(),
            });
        }
    }
    (!steps.is_empty()).then_some(steps)
}

/// Finds events of `XLA Ops` that contain others, such as loops: their contents would be counted
/// twice. O(n log n).
fn nested_ops(events: &[XlaEvent], destinations: &[Destination]) -> FxHashSet<usize> {
    let is_op_line = |event: &XlaEvent| {
        let destination = destinations.get(event.track as usize);
        matches!(
            destination,
            Some(Destination::Rows {
                kind: LineKind::Ops,
                ..
            })
        )
    };
    let all = 0..events.len();
    let mut ordered: Vec<usize> = all.filter(|place| is_op_line(&events[*place])).collect();
    ordered.sort_by_key(|place| {
        let event = &events[*place];
        (event.track, event.start, std::cmp::Reverse(event.duration))
    });
    let mut containers = FxHashSet::default();
    let mut open: Vec<usize> = vec![];
    for place in ordered {
        let event = &events[place];
        // Drops events that have ended, and those on the previous line.
        while open
            .pop_if(|around| !holds(&events[*around], event))
            .is_some()
        {}
        containers.extend(open.last().copied());
        open.push(place);
    }
    containers
}

/// Returns true if an event is within an earlier one on its line.
fn holds(around: &XlaEvent, event: &XlaEvent) -> bool {
    let (end, inner_end) = (around.start + around.duration, event.start + event.duration);
    // Two points at the same time do not contain each other.
    around.track == event.track && event.start < end && inner_end <= end
}

struct TraceBuilder {
    assembler: DeviceTraceAssembler,
    keep: KeepEvents,
    /// Record of each collective, by name.
    records: FxHashMap<NameId, u32>,
    step_names: FxHashSet<NameId>,
}

impl TraceBuilder {
    fn place_tracks(
        &mut self,
        tracks: &[XlaTrack],
        process: i64,
        marks_steps: bool,
    ) -> Vec<Destination> {
        let line_kind = |track: &XlaTrack| LineKind::of(&track.line_name);
        let streams = tracks
            .iter()
            .filter(|track| matches!(line_kind(track), LineKind::Stream(_)));
        let with_streams: FxHashSet<i64> = streams.map(|track| track.plane).collect();
        let mut step_plane = None;
        let mut destinations = vec![];
        for track in tracks {
            let (number, part) = match PlaneKind::of(&track.plane_name) {
                PlaneKind::Device { number, part } => (number, part),
                PlaneKind::Host => {
                    destinations.push(self.place_thread(track, process, track.line));
                    continue;
                }
                PlaneKind::Other => {
                    destinations.push(Destination::Nowhere);
                    continue;
                }
            };
            let kind = line_kind(track);
            let has_streams = with_streams.contains(&track.plane);
            destinations.push(match kind {
                // The profiler derives ops from streams: they show the same work again
                // (`GenerateDerivedTimeLines`).
                LineKind::Ops | LineKind::AsyncOps if has_streams => Destination::Nowhere,
                LineKind::Stream(_) | LineKind::Ops | LineKind::AsyncOps => {
                    let stream = match kind {
                        LineKind::Stream(stream) => stream,
                        _ => track.line,
                    };
                    let queue = self.assembler.queue_index(DeviceQueue {
                        device: number,
                        context: part,
                        stream,
                    });
                    Destination::Rows { queue, kind }
                }
                LineKind::Modules => Destination::Annotations,
                // Devices show the same steps, and steps marked on the host are the program's own.
                LineKind::Steps
                    if !marks_steps && *step_plane.get_or_insert(track.plane) == track.plane =>
                {
                    // No operating system has negative thread ids.
                    match self.place_thread(track, process, -1 - number) {
                        Destination::Thread(thread) => Destination::Steps(thread),
                        other => other,
                    }
                }
                LineKind::Steps | LineKind::Derived => Destination::Nowhere,
            });
        }
        destinations
    }

    fn place_thread(&mut self, track: &XlaTrack, pid: i64, tid: i64) -> Destination {
        let thread = self.assembler.thread_index(pid, tid);
        let trace = &mut self.assembler.trace;
        let name = trace.names.intern(&track.line_name);
        if name != NameId::EMPTY {
            let (pid, tid) = (TrackLabel::Int(pid), TrackLabel::Int(tid));
            trace.thread_names.insert(HostThread { pid, tid }, name);
        }
        Destination::Thread(thread)
    }

    /// Files an event of the host. Returns true if it is a call that launches an HLO op's work.
    fn push_host(&mut self, event: &XlaEvent, thread: ThreadIdx) -> bool {
        let text = self.assembler.trace.names.get(event.name);
        if text.starts_with('$') {
            self.push_auxiliary(event, AuxiliaryKind::Python, thread);
            self.assembler.count_events("X python_function", 1);
        } else if event.correlation != Correlation::NONE {
            self.assembler.count_events("X cuda_runtime", 1);
            self.assembler.trace.calls.push(RuntimeCall {
                name: event.name,
                thread,
                start: event.start,
                duration: event.duration,
                correlation: event.correlation,
                external_id: -1,
                kernel: NameId::EMPTY,
            });
            return event.hlo != NameId::EMPTY;
        } else if event.is_instant {
            self.assembler.count_events("i host_instant", 1);
        } else if let Some(step) = event.step {
            let name = format!("{text}#{step}");
            self.push_step(event, thread, &name);
        } else {
            self.push_op(event.name, thread, (event.start, event.duration));
        }
        false
    }

    fn push_op(&mut self, name: NameId, thread: ThreadIdx, span: (TimeNs, DurationNs)) {
        self.assembler.count_events("X cpu_op", 1);
        let op = host_op(name, thread, span);
        self.assembler.trace.ops.push(op);
    }

    fn push_step(&mut self, event: &XlaEvent, thread: ThreadIdx, name: &str) {
        self.assembler.count_events("X user_annotation", 1);
        let name = self.assembler.intern(name);
        self.step_names.insert(name);
        let op = CpuOp {
            annotation: true,
            ..host_op(name, thread, (event.start, event.duration))
        };
        self.assembler.trace.ops.push(op);
    }

    /// Adds a step that only devices show; its name is a number.
    fn push_device_step(&mut self, event: &XlaEvent, thread: ThreadIdx) {
        let name = format!("step#{}", self.assembler.trace.names.get(event.name));
        self.push_step(event, thread, &name);
    }

    /// Adds an execution of a program or a loop on a device.
    fn push_annotation(&mut self, event: &XlaEvent) {
        self.push_auxiliary(event, AuxiliaryKind::DeviceAnnotation, ThreadIdx::NONE);
        self.assembler.count_events("X gpu_user_annotation", 1);
    }

    fn push_auxiliary(&mut self, event: &XlaEvent, kind: AuxiliaryKind, thread: ThreadIdx) {
        if self.keep >= KeepEvents::Auxiliary {
            self.assembler.trace.auxiliary.push(AuxiliaryEvent {
                kind,
                name: event.name,
                thread,
                start: event.start,
                duration: event.duration,
            });
        }
    }

    fn push_row(&mut self, event: &XlaEvent, queue: QueueIdx, line: LineKind) {
        let name = self.assembler.trace.names.get(event.name);
        // Start and end of an asynchronous op are points on the line of ops. The op itself, between
        // them, is on a separate line.
        let is_mark = line == LineKind::Ops && is_async_mark(name);
        let (kind, category) = match event.details.work {
            StreamWork::Memory => return self.assembler.count_events("i gpu_memory", 1),
            StreamWork::Memcpy => (RowKind::Memcpy, "gpu_memcpy"),
            StreamWork::Memset => (RowKind::Memset, "gpu_memset"),
            StreamWork::Kernel if line == LineKind::AsyncOps && name.starts_with("copy") => {
                (RowKind::Memcpy, "gpu_memcpy")
            }
            StreamWork::Kernel => (RowKind::Kernel, "kernel"),
        };
        // A kernel has NCCL's name, and its op the collective's.
        let hlo = match line {
            _ if is_mark => NameId::EMPTY,
            LineKind::Stream(_) if name.starts_with("nccl") => event.hlo,
            LineKind::Stream(_) => NameId::EMPTY,
            _ => event.name,
        };
        let collective = self.record(hlo);
        self.assembler.count_events(&format!("X {category}"), 1);
        let category = self.assembler.intern(category);
        self.assembler.trace.rows.push(DeviceRow {
            kind,
            category,
            name: event.name,
            queue,
            start: event.start,
            duration: event.duration,
            correlation: event.correlation,
            external_id: -1,
            bytes: event.details.bytes,
            gb_per_s: -1.0,
            grid: event.details.grid,
            block: event.details.block,
            graph_node: 0,
            collective,
        });
    }

    /// Returns the record of a collective, by the name of its HLO op. Profiles contain neither
    /// sizes nor groups.
    fn record(&mut self, hlo: NameId) -> u32 {
        let trace = &mut self.assembler.trace;
        let Some(kind) = hlo_collective(trace.names.get(hlo)) else {
            return NO_RECORD;
        };
        let name = trace.names.intern(kind.name());
        let records = &mut trace.collectives;
        *self.records.entry(name).or_insert_with(|| {
            records.push(Collective {
                name,
                ..Collective::absent()
            });
            u32::try_from(records.len() - 1).unwrap_or(NO_RECORD)
        })
    }

    /// Wraps consecutive calls of a thread that launch the same HLO op's work in an op, as Kineto's
    /// ops enclose their launches.
    fn push_launching_ops(
        &mut self,
        events: &[XlaEvent],
        mut launches: Vec<usize>,
        destinations: &[Destination],
    ) {
        launches.sort_by_key(|place| (events[*place].track, events[*place].start));
        let same_op = |a: &usize, b: &usize| {
            let (a, b) = (&events[*a], &events[*b]);
            (a.track, a.hlo, a.module) == (b.track, b.hlo, b.module)
        };
        for calls in launches.chunk_by(same_op) {
            let first = &events[calls[0]];
            let ends = calls.iter().map(|place| &events[*place]);
            let end = ends.map(|call| call.start + call.duration).max();
            let thread = destinations.get(first.track as usize);
            if let (Some(Destination::Thread(thread)), Some(end)) = (thread, end) {
                self.push_op(first.hlo, *thread, (first.start, end - first.start));
            }
        }
    }
}

/// Builds a host op from name, thread and times alone.
fn host_op(name: NameId, thread: ThreadIdx, (start, duration): (TimeNs, DurationNs)) -> CpuOp {
    CpuOp {
        name,
        thread,
        start,
        duration,
        external_id: -1,
        seq_id: -1,
        collective: NO_RECORD,
        ..CpuOp::default()
    }
}
