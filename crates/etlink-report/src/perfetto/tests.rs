mod packets;
mod ranks;

use super::{CriticalStep, TimelineFormat, TimelineSummary, write_trace};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{DurationNs, NodeIdx, TimeNs};
use etlink_testing::{DeviceQueue, HostSchema, TraceBuilder};
use serde_json::Value;

fn linked(draw: &TraceBuilder) -> LinkedTrace {
    linked_with(draw, etlink_model::KeepEvents::Graph)
}

/// Links with all events that an export shows.
fn detailed(draw: &TraceBuilder) -> LinkedTrace {
    linked_with(draw, etlink_model::KeepEvents::Everything)
}

fn linked_with(draw: &TraceBuilder, keep: etlink_model::KeepEvents) -> LinkedTrace {
    let host = etlink_formats::host::read(
        &draw.host(HostSchema::V1_1_1)[..],
        etlink_formats::host::HostReadOptions { threads: 1 },
    )
    .expect("host trace");
    let device = etlink_formats::kineto::read(
        &draw.kineto()[..],
        etlink_formats::kineto::KinetoReadOptions {
            threads: 1,
            shapes: false,
            keep,
        },
    )
    .expect("device trace");
    etlink_link::link(
        Some(host),
        device,
        LinkOptions {
            allow_mismatch: true,
            ..LinkOptions::default()
        },
    )
    .expect("links")
}

/// Returns the events, after checks that every export must pass.
fn shown(trace: &LinkedTrace, path: &[CriticalStep]) -> (Vec<Value>, TimelineSummary) {
    let (mut text, mut again) = (vec![], vec![]);
    let summary = write_trace(trace, path, TimelineFormat::Json, &mut text).expect("writes");
    write_trace(trace, path, TimelineFormat::Json, &mut again).expect("writes");
    assert!(text == again, "same input, same bytes");
    let mut document: Value = serde_json::from_slice(&text).expect("JSON");
    let Value::Array(events) = document["traceEvents"].take() else {
        panic!("no events")
    };
    for event in &events {
        assert!(
            event["pid"].as_u64().is_some_and(|pid| pid > 0)
                && event["tid"].as_u64().is_some_and(|tid| tid > 0),
            "{event}"
        );
    }
    tracks_nest(&events);
    arrows_go_forward(&events);
    packets::agree(trace, path, &events);
    (events, summary)
}

/// Asserts that the ranges of each track nest.
fn tracks_nest(events: &[Value]) {
    let ranges: Vec<_> = of(events, "X")
        .map(|event| {
            (
                track(event),
                ns(&event["ts"]),
                ns(&event["ts"]) + ns(&event["dur"]),
            )
        })
        .collect();
    for (at, a) in ranges.iter().enumerate() {
        for b in ranges[..at].iter().filter(|b| b.0 == a.0) {
            let apart = a.1 >= b.2 || b.1 >= a.2;
            let inside = (a.1 >= b.1 && a.2 <= b.2) || (b.1 >= a.1 && b.2 <= a.2);
            assert!(apart || inside, "{a:?} crosses {b:?}");
        }
    }
}

fn arrows_go_forward(events: &[Value]) {
    let place = |phase: &str, id: &Value| {
        events
            .iter()
            .position(|event| event["ph"] == phase && event["id"] == *id)
            .expect("both ends")
    };
    for begin in of(events, "s") {
        let (from, to) = (place("s", &begin["id"]), place("f", &begin["id"]));
        assert!(
            from < to || ns(&begin["ts"]) < ns(&events[to]["ts"]),
            "{begin} comes after its end"
        );
        assert_eq!(begin["name"], events[to]["name"]);
    }
}

fn of<'e>(events: &'e [Value], phase: &'e str) -> impl Iterator<Item = &'e Value> {
    events.iter().filter(move |event| event["ph"] == phase)
}

fn track(event: &Value) -> (u64, u64) {
    (
        event["pid"].as_u64().expect("pid"),
        event["tid"].as_u64().expect("tid"),
    )
}

fn ns(micros: &Value) -> i64 {
    (micros.as_f64().expect("a number") * 1000.0).round() as i64
}

fn named<'e>(events: &'e [Value], name: &str) -> &'e Value {
    of(events, "X")
        .find(|event| event["name"] == name && event["cat"] != "step")
        .unwrap_or_else(|| panic!("no {name}"))
}

/// Returns the names of an event's process and thread.
fn place_of(events: &[Value], event: &Value) -> [String; 2] {
    let name = |what: &str, matches: &dyn Fn(&Value) -> bool| {
        let found = of(events, "M")
            .find(|meta| meta["name"] == what && matches(meta))
            .expect("named");
        found["args"]["name"].as_str().expect("text").to_owned()
    };
    [
        name("process_name", &|meta| meta["pid"] == event["pid"]),
        name("thread_name", &|meta| track(meta) == track(event)),
    ]
}

