//! Events in Chrome's trace format, one per line.
//!
//! Source of the rules: "Trace Event Format", and the behaviour of Perfetto's `trace_processor`.
//! Times are read as 64-bit floats, which are exact for whole nanoseconds up to 104 days, so they
//! count from the trace's origin.
//!
//! The format has processes with threads. In a file of several ranks each rank is one process,
//! which keeps its tracks together; the names of its threads include the recorded process or
//! device.

use super::arrows::ArrowEnd;
use super::recorded::ArgumentValue;
use super::sink::{
    CounterTrack, CounterValue, FileTimes, TimelineSink, TrackId, TrackProcess, TrackRange,
};
use etlink_json::write::{micros, number, text};
use etlink_model::TimeNs;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Number of bytes after which output is flushed.
const BLOCK: usize = 1 << 18;

/// Returns the text before the events.
pub(super) fn file_head(about: &[(&str, String)]) -> io::Result<Vec<u8>> {
    let mut head = b"{\"displayTimeUnit\": \"ns\", \"otherData\": {".to_vec();
    for (at, (key, value)) in about.iter().enumerate() {
        head.extend_from_slice(if at > 0 { b", " } else { b"" });
        text(&mut head, key)?;
        head.extend_from_slice(b": ");
        text(&mut head, value)?;
    }
    head.extend_from_slice(b"}, \"traceEvents\": [");
    Ok(head)
}

/// Text between the events of two ranks.
pub(super) const BETWEEN: &[u8] = b",";

/// Text after the events.
pub(super) const END: &[u8] = b"\n]}\n";

/// Writer of Chrome trace events.
pub(super) struct JsonWriter<'w, W> {
    out: &'w mut W,
    line: Vec<u8>,
    times: FileTimes,
    any: bool,
    track: TrackId,
    /// True if the range already has an argument.
    args: bool,
    /// True if the group already has an argument.
    in_group: bool,
    /// Process of all tracks of a rank, in a file of several ranks.
    rank_pid: Option<u32>,
    /// Names of recorded processes that are not processes in the file.
    process_names: BTreeMap<u32, String>,
    /// Number of threads so far, which are numbered to keep their order.
    threads: u32,
}

impl<'w, W: Write> JsonWriter<'w, W> {
    /// Creates a writer without events.
    pub(super) fn new(out: &'w mut W, times: FileTimes) -> Self {
        JsonWriter {
            out,
            line: vec![],
            times,
            any: false,
            track: TrackId::default(),
            args: false,
            in_group: false,
            rank_pid: None,
            process_names: BTreeMap::new(),
            threads: 0,
        }
    }

    /// Names a process or thread, or sets its position; `what` is the event's name.
    fn put_metadata(
        &mut self,
        track: TrackId,
        what: &str,
        key: &str,
        value: ArgumentValue<'_>,
    ) -> io::Result<()> {
        self.put_head("M", track)?;
        self.put_text(", \"name\": \"");
        self.put_text(what);
        self.put_text("\", \"args\": {\"");
        self.put_text(key);
        self.put_text("\": ");
        self.put_value(value)?;
        self.put_text("}}");
        Ok(())
    }

    /// Writes one end of an arrow, which binds to the innermost range of the track at that instant.
    fn put_arrow(&mut self, mark: &ArrowEnd) -> io::Result<()> {
        self.put_head(if mark.begins { "s" } else { "f" }, self.track)?;
        self.put_time(mark.at)?;
        // "bp": "e" binds the end to the range around it; without, to the next one that begins.
        self.put_text(if mark.begins {
            ", \"id\": "
        } else {
            ", \"bp\": \"e\", \"id\": "
        });
        number(&mut self.line, mark.id)?;
        // `trace_processor` pairs the ends of an arrow by id, category and name together
        // (`FlowTracker::GetFlowIdForV1Event`).
        for key in [", \"name\": \"", "\", \"cat\": \""] {
            self.put_text(key);
            self.put_text(mark.kind.arrow_name());
        }
        self.put_text("\"}");
        Ok(())
    }

    fn put_head(&mut self, phase: &str, track: TrackId) -> io::Result<()> {
        if self.line.len() > BLOCK {
            self.out.write_all(&self.line)?;
            self.line.clear();
        }
        let first = !std::mem::replace(&mut self.any, true);
        self.put_text(if first {
            "\n{\"ph\": \""
        } else {
            ",\n{\"ph\": \""
        });
        self.put_text(phase);
        self.put_text("\", \"pid\": ");
        let pid = self.rank_pid.unwrap_or(track.pid);
        number(&mut self.line, pid)?;
        self.put_text(", \"tid\": ");
        number(&mut self.line, track.tid)
    }

    fn put_value(&mut self, value: ArgumentValue<'_>) -> io::Result<()> {
        match value {
            ArgumentValue::Int(value) => number(&mut self.line, value),
            ArgumentValue::Uint(value) => number(&mut self.line, value),
            ArgumentValue::Float(value) => number(&mut self.line, value),
            ArgumentValue::Bool(value) => number(&mut self.line, value),
            // Kineto writes words that are not JSON, such as `nan`: they become texts.
            ArgumentValue::Json(value) if serde_json::from_str::<IgnoredAny>(&value).is_ok() => {
                self.put_text(&value);
                Ok(())
            }
            ArgumentValue::Text(value) | ArgumentValue::Json(value) => text(&mut self.line, &value),
        }
    }

