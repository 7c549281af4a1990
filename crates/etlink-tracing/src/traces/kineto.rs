//! Writes the device trace: Chrome JSON as Kineto writes it (`libkineto/src/output_json.cpp`), with
//! times in microseconds with three decimals.
//!
//! Events are ordered by start. A device is the process with its number, a stream a thread of it.
//! Runtime calls have the category `cuda_runtime`, as HIP's have too, so every reader knows them.

use super::details::SpanDetails;
use super::facts::{SpanFacts, SpanRole};
use super::window::{SpanRun, SpanWindow};
use crate::ProgramInfo;
use crate::spans::{FieldValue, process_name};
use etlink_formats::kineto::{
    CompleteEvent, EventArguments, FlowEvent, KinetoHeader, KinetoVersion, KinetoWriteOptions,
    KinetoWriter, TrackKey,
};
use rustc_hash::FxHashMap;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Unit of `baseTimeNanoseconds`: a quarter of a year (`ChromeTraceBaseTime`,
/// `libkineto/src/output_json.cpp`).
const TRIMONTH_NS: i64 = 7_889_238 * 1_000_000_000;

/// Writes the trace. O(n log n); needs memory for one event and the launches.
pub(crate) fn write(
    window: &SpanWindow,
    program: &ProgramInfo,
    name: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    // Readers with 64-bit floats keep nanoseconds only for small times.
    let base = window.start - window.start.rem_euclid(TRIMONTH_NS);
    let options = KinetoWriteOptions {
        version: KinetoVersion::Torch2_15,
        verbatim: false,
    };
    let mut encoder = KinetoEncoder {
        window,
        launches: launching_calls(window),
        base,
        pid: i64::from(std::process::id()),
        flows: 0,
        index: 0,
        writer: KinetoWriter::new(out, &trace_header(window, program, base), options)?,
    };
    encoder.write_processes()?;
    for run in &window.ran {
        encoder.write_run(run)?;
    }
    encoder.write_end()?;
    encoder.writer.finish(name, &[])?;
    Ok(())
}

/// Returns the call that launched each correlation.
fn launching_calls(window: &SpanWindow) -> FxHashMap<i64, usize> {
    let calls = window
        .ran
        .iter()
        .enumerate()
        .filter(|(_, ran)| window.facts(ran).role == SpanRole::Call);
    calls
        .filter_map(|(row, ran)| Some((window.facts(ran).correlation?, row)))
        .collect()
}

/// Returns the streams of each device.
fn device_streams(window: &SpanWindow) -> BTreeMap<i64, BTreeSet<i64>> {
    let mut devices: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for facts in window.ran.iter().map(|ran| window.facts(ran)) {
        if let Some(stream) = facts.stream {
            devices.entry(facts.device).or_default().insert(stream);
        }
    }
    devices
}

fn trace_header(window: &SpanWindow, program: &ProgramInfo, base: i64) -> KinetoHeader {
    let devices = device_streams(window)
        .keys()
        .enumerate()
        .map(|(at, number)| {
            let name = program.devices.get(at).map_or("device", String::as_str);
            json!({"id": number, "name": name}).to_string()
        })
        .collect();
    // PyTorch writes this key if shapes were recorded, which is always true here.
    let mut metadata = vec![("record_shapes".to_owned(), "1".to_owned())];
    if let Some(rank) = program.rank {
        let mut info = json!({"backend": program.backend, "rank": rank});
        if let Some(world_size) = program.world_size {
            info["world_size"] = world_size.into();
        }
        metadata.push(("distributedInfo".to_owned(), info.to_string()));
    }
    KinetoHeader {
        base_ns: base,
        devices,
        metadata,
    }
}

/// Process and thread, or device and stream.
type Track = (i64, i64);

struct KinetoEncoder<'a, W> {
    window: &'a SpanWindow,
    launches: FxHashMap<i64, usize>,
    base: i64,
    pid: i64,
    /// Number of forward-backward arrows so far.
    flows: i64,
    /// Value of the next `Ev Idx`.
    index: u64,
    writer: KinetoWriter<W>,
}

