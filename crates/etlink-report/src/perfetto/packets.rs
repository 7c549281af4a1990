//! Packets of Perfetto's own protobuf format.
//!
//! ```text
//! clock, metadata │ sequence 1: tracks, ranges (begin, end), strings by number │ sequence 2: …
//! ```
//! Tracks form a tree, which the user interface shows in the stated order: ranks, each with its
//! critical path, host processes and devices, and in these threads and streams. Perfetto would
//! order its own process and thread tracks by their number of ranges
//! (`dev.perfetto.ProcessThreadGroups`), regardless of ranks.
//!
//! A rank is a sequence with its own string numbers. The end of a range directly follows its begin;
//! readers sort by time and keep the order of simultaneous packets. An arrow is a number that two
//! ranges share; it begins at the earlier one.

use super::arrows::ArrowEnd;
use super::recorded::ArgumentValue;
use super::sink::{
    CounterTrack, CounterUnit, CounterValue, FileTimes, TimelineSink, TrackId, TrackProcess,
    TrackRange,
};
use crate::perfetto::schema::counter_descriptor::Unit;
use crate::perfetto::schema::trace_packet::SequenceFlags;
use crate::perfetto::schema::track_descriptor::{ChildTracksOrdering, SiblingMergeBehavior};
use crate::perfetto::schema::track_event::Type;
use crate::perfetto::schema::{
    BuiltinClock, ChromeEventBundle, ChromeMetadata, ClockSnapshot, CounterDescriptor,
    DebugAnnotation, InternedData, InternedString, TracePacket, TrackDescriptor, TrackEvent,
    clock_snapshot::Clock,
};
use etlink_model::{Names, TimeNs};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Number of bytes after which output is flushed.
const BLOCK: usize = 1 << 18;
/// Field number of `Trace.packet`.
const PACKET: u32 = 1;
/// Flag of packets that refer to strings by number.
const NEEDS_STRINGS: u32 = SequenceFlags::SeqNeedsIncrementalState as u32;

fn clock_reading(clock: BuiltinClock, at: u64) -> Clock {
    Clock {
        clock_id: Some(clock as u32),
        timestamp: Some(at),
    }
}

/// Returns the packets before all ranks: the instant of time 0 in ns since the Unix epoch, and the
/// file's metadata.
pub(super) fn file_head(about: &[(&str, String)], origin_ns: i64) -> Vec<u8> {
    let unix = u64::try_from(origin_ns).unwrap_or(0);
    let clocks = vec![
        // Perfetto's trace time is boot time: 0 here is the origin of all timestamps.
        clock_reading(BuiltinClock::Boottime, 0),
        clock_reading(BuiltinClock::Realtime, unix),
    ];
    let mut bytes = vec![];
    put_packet(
        &TracePacket {
            clock_snapshot: Some(ClockSnapshot { clocks }),
            ..TracePacket::default()
        },
        &mut bytes,
    );
    // One packet per entry, so that readers of the file's beginning need no long packet.
    for (name, value) in about {
        put_packet(&metadata_packet(name, value), &mut bytes);
    }
    bytes
}

fn metadata_packet(name: &str, value: &str) -> TracePacket {
    let entry = ChromeMetadata {
        name: Some(name.to_owned()),
        string_value: Some(value.to_owned()),
    };
    TracePacket {
        chrome_events: Some(ChromeEventBundle {
            metadata: vec![entry],
        }),
        timestamp: Some(0),
        ..TracePacket::default()
    }
}

fn put_packet(packet: &TracePacket, bytes: &mut Vec<u8>) {
    prost::encoding::message::encode(PACKET, packet, bytes);
}

/// Strings of one kind by number, from 1.
#[derive(Debug, Default)]
struct InternedTexts(Names);

impl InternedTexts {
    /// Returns the number of `text`, adding a new one to `list`; `None` for the empty text.
    fn number_of_text(
        &mut self,
        text: &str,
        packet: &mut TracePacket,
        list: fn(&mut InternedData) -> &mut Vec<InternedString>,
    ) -> Option<u64> {
        self.number_by(text, packet, list, |number| number)
    }

