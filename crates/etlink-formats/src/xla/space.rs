//! Reads `XSpace`, a profile in protobuf, plane by plane.

use crate::Error;
use crate::xla::assemble::{XlaProfile, assemble};
use crate::xla::event::{WorkDetails, XlaEvent, event_times, read_details};
use crate::xla::track::{PlaneKind, XlaTrack};
use crate::xla::wire::{WireField, WireFields};
use crate::xla::{self, XlaReadOptions};
use etlink_model::{AnomalyKind, Correlation, DeviceTrace, Failure, KeepEvents, NameId, UnixNs};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::io::{ErrorKind, Read};

/// Field numbers of `XSpace`.
mod xspace {
    pub(super) const PLANES: u32 = 1;
    pub(super) const ERRORS: u32 = 2;
    pub(super) const WARNINGS: u32 = 3;
    pub(super) const HOST_NAMES: u32 = 4;
}

/// Field numbers of `XPlane`.
mod plane {
    pub(super) const NAME: u32 = 2;
    pub(super) const LINES: u32 = 3;
    pub(super) const EVENT_METADATA: u32 = 4;
    pub(super) const STAT_METADATA: u32 = 5;
    pub(super) const STATS: u32 = 6;
}

/// Field numbers of `XLine`.
mod line {
    pub(super) const ID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const TIMESTAMP_NS: u32 = 3;
    pub(super) const EVENTS: u32 = 4;
    pub(super) const DISPLAY_NAME: u32 = 11;
}

/// Field numbers of `XEvent`.
mod event {
    pub(super) const METADATA_ID: u32 = 1;
    pub(super) const OFFSET_PS: u32 = 2;
    pub(super) const DURATION_PS: u32 = 3;
    pub(super) const STATS: u32 = 4;
    pub(super) const OCCURRENCES: u32 = 5;
}

/// Field numbers of `XEventMetadata` and `XStatMetadata`.
mod metadata {
    pub(super) const NAME: u32 = 2;
    pub(super) const DISPLAY_NAME: u32 = 4;
    pub(super) const STATS: u32 = 5;
}

/// Size limit of a protobuf message.
const MAX_PLANE: u64 = 2 << 30;

/// Reads a profile in protobuf, `*.xplane.pb`.
///
/// Keeps one plane in memory at a time, since names follow the events that use them. O(bytes).
///
/// # Errors
/// The source fails at once, or has no plane. A file that is truncated later is not an error: see
/// [`DeviceTrace::anomalies`].
pub fn read_space<R: Read>(source: R, options: XlaReadOptions) -> Result<DeviceTrace, Error> {
    let mut reader = SpaceReader {
        source,
        offset: 0,
        profile: XlaProfile::default(),
        keep: options.keep,
        planes: 0,
    };
    reader.read_all()?;
    if reader.planes == 0 {
        return Err(xla::PLANES.not_found(reader.offset));
    }
    reader.profile.bytes = reader.offset;
    assemble(reader.profile, options.keep)
}

struct SpaceReader<R> {
    source: R,
    offset: u64,
    profile: XlaProfile,
    keep: KeepEvents,
    planes: i64,
}

/// Next part of a file.
enum SpacePart {
    Field,
    End,
    /// Damage, after which nothing can be read.
    Damage(AnomalyKind),
}

/// Result of reading a varint from a stream.
enum StreamVarint {
    Number(u64),
    /// The stream ends before the varint.
    End,
    /// The stream ends inside the varint, or the varint is invalid.
    Broken,
}

impl<R: Read> SpaceReader<R> {
    fn read_all(&mut self) -> Result<(), Error> {
        let mut message = vec![];
        loop {
            match self.read_field(&mut message)? {
                SpacePart::Field => {}
                SpacePart::End => return Ok(()),
                SpacePart::Damage(kind) => {
                    self.note_place(kind);
                    return Ok(());
                }
            }
        }
    }

