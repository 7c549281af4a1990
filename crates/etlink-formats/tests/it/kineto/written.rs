//! Written traces read back unchanged, and their text is Kineto's own.

use super::whole_trace::write;
use etlink_formats::kineto::{KinetoReadOptions, KinetoVersion, KinetoWriteOptions};
use etlink_model::{
    DeviceTrace, DurationNs, KeepEvents, NameId, QueueIdx, ThreadIdx, TimeNs, TrackLabel,
};
use etlink_testing::{DeviceQueue, KinetoFlavour, ParamComms, TraceBuilder};
use flate2::read::MultiGzDecoder;
use std::fmt::Debug;
use std::io::Read;

/// All layouts, oldest first.
const LAYOUTS: [KinetoVersion; 5] = [
    KinetoVersion::Torch1_8,
    KinetoVersion::Torch2_0,
    KinetoVersion::Torch2_4,
    KinetoVersion::Torch2_9,
    KinetoVersion::Torch2_15,
];

const RECORDED: [(&str, &str, KinetoVersion); 6] = [
    ("pairs", "mlp-2.1.2", KinetoVersion::Torch2_0),
    ("pairs", "loader-2.3.1", KinetoVersion::Torch2_0),
    ("pairs", "ddp2-2.4.1", KinetoVersion::Torch2_4),
    ("pairs", "tpdp4-2.15.0", KinetoVersion::Torch2_15),
    ("pairs", "open_range-2.15.0", KinetoVersion::Torch2_15),
    ("averages", "ddp2_gloo-2.15.0", KinetoVersion::Torch2_15),
];

#[expect(clippy::disallowed_methods, reason = "test data are files")]
fn recorded(folder: &str, case: &str) -> String {
    let crates = env!("CARGO_MANIFEST_DIR");
    let path = format!("{crates}/../../testdata/{folder}/{case}/kineto_trace_0.json.gz");
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut text = String::new();
    MultiGzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("utf8");
    text
}

fn read(text: &str) -> DeviceTrace {
    let options = KinetoReadOptions {
        threads: 1,
        shapes: true,
        keep: KeepEvents::Auxiliary,
    };
    etlink_formats::kineto::read(text.as_bytes(), options).expect("reads")
}

fn written(trace: &DeviceTrace, version: KinetoVersion) -> String {
    let options = KinetoWriteOptions {
        version,
        verbatim: false,
    };
    let text = write(trace, vec![], options).expect("writes");
    String::from_utf8(text).expect("utf8")
}

/// Contents of a trace, without the numbers its tables assign to names and places.
struct Meaning<'t>(&'t DeviceTrace, Vec<String>);

impl<'t> Meaning<'t> {
    fn of(trace: &'t DeviceTrace) -> Vec<String> {
        let mut all = Meaning(trace, vec![]);
        all.ops();
        all.calls_and_rows();
        all.others();
        all.around();
        all.1
    }

    fn push(&mut self, what: impl Debug) {
        self.1.push(format!("{what:?}"));
    }

