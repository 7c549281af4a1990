//! Reads the trace JSON made from a profile, `*.trace.json.gz`.
//!
//! Times are microseconds from the profile's start, printed as floats with picosecond digits. All
//! arguments are text (`xla/tsl/profiler/convert/trace_events_to_json.cc`). The writer keeps at
//! most a million events.

use crate::Error;
use crate::xla::XlaReadOptions;
use crate::xla::assemble::{XlaProfile, assemble};
use crate::xla::event::{PS_PER_NS, WorkDetails, XlaEvent, event_times, read_details};
use crate::xla::track::{PlaneKind, XlaTrack};
use etlink_json::{ArrayLayout, BrokenJson, JsonScanner, JsonValue, micros_to_ps, read_elements};
use etlink_model::{
    Anomalies, AnomalyKind, Correlation, DeviceTrace, IndexByValue, KeepEvents, NameId, Names,
};
use rustc_hash::FxHashMap;
use std::io::Read;

const LAYOUT: ArrayLayout = ArrayLayout {
    array: "traceEvents",
    first_keys: &["ph", "pid", "tid", "ts", "name", "args", "dur"],
    chunk_bytes: 256 << 10,
};

/// Reads trace JSON of XLA's profiler. The result does not depend on the number of threads.
///
/// # Errors
/// The source fails at once or holds no `traceEvents` list. A truncated or partly damaged file is
/// not an error: see [`DeviceTrace::anomalies`].
pub fn read_trace_json<R: Read + Send>(
    source: R,
    options: XlaReadOptions,
) -> Result<DeviceTrace, Error> {
    let mut merged = MergedEvents::default();
    let envelope = read_elements(
        source,
        LAYOUT,
        options.threads,
        |chunk: &mut ChunkEvents, scanner| chunk.read_event(scanner, options.keep),
        |chunk| merged.append(chunk),
    )
    .map_err(Error::Json)?;
    let mut profile = merged.into_profile();
    profile.bytes = envelope.bytes;
    let damage = envelope.damage;
    let place = damage.first_offset.map(|at| format!("byte {at}"));
    let anomalies = &mut profile.anomalies;
    let end = Some(format!("byte {}", envelope.bytes));
    anomalies.add(AnomalyKind::Truncated, u64::from(damage.truncated), end);
    let has_failed = u64::from(damage.source_error.is_some());
    anomalies.add(AnomalyKind::SourceEnded, has_failed, damage.source_error);
    anomalies.add(AnomalyKind::Repaired, damage.repaired, place.clone());
    anomalies.add(AnomalyKind::Skipped, damage.skipped, place);
    anomalies.add(AnomalyKind::NotAnObject, damage.not_objects, None);
    assemble(profile, options.keep)
}

/// Process and thread.
type TrackNumbers = (i64, i64);

/// Events of a chunk, numbered by the chunk's own names and tracks.
#[derive(Default)]
struct ChunkEvents {
    names: Names,
    /// Number of each name in the whole trace.
    renamed: Vec<NameId>,
    places: IndexByValue<TrackNumbers>,
    tracks: Vec<TrackNumbers>,
    events: Vec<XlaEvent>,
    frames: u64,
    plane_names: Vec<(i64, String)>,
    line_names: Vec<(TrackNumbers, String)>,
    anomalies: Anomalies,
}

/// An event as written in the text.
#[derive(Default)]
struct JsonEvent<'a> {
    phase: &'a [u8],
    name: Option<JsonValue<'a>>,
    pid: Option<JsonValue<'a>>,
    tid: Option<JsonValue<'a>>,
    start: Option<JsonValue<'a>>,
    duration: Option<JsonValue<'a>>,
    arguments: Vec<(&'a [u8], JsonValue<'a>)>,
}

impl<'a> JsonEvent<'a> {
    fn read(scanner: &mut JsonScanner<'a>) -> Result<JsonEvent<'a>, BrokenJson> {
        let mut event = JsonEvent::default();
        while let Some(key) = scanner.key()? {
            match key {
                b"args" if scanner.peek() == Some(b'{') => {
                    scanner.enter()?;
                    while let Some(key) = scanner.key()? {
                        let value = scanner.value()?;
                        event.arguments.push((key, value));
                    }
                }
                b"ph" => event.phase = scanner.value()?.raw(),
                b"name" => event.name = Some(scanner.value()?),
                b"pid" => event.pid = Some(scanner.value()?),
                b"tid" => event.tid = Some(scanner.value()?),
                b"ts" => event.start = Some(scanner.value()?),
                b"dur" => event.duration = Some(scanner.value()?),
                _ => drop(scanner.value()?),
            }
        }
        scanner.end_element()?;
        Ok(event)
    }

    fn argument(&self, wanted: &[u8]) -> Option<JsonValue<'a>> {
        let mut arguments = self.arguments.iter();
        arguments
            .find(|(key, _)| *key == wanted)
            .map(|(_, value)| *value)
    }

    /// Returns process and thread; 0 for a missing one.
    fn track(&self) -> TrackNumbers {
        let number = |value: Option<JsonValue<'_>>| value.and_then(JsonValue::int).unwrap_or(0);
        (number(self.pid), number(self.tid))
    }
}