    /// Reads a field of the space into the reused buffer `message`.
    fn read_field(&mut self, message: &mut Vec<u8>) -> Result<SpacePart, Error> {
        let begin = self.offset;
        let key = match self.varint()? {
            StreamVarint::Number(key) => key,
            StreamVarint::End => return Ok(SpacePart::End),
            StreamVarint::Broken => return Ok(SpacePart::Damage(AnomalyKind::Truncated)),
        };
        // All fields of a space are length-delimited.
        let (tag, wire_type) = (key >> 3, key & 7);
        if wire_type != 2 {
            return Ok(SpacePart::Damage(AnomalyKind::BrokenMessage));
        }
        let StreamVarint::Number(length) = self.varint()? else {
            return Ok(SpacePart::Damage(AnomalyKind::Truncated));
        };
        if length > MAX_PLANE {
            let problem = format!(
                "the plane at byte {begin} claims {length} bytes, more than the message limit of 2 GiB"
            );
            return Err(Failure::new(problem).into());
        }
        let is_whole = self.message(length, message)?;
        match u32::try_from(tag) {
            Ok(xspace::PLANES) => self.read_plane(message, is_whole),
            Ok(xspace::HOST_NAMES) if self.profile.host_name.is_empty() => {
                self.profile.host_name = String::from_utf8_lossy(message).into_owned();
            }
            Ok(xspace::ERRORS | xspace::WARNINGS) => {
                let text = String::from_utf8_lossy(message);
                self.profile.diagnoses.push(text.into_owned());
            }
            _ => {}
        }
        Ok(if is_whole {
            SpacePart::Field
        } else {
            SpacePart::Damage(AnomalyKind::Truncated)
        })
    }

    /// Counts damage at the current offset.
    fn note_place(&mut self, kind: AnomalyKind) {
        let place = format!("byte {}", self.offset);
        self.profile.anomalies.note(kind, || place);
    }

    /// Reads up to `length` bytes. Memory grows with the bytes that exist, not with the claim.
    fn message(&mut self, length: u64, message: &mut Vec<u8>) -> Result<bool, Error> {
        message.clear();
        let read = self.source.by_ref().take(length).read_to_end(message);
        self.offset += message.len() as u64;
        if let Err(source) = read {
            self.source_failed(source)?;
        }
        Ok(message.len() as u64 == length)
    }

    /// Handles a failing source: after the first plane only the rest is lost, before it everything.
    fn source_failed(&mut self, source: std::io::Error) -> Result<(), Error> {
        if self.offset == 0 {
            return Err(Error::Io {
                offset: self.offset,
                source,
            });
        }
        let anomalies = &mut self.profile.anomalies;
        anomalies.note(AnomalyKind::SourceEnded, || source.to_string());
        Ok(())
    }

    fn varint(&mut self) -> Result<StreamVarint, Error> {
        let mut value = 0u64;
        for place in 0..10 {
            let Some(byte) = self.byte()? else {
                return Ok(match place {
                    0 => StreamVarint::End,
                    _ => StreamVarint::Broken,
                });
            };
            value |= u64::from(byte & 0x7F) << (7 * place);
            if byte < 0x80 {
                return Ok(StreamVarint::Number(value));
            }
        }
        Ok(StreamVarint::Broken)
    }