    fn name(&self, id: NameId) -> &'t str {
        self.0.names.get(id)
    }

    fn thread(&self, thread: ThreadIdx) -> (String, String) {
        let thread = self.0.threads.get(thread.index());
        let label = |label: TrackLabel| self.0.label(label);
        thread.map_or_else(Default::default, |one| (label(one.pid), label(one.tid)))
    }

    fn queue(&self, queue: QueueIdx) -> DeviceQueue {
        self.0.queues[queue.index()]
    }

    fn record(&self, row: u32) -> String {
        let Some(row) = Some(row).filter(|row| *row != u32::MAX) else {
            return String::new();
        };
        let record = self.0.collectives.row(row as usize);
        let names = [
            record.name,
            record.dtype,
            record.in_split,
            record.out_split,
            record.group_name,
            record.group_desc,
            record.group_ranks,
            record.comms_id,
        ]
        .map(|id| self.name(id));
        let counts = (record.in_elements, record.out_elements, record.group_size);
        let ranks = [
            record.rank_start,
            record.rank_stride,
            record.rank,
            record.src,
            record.dst,
            record.seq,
        ];
        format!("{names:?} {counts:?} {ranks:?} {}", record.asynchronous)
    }

    fn ops(&mut self) {
        for row in 0..self.0.ops.len() {
            let op = self.0.ops.row(row);
            let names = [op.name, op.shapes, op.types].map(|id| self.name(id));
            let times = (op.start, op.duration, op.unfinished, op.annotation);
            let ids = (op.rf_id, op.external_id, op.seq_id, op.fwd_thread);
            let place = (self.thread(op.thread), self.record(op.collective));
            self.push((names, times, ids, place));
        }
    }

    fn calls_and_rows(&mut self) {
        for row in 0..self.0.calls.len() {
            let call = self.0.calls.row(row);
            let names = [call.name, call.kernel].map(|id| self.name(id));
            let times = (call.start, call.duration);
            let ids = (call.correlation, call.external_id);
            self.push((names, times, ids, self.thread(call.thread)));
        }
        for row in 0..self.0.rows.len() {
            let row = self.0.rows.row(row);
            let names = [row.name, row.category].map(|id| self.name(id));
            let times = (row.kind, row.start, row.duration, self.queue(row.queue));
            let ids = (row.correlation, row.external_id, row.graph_node);
            let sizes = (row.bytes, row.gb_per_s, row.grid, row.block);
            self.push((names, times, ids, sizes, self.record(row.collective)));
        }
    }

    fn others(&mut self) {
        let causes = &self.0.graph_dependencies;
        self.push((&causes.effect, &causes.cause));
        for row in 0..self.0.syncs.len() {
            let row = self.0.syncs.row(row);
            let times = (row.start, row.duration, self.queue(row.queue), row.unsigned);
            let waits = (row.wait_stream, row.wait_record, row.wait_event);
            self.push((self.name(row.name), times, row.correlation, waits));
        }
        for row in 0..self.0.auxiliary.len() {
            let row = self.0.auxiliary.row(row);
            let times = (row.kind, row.start, row.duration);
            self.push((self.name(row.name), times, self.thread(row.thread)));
        }
        for row in 0..self.0.stream_ops.len() {
            let row = self.0.stream_ops.row(row);
            self.push((self.name(row.name), row.stream, row.start, row.duration));
        }
        for row in 0..self.0.memory.len() {
            let row = self.0.memory.row(row);
            let device = (row.device_type, row.device);
            let sizes = (row.bytes, row.allocated, row.reserved);
            self.push((self.name(row.name), row.time, device, sizes));
        }
    }

    fn around(&mut self) {
        let trace = self.0;
        for (pid, name) in &trace.process_names {
            self.push((trace.label(*pid), self.name(*name)));
        }
        for (thread, name) in &trace.thread_names {
            let track = (trace.label(thread.pid), trace.label(thread.tid));
            self.push((track, self.name(*name)));
        }
        self.push((&trace.header, trace.has_rf_ids));
        let mut multiprocessors: Vec<(&i64, &u32)> = trace.multiprocessors.iter().collect();
        multiprocessors.sort_unstable();
        self.push(multiprocessors);
    }
}

/// Asserts that two traces have the same contents, and prints the first difference.
fn assert_same(one: &DeviceTrace, two: &DeviceTrace, case: &str) {
    let (one, two) = (Meaning::of(one), Meaning::of(two));
    let differing = one.iter().zip(&two).find(|(one, two)| one != two);
    assert_eq!(differing, None, "{case}");
    assert_eq!(one.len(), two.len(), "{case}");
}

#[test]
fn recorded_traces_come_back() {
    for (folder, case, version) in RECORDED {
        let trace = read(&recorded(folder, case));
        let again = read(&written(&trace, version));
        if version.has_whole_micros() {
            assert_eq!(trace.header.base_ns.0, 0, "{case}");
        }
        assert_same(&again, &trace, case);
        assert_eq!(again.anomalies, trace.anomalies, "{case}");
    }
}

#[test]
fn the_text_of_events_is_that_of_kineto() {
    // The arguments differ: no table keeps most of them.
    for (folder, case, version) in RECORDED {
        let text = recorded(folder, case);
        let again = written(&read(&text), version);
        let heads = |text: &str, phase: &str| -> Vec<String> {
            let newer = version == KinetoVersion::Torch2_15;
            let start = format!("    \"ph\": \"{phase}\",{}", if newer { "\n" } else { " " });
            let arguments = if newer {
                "\n    ,\n    \"args\""
            } else {
                ",\n    \"args\""
            };
            let events = text
                .split("  {\n")
                .filter(|event| event.starts_with(&start));
            let heads = events.filter_map(|event| Some(event.split_once(arguments)?.0.to_owned()));
            let mut heads: Vec<String> = heads.collect();
            heads.retain(|head| {
                ["cpu_op\"", "user_annotation\""]
                    .iter()
                    .any(|kind| head.contains(kind))
            });
            heads.sort_unstable();
            heads
        };
        let (wanted, found) = (heads(&text, "X"), heads(&again, "X"));
        assert!(wanted.len() > 100, "{case}: {}", wanted.len());
        assert_eq!(found, wanted, "{case}");
        let after = |text: &str| -> String {
            let end = text.rfind("\"Record Window End\"").expect("an end");
            text[end..].to_owned()
        };
        let shape = |text: &str| -> String {
            let text = text.replace("kineto_trace_0.json", "trace.json");
            text.chars().filter(|c| !c.is_ascii_digit()).collect()
        };
        assert_eq!(shape(&after(&again)), shape(&after(&text)), "{case}");
    }
}

