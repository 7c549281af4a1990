//! Tests with programs of known truth, and with damage.

use crate::Error;
use crate::kineto::KinetoReadOptions;
use crate::xla::{XlaReadOptions, is_xla_json, is_xla_space, read_space, read_trace_json};
use etlink_model::{
    AnomalyKind, CollectiveKind, DeviceTrace, DurationNs, KeepEvents, RowKind, TimeNs,
    TraceRecorder,
};
use proptest::prelude::*;
use std::fmt::Debug;
use std::io::Read;

/// Number of recorded programs, from 1.
const PROGRAMS: u64 = 3;

/// Returns a program as Kineto records it.
fn drawn(program: u64) -> DeviceTrace {
    let kineto = of_program(program, "kineto.json");
    let trace = crate::kineto::read(&kineto[..], KinetoReadOptions::default());
    trace.expect("a device trace")
}

fn xla_space(program: u64) -> Vec<u8> {
    of_program(program, "xplane.pb")
}

fn xla_json(program: u64) -> Vec<u8> {
    of_program(program, "trace.json")
}

fn of_program(program: u64, form: &str) -> Vec<u8> {
    unpacked(&recorded(&format!("recorders/program{program}.{form}.gz")))
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut unpacked = flate2::read::GzDecoder::new(packed);
    unpacked.read_to_end(&mut bytes).expect("unpacks");
    bytes
}

fn space(bytes: &[u8]) -> DeviceTrace {
    read_space(bytes, XlaReadOptions::default()).expect("a profile")
}

fn json(bytes: &[u8], threads: usize) -> DeviceTrace {
    let options = XlaReadOptions {
        threads,
        ..XlaReadOptions::default()
    };
    read_trace_json(bytes, options).expect("trace JSON")
}

/// Describes work and its launches, common to both forms, in order of time.
fn meaning(trace: &DeviceTrace) -> Vec<String> {
    let mut all = vec![];
    let mut push = |what: &dyn Debug| all.push(format!("{what:?}"));
    let rows = &trace.rows;
    for row in 0..rows.len() {
        let row = rows.row(row);
        let queue = trace.queues[row.queue.index()];
        let sizes = (row.grid, row.block, row.bytes, row.kind);
        let name = trace.names.get(row.name);
        let place = (queue.device, queue.stream, row.correlation);
        push(&("row", row.start, row.duration, name, place, sizes));
    }
    let calls = &trace.calls;
    for call in 0..calls.len() {
        let call = calls.row(call);
        let name = trace.names.get(call.name);
        push(&("call", call.start, call.duration, name, call.correlation));
    }
    let ops = &trace.ops;
    for op in 0..ops.len() {
        let op = ops.row(op);
        push(&("op", op.start, op.duration, trace.names.get(op.name)));
    }
    all.sort();
    all
}

#[test]
fn a_program_comes_back_from_both_forms() {
    let mut rows = 0;
    for seed in 1..=PROGRAMS {
        let trace = drawn(seed);
        rows += trace.rows.len();
        let truth = meaning(&trace);
        let (space_bytes, json_bytes) = (xla_space(seed), xla_json(seed));
        assert!(is_xla_space(&space_bytes) && is_xla_json(&json_bytes));
        let read = space(&space_bytes);
        assert_eq!(meaning(&read), truth, "program {seed}, protobuf");
        assert_eq!(read.anomalies.iter().count(), 0, "{:?}", read.anomalies);
        for threads in [1, 3] {
            let read = json(&json_bytes, threads);
            assert_eq!(
                meaning(&read),
                truth,
                "program {seed}, JSON, {threads} threads"
            );
            assert_eq!(read.anomalies.iter().count(), 0, "{:?}", read.anomalies);
        }
    }
    assert!(rows > 100, "the test could not fail: {rows} rows");
}

