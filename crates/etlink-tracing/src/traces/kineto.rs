//! The device trace: Chrome JSON as Kineto writes it (`libkineto/src/output_json.cpp`), times in microseconds with three decimals.
//!
//! Events come in the order in which they began. A device is the process with its number, a stream a thread of it; runtime calls are
//! `cuda_runtime`, as those of HIP are too, so that every reader knows them.

use super::details::SpanDetails;
use super::facts::{SpanFacts, SpanRole};
use super::window::{SpanRun, SpanWindow};
use crate::ProgramInfo;
use crate::spans::{FieldValue, process_name};
use etlink_json::write::{micros, number, text};
use rustc_hash::FxHashMap;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// `baseTimeNanoseconds` is a multiple of these many seconds, a quarter of a year.
const TRIMONTH_NS: i64 = 7_889_238 * 1_000_000_000;

/// Writes the trace. O(n log n); memory of one event beside the launches.
pub(crate) fn write(
    window: &SpanWindow,
    program: &ProgramInfo,
    name: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let base = window.start - window.start.rem_euclid(TRIMONTH_NS);
    let pid = i64::from(std::process::id());
    let launches = launches(window);
    let mut writer = TraceWriter {
        window,
        launches,
        base,
        pid,
        event: vec![],
        flows: 0,
        index: 0,
    };
    header(window, program, base, out)?;
    writer.processes(out)?;
    for ran in &window.ran {
        writer.ran(ran)?;
        writer.flush(out)?;
    }
    writer.end(out)?;
    write!(out, "\n  ],\"traceName\": {} }}", json!(name))
}

/// The call that launched each correlation.
fn launches(window: &SpanWindow) -> FxHashMap<i64, usize> {
    let calls = window
        .ran
        .iter()
        .enumerate()
        .filter(|(_, ran)| window.facts(ran).role == SpanRole::Call);
    calls
        .filter_map(|(row, ran)| Some((window.facts(ran).correlation?, row)))
        .collect()
}

/// Streams of each device.
fn streams(window: &SpanWindow) -> BTreeMap<i64, BTreeSet<i64>> {
    let mut devices: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for facts in window.ran.iter().map(|ran| window.facts(ran)) {
        if let Some(stream) = facts.stream {
            devices.entry(facts.device).or_default().insert(stream);
        }
    }
    devices
}

fn header(
    window: &SpanWindow,
    program: &ProgramInfo,
    base: i64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let device = |(at, number): (usize, &i64)| json!({"id": number, "name": program.devices.get(at).map_or("device", String::as_str)});
    let devices: Vec<_> = streams(window).keys().enumerate().map(device).collect();
    write!(
        out,
        "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": {},\n  \"record_shapes\": 1,\n",
        json!(devices)
    )?;
    if let Some(rank) = program.rank {
        let mut info = json!({"backend": program.backend, "rank": rank});
        if let Some(world_size) = program.world_size {
            info["world_size"] = world_size.into();
        }
        writeln!(out, "  \"distributedInfo\": {info},")?;
    }
    write!(
        out,
        "  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": {base},\n  \"traceEvents\": [\n"
    )
}

/// Puts a comma before all arguments but the first.
struct Arguments<'a> {
    line: &'a mut Vec<u8>,
    first: bool,
}

impl Arguments<'_> {
    fn add(&mut self, key: &str, value: impl serde::Serialize) -> io::Result<()> {
        let separator: &[u8] = if std::mem::replace(&mut self.first, false) {
            b""
        } else {
            b", "
        };
        self.line.extend_from_slice(separator);
        text(self.line, key)?;
        self.line.extend_from_slice(b": ");
        number(self.line, value)
    }

    fn more(&mut self, details: &SpanDetails) -> io::Result<()> {
        for (key, value) in &details.more {
            match value {
                FieldValue::Signed(value) => self.add(key, value)?,
                FieldValue::Unsigned(value) => self.add(key, value)?,
                FieldValue::Float(value) if value.is_finite() => self.add(key, value)?,
                FieldValue::Float(value) => self.add(key, value.to_string())?,
                FieldValue::Bool(value) => self.add(key, value)?,
                FieldValue::Text(value) => self.add(key, value)?,
            }
        }
        Ok(())
    }
}

struct TraceWriter<'a> {
    window: &'a SpanWindow,
    launches: FxHashMap<i64, usize>,
    base: i64,
    pid: i64,
    event: Vec<u8>,
    /// How many forward-backward arrows there are.
    flows: u64,
    /// `Ev Idx`.
    index: u64,
}