#[test]
fn a_launch_is_an_arrow_from_the_call_to_the_kernel() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 1_000, 30_001);
    draw.launch(
        main,
        (5_000, 8_000),
        DeviceQueue::stream(7),
        "gemm",
        (12_000, 40_000),
    );
    let trace = linked(&draw);
    let (events, summary) = shown(&trace, &[]);
    assert_eq!((summary.slices, summary.arrows, summary.steps), (3, 1, 0));
    let (begin, end) = (
        of(&events, "s").next().expect("an arrow"),
        of(&events, "f").next().expect("its end"),
    );
    let (call, kernel) = (named(&events, "cudaLaunchKernel"), named(&events, "gemm"));
    assert_eq!((track(begin), &begin["ts"]), (track(call), &call["ts"]));
    assert_eq!(
        (track(end), &end["ts"], &end["bp"]),
        (track(kernel), &kernel["ts"], &Value::from("e"))
    );
    assert_eq!([&begin["name"], &begin["cat"]], ["launch", "launch"]);
    assert_eq!(place_of(&events, kernel), ["device 0", "stream 7"]);
    let op = named(&events, "aten::mm");
    assert_eq!(
        (ns(&op["ts"]), ns(&op["dur"])),
        (0, 29_001),
        "counted from the first event, to the nanosecond"
    );
    assert_eq!(kernel["args"]["correlation"], call["args"]["correlation"]);
    assert_eq!(op["args"]["rf_id"], 1);
    let number = op["args"]["node"].as_u64().expect("a node");
    let node = trace.nodes.get(NodeIdx::new(number as usize));
    assert_eq!((trace.name(&node), node.first), ("aten::mm", true));
}

#[test]
fn what_overlaps_gets_a_track_of_its_own() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "first", 0, 50_000);
    draw.op(main, "crosses", 20_000, 80_000);
    draw.op(main, "in the second", 60_000, 70_000);
    draw.launch(
        main,
        (90_000, 91_000),
        DeviceQueue::stream(7),
        "long",
        (100_000, 200_000),
    );
    draw.launch(
        main,
        (92_000, 93_000),
        DeviceQueue::stream(7),
        "beside",
        (120_000, 140_000),
    );
    let (events, _) = shown(&linked(&draw), &[]);
    let tracks = ["first", "crosses", "in the second", "long", "beside"]
        .map(|name| track(named(&events, name)));
    assert_ne!(tracks[0], tracks[1]);
    assert_eq!(tracks[1], tracks[2]);
    assert_ne!(tracks[3], tracks[4]);
    assert_eq!(
        place_of(&events, named(&events, "beside")),
        ["device 0", "stream 7 (2)"]
    );
}

#[test]
fn the_end_of_a_wait_is_a_range_that_begins_after_the_kernel() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 6_000);
    draw.launch(
        main,
        (1_000, 5_000),
        DeviceQueue::stream(7),
        "gemm",
        (20_000, 90_000),
    );
    let correlation = draw.next_correlation();
    draw.call(main, "cudaDeviceSynchronize", (10_000, 95_000), correlation);
    let (events, summary) = shown(&linked(&draw), &[]);
    let wait = of(&events, "f")
        .find(|event| event["name"] == "host_wait")
        .expect("an arrow for the wait");
    let piece = named(&events, "goes on");
    assert_eq!((track(wait), &wait["ts"]), (track(piece), &piece["ts"]));
    assert_eq!((ns(&piece["ts"]), ns(&piece["dur"])), (90_000, 5_000));
    assert_eq!((summary.slices, summary.arrows), (5, 2));
}

#[test]
fn ids_that_are_no_numbers_are_numbered_and_names_escaped() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 5_000);
    draw.raw(concat!(
        r#"{"ph": "M", "name": "process_name", "ts": 0, "pid": "Spans", "tid": 0, "#,
        r#""args": {"name": "of \"text\""}}"#,
    ));
    draw.raw(concat!(
        r#"{"ph": "M", "name": "thread_name", "ts": 0, "pid": "Spans", "tid": "Profiler", "#,
        r#""args": {"name": "spans\n"}}"#,
    ));
    draw.raw(concat!(
        r#"{"ph": "X", "cat": "cpu_op", "name": "a \"quote\" \u0007", "pid": "Spans", "#,
        r#""tid": "Profiler", "ts": 1.5, "dur": 2}"#,
    ));
    draw.raw(
        r#"{"ph": "X", "cat": "cpu_op", "name": "zero", "pid": 0, "tid": -1, "ts": 2, "dur": 2}"#,
    );
    let (events, _) = shown(&linked(&draw), &[]);
    assert_eq!(
        place_of(&events, named(&events, "a \"quote\" \u{7}")),
        ["of \"text\"", "spans"]
    );
    assert_eq!(
        place_of(&events, named(&events, "zero")),
        ["process 0", "thread -1"]
    );
}