/// JAX itself wrote the profile's JSON, as floats of microseconds.
#[test]
fn both_recorded_forms_are_the_same_trace() {
    for case in ["mlp-0.10.2", "sharded2-0.10.2"] {
        let one = space(&recorded(&format!("jax/{case}/host.xplane.pb")));
        let packed = recorded(&format!("jax/{case}/host.trace.json.gz"));
        let two = json(&unpacked(&packed), 1);
        assert!(one.ops.len() > 100 && one.anomalies.iter().count() == 0);
        assert_eq!(meaning(&one), meaning(&two), "{case}");
        for trace in [&one, &two] {
            assert_eq!(trace.header.recorder, TraceRecorder::Xla);
        }
        // the JSON counts from the profile's start, without its time of day
        assert!(one.header.base_ns.0 > 0 && two.header.base_ns.0 == 0);
    }
}

#[expect(clippy::disallowed_methods, reason = "test data are files")]
fn recorded(file: &str) -> Vec<u8> {
    let crates = env!("CARGO_MANIFEST_DIR");
    let path = format!("{crates}/../../testdata/{file}");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Old files hold Unix times, whose picoseconds exceed 64 bits.
#[test]
fn times_of_day_are_read_and_longer_ones_counted() {
    let event = |start: &str| {
        format!(
            r#"{{"ph":"X","pid":3,"tid":1,"name":"fusion","ts":{start},"dur":1.5,"args":{{}}}}"#
        )
    };
    let starts = [
        "1700000000000000.25",
        "9200000000000000",
        "-9200000000000000",
    ];
    let names = [
        r#"{"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}}"#.to_owned(),
        r#"{"ph":"M","pid":3,"tid":1,"name":"thread_name","args":{"name":"XLA Ops"}}"#.to_owned(),
    ];
    let events = [names.to_vec(), starts.map(event).to_vec()].concat();
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let trace = json(text.as_bytes(), 1);
    assert_eq!(trace.rows.start, [TimeNs(1_700_000_000_000_000_250)]);
    assert_eq!(trace.rows.duration, [DurationNs(1_500)]);
    assert_eq!(trace.anomalies.count(AnomalyKind::TimeOutOfRange), 2);
}

/// Name, start and duration.
type DrawnEvent = (&'static str, u32, u32);

/// Builds trace JSON of one device with these lines; each has events `name start duration`, µs.
fn tpu(lines: &[(&str, &[DrawnEvent])], host: &str) -> DeviceTrace {
    let mut events = vec![
        r#"{"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}}"#.to_owned(),
        r#"{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}}"#.to_owned(),
    ];
    for (tid, (name, drawn)) in lines.iter().enumerate() {
        events.push(format!(
            r#"{{"ph":"M","pid":3,"tid":{tid},"name":"thread_name","args":{{"name":"{name}"}}}}"#
        ));
        for (name, start, length) in *drawn {
            events.push(format!(
                r#"{{"ph":"X","pid":3,"tid":{tid},"ts":{start},"dur":{length},"name":"{name}"}}"#
            ));
        }
    }
    let events = events.join(",");
    let text = format!(r#"{{"traceEvents":[{events},{host}{{}}]}}"#);
    let options = XlaReadOptions {
        threads: 1,
        keep: KeepEvents::Auxiliary,
    };
    read_trace_json(text.as_bytes(), options).expect("trace JSON")
}

fn row_names(trace: &DeviceTrace) -> Vec<&str> {
    let names = trace.rows.name.iter();
    names.map(|name| trace.names.get(*name)).collect()
}

#[test]
fn each_piece_of_work_is_one_row() {
    let trace = tpu(
        &[
            ("Steps", &[("0", 0, 100), ("1", 100, 90)]),
            ("XLA Modules", &[("jit_step(7)", 0, 95)]),
            (
                "XLA Ops",
                &[
                    ("while.1", 0, 60),
                    ("fusion.1", 0, 20),
                    ("all-reduce-start.2", 20, 1),
                    ("fusion.2", 30, 30),
                    ("copy-done.3", 60, 5),
                    ("all-gather.4", 70, 20),
                ],
            ),
            (
                "Async XLA Ops",
                &[("copy-start.3", 5, 58), ("all-reduce-start.2", 20, 30)],
            ),
            ("Framework Ops", &[("dot", 0, 60)]),
        ],
        "",
    );
    // A loop is the sum of its contents, and modules, steps and frameworks show the same work
    // again.
    let expected = [
        "fusion.1",
        "copy-start.3",
        "all-reduce-start.2",
        "all-reduce-start.2",
        "fusion.2",
        "copy-done.3",
        "all-gather.4",
    ];
    assert_eq!(row_names(&trace), expected);
    assert_eq!(trace.queues.len(), 2);
    assert_eq!(trace.rows.kind[1], RowKind::Memcpy);
    let kinds: Vec<Option<CollectiveKind>> = trace
        .rows
        .collective
        .iter()
        .map(|record| *record as usize)
        .map(|record| (record < trace.collectives.len()).then(|| trace.collectives.row(record)))
        .map(|record| record.map(|record| record.kind(&trace.names)))
        .collect();
    let (reduce, gather) = (CollectiveKind::AllReduce, CollectiveKind::AllGather);
    // the longer event, on the line of asynchronous ops, is the transfer
    let expected = [None, None, Some(reduce), None, None, None, Some(gather)];
    assert_eq!(kinds, expected);
    let shown: Vec<&str> = trace
        .auxiliary
        .name
        .iter()
        .map(|name| trace.names.get(*name))
        .collect();
    assert_eq!(shown, ["jit_step(7)", "while.1"]);
    let steps = trace.marked_steps.as_deref().unwrap_or_default();
    let step_names: Vec<&str> = steps
        .iter()
        .map(|step| trace.names.get(trace.ops.name[step.op.index()]))
        .collect();
    assert_eq!(step_names, ["step#0", "step#1"]);
    assert_eq!(trace.events.get("X xla_derived"), Some(&1));
}

#[test]
fn streams_are_the_work_and_what_is_derived_of_them_is_not() {
    let trace = tpu(
        &[
            ("Stream #7(Kernel)", &[("gemm", 0, 20), ("copy", 30, 5)]),
            ("XLA Ops", &[("dot.1", 0, 20), ("copy.2", 30, 5)]),
        ],
        "",
    );
    assert_eq!(row_names(&trace), ["gemm", "copy"]);
    assert_eq!(trace.queues[0].stream, 7);
}

#[test]
fn ops_of_hlo_stand_around_their_launches() {
    let host = concat!(
        r#"{"ph":"M","pid":701,"tid":5,"name":"thread_name","args":{"name":"python"}},"#,
        r#"{"ph":"X","pid":701,"tid":5,"ts":0,"dur":99,"name":"train","args":{"step_num":"4"}},"#,
        r#"{"ph":"X","pid":701,"tid":5,"ts":1,"dur":9,"name":"$step.py:3 f"},"#,
        r#"{"ph":"X","pid":701,"tid":5,"ts":10,"dur":2,"name":"cuLaunchKernel","#,
        r#""args":{"correlation_id":"1","hlo_op":"dot.1","hlo_module":"m"}},"#,
        r#"{"ph":"X","pid":701,"tid":5,"ts":13,"dur":2,"name":"cuLaunchKernel","#,
        r#""args":{"correlation_id":"2","hlo_op":"dot.1","hlo_module":"m"}},"#,
        r#"{"ph":"X","pid":701,"tid":5,"ts":16,"dur":2,"name":"cuLaunchKernel","#,
        r#""args":{"correlation_id":"3","hlo_op":"tanh.2","hlo_module":"m"}},"#,
        r#"{"ph":"X","pid":701,"tid":5,"ts":20,"dur":0.000001,"name":"Record"},"#,
    );
    let trace = tpu(&[], host);
    let ops: Vec<(&str, i64, i64)> = (0..trace.ops.len())
        .map(|op| trace.ops.row(op))
        .map(|op| (trace.names.get(op.name), op.start.0, op.duration.0))
        .collect();
    let expected = [
        ("train#4", 0, 99_000),
        ("dot.1", 10_000, 5_000),
        ("tanh.2", 16_000, 2_000),
    ];
    assert_eq!(ops, expected);
    assert_eq!(trace.calls.len(), 3);
    assert_eq!(trace.auxiliary.len(), 1);
    assert_eq!(trace.marked_steps.as_ref().map(Vec::len), Some(1));
    assert_eq!(trace.events.get("i host_instant"), Some(&1));
}

#[test]
fn what_is_cut_is_counted() {
    let bytes = xla_space(3);
    let whole = space(&bytes);
    // The first plane is a device's: half of it contains only lines, without names.
    let half = space(&bytes[..bytes.len() / 2]);
    assert!(half.anomalies.count(AnomalyKind::Truncated) > 0);
    // The host's plane comes after it.
    let cut = space(&bytes[..bytes.len() - 200]);
    assert_eq!(cut.rows.len(), whole.rows.len());
    assert_eq!(cut.anomalies.count(AnomalyKind::Truncated), 1);
    let nothing = read_space(&bytes[..1], XlaReadOptions::default());
    assert!(
        matches!(nothing, Err(Error::NotFound { bytes: 1, .. })),
        "{nothing:?}"
    );
    let json_bytes = xla_json(3);
    let cut = json(&json_bytes[..json_bytes.len() * 2 / 3], 1);
    assert!(cut.anomalies.count(AnomalyKind::Truncated) > 0);
    assert!(!cut.rows.is_empty());
}

#[test]
fn a_claimed_length_takes_no_memory() {
    // 1 GiB claimed, four bytes present
    let mut claim = vec![0x0A, 0x80, 0x80, 0x80, 0x80, 0x04];
    claim.extend_from_slice(b"\x12\x02hi");
    let trace = space(&claim);
    assert_eq!(trace.anomalies.count(AnomalyKind::Truncated), 1);
    let claim = [0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0x12];
    let refused = read_space(&claim[..], XlaReadOptions::default());
    assert!(matches!(refused, Err(Error::Failed(_))), "{refused:?}");
}

/// Source that fails after its bytes.
struct Failing<'b>(&'b [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(std::io::Error::other("the disk is gone")),
            count => Ok(count),
        }
    }
}

#[test]
fn a_source_that_fails_keeps_what_came_before() {
    let bytes = xla_space(1);
    let read = |part: &[u8]| read_space(Failing(part), XlaReadOptions::default());
    let trace = read(&bytes).expect("planes are there");
    assert_eq!(trace.anomalies.count(AnomalyKind::SourceEnded), 1);
    assert_eq!(trace.rows.len(), space(&bytes).rows.len());
    assert!(matches!(read(&[]), Err(Error::Io { offset: 0, .. })));
}

#[test]
fn kinds_of_files() {
    assert!(!is_xla_space(b""));
    assert!(!is_xla_space(b"\x0A\x05\x08\x01\x12"));
    assert!(!is_xla_space(b"\x0A\x09\x12\x07unknown"));
    assert!(is_xla_space(b"\x0A\x80\x01\x08\x02\x12\x0D/device:TPU:0"));
    assert!(!is_xla_json(
        br#"{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "/host:CPU"}]}"#
    ));
}

proptest! {
    #[test]
    fn damaged_bytes_are_no_panic(
        program in 1..=PROGRAMS,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        for whole in [xla_space(program), xla_json(program)] {
            let mut bytes = whole;
            for (place, byte) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            is_xla_space(&bytes);
            drop(read_space(&bytes[..], XlaReadOptions::default()));
            let one = read_trace_json(&bytes[..], XlaReadOptions::default());
            let three = read_trace_json(&bytes[..], XlaReadOptions { threads: 3, ..XlaReadOptions::default() });
            prop_assert_eq!(one.is_ok(), three.is_ok());
            if let (Ok(one), Ok(three)) = (one, three) {
                prop_assert_eq!(meaning(&one), meaning(&three));
            }
        }
    }
}