    fn put_time(&mut self, at: TimeNs) -> io::Result<()> {
        self.put_text(", \"ts\": ");
        micros(&mut self.line, self.times.file_ns(at))
    }

    /// Prefixes a thread or counter name with its process or device, in a rank's process.
    fn name_in_rank<'n>(&self, pid: u32, name: &'n str) -> Cow<'n, str> {
        let process = self.process_names.get(&pid);
        match process {
            Some(process) if self.rank_pid.is_some() => Cow::Owned(format!("{process} · {name}")),
            _ => Cow::Borrowed(name),
        }
    }

    /// Writes the key of the range's next argument.
    fn put_key(&mut self, key: &str) {
        let before = if std::mem::replace(&mut self.args, true) {
            ", \""
        } else {
            ", \"args\": {\""
        };
        for part in [before, key, "\": "] {
            self.put_text(part);
        }
    }

    fn put_text(&mut self, part: &str) {
        self.line.extend_from_slice(part.as_bytes());
    }
}

impl<W: Write> TimelineSink for JsonWriter<'_, W> {
    fn name_rank(&mut self, _: &str, _: u32) -> io::Result<()> {
        // the format has no tracks above processes, whose names include the rank
        Ok(())
    }

    fn name_process(&mut self, process: TrackProcess<'_>) -> io::Result<()> {
        let track = TrackId {
            pid: process.pid,
            tid: process.pid,
        };
        let mut name = process.name;
        if let Some(rank) = process.rank {
            self.process_names
                .insert(process.pid, process.name.to_owned());
            if self.rank_pid.is_some() {
                return Ok(());
            }
            self.rank_pid = Some(process.pid);
            name = rank;
        }
        self.put_metadata(
            track,
            "process_name",
            "name",
            ArgumentValue::Text(name.into()),
        )?;
        self.put_metadata(
            track,
            "process_sort_index",
            "sort_index",
            process.place.into(),
        )?;
        process.label.map_or(Ok(()), |label| {
            self.put_metadata(
                track,
                "process_labels",
                "labels",
                ArgumentValue::Text(label.into()),
            )
        })
    }

    fn name_thread(&mut self, track: TrackId, name: &str, _: Option<&str>) -> io::Result<()> {
        let name = self.name_in_rank(track.pid, name);
        self.put_metadata(track, "thread_name", "name", ArgumentValue::Text(name))?;
        self.threads += 1;
        let place = ArgumentValue::Uint(u64::from(self.threads));
        self.put_metadata(track, "thread_sort_index", "sort_index", place)
    }

    fn name_counter(&mut self, _: CounterTrack<'_>) -> io::Result<()> {
        // events identify a counter by its name
        Ok(())
    }

    fn put_counter(
        &mut self,
        counter: CounterTrack<'_>,
        at: TimeNs,
        value: CounterValue,
    ) -> io::Result<()> {
        let pid = counter.pid;
        self.put_head("C", TrackId { pid, tid: pid })?;
        self.put_time(at)?;
        self.put_text(", \"name\": ");
        let name = self.name_in_rank(pid, counter.name).into_owned();
        text(&mut self.line, &name)?;
        self.put_text(", \"args\": {\"value\": ");
        match value {
            CounterValue::Whole(value) => number(&mut self.line, value)?,
            CounterValue::Measured(value) => number(&mut self.line, value)?,
        }
        self.put_text("}}");
        Ok(())
    }

    fn begin_range(&mut self, range: TrackRange<'_>) -> io::Result<()> {
        (self.track, self.args) = (range.track, false);
        self.put_head(if range.is_instant { "i" } else { "X" }, range.track)?;
        self.put_time(range.start)?;
        if range.is_instant {
            // The scope of an instant is its thread.
            self.put_text(", \"s\": \"t\"");
        } else {
            // Not the trace's duration: the file's clock may run at another rate, and the end must
            // match the start of the next range.
            let start = self.times.file_ns(range.start);
            let end = self.times.file_ns(range.start + range.duration);
            self.put_text(", \"dur\": ");
            micros(&mut self.line, end.saturating_sub(start))?;
        }
        self.put_text(", \"name\": ");
        text(&mut self.line, range.name)?;
        self.put_text(", \"cat\": ");
        text(&mut self.line, range.category)
    }

    fn add_argument(&mut self, key: &'static str, value: ArgumentValue<'_>) -> io::Result<()> {
        self.put_key(key);
        self.put_value(value)
    }

    fn begin_group(&mut self, key: &'static str) -> io::Result<()> {
        self.put_key(key);
        self.put_text("{");
        self.in_group = false;
        Ok(())
    }

    fn add_recorded(&mut self, key: &str, value: ArgumentValue<'_>) -> io::Result<()> {
        if std::mem::replace(&mut self.in_group, true) {
            self.put_text(", ");
        }
        text(&mut self.line, key)?;
        self.put_text(": ");
        self.put_value(value)
    }

    fn end_group(&mut self) -> io::Result<()> {
        self.put_text("}");
        Ok(())
    }

    fn end_range(&mut self, arrows: &[ArrowEnd]) -> io::Result<()> {
        self.put_text(if self.args { "}}" } else { "}" });
        arrows.iter().try_for_each(|mark| self.put_arrow(mark))
    }

    fn write_rest(&mut self) -> io::Result<()> {
        self.out.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }
}