#[test]
fn the_critical_path_has_its_steps_and_delays() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 10_000);
    draw.launch(
        main,
        (5_000, 8_000),
        DeviceQueue::stream(7),
        "gemm",
        (12_000, 40_000),
    );
    let trace = linked(&draw);
    let find = |name: &str| {
        trace
            .nodes
            .indices()
            .find(|node| trace.name(&trace.nodes.get(*node)) == name)
            .expect("a node")
    };
    let start = trace.nodes.start[0];
    let first = CriticalStep {
        node: find("aten::mm"),
        start,
        duration: DurationNs(5_000),
        cause: "host",
        via: "start",
        ..CriticalStep::default()
    };
    let (node, start) = (find("gemm"), TimeNs(start.0 + 12_000));
    let second = CriticalStep {
        node,
        start,
        duration: DurationNs(28_000),
        delay: DurationNs(7_000),
        cause: "kernel",
        delay_cause: "launch",
        via: "launch",
    };
    let (events, summary) = shown(&trace, &[first, second]);
    assert_eq!(summary.steps, 2);
    let path: Vec<&Value> = of(&events, "X")
        .filter(|event| place_of(&events, event)[0] == "critical path")
        .collect();
    let spans: Vec<_> = path
        .iter()
        .map(|step| {
            (
                ns(&step["ts"]),
                ns(&step["dur"]),
                step["args"]["cause"].as_str().expect("cause"),
            )
        })
        .collect();
    assert_eq!(
        spans,
        [
            (0, 5_000, "host"),
            (5_000, 7_000, "launch"),
            (12_000, 28_000, "kernel")
        ]
    );
    assert_eq!(path[2]["args"]["resource"], "stream 7 of device 0");
    assert_eq!(path[1]["name"], "delay: launch");
}

#[test]
fn a_trace_of_nothing_is_still_a_trace() {
    let (events, summary) = shown(&LinkedTrace::default(), &[]);
    assert_eq!(summary, TimelineSummary::default());
    assert!(of(&events, "X").next().is_none());
}

#[test]
fn counters_of_a_device() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let us = |from: i64, to: i64| (from * 1000, to * 1000);
    draw.op(main, "aten::mm", 0, 9_500);
    let stream = DeviceQueue::stream(7);
    draw.launch(main, us(0, 2), stream, "a", us(10, 20));
    draw.launch(main, us(4, 6), stream, "b", us(20, 30));
    let id = draw.next_correlation();
    draw.call(main, "cudaMemcpyAsync", us(8, 9), id);
    let copies = DeviceQueue::stream(8);
    draw.memcpy(
        copies,
        "Memcpy DtoD (Device -> Device)",
        us(15, 25),
        id,
        4_000,
    );
    let (events, _) = shown(&linked(&draw), &[]);
    let values = |name: &str| {
        let named = of(&events, "C").filter(|event| event["name"] == name);
        let pair = |event: &Value| {
            (
                ns(&event["ts"]) / 1000,
                event["args"]["value"].as_i64().expect("a value"),
            )
        };
        named.map(pair).collect::<Vec<_>>()
    };
    assert_eq!(
        values("queue depth"),
        [(0, 1), (4, 2), (8, 3), (10, 2), (15, 1), (20, 0)]
    );
    assert_eq!(
        values("queue depth of stream 7"),
        [(0, 1), (4, 2), (10, 1), (20, 0)]
    );
    assert_eq!(values("queue depth of stream 8"), [(8, 1), (15, 0)]);
    let bandwidths: Vec<f64> = of(&events, "C")
        .filter(|event| event["name"] == "Memcpy DtoD GB/s")
        .map(|event| event["args"]["value"].as_f64().expect("a value"))
        .collect();
    assert_eq!(bandwidths, [12.5, 0.0], "as the row says it");
    assert_eq!(values("running"), [(10, 1), (15, 2), (25, 1), (30, 0)]);
    assert_eq!(values("bytes in flight"), [(15, 4_000), (25, 0)]);
}