    /// Like `number_of_text`; `iid` maps numbers from 1 on to numbers in the file.
    fn number_by(
        &mut self,
        text: &str,
        packet: &mut TracePacket,
        list: fn(&mut InternedData) -> &mut Vec<InternedString>,
        iid: fn(u64) -> u64,
    ) -> Option<u64> {
        let known = self.0.count();
        // The empty text is number 0 of `Names`, and 0 is not an `iid` in Perfetto.
        let number = Some(self.0.intern(text).index() as u64).filter(|number| *number > 0);
        let iid = number.map(iid);
        // A string is written with the first packet that uses it; later packets have only its
        // number.
        if self.0.count() > known {
            list(packet.interned_data.get_or_insert_default()).push(InternedString {
                iid,
                name: Some(text.to_owned()),
            });
        }
        iid
    }
}

/// Writer of the packets of one rank.
#[derive(Debug)]
pub(super) struct PacketWriter<'w, W> {
    out: &'w mut W,
    block: Vec<u8>,
    times: FileTimes,
    /// Packet that begins a range, reused for each range.
    opens: TracePacket,
    /// Packet that ends a range, reused like `opens`.
    closes: TracePacket,
    /// Track of the rank, parent of its process tracks.
    rank_uuid: u64,
    /// Number of tracks below each process.
    below: BTreeMap<u32, i32>,
    names: InternedTexts,
    categories: InternedTexts,
    keys: InternedTexts,
    texts: InternedTexts,
    /// Argument texts that are JSON.
    json_texts: InternedTexts,
    /// Argument group being written.
    group: DebugAnnotation,
}

impl<'w, W: Write> PacketWriter<'w, W> {
    /// Creates a writer; `sequence`, from 1, must differ from all other ranks in the file.
    pub(super) fn new(out: &'w mut W, times: FileTimes, sequence: u32) -> Self {
        let packet = TracePacket {
            trusted_packet_sequence_id: Some(sequence),
            ..TracePacket::default()
        };
        let event = |kind: Type| {
            Some(TrackEvent {
                r#type: Some(kind as i32),
                ..TrackEvent::default()
            })
        };
        let opens = TracePacket {
            track_event: event(Type::SliceBegin),
            sequence_flags: Some(NEEDS_STRINGS),
            ..packet.clone()
        };
        let closes = TracePacket {
            track_event: event(Type::SliceEnd),
            ..packet.clone()
        };
        let mut block = vec![];
        // Readers drop the known strings of a sequence at this flag.
        put_packet(
            &TracePacket {
                sequence_flags: Some(SequenceFlags::SeqIncrementalStateCleared as u32),
                ..packet
            },
            &mut block,
        );
        let [names, categories, keys, texts, json_texts] =
            std::array::from_fn(|_| InternedTexts::default());
        PacketWriter {
            out,
            block,
            times,
            opens,
            closes,
            rank_uuid: RANK_UUIDS,
            below: BTreeMap::new(),
            names,
            categories,
            keys,
            texts,
            json_texts,
            group: DebugAnnotation::default(),
        }
    }

    /// Returns the number of an argument's key.
    fn number_of_key(&mut self, key: &str) -> Option<u64> {
        self.keys.number_of_text(key, &mut self.opens, |data| {
            &mut data.debug_annotation_names
        })
    }

    fn annotation(&mut self, key: &str, value: ArgumentValue<'_>) -> DebugAnnotation {
        let mut annotation = DebugAnnotation {
            name_iid: self.number_of_key(key),
            ..DebugAnnotation::default()
        };
        if annotation.name_iid.is_none() {
            // Perfetto has no number for the empty key, so it is written as text.
            annotation.name = Some(String::new());
        }
        match value {
            ArgumentValue::Int(value) => annotation.int_value = Some(value),
            ArgumentValue::Uint(value) => annotation.uint_value = Some(value),
            ArgumentValue::Float(value) => annotation.double_value = Some(value),
            ArgumentValue::Bool(value) => annotation.bool_value = Some(value),
            ArgumentValue::Text(text) if text.is_empty() => {
                annotation.string_value = Some(String::new());
            }
            ArgumentValue::Text(text) => {
                annotation.string_value_iid = self.number_of_argument(&text);
            }
            ArgumentValue::Json(text) => {
                annotation.string_value_iid =
                    self.json_texts
                        .number_by(&text, &mut self.opens, argument_texts, even_number);
            }
        }
        annotation
    }

    /// Returns the number of an argument's text.
    fn number_of_argument(&mut self, text: &str) -> Option<u64> {
        self.texts
            .number_by(text, &mut self.opens, argument_texts, odd_number)
    }

