//! Writes events one by one to the text of a file.

use super::{EventArguments, KinetoVersion, KinetoWriteOptions};
use etlink_json::write as json;
use std::io::{self, Write};

/// Id of a process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackKey<'a> {
    /// A number: process and thread of the host, or device and stream.
    Number(i64),
    /// A string, such as `Spans` or `Traces`.
    Text(&'a str),
}

impl From<i64> for TrackKey<'_> {
    fn from(number: i64) -> Self {
        TrackKey::Number(number)
    }
}

impl<'a> From<&'a str> for TrackKey<'a> {
    fn from(text: &'a str) -> Self {
        TrackKey::Text(text)
    }
}

/// An event with a duration (`"ph": "X"`).
#[derive(Clone, Copy, Debug)]
pub struct CompleteEvent<'a> {
    /// Category, such as `cpu_op` or `kernel`.
    pub category: &'a str,
    /// Name of the event.
    pub name: &'a str,
    /// Process, or device.
    pub pid: TrackKey<'a>,
    /// Thread, or stream.
    pub tid: TrackKey<'a>,
    /// Nanoseconds since the time base; since the Unix epoch in layouts without one.
    pub start_ns: i64,
    /// Duration in nanoseconds.
    pub duration_ns: i64,
    /// Value of `External id`; not written if `None`.
    pub external_id: Option<i64>,
}

/// One end of an arrow.
#[derive(Clone, Copy, Debug)]
pub struct FlowEvent<'a> {
    /// True for the arrow's head (`f`), false for its tail (`s`).
    pub is_end: bool,
    /// `ac2g` or `fwdbwd`.
    pub category: &'a str,
    /// Id that both ends share.
    pub id: i64,
    /// Process, or device.
    pub pid: TrackKey<'a>,
    /// Thread, or stream.
    pub tid: TrackKey<'a>,
    /// Nanoseconds, counted like the start of the event at this end.
    pub time_ns: i64,
}

/// Metadata around the events.
#[derive(Clone, Debug, Default)]
pub struct KinetoHeader {
    /// Value of `baseTimeNanoseconds`.
    pub base_ns: i64,
    /// Entries of `deviceProperties`: raw JSON objects.
    pub devices: Vec<String>,
    /// Keys and raw JSON values before the events.
    pub metadata: Vec<(String, String)>,
}

/// Writer of a device trace, event by event. Uses the memory of one event.
pub struct KinetoWriter<W> {
    out: W,
    options: KinetoWriteOptions,
    base_ns: i64,
    event: Vec<u8>,
    is_first: bool,
}

impl<W: Write> KinetoWriter<W> {
    /// Writes the text before the events.
    ///
    /// # Errors
    /// Fails if writing to `out` fails.
    pub fn new(out: W, header: &KinetoHeader, options: KinetoWriteOptions) -> io::Result<Self> {
        let mut writer = KinetoWriter {
            out,
            options,
            base_ns: header.base_ns,
            event: vec![],
            is_first: true,
        };
        let text = writer.write_header(header);
        writer.out.write_all(text.as_bytes())?;
        Ok(writer)
    }