#[test]
fn the_header_is_that_of_kineto() {
    for (folder, case, version) in RECORDED {
        let text = recorded(folder, case);
        let again = written(&read(&text), version);
        let head = |text: &str| -> Vec<String> {
            let list = text.find("\"traceEvents\": [").expect("a list");
            let kept = [
                "schemaVersion",
                "deviceProperties",
                "displayTimeUnit",
                "baseTime",
                "trace_id",
            ];
            let lines = text[..list].lines();
            let lines = lines.filter(|line| kept.iter().any(|key| line.contains(key)));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(head(&again), head(&text), "{case}");
    }
}

#[test]
fn a_device_of_the_header_is_written_once() {
    let list = r#"[{"id":0,"name":"a","numSms":108},{"id":1,"name":"b","numSms":132},{"id":2,"numSms":132}]"#;
    let trace = read(&format!(
        "{{\"deviceProperties\": {list}, \"traceEvents\": []}}"
    ));
    let again = written(&trace, KinetoVersion::default());
    let (_, list) = again.split_once("\"deviceProperties\": [").expect("a list");
    let (list, _) = list.split_once(']').expect("its end");
    let count = |word: &str| list.matches(word).count();
    let counts = [count("\"id\""), count("\"name\""), count("\"numSms\"")];
    assert_eq!(counts, [3, 2, 3], "{list}");
}

#[test]
fn drawn_programs_come_back_in_every_layout() {
    for flavour in [
        KinetoFlavour::Cuda,
        KinetoFlavour::Rocm,
        KinetoFlavour::Xpu,
        KinetoFlavour::Mtia,
    ] {
        let mut draw = TraceBuilder::new(flavour);
        draw.distributed(1, 4);
        let (main, other) = (draw.thread(), draw.thread());
        for at in 0..50 {
            let start = at * 10_000;
            let op = draw.op(main, "aten::mm", start, start + 9_000);
            draw.sequence(op, at, 0);
            draw.arg(op, "Input Dims", "[[8, 32], [32, 4]]");
            let call = (start + 1_000, start + 2_000);
            let queue = DeviceQueue::stream(7 + at % 3);
            draw.launch(main, call, queue, "gemm", (start + 5_000, start + 8_000));
            let comms = ParamComms::new("allreduce", 0..4, 1, at);
            draw.collective(other, &comms, start, start + 3_000);
            draw.annotation(other, &format!("step {at}"), start, start + 4_000);
        }
        let queue = DeviceQueue::stream(7);
        draw.memcpy(queue, "Memcpy HtoD", (600_000, 601_000), 900, 4_096);
        draw.memset(queue, (602_000, 603_000), None, 64);
        draw.sync(
            "Stream Wait Event",
            queue,
            (604_000, 605_000),
            901,
            Some((8, 3)),
        );
        draw.python(main, "train.py(3): step", 0, 500_000);
        let trace = read(&String::from_utf8(draw.kineto()).expect("utf8"));
        for version in LAYOUTS {
            let again = read(&written(&trace, version));
            if version.has_whole_micros() {
                // No base, and other categories before 2.0.
                let counts =
                    |trace: &DeviceTrace| (trace.ops.len(), trace.calls.len(), trace.rows.len());
                assert_eq!(counts(&again), counts(&trace));
                let base = trace.header.base_ns.0;
                let shifted = again.ops.start.iter().map(|start| start.0 - base);
                assert!(shifted.eq(trace.ops.start.iter().map(|start| start.0)));
            } else {
                assert_same(&again, &trace, &format!("{flavour:?} {version:?}"));
            }
        }
    }
}

#[test]
fn names_are_escaped_unless_asked_otherwise() {
    let mut trace = DeviceTrace::default();
    trace.header.base_ns.0 = 5;
    let thread = etlink_model::HostThread {
        pid: TrackLabel::Text(trace.names.intern("a \"process\"")),
        tid: TrackLabel::Int(-3),
    };
    trace.threads.push(thread);
    for name in ["\"quoted\"", "back\\slash", "new\nline", "\u{1}", "日本"] {
        let op = etlink_model::CpuOp {
            name: trace.names.intern(name),
            thread: ThreadIdx(0),
            start: TimeNs(-1_500),
            duration: DurationNs(1),
            external_id: -1,
            seq_id: -1,
            collective: u32::MAX,
            ..etlink_model::CpuOp::default()
        };
        trace.ops.push(op);
    }
    for version in LAYOUTS {
        let text = written(&trace, version);
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
        if !version.has_whole_micros() {
            assert_same(&read(&text), &trace, &format!("{version:?}"));
        }
    }
    let options = KinetoWriteOptions {
        verbatim: true,
        ..KinetoWriteOptions::default()
    };
    let text = write(&trace, vec![], options).expect("writes");
    let text = String::from_utf8(text).expect("utf8");
    assert!(text.contains("\"name\": \"\"quoted\"\"") && text.contains("\"ts\": -1.-500"));
}
