//! Perfetto's own format, read back and compared with the JSON of the same trace.

use super::{of, track};
use crate::perfetto::{CriticalStep, TimelineFormat, write_trace};
use crate::schema::trace_packet::SequenceFlags;
use crate::schema::track_event::Type;
use crate::schema::{DebugAnnotation, InternedData, InternedString, Trace, TracePacket};
use etlink_link::LinkedTrace;
use prost::Message;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Process and thread number, name, category, start, duration, arguments, arrows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) track: (u64, u64),
    pub(super) name: String,
    pub(super) category: String,
    pub(super) start: i64,
    pub(super) duration: i64,
    pub(super) args: Map<String, Value>,
    pub(super) flows: Vec<u64>,
}

/// What the file has.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    /// Number, name, place.
    pub(super) processes: Vec<(u64, String, u64)>,
    pub(super) threads: Vec<((u64, u64), String)>,
    pub(super) ranges: Vec<Range>,
}

/// The strings of a sequence by kind and number.
#[derive(Default)]
struct Strings([BTreeMap<u64, String>; 4]);

impl Strings {
    fn learn(&mut self, data: InternedData) {
        let lists = [
            data.event_names,
            data.event_categories,
            data.debug_annotation_names,
            data.debug_annotation_string_values,
        ];
        for (known, list) in self.0.iter_mut().zip(lists) {
            for InternedString { iid, name } in list {
                let iid = iid.expect("a number");
                assert!(
                    iid > 0 && known.insert(iid, name.expect("a string")).is_none(),
                    "string {iid} twice"
                );
            }
        }
    }

    fn get(&self, kind: usize, iid: Option<u64>) -> String {
        iid.map_or(String::new(), |iid| {
            self.0[kind]
                .get(&iid)
                .expect("a string that was told before")
                .clone()
        })
    }

    fn arg(&self, argument: &DebugAnnotation) -> (String, Value) {
        let DebugAnnotation {
            name_iid,
            bool_value,
            uint_value,
            int_value,
            string_value_iid,
        } = *argument;
        let text = string_value_iid.map(|iid| json!(self.get(3, Some(iid))));
        let values = [
            bool_value.map(|value| json!(value)),
            uint_value.map(|value| json!(value)),
            int_value.map(|value| json!(value)),
            text,
        ];
        let [value] = values
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .try_into()
            .expect("one value");
        (self.get(2, name_iid), value)
    }
}

/// Reads a file as `trace_processor` does.
pub(super) fn read(bytes: &[u8]) -> Found {
    let mut found = Found::default();
    let (mut tracks, mut strings) = (BTreeMap::new(), BTreeMap::<u32, Strings>::new());
    let mut open: Option<(Range, u64)> = None;
    for packet in Trace::decode(bytes).expect("packets").packet {
        let Some(sequence) = packet.trusted_packet_sequence_id else {
            continue;
        };
        if packet.sequence_flags == Some(SequenceFlags::SeqIncrementalStateCleared as u32) {
            assert!(
                strings.insert(sequence, Strings::default()).is_none(),
                "two ranks have sequence {sequence}"
            );
        }
        let strings = strings
            .get_mut(&sequence)
            .expect("a sequence that has begun");
        packet
            .interned_data
            .clone()
            .into_iter()
            .for_each(|data| strings.learn(data));
        if let Some(track) = &packet.track_descriptor {
            let number = |number: Option<i32>| number.expect("a number") as u64;
            if let Some(process) = &track.process {
                let place = number(process.legacy_sort_index);
                found.processes.push((
                    number(process.pid),
                    process.process_name.clone().expect("a name"),
                    place,
                ));
            }
            if let Some(thread) = &track.thread {
                let numbers = (number(thread.pid), number(thread.tid));
                assert!(
                    tracks
                        .insert(track.uuid.expect("a track"), numbers)
                        .is_none(),
                    "two threads have track {:?}",
                    track.uuid
                );
                found
                    .threads
                    .push((numbers, thread.thread_name.clone().expect("a name")));
            }
        }
        if let Some(range) = event(&packet, strings, &tracks, &mut open) {
            found.ranges.push(range);
        }
    }
    assert!(open.is_none(), "a range does not end");
    found
}