    fn byte(&mut self) -> Result<Option<u8>, Error> {
        let mut byte = [0];
        loop {
            match self.source.read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) => {
                    self.offset += 1;
                    return Ok(Some(byte[0]));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.source_failed(error)?;
                    return Ok(None);
                }
            }
        }
    }

    fn read_plane(&mut self, message: &[u8], is_whole: bool) {
        let place = self.planes;
        self.planes += 1;
        let mut fields = WireFields::of(message);
        let (mut lines, mut stats) = (vec![], vec![]);
        let mut tables = PlaneTables::default();
        for (tag, field) in &mut fields {
            match (tag, field) {
                (plane::NAME, name) => tables.name = name.text(),
                (plane::LINES, WireField::Block(line)) => lines.push(line),
                (plane::EVENT_METADATA, WireField::Block(entry)) => tables.add_event(entry),
                (plane::STAT_METADATA, WireField::Block(entry)) => tables.add_stat(entry),
                (plane::STATS, WireField::Block(stat)) => stats.push(stat),
                _ => {}
            }
        }
        // A plane truncated by the end of the file is counted as such instead.
        if fields.is_broken() && is_whole {
            self.note_place(AnomalyKind::BrokenMessage);
        }
        self.read_facts(&tables, &stats);
        if PlaneKind::of(&tables.name) == PlaneKind::Other {
            return;
        }
        let mut names = FxHashMap::default();
        for line in lines {
            self.read_line(place, line, &tables, &mut names);
        }
    }

    /// Reads the process, device and profile facts of a plane.
    fn read_facts(&mut self, tables: &PlaneTables<'_>, stats: &[&[u8]]) {
        let device = match PlaneKind::of(&tables.name) {
            PlaneKind::Device { number, part: 0 } => Some(number),
            PlaneKind::Device { .. } | PlaneKind::Host | PlaneKind::Other => None,
        };
        for stat in stats {
            let stat = tables.stat(stat);
            let number = stat.value.int();
            match (stat.name, device) {
                ("process_id", _) => self.profile.process = number.unwrap_or(0),
                ("profile_start_time", _) => {
                    self.profile.started = UnixNs(number.unwrap_or(0));
                }
                ("core_count", Some(device)) => {
                    let count = number.and_then(|count| u32::try_from(count).ok());
                    // A count of 0 means unknown, and coverage would divide by it.
                    let count = count.filter(|count| *count > 0);
                    let count = count.map(|count| (device, count));
                    self.profile.core_counts.extend(count);
                }
                ("device_type_string", Some(device)) => {
                    let name = stat.value.text().into_owned();
                    self.profile.device_names.push((device, name));
                }
                _ => {}
            }
        }
    }

    fn read_line<'a>(
        &mut self,
        plane: i64,
        message: &'a [u8],
        tables: &PlaneTables<'a>,
        names: &mut FxHashMap<i64, NameId>,
    ) {
        let mut track = XlaTrack {
            plane,
            plane_name: tables.name.clone().into_owned(),
            line: 0,
            line_name: String::new(),
        };
        let mut origin_ns = 0;
        let mut fields = WireFields::of(message);
        // Names may follow the events, which are therefore read later.
        for (tag, field) in &mut fields {
            match tag {
                line::ID => track.line = field.int().unwrap_or(0),
                line::NAME if track.line_name.is_empty() => {
                    track.line_name = field.text().into_owned();
                }
                line::DISPLAY_NAME => track.line_name = field.text().into_owned(),
                line::TIMESTAMP_NS => origin_ns = field.int().unwrap_or(0),
                _ => {}
            }
        }
        if fields.is_broken() {
            self.note_place(AnomalyKind::BrokenMessage);
        }
        let index = u32::try_from(self.profile.tracks.len()).unwrap_or(u32::MAX);
        self.profile.tracks.push(track);
        for (tag, field) in WireFields::of(message) {
            if let (line::EVENTS, WireField::Block(event)) = (tag, field) {
                self.read_event(index, origin_ns, event, tables, names);
            }
        }
    }

    fn read_event<'a>(
        &mut self,
        track: u32,
        origin_ns: i64,
        message: &'a [u8],
        tables: &PlaneTables<'a>,
        names: &mut FxHashMap<i64, NameId>,
    ) {
        let (mut id, mut offset, mut duration) = (0, 0i64, 0i64);
        let mut stats = EventStats::default();
        let mut is_total = false;
        let mut fields = WireFields::of(message);
        for (tag, field) in &mut fields {
            match (tag, field) {
                (event::METADATA_ID, id_field) => id = id_field.int().unwrap_or(0),
                (event::OFFSET_PS, offset_field) => offset = offset_field.int().unwrap_or(0),
                (event::DURATION_PS, field) => duration = field.int().unwrap_or(0),
                (event::STATS, WireField::Block(stat)) => stats.add(&tables.stat(stat)),
                (event::OCCURRENCES, _) => is_total = true,
                _ => {}
            }
        }
        let anomalies = &mut self.profile.anomalies;
        if fields.is_broken() {
            anomalies.note(AnomalyKind::BrokenMessage, || format!("event of kind {id}"));
            return;
        }
        // An aggregate of many events has no time of its own.
        if is_total {
            return;
        }
        let Some(kind) = tables.events.get(&id) else {
            anomalies.note(AnomalyKind::NamelessEvent, || format!("kind {id}"));
            return;
        };
        let is_frame = kind.name.starts_with('$');
        if is_frame && self.keep < KeepEvents::Auxiliary {
            self.profile.frames += 1;
            return;
        }
        if duration < 0 {
            anomalies.note(AnomalyKind::NegativeDuration, || format!("{:?}", kind.name));
            duration = 0;
        }
        let start_ps = i128::from(origin_ns) * 1_000 + i128::from(offset);
        let Some((start, length, is_instant)) = event_times(start_ps, i128::from(duration)) else {
            anomalies.note(AnomalyKind::TimeOutOfRange, || format!("{:?}", kind.name));
            return;
        };
        for stat in &kind.stats {
            stats.add(&tables.stat(stat));
        }
        let texts = &mut self.profile.names;
        let name = *names.entry(id).or_insert_with(|| texts.intern(&kind.name));
        let mut intern = |text: &str| {
            if text.is_empty() {
                NameId::EMPTY
            } else {
                texts.intern(text)
            }
        };
        let (hlo, module) = (intern(&stats.hlo), intern(&stats.module));
        let event = XlaEvent {
            track,
            name,
            start,
            duration: length,
            is_instant,
            hlo,
            module,
            correlation: stats.correlation,
            step: stats.step,
            details: stats.details,
        };
        self.profile.events.push(event);
    }
}

