//! A Kineto trace and the export of the same run give the same device graph.

use crate::nsys::support::{exported, read_export, read_kineto, recorded};
use etlink_formats::host::HostReadOptions;
use etlink_formats::kineto::KinetoWriteOptions;
use etlink_formats::nsys::{NsysReadOptions, NsysSchema};
use etlink_link::{EdgeKind, LinkOptions, LinkedTrace, MatchRule, NodeKind};
use etlink_model::{DeviceTrace, NodeIdx};
use etlink_testing::{DeviceQueue, HostSchema, Machine, TraceBuilder, random_program};
use proptest::prelude::*;
use rusqlite::Connection;
use std::collections::BTreeMap;

/// Facts about the device side of a graph, one line each, with their number of occurrences.
type Facts = BTreeMap<String, usize>;

fn linked(device: DeviceTrace) -> Option<LinkedTrace> {
    etlink_link::link(None, device, LinkOptions::default()).ok()
}

fn node_text(trace: &LinkedTrace, node: NodeIdx) -> String {
    let node = trace.nodes.get(node);
    let name = trace.name(&node);
    format!("{:?} {name:?} {} {}", node.kind, node.start, node.duration)
}

/// Lists rows with their streams, starts and launches, and edges between rows or between a row and
/// a call: launches, stream order, waits.
fn device_facts(trace: &LinkedTrace) -> Facts {
    let mut facts = Facts::new();
    let mut add = |fact: String| *facts.entry(fact).or_default() += 1;
    let (device, rows) = (&trace.device, &trace.device.rows);
    for row in 0..rows.len() {
        let queue = device.queues[rows.queue[row].index()];
        let name = device.names.get(rows.name[row]);
        let call = trace.row_call[row].get().map(|call| {
            let call = device.calls.row(call.index());
            (device.names.get(call.name), call.start, call.duration)
        });
        let span = (rows.start[row], rows.duration[row]);
        let why = trace.row_no_launch[row];
        add(format!(
            "row {name:?} {queue:?} {span:?} by {call:?} {why:?}"
        ));
    }
    for edge in trace.edges.iter() {
        let kinds = [edge.from, edge.to].map(|node| trace.nodes.get(node));
        let is_device = kinds.iter().any(|node| node.on_device);
        let is_call = kinds
            .iter()
            .all(|node| node.on_device || node.kind == NodeKind::Runtime);
        if is_device && is_call {
            let ends = [edge.from, edge.to].map(|node| node_text(trace, node));
            let kind: EdgeKind = edge.kind;
            add(format!("edge {kind:?} {ends:?}"));
        }
    }
    facts
}

/// Returns the number of facts, and the facts that only one graph has.
fn compare(kineto: DeviceTrace, schema: NsysSchema) -> (usize, Vec<String>) {
    let export = exported(&kineto, schema);
    let again = read_export(&export);
    let (Some(one), Some(two)) = (linked(kineto), linked(again)) else {
        return (0, vec![]);
    };
    let (one, two) = (device_facts(&one), device_facts(&two));
    let mut all: Facts = one.clone();
    for (fact, count) in &two {
        let known = all.entry(fact.clone()).or_default();
        *known = (*known).max(*count);
    }
    let differs = |fact: &&String| one.get(*fact) != two.get(*fact);
    let different = all.keys().filter(differs).cloned().collect();
    (all.values().sum(), different)
}

/// Compares in both schemas and returns the number of facts.
fn assert_same(kineto: &DeviceTrace) -> usize {
    let mut total = 0;
    for schema in NsysSchema::ALL {
        let (facts, different) = compare(kineto.clone(), schema);
        assert_eq!(different, Vec::<String>::new(), "{schema:?}");
        total += facts;
    }
    total
}

#[test]
fn recordings_give_the_same_graph() {
    for case in ["transformer-2.15.0", "threads-2.15.0", "mlp-2.1.2"] {
        assert_same(&recorded(case, 0));
    }
}

/// Kineto of 2023 names the stream that is waited for, but not the call that recorded the event,
/// whose ids are reused.
#[test]
fn waits_that_name_the_stream_alone_are_the_same() {
    let mut draw = TraceBuilder::default();
    let thread = draw.thread();
    let [one, two, three] = [7, 20, 21].map(DeviceQueue::stream);
    draw.launch(thread, (1_000, 2_000), one, "a", (3_000, 90_000));
    draw.launch(thread, (3_000, 4_000), two, "b", (4_000, 50_000));
    for (at, waits, stream) in [(10_000, three, 7), (12_000, three, 20), (14_000, two, 7)] {
        let id = draw.next_correlation();
        draw.call(thread, "cudaStreamWaitEvent", (at, at + 1_000), id);
        draw.raw(&format!(
            "{{\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": \"Stream Wait Event\", \"pid\": 0, \
             \"tid\": {}, \"ts\": {}, \"dur\": 1, \"args\": {{\"wait_on_stream\": {stream}, \
             \"wait_on_cuda_event_id\": 1, \"stream\": {}, \"correlation\": {id}, \"device\": 0, \
             \"context\": {}}}}}",
            waits.stream,
            at / 1_000,
            waits.stream,
            waits.context,
        ));
    }
    draw.launch(thread, (20_000, 21_000), three, "c", (92_000, 99_000));
    draw.launch(thread, (22_000, 23_000), two, "d", (93_000, 95_000));
    let trace = read_kineto(&draw.kineto());
    let edges = linked(trace.clone()).expect("links").edges;
    let waits = edges.iter().filter(|edge| edge.kind == EdgeKind::EventWait);
    assert!(waits.count() >= 2);
    assert_same(&trace);
}