impl<W: Write> KinetoEncoder<'_, W> {
    /// Writes the names of processes and threads.
    fn write_processes(&mut self) -> io::Result<()> {
        let (window, pid, name) = (self.window, self.pid, process_name());
        self.write_process(pid, &name, "CPU", pid)?;
        for thread in &window.threads {
            // The form of Kineto's own names, from which readers take the number.
            let name = format!("thread {} ({})", thread.os_tid, thread.name);
            self.write_thread(pid, thread.os_tid as i64, &name)?;
        }
        for (device, streams) in device_streams(window) {
            // Kineto sorts devices after all processes.
            let sort_index = 5_000_000 + device;
            self.write_process(device, &name, &format!("GPU {device}"), sort_index)?;
            for stream in streams {
                // Kineto also writes the trailing space.
                self.write_thread(device, stream, &format!("stream {stream} "))?;
            }
        }
        Ok(())
    }

    fn write_process(
        &mut self,
        pid: i64,
        name: &str,
        labels: &str,
        sort_index: i64,
    ) -> io::Result<()> {
        let (name, labels) = (json!(name).to_string(), json!(labels).to_string());
        self.write_metadata("process_name", (pid, 0), ("name", &name))?;
        self.write_metadata("process_labels", (pid, 0), ("labels", &labels))?;
        let sort_index = sort_index.to_string();
        self.write_metadata("process_sort_index", (pid, 0), ("sort_index", &sort_index))
    }

    fn write_thread(&mut self, pid: i64, tid: i64, name: &str) -> io::Result<()> {
        let (name, sort_index) = (json!(name).to_string(), tid.to_string());
        self.write_metadata("thread_name", (pid, tid), ("name", &name))?;
        self.write_metadata("thread_sort_index", (pid, tid), ("sort_index", &sort_index))
    }

    fn write_metadata(
        &mut self,
        what: &str,
        (pid, tid): Track,
        argument: (&str, &str),
    ) -> io::Result<()> {
        let track = (TrackKey::Number(pid), TrackKey::Number(tid));
        let start = self.window.start - self.base;
        self.writer.metadata(what, track, start, argument)
    }

    /// Returns process and thread of a range.
    fn track_of_run(&self, run: &SpanRun, facts: &SpanFacts) -> Track {
        match facts.stream {
            Some(stream) => (facts.device, stream),
            None => (self.pid, self.window.threads[run.thread].os_tid as i64),
        }
    }

    fn write_run(&mut self, run: &SpanRun) -> io::Result<()> {
        let window = self.window;
        let facts = window.facts(run);
        let details = SpanDetails::of(window, run);
        let event = CompleteEvent {
            external_id: self.external_id(run, facts),
            ..self.complete_event(
                event_category(facts),
                &facts.name,
                self.track_of_run(run, facts),
                run,
            )
        };
        let index = self.index;
        self.writer.complete(&event, |args| {
            role_arguments(args, window, run, index, &details)?;
            if !facts.role.is_op()
                && let Some(id) = facts.correlation
            {
                args.number("correlation", id)?;
            }
            program_arguments(args, &details)
        })?;
        // `Ev Idx` counts PyTorch's own events; calls and kernels are not among them.
        self.index += u64::from(facts.role.is_op());
        self.write_flows(run, facts)?;
        if facts.role == SpanRole::Call {
            self.write_sync(run, facts)
        } else {
            Ok(())
        }
    }

    fn complete_event<'e>(
        &self,
        category: &'e str,
        name: &'e str,
        (pid, tid): Track,
        run: &SpanRun,
    ) -> CompleteEvent<'e> {
        CompleteEvent {
            category,
            name,
            pid: TrackKey::Number(pid),
            tid: TrackKey::Number(tid),
            start_ns: run.start - self.base,
            duration_ns: run.end - run.start,
            external_id: None,
        }
    }

    /// Returns the op that a range belongs to: an op itself, the op around a call, or the op around
    /// a row's launch call.
    fn external_id(&self, run: &SpanRun, facts: &SpanFacts) -> Option<i64> {
        let window = self.window;
        let launch = facts.correlation.and_then(|id| self.launches.get(&id));
        let parent = match facts.role {
            SpanRole::Op | SpanRole::Annotation => return Some(run.rf_id as i64),
            SpanRole::Call => run.parent,
            // Kineto gives a kernel the op of its launch, not the op running at the kernel's time.
            SpanRole::Row => launch.and_then(|row| window.ran[*row].parent),
        };
        parent.map(|parent| window.ran[parent].rf_id as i64)
    }

    /// Writes the wait of a call, or of the stream that the call makes wait.
    fn write_sync(&mut self, run: &SpanRun, facts: &SpanFacts) -> io::Result<()> {
        let Some(stream) = facts.sync_stream else {
            return Ok(());
        };
        // Readers match Kineto's names of these kinds exactly.
        let kind = match facts.wait_on_stream {
            Some(_) => "Stream Wait Event",
            // CUPTI uses stream -1 for a wait for the whole device.
            None if stream < 0 => "Context Sync",
            None => "Stream Sync",
        };
        let event = self.complete_event("cuda_sync", kind, (facts.device, stream), run);
        self.writer.complete(&event, |args| {
            args.text("cuda_sync_kind", kind)?;
            if let Some(wait_on_stream) = facts.wait_on_stream {
                let record = facts.wait_on_record.unwrap_or(-1);
                args.number("wait_on_stream", wait_on_stream)?;
                args.number("wait_on_cuda_event_record_corr_id", record)?;
                // Readers pair waits with records by correlation; the event id is unknown here.
                args.number("wait_on_cuda_event_id", 0)?;
            }
            args.number("stream", stream)?;
            args.number("correlation", facts.correlation)?;
            args.number("device", facts.device)?;
            args.number("context", 1)
        })
    }

    /// Writes arrows from launch to row and from forward to backward.
    fn write_flows(&mut self, run: &SpanRun, facts: &SpanFacts) -> io::Result<()> {
        let track = self.track_of_run(run, facts);
        // Viewers draw the arrow from the call's `s` to the row's `f`, which share the id.
        if let (Some(correlation), false) = (facts.correlation, facts.role.is_op()) {
            let is_end = facts.role != SpanRole::Call;
            self.write_flow((is_end, "ac2g"), correlation, track, run.start)?;
        }
        if let Some(forward) = run.forward.map(|forward| &self.window.ran[forward]) {
            self.flows += 1;
            let id = self.flows;
            let forward_track = self.track_of_run(forward, self.window.facts(forward));
            self.write_flow((false, "fwdbwd"), id, forward_track, forward.start)?;
            self.write_flow((true, "fwdbwd"), id, track, run.start)?;
        }
        Ok(())
    }

    fn write_flow(
        &mut self,
        (is_end, category): (bool, &str),
        id: i64,
        (pid, tid): Track,
        time: i64,
    ) -> io::Result<()> {
        self.writer.flow(&FlowEvent {
            is_end,
            category,
            id,
            pid: TrackKey::Number(pid),
            tid: TrackKey::Number(tid),
            time_ns: time - self.base,
        })
    }

    /// Writes the window as a span, and the instant that closes the list.
    fn write_end(&mut self) -> io::Result<()> {
        let (start, end) = (self.window.start - self.base, self.window.end - self.base);
        let event = CompleteEvent {
            category: "Trace",
            // Kineto writes this range too: viewers show it as the extent of the recording.
            name: "PyTorch Profiler (0)",
            pid: TrackKey::Text("Spans"),
            tid: TrackKey::Text("PyTorch Profiler"),
            start_ns: start,
            duration_ns: end - start,
            external_id: None,
        };
        let count = self.index;
        self.writer
            .complete(&event, |args| args.number("Op count", count))?;
        self.writer.window_end(end)
    }
}