/// A kind of event in a plane.
struct EventMetadata<'a> {
    name: Cow<'a, str>,
    stats: Vec<&'a [u8]>,
}

/// Lookup tables for the numbers in a plane's events and stats.
#[derive(Default)]
struct PlaneTables<'a> {
    name: Cow<'a, str>,
    events: FxHashMap<i64, EventMetadata<'a>>,
    stats: FxHashMap<i64, Cow<'a, str>>,
}

/// A stat with its name.
struct NamedStat<'a, 't> {
    name: &'t str,
    value: StatValue<'a, 't>,
}

#[derive(Clone, Copy)]
enum StatValue<'a, 't> {
    Field(WireField<'a>),
    /// Text stored among the names of stats.
    Known(&'t str),
}

impl<'a: 't, 't> StatValue<'a, 't> {
    fn int(self) -> Option<i64> {
        match self {
            StatValue::Field(field) => field.int(),
            StatValue::Known(_) => None,
        }
    }

    fn text(self) -> Cow<'t, str> {
        match self {
            StatValue::Field(field) => field.text(),
            StatValue::Known(text) => Cow::Borrowed(text),
        }
    }
}

impl<'a> PlaneTables<'a> {
    /// Adds an entry of `event_metadata`: a key and an `XEventMetadata`.
    fn add_event(&mut self, entry: &'a [u8]) {
        let (id, value) = map_entry(entry);
        let mut name = Cow::Borrowed("");
        let mut stats = vec![];
        for (tag, field) in WireFields::of(value) {
            match (tag, field) {
                (metadata::NAME, text) if name.is_empty() => name = text.text(),
                // Short form, shown by the profiler's own viewer.
                (metadata::DISPLAY_NAME, text) if !text.text().is_empty() => name = text.text(),
                (metadata::STATS, WireField::Block(stat)) => stats.push(stat),
                _ => {}
            }
        }
        self.events.insert(id, EventMetadata { name, stats });
    }

    /// Adds an entry of `stat_metadata`: a key and an `XStatMetadata`.
    fn add_stat(&mut self, entry: &'a [u8]) {
        let (id, value) = map_entry(entry);
        let name = WireFields::of(value).find(|(tag, _)| *tag == metadata::NAME);
        let name = name.map_or(Cow::Borrowed(""), |(_, field)| field.text());
        self.stats.insert(id, name);
    }