impl TraceWriter<'_> {
    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.event)?;
        self.event.clear();
        Ok(())
    }

    /// What processes and threads are called.
    fn processes(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let (window, pid, name) = (self.window, self.pid, process_name());
        self.process(pid, &name, "CPU", pid)?;
        for thread in &window.threads {
            self.thread(
                pid,
                thread.os_tid as i64,
                &format!("thread {} ({})", thread.os_tid, thread.name),
            )?;
        }
        for (device, streams) in streams(window) {
            self.process(device, &name, &format!("GPU {device}"), 5_000_000 + device)?;
            for stream in streams {
                self.thread(device, stream, &format!("stream {stream} "))?;
            }
        }
        self.flush(out)
    }

    fn process(&mut self, pid: i64, name: &str, labels: &str, sort_index: i64) -> io::Result<()> {
        self.metadata("process_name", pid, 0, &json!({"name": name}))?;
        self.metadata("process_labels", pid, 0, &json!({"labels": labels}))?;
        self.metadata(
            "process_sort_index",
            pid,
            0,
            &json!({"sort_index": sort_index}),
        )
    }

    fn thread(&mut self, pid: i64, tid: i64, name: &str) -> io::Result<()> {
        self.metadata("thread_name", pid, tid, &json!({"name": name}))?;
        self.metadata("thread_sort_index", pid, tid, &json!({"sort_index": tid}))
    }

    fn metadata(
        &mut self,
        what: &str,
        pid: i64,
        tid: i64,
        args: &serde_json::Value,
    ) -> io::Result<()> {
        write!(
            self.event,
            "  {{\n    \"ph\": \"M\", \"name\": \"{what}\", \"pid\": {pid}, \"tid\": {tid}, \"ts\": "
        )?;
        micros(&mut self.event, self.window.start - self.base)?;
        writeln!(self.event, ",\n    \"args\": {args}\n  }},")
    }

    /// Process and thread of a range.
    fn track(&self, ran: &SpanRun, facts: &SpanFacts) -> (i64, i64) {
        match facts.stream {
            Some(stream) => (facts.device, stream),
            None => (self.pid, self.window.threads[ran.thread].os_tid as i64),
        }
    }

    fn ran(&mut self, ran: &SpanRun) -> io::Result<()> {
        let facts = self.window.facts(ran);
        self.head(category(facts), &facts.name, self.track(ran, facts), ran)?;
        self.arguments(ran, facts)?;
        self.event.extend_from_slice(b"\n    }\n  },\n");
        self.flows(ran, facts)?;
        if facts.role == SpanRole::Call {
            self.sync(ran, facts)
        } else {
            Ok(())
        }
    }

    /// An event up to its arguments.
    fn head(
        &mut self,
        category: &str,
        name: &str,
        (pid, tid): (i64, i64),
        ran: &SpanRun,
    ) -> io::Result<()> {
        write!(
            self.event,
            "  {{\n    \"ph\": \"X\", \"cat\": \"{category}\", \"name\": "
        )?;
        text(&mut self.event, name)?;
        write!(
            self.event,
            ", \"pid\": {pid}, \"tid\": {tid},\n    \"ts\": "
        )?;
        micros(&mut self.event, ran.start - self.base)?;
        self.event.extend_from_slice(b", \"dur\": ");
        micros(&mut self.event, ran.end - ran.start)?;
        self.event.extend_from_slice(b",\n    \"args\": {\n      ");
        Ok(())
    }

    /// What a call waits for, or makes a stream wait for.
    fn sync(&mut self, ran: &SpanRun, facts: &SpanFacts) -> io::Result<()> {
        let Some(stream) = facts.sync_stream else {
            return Ok(());
        };
        let kind = match facts.wait_on_stream {
            Some(_) => "Stream Wait Event",
            None if stream < 0 => "Context Sync",
            None => "Stream Sync",
        };
        self.head("cuda_sync", kind, (facts.device, stream), ran)?;
        let mut args = Arguments {
            line: &mut self.event,
            first: true,
        };
        args.add("cuda_sync_kind", kind)?;
        if let Some(wait_on_stream) = facts.wait_on_stream {
            args.add("wait_on_stream", wait_on_stream)?;
            args.add(
                "wait_on_cuda_event_record_corr_id",
                facts.wait_on_record.unwrap_or(-1),
            )?;
            args.add("wait_on_cuda_event_id", 0)?;
        }
        args.add("stream", stream)?;
        args.add("correlation", facts.correlation)?;
        args.add("device", facts.device)?;
        args.add("context", 1)?;
        self.event.extend_from_slice(b"\n    }\n  },\n");
        Ok(())
    }

    fn arguments(&mut self, ran: &SpanRun, facts: &SpanFacts) -> io::Result<()> {
        let window = self.window;
        let details = SpanDetails::of(window, ran);
        // a row's op is that of its call
        let call = facts
            .correlation
            .and_then(|correlation| self.launches.get(&correlation))
            .map(|row| &window.ran[*row]);
        let parent = if facts.role == SpanRole::Row {
            call.and_then(|call| call.parent)
        } else {
            ran.parent
        };
        let external = if facts.role.is_op() {
            Some(ran.rf_id)
        } else {
            parent.map(|parent| window.ran[parent].rf_id)
        };
        let mut args = Arguments {
            line: &mut self.event,
            first: true,
        };
        external.map_or(Ok(()), |id| args.add("External id", id))?;
        match facts.role {
            SpanRole::Op | SpanRole::Annotation => {
                args.add("Record function id", ran.rf_id)?;
                if let Some(seq) = facts.seq {
                    args.add("Sequence number", seq)?;
                    args.add(
                        "Fwd thread id",
                        ran.forward
                            .map_or(0, |forward| window.threads[window.ran[forward].thread].tid),
                    )?;
                }
                args.add("Ev Idx", self.index)?;
                self.index += 1;
                if !details.inputs.shapes.is_empty() {
                    args.add("Input type", details.inputs.dtype_names())?;
                    args.add("Input Strides", details.inputs.strides())?;
                    args.add("Input Dims", &details.inputs.shapes)?;
                }
                if !ran.finished {
                    args.add("finished", false)?;
                }
            }
            SpanRole::Call => args.add("cbid", 0)?,
            SpanRole::Row => {
                args.add("device", facts.device)?;
                args.add("context", 1)?;
                args.add("stream", facts.stream)?;
            }
        }
        facts
            .correlation
            .filter(|_| !facts.role.is_op())
            .map_or(Ok(()), |id| args.add("correlation", id))?;
        args.more(&details)
    }

    /// Arrows from launch to row and from forward to backward.
    fn flows(&mut self, ran: &SpanRun, facts: &SpanFacts) -> io::Result<()> {
        if let (Some(correlation), false) = (facts.correlation, facts.role.is_op()) {
            let phase = if facts.role == SpanRole::Call {
                "s"
            } else {
                "f"
            };
            self.flow(
                phase,
                "ac2g",
                correlation,
                self.track(ran, facts),
                ran.start,
            )?;
        }
        if let Some(forward) = ran.forward.map(|forward| &self.window.ran[forward]) {
            self.flows += 1;
            let id = self.flows as i64;
            self.flow(
                "s",
                "fwdbwd",
                id,
                self.track(forward, self.window.facts(forward)),
                forward.start,
            )?;
            self.flow("f", "fwdbwd", id, self.track(ran, facts), ran.start)?;
        }
        Ok(())
    }

    fn flow(
        &mut self,
        phase: &str,
        category: &str,
        id: i64,
        (pid, tid): (i64, i64),
        at: i64,
    ) -> io::Result<()> {
        write!(
            self.event,
            "  {{\n    \"ph\": \"{phase}\", \"id\": {id}, \"pid\": {pid}, \"tid\": {tid}, \"ts\": "
        )?;
        micros(&mut self.event, at - self.base)?;
        let bind = if phase == "f" { ", \"bp\": \"e\"" } else { "" };
        write!(
            self.event,
            ",\n    \"cat\": \"{category}\", \"name\": \"{category}\"{bind}\n  }},\n"
        )
    }

    /// The window as a span of its own, and the instant that closes the list.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let (start, end) = (self.window.start - self.base, self.window.end - self.base);
        write!(
            self.event,
            "  {{\n    \"ph\": \"X\", \"cat\": \"Trace\", \"name\": \"PyTorch Profiler (0)\", \"pid\": \"Spans\", \"tid\": \"PyTorch Profiler\",\n    \"ts\": "
        )?;
        micros(&mut self.event, start)?;
        self.event.extend_from_slice(b", \"dur\": ");
        micros(&mut self.event, end - start)?;
        write!(
            self.event,
            ",\n    \"args\": {{\n      \"Op count\": {}\n    }}\n  }},\n",
            self.index
        )?;
        self.event
            .extend_from_slice(b"  {\n    \"ph\": \"i\", \"s\": \"g\", \"name\": \"Record Window End\", \"pid\": \"\", \"tid\": \"\", \"ts\": ");
        micros(&mut self.event, end)?;
        self.event.extend_from_slice(b"\n  }");
        self.flush(out)
    }
}

fn category(facts: &SpanFacts) -> &'static str {
    match facts.role {
        SpanRole::Op => "cpu_op",
        SpanRole::Annotation => "user_annotation",
        SpanRole::Call => "cuda_runtime",
        SpanRole::Row if facts.name.starts_with("Memcpy") => "gpu_memcpy",
        SpanRole::Row if facts.name.starts_with("Memset") => "gpu_memset",
        SpanRole::Row => "kernel",
    }
}
