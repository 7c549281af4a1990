//! Writes a device trace as XLA's profiler would, in both of its formats.

use etlink_model::{Correlation, DeviceTrace, DurationNs, NameId, RowKind, TimeNs};
use prost::encoding::{WireType, encode_key, encode_varint};
use std::collections::BTreeMap;

/// An event of a line, with its stats as text or numbers.
struct DrawnXlaEvent {
    name: NameId,
    start: TimeNs,
    duration: DurationNs,
    stats: Vec<(&'static str, StatText)>,
}

/// Value of a stat.
#[derive(Clone)]
enum StatText {
    Number(i64),
    Text(String),
}

/// A plane: its name, its process number in JSON, and its lines by id, each with a name.
struct DrawnPlane {
    name: String,
    process: i64,
    lines: BTreeMap<i64, (String, Vec<DrawnXlaEvent>)>,
}

/// Picoseconds added to each time, which readers have to round away.
const PS: i64 = 499;

/// Returns a device trace's ops, calls and device rows as `*.xplane.pb`. Data that XLA does not
/// have (a context, an op's shapes) is not written.
pub fn xla_space(trace: &DeviceTrace) -> Vec<u8> {
    let mut space = vec![];
    for plane in drawn_planes(trace) {
        push_block(&mut space, 1, &plane_message(&plane, trace));
    }
    let mut environment = vec![];
    push_block(&mut environment, 2, b"Task Environment");
    push_block(&mut environment, 5, &map_entry(1, b"profile_start_time"));
    let mut started = vec![];
    push_number(&mut started, 1, 1);
    push_number(&mut started, 3, trace.header.base_ns.0);
    push_block(&mut environment, 6, &started);
    push_block(&mut space, 1, &environment);
    push_block(&mut space, 4, trace.header.host_name.as_bytes());
    space
}

/// Returns a device trace's ops, calls and device rows as `*.trace.json`, like [`xla_space`].
pub fn xla_json(trace: &DeviceTrace) -> Vec<u8> {
    let mut events = vec![];
    for plane in drawn_planes(trace) {
        let pid = plane.process;
        let name = &plane.name;
        events.push(format!(
            r#"{{"ph":"M","pid":{pid},"name":"process_name","args":{{"name":"{name}"}}}}"#
        ));
        for (tid, (name, _)) in &plane.lines {
            events.push(format!(
                r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"thread_name","args":{{"name":"{name}"}}}}"#
            ));
        }
        for (tid, (_, drawn)) in &plane.lines {
            for event in drawn {
                let stats: Vec<String> = event
                    .stats
                    .iter()
                    .map(|(key, value)| match value {
                        StatText::Number(number) => format!(r#""{key}":"{number}""#),
                        StatText::Text(text) => format!(r#""{key}":"{text}""#),
                    })
                    .collect();
                events.push(format!(
                    r#"{{"ph":"X","pid":{pid},"tid":{tid},"ts":{},"dur":{},"name":"{}","args":{{{}}}}}"#,
                    micros(event.start.0),
                    micros(event.duration.0),
                    trace.names.get(event.name),
                    stats.join(",")
                ));
            }
        }
    }
    let text = format!(
        r#"{{"displayTimeUnit":"ns","metadata":{{"highres-ticks":true}},"traceEvents":[{},{{}}]}}"#,
        events.join(",")
    );
    text.into_bytes()
}

/// Converts nanoseconds to picoseconds and adds [`PS`].
fn picos(ns: i64) -> i64 {
    ns.saturating_mul(1_000).saturating_add(PS)
}

/// Formats nanoseconds plus [`PS`] as microseconds with six decimals; 0 stays 0.
fn micros(ns: i64) -> String {
    let ps = i128::from(ns) * 1_000 + i128::from(if ns == 0 { 0 } else { PS });
    let sign = if ps < 0 { "-" } else { "" };
    let ps = ps.abs();
    format!("{sign}{}.{:06}", ps / 1_000_000, ps % 1_000_000)
}

fn drawn_planes(trace: &DeviceTrace) -> Vec<DrawnPlane> {
    let mut host = DrawnPlane {
        name: "/host:CPU".to_owned(),
        process: 701,
        lines: BTreeMap::new(),
    };
    let ops = &trace.ops;
    for op in 0..ops.len() {
        let event = DrawnXlaEvent {
            name: ops.name[op],
            start: ops.start[op],
            duration: ops.duration[op],
            stats: vec![],
        };
        host.push_host(ops.thread[op].0, event);
    }
    let calls = &trace.calls;
    for call in 0..calls.len() {
        let event = DrawnXlaEvent {
            name: calls.name[call],
            start: calls.start[call],
            duration: calls.duration[call],
            stats: correlation_stat(calls.correlation[call]),
        };
        host.push_host(calls.thread[call].0, event);
    }
    let mut devices: BTreeMap<i64, DrawnPlane> = BTreeMap::new();
    for row in 0..trace.rows.len() {
        let row = trace.rows.row(row);
        let queue = trace.queues[row.queue.index()];
        let mut stats = correlation_stat(row.correlation);
        let ([x, y, z], [a, b, c]) = (row.grid, row.block);
        let details = match row.kind {
            RowKind::Memcpy => (
                "memcpy_details",
                format!("kind:1 size:{} async:1", row.bytes),
            ),
            RowKind::Memset => ("memset_details", format!("kind:1 size:{}", row.bytes)),
            RowKind::Kernel | RowKind::GraphNode => {
                let sizes = format!("regs:8 grid:{x},{y},{z} block:{a},{b},{c}");
                ("kernel_details", sizes)
            }
        };
        stats.push((details.0, StatText::Text(details.1)));
        let plane = devices.entry(queue.device).or_insert_with(|| DrawnPlane {
            name: format!("/device:GPU:{}", queue.device),
            process: queue.device + 1,
            lines: BTreeMap::new(),
        });
        let stream = format!("Stream #{}(Kernel)", queue.stream);
        let (_, line) = plane.lines.entry(queue.stream).or_insert((stream, vec![]));
        line.push(DrawnXlaEvent {
            name: row.name,
            start: row.start,
            duration: row.duration,
            stats,
        });
    }
    devices.into_values().chain([host]).collect()
}

fn correlation_stat(correlation: Correlation) -> Vec<(&'static str, StatText)> {
    let id = correlation.get().map(|id| StatText::Number(id.0));
    id.map(|id| ("correlation_id", id)).into_iter().collect()
}

impl DrawnPlane {
    fn push_host(&mut self, thread: u32, event: DrawnXlaEvent) {
        let thread = i64::from(thread);
        let name = format!("thread/{thread}");
        let (_, line) = self.lines.entry(thread).or_insert((name, vec![]));
        line.push(event);
    }
}

fn plane_message(plane: &DrawnPlane, trace: &DeviceTrace) -> Vec<u8> {
    let mut message = vec![];
    push_block(&mut message, 2, plane.name.as_bytes());
    // Numbers of stats and texts, which follow the lines that use them, as in real files.
    let mut texts: Vec<String> = vec![String::new()];
    let mut number_of = |text: &str| -> i64 {
        let known = texts.iter().position(|known| known == text);
        let place = known.unwrap_or_else(|| {
            texts.push(text.to_owned());
            texts.len() - 1
        });
        place as i64
    };
    let mut used: BTreeMap<i64, NameId> = BTreeMap::new();
    for (id, (name, events)) in &plane.lines {
        let mut line = vec![];
        push_number(&mut line, 1, *id);
        push_block(&mut line, 2, name.as_bytes());
        let origin = events.iter().map(|event| event.start.0).min().unwrap_or(0);
        push_number(&mut line, 3, origin);
        for event in events {
            let id = i64::from(event.name.0) + 1;
            used.insert(id, event.name);
            let mut body = vec![];
            push_number(&mut body, 1, id);
            push_number(&mut body, 2, picos(event.start.0.saturating_sub(origin)));
            let duration = event.duration.0;
            push_number(
                &mut body,
                3,
                if duration == 0 { 0 } else { picos(duration) },
            );
            for (key, value) in &event.stats {
                let mut stat = vec![];
                push_number(&mut stat, 1, number_of(key));
                match value {
                    StatText::Number(number) => push_number(&mut stat, 4, *number),
                    StatText::Text(text) => push_number(&mut stat, 7, number_of(text)),
                }
                push_block(&mut body, 4, &stat);
            }
            push_block(&mut line, 4, &body);
        }
        push_block(&mut message, 3, &line);
    }
    for (id, name) in used {
        push_block(
            &mut message,
            4,
            &map_entry(id, trace.names.get(name).as_bytes()),
        );
    }
    for (id, text) in texts.iter().enumerate() {
        push_block(&mut message, 5, &map_entry(id as i64, text.as_bytes()));
    }
    message
}

/// Encodes an entry of a plane's map: a number, and a message with that number and a name.
fn map_entry(id: i64, name: &[u8]) -> Vec<u8> {
    let (mut entry, mut value) = (vec![], vec![]);
    push_number(&mut value, 1, id);
    push_block(&mut value, 2, name);
    push_number(&mut entry, 1, id);
    push_block(&mut entry, 2, &value);
    entry
}

fn push_number(message: &mut Vec<u8>, tag: u32, number: i64) {
    encode_key(tag, WireType::Varint, message);
    encode_varint(number.cast_unsigned(), message);
}

fn push_block(message: &mut Vec<u8>, tag: u32, block: &[u8]) {
    encode_key(tag, WireType::LengthDelimited, message);
    encode_varint(block.len() as u64, message);
    message.extend_from_slice(block);
}
