//! Reads one row of every kind and checks its table and columns.

use crate::kineto::support::{anomalies, document, events, kernel, op, ops, read, rows};
use etlink_model::{
    AuxiliaryEvent, AuxiliaryKind, Collective, Correlation, CpuOp, DeviceRow, DurationNs,
    KeepEvents, NameId, QueueIdx, RfId, RowKind, RuntimeCall, ThreadIdx, TimeNs, TrackLabel,
};
use etlink_testing::{DeviceQueue, KinetoFlavour, ParamComms, RecordIds, TraceBuilder};

/// ```text
/// thread  aten::mm ----------------       stream 7
///               launch ---- . . . . . . . . gemm ======
/// ```
fn one_launch(flavour: KinetoFlavour) -> TraceBuilder {
    let mut draw = TraceBuilder::new(flavour);
    let main = draw.thread();
    let op = draw.op(main, "aten::mm", 1_000, 20_500);
    draw.arg(op, "Input Dims", "[[8, 32], [32, 4]]");
    draw.arg(op, "Input type", "[\"float\", \"float\"]");
    draw.sequence(op, 21, 0);
    draw.launch(
        main,
        (5_000, 8_250),
        DeviceQueue::stream(7),
        "gemm",
        (12_000, 30_125),
    );
    draw
}

#[test]
fn a_cpu_op() {
    let trace = read(one_launch(KinetoFlavour::Cuda).kineto());
    let want = CpuOp {
        name: trace.names.find("aten::mm").expect("name"),
        thread: ThreadIdx(0),
        start: TimeNs(1_000),
        duration: DurationNs(19_500),
        rf_id: RfId(1),
        external_id: 1,
        seq_id: 21,
        fwd_thread: 0,
        annotation: false,
        unfinished: false,
        shapes: trace.names.find("[[8, 32], [32, 4]]").expect("shapes"),
        types: trace.names.find("[\"float\", \"float\"]").expect("types"),
        strides: NameId::EMPTY,
        values: NameId::EMPTY,
        collective: u32::MAX,
    };
    assert_eq!((trace.ops.len(), trace.ops.row(0)), (1, want));
    assert_eq!(
        trace.threads,
        [etlink_model::HostThread {
            pid: TrackLabel::Int(1000),
            tid: TrackLabel::Int(1000)
        }]
    );
    assert!(trace.has_rf_ids);
    assert_eq!(anomalies(&trace), []);
}

#[test]
fn shapes_are_left_out_on_request() {
    let options = etlink_formats::kineto::KinetoReadOptions {
        threads: 1,
        shapes: false,
        keep: KeepEvents::Graph,
    };
    let trace =
        etlink_formats::kineto::read(&one_launch(KinetoFlavour::Cuda).kineto()[..], options)
            .expect("reads");
    assert_eq!((trace.ops.shapes[0].0, trace.ops.types[0].0), (0, 0));
}

