use super::{GraphTimes, TraceTable};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type};
use etlink_link::{LinkOptions, LinkedTrace, NodeKind};
use etlink_model::DurationNs;
use etlink_testing::{DeviceQueue, HostSchema, ParamComms, TraceBuilder};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

fn linked(draw: &TraceBuilder) -> LinkedTrace {
    let host = etlink_formats::host::read(
        &draw.host(HostSchema::V1_1_1)[..],
        etlink_formats::host::HostReadOptions { threads: 1 },
    )
    .expect("host trace");
    let device = etlink_formats::kineto::read(
        &draw.kineto()[..],
        etlink_formats::kineto::KinetoReadOptions {
            threads: 1,
            shapes: true,
            keep: etlink_model::KeepEvents::Graph,
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

fn draw() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 900_000);
    draw.op(main, "aten::mm", 10_000, 60_000);
    draw.launch(
        main,
        (20_000, 30_000),
        DeviceQueue::stream(7),
        "gemm",
        (40_000, 140_000),
    );
    let comms = ParamComms::new("allreduce", [0, 1], 0, 5);
    draw.collective(main, &comms, 300_000, 400_000);
    let reduce = draw.next_correlation();
    draw.call(main, "cudaLaunchKernelExC", (310_000, 320_000), reduce);
    draw.collective_kernel(
        DeviceQueue::stream(24),
        "ncclDevKernel_AllReduce",
        (350_000, 800_000),
        reduce,
        &comms,
    );
    let copy = draw.next_correlation();
    draw.call(main, "cudaMemcpyAsync", (410_000, 420_000), copy);
    draw.memcpy(
        DeviceQueue::stream(7),
        "Memcpy HtoD",
        (430_000, 460_000),
        copy,
        4096,
    );
    draw
}

/// Builds times that number all edges and nodes.
fn counted(trace: &LinkedTrace) -> GraphTimes {
    let list = |count: usize| (0..count as i64).map(DurationNs).collect();
    GraphTimes {
        edge_latency: list(trace.edges.len()),
        node_slack: list(trace.nodes.len()),
    }
}

fn read(trace: &LinkedTrace, table: TraceTable, rank: Option<i64>) -> Vec<RecordBatch> {
    let counts = counted(trace);
    let (mut file, mut again) = (vec![], vec![]);
    let lines = table
        .write(trace, rank, &counts, &mut file)
        .expect("writes");
    table
        .write(trace, rank, &counts, &mut again)
        .expect("writes");
    assert!(file == again, "same input, same bytes");
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(file))
        .expect("a Parquet file")
        .build()
        .expect("opens");
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().expect("reads");
    assert_eq!(
        batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u64,
        lines
    );
    batches
}

fn one(trace: &LinkedTrace, table: TraceTable) -> RecordBatch {
    read(trace, table, Some(3)).remove(0)
}

fn texts(batch: &RecordBatch, name: &str) -> Vec<Option<String>> {
    let column = batch[name].as_dictionary::<Int32Type>();
    let values = column.values().as_string::<i32>();
    column
        .keys()
        .iter()
        .map(|key| key.map(|key| values.value(key as usize).to_owned()))
        .collect()
}

fn signed(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    batch[name].as_primitive::<Int64Type>().iter().collect()
}

fn numbers(batch: &RecordBatch, name: &str) -> Vec<Option<u32>> {
    batch[name].as_primitive::<UInt32Type>().iter().collect()
}

