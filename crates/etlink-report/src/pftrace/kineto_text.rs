//! Converts a Perfetto trace that etlink wrote back to the Kineto JSON it was made from.
//!
//! ```text
//! metadata ─────────────────> the keys around the events
//! track descriptors ────────> "pid", "tid"
//! begin and end of a range ─> {"ph": "X", "cat": …, "ts": …, "dur": …, "args": {recorded}}
//! names of tracks ──────────> {"ph": "M", …}, last
//! ```
//! Ranges that were not recorded (steps of the critical path, pieces for arrows), arrows and
//! counters can be derived again, and are skipped. Packets are read one by one: memory is the
//! strings. The JSON has the events in order of time, not in the recording's order.

use crate::pftrace::schema::track_event::Type;
use crate::pftrace::schema::{ChromeMetadata, TracePacket, TrackDescriptor, TrackEvent};
use crate::pftrace::strings::SequenceStrings;
use crate::pftrace::text_reader::{EventText, PacketConverter, TextReader};
use crate::pftrace::words;
use etlink_json::write::{micros, text};
use etlink_json::{JsonScanner, JsonValue};
use std::collections::BTreeMap;
use std::io::Read;

/// Returns the JSON text of a Kineto trace, made from the packets of `source`, which must begin like
/// [`PerfettoOrigin::Recorded`](crate::pftrace::PerfettoOrigin).
///
/// A truncated or damaged file ends the text early, with an error that states the position in the
/// file.
pub fn kineto_text<R: Read>(source: R) -> impl Read {
    let mut converter = KinetoConverter::default();
    converter.out.text.push(b'{');
    TextReader::new(source, converter)
}

#[derive(Debug, Default)]
struct KinetoConverter {
    out: EventText,
    /// Trace time that is 0 in the file, ns.
    origin_ns: i64,
    tracks: BTreeMap<u64, TrackKeys>,
    strings: SequenceStrings,
    /// Range that has begun but not ended.
    open: Option<OpenRange>,
    /// JSON lists of process and thread names.
    process_names: String,
    thread_names: String,
    /// True once the last packet of a whole file was read.
    is_complete: bool,
}

/// JSON of `pid` and `tid` in a track's events.
#[derive(Clone, Debug, Default)]
struct TrackKeys {
    pid: String,
    tid: String,
}

/// A range that ends in the next packet.
#[derive(Debug)]
struct OpenRange {
    track: u64,
    start_ns: i64,
    /// Text of the event up to its duration, and after it; `None` if the range was not recorded.
    text: Option<[Vec<u8>; 2]>,
}

impl PacketConverter for KinetoConverter {
    fn out(&mut self) -> &mut EventText {
        &mut self.out
    }

    fn add_packet(&mut self, packet: TracePacket) -> Result<(), String> {
        for entry in packet.chrome_events.unwrap_or_default().metadata {
            self.add_metadata(entry)?;
        }
        if let Some(track) = packet.track_descriptor {
            self.add_track(&track)?;
        }
        if let Some(data) = packet.interned_data {
            self.strings.learn(data)?;
        }
        match packet.track_event {
            Some(event) => self.add_event(packet.timestamp, &event),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), &'static str> {
        if !self.is_complete || self.open.is_some() {
            return Err("its last packet");
        }
        self.begin_events();
        self.put_names();
        self.out.text.extend_from_slice(b"\n]}\n");
        Ok(())
    }

    fn give_up(&mut self) {
        self.begin_events();
    }
}

