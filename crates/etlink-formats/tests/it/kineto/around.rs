//! Tests the fields around the list, and finding the list.

use crate::kineto::support::{anomalies, document, op, ops, read};
use etlink_formats::kineto::KinetoReadOptions;
use etlink_model::{AnomalyKind, GlobalRank, KeepEvents, TimeNs};
use etlink_testing::TraceBuilder;

#[test]
fn metadata_before_the_list() {
    let mut draw = TraceBuilder::default();
    draw.metadata("trace_id", "\"BD8F4B23\"").distributed(3, 8);
    let header = read(draw.kineto()).header;
    assert_eq!(
        (header.rank, header.world_size, header.backend.as_str()),
        (Some(GlobalRank(3)), Some(8), "nccl")
    );
    assert_eq!(
        (header.base_ns.0, header.trace_id.as_str()),
        (1_790_857_026_000_000_000, "BD8F4B23")
    );
    assert_eq!(header.devices, ["Drawn Device"]);
    let group = &header.groups[0];
    assert_eq!(
        (
            group.name.as_str(),
            group.desc.as_str(),
            group.size,
            group.ranks.len()
        ),
        ("0", "default_pg", 8, 8)
    );
}

#[test]
fn distributed_info_after_the_list_with_quoted_ranks() {
    let mut draw = TraceBuilder::default();
    let info = concat!(
        r#"{"backend": "nccl", "rank": "5", "world_size": 8, "pg_config": [{"pg_name": "2", "#,
        r#""pg_desc": "tp", "backend_config": "cuda:nccl", "pg_size": 2, "ranks": "[4, 5]"}]}"#,
    );
    draw.trailing_metadata("distributedInfo", info)
        .trailing_metadata("baseTimeNanoseconds", "7");
    let header = read(draw.kineto()).header;
    assert_eq!(
        (header.rank, header.world_size, header.base_ns.0),
        (Some(GlobalRank(5)), Some(8), 7)
    );
    assert_eq!(header.groups[0].ranks, [4, 5]);
}

#[test]
fn metadata_that_is_no_json_costs_its_line() {
    for metadata in [
        "\"job\": {\"q\": \"v /\"q/\"\"},",
        "\"job\": plain words,",
        "job: 1,",
        "\"a/\"b\": 2,",
        "\"list\": [1, \"x\" y],",
        "\"n\": -nan,",
    ] {
        let text = format!(
            "{{\n\"schemaVersion\": 1,\n{metadata}\n\"distributedInfo\": {{\"rank\": \
                3}},\n\"traceEvents\": [\n{}\n]}}",
            op("a", 1)
        );
        let trace = read(&text);
        assert_eq!(
            (ops(&trace), trace.header.rank),
            (vec!["a"], Some(GlobalRank(3))),
            "{metadata}"
        );
        let damaged = !metadata.contains("nan") && !metadata.contains("plain");
        assert_eq!(
            trace.anomalies.count(AnomalyKind::HeaderDamaged),
            u64::from(damaged),
            "{metadata}"
        );
    }
}

#[test]
fn log_arrays_spliced_into_the_top_level() {
    // kineto#1184: the logger's lists appear between the events and traceName.
    let tail = concat!(
        r#", "INFO": ["Profiler is not initialized: skipping "step" call", "#,
        r#""Out-of-range = 3"], "ERROR": [x], "distributedInfo": {"rank": 2}, "#,
        r#""traceName": "t"}"#,
    );
    let trace = read(format!(
        "{{\"traceEvents\": [{}]{}",
        op("a", 1),
        tail.replace(", \"", ",\n\"")
    ));
    assert_eq!(
        (ops(&trace), trace.header.rank, anomalies(&trace)),
        (
            vec!["a"],
            Some(GlobalRank(2)),
            vec![(AnomalyKind::HeaderDamaged, 1)]
        )
    );
}

#[test]
fn a_bare_list() {
    let trace = read(format!("[{},\n{}]", op("a", 1), op("b", 2)));
    assert_eq!((ops(&trace), anomalies(&trace)), (vec!["a", "b"], vec![]));
}

