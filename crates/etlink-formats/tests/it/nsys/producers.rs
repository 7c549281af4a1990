//! Ops that state the producers of their inputs (`input_op_ids` of `emit_nvtx`).

use crate::nsys::support::{exported, read_export, recorded, recorded_host};
use etlink_formats::nsys::NsysSchema;
use etlink_link::{EdgeKind, LinkOptions, TensorEdges};
use etlink_model::{
    Anomalies, AnomalyKind, CpuOp, DeviceTrace, DeviceTraceAssembler, DurationNs, HostTrace,
    OpProducer, OpProducers, RfId, TimeNs, ValueList,
};
use rusqlite::Connection;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Exports ranges on two threads: thread, text as PyTorch writes it, begin and end.
fn export_of(ranges: &[(i64, &str, i64, i64)]) -> Connection {
    let mut assembler = DeviceTraceAssembler::default();
    for tid in [1000, 1001] {
        let thread = assembler.thread_index(1000, tid);
        let name = assembler.intern("aten::empty");
        assembler.trace.ops.push(CpuOp {
            name,
            thread,
            start: TimeNs(tid),
            duration: DurationNs(10),
            rf_id: RfId(tid as u64),
            external_id: -1,
            seq_id: -1,
            collective: u32::MAX,
            ..CpuOp::default()
        });
    }
    let trace = assembler.finish().expect("few rows");
    let connection = exported(&trace, NsysSchema::V3_13);
    let of_thread = "SELECT globalTid FROM NVTX_EVENTS WHERE globalTid & 0xffffff = ?1";
    let insert = "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) \
                  VALUES (?1, ?2, 59, ?3, ?4)";
    for (tid, text, begin, end) in ranges {
        let thread: i64 = connection
            .query_row(of_thread, [tid], |row| row.get(0))
            .expect("the thread is there");
        connection
            .execute(insert, (begin, end, text, thread))
            .expect("inserts");
    }
    connection
}

/// Returns the tensor edges as `producer -> reader`, and the anomalies.
fn tensor_edges(trace: DeviceTrace, which: TensorEdges) -> (Vec<String>, Anomalies) {
    let options = LinkOptions {
        tensor_deps: which,
        ..LinkOptions::default()
    };
    let trace = etlink_link::link(None, trace, options).expect("links");
    let mut found = vec![];
    for edge in trace.edges.iter() {
        if edge.kind == EdgeKind::Tensor {
            let name = |node| trace.name(&trace.nodes.get(node)).to_owned();
            found.push(format!("{} -> {}", name(edge.from), name(edge.to)));
        }
    }
    (found, trace.report.anomalies)
}

#[test]
fn an_input_from_another_thread_is_an_edge() {
    // thread 1000   mul ==            sub ==
    // thread 1001           add ===
    let ranges = [
        (1000, "aten::mul, op_id = 20", 7_000, 9_000),
        (
            1001,
            "aten::add, seq = 5, op_id = 21, sizes = [[2], [2]], input_op_ids = [(20,0), (0,-1)]",
            12_000,
            15_000,
        ),
        (
            1000,
            "aten::sub, op_id = 22, input_op_ids = [(20,0), (21,0), (999,0)]",
            20_000,
            21_000,
        ),
    ];
    let trace = read_export(&export_of(&ranges));
    assert_eq!(
        trace.op_producers.len(),
        2,
        "those of one thread are left out"
    );
    let (edges, anomalies) = tensor_edges(trace.clone(), TensorEdges::Raw);
    assert_eq!(edges, ["aten::mul -> aten::add", "aten::add -> aten::sub"]);
    assert_eq!(anomalies.count(AnomalyKind::TensorContradicted), 0);
    let (edges, _) = tensor_edges(trace, TensorEdges::None);
    assert_eq!(edges, Vec::<String>::new(), "none are asked for");
}

#[test]
fn a_reader_that_began_before_its_producer_ended_has_no_edge() {
    let ranges = [
        (1000, "aten::mul, op_id = 20", 7_000, 13_000),
        (
            1001,
            "aten::add, op_id = 21, input_op_ids = [(20,0)]",
            12_000,
            15_000,
        ),
    ];
    let trace = read_export(&export_of(&ranges));
    let (edges, anomalies) = tensor_edges(trace, TensorEdges::Raw);
    assert_eq!(edges, Vec::<String>::new());
    assert_eq!(anomalies.count(AnomalyKind::TensorContradicted), 1);
}

/// Returns the producer of each input, as `emit_nvtx` would state it: the last op that output the
/// tensor. The host trace has the same tensors by their ids.
fn producers_of(host: &HostTrace) -> OpProducers {
    let mut made: BTreeMap<u64, RfId> = BTreeMap::new();
    let mut found = OpProducers::default();
    for node in 0..host.nodes.len() {
        let reader = host.nodes.rf_id[node];
        for tensor in tensor_ids(host, &host.nodes.inputs[node]) {
            if let Some(producer) = made.get(&tensor).copied() {
                found.push(OpProducer { reader, producer });
            }
        }
        for tensor in tensor_ids(host, &host.nodes.outputs[node]) {
            made.insert(tensor, reader);
        }
    }
    found
}

/// Returns the first number of each tensor, including tensors in lists: `[id, storage, offset, …]`.
fn tensor_ids(host: &HostTrace, list: &ValueList) -> Vec<u64> {
    let values: Vec<Value> = serde_json::from_slice(host.span(list.values)).unwrap_or_default();
    let types: Vec<String> = serde_json::from_str(host.names.get(list.types)).unwrap_or_default();
    let mut ids = vec![];
    for (value, kind) in values.iter().zip(types) {
        if kind.starts_with("Tensor(") {
            ids.extend(value[0].as_u64());
        } else if kind.contains("[Tensor(") {
            let tensors = value.as_array().into_iter().flatten();
            ids.extend(tensors.filter_map(|tensor| tensor[0].as_u64()));
        }
    }
    ids
}

#[test]
fn nearly_all_edges_are_those_of_the_host_trace() {
    let host = recorded_host("threads-2.15.0", 0);
    let mut device = recorded("threads-2.15.0", 0);
    device.op_producers = producers_of(&host);
    let by_host = etlink_link::link(Some(host), device.clone(), LinkOptions::default());
    let export = exported(&device, NsysSchema::V3_13);
    let by_export = etlink_link::link(None, read_export(&export), LinkOptions::default());
    let [by_host, by_export] = [by_host, by_export].map(|linked| {
        let trace = linked.expect("links");
        let mut found = BTreeSet::new();
        for edge in trace.edges.iter() {
            if edge.kind == EdgeKind::Tensor {
                let ends = [edge.from, edge.to].map(|node| trace.nodes.get(node).start);
                found.insert(ends);
            }
        }
        found
    });
    assert_eq!(by_host.len(), 20, "threads give tensors to each other");
    // Handles know tensors, host traces bytes: a write through a view is another tensor's op.
    assert_eq!(by_host.intersection(&by_export).count(), 18);
    assert_eq!(by_export.difference(&by_host).count(), 1);
}
