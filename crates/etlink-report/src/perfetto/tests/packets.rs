//! Reads Perfetto's own format back and compares it with the JSON of the same trace.

use super::{of, track};
use crate::perfetto::schema::trace_packet::SequenceFlags;
use crate::perfetto::schema::track_event::Type;
use crate::perfetto::schema::{DebugAnnotation, InternedData, InternedString, Trace, TracePacket};
use crate::perfetto::{CriticalStep, TimelineFormat, write_trace};
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

/// Contents of a file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    /// Number, name and position of each process.
    pub(super) processes: Vec<(u64, String, u64)>,
    pub(super) threads: Vec<((u64, u64), String)>,
    pub(super) ranges: Vec<Range>,
    /// Process, counter, instant and value.
    pub(super) counters: Vec<(u64, String, i64, f64)>,
}

/// Strings of a sequence by kind and number.
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

    /// Returns the value of an argument, parsed if it is JSON.
    fn text(&self, iid: u64) -> Value {
        let text = self.get(3, Some(iid));
        match iid % 2 {
            0 => serde_json::from_str(&text).unwrap_or_else(|_| json!(text)),
            _ => json!(text),
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
            double_value,
            string_value,
            name,
            dict_entries,
            string_value_iid,
            array_values,
        } = argument;
        assert!(array_values.is_empty(), "etlink writes no lists");
        let key = match name {
            Some(name) => name.clone(),
            None => self.get(2, *name_iid),
        };
        let values = [
            bool_value.map(|value| json!(value)),
            uint_value.map(|value| json!(value)),
            int_value.map(|value| json!(value)),
            double_value.map(|value| json!(value)),
            string_value.as_ref().map(|text| json!(text)),
            string_value_iid.map(|iid| self.text(iid)),
        ];
        if values.iter().all(Option::is_none) {
            let entries = dict_entries.iter().map(|entry| self.arg(entry));
            return (key, Value::Object(entries.collect()));
        }
        let [value] = values
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .try_into()
            .expect("one value");
        (key, value)
    }
}

/// Reads a file as `trace_processor` does.
pub(super) fn read(bytes: &[u8]) -> Found {
    let mut found = Found::default();
    let (mut tracks, mut strings) = (BTreeMap::new(), BTreeMap::<u32, Strings>::new());
    let mut open: Option<(Range, u64)> = None;
    let mut rank = (0, String::new());
    let mut counters = BTreeMap::new();
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
            let uuid = track.uuid.expect("a track");
            let name = track.name.clone().expect("a name");
            let place = track.sibling_order_rank.expect("a place");
            // ranks are above processes, which have odd numbers, and these above threads
            match track.parent_uuid {
                None => rank = (uuid, name),
                Some(parent) if track.counter.is_some() => {
                    counters.insert(uuid, (parent >> 1, name));
                }
                Some(parent) if uuid % 2 == 1 => {
                    assert_eq!(parent, rank.0, "a process of another rank");
                    let name = match &rank.1[..] {
                        "trace" => name,
                        rank => {
                            let words: Vec<&str> = rank.split_whitespace().collect();
                            format!("{} · {name}", words.join(" "))
                        }
                    };
                    found.processes.push((uuid >> 1, name, place as u64));
                }
                Some(parent) => {
                    let numbers = (parent >> 1, uuid >> 1);
                    let before = tracks.insert(uuid, numbers);
                    assert!(before.is_none(), "two threads have track {uuid}");
                    found.threads.push((numbers, name));
                }
            }
        }
        let value = packet.track_event.as_ref();
        if let Some(value) = value.filter(|event| event.r#type() == Type::Counter) {
            let (pid, name) = &counters[&value.track_uuid.expect("a track")];
            let at = packet.timestamp.expect("a time") as i64;
            let whole = value.counter_value.map(|value| value as f64);
            let value = whole.or(value.double_counter_value).expect("a value");
            found.counters.push((*pid, name.clone(), at, value));
            continue;
        }
        if let Some(range) = event(&packet, strings, &tracks, &mut open) {
            found.ranges.push(range);
        }
    }
    assert!(open.is_none(), "a range does not end");
    found
}

/// Returns the range that ends with this packet.
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
    if event.r#type() == Type::Instant {
        return Some(range);
    }
    assert!(
        open.replace((range, uuid)).is_none(),
        "a range begins in another's packets"
    );
    None
}

/// Returns the contents of a JSON file: an arrow's ends follow their range.
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
        if event["ph"] == "X" || event["ph"] == "i" {
            let args = event["args"].as_object().cloned().unwrap_or_default();
            let (start, duration) = (super::ns(&event["ts"]), event["dur"].as_f64());
            let duration = duration.map_or(0, |_| super::ns(&event["dur"]));
            found.ranges.push(Range {
                track: track(event),
                name: text("name"),
                category: text("cat"),
                start,
                duration,
                args,
                flows: vec![],
            });
        } else if event["ph"] == "C" {
            let value = event["args"]["value"].as_f64().expect("a value");
            let pid = track(event).0;
            let at = super::ns(&event["ts"]);
            found.counters.push((pid, text("name"), at, value));
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

/// Merges the tracks of each rank into one process, as Chrome's format does.
pub(super) fn in_rank_processes(found: &Found) -> Found {
    let mut first: BTreeMap<&str, u64> = BTreeMap::new();
    let mut renamed: BTreeMap<u64, (u64, &str)> = BTreeMap::new();
    let mut all = Found::default();
    for (pid, name, place) in &found.processes {
        let (rank, process) = name.split_once(" · ").expect("a rank");
        let whole = *first.entry(rank).or_insert(*pid);
        renamed.insert(*pid, (whole, process));
        if whole == *pid {
            all.processes.push((*pid, rank.to_owned(), *place));
        }
    }
    for ((pid, tid), name) in &found.threads {
        let (whole, process) = renamed[pid];
        all.threads
            .push(((whole, *tid), format!("{process} · {name}")));
    }
    for range in &found.ranges {
        all.ranges.push(Range {
            track: (renamed[&range.track.0].0, range.track.1),
            ..range.clone()
        });
    }
    for (pid, name, at, value) in &found.counters {
        let (whole, process) = renamed[pid];
        let name = format!("{process} · {name}");
        all.counters.push((whole, name, *at, *value));
    }
    all
}

/// Asserts that both formats have the same contents.
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

/// Asserts that every arrow has two ends, and that thread numbers are unique.
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
    // whole microseconds, of which a kernel may take none
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
        (2_000, 3_000),
        DeviceQueue::stream(7),
        "after it",
        (4_000, 5_000),
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