#[test]
fn what_no_graph_needs_is_kept_on_request() {
    let mut draw = one_launch(KinetoFlavour::Cuda);
    let main = draw.thread();
    draw.python(main, "train.py(3): step", 500, 2_500);
    draw.raw(concat!(
        r#"{"ph": "X", "cat": "gpu_user_annotation", "name": "forward", "pid": 0, "tid": 7, "#,
        r#""ts": 12.000, "dur": 18.125}"#,
    ));
    draw.raw(concat!(
        r#"{"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "#,
        r#""ts": 13.000, "args": {"Device Type": 1, "Device Id": 0, "Bytes": 512, "#,
        r#""Total Allocated": 512, "Total Reserved": 1024}}"#,
    ));
    draw.raw(concat!(
        r#"{"ph": "X", "cat": "overhead", "name": "Buffer Request", "pid": -1, "tid": 0, "#,
        r#""ts": 1.000, "dur": 2.000}"#,
    ));
    let text = draw.kineto();
    let read = |keep| {
        etlink_formats::kineto::read(
            &text[..],
            etlink_formats::kineto::KinetoReadOptions {
                threads: 1,
                shapes: true,
                keep,
            },
        )
        .expect("reads")
    };
    let (kept, plain) = (read(KeepEvents::Auxiliary), read(KeepEvents::Graph));
    let drawn = |row: usize| {
        let AuxiliaryEvent {
            kind,
            name,
            thread,
            start,
            duration,
        } = kept.auxiliary.row(row);
        (
            kind,
            kept.names.get(name),
            thread == ThreadIdx::NONE,
            start.0,
            duration.0,
        )
    };
    assert_eq!(
        (0..kept.auxiliary.len()).map(drawn).collect::<Vec<_>>(),
        [
            (
                AuxiliaryKind::Python,
                "train.py(3): step",
                false,
                500,
                2_000
            ),
            (
                AuxiliaryKind::Overhead,
                "Buffer Request",
                true,
                1_000,
                2_000
            ),
            (
                AuxiliaryKind::DeviceAnnotation,
                "forward",
                true,
                12_000,
                18_125
            ),
        ]
    );
    assert_eq!(
        (
            plain.auxiliary.len(),
            &plain.ops,
            &plain.rows,
            &plain.events
        ),
        (0, &kept.ops, &kept.rows, &kept.events)
    );
    assert!(kept.details.is_none());
    let memory = read(KeepEvents::Memory);
    assert_eq!(
        [&kept, &memory, &plain].map(|trace| trace.memory.len()),
        [1, 1, 0],
        "allocations"
    );
    assert_eq!(memory.auxiliary.len(), 0);
}

#[test]
fn all_that_events_say_is_kept_on_request() {
    let mut draw = one_launch(KinetoFlavour::Cuda);
    let main = draw.thread();
    draw.python(main, "train.py(3): step", 500, 2_500);
    // Placed before all others: tables are sorted, and the details of their rows have to follow.
    for event in [
        r#"{"ph": "X", "cat": "kernel", "name": "first", "pid": 0, "tid": 7, "ts": 0.250,
            "dur": 0.125, "args": {"device": 0, "stream": 7, "registers per thread": 32}}"#,
        r#"{"ph": "X", "cat": "cuda_profiler_range", "name": "first", "pid": 0, "tid": "CUPTI",
            "ts": 0.250, "dur": 0.125, "args": {"sm__cycles.sum": 12.5}}"#,
        r#"{"ph": "i", "s": "g", "name": "Iteration Start", "pid": "Traces", "tid": "T",
            "ts": 0.5}"#,
        r#"{"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 2, "cat": "fwdbwd", "name": "fwdbwd"}"#,
    ] {
        draw.raw(event);
    }
    let text = draw.kineto();
    let read = |threads: usize| {
        let options = etlink_formats::kineto::KinetoReadOptions {
            threads,
            shapes: false,
            keep: KeepEvents::Everything,
        };
        etlink_formats::kineto::read(&text[..], options).expect("reads")
    };
    let trace = read(1);
    let details = trace.details.as_ref().expect("details");
    let tables = [
        (trace.ops.len(), details.ops.len()),
        (trace.calls.len(), details.calls.len()),
        (trace.rows.len(), details.rows.len()),
        (trace.auxiliary.len(), details.auxiliary.len()),
        (details.others.len(), details.other_details.len()),
    ];
    assert!(tables.iter().all(|(rows, said)| rows == said), "{tables:?}");
    let args = |at| String::from_utf8_lossy(details.args(at)).into_owned();
    assert_eq!(trace.names.get(trace.rows.name[0]), "first");
    let of_first = details.rows.row(0);
    let first = r#"{"device": 0, "stream": 7, "registers per thread": 32}"#;
    assert_eq!(args(of_first.args), first);
    assert_eq!(trace.names.get(of_first.category), "kernel");
    let others: Vec<_> = (0..details.others.len())
        .map(|row| (details.others.row(row), details.other_details.row(row)))
        .map(|(event, said)| {
            let track = details.tracks[said.track as usize];
            let texts = [event.phase, event.name, said.category].map(|id| trace.names.get(id));
            (
                texts,
                trace.label(track.tid),
                event.start.0,
                args(said.args),
            )
        })
        .take(2)
        .collect();
    let range = r#"{"sm__cycles.sum": 12.5}"#.to_owned();
    assert_eq!(
        others,
        [
            (
                ["X", "first", "cuda_profiler_range"],
                "CUPTI".to_owned(),
                250,
                range
            ),
            (
                ["i", "Iteration Start", ""],
                "T".to_owned(),
                500,
                String::new()
            ),
        ]
    );
    assert!(
        details
            .header
            .iter()
            .any(|(key, _)| key == "baseTimeNanoseconds")
    );
    let again = read(4);
    assert_eq!(again.details.expect("details").rows, details.rows);
}

