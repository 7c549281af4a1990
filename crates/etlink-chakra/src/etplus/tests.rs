//! Tests written files, parsed as JSON.

use super::*;
use crate::tests::{TraceSketch, intern, sample};
use etlink_link::{EdgeKind, NodeKind};
use etlink_model::{CallIdx, DurationNs, HostThread, OpIdx, ThreadIdx, TrackIdx, TrackLabel};
use serde_json::Value;

fn written(trace: &LinkedTrace) -> (Value, WriteSummary) {
    let mut bytes = vec![];
    let summary = write_etplus(trace, &mut bytes).expect("writes");
    assert_eq!(summary.bytes, bytes.len() as u64);
    (serde_json::from_slice(&bytes).expect("JSON"), summary)
}

fn attr<'n>(node: &'n Value, name: &str) -> &'n Value {
    let attrs = node["attrs"].as_array().expect("attrs");
    let mut found = attrs.iter().filter(|attr| attr["name"] == name);
    let first = found.next().expect(name);
    assert!(found.next().is_none(), "{name} twice");
    &first["value"]
}

fn column<'d>(document: &'d Value, key: &str) -> Vec<&'d Value> {
    document["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| &node[key])
        .collect()
}

/// Checks what all readers require of every node.
fn assert_readable(document: &Value) {
    for key in ["schema", "pid", "time", "start_ts", "nodes", "finish_ts"] {
        assert!(!document[key].is_null(), "{key}");
    }
    let nodes = document["nodes"].as_array().expect("nodes");
    assert_eq!(
        nodes[0]["name"],
        "[pytorch|profiler|execution_trace|process]"
    );
    assert_eq!(
        (&nodes[0]["id"], &nodes[0]["ctrl_deps"]),
        (&Value::from(1), &Value::from(1))
    );
    for (position, node) in nodes.iter().enumerate().skip(1) {
        assert_eq!(node["id"], position + 1, "ids ascend without holes");
        let parent = node["ctrl_deps"].as_u64().expect("parent");
        assert!(
            parent <= position as u64,
            "a parent comes before its children"
        );
        for name in [
            "rf_id",
            "fw_parent",
            "seq_id",
            "scope",
            "tid",
            "fw_tid",
            "op_schema",
        ] {
            attr(node, name);
        }
        for list in ["values", "shapes", "types", "strides"] {
            assert!(
                node["inputs"][list].is_array() && node["outputs"][list].is_array(),
                "{list}"
            );
        }
    }
}

#[test]
fn a_node_per_et_node_and_device_row() {
    let (document, summary) = written(&sample(true));
    assert_readable(&document);
    assert_eq!(document["schema"], "1.1.1-chakra.0.0.4");
    assert_eq!(document["finish_ts"], 1_550_002, "90 us after the start");
    assert_eq!(
        column(&document, "name"),
        [
            "[pytorch|profiler|execution_trace|process]",
            "[pytorch|profiler|execution_trace|thread]",
            "train \"x\"",
            "aten::mm",
            "gemm<float>",
            "aten::unmatched",
            "record_param_comms",
            "ncclDevKernel_AllReduce_Sum_f32",
            "[pytorch|profiler|execution_trace|thread]",
            "Memcpy DtoD",
        ]
    );
    assert_eq!(
        column(&document, "ctrl_deps"),
        [1, 1, 2, 3, 4, 4, 2, 7, 1, 9],
        "node 99 is not there: the thread root"
    );
    assert_eq!(
        (
            summary.nodes,
            summary.timed,
            summary.device_rows,
            summary.ops_left_out
        ),
        (10, 3, 3, 0)
    );
}

#[test]
fn times_are_where_there_are_any() {
    let (document, _) = written(&sample(true));
    let nodes = &document["nodes"];
    let mm = &nodes[3];
    assert_eq!(
        (&mm["ts"], &mm["inclusive_dur"], &mm["exclusive_dur"]),
        (&Value::from(2.5), &Value::from(20.0), &Value::from(12.0))
    );
    assert!(mm.get("inter_thread_dep").is_some_and(Value::is_null));
    assert!(
        nodes[5].get("ts").is_none(),
        "no times for what was not matched"
    );
    let gemm = &nodes[4];
    assert_eq!(
        (&gemm["ts"], &gemm["exclusive_dur"]),
        (&Value::from(9.0), &Value::from(0.7))
    );
}

/// A call inside a call is part of it, and a call outside all ops belongs to the thread's root.
#[test]
fn each_call_counts_once() {
    let mut b = TraceSketch::new();
    let op = b.op("aten::mm", 0, 20_000, None);
    let outer = b.call("cudaLaunchKernel", op, 5_000, 1);
    b.trace.device.calls.duration[outer.index()] = DurationNs(6_000);
    b.call("cuLaunchKernel", op, 6_000, 2);
    b.call("cudaDeviceSynchronize", OpIdx::NONE, 30_000, 3);
    let (document, _) = written(&b.done());
    let nodes = document["nodes"].as_array().expect("nodes");
    let own = |name: &str| {
        let node = nodes.iter().find(|node| node["name"] == name);
        node.expect(name)["exclusive_dur"].as_f64()
    };
    // The sketch gives an op half of its time as its own.
    assert_eq!(own("aten::mm"), Some(10.0 + 6.0));
    assert_eq!(own("[pytorch|profiler|execution_trace|thread]"), Some(2.0));
}