impl KinetoConverter {
    fn add_metadata(&mut self, entry: ChromeMetadata) -> Result<(), String> {
        let (key, value) = (
            entry.name.unwrap_or_default(),
            entry.string_value.unwrap_or_default(),
        );
        match &key[..] {
            words::ORIGIN => {
                self.origin_ns = value
                    .parse()
                    .map_err(|_| format!("its {} is not a whole number", words::ORIGIN))?;
            }
            words::PROCESS_NAMES => self.process_names = value,
            words::THREAD_NAMES => self.thread_names = value,
            words::COMPLETE => self.is_complete = true,
            _ => {
                let header = match &key[..] {
                    words::ORDER => Some(words::ORDER_KEY),
                    key => key.strip_prefix(words::HEADER),
                };
                if !self.out.has_begun
                    && let Some(key) = header
                {
                    self.put_json_text(key)?;
                    self.out.text.extend_from_slice(b": ");
                    self.out.text.extend_from_slice(value.as_bytes());
                    self.out.text.extend_from_slice(b",\n");
                }
            }
        }
        Ok(())
    }

    /// Adds a track. Only tracks of recorded threads and streams hold their names in the recording.
    fn add_track(&mut self, track: &TrackDescriptor) -> Result<(), String> {
        let description = track.description.as_deref().unwrap_or_default();
        let Some(labels) = description.strip_prefix("pid ") else {
            return Ok(());
        };
        let (pid, rest) = leading_label(labels).ok_or("its track has no process")?;
        let tid = rest.strip_prefix(", tid ").and_then(leading_label);
        let (tid, _) = tid.ok_or("its track has no thread")?;
        let keys = TrackKeys {
            pid: pid.to_owned(),
            tid: tid.to_owned(),
        };
        self.tracks.insert(track.uuid(), keys);
        Ok(())
    }

    fn add_event(&mut self, timestamp: Option<u64>, event: &TrackEvent) -> Result<(), String> {
        let kind = event.r#type();
        if kind == Type::Counter {
            return Ok(());
        }
        let since_origin = timestamp.ok_or("its event has no time")?;
        let at = i64::try_from(since_origin)
            .ok()
            .and_then(|at| at.checked_add(self.origin_ns))
            .ok_or("its time is out of range")?;
        if kind == Type::SliceEnd {
            return self.end_range(at, event.track_uuid());
        }
        if self.open.is_some() {
            return Err("a range starts before the previous one has ended".to_owned());
        }
        let text = self.event_text(at, event)?;
        if kind == Type::Instant {
            if let Some([head, tail]) = text {
                self.put_event(&head, &[], &tail);
            }
        } else {
            self.open = Some(OpenRange {
                track: event.track_uuid(),
                start_ns: at,
                text,
            });
        }
        Ok(())
    }

    fn end_range(&mut self, end_ns: i64, track: u64) -> Result<(), String> {
        let open = self.open.take().ok_or("a range ends without a start")?;
        if open.track != track || end_ns < open.start_ns {
            return Err("a range ends on another track or before its start".to_owned());
        }
        if let Some([head, tail]) = open.text {
            let mut duration = b", \"dur\": ".to_vec();
            micros(&mut duration, end_ns - open.start_ns).map_err(|error| error.to_string())?;
            self.put_event(&head, &duration, &tail);
        }
        Ok(())
    }