/// The range that ends with this packet.
fn event(
    packet: &TracePacket,
    strings: &Strings,
    tracks: &BTreeMap<u64, (u64, u64)>,
    open: &mut Option<(Range, u64)>,
) -> Option<Range> {
    let event = packet.track_event.as_ref()?;
    let (at, uuid) = (
        packet.timestamp.expect("a time") as i64,
        event.track_uuid.expect("a track"),
    );
    if event.r#type() == Type::SliceEnd {
        let (range, begun) = open.take().expect("a range to end");
        assert_eq!(begun, uuid);
        return Some(Range {
            duration: at - range.start,
            ..range
        });
    }
    assert_eq!(
        packet.sequence_flags,
        Some(SequenceFlags::SeqNeedsIncrementalState as u32)
    );
    let range = Range {
        track: tracks[&uuid],
        name: strings.get(0, event.name_iid),
        category: strings.get(1, event.category_iids.first().copied()),
        start: at,
        duration: 0,
        args: event
            .debug_annotations
            .iter()
            .map(|argument| strings.arg(argument))
            .collect(),
        flows: event.flow_ids.clone(),
    };
    assert!(
        open.replace((range, uuid)).is_none(),
        "a range begins in another's packets"
    );
    None
}

/// The same of JSON: an arrow's ends stand after their range.
pub(super) fn of_json(events: &[Value]) -> Found {
    let mut found = Found::default();
    let meta = |what: &'static str| of(events, "M").filter(move |event| event["name"] == what);
    let name = |event: &Value| event["args"]["name"].as_str().expect("a name").to_owned();
    let places = meta("process_sort_index")
        .map(|event| event["args"]["sort_index"].as_u64().expect("a place"));
    found.processes = meta("process_name")
        .zip(places)
        .map(|(event, place)| (track(event).0, name(event), place))
        .collect();
    found.threads = meta("thread_name")
        .map(|event| (track(event), name(event)))
        .collect();
    for event in events {
        let text = |key: &str| event[key].as_str().expect("text").to_owned();
        if event["ph"] == "X" {
            let args = event["args"].as_object().cloned().unwrap_or_default();
            let (start, duration) = (super::ns(&event["ts"]), super::ns(&event["dur"]));
            found.ranges.push(Range {
                track: track(event),
                name: text("name"),
                category: text("cat"),
                start,
                duration,
                args,
                flows: vec![],
            });
        } else if event["ph"] != "M" {
            found
                .ranges
                .last_mut()
                .expect("a range")
                .flows
                .push(event["id"].as_u64().expect("id"));
        }
    }
    found
}

/// Both formats say the same.
pub(super) fn agree(trace: &LinkedTrace, path: &[CriticalStep], events: &[Value]) {
    let mut bytes = vec![];
    write_trace(trace, path, TimelineFormat::Protobuf, &mut bytes).expect("writes");
    let (found, expected) = (read(&bytes), of_json(events));
    assert_eq!(found.processes, expected.processes);
    assert_eq!(found.threads, expected.threads);
    assert_eq!(found.ranges.len(), expected.ranges.len());
    found
        .ranges
        .iter()
        .zip(&expected.ranges)
        .for_each(|(found, expected)| assert_eq!(found, expected));
    arrows_are_whole(&found);
}

/// Every arrow has two ends, and no thread another's number.
pub(super) fn arrows_are_whole(found: &Found) {
    let mut ends: BTreeMap<u64, usize> = BTreeMap::new();
    for id in found.ranges.iter().flat_map(|range| &range.flows) {
        *ends.entry(*id).or_default() += 1;
    }
    assert!(ends.values().all(|ends| *ends == 2), "{ends:?}");
    let tracks: BTreeSet<u64> = found.threads.iter().map(|(numbers, _)| numbers.1).collect();
    assert_eq!(
        tracks.len(),
        found.threads.len(),
        "two threads have one number"
    );
}

#[test]
fn a_range_of_no_length_has_its_arrow() {
    use etlink_testing::{DeviceQueue, TraceBuilder};
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 5_000);
    draw.launch(
        main,
        (1_000, 1_000),
        DeviceQueue::stream(7),
        "no time",
        (1_000, 1_000),
    );
    draw.launch(
        main,
        (1_500, 1_600),
        DeviceQueue::stream(7),
        "after it",
        (1_700, 1_800),
    );
    let mut bytes = vec![];
    write_trace(
        &super::linked(&draw),
        &[],
        TimelineFormat::Protobuf,
        &mut bytes,
    )
    .expect("writes");
    let found = read(&bytes);
    let names = |id: &u64| {
        found
            .ranges
            .iter()
            .filter(|range| range.flows.contains(id))
            .map(|range| range.name.as_str())
            .collect::<Vec<_>>()
    };
    let ids: BTreeSet<u64> = found
        .ranges
        .iter()
        .flat_map(|range| range.flows.clone())
        .collect();
    assert_eq!(
        ids.iter().map(names).collect::<Vec<_>>(),
        [
            ["cudaLaunchKernel", "no time"],
            ["cudaLaunchKernel", "after it"]
        ]
    );
    let flat = found
        .ranges
        .iter()
        .find(|range| range.name == "no time")
        .expect("is there");
    assert_eq!((flat.start, flat.duration), (1_000, 0));
}