    /// Returns whole ns from the origin.
    fn file_time(&self, at: TimeNs) -> Option<u64> {
        // Perfetto's times are unsigned. Only a wrong clock can put an event before the origin.
        Some(u64::try_from(self.times.file_ns(at)).unwrap_or(0))
    }

    fn put_descriptor(&mut self, track: TrackDescriptor) {
        let sequence = self.opens.trusted_packet_sequence_id;
        let packet = TracePacket {
            trusted_packet_sequence_id: sequence,
            track_descriptor: Some(track),
            ..TracePacket::default()
        };
        put_packet(&packet, &mut self.block);
    }

    /// Returns the event of the range being written.
    fn open_event(&mut self) -> &mut TrackEvent {
        self.opens.track_event.get_or_insert_default()
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }
}

/// Returns the track of a thread; thread numbers are unique in the whole file.
fn thread_uuid(tid: u32) -> u64 {
    // The lowest bit distinguishes processes (1) from threads (0), so no two uuids are equal.
    // Numbers begin at 1, because Perfetto's own default track has the uuid 0.
    u64::from(tid) << 1
}

fn process_uuid(pid: u32) -> u64 {
    thread_uuid(pid) | 1
}

/// First uuid of rank tracks; thread and process uuids are below 2^32.
const RANK_UUIDS: u64 = 1 << 40;

/// First uuid of counter tracks.
const COUNTER_UUIDS: u64 = 1 << 60;

fn counter_uuid(counter: CounterTrack<'_>) -> u64 {
    COUNTER_UUIDS + (u64::from(counter.pid) << 20) + u64::from(counter.number)
}

/// Position of the first counter: counters precede the threads and streams of their process, whose
/// positions begin at 1.
const FIRST_COUNTER: i32 = -(1 << 20);

/// Returns the list that declares argument texts.
fn argument_texts(data: &mut InternedData) -> &mut Vec<InternedString> {
    &mut data.debug_annotation_string_values
}

/// Returns the string number of a plain text.
fn odd_number(number: u64) -> u64 {
    2 * number + 1
}

/// Returns the string number of a text that is JSON. Perfetto shows both alike, but a program that
/// reads the file back must distinguish them.
fn even_number(number: u64) -> u64 {
    2 * number
}

/// Width to which a rank's number is padded, in digits.
const RANK_DIGITS: usize = 6;

/// Pads a trailing number with spaces. Perfetto orders tracks without a parent by name, so rank 2
/// precedes rank 10. Pages show several spaces as one.
fn sortable_name(name: &str) -> String {
    match name.rsplit_once(' ') {
        Some((word, number)) if number.parse::<u32>().is_ok() => {
            format!("{word} {number:>RANK_DIGITS$}")
        }
        _ => name.to_owned(),
    }
}

/// Returns a track below another, at an explicit position.
fn track_below(parent: Option<u64>, uuid: u64, name: &str, place: i32) -> TrackDescriptor {
    TrackDescriptor {
        uuid: Some(uuid),
        name: Some(name.to_owned()),
        parent_uuid: parent,
        child_ordering: Some(ChildTracksOrdering::Explicit as i32),
        sibling_order_rank: Some(place),
        // two threads may share a name and must stay separate
        sibling_merge_behavior: Some(SiblingMergeBehavior::None as i32),
        ..TrackDescriptor::default()
    }
}

/// Converts a number; all are below 2^31.
fn signed_number(number: u32) -> i32 {
    number.cast_signed()
}