/// Draws a Python frame, allocations, a wait, an annotation, and events of categories without a
/// table.
/// Programs add metadata of their own, in which a token of the environment would be published.
#[test]
fn metadata_of_the_program_is_not_written() {
    let mut draw = draw_everything();
    draw.metadata("metadata", r#"{"environment": {"TOKEN": "hidden"}}"#);
    draw.metadata("record_shapes", "77");
    let (trace, mut bytes) = (detailed(&draw), vec![]);
    write_trace(&trace, &[], TimelineFormat::Json, &mut bytes).expect("writes");
    let text = String::from_utf8(bytes).expect("text");
    assert!(!text.contains("hidden"));
    assert!(text.contains("record_shapes"));
}

fn draw_everything() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 1_000, 30_000);
    let stream = DeviceQueue::stream(7);
    draw.launch(main, (5_000, 8_000), stream, "gemm", (12_000, 40_000));
    for event in [
        r#"{"ph": "X", "cat": "python_function", "name": "train.py(1): f", "pid": 1000,
            "tid": 1000, "ts": 0.5, "dur": 20, "args": {"Python id": 3, "x": [1, nan]}}"#,
        r#"{"ph": "X", "cat": "gpu_user_annotation", "name": "step", "pid": 0, "tid": 7,
            "ts": 12, "dur": 28, "args": {"External id": 1}}"#,
        r#"{"ph": "X", "cat": "overhead", "name": "Buffer Flush", "pid": -1, "tid": 0,
            "ts": 50, "dur": 2}"#,
        r#"{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1000,
            "tid": 1000, "ts": 2, "args": {"Total Reserved": 4096, "Total Allocated": 512,
            "Bytes": 512, "Addr": 18446744073709551615, "Device Id": 0, "Device Type": 1}}"#,
        r#"{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1000,
            "tid": 1000, "ts": 3, "args": {"Total Reserved": 4096, "Total Allocated": 0,
            "Bytes": -512, "Device Id": 0, "Device Type": 1}}"#,
        r#"{"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7, "ts": 30,
            "dur": 10, "args": {"stream": 7, "device": 0, "context": 1, "correlation": 9}}"#,
        r#"{"ph": "X", "cat": "cuda_profiler_range", "name": "gemm", "pid": 0, "tid": "CUPTI",
            "ts": 12, "dur": 28, "args": {"sm__cycles.sum": 1.5}}"#,
        r#"{"ph": "C", "name": "power", "pid": 1000, "tid": 0, "ts": 4, "args": {"W": 250.5}}"#,
        r#"{"ph": "i", "s": "g", "name": "Iteration Start", "pid": "Traces", "tid": "T", "ts": 1}"#,
    ] {
        draw.raw(event);
    }
    draw
}

#[test]
fn everything_that_the_recording_has_is_shown() {
    let trace = detailed(&draw_everything());
    let (events, _) = shown(&trace, &[]);
    let mut places: Vec<(&str, [String; 2])> = vec![];
    for event in &events {
        let is_recorded = event["args"]["recorded"].is_object();
        if is_recorded {
            let category = event["cat"].as_str().expect("a category");
            places.push((category, place_of(&events, event)));
        }
    }
    places.sort();
    let shown: Vec<String> = places
        .iter()
        .map(|(category, [process, thread])| format!("{category}: {process}, {thread}"))
        .collect();
    assert_eq!(
        shown,
        [
            ": other events, process Traces · thread T",
            ": other events, recording",
            ": python, thread 0",
            "cpu_instant_event: python, thread 1000 (python) · events",
            "cpu_instant_event: python, thread 1000 (python) · events",
            "cpu_op: python, thread 1000 (python)",
            "cuda_profiler_range: device 0, thread CUPTI",
            "cuda_runtime: python, thread 1000 (python)",
            "cuda_sync: device 0, stream 7 · waits",
            "gpu_user_annotation: device 0, stream 7 · annotations",
            "kernel: device 0, stream 7",
            "overhead: other events, process -1 · thread 0",
            "python_function: python, thread 1000 (python) · Python",
        ]
    );
    let frame = named(&events, "train.py(1): f");
    let said = serde_json::json!({"Python id": 3, "x": "[1, nan]"});
    assert_eq!(frame["args"]["recorded"], said);
    let range = of(&events, "X").find(|event| event["cat"] == "cuda_profiler_range");
    let said = serde_json::json!({"sm__cycles.sum": 1.5});
    assert_eq!(range.expect("a range")["args"]["recorded"], said);
    let mut counters: Vec<String> = vec![];
    for event in of(&events, "C") {
        let name = event["name"].as_str().expect("a name");
        if name.starts_with("memory") || name.starts_with("power") {
            counters.push(format!("{name} {}", event["args"]["value"]));
        }
    }
    assert_eq!(
        counters,
        [
            "memory allocated 512",
            "memory allocated 0",
            "memory reserved 4096",
            "power W 250.5"
        ]
    );
}