    /// Formats the header like `ChromeTraceLogger::handleTraceStart`.
    fn write_header(&self, header: &KinetoHeader) -> String {
        let version = self.options.version;
        // The odd indentation is Kineto's own: a file that is read and written again has the same
        // text.
        let (lead, indent, metadata_indent) = match version {
            KinetoVersion::Torch1_8 => return "{\n  \"traceEvents\": [".to_owned(),
            KinetoVersion::Torch2_0 | KinetoVersion::Torch2_4 => ("\n{\n", "  ", "  "),
            KinetoVersion::Torch2_9 => ("\n  {\n", "    ", "      "),
            KinetoVersion::Torch2_15 => (" {\n", "    ", "      "),
        };
        let mut text =
            format!("{lead}{indent}\"schemaVersion\": 1,\n{indent}\"deviceProperties\": [");
        let devices = header.devices.join(",\n    ");
        match (devices.is_empty(), version) {
            (true, KinetoVersion::Torch2_15) => {}
            (true, _) => text += &format!("\n{indent}"),
            (false, _) => text += &format!("\n    {devices}\n{indent}"),
        }
        text += "],\n";
        if version == KinetoVersion::Torch2_15 {
            text += "    \n";
        }
        for (key, value) in &header.metadata {
            text += &format!("{metadata_indent}\"{key}\": {value},\n");
        }
        let outer = if version == KinetoVersion::Torch2_15 {
            indent
        } else {
            "  "
        };
        // 2.4 to 2.8 write both after the events, from `finalizeTrace`: see `finish`.
        if version >= KinetoVersion::Torch2_9 {
            let base = self.base_ns;
            text += &format!("{outer}\"displayTimeUnit\": \"ms\",\n");
            text += &format!("{outer}\"baseTimeNanoseconds\": {base},\n");
        }
        text += &format!("{outer}\"traceEvents\": [");
        if version == KinetoVersion::Torch2_15 {
            text += "\n    ";
        }
        text
    }

    /// Writes an event with a duration; `arguments` writes its arguments.
    ///
    /// # Errors
    /// Fails if the output or `arguments` fails.
    pub fn complete(
        &mut self,
        event: &CompleteEvent<'_>,
        arguments: impl FnOnce(&mut EventArguments<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.begin_event();
        self.first_key("ph");
        self.push_plain("\"X\"");
        self.write_key("cat", Break::Word);
        self.write_text(event.category)?;
        let version = self.options.version;
        if version == KinetoVersion::Torch1_8 {
            self.push_plain(", \n    \"name\": ");
        } else {
            self.write_key("name", Break::Word);
        }
        self.write_text(event.name)?;
        self.write_track(event.pid, event.tid)?;
        self.write_key("ts", Break::Line);
        self.write_time(event.start_ns)?;
        self.write_key("dur", Break::Word);
        self.write_time(event.duration_ns)?;
        self.begin_arguments();
        let line_break = match version {
            KinetoVersion::Torch1_8 | KinetoVersion::Torch2_0 => ",\n      ",
            _ => ",      ",
        };
        let mut args = EventArguments::new(&mut self.event, line_break);
        if let Some(id) = event.external_id {
            // Kineto prints this argument of these kinds from a different place, without the space.
            let is_op = matches!(
                event.category,
                "cpu_op" | "user_annotation" | "Operator" | "cpu_instant_event"
            );
            args.external_id(id, is_op)?;
        }
        arguments(&mut args)?;
        self.push_plain("\n    }");
        self.end_event()
    }

    /// Writes one end of an arrow.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn flow(&mut self, flow: &FlowEvent<'_>) -> io::Result<()> {
        self.begin_event();
        self.first_key("ph");
        self.push_plain(if flow.is_end { "\"f\"" } else { "\"s\"" });
        self.write_key("id", Break::Word);
        json::number(&mut self.event, flow.id)?;
        self.write_track(flow.pid, flow.tid)?;
        self.write_key("ts", Break::Word);
        self.write_time(flow.time_ns)?;
        self.write_key("cat", Break::Line);
        self.write_text(flow.category)?;
        self.write_key("name", Break::Word);
        self.write_text(flow.category)?;
        // This layout has a line for `bp`, which is empty without one.
        if self.options.version == KinetoVersion::Torch2_15 {
            self.push_plain("\n    ");
        }
        if flow.is_end {
            self.push_plain(", \"bp\": \"e\"");
        }
        self.end_event()
    }