#[test]
fn a_runtime_call() {
    let trace = read(one_launch(KinetoFlavour::Cuda).kineto());
    let want = RuntimeCall {
        name: trace.names.find("cudaLaunchKernel").expect("name"),
        thread: ThreadIdx(0),
        start: TimeNs(5_000),
        duration: DurationNs(3_250),
        correlation: Correlation(2),
        external_id: 1,
        kernel: NameId::EMPTY,
    };
    assert_eq!((trace.calls.len(), trace.calls.row(0)), (1, want));
}

#[test]
fn hip_calls_name_what_they_launch() {
    let trace = read(one_launch(KinetoFlavour::Rocm).kineto());
    assert_eq!(trace.names.get(trace.calls.kernel[0]), "gemm");
    assert_eq!(trace.rows.grid[0], [64, 2, 1]);
}

#[test]
fn a_kernel() {
    let trace = read(one_launch(KinetoFlavour::Cuda).kineto());
    let want = DeviceRow {
        kind: RowKind::Kernel,
        category: trace.names.find("kernel").expect("category"),
        name: trace.names.find("gemm").expect("name"),
        queue: QueueIdx(0),
        start: TimeNs(12_000),
        duration: DurationNs(18_125),
        correlation: Correlation(2),
        external_id: 1,
        bytes: 0,
        gb_per_s: -1.0,
        grid: [64, 2, 1],
        block: [128, 1, 1],
        graph_node: 0,
        collective: u32::MAX,
    };
    assert_eq!((trace.rows.len(), trace.rows.row(0)), (1, want));
    assert_eq!(
        trace.queues,
        [etlink_model::DeviceQueue {
            device: 0,
            context: 1,
            stream: 7
        }]
    );
}

#[test]
fn copies_and_memsets_have_bytes() {
    let mut draw = TraceBuilder::default();
    draw.memcpy(
        DeviceQueue::stream(7),
        "Memcpy HtoD (Pageable -> Device)",
        (0, 10),
        3,
        92_928,
    );
    draw.memset(DeviceQueue::stream(20), (20, 30), 4, 512);
    let trace = read(draw.kineto());
    assert_eq!(trace.rows.kind, [RowKind::Memcpy, RowKind::Memset]);
    assert_eq!(trace.rows.bytes, [92_928, 512]);
    assert_eq!(trace.rows.queue, [QueueIdx(0), QueueIdx(1)]);
}