#[test]
fn a_byte_order_mark() {
    for text in [document(&[op("a", 1)]), format!("[{}]", op("a", 1))] {
        let trace = read(format!("\u{feff}{text}"));
        assert_eq!((ops(&trace), anomalies(&trace)), (vec!["a"], vec![]));
    }
}

#[test]
fn a_key_of_the_same_name_before_the_list() {
    let text = format!(
        "{{\"note\": \"traceEvents\", \"traceEvents\": [{}]}}",
        op("a", 1)
    );
    assert_eq!(ops(&read(text)), ["a"]);
}

#[test]
fn an_empty_list_is_a_trace() {
    for text in [
        "{\"traceEvents\": []}",
        "[]",
        "{\"traceEvents\": [\n\n]\n}\n",
    ] {
        assert_eq!(
            (read(text).bytes, anomalies(&read(text))),
            (text.len() as u64, vec![]),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_trace_is_refused_with_what_was_seen() {
    for text in [
        "",
        "{}",
        "hello",
        "{\"nodes\": []}",
        "{\"traceEvents\": {}}",
    ] {
        let error = etlink_formats::kineto::read(
            text.as_bytes(),
            etlink_formats::kineto::KinetoReadOptions::default(),
        )
        .expect_err("no list");
        let want = format!("no \"traceEvents\" list found ({} bytes read)", text.len());
        let said = error.to_string();
        assert!(
            said.starts_with(&want) && said.ends_with("export it again"),
            "{said}"
        );
    }
}

#[test]
fn a_source_that_fails_is_an_error_and_one_that_ends_early_is_damage() {
    struct Failing<'a>(&'a [u8], std::io::ErrorKind);
    impl std::io::Read for Failing<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                Err(self.1.into())
            } else {
                std::io::Read::read(&mut self.0, to)
            }
        }
    }
    let text = document(&[op("a", 1), op("b", 2)]);
    let cut = &text.as_bytes()[..text.find("\"b\"").expect("b")];
    let options = etlink_formats::kineto::KinetoReadOptions::default();
    assert!(
        etlink_formats::kineto::read(Failing(cut, std::io::ErrorKind::PermissionDenied), options)
            .is_err()
    );
    let trace =
        etlink_formats::kineto::read(Failing(cut, std::io::ErrorKind::UnexpectedEof), options)
            .expect("damage");
    assert_eq!(
        (ops(&trace), anomalies(&trace)),
        (
            vec!["a"],
            vec![(AnomalyKind::Truncated, 1), (AnomalyKind::SourceEnded, 1)]
        )
    );
}

#[test]
fn multiprocessors_by_kernels_and_by_properties() {
    let kernel = |device: i64, grid: &str, per_sm: &str| {
        format!(
            concat!(
                r#"{{"ph": "X", "cat": "kernel", "name": "k", "pid": {device}, "tid": 7, "#,
                r#""ts": 1.000, "dur": 2.000, "args": {{"device": {device}, "stream": 7, "#,
                r#""blocks per SM": {per_sm}, "grid": {grid}}}}}"#,
            ),
            device = device,
            per_sm = per_sm,
            grid = grid
        )
    };
    // 2400 blocks at 22.222221 per multiprocessor, and 3 at 0.0227.
    let rows = [
        kernel(0, "[2400, 1, 1]", "22.222221"),
        kernel(1, "[3, 1, 1]", "0.022727273"),
    ]
    .join(",");
    let trace = read(format!("{{\"traceEvents\": [{rows}]}}"));
    assert_eq!(
        [0, 1, 2].map(|device| trace.multiprocessors(device)),
        [Some(108), Some(132), None]
    );
    let head =
        r#""deviceProperties": [{"id": 0, "name": "a", "numSms": 304}, {"id": 1, "numSms": 304}],"#;
    let trace = read(format!("{{{head}\"traceEvents\": [{}]}}", op("a", 1)));
    assert_eq!(trace.multiprocessors(2), Some(304), "all are alike");
    // Counts that no device can have are ignored.
    for per_sm in ["1000", "0", "1e-9", "x"] {
        let trace = read(document(&[kernel(0, "[3, 1, 1]", per_sm)]));
        assert_eq!(trace.multiprocessors(0), None, "{per_sm}");
    }
    let head = r#""deviceProperties": [{"id": 0, "numSms": 0}],"#;
    let trace = read(format!("{{{head}\"traceEvents\": [{}]}}", op("a", 1)));
    assert_eq!(trace.multiprocessors(0), None);
}