    /// Decodes an `XStat`.
    fn stat<'t>(&'t self, message: &'a [u8]) -> NamedStat<'a, 't> {
        let mut stat = NamedStat {
            name: "",
            value: StatValue::Field(WireField::Other),
        };
        for (tag, field) in WireFields::of(message) {
            match tag {
                1 => {
                    let name = field.int().and_then(|id| self.stats.get(&id));
                    stat.name = name.map_or("", |name| name);
                }
                7 => {
                    let text = field.int().and_then(|id| self.stats.get(&id));
                    stat.value = StatValue::Known(text.map_or("", |text| text));
                }
                2..=6 => stat.value = StatValue::Field(field),
                _ => {}
            }
        }
        stat
    }
}

/// Splits an entry of a map into key and value.
fn map_entry(entry: &[u8]) -> (i64, &[u8]) {
    let (mut key, mut value) = (0, &[][..]);
    for field in WireFields::of(entry) {
        match field {
            (1, number) => key = number.int().unwrap_or(0),
            (2, WireField::Block(block)) => value = block,
            _ => {}
        }
    }
    (key, value)
}

/// Facts from the stats of an event.
#[derive(Default)]
struct EventStats<'t> {
    hlo: Cow<'t, str>,
    module: Cow<'t, str>,
    correlation: Correlation,
    step: Option<i64>,
    details: WorkDetails,
}

impl<'t> EventStats<'t> {
    fn add<'a: 't>(&mut self, stat: &NamedStat<'a, 't>) {
        match stat.name {
            "hlo_op" => self.hlo = stat.value.text(),
            "hlo_module" => self.module = stat.value.text(),
            "correlation_id" => {
                self.correlation = stat.value.int().map_or(Correlation::NONE, Correlation);
            }
            "step_num" => self.step = stat.value.int(),
            name => read_details(name, &stat.value.text(), &mut self.details),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = include_str!("../../../../schemas/xla/xplane.proto");

    /// Returns the number of a field, as stated in the text of the schema.
    fn number_in_schema(message: &str, field: &str) -> u32 {
        let (_, body) = SCHEMA
            .split_once(&format!("message {message} {{"))
            .expect("the message");
        let (body, _) = body.split_once("\n}").expect("the message ends");
        let mut lines = body.lines();
        let line = lines.find(|line| line.contains(&format!(" {field} = ")));
        let (_, number) = line
            .expect("the field")
            .split_once(" = ")
            .expect("a number");
        number.trim_end_matches(';').parse().expect("a number")
    }

    #[test]
    fn numbers_are_those_of_the_schema() {
        for (message, field, number) in [
            ("XSpace", "planes", xspace::PLANES),
            ("XSpace", "errors", xspace::ERRORS),
            ("XSpace", "warnings", xspace::WARNINGS),
            ("XSpace", "hostnames", xspace::HOST_NAMES),
            ("XPlane", "name", plane::NAME),
            ("XPlane", "lines", plane::LINES),
            ("XPlane", "event_metadata", plane::EVENT_METADATA),
            ("XPlane", "stat_metadata", plane::STAT_METADATA),
            ("XPlane", "stats", plane::STATS),
            ("XLine", "id", line::ID),
            ("XLine", "name", line::NAME),
            ("XLine", "timestamp_ns", line::TIMESTAMP_NS),
            ("XLine", "events", line::EVENTS),
            ("XLine", "display_name", line::DISPLAY_NAME),
            ("XEvent", "metadata_id", event::METADATA_ID),
            ("XEvent", "offset_ps", event::OFFSET_PS),
            ("XEvent", "num_occurrences", event::OCCURRENCES),
            ("XEvent", "duration_ps", event::DURATION_PS),
            ("XEvent", "stats", event::STATS),
            ("XEventMetadata", "name", metadata::NAME),
            ("XEventMetadata", "display_name", metadata::DISPLAY_NAME),
            ("XEventMetadata", "stats", metadata::STATS),
            ("XStatMetadata", "name", metadata::NAME),
        ] {
            assert_eq!(
                number_in_schema(message, field),
                number,
                "{message}.{field}"
            );
        }
    }
}