impl ChunkEvents {
    fn read_event(
        &mut self,
        scanner: &mut JsonScanner<'_>,
        keep: KeepEvents,
    ) -> Result<(), BrokenJson> {
        let event = JsonEvent::read(scanner)?;
        match event.phase {
            b"M" => self.push_name(&event),
            b"X" => self.push_event(&event, keep),
            // The list ends with an empty object; counters and arrows are not kept.
            _ => {}
        }
        Ok(())
    }

    fn push_name(&mut self, event: &JsonEvent<'_>) {
        let Some(text) = event.argument(b"name") else {
            return;
        };
        let (track, text) = (event.track(), text.text().into_owned());
        match event.name.map(JsonValue::raw) {
            Some(b"process_name") => self.plane_names.push((track.0, text)),
            Some(b"thread_name") => self.line_names.push((track, text)),
            _ => {}
        }
    }

    fn push_event(&mut self, event: &JsonEvent<'_>, keep: KeepEvents) {
        let text = event.name.map(JsonValue::text).unwrap_or_default();
        if text.starts_with('$') && keep < KeepEvents::Auxiliary {
            self.frames += 1;
            return;
        }
        let place = || format!("{text:?}");
        let picos = |value: Option<JsonValue<'_>>| value.and_then(picoseconds);
        let Some(start) = picos(event.start) else {
            return self.anomalies.note(AnomalyKind::NoTime, place);
        };
        let mut length = picos(event.duration).unwrap_or_else(|| {
            self.anomalies.note(AnomalyKind::BadNumber, place);
            0
        });
        if length < 0 {
            self.anomalies.note(AnomalyKind::NegativeDuration, place);
            length = 0;
        }
        let Some((start, duration, is_instant)) = event_times(start, length) else {
            return self.anomalies.note(AnomalyKind::TimeOutOfRange, place);
        };
        let mut details = WorkDetails::default();
        for (key, value) in &event.arguments {
            if key.ends_with(b"_details") {
                read_details(&String::from_utf8_lossy(key), &value.text(), &mut details);
            }
        }
        let mut named = |wanted: &[u8]| {
            let text = event.argument(wanted).map(JsonValue::text);
            self.names.intern(&text.unwrap_or_default())
        };
        let (hlo, module) = (named(b"hlo_op"), named(b"hlo_module"));
        let number = |wanted: &[u8]| event.argument(wanted).and_then(JsonValue::int);
        let track = self.places.place_of(&mut self.tracks, event.track());
        self.events.push(XlaEvent {
            track: u32::try_from(track).unwrap_or(u32::MAX),
            name: self.names.intern(&text),
            start,
            duration,
            is_instant,
            hlo,
            module,
            correlation: number(b"correlation_id").map_or(Correlation::NONE, Correlation),
            step: number(b"step_num"),
            details,
        });
    }
}

/// Converts microseconds to picoseconds. Times whose picoseconds exceed 64 bits (106 days, such as
/// the Unix times of old files) keep whole nanoseconds.
fn picoseconds(value: JsonValue<'_>) -> Option<i128> {
    let exact = micros_to_ps(value.raw()).map(i128::from);
    exact.or_else(|| Some(i128::from(value.time_ns()?) * PS_PER_NS))
}

/// Events of all chunks, in file order.
#[derive(Default)]
struct MergedEvents {
    profile: XlaProfile,
    places: IndexByValue<TrackNumbers>,
    tracks: Vec<TrackNumbers>,
    plane_names: FxHashMap<i64, String>,
    line_names: FxHashMap<TrackNumbers, String>,
}

impl MergedEvents {
    fn append(&mut self, chunk: &mut ChunkEvents) {
        let profile = &mut self.profile;
        profile.names.absorb(&chunk.names, &mut chunk.renamed);
        let tracks: Vec<u32> = chunk
            .tracks
            .drain(..)
            .map(|track| self.places.place_of(&mut self.tracks, track))
            .map(|place| u32::try_from(place).unwrap_or(u32::MAX))
            .collect();
        chunk.places.clear();
        for mut event in chunk.events.drain(..) {
            event.track = tracks[event.track as usize];
            for name in [&mut event.name, &mut event.hlo, &mut event.module] {
                *name = chunk.renamed[name.index()];
            }
            profile.events.push(event);
        }
        profile.frames += std::mem::take(&mut chunk.frames);
        profile
            .anomalies
            .merge(std::mem::take(&mut chunk.anomalies));
        self.plane_names.extend(chunk.plane_names.drain(..));
        self.line_names.extend(chunk.line_names.drain(..));
        // A program has few names; a damaged file may have as many as events.
        if chunk.names.is_large() {
            chunk.names = Names::default();
            chunk.renamed.clear();
        }
    }

    fn into_profile(self) -> XlaProfile {
        let mut profile = self.profile;
        for track in &self.tracks {
            let plane_name = self.plane_names.get(&track.0);
            let line_name = self.line_names.get(track);
            profile.tracks.push(XlaTrack {
                plane: track.0,
                plane_name: plane_name.cloned().unwrap_or_default(),
                line: track.1,
                line_name: line_name.cloned().unwrap_or_default(),
            });
        }
        // Process ids in this JSON are plane numbers: the host's real id is not in it.
        let is_host = |track: &&XlaTrack| PlaneKind::of(&track.plane_name) == PlaneKind::Host;
        let host = profile.tracks.iter().find(is_host);
        profile.process = host.map_or(0, |track| track.plane);
        profile
    }
}