#[test]
fn copies_sets_and_graphs_are_the_same() {
    let mut draw = TraceBuilder::default();
    let thread = draw.thread();
    draw.op(thread, "aten::copy_", 0, 40_000);
    let (compute, copies) = (DeviceQueue::stream(7), DeviceQueue::stream(24));
    draw.launch(thread, (1_000, 2_000), compute, "gemm", (3_000, 9_000));
    for (place, name) in (1..).zip([
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
        "Memcpy PtoP (Device -> Device)",
        "Memcpy DtoD (Device Static -> Managed)",
    ]) {
        let id = draw.next_correlation();
        let at = 10_000 * place;
        draw.call(thread, "cudaMemcpyAsync", (at, at + 1_000), id);
        draw.memcpy(copies, name, (at + 500, at + 3_000), id, 4096);
    }
    let id = draw.next_correlation();
    draw.call(thread, "cudaMemsetAsync", (60_000, 61_000), id);
    draw.memset(compute, (62_000, 63_000), id, 512);
    let id = draw.next_correlation();
    draw.driver_call(thread, "cuLaunchKernelEx", (70_000, 71_000), id);
    draw.kernel(compute, "triton_poi_fused_0", (72_000, 73_000), id);
    assert!(assert_same(&read_kineto(&draw.kineto())) > 25);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Programs drawn at random also keep everything that CUPTI's synchronisation records state.
    #[test]
    fn drawn_programs_give_the_same_graph(seed in any::<u64>()) {
        let (program, options, change) = random_program(seed);
        let machine = Machine::run(&program, options, change);
        let mut kineto = read_kineto(&machine.trace.kineto());
        // The drawing has one id for all events. CUDA has one per live event.
        let syncs = &mut kineto.syncs;
        for (event, record) in syncs.wait_event.iter_mut().zip(&syncs.wait_record) {
            *event = record.get().map_or(-1, |record| record.0);
        }
        // The drawn ops also lack PyTorch's names (`wait`): a sequence number marks them as ops,
        // not as ranges of the program.
        kineto.ops.seq_id.fill(1);
        prop_assert!(assert_same(&kineto) > 100);
    }
}

#[test]
fn ops_pair_with_the_host_trace_by_their_ids() {
    let mut draw = TraceBuilder::default();
    let thread = draw.thread();
    draw.op(thread, "aten::linear", 0, 20_000);
    draw.op(thread, "aten::addmm", 1_000, 19_000);
    let queue = DeviceQueue::stream(7);
    draw.launch(thread, (2_000, 3_000), queue, "gemm", (4_000, 9_000));
    let export = exported(&read_kineto(&draw.kineto()), NsysSchema::V3_13);
    let host = draw.host(HostSchema::V1_1_1);
    let host = etlink_formats::host::read(&host[..], HostReadOptions { threads: 1 })
        .expect("a host trace");
    let trace = etlink_link::link(Some(host), read_export(&export), LinkOptions::default());
    let trace = trace.expect("links");
    assert_eq!(trace.op_rule, [MatchRule::Id, MatchRule::Id]);
    let owner = trace.row_op[0].index();
    assert_eq!(
        trace.device.names.get(trace.device.ops.name[owner]),
        "aten::addmm"
    );
}

#[test]
fn two_connections_give_the_same_trace_as_one() {
    let (program, options, change) = random_program(5);
    let machine = Machine::run(&program, options, change);
    let drawn = read_kineto(&machine.trace.kineto());
    let open = || Connection::open("file:halves?mode=memory&cache=shared").expect("memory");
    let (one, two) = (open(), open());
    etlink_formats::nsys::write(&drawn, &one, NsysSchema::V3_13).expect("writes");
    let options = NsysReadOptions::default();
    let text = |trace: &DeviceTrace| {
        crate::kineto::whole_trace::write(trace, vec![], KinetoWriteOptions::default())
            .expect("memory")
    };
    let alone = etlink_formats::nsys::read(&one, options).expect("reads");
    let both = etlink_formats::nsys::read_with(&one, Some(two), options).expect("reads");
    assert_eq!(alone.rows.len(), drawn.rows.len());
    assert_eq!(text(&alone), text(&both));
    assert_eq!(alone.events, both.events);
}
