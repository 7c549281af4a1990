//! Ops that state the producers of their inputs (`input_op_ids` of `emit_nvtx`).

use crate::nsys::support::{export, read_export, recorded, recorded_host};
use etlink_link::{EdgeKind, LinkOptions, TensorEdges};
use etlink_model::{Anomalies, AnomalyKind, DeviceTrace};
use rusqlite::Connection;
use std::collections::BTreeSet;

const PROCESS: &str = include_str!("../../../../../testdata/nsys/process.sql");

/// Exports ranges on two threads: thread, text as PyTorch writes it, begin and end.
fn export_of(ranges: &[(i64, &str, i64, i64)]) -> Connection {
    let connection = Connection::open_in_memory().expect("memory");
    let process = PROCESS.replace("PID", "1000");
    connection.execute_batch(&process).expect("SQL");
    let insert = "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) \
                  VALUES (?1, ?2, 59, ?3, ?4)";
    for (tid, text, begin, end) in ranges {
        let thread = (1 << 48) | (1000 << 24) | tid;
        let values = (begin + 40_000, end + 40_000, text, thread);
        connection.execute(insert, values).expect("inserts");
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

#[test]
fn nearly_all_edges_are_those_of_the_host_trace() {
    let host = recorded_host("threads-2.15.0", 0);
    let device = recorded("threads-2.15.0", 0);
    let by_host = etlink_link::link(Some(host), device, LinkOptions::default());
    // states the producer of each input: the last op that output the tensor
    let export = read_export(&export("threads-2.15.0"));
    let by_export = etlink_link::link(None, export, LinkOptions::default());
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
