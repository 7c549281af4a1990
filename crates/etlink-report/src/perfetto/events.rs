//! Events of Chrome's trace format, one per line.
//!
//! Source of the rules: "Trace Event Format", and how Perfetto's `trace_processor` reads it. It takes times
//! as 64-bit floats, which are exact for whole nanoseconds up to 104 days: times count from the trace's origin.

use etlink_json::write::{micros, number, text};
use etlink_link::EdgeKind;
use etlink_model::{DurationNs, TimeNs};
use std::fmt::Display;
use std::io::{self, Write};

/// Bytes that are handed on at once.
const BLOCK: usize = 1 << 18;

/// A thread of a process, as Perfetto numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// Writes events.
pub(super) struct Events<'w, W> {
    sink: &'w mut W,
    line: Vec<u8>,
    origin: TimeNs,
    any: bool,
}

impl<'w, W: Write> Events<'w, W> {
    /// Begins the file; `origin` is the instant that is written as 0.
    pub(super) fn begin(sink: &'w mut W, origin: TimeNs, about: &[(&str, String)]) -> io::Result<Self> {
        let mut line = b"{\"displayTimeUnit\": \"ns\", \"otherData\": {".to_vec();
        for (at, (key, value)) in about.iter().enumerate() {
            line.extend_from_slice(if at > 0 { b", " } else { b"" });
            text(&mut line, key)?;
            line.extend_from_slice(b": ");
            text(&mut line, value)?;
        }
        line.extend_from_slice(b"}, \"traceEvents\": [");
        Ok(Events { sink, line, origin, any: false })
    }

    /// Ends the file.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.line.extend_from_slice(b"\n]}\n");
        self.sink.write_all(&self.line)
    }

    /// Names a process or thread, or says where it stands: `what` is the event's name.
    pub(super) fn metadata(&mut self, track: Track, what: &str, key: &str, value: Meta<'_>) -> io::Result<()> {
        self.head("M", track)?;
        self.put(", \"name\": \"");
        self.put(what);
        self.put("\", \"args\": {\"");
        self.put(key);
        self.put("\": ");
        match value {
            Meta::Text(value) => text(&mut self.line, value)?,
            Meta::Number(value) => number(&mut self.line, value)?,
        }
        self.put("}}");
        Ok(())
    }

    /// Begins a range; its arguments follow, then [`Args::end`].
    pub(super) fn slice(&mut self, track: Track, name: &str, category: &str, start: TimeNs, duration: DurationNs) -> io::Result<Args<'_>> {
        self.head("X", track)?;
        self.time(start)?;
        self.put(", \"dur\": ");
        micros(&mut self.line, duration.0)?;
        self.put(", \"name\": ");
        text(&mut self.line, name)?;
        self.put(", \"cat\": ");
        text(&mut self.line, category)?;
        Ok(Args { line: &mut self.line, any: false })
    }

    /// One end of an arrow: it binds to the innermost range of the track at `at`.
    pub(super) fn arrow(&mut self, track: Track, begins: bool, id: u32, kind: EdgeKind, at: TimeNs) -> io::Result<()> {
        self.head(if begins { "s" } else { "f" }, track)?;
        self.time(at)?;
        self.put(if begins { ", \"id\": " } else { ", \"bp\": \"e\", \"id\": " });
        number(&mut self.line, id)?;
        for key in [", \"name\": ", ", \"cat\": "] {
            self.put(key);
            number(&mut self.line, kind)?;
        }
        self.put("}");
        Ok(())
    }

    fn head(&mut self, phase: &str, track: Track) -> io::Result<()> {
        if self.line.len() > BLOCK {
            self.sink.write_all(&self.line)?;
            self.line.clear();
        }
        let first = !std::mem::replace(&mut self.any, true);
        self.put(if first { "\n{\"ph\": \"" } else { ",\n{\"ph\": \"" });
        self.put(phase);
        self.put("\", \"pid\": ");
        number(&mut self.line, track.pid)?;
        self.put(", \"tid\": ");
        number(&mut self.line, track.tid)
    }

    fn time(&mut self, at: TimeNs) -> io::Result<()> {
        self.put(", \"ts\": ");
        micros(&mut self.line, at.0.saturating_sub(self.origin.0))
    }

    fn put(&mut self, part: &str) {
        self.line.extend_from_slice(part.as_bytes());
    }
}

/// A value of metadata.
pub(super) enum Meta<'m> {
    Text(&'m str),
    Number(i64),
}

/// The arguments of a range. What the trace does not say is left out.
pub(super) struct Args<'l> {
    line: &'l mut Vec<u8>,
    any: bool,
}

impl Args<'_> {
    fn key(&mut self, key: &str) {
        let before = if std::mem::replace(&mut self.any, true) { ", \"" } else { ", \"args\": {\"" };
        [before, key, "\": "].iter().for_each(|part| self.line.extend_from_slice(part.as_bytes()));
    }

    /// A number, if there is one.
    pub(super) fn number(&mut self, key: &str, value: Option<impl serde::Serialize>) -> io::Result<()> {
        let Some(value) = value else { return Ok(()) };
        self.key(key);
        number(self.line, value)
    }

    /// A text, unless it is empty.
    pub(super) fn text(&mut self, key: &str, value: &str) -> io::Result<()> {
        if value.is_empty() {
            return Ok(());
        }
        self.key(key);
        text(self.line, value)
    }

    /// What can be shown.
    pub(super) fn shown(&mut self, key: &str, value: impl Display) -> io::Result<()> {
        self.text(key, &value.to_string())
    }

    /// Ends the range.
    pub(super) fn end(self) {
        self.line.extend_from_slice(if self.any { b"}}" } else { b"}" });
    }
}