/// ROCm writes sizes of copies only at their calls.
#[test]
fn copies_have_the_bytes_of_their_calls() {
    let call = |id: i64, size: &str| {
        format!(
            concat!(
                r#"{{"ph": "X", "cat": "cuda_runtime", "name": "hipMemcpyWithStream", "#,
                r#""pid": 1, "tid": 1, "ts": {id}.000, "dur": 0.500, "#,
                r#""args": {{"correlation": {id}, "size": "{size}"}}}}"#,
            ),
            id = id,
            size = size
        )
    };
    let copy = |id: i64, bytes: &str| {
        format!(
            concat!(
                r#"{{"ph": "X", "cat": "gpu_memcpy", "#,
                r#""name": "Memcpy HtoD (Host -> Device)", "pid": 0, "tid": 0, "#,
                r#""ts": 10{id}.000, "dur": 1.000, "args": {{"correlation": {id}{bytes}}}}}"#,
            ),
            id = id,
            bytes = bytes
        )
    };
    let events = [
        call(1, "2560"),
        copy(1, ""),
        // The row's own size takes precedence.
        call(2, "9"),
        copy(2, r#", "bytes": 8"#),
        // One call with two copies; two calls with one id.
        call(3, "100"),
        copy(3, ""),
        copy(3, ""),
        call(4, "5"),
        call(4, "6"),
        copy(4, ""),
    ];
    assert_eq!(read(document(&events)).rows.bytes, [2560, 8, 0, 0, 0]);
}

#[test]
fn only_copies_have_the_bytes_of_calls_that_they_name() {
    let call = |args: &str| {
        format!(
            concat!(
                r#"{{"ph": "X", "cat": "cuda_runtime", "name": "hipMemcpyAsync", "pid": 1, "#,
                r#""tid": 1, "ts": 1, "dur": 1, "args": {{{args} "size": "77"}}}}"#,
            ),
            args = args
        )
    };
    let copy = |args: &str| kernel(args, 9).replace("\"kernel\"", "\"gpu_memcpy\"");
    let events = [
        // A copy that a kernel carries out.
        call(r#""correlation": 1,"#),
        kernel(r#""correlation": 1"#, 2),
        // Neither states its call.
        call(""),
        copy(r#""stream": 7"#),
        // The call of this copy is not recorded.
        copy(r#""correlation": 5"#),
    ];
    assert_eq!(read(document(&events)).rows.bytes, [0, 0, 0]);
}

#[test]
fn only_nodes_of_graphs_are_annotated_and_only_streams_are_kept_of_ops() {
    let node = r#""correlation": 3, "graph node id": 8, "annotation": "layer 1""#;
    let events = [
        kernel(node, 1),
        kernel(r#""correlation": 4, "annotation": "layer 2""#, 2),
        op("a", 3).replace("\"args\": {", "\"args\": {\"stream\": -1, "),
        op("b", 4).replace("\"args\": {", "\"args\": {\"stream\": 0, "),
    ];
    let trace = read(document(&events));
    let notes = trace.node_annotations.iter();
    let notes = notes.map(|(key, note)| (*key, trace.names.get(*note)));
    assert_eq!(Vec::from_iter(notes), [((Correlation(3), 8), "layer 1")]);
    assert_eq!(trace.stream_ops.stream, [0]);
}

#[test]
fn what_was_counted_of_a_kernel_is_kept() {
    let range = r#"{"ph": "X", "cat": "cuda_profiler_range", "name": "gemm", "pid": 0, "tid": 0,
        "ts": 3.000, "dur": 2.500, "args": {"smsp__warps_launched.avg": "12.5", "a\u0062": 7}}"#;
    // Neither an event of another category nor an instant has counters.
    let trace = read(document(&[
        range.to_owned(),
        range.replace("cuda_profiler_range", "cuda_event"),
        range.replace("\"X\"", "\"i\""),
    ]));
    let counted = &trace.counter_ranges;
    let names: Vec<&str> = counted
        .name
        .iter()
        .map(|name| trace.names.get(*name))
        .collect();
    assert_eq!(names, ["gemm"]);
    let values = counted.values.iter().map(|values| trace.names.get(*values));
    let values: Vec<&str> = values.collect();
    assert_eq!(values, ["smsp__warps_launched.avg 12.5\nab 7\n"]);
    assert_eq!(counted.start, [TimeNs(3_000)]);
    assert_eq!(counted.duration, [DurationNs(2_500)]);
}

#[test]
fn graph_nodes_are_told_apart() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let queue = DeviceQueue::stream(7);
    let id = draw.graph_launch(main, (0, 10), &[(queue, 20, 30), (queue, 30, 40)]);
    let trace = read(draw.kineto());
    assert_eq!(trace.rows.graph_node, [4_294_967_297, 4_294_967_298]);
    assert_eq!(trace.rows.correlation, [Correlation(id); 2]);
}

#[test]
fn sync_rows() {
    let mut draw = TraceBuilder::default();
    draw.sync(
        "Stream Wait Event",
        DeviceQueue::stream(20),
        (5, 5),
        9,
        Some((7, 4)),
    );
    draw.sync("Context Sync", DeviceQueue::stream(-1), (6, 8), 10, None);
    let trace = read(draw.kineto());
    let (wait, context) = (trace.syncs.row(0), trace.syncs.row(1));
    assert_eq!(
        (wait.wait_stream, wait.wait_record, wait.wait_event),
        (7, Correlation(4), 5)
    );
    assert_eq!(
        (context.wait_stream, context.wait_record, context.wait_event),
        (-1, Correlation::NONE, -1)
    );
    assert_eq!(trace.queues[context.queue.index()].stream, -1);
    assert!(trace.rows.is_empty());
}

#[test]
fn a_stream_of_minus_one_written_unsigned_is_none() {
    let sync = concat!(
        r#"{"ph": "X", "cat": "cuda_sync", "name": "Context Sync", "pid": 0, "#,
        r#""tid": 2147483647, "ts": 1, "dur": 1, "args": {"cuda_sync_kind": "Context Sync", "#,
        r#""stream": 4294967295, "wait_on_stream": 4294967295, "correlation": 5, "#,
        r#""device": 0, "context": 1}}"#,
    );
    let trace = read(document(&[sync.to_owned()]));
    assert_eq!(
        (trace.queues[0].stream, trace.syncs.wait_stream[0]),
        (-1, -1)
    );
}

#[test]
fn collectives_on_op_and_kernel() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let mut comms = ParamComms::new("_allgather_base", [4, 6], 1, 9);
    (comms.group_name, comms.group_desc) = ("3".into(), "mesh_tp".into());
    (comms.in_split, comms.dtype) = (vec![1, 2], "BFloat16".into());
    draw.collective(main, &comms, 0, 50);
    draw.collective_kernel(
        DeviceQueue::stream(20),
        "ncclDevKernel_AllGather_RING_LL",
        (60, 90),
        2,
        &comms,
    );
    let trace = read(draw.kineto());
    let name = |text: &str| trace.names.find(text).expect("known");
    let want = Collective {
        name: name("_allgather_base"),
        dtype: name("BFloat16"),
        in_elements: 1024,
        out_elements: 1024,
        in_split: name("[1, 2]"),
        out_split: name("[]"),
        rank_start: 4,
        rank_stride: 2,
        group_size: 2,
        group_name: name("3"),
        group_desc: name("mesh_tp"),
        group_ranks: name("[4, 6]"),
        rank: 1,
        src: -1,
        dst: -1,
        seq: 9,
        p2p: false,
        asynchronous: true,
        comms_id: name("2297668046887139545"),
    };
    assert_eq!((trace.ops.collective[0], trace.rows.collective[0]), (0, 1));
    assert_eq!(
        (trace.collectives.row(0), trace.collectives.row(1)),
        (want, want)
    );
}

#[test]
fn peers_of_send_and_receive() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for (name, at) in [("send", 0), ("recv", 10)] {
        draw.collective(
            main,
            &ParamComms {
                peer: Some(3),
                ..ParamComms::new(name, 0..4, 1, 2)
            },
            at,
            at + 5,
        );
    }
    let trace = read(draw.kineto());
    assert_eq!(
        (&trace.collectives.dst[..], &trace.collectives.src[..]),
        (&[3, -1][..], &[-1, 3][..])
    );
}

#[test]
fn annotations_stacks_and_flows() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#2", 0, 100);
    draw.python(
        main,
        "torch/nn/modules/module.py(1518): _wrapped_call_impl",
        5,
        90,
    );
    let forward = draw.op(main, "aten::t", 10, 20);
    draw.sequence(forward, 7, 0);
    let backward = draw.op(main, "TBackward0", 30, 40);
    draw.sequence(backward, 7, 1);
    let trace = read(draw.kineto());
    assert_eq!(ops(&trace), ["ProfilerStep#2", "aten::t", "TBackward0"]);
    assert_eq!(trace.ops.annotation, [true, false, false]);
    assert_eq!(
        (&trace.ops.seq_id[..], &trace.ops.fwd_thread[..]),
        (&[-1, 7, 7][..], &[0, 0, 1][..])
    );
    let counted: Vec<(&str, u64)> = trace
        .events
        .iter()
        .map(|(kind, count)| (kind.as_str(), *count))
        .collect();
    assert_eq!(
        counted,
        [
            ("M ", 3),
            ("X user_annotation", 1),
            ("X python_function", 1),
            ("X cpu_op", 2),
            ("s fwdbwd", 1),
            ("f fwdbwd", 1),
            ("i ", 1)
        ]
    );
}

#[test]
fn record_ids_absent_zero_and_written() {
    for (ids, has, id) in [
        (RecordIds::Absent, false, 0),
        (RecordIds::Zero, true, 0),
        (RecordIds::Written, true, 1),
    ] {
        let mut draw = one_launch(KinetoFlavour::Cuda);
        let trace = read(draw.record_ids(ids).kineto());
        assert_eq!(
            (trace.has_rf_ids, trace.ops.rf_id[0]),
            (has, RfId(id)),
            "{ids:?}"
        );
    }
    // One op with an id is enough, wherever it appears.
    let with = op("a", 1).replace("\"args\": {", "\"args\": {\"Record function id\": 0, ");
    let trace = read(document(&[with, op("b", 2)]));
    assert!(trace.has_rf_ids);
}

#[test]
fn rows_without_a_table_are_counted_and_left_out() {
    let mut draw = TraceBuilder::default();
    let categories = [
        "gpu_user_annotation",
        "overhead",
        "cuda_event",
        "cuda_profiler_range",
        "mtia_insight",
        "Trace",
        "collective_trace",
    ];
    for category in categories {
        draw.raw(&format!(
            concat!(
                r#"{{"ph": "X", "cat": "{category}", "name": "x", "pid": -1, "tid": 0, "#,
                r#""ts": 1.000, "dur": 1.000}}"#,
            ),
            category = category
        ));
    }
    draw.raw(concat!(
        r#"{"ph": "C", "cat": "mtia_counters", "name": "c", "pid": 0, "ts": 1.000, "#,
        r#""args": {"GB/s": nan}}"#,
    ));
    let trace = read(draw.kineto());
    assert_eq!(events(&trace), categories.len() as u64 + 2);
    assert_eq!(
        (trace.ops.len(), trace.calls.len(), trace.rows.len()),
        (0, 0, 0)
    );
    assert_eq!(anomalies(&trace), []);
}

#[test]
fn every_writer_has_its_categories() {
    for (flavour, call, row, queue) in [
        (KinetoFlavour::Cuda, "cudaLaunchKernel", "kernel", (0, 1, 7)),
        (KinetoFlavour::Rocm, "hipLaunchKernel", "kernel", (0, 0, 7)),
        (
            KinetoFlavour::Xpu,
            "urEnqueueKernelLaunch",
            "kernel",
            (0, 1, 7),
        ),
        (
            KinetoFlavour::Mtia,
            "runFunction - job_prep_and_submit_for_execution",
            "mtia_ccp_events",
            (0, 0, 7),
        ),
        (
            KinetoFlavour::Cuda2021,
            "cudaLaunchKernel",
            "Kernel",
            (0, 1, 7),
        ),
    ] {
        let trace = read(one_launch(flavour).kineto());
        assert_eq!(
            (ops(&trace), rows(&trace)),
            (vec!["aten::mm"], vec!["gemm"]),
            "{flavour:?}"
        );
        assert_eq!(trace.names.get(trace.calls.name[0]), call, "{flavour:?}");
        assert_eq!(trace.names.get(trace.rows.category[0]), row, "{flavour:?}");
        let found = trace.queues[trace.rows.queue[0].index()];
        assert_eq!(
            (found.device, found.context, found.stream),
            queue,
            "{flavour:?}"
        );
        assert_eq!(
            trace.calls.correlation, trace.rows.correlation,
            "{flavour:?}"
        );
        assert_eq!(anomalies(&trace), [], "{flavour:?}");
    }
}

#[test]
fn tables_are_in_order_of_time_longer_first_then_as_written() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for (name, start, end) in [
        ("child", 10, 20),
        ("later", 30, 40),
        ("parent", 10, 25),
        ("twin", 10, 20),
        ("first", 5, 6),
    ] {
        draw.op(main, name, start, end);
    }
    assert_eq!(
        ops(&read(draw.kineto())),
        ["first", "parent", "child", "twin", "later"]
    );
}
