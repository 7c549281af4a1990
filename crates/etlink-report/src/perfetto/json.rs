//! Events of Chrome's trace format, one per line.
//!
//! Source of the rules: "Trace Event Format", and how Perfetto's `trace_processor` reads it. It
//! takes times as 64-bit floats, which are exact for whole nanoseconds up to 104 days: times count
//! from the trace's origin.

use super::arrows::ArrowEnd;
use super::sink::{FactValue, FileTimes, TimelineSink, TrackId, TrackProcess, TrackRange};
use etlink_json::write::{micros, number, text};
use etlink_model::TimeNs;
use std::io::{self, Write};

/// Bytes that are handed on at once.
const BLOCK: usize = 1 << 18;

/// What stands before the events.
pub(super) fn begin(about: &[(&str, String)]) -> io::Result<Vec<u8>> {
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

/// What stands between the events of two ranks.
pub(super) const BETWEEN: &[u8] = b",";

/// What stands after the events.
pub(super) const END: &[u8] = b"\n]}\n";

/// Writes events.
pub(super) struct JsonWriter<'w, W> {
    out: &'w mut W,
    line: Vec<u8>,
    times: FileTimes,
    any: bool,
    track: TrackId,
    /// Whether the range has an argument.
    args: bool,
}

impl<'w, W: Write> JsonWriter<'w, W> {
    /// Begins with nothing.
    pub(super) fn new(out: &'w mut W, times: FileTimes) -> Self {
        JsonWriter {
            out,
            line: vec![],
            times,
            any: false,
            track: TrackId::default(),
            args: false,
        }
    }

    /// Names a process or thread, or says where it stands: `what` is the event's name.
    fn metadata(
        &mut self,
        track: TrackId,
        what: &str,
        key: &str,
        value: FactValue<'_>,
    ) -> io::Result<()> {
        self.head("M", track)?;
        self.put(", \"name\": \"");
        self.put(what);
        self.put("\", \"args\": {\"");
        self.put(key);
        self.put("\": ");
        self.value(value)?;
        self.put("}}");
        Ok(())
    }

    /// One end of an arrow: it binds to the innermost range of the track at that instant.
    fn arrow(&mut self, mark: &ArrowEnd) -> io::Result<()> {
        self.head(if mark.begins { "s" } else { "f" }, self.track)?;
        self.time(mark.at)?;
        // "bp": "e" binds the end to the range around it; without, to the next one that begins.
        self.put(if mark.begins {
            ", \"id\": "
        } else {
            ", \"bp\": \"e\", \"id\": "
        });
        number(&mut self.line, mark.id)?;
        // `trace_processor` pairs the ends of an arrow by id, category and name together
        // (`FlowTracker::GetFlowIdForV1Event`).
        for key in [", \"name\": \"", "\", \"cat\": \""] {
            self.put(key);
            self.put(mark.kind.name());
        }
        self.put("\"}");
        Ok(())
    }

    fn head(&mut self, phase: &str, track: TrackId) -> io::Result<()> {
        if self.line.len() > BLOCK {
            self.out.write_all(&self.line)?;
            self.line.clear();
        }
        let first = !std::mem::replace(&mut self.any, true);
        self.put(if first {
            "\n{\"ph\": \""
        } else {
            ",\n{\"ph\": \""
        });
        self.put(phase);
        self.put("\", \"pid\": ");
        number(&mut self.line, track.pid)?;
        self.put(", \"tid\": ");
        number(&mut self.line, track.tid)
    }

    fn value(&mut self, value: FactValue<'_>) -> io::Result<()> {
        match value {
            FactValue::Int(value) => number(&mut self.line, value),
            FactValue::Uint(value) => number(&mut self.line, value),
            FactValue::Bool(value) => number(&mut self.line, value),
            FactValue::Text(value) => text(&mut self.line, value),
        }
    }

    fn time(&mut self, at: TimeNs) -> io::Result<()> {
        self.put(", \"ts\": ");
        micros(&mut self.line, self.times.of(at))
    }

    fn put(&mut self, part: &str) {
        self.line.extend_from_slice(part.as_bytes());
    }
}

impl<W: Write> TimelineSink for JsonWriter<'_, W> {
    fn process(&mut self, process: TrackProcess<'_>) -> io::Result<()> {
        let track = TrackId {
            pid: process.pid,
            tid: process.pid,
        };
        self.metadata(track, "process_name", "name", FactValue::Text(process.name))?;
        self.metadata(
            track,
            "process_sort_index",
            "sort_index",
            process.place.into(),
        )?;
        process.label.map_or(Ok(()), |label| {
            self.metadata(track, "process_labels", "labels", FactValue::Text(label))
        })
    }

    fn thread(&mut self, track: TrackId, name: &str) -> io::Result<()> {
        self.metadata(track, "thread_name", "name", FactValue::Text(name))
    }

    fn begin(&mut self, range: TrackRange<'_>) -> io::Result<()> {
        (self.track, self.args) = (range.track, false);
        self.head("X", range.track)?;
        self.time(range.start)?;
        // Not the trace's duration: on the file's clock, which may run otherwise, the end has to be
        // where the next range starts.
        self.put(", \"dur\": ");
        micros(
            &mut self.line,
            self.times
                .of(range.start + range.duration)
                .saturating_sub(self.times.of(range.start)),
        )?;
        self.put(", \"name\": ");
        text(&mut self.line, range.name)?;
        self.put(", \"cat\": ");
        text(&mut self.line, range.category)
    }

    fn arg(&mut self, key: &'static str, value: FactValue<'_>) -> io::Result<()> {
        let before = if std::mem::replace(&mut self.args, true) {
            ", \""
        } else {
            ", \"args\": {\""
        };
        [before, key, "\": "].iter().for_each(|part| self.put(part));
        self.value(value)
    }

    fn end(&mut self, arrows: &[ArrowEnd]) -> io::Result<()> {
        self.put(if self.args { "}}" } else { "}" });
        arrows.iter().try_for_each(|mark| self.arrow(mark))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }
}