#[test]
fn every_event_is_a_line_that_knows_its_cause() {
    let trace = linked(&draw());
    let events = one(&trace, TraceTable::Events);
    let (names, kinds) = (texts(&events, "name"), texts(&events, "kind"));
    let device = &trace.device;
    assert_eq!(
        events.num_rows(),
        device.ops.len() + device.calls.len() + device.rows.len()
    );
    let at = |name: &str| {
        names
            .iter()
            .position(|found| found.as_deref() == Some(name))
            .expect(name)
    };
    let (mm, gemm, copy) = (at("aten::mm"), at("gemm"), at("Memcpy HtoD"));
    let kind = |at: usize| kinds[at].clone().expect("a kind");
    assert_eq!(
        [kind(mm), kind(gemm), kind(copy), kind(at("ProfilerStep#1"))],
        ["op", "kernel", "memcpy", "annotation"]
    );
    let launch = numbers(&events, "launch")[gemm].expect("a launch") as usize;
    assert_eq!(kind(launch), "call");
    assert_eq!(
        (
            numbers(&events, "parent")[launch],
            numbers(&events, "parent")[gemm]
        ),
        (Some(mm as u32), Some(mm as u32))
    );
    assert_eq!(
        (
            signed(&events, "start_ns")[gemm],
            signed(&events, "duration_ns")[gemm]
        ),
        (Some(device.header.base_ns.0 + 40_000), Some(100_000))
    );
    assert_eq!(
        (
            signed(&events, "stream")[gemm],
            signed(&events, "tid")[gemm]
        ),
        (Some(7), None)
    );
    assert_eq!(signed(&events, "rank"), vec![Some(3); events.num_rows()]);
    assert_eq!(texts(&events, "matched_by")[mm].as_deref(), Some("id"));
}

#[test]
fn nodes_and_edges_are_the_graph() {
    let trace = linked(&draw());
    let (nodes, edges, events) = (
        one(&trace, TraceTable::Nodes),
        one(&trace, TraceTable::Edges),
        one(&trace, TraceTable::Events),
    );
    assert_eq!(
        (nodes.num_rows(), edges.num_rows()),
        (trace.nodes.len(), trace.edges.len())
    );
    let kinds: Vec<Option<String>> = trace
        .nodes
        .kind
        .iter()
        .map(|kind| Some(kind.name().to_owned()))
        .collect();
    assert_eq!(texts(&nodes, "kind"), kinds);
    let (names, of_events) = (texts(&nodes, "name"), texts(&events, "name"));
    for (at, event) in numbers(&nodes, "event").into_iter().enumerate() {
        let Some(event) = event else { continue };
        assert_eq!(names[at], of_events[event as usize], "node {at}");
    }
    let (from, to) = (numbers(&edges, "from_node"), numbers(&edges, "to_node"));
    let launch = texts(&edges, "kind")
        .iter()
        .position(|kind| kind.as_deref() == Some("launch"))
        .expect("a launch");
    assert!(from[launch] < to[launch]);
    assert!(
        signed(&edges, "slack_ns")
            .iter()
            .all(|slack| slack.is_some_and(|slack| slack >= 0))
    );
    let places = |count: usize| (0..count as i64).map(Some).collect::<Vec<_>>();
    assert_eq!(signed(&edges, "latency_ns"), places(trace.edges.len()));
    assert_eq!(signed(&nodes, "slack_ns"), places(trace.nodes.len()));
}

#[test]
fn collectives_have_sizes_in_bytes() {
    let trace = linked(&draw());
    let found = one(&trace, TraceTable::Collectives);
    let nodes = trace
        .nodes
        .kind
        .iter()
        .filter(|kind| **kind == NodeKind::Collective)
        .count();
    assert_eq!(found.num_rows(), nodes);
    assert_eq!(texts(&found, "kind")[0].as_deref(), Some("all_reduce"));
    assert_eq!(
        (signed(&found, "seq")[0], signed(&found, "duration_ns")[0]),
        (Some(5), Some(450_000))
    );
}

#[test]
fn a_table_without_lines_has_its_columns() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::add", 0, 10);
    let trace = linked(&draw);
    let mut file = vec![];
    assert_eq!(
        TraceTable::Collectives
            .write(&trace, None, &GraphTimes::default(), &mut file)
            .expect("writes"),
        0
    );
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(file)).expect("a Parquet file");
    assert!(reader.schema().field_with_name("in_bytes").is_ok());
}

#[test]
fn more_lines_than_a_batch() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for at in 0..40_000 {
        draw.op(main, "aten::add", at * 20, at * 20 + 10);
    }
    let trace = linked(&draw);
    assert!(trace.nodes.len() > super::BATCH, "{}", trace.nodes.len());
    let lines: usize = read(&trace, TraceTable::Nodes, None)
        .iter()
        .map(RecordBatch::num_rows)
        .sum();
    assert_eq!(lines, trace.nodes.len());
}