/// A thread gives work to another one inside an op, and waits for it inside another op.
#[test]
fn a_node_waits_for_the_last_that_ended_on_the_other_thread() {
    let mut b = TraceSketch::new();
    b.trace.device.threads.push(HostThread {
        pid: TrackLabel::Int(100),
        tid: TrackLabel::Int(102),
    });
    let step = b.op("step", 0, 50_000, None);
    let forward = b.op("forward", 0, 10_000, Some(step));
    let backward = b.op("backward", 12_000, 20_000, None);
    let inner = b.op("inner", 13_000, 5_000, Some(backward));
    let optimizer = b.op("optimizer", 34_000, 5_000, Some(step));
    let on_worker = [backward, inner];
    for op in on_worker {
        b.trace.device.ops.thread[op.index()] = ThreadIdx(1);
    }
    let slices = [
        (forward, 0, 10_000),
        (step, 10_000, 1_000),
        (backward, 12_000, 1_000),
        (inner, 13_000, 5_000),
        (backward, 18_000, 14_000),
        (step, 33_000, 1_000),
        (optimizer, 34_000, 5_000),
    ];
    let nodes = slices.map(|(op, start, duration)| {
        let node = b.slice(NodeKind::HostOp, op.0, true, start, duration);
        let thread = u32::from(on_worker.contains(&op));
        b.trace.nodes.track[node.index()] = TrackIdx(thread);
        node
    });
    b.edge(EdgeKind::Handoff, nodes[1], nodes[2]);
    b.edge(EdgeKind::Handoff, nodes[4], nodes[5]);
    let (document, _) = written(&b.done());
    let id = |name: &str| {
        let nodes = document["nodes"].as_array().expect("nodes");
        let node = nodes.iter().find(|node| node["name"] == name);
        node.expect(name)["id"].clone()
    };
    let deps = column(&document, "inter_thread_dep");
    let null = &Value::Null;
    // The step had not ended, so its last child is waited for. A converter runs a node before its
    // children, so the last child of the backward pass comes after it.
    assert_eq!(deps[3..], [null, null, &id("forward"), null, &id("inner")]);
}

#[test]
fn device_rows_repeat_their_owner() {
    let (document, _) = written(&sample(true));
    let (mm, gemm, nccl) = (
        &document["nodes"][3],
        &document["nodes"][4],
        &document["nodes"][7],
    );
    assert_eq!(
        (&gemm["attrs"], &gemm["inputs"]),
        (&mm["attrs"], &mm["inputs"])
    );
    assert_eq!(
        (&gemm["cat"], &gemm["ph"], &gemm["stream"]),
        (&Value::from("kernel"), &Value::from("X"), &Value::from(7))
    );
    assert_eq!(
        (&gemm["correlation"], &gemm["device"]),
        (&Value::from(5), &Value::from(0))
    );
    assert_eq!(
        (&nccl["pg_name"], gemm.get("pg_name")),
        (&Value::from("0"), None)
    );
    assert_eq!(attr(nccl, "collective_name"), "allreduce");
    assert_eq!(attr(nccl, "in_msg_nelems"), 1024);
}

#[test]
fn attributes_are_kept_and_forward_parents_renumbered() {
    let (document, _) = written(&sample(true));
    let nodes = &document["nodes"];
    assert_eq!(
        (attr(&nodes[3], "rf_id"), attr(&nodes[3], "extra")),
        (&Value::from(112), &Value::from("y"))
    );
    assert_eq!(
        (attr(&nodes[5], "fw_parent"), attr(&nodes[6], "fw_parent")),
        (&Value::from(3), &Value::from(4))
    );
    assert_eq!(
        nodes[3]["inputs"]["values"][1], "nan",
        "a bare nan is quoted"
    );
}

#[test]
fn schemas_that_the_converter_does_not_read_are_raised() {
    for (said, strides, want) in [
        ("1.0.1", false, "1.1.0-chakra.0.0.4"),
        ("1.0.2-chakra.0.0.4", false, "1.0.2-chakra.0.0.4"),
        ("1.0.4-chakra.0.0.4", false, "1.1.0-chakra.0.0.4"),
        ("1.1.1-chakra.1.0.0", true, "1.1.1-chakra.0.0.4"),
        ("", true, "1.1.1-chakra.0.0.4"),
    ] {
        let mut trace = sample(true);
        let host = trace.host.as_mut().expect("host");
        host.header.schema = said.to_owned();
        if !strides {
            host.nodes
                .inputs
                .iter_mut()
                .for_each(|list| list.strides = etlink_model::NameId::EMPTY);
        }
        let (document, _) = written(&trace);
        assert_eq!(document["schema"], want, "{said}");
        assert_eq!(
            document["nodes"][3]["inputs"].get("strides").is_some(),
            want.starts_with("1.1.1")
        );
    }
}