    /// Writes metadata of a process or thread: `process_name`, `thread_sort_index`, … `value` is
    /// the raw JSON of the only argument, `key` its key.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn metadata(
        &mut self,
        name: &str,
        (pid, tid): (TrackKey<'_>, TrackKey<'_>),
        time_ns: i64,
        (key, value): (&str, &str),
    ) -> io::Result<()> {
        self.begin_event();
        if self.options.version == KinetoVersion::Torch2_15 {
            self.first_key("ph");
            self.push_plain("\"M\"");
            self.write_key("name", Break::Word);
            self.write_text(name)?;
        } else {
            self.first_key("name");
            self.write_text(name)?;
            self.write_key("ph", Break::Word);
            self.push_plain("\"M\"");
        }
        self.write_key("ts", Break::Word);
        self.write_time(time_ns)?;
        self.write_track(pid, tid)?;
        self.push_plain(",\n    \"args\": {\n      ");
        self.write_text(key)?;
        self.push_plain(": ");
        self.push_plain(value);
        self.push_plain("\n    }");
        self.end_event()
    }

    /// Writes an instant of a thread (`"s": "t"`) with its arguments, such as `[memory]`.
    ///
    /// # Errors
    /// Fails if the output or `arguments` fails.
    pub fn thread_instant(
        &mut self,
        (category, name): (&str, &str),
        (pid, tid): (TrackKey<'_>, TrackKey<'_>),
        time_ns: i64,
        arguments: impl FnOnce(&mut EventArguments<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.begin_event();
        self.first_key("ph");
        self.push_plain("\"i\"");
        if self.options.version == KinetoVersion::Torch2_15 {
            // An empty line in place of the id of other events.
            self.push_plain(",\n    \n    \"cat\": ");
        } else {
            self.write_key("cat", Break::Word);
        }
        self.write_text(category)?;
        self.write_key("s", Break::Word);
        self.push_plain("\"t\"");
        self.write_key("name", Break::Word);
        self.write_text(name)?;
        self.write_track(pid, tid)?;
        self.write_key("ts", Break::Line);
        self.write_time(time_ns)?;
        self.begin_arguments();
        arguments(&mut EventArguments::new(&mut self.event, ", "))?;
        self.push_plain("\n    }");
        self.end_event()
    }

    /// Writes an instant of the whole trace (`"s": "g"`), such as `Record Window End`.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn global_instant(
        &mut self,
        name: &str,
        (pid, tid): (TrackKey<'_>, TrackKey<'_>),
        time_ns: i64,
    ) -> io::Result<()> {
        self.begin_event();
        let is_latest = self.options.version == KinetoVersion::Torch2_15;
        if is_latest {
            self.first_key("ph");
            self.push_plain("\"i\",\n    \n    \"s\": ");
        } else {
            self.first_key("name");
            self.write_text(name)?;
            self.write_key("ph", Break::Word);
            self.push_plain("\"i\"");
            self.write_key("s", Break::Word);
        }
        self.push_plain("\"g\"");
        if is_latest {
            self.write_key("name", Break::Word);
            self.write_text(name)?;
        }
        self.write_key("pid", Break::Line);
        self.track_key(pid)?;
        self.write_key("tid", Break::Word);
        self.track_key(tid)?;
        self.write_key("ts", Break::Word);
        self.write_time(time_ns)?;
        self.end_without_arguments()
    }

    /// Writes the text of an event unchanged, including its braces.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn raw(&mut self, event: &str) -> io::Result<()> {
        let separator = if self.is_first { "\n" } else { ",\n" };
        self.is_first = false;
        self.out.write_all(separator.as_bytes())?;
        self.out.write_all(event.as_bytes())
    }

    /// Writes the instant that closes Kineto's list.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn window_end(&mut self, time_ns: i64) -> io::Result<()> {
        // Kineto gives the marker empty strings in place of ids.
        let nowhere = (TrackKey::Text(""), TrackKey::Text(""));
        self.global_instant("Record Window End", nowhere, time_ns)
    }

    /// Closes list and document. `metadata` holds keys and raw JSON values to write after the
    /// events.
    ///
    /// # Errors
    /// Fails if the output fails.
    pub fn finish(mut self, trace_name: &str, metadata: &[(String, String)]) -> io::Result<W> {
        let version = self.options.version;
        self.event.clear();
        let (list_end, end) = match version {
            KinetoVersion::Torch1_8 => ("\n]", "\n}"),
            KinetoVersion::Torch2_15 => ("\n  ]", " }"),
            _ => ("\n  ]", "\n}"),
        };
        self.push_plain(list_end);
        for (key, value) in metadata {
            self.push_plain(",\n  ");
            self.write_text(key)?;
            self.push_plain(": ");
            self.push_plain(value);
        }
        if version > KinetoVersion::Torch1_8 {
            let separator = match (version, metadata.is_empty()) {
                (KinetoVersion::Torch2_15, true) => ",",
                _ => ",\n  ",
            };
            self.push_plain(separator);
            self.push_plain("\"traceName\": ");
            json::text(&mut self.event, trace_name)?;
        }
        if version == KinetoVersion::Torch2_4 {
            let base = self.base_ns;
            write!(
                self.event,
                ",\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": {base}"
            )?;
        }
        self.push_plain(end);
        self.out.write_all(&self.event)?;
        Ok(self.out)
    }

    fn begin_event(&mut self) {
        self.event.clear();
        let separator = if self.is_first { "\n  {\n" } else { ",\n  {\n" };
        self.is_first = false;
        self.push_plain(separator);
    }

    fn end_event(&mut self) -> io::Result<()> {
        self.push_plain("\n  }");
        self.out.write_all(&self.event)
    }

    fn end_without_arguments(&mut self) -> io::Result<()> {
        if self.options.version == KinetoVersion::Torch2_15 {
            // Line of the missing arguments.
            self.push_plain("\n    ");
        }
        self.end_event()
    }

    fn begin_arguments(&mut self) {
        // Kineto prints the comma before `args` together with them, because they may be missing.
        let text = if self.options.version == KinetoVersion::Torch2_15 {
            "\n    ,\n    \"args\": {\n      "
        } else {
            ",\n    \"args\": {\n      "
        };
        self.push_plain(text);
    }

    fn first_key(&mut self, key: &str) {
        self.push_plain("    \"");
        self.push_plain(key);
        self.push_plain("\": ");
    }

    fn write_key(&mut self, key: &str, place: Break) {
        let is_line = place == Break::Line || self.options.version == KinetoVersion::Torch2_15;
        self.push_plain(if is_line { ",\n    \"" } else { ", \"" });
        self.push_plain(key);
        self.push_plain("\": ");
    }

    fn write_track(&mut self, pid: TrackKey<'_>, tid: TrackKey<'_>) -> io::Result<()> {
        self.write_key("pid", Break::Word);
        self.track_key(pid)?;
        self.write_key("tid", Break::Word);
        self.track_key(tid)
    }

    fn track_key(&mut self, id: TrackKey<'_>) -> io::Result<()> {
        match id {
            TrackKey::Number(number) => json::number(&mut self.event, number),
            TrackKey::Text(text) => self.write_text(text),
        }
    }

    fn write_time(&mut self, ns: i64) -> io::Result<()> {
        if self.options.version.has_whole_micros() {
            // Old Kineto writes whole microseconds; the fraction is rounded towards earlier times.
            return json::number(&mut self.event, ns.div_euclid(1_000));
        }
        if ns < 0 && self.options.verbatim {
            // C++ prints quotient and remainder, each with its sign.
            return write!(self.event, "{}.{:03}", ns / 1_000, ns % 1_000);
        }
        json::micros(&mut self.event, ns)
    }

    // Kineto wrote names unescaped until kineto#1459; tests need such files too.
    fn write_text(&mut self, text: &str) -> io::Result<()> {
        if self.options.verbatim {
            self.push_plain("\"");
            self.push_plain(text);
            self.push_plain("\"");
            Ok(())
        } else {
            json::text(&mut self.event, text)
        }
    }

    fn push_plain(&mut self, text: &str) {
        self.event.extend_from_slice(text.as_bytes());
    }
}

/// Text before a key in layouts that have several keys on a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Break {
    Word,
    Line,
}