/// Names of threads and processes come from events that identify their owner.
#[test]
fn a_name_of_nothing_and_one_of_nobody_are_left_out() {
    let name = |what: &str, ids: &str, name: &str| {
        format!(r#"{{"ph": "M", "name": "{what}", {ids} "args": {{"name": "{name}"}}}}"#)
    };
    let events = [
        name("thread_name", r#""pid": 1, "tid": 2,"#, "main"),
        name("thread_name", r#""pid": 1, "tid": 2,"#, ""),
        name("thread_name", r#""pid": 3,"#, "of no thread"),
        name("thread_name", r#""tid": 3,"#, "of no process"),
        name("process_name", "", "of no process"),
        name("process_name", r#""pid": 4,"#, "python"),
    ];
    let trace = read(document(&events));
    let threads = trace.thread_names.iter();
    let threads = threads.map(|(thread, name)| (trace.label(thread.tid), trace.names.get(*name)));
    assert_eq!(Vec::from_iter(threads), [("2".to_owned(), "main")]);
    let processes = trace.process_names.iter();
    let processes = processes.map(|(pid, name)| (trace.label(*pid), trace.names.get(*name)));
    assert_eq!(Vec::from_iter(processes), [("4".to_owned(), "python")]);
}

#[test]
fn allocations_and_frees_by_time() {
    let memory = |ts: &str, kind: i64, bytes: i64, totals: &str| {
        format!(
            concat!(
                r#"{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "#,
                r#""pid": 1, "tid": 1, "ts": {ts}, "args": {{{totals}"Bytes": {bytes}, "#,
                r#""Addr": 12, "Device Id": 0, "Device Type": {kind}, "Ev Idx": 5}}}}"#,
            ),
            ts = ts,
            totals = totals,
            bytes = bytes,
            kind = kind
        )
    };
    let other = concat!(
        r#"{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[other]", "pid": 1, "#,
        r#""tid": 1, "ts": 1.000, "args": {}}"#,
    );
    let totals = "\"Total Reserved\": 2048, \"Total Allocated\": 1024, ";
    let text = format!(
        "{{\"traceEvents\": [{}, {other}, {}]}}",
        memory("5.500", 1, -512, totals),
        memory("2.000", 0, 64, "")
    );
    let options = KinetoReadOptions {
        keep: KeepEvents::Memory,
        ..KinetoReadOptions::default()
    };
    let trace = etlink_formats::kineto::read(text.as_bytes(), options).expect("a trace");
    assert_eq!(
        trace
            .memory
            .time
            .iter()
            .map(|time| time.0)
            .collect::<Vec<_>>(),
        [2_000, 5_500]
    );
    let row = trace.memory.row(1);
    assert_eq!(
        (
            row.device_type,
            row.device,
            row.bytes,
            row.allocated,
            row.reserved
        ),
        (1, 0, -512, 1024, 2048)
    );
    assert_eq!(trace.memory.row(0).allocated, 0);
}

#[test]
fn a_list_that_stands_twice_is_said() {
    let (one, two) = (op("first", 1), op("second", 2));
    let text = format!(
        "{{\"schemaVersion\": 1, \"traceEvents\": [{one}], \"trace_id\": \"a\", \"traceEvents\": \
            [{two}]}}"
    );
    let trace = read(&text);
    assert_eq!(ops(&trace), ["first"]);
    assert_eq!(anomalies(&trace), [(AnomalyKind::RepeatedKey, 1)]);
    let place = trace
        .anomalies
        .iter()
        .next()
        .and_then(|(_, one)| one.first.clone());
    assert_eq!(place.as_deref(), Some("\"traceEvents\""));
}

#[test]
fn a_key_on_both_sides_of_the_list_is_said() {
    let text = format!(
        "{{\"baseTimeNanoseconds\": 5, \"traceEvents\": [{}], \"baseTimeNanoseconds\": 7}}",
        op("n", 1)
    );
    let trace = read(&text);
    assert_eq!(trace.header.base_ns.0, 7);
    assert_eq!(anomalies(&trace), [(AnomalyKind::RepeatedKey, 1)]);
}

#[test]
fn a_cut_before_the_time_base_is_said() {
    // PyTorch 2.4 to 2.8 write it after the events.
    let event = op("n", 1).replace("\"ts\": 1.000", "\"ts\": 4374126655847.356");
    let text = |end: &str| format!("{{\"schemaVersion\": 1,\n\"traceEvents\": [{event}{end}");
    let whole = read(text("], \"baseTimeNanoseconds\": 1790857026000000000}"));
    assert_eq!(anomalies(&whole), []);
    let cut = read(text(","));
    assert_eq!(
        anomalies(&cut),
        [(AnomalyKind::Truncated, 1), (AnomalyKind::NoTimeBase, 1)]
    );
    // Times since the Unix epoch need no base.
    let unix = op("n", 1).replace("\"ts\": 1.000", "\"ts\": 1795231177405203");
    let cut = read(format!("{{\"traceEvents\": [{unix},"));
    assert_eq!(anomalies(&cut), [(AnomalyKind::Truncated, 1)]);
}

#[test]
fn a_trace_of_jax_is_called_one() {
    // `jax.profiler.trace`: trace-viewer JSON without categories.
    let text = r#"{"displayTimeUnit": "ns", "metadata": {"highres-ticks": true}, "traceEvents": [
        {"ph": "M", "pid": 3, "name": "process_name", "args": {"name": "/device:TPU:0"}},
        {"ph": "M", "pid": 3, "tid": 2, "name": "thread_name", "args": {"name": "XLA Modules"}},
        {"ph": "X", "pid": 3, "tid": 2, "ts": 1.5, "dur": 2.25, "name": "jit_step(1)",
          "args": {"run_id": "4"}},
        {"ph": "X", "pid": 3, "tid": 3, "ts": 1.5, "dur": 1.0, "name": "fusion.3",
          "args": {"hlo_op": "fusion.3", "hlo_module": "jit_step"}},
        {}]}"#;
    let error = etlink_formats::kineto::read(
        text.as_bytes(),
        etlink_formats::kineto::KinetoReadOptions::default(),
    )
    .expect_err("no Kineto trace");
    assert_eq!(
        error.to_string(),
        "the file is a trace of JAX or XLA (it has \"/device:TPU:0\"), which its start does not show; give the profile it was generated from (.xplane.pb)"
    );
    // torch_xla writes both kinds of rows; those written by PyTorch are read.
    let both = text.replace("{}]", &format!("{}]", op("aten::mm", 4)));
    assert_eq!(ops(&read(both)), ["aten::mm"]);
}

#[test]
fn a_recording_began_with_its_first_range() {
    let range = |at: u32| op("PyTorch Profiler (0)", at).replace("cpu_op", "Trace");
    let few = vec![op("n", 9)];
    // more than a chunk
    let many: Vec<String> = (0..4_000).map(|at| op("n", at)).collect();
    for between in [few, many] {
        for [first, second] in [[1, 16], [16, 1]] {
            let events = [&[range(first)], &between[..], &[range(second)]].concat();
            let trace = read(format!("{{\"traceEvents\": [{}]}}", events.join(",")));
            assert_eq!(trace.recorded_from, Some(TimeNs(1_000)), "{first} {second}");
        }
    }
}