#[test]
fn roots_are_made_where_a_trace_has_none() {
    let mut trace = sample(true);
    let host = trace.host.as_mut().expect("host");
    let plain = host.names.intern("aten::add");
    host.nodes.name[0] = plain;
    host.nodes.name[1] = plain;
    host.nodes.parent[2] = 20;
    let (document, _) = written(&trace);
    assert_readable(&document);
    assert_eq!(
        document["nodes"][1]["name"],
        "[pytorch|profiler|execution_trace|thread]"
    );
    assert_eq!(
        column(&document, "ctrl_deps")[2..6],
        [1, 2, 4, 3],
        "a parent that began later is none"
    );
}

#[test]
fn a_thread_root_after_its_ops_is_not_their_child_nor_their_parent() {
    let mut trace = sample(true);
    let host = trace.host.as_mut().expect("host");
    host.nodes.name.swap(1, 2);
    host.nodes.parent[1] = 0;
    host.nodes.parent[2] = host.nodes.id[1];
    let (document, _) = written(&trace);
    assert_readable(&document);
    assert_eq!(
        document["nodes"][2]["name"],
        "[pytorch|profiler|execution_trace|thread]"
    );
    assert_eq!(column(&document, "ctrl_deps")[1..3], [1, 1]);
}

#[test]
fn the_device_trace_alone_is_a_tree_too() {
    let (document, summary) = written(&sample(false));
    assert_readable(&document);
    assert_eq!(column(&document, "ctrl_deps"), [1, 1, 2, 3, 4, 2, 6, 1, 8]);
    assert_eq!(
        (
            attr(&document["nodes"][2], "tid"),
            attr(&document["nodes"][7], "tid")
        ),
        (&Value::from(1), &Value::from(2))
    );
    assert_eq!(document["nodes"][3]["inputs"]["types"][0], "float");
    assert_eq!(attr(&document["nodes"][5], "collective_name"), "allreduce");
    assert_eq!((summary.timed, summary.device_rows), (3, 3));
    let (document, _) = written(&LinkedTrace::default());
    assert_eq!(document["nodes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn rows_hang_on_the_nearest_op_or_thread_that_there_is() {
    let mut trace = sample(true);
    trace.op_host[1] = etlink_model::HostIdx::NONE;
    let (document, summary) = written(&trace);
    assert_eq!(
        (
            &document["nodes"][3]["name"],
            &document["nodes"][3]["ctrl_deps"]
        ),
        (&Value::from("gemm<float>"), &Value::from(3))
    );
    assert_eq!(summary.ops_left_out, 1);
    trace.row_op[0] = OpIdx::NONE;
    let (document, _) = written(&trace);
    assert_eq!(
        (
            &document["nodes"][2]["name"],
            &document["nodes"][2]["ctrl_deps"]
        ),
        (&Value::from("gemm<float>"), &Value::from(2))
    );
}

#[test]
fn odd_names_stay_json() {
    let mut b = TraceSketch::new();
    let op = b.op("a\"\\\n\u{1}\u{2028}é", 0, 1, None);
    b.row("k\"\\", 0, 1, op, CallIdx::NONE);
    let mut trace = b.done();
    trace.device.ops.shapes[0] = intern(&mut trace, "[[1, nan], [inf");
    let (document, summary) = written(&trace);
    assert_eq!(
        column(&document, "name")[2..],
        ["a\"\\\n\u{1}\u{2028}é", "k\"\\"]
    );
    assert_eq!(summary.unreadable_values, 1);
}

#[test]
fn blocks_may_begin_anywhere() {
    let mut trace = sample(true);
    let host = trace.host.as_mut().expect("host");
    let broken = host.names.intern("[1");
    host.nodes
        .inputs
        .iter_mut()
        .for_each(|list| list.shapes = broken);
    let plan = EtPlusPlan::new(&trace);
    let threads = ThreadTimes::new(&trace, &plan);
    let written = |lines: std::ops::Range<u64>| {
        let (mut nodes, mut out) = (NodeWriter::new(&trace, &plan, &threads), vec![]);
        nodes.lines(lines, &mut out).expect("writes");
        (out, nodes.summary)
    };
    let (whole, counts) = written(0..plan.lines());
    assert!(counts.unreadable_values > 0 && counts.device_rows > 0);
    for cut in 1..plan.lines() {
        let ((before, mut sum), (after, rest)) = (written(0..cut), written(cut..plan.lines()));
        sum.add(&rest);
        assert_eq!(
            ([before, after].concat(), &sum),
            (whole.clone(), &counts),
            "cut at {cut}"
        );
    }
}