/// Writes the arguments that events of a role have.
fn role_arguments(
    args: &mut EventArguments<'_>,
    window: &SpanWindow,
    run: &SpanRun,
    index: u64,
    details: &SpanDetails,
) -> io::Result<()> {
    let facts = window.facts(run);
    match facts.role {
        SpanRole::Op | SpanRole::Annotation => {
            if let Some(seq) = facts.seq {
                let forward = run.forward.map(|forward| &window.ran[forward]);
                let tid = forward.map_or(0, |forward| window.threads[forward.thread].tid);
                args.number("Sequence number", seq)?;
                args.number("Fwd thread id", tid)?;
            }
            args.number("Record function id", run.rf_id)?;
            // An op that still ran ends with the window, which is not its own end.
            if !run.finished {
                args.number("finished", false)?;
            }
            // The keys of PyTorch's `record_shapes`: all three or none.
            if !details.inputs.shapes.is_empty() {
                args.number("Input type", details.inputs.dtype_names())?;
                args.number("Input Strides", details.inputs.strides())?;
                args.number("Input Dims", &details.inputs.shapes)?;
            }
            args.number("Ev Idx", index)
        }
        // CUPTI's number of the API function, which a program's own calls do not have.
        SpanRole::Call => args.number("cbid", 0),
        SpanRole::Row => {
            args.number("device", facts.device)?;
            // A program that drives a device itself has one context as far as rows can tell.
            args.number("context", 1)?;
            args.number("stream", facts.stream)
        }
    }
}

/// Writes arguments that only the program knows.
fn program_arguments(args: &mut EventArguments<'_>, details: &SpanDetails) -> io::Result<()> {
    for (key, value) in &details.more {
        match value {
            FieldValue::Signed(value) => args.number(key, value)?,
            FieldValue::Unsigned(value) => args.number(key, value)?,
            FieldValue::Float(value) if value.is_finite() => args.number(key, value)?,
            // JSON has no such numbers.
            FieldValue::Float(value) => args.text(key, &value.to_string())?,
            FieldValue::Bool(value) => args.number(key, value)?,
            FieldValue::Text(value) => args.text(key, value)?,
        }
    }
    Ok(())
}

fn event_category(facts: &SpanFacts) -> &'static str {
    match facts.role {
        SpanRole::Op => "cpu_op",
        SpanRole::Annotation => "user_annotation",
        SpanRole::Call => "cuda_runtime",
        SpanRole::Row if facts.name.starts_with("Memcpy") => "gpu_memcpy",
        SpanRole::Row if facts.name.starts_with("Memset") => "gpu_memset",
        SpanRole::Row => "kernel",
    }
}
