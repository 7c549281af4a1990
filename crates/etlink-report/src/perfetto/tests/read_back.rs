//! Written files are read back as the recording that they were made from.

#[path = "../../../../etlink-formats/tests/it/kineto/whole_trace.rs"]
mod whole_trace;

use super::{draw_everything, linked_with};
use crate::perfetto::{CriticalStep, TimelineFormat, write_trace};
use crate::pftrace::{PerfettoOrigin, kineto_text, perfetto_origin};
use etlink_formats::kineto::{KinetoReadOptions, KinetoVersion, KinetoWriteOptions};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{
    AnomalyKind, DeviceTrace, DurationNs, EventDetails, KeepEvents, RecordedDetails,
};
use etlink_testing::{Oddity, TraceBuilder};
use proptest::prelude::*;
use std::io::Read;

fn read(text: &[u8]) -> DeviceTrace {
    let options = KinetoReadOptions {
        threads: 2,
        shapes: true,
        keep: KeepEvents::Everything,
    };
    etlink_formats::kineto::read(text, options).expect("reads")
}

/// Returns the file of a linked trace, with a critical path, which is not part of the recording.
fn written(trace: &LinkedTrace) -> Vec<u8> {
    let path = trace.nodes.indices().next().map(|node| CriticalStep {
        node,
        start: trace.nodes.start[node.index()],
        duration: DurationNs(1),
        ..CriticalStep::default()
    });
    let path: Vec<CriticalStep> = path.into_iter().collect();
    let mut bytes = vec![];
    write_trace(trace, &path, TimelineFormat::Protobuf, &mut bytes).expect("writes");
    bytes
}

fn whole_text(bytes: &[u8]) -> Result<Vec<u8>, (Vec<u8>, String)> {
    let mut text = vec![];
    match kineto_text(bytes).read_to_end(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err((text, error.to_string())),
    }
}

/// Returns the content of a trace: its tables as Kineto's JSON, and the data they leave out.
fn meaning(trace: &DeviceTrace) -> Vec<String> {
    let options = KinetoWriteOptions {
        version: KinetoVersion::Torch2_15,
        verbatim: false,
    };
    let text = whole_trace::write(trace, vec![], options).expect("writes");
    let text = String::from_utf8(text).expect("UTF-8");
    let mut said: Vec<String> = text.lines().map(str::to_owned).collect();
    let details = trace.details.as_ref().expect("details");
    for table in [
        &details.ops,
        &details.calls,
        &details.rows,
        &details.syncs,
        &details.auxiliary,
        &details.memory,
        &details.other_details,
    ] {
        said.extend(detail_lines(trace, details, table));
    }
    for row in 0..details.others.len() {
        let event = details.others.row(row);
        let names = [event.phase, event.name].map(|id| trace.names.get(id));
        said.push(format!("{names:?} {:?} {:?}", event.start, event.duration));
    }
    for thread in &trace.threads {
        said.push(format!(
            "{} {}",
            trace.label(thread.pid),
            trace.label(thread.tid)
        ));
    }
    said.push(format!("{:?} {:?}", trace.queues, trace.first_start));
    said.extend(details.header.iter().map(|entry| format!("{entry:?}")));
    said
}

fn detail_lines(
    trace: &DeviceTrace,
    details: &RecordedDetails,
    table: &EventDetails,
) -> Vec<String> {
    let mut lines = vec![];
    for row in 0..table.len() {
        let detail = table.row(row);
        let track = details.tracks[detail.track as usize];
        let labels = [track.pid, track.tid].map(|label| trace.label(label));
        let mut line = format!("{} {labels:?}", trace.names.get(detail.category));
        let args = details.args(detail.args);
        let read = super::super::recorded::each_argument(args, |key, value| {
            line += &format!(" {key} {value:?}");
            Ok::<(), ()>(())
        });
        assert_eq!(read, Ok(()));
        lines.push(line);
    }
    lines
}

fn comes_back(text: &[u8]) -> Result<(), TestCaseError> {
    let trace = read(text);
    let options = LinkOptions {
        allow_mismatch: true,
        ..LinkOptions::default()
    };
    let Ok(linked) = etlink_link::link(None, trace, options) else {
        return Ok(());
    };
    let bytes = written(&linked);
    prop_assert_eq!(perfetto_origin(&bytes), Some(PerfettoOrigin::Recorded));
    let text = whole_text(&bytes).map_err(|(_, error)| TestCaseError::fail(error))?;
    let again = read(&text);
    // the sanity of rows cuts those that cannot be so long
    let (said, said_again) = (meaning(&linked.device), meaning(&again));
    let differs = said.iter().zip(&said_again).find(|(one, two)| one != two);
    prop_assert_eq!(differs, None);
    prop_assert_eq!(said.len(), said_again.len());
    Ok(())
}

#[test]
fn the_order_of_threads_is_known_by_one_name() {
    assert_eq!(
        etlink_formats::kineto::ORDER_KEY,
        crate::pftrace::words::ORDER_KEY
    );
}

#[test]
fn everything_comes_back() {
    comes_back(&draw_everything().kineto()).expect("comes back");
}