    /// Returns the text of an event before and after its duration; `None` if it was not recorded.
    fn event_text(&self, at: i64, event: &TrackEvent) -> Result<Option<[Vec<u8>; 2]>, String> {
        let strings = &self.strings;
        let (mut recorded, mut recorded_as) = (None, &[][..]);
        for annotation in &event.debug_annotations {
            match strings.key(annotation)? {
                words::RECORDED => recorded = Some(&annotation.dict_entries),
                words::RECORDED_AS => recorded_as = &annotation.dict_entries,
                _ => {}
            }
        }
        let Some(recorded) = recorded else {
            return Ok(None);
        };
        let track = self.tracks.get(&event.track_uuid());
        let mut keys = track.cloned().unwrap_or_default();
        let mut phase = match event.r#type() {
            Type::Instant => "\"i\", \"s\": \"t\"".to_owned(),
            _ => "\"X\"".to_owned(),
        };
        for entry in recorded_as {
            let value = strings.value_text(entry)?;
            match strings.key(entry)? {
                "ph" => phase = value,
                "pid" => keys.pid = value,
                "tid" => keys.tid = value,
                _ => {}
            }
        }
        if keys.pid.is_empty() || keys.tid.is_empty() {
            return Err("its event is on an undescribed track".to_owned());
        }
        let category = event.category_iids.first().copied();
        let mut head = format!("{{\"ph\": {phase}").into_bytes();
        for (key, value) in [
            (&b", \"cat\": "[..], strings.category(category)?),
            (b", \"name\": ", strings.name(event.name_iid)?),
        ] {
            // Kineto's instants have no category.
            if !value.is_empty() || key == b", \"name\": " {
                head.extend_from_slice(key);
                text(&mut head, value).map_err(|error| error.to_string())?;
            }
        }
        let place = format!(", \"pid\": {}, \"tid\": {}, \"ts\": ", keys.pid, keys.tid);
        head.extend_from_slice(place.as_bytes());
        micros(&mut head, at).map_err(|error| error.to_string())?;
        let mut tail = vec![];
        if !recorded.is_empty() {
            tail.extend_from_slice(b", \"args\": ");
            strings.put_object(&mut tail, recorded)?;
        }
        tail.push(b'}');
        Ok(Some([head, tail]))
    }

    fn put_event(&mut self, head: &[u8], duration: &[u8], tail: &[u8]) {
        self.begin_events();
        self.out.put_event(&[head, duration, tail]);
    }

    fn begin_events(&mut self) {
        self.out.begin(|| "\"traceEvents\": [".to_owned());
    }

    fn put_names(&mut self) {
        let lists = [
            ("process_name", std::mem::take(&mut self.process_names)),
            ("thread_name", std::mem::take(&mut self.thread_names)),
        ];
        for (what, list) in lists {
            for entry in list_items(list.as_bytes()) {
                let JsonValue::Nested(entry) = entry else {
                    continue;
                };
                let values: Vec<String> = list_items(entry).into_iter().map(json_text).collect();
                let (pid, tid, name) = match &values[..] {
                    [pid, name] => (pid, "0", name),
                    [pid, tid, name] => (pid, &tid[..], name),
                    _ => continue,
                };
                let event = format!(
                    "{{\"name\": \"{what}\", \"ph\": \"M\", \"pid\": {pid}, \"tid\": {tid}, \
                     \"args\": {{\"name\": {name}}}}}"
                );
                self.put_event(event.as_bytes(), &[], &[]);
            }
        }
    }

    fn put_json_text(&mut self, value: &str) -> Result<(), String> {
        text(&mut self.out.text, value).map_err(|error| error.to_string())
    }
}

/// Splits a text into its leading label, as JSON, and the rest.
fn leading_label(text: &str) -> Option<(&str, &str)> {
    let end = match text.strip_prefix('"') {
        // Quotes inside the label are escaped with a backslash.
        Some(quoted) => {
            let mut is_escaped = false;
            let close = quoted.find(|letter| {
                let closes = letter == '"' && !is_escaped;
                is_escaped = letter == '\\' && !is_escaped;
                closes
            })?;
            close + 2
        }
        None => text.find(',').unwrap_or(text.len()),
    };
    let (label, rest) = text.split_at(end);
    let is_number = label.parse::<i64>().is_ok();
    (is_number || label.starts_with('"')).then_some((label, rest))
}

/// Returns the items of a JSON list.
fn list_items(list: &[u8]) -> Vec<JsonValue<'_>> {
    let mut items = vec![];
    let mut scanner = JsonScanner::new(list);
    if scanner.eat(b'[') {
        while let Ok(Some(item)) = scanner.item() {
            items.push(item);
        }
    }
    items
}

/// Returns a value as JSON text.
fn json_text(value: JsonValue<'_>) -> String {
    let raw = String::from_utf8_lossy(value.raw());
    match value {
        JsonValue::Text(_) => format!("\"{raw}\""),
        JsonValue::Word(_) | JsonValue::Nested(_) => raw.into_owned(),
    }
}