impl<W: Write> TimelineSink for PacketWriter<'_, W> {
    fn name_rank(&mut self, name: &str, place: u32) -> io::Result<()> {
        self.rank_uuid = RANK_UUIDS + u64::from(place);
        let track = track_below(
            None,
            self.rank_uuid,
            &sortable_name(name),
            signed_number(place),
        );
        self.put_descriptor(track);
        Ok(())
    }

    fn name_process(&mut self, process: TrackProcess<'_>) -> io::Result<()> {
        let TrackProcess {
            pid,
            rank: _,
            name,
            place,
            label,
        } = process;
        let place = signed_number(place);
        let track = track_below(Some(self.rank_uuid), process_uuid(pid), name, place);
        self.put_descriptor(TrackDescriptor {
            description: label.map(str::to_owned),
            ..track
        });
        Ok(())
    }

    fn name_thread(
        &mut self,
        track: TrackId,
        name: &str,
        recorded: Option<&str>,
    ) -> io::Result<()> {
        let place = self.below.entry(track.pid).or_default();
        *place += 1;
        let process = Some(process_uuid(track.pid));
        let track = track_below(process, thread_uuid(track.tid), name, *place);
        self.put_descriptor(TrackDescriptor {
            description: recorded.map(str::to_owned),
            ..track
        });
        Ok(())
    }

    fn name_counter(&mut self, counter: CounterTrack<'_>) -> io::Result<()> {
        let unit = match counter.unit {
            CounterUnit::Bytes => Unit::SizeBytes,
            CounterUnit::Count => Unit::Count,
            CounterUnit::Other => Unit::Unspecified,
        };
        let place = FIRST_COUNTER.saturating_add(signed_number(counter.number));
        let process = Some(process_uuid(counter.pid));
        let track = track_below(process, counter_uuid(counter), counter.name, place);
        self.put_descriptor(TrackDescriptor {
            counter: Some(CounterDescriptor {
                unit: Some(unit as i32),
            }),
            ..track
        });
        Ok(())
    }

    fn put_counter(
        &mut self,
        counter: CounterTrack<'_>,
        at: TimeNs,
        value: CounterValue,
    ) -> io::Result<()> {
        let mut event = TrackEvent {
            r#type: Some(Type::Counter as i32),
            track_uuid: Some(counter_uuid(counter)),
            ..TrackEvent::default()
        };
        match value {
            CounterValue::Whole(value) => event.counter_value = Some(value),
            CounterValue::Measured(value) => event.double_counter_value = Some(value),
        }
        let packet = TracePacket {
            timestamp: self.file_time(at),
            trusted_packet_sequence_id: self.opens.trusted_packet_sequence_id,
            track_event: Some(event),
            ..TracePacket::default()
        };
        put_packet(&packet, &mut self.block);
        if self.block.len() > BLOCK {
            self.hand_on()
        } else {
            Ok(())
        }
    }

    fn begin_range(&mut self, range: TrackRange<'_>) -> io::Result<()> {
        (self.opens.timestamp, self.closes.timestamp) = (
            self.file_time(range.start),
            self.file_time(range.start + range.duration),
        );
        // The end is a separate packet, so it also needs its track.
        let track_uuid = Some(thread_uuid(range.track.tid));
        self.closes.track_event.get_or_insert_default().track_uuid = track_uuid;
        let name_iid = self
            .names
            .number_of_text(range.name, &mut self.opens, |data| &mut data.event_names);
        let category = self
            .categories
            .number_of_text(range.category, &mut self.opens, |data| {
                &mut data.event_categories
            });
        let kind = if range.is_instant {
            Type::Instant
        } else {
            Type::SliceBegin
        };
        let event = self.open_event();
        event.r#type = Some(kind as i32);
        (event.track_uuid, event.name_iid) = (track_uuid, name_iid);
        event.category_iids.extend(category);
        Ok(())
    }

    fn add_argument(&mut self, key: &'static str, value: ArgumentValue<'_>) -> io::Result<()> {
        let annotation = self.annotation(key, value);
        self.open_event().debug_annotations.push(annotation);
        Ok(())
    }

    fn begin_group(&mut self, key: &'static str) -> io::Result<()> {
        self.group.name_iid = self.number_of_key(key);
        Ok(())
    }

    fn add_recorded(&mut self, key: &str, value: ArgumentValue<'_>) -> io::Result<()> {
        let annotation = self.annotation(key, value);
        self.group.dict_entries.push(annotation);
        Ok(())
    }

    fn end_group(&mut self) -> io::Result<()> {
        let group = std::mem::take(&mut self.group);
        self.open_event().debug_annotations.push(group);
        Ok(())
    }

    fn end_range(&mut self, arrows: &[ArrowEnd]) -> io::Result<()> {
        self.open_event()
            .flow_ids
            .extend(arrows.iter().map(|mark| mark.id));
        put_packet(&self.opens, &mut self.block);
        let kind = self.open_event().r#type();
        if kind != Type::Instant {
            put_packet(&self.closes, &mut self.block);
        }
        // The packet is reused, so everything specific to this range is cleared.
        self.opens.interned_data = None;
        let event = self.open_event();
        event.category_iids.clear();
        event.debug_annotations.clear();
        event.flow_ids.clear();
        if self.block.len() > BLOCK {
            self.hand_on()
        } else {
            Ok(())
        }
    }

    fn write_rest(&mut self) -> io::Result<()> {
        self.hand_on()
    }
}