/// Programs add metadata of their own, in which a token of the environment would be published.
#[test]
fn metadata_of_the_program_is_not_written() {
    let mut traces = draw_everything();
    traces.metadata("metadata", r#"{"environment": {"TOKEN": "hidden"}}"#);
    traces.metadata("schemaVersion", "77");
    let bytes = written(&linked_with(&traces, KeepEvents::Everything));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(!text.contains("hidden"));
    assert!(text.contains("header_schemaVersion"));
}

#[test]
fn odd_traces_come_back() {
    for &oddity in Oddity::ALL {
        let traces = oddity.draw_rank(400, 0);
        let comes = comes_back(&traces.device);
        assert!(comes.is_ok(), "{}: {comes:?}", oddity.name());
    }
}

/// The reader repairs such a name, and repairs it again when the other arguments are read back.
#[test]
fn an_argument_with_raw_quotes_comes_back() {
    let text = r#"{"traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 1,
         "dur": 5, "args": {"External id": 7, "Process Group Name": "0"9, "Group size": 2,
         "Concrete Inputs": ["", ""], "Process Group Description": "default_pg",
         "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 64,
         "Out msg nelems": 64, "Group size": 2}}
    ]}"#;
    comes_back(text.as_bytes()).expect("comes back");
}

#[test]
fn a_cut_file_says_where_it_ends() {
    let trace = linked_with(&draw_everything(), KeepEvents::Everything);
    let bytes = written(&trace);
    for end in 1..bytes.len() {
        let (text, error) = whole_text(&bytes[..end]).expect_err("it was cut");
        let names_place = error.contains("byte");
        assert!(names_place, "{error}");
        // the part before the truncation can be read
        let options = KinetoReadOptions::default();
        if let Ok(part) = etlink_formats::kineto::read(&text[..], options) {
            assert!(part.ops.len() <= trace.device.ops.len());
        }
    }
    let options = KinetoReadOptions::default();
    let half = kineto_text(&bytes[..bytes.len() - 1]);
    let part = etlink_formats::kineto::read(half, options).expect("reads");
    let mut told = part.anomalies.iter();
    let told = told.find(|(kind, _)| *kind == AnomalyKind::SourceEnded);
    let last = bytes.len() - TimelineFormat::Protobuf.end().len();
    let why = format!("the file is truncated inside the packet at byte {last}");
    assert_eq!(told.and_then(|(_, told)| told.first.clone()), Some(why));
}

#[test]
fn traces_of_others_are_known() {
    let trace = linked_with(&draw_everything(), KeepEvents::Graph);
    let origin = perfetto_origin(&written(&trace));
    assert_eq!(origin, Some(PerfettoOrigin::ViewAlone));
    // a clock, as in every recording made by Perfetto itself
    let foreign = [0x0a, 0x08, 0x32, 0x06, 0x0a, 0x04, 0x08, 0x06, 0x10, 0x05];
    assert_eq!(perfetto_origin(&foreign), Some(PerfettoOrigin::Foreign));
    assert_eq!(perfetto_origin(b"{\"traceEvents\": []}"), None);
    assert_eq!(perfetto_origin(b""), None);
}

fn label() -> impl Strategy<Value = String> {
    prop_oneof![
        (0i64..4).prop_map(|number| number.to_string()),
        Just("-1".to_owned()),
        Just("\"Spans, tid \\\" \\\\\"".to_owned()),
    ]
}

fn json_value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| number.to_string()),
        (-1e9..1e9f64).prop_map(|number| format!("{number:.6}")),
        "[ -~]{0,8}".prop_map(|text| serde_json::Value::from(text).to_string()),
        Just("[[1, 2], [], [\"a\", null]]".to_owned()),
        Just("nan".to_owned()),
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("\"\"".to_owned()),
    ]
}

fn event() -> impl Strategy<Value = String> {
    let category = prop::sample::select(vec![
        "cpu_op",
        "user_annotation",
        "cuda_runtime",
        "cuda_driver",
        "kernel",
        "gpu_memcpy",
        "cuda_sync",
        "python_function",
        "overhead",
        "gpu_user_annotation",
        "cuda_profiler_range",
        "Trace",
    ]);
    let key = prop::sample::select(vec![
        "correlation",
        "External id",
        "stream",
        "device",
        "bytes",
        "memory bandwidth (GB/s)",
        "grid",
        "Input Dims",
        "Record function id",
        "Collective name",
        "anything",
        "",
    ]);
    let args = prop::collection::vec((key, json_value()), 0..5);
    let name = prop_oneof!["[a-c]{1,2}", "[ -~]{0,6}", Just("λ \u{7}".to_owned())];
    let times = (0u32..40_000, 0u32..20_000);
    (category, name, label(), label(), times, args).prop_map(
        |(category, name, pid, tid, (start, duration), args)| {
            let name = serde_json::Value::from(name);
            let args: Vec<String> = args
                .iter()
                .map(|(key, value)| format!("\"{key}\": {value}"))
                .collect();
            let times = format!("\"ts\": {}.5, \"dur\": {duration}", start);
            let args = args.join(", ");
            format!(
                "{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": {name}, \"pid\": {pid}, \
                 \"tid\": {tid}, {times}, \"args\": {{{args}}}}}"
            )
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_recording_comes_back(events in prop::collection::vec(event(), 0..30)) {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        draw.op(main, "aten::mm", 0, 5_000);
        for event in &events {
            draw.raw(event);
        }
        comes_back(&draw.kineto())?;
    }

    #[test]
    fn a_damaged_file_is_no_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let trace = linked_with(&draw_everything(), KeepEvents::Everything);
        let mut bytes = written(&trace);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        perfetto_origin(&bytes);
        if let Err((_, error)) = whole_text(&bytes) {
            prop_assert!(error.contains("byte"), "{}", error);
        }
    }
}
