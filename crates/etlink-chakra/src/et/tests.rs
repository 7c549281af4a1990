//! Tests written files by decoding them with the generated messages.

use super::*;
use crate::agreement::{agree, simulated_sizes};
use crate::proto::attribute_proto::Value;
use crate::proto::{GlobalMetadata, Node, NodeType};
use crate::tests::{TraceSketch, sample};
use crate::{Demotion, LatencyMode};
use etlink_link::ranks::{ClockDrift, RankClock, RankSummary, join_ranks};
use etlink_link::{EdgeKind, NodeKind};
use proptest::prelude::*;
use prost::Message;

pub(super) fn written(
    trace: &LinkedTrace,
    options: &WriteOptions<'_>,
) -> (GlobalMetadata, Vec<Node>, WriteSummary) {
    let mut bytes = vec![];
    let summary = write_et(trace, options, &mut bytes).expect("writes");
    assert_eq!(summary.bytes, bytes.len() as u64);
    let mut rest = bytes.as_slice();
    let metadata = GlobalMetadata::decode_length_delimited(&mut rest).expect("metadata");
    let mut nodes = vec![];
    while !rest.is_empty() {
        nodes.push(Node::decode_length_delimited(&mut rest).expect("node"));
    }
    (metadata, nodes, summary)
}

pub(super) fn attr<'n>(node: &'n Node, name: &str) -> Option<&'n Value> {
    let mut found = node.attr.iter().filter(|attr| attr.name == name);
    let first = found.next();
    assert_eq!(found.next(), None, "{name} twice");
    first.and_then(|attr| attr.value.as_ref())
}

pub(super) fn int(node: &Node, name: &str) -> Option<i64> {
    match attr(node, name)? {
        Value::Int64Val(number) => Some(*number),
        Value::Int32Val(number) => Some(i64::from(*number)),
        Value::Uint64Val(number) => i64::try_from(*number).ok(),
        other => panic!("{name} is {other:?}"),
    }
}

/// Returns start and duration, which the node states in one attribute or in two.
fn times(node: &Node) -> (i64, i64) {
    match attr(node, "ns") {
        Some(Value::Int64List(list)) => {
            attributes::joined_times(node.start_time_micros, &list.values).expect("two numbers")
        }
        None => {
            let both = int(node, "start_ns").zip(int(node, "duration_ns"));
            both.expect("both attributes")
        }
        Some(other) => panic!("ns is {other:?}"),
    }
}

fn start_ns(node: &Node) -> Option<i64> {
    Some(times(node).0)
}

fn duration_ns(node: &Node) -> Option<i64> {
    Some(times(node).1)
}

fn text<'n>(node: &'n Node, name: &str) -> Option<&'n str> {
    match attr(node, name)? {
        Value::StringVal(text) => Some(text),
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn metadata_comes_first() {
    let (metadata, ..) = written(&sample(true), &WriteOptions::default());
    assert_eq!(metadata.version, "0.0.4");
    let names: Vec<&str> = metadata
        .attr
        .iter()
        .map(|attr| attr.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "schema",
            "writer",
            "node_count",
            "attrs",
            "pid",
            "time",
            "start_ts",
            "rank",
            "base_time_ns",
            "argument_types"
        ]
    );
    assert_eq!(metadata.attr[4].value, Some(Value::Uint64Val(100)));
    let (metadata, ..) = written(&LinkedTrace::default(), &WriteOptions::default());
    assert!(!metadata.attr.is_empty());
}

#[test]
fn ids_types_and_deps() {
    let (_, nodes, summary) = written(&sample(true), &WriteOptions::default());
    assert!(nodes.iter().map(|node| node.id).eq(0..10));
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "boundary",
            "train \"x\"",
            "aten::mm",
            "cudaLaunchKernel",
            "aten::mm",
            "gemm<float>",
            "Memcpy DtoD",
            "host gap",
            "record_param_comms",
            "ncclDevKernel_AllReduce_Sum_f32"
        ]
    );
    for (index, node) in nodes.iter().enumerate() {
        let on_device = [5, 6, 9].contains(&index);
        // Feeders assume false if it is absent.
        let is_cpu_op = (!on_device).then_some(&Value::BoolVal(true));
        assert_eq!(attr(node, "is_cpu_op"), is_cpu_op, "{index}");
        assert_eq!(
            node.r#type(),
            if index == 9 {
                NodeType::CommCollNode
            } else {
                NodeType::CompNode
            }
        );
    }
    assert_eq!(
        (&nodes[2].ctrl_deps[..], &nodes[2].data_deps[..]),
        (&[1][..], &[][..])
    );
    assert_eq!(
        (&nodes[5].ctrl_deps[..], &nodes[5].data_deps[..]),
        (&[][..], &[2][..])
    );
    assert_eq!(
        nodes[9].data_deps,
        [6, 8],
        "launch and stream order of one node are one dep"
    );
    assert_eq!((summary.nodes, summary.deps), (10, 10));
    assert_eq!(summary.types[&NodeType::CommCollNode], 1);
}

#[test]
fn times_are_exact_in_attributes_and_in_sums() {
    let trace = sample(true);
    let (_, nodes, _) = written(&trace, &WriteOptions::default());
    for (index, node) in nodes.iter().enumerate() {
        assert_eq!(start_ns(node), Some(trace.nodes.start[index].0));
        assert_eq!(duration_ns(node), Some(trace.nodes.duration[index].0));
        assert_eq!(
            node.start_time_micros,
            trace.nodes.start[index].0.cast_unsigned() / 1000
        );
    }
}

#[test]
fn latency_goes_into_durations_or_nodes_or_nowhere() {
    // On the stream: 700, 650 and 30 300 ns after latencies of 3 900, 100 and 8 000 ns.
    let trace = sample(true);
    let of = |latency| {
        written(
            &trace,
            &WriteOptions {
                latency,
                ..WriteOptions::default()
            },
        )
        .1
    };
    let device = |nodes: &[Node]| -> Vec<u64> {
        nodes
            .iter()
            .filter(|node| int(node, "stream").is_some())
            .map(|node| node.duration_micros)
            .collect()
    };
    let (fold, node, dropped) = (
        of(LatencyMode::Fold),
        of(LatencyMode::Node),
        of(LatencyMode::Drop),
    );
    assert_eq!(device(&fold), [5, 0, 39]);
    assert_eq!(
        [5, 6, 9].map(|index: usize| int(&fold[index], "latency_ns")),
        [Some(3_900), Some(100), Some(8_000)]
    );
    assert_eq!(device(&dropped), [1, 0, 31]);
    assert!(dropped.iter().all(|node| int(node, "latency_ns").is_none()));
    assert_eq!(device(&node), [4, 1, 0, 0, 8, 31]);
    let latencies: Vec<&Node> = node
        .iter()
        .filter(|node| text(node, "kind") == Some("latency"))
        .collect();
    assert_eq!(latencies.len(), 4, "three on the stream, one on the thread");
    for latency in &latencies {
        let after = node
            .iter()
            .find(|node| node.id == latency.id + 1)
            .expect("what had the latency");
        assert_eq!(
            (&after.ctrl_deps[..], &after.data_deps[..]),
            (&[latency.id][..], &[][..])
        );
        assert_eq!(
            start_ns(after),
            start_ns(latency)
                .zip(duration_ns(latency))
                .map(|(start, duration)| start + duration)
        );
    }
    assert_eq!(node.last().map(|node| node.id), Some(13));
    assert_eq!(int(&node[4], "slice_of"), Some(2));
}

#[test]
fn deps_say_what_they_take_on_request() {
    let trace = sample(true);
    let options = WriteOptions {
        dep_latencies: true,
        ..WriteOptions::default()
    };
    let (_, nodes, _) = written(&trace, &options);
    let list = |node: &Node, name| match attr(node, name) {
        Some(Value::Int64List(list)) => list.values.clone(),
        None => vec![],
        Some(other) => panic!("{name} is {other:?}"),
    };
    // The last kernel waits for its launch and for the previous copy on the stream.
    let last = &nodes[9];
    let latencies = list(last, "data_latency_ns");
    assert_eq!(latencies.len(), last.data_deps.len());
    assert_eq!(latencies.iter().max(), Some(&8_000), "{latencies:?}");
    assert_eq!(list(&nodes[2], "ctrl_latency_ns"), [0i64; 0], "no time");
    assert_eq!(int(last, "slack_ns"), Some(0), "it ends last");
    assert!(nodes.iter().all(|node| int(node, "slack_ns") >= Some(0)));
    // Not if the nodes differ from the trace's nodes.
    let few = WriteOptions {
        no_gaps: true,
        ..options
    };
    let (_, nodes, _) = written(&trace, &few);
    assert!(nodes.iter().all(|node| attr(node, "slack_ns").is_none()));
}

#[test]
fn short_later_slices_are_written_with_what_came_before() {
    // parent | child | parent 400 ns | launch call; the kernel depends on the 400 ns.
    let mut b = TraceSketch::new();
    let (parent, child) = (
        b.op("parent", 0, 9_000, None),
        b.op("child", 1_000, 5_000, None),
    );
    let call = b.call("cudaLaunchKernel", parent, 6_400, 5);
    let row = b.row("k", 7_000, 100, parent, call);
    let slices = [
        b.slice(NodeKind::HostOp, parent.0, true, 0, 1_000),
        b.slice(NodeKind::HostOp, child.0, true, 1_000, 5_000),
        b.slice(NodeKind::HostOp, parent.0, false, 6_000, 400),
        b.node(NodeKind::Runtime, call.0, 6_400, 900),
        b.slice(NodeKind::HostOp, parent.0, false, 7_300, 1_700),
    ];
    let kernel = b.node(NodeKind::DeviceOp, row.0, 7_000, 100);
    slices
        .windows(2)
        .for_each(|pair| b.edge(EdgeKind::ProgramOrder, pair[0], pair[1]));
    b.edge(EdgeKind::Launch, slices[2], kernel);
    let (_, nodes, summary) = written(&b.done(), &WriteOptions::default());
    let ids: Vec<u64> = nodes.iter().map(|node| node.id).collect();
    assert_eq!((ids, summary.nodes), (vec![0, 1, 3, 4, 5], 5));
    assert_eq!(
        nodes.iter().map(duration_ns).collect::<Option<Vec<_>>>(),
        Some(vec![1_000, 5_400, 900, 1_700, 100])
    );
    assert_eq!(
        (&nodes[2].ctrl_deps[..], &nodes[4].data_deps[..]),
        (&[1][..], &[1][..])
    );
    assert_eq!(
        int(&nodes[3], "slice_of"),
        Some(0),
        "long enough to stand by itself, and a call is no op"
    );
}

#[test]
fn without_gaps_their_deps_take_their_place() {
    let (_, nodes, summary) = written(
        &sample(true),
        &WriteOptions {
            no_gaps: true,
            ..WriteOptions::default()
        },
    );
    assert!(
        nodes
            .iter()
            .all(|node| text(node, "kind") != Some("host_gap"))
    );
    assert!(nodes.iter().map(|node| node.id).eq(0..9));
    assert_eq!(
        (nodes[7].name.as_str(), &nodes[7].ctrl_deps[..]),
        ("record_param_comms", &[4][..])
    );
    assert_eq!(summary.nodes, 9);
}

#[test]
fn a_thread_that_only_looks_on_does_not_hold_up_the_others() {
    let mut trace = sample(true);
    let other = etlink_model::HostThread {
        pid: etlink_model::TrackLabel::Int(100),
        tid: etlink_model::TrackLabel::Int(102),
    };
    trace.device.threads.push(other);
    trace.nodes.push(etlink_link::Node {
        kind: etlink_link::NodeKind::HostGap,
        source: u32::MAX,
        track: etlink_model::TrackIdx(1),
        start: etlink_model::TimeNs(100_000),
        duration: etlink_model::DurationNs(90_000_000),
        ..etlink_link::Node::default()
    });
    let edges: Vec<_> = trace.edges.iter().collect();
    trace.edges = etlink_link::Edges::new(edges, trace.nodes.len());
    let (_, nodes, _) = written(&trace, &WriteOptions::default());
    assert_eq!(
        (nodes[10].duration_micros, duration_ns(&nodes[10])),
        (0, Some(90_000_000))
    );
    assert_eq!(
        nodes[7].duration_micros, 27,
        "the gap of the thread that launches, with its latency"
    );
}

#[test]
fn attributes_of_slices_and_rows() {
    let (_, nodes, _) = written(&sample(true), &WriteOptions::default());
    assert_eq!(int(&nodes[2], "tid"), Some(101));
    assert_eq!(
        (int(&nodes[2], "rf_id"), int(&nodes[2], "host_id")),
        (Some(112), Some(12))
    );
    assert_eq!(
        text(&nodes[2], "op_schema"),
        Some("aten::mm(Tensor a) -> Tensor")
    );
    let inputs = nodes[2].inputs.as_ref().expect("inputs");
    assert_eq!(inputs.values, r#"[[3, 4, 0, 6, 4, "cpu"], nan]"#);
    assert_eq!(
        (inputs.shapes.as_str(), inputs.types.as_str()),
        ("[[2, 3], []]", "#0")
    );
    assert_eq!(
        (int(&nodes[4], "slice_of"), int(&nodes[4], "rf_id")),
        (Some(2), None)
    );
    assert_eq!(nodes[4].inputs, None);
    assert_eq!(int(&nodes[3], "correlation"), Some(5));
    assert_eq!(
        (int(&nodes[5], "stream"), int(&nodes[5], "device")),
        (Some(7), Some(0))
    );
    let grid = crate::proto::Uint32List {
        values: vec![80, 1, 1],
    };
    assert_eq!(attr(&nodes[5], "grid"), Some(&Value::Uint32List(grid)));
    assert_eq!(
        (int(&nodes[6], "bytes"), attr(&nodes[6], "grid")),
        (Some(4096), None)
    );
    let kinds: Vec<&str> = nodes.iter().filter_map(|node| text(node, "kind")).collect();
    assert_eq!(kinds, ["boundary", "host_gap"]);
}

#[test]
fn kineto_tells_of_ops_without_a_host_node() {
    let (_, nodes, _) = written(&sample(false), &WriteOptions::default());
    let inputs = nodes[2].inputs.as_ref().expect("inputs");
    assert_eq!((inputs.values.as_str(), inputs.types.as_str()), ("", "#0"));
    assert_eq!(int(&nodes[2], "rf_id"), None);
}

#[test]
fn a_collective_says_what_simulators_read() {
    let (_, nodes, _) = written(&sample(true), &WriteOptions::default());
    let node = &nodes[9];
    assert_eq!(
        (int(node, "comm_type"), int(node, "comm_size")),
        (Some(0), Some(4096))
    );
    assert_eq!(
        (text(node, "pg_name"), text(node, "collective_name")),
        (Some("0"), Some("allreduce"))
    );
    assert_eq!(
        (
            int(node, "in_msg_nelems"),
            int(node, "seq"),
            int(node, "pg_size")
        ),
        (Some(1024), Some(17), Some(2))
    );
}

/// Writes the sample as rank 0 of a run in which it is the only trace.
fn joined(without_absent: bool) -> (GlobalMetadata, Vec<Node>, WriteSummary) {
    let trace = sample(true);
    let facts = [RankSummary::from_trace(&trace, etlink_model::GlobalRank(0))];
    let agreed = agree(
        &facts,
        &[simulated_sizes(&trace, &facts[0])],
        &join_ranks(&facts),
        without_absent,
    );
    written(
        &trace,
        &WriteOptions {
            agreement: Some(&agreed.ranks[0]),
            ..WriteOptions::default()
        },
    )
}

#[test]
fn a_group_of_all_ranks_has_a_number() {
    let (_, nodes, _) = joined(false);
    assert_eq!(
        (
            text(&nodes[9], "pg_name"),
            text(&nodes[9], "process_group_name")
        ),
        (Some("1"), Some("0"))
    );
    assert_eq!(
        (int(&nodes[9], "comm_type"), int(&nodes[9], "comm_size")),
        (Some(0), Some(4096))
    );
}

#[test]
fn communications_go_in_turn_when_they_shall() {
    let mut b = TraceSketch::new();
    let nodes = [10, 20, 30].map(|start| {
        let op = b.op("record_param_comms", start, 5, None);
        b.trace.device.ops.collective[op.index()] = b.collective(
            if start == 20 { "barrier" } else { "allreduce" },
            "Half",
            64,
        );
        b.node(NodeKind::Collective, op.0, start, 5)
    });
    b.edge(EdgeKind::ProgramOrder, nodes[0], nodes[1]);
    let trace = b.done();
    let deps = |serialize_comms| {
        let (_, nodes, summary) = written(
            &trace,
            &WriteOptions {
                serialize_comms,
                ..WriteOptions::default()
            },
        );
        (
            nodes
                .into_iter()
                .map(|node| [node.ctrl_deps, node.data_deps])
                .collect::<Vec<_>>(),
            summary.deps,
        )
    };
    assert_eq!(
        deps(false),
        (
            vec![[vec![], vec![]], [vec![0], vec![]], [vec![], vec![]]],
            1
        )
    );
    assert_eq!(
        deps(true),
        (
            vec![[vec![], vec![]], [vec![0], vec![]], [vec![], vec![0]]],
            2
        ),
        "the barrier is computation"
    );
}

#[test]
fn turns_in_the_order_of_ends_make_no_circle() {
    let drawn = |waits: bool| {
        let mut b = TraceSketch::new();
        let nodes = [(10, 90), (20, 30)].map(|(start, duration)| {
            let op = b.op("record_param_comms", start, 5, None);
            b.trace.device.ops.collective[op.index()] = b.collective("allreduce", "Half", 64);
            b.node(NodeKind::Collective, op.0, start, duration)
        });
        if waits {
            b.edge(EdgeKind::ProgramOrder, nodes[0], nodes[1]);
        }
        let trace = b.done();
        let facts = [RankSummary::from_trace(&trace, etlink_model::GlobalRank(0))];
        let mut agreed = agree(
            &facts,
            &[simulated_sizes(&trace, &facts[0])],
            &join_ranks(&facts),
            false,
        );
        agreed.ranks[0].serial_order = vec![nodes[1], nodes[0]];
        let (_, nodes, _) = written(
            &trace,
            &WriteOptions {
                agreement: Some(&agreed.ranks[0]),
                serialize_comms: true,
                ..WriteOptions::default()
            },
        );
        nodes
            .into_iter()
            .map(|node| [node.ctrl_deps, node.data_deps])
            .collect::<Vec<_>>()
    };
    assert_eq!(drawn(false), [[vec![], vec![1]], [vec![], vec![]]]);
    assert_eq!(
        drawn(true),
        [[vec![], vec![]], [vec![0], vec![]]],
        "the second waits for the first already"
    );
}

#[test]
fn times_are_by_the_clock_that_is_asked_for() {
    let start = |offset_ns| {
        let clock = RankClock {
            offset_ns,
            ..RankClock::default()
        };
        let (metadata, nodes, _) = written(
            &sample(true),
            &WriteOptions {
                clock,
                ..WriteOptions::default()
            },
        );
        let offset = metadata
            .attr
            .iter()
            .find(|attr| attr.name == "clock_offset_ns")
            .and_then(|attr| attr.value.clone());
        (
            nodes[9].start_time_micros,
            start_ns(&nodes[9]),
            duration_ns(&nodes[9]),
            offset,
        )
    };
    assert_eq!(start(0), (60, Some(60_000), Some(30_300), None));
    assert_eq!(
        start(5_400),
        (65, Some(65_400), Some(30_300), Some(Value::Int64Val(5_400)))
    );
}

#[test]
fn a_clock_that_drifts_stretches_what_lasts() {
    let total = |clock: RankClock| {
        let (metadata, nodes, _) = written(
            &sample(true),
            &WriteOptions {
                clock,
                ..WriteOptions::default()
            },
        );
        let drift = metadata
            .attr
            .iter()
            .any(|attr| attr.name == "clock_drift_ppb");
        (drift, start_ns(&nodes[9]), duration_ns(&nodes[9]))
    };
    let drift = |applied| {
        Some(ClockDrift {
            ppb: 1_000_000,
            uncertainty_ppb: 1,
            applied,
        })
    };
    let at_ns = sample(true).device.header.base_ns;
    assert_eq!(
        total(RankClock {
            drift: drift(true),
            at_ns,
            ..RankClock::default()
        }),
        (true, Some(60_060), Some(30_330))
    );
    assert_eq!(
        total(RankClock {
            drift: drift(false),
            at_ns,
            ..RankClock::default()
        }),
        (false, Some(60_000), Some(30_300))
    );
}

#[test]
fn what_is_not_communication_is_computation_and_counted() {
    let (_, nodes, summary) = joined(true);
    assert_eq!(nodes[9].r#type(), NodeType::CompNode);
    assert_eq!(
        (attr(&nodes[9], "is_cpu_op"), attr(&nodes[9], "comm_type")),
        (None, None)
    );
    assert_eq!(
        (text(&nodes[9], "comm_kind"), nodes[9].duration_micros),
        (Some("all_reduce"), 39)
    );
    assert_eq!(summary.demoted[&Demotion::AbsentRank], 1);
}

#[test]
fn sends_and_receives_name_global_ranks() {
    for (name, kind, src, dst) in [
        ("send", NodeType::CommSendNode, 0, 1),
        ("recv", NodeType::CommRecvNode, 1, 0),
    ] {
        let mut b = TraceSketch::new();
        let op = b.op("record_param_comms", 10, 500, None);
        b.trace.device.ops.collective[op.index()] = b.collective(name, "Half", 64);
        b.node(NodeKind::Collective, op.0, 10, 500);
        b.slice(NodeKind::Collective, op.0, false, 600, 500);
        let (_, nodes, _) = written(&b.done(), &WriteOptions::default());
        assert_eq!(nodes[0].r#type(), kind);
        assert_eq!(attr(&nodes[0], "is_cpu_op"), None);
        assert_eq!(attr(&nodes[0], "comm_src"), Some(&Value::Int32Val(src)));
        assert_eq!(attr(&nodes[0], "comm_dst"), Some(&Value::Int32Val(dst)));
        assert_eq!(
            (int(&nodes[0], "comm_size"), int(&nodes[0], "comm_tag")),
            (Some(128), Some(0))
        );
        assert_eq!(
            nodes[1].r#type(),
            NodeType::CompNode,
            "a later slice does not communicate again"
        );
        assert_eq!(int(&nodes[1], "slice_of"), Some(0));
    }
}

#[test]
fn the_same_bytes_every_time() {
    let bytes = || {
        let mut bytes = vec![];
        write_et(&sample(true), &WriteOptions::default(), &mut bytes).expect("writes");
        bytes
    };
    assert_eq!(bytes(), bytes());
}

proptest! {
    #[test]
    fn any_name_and_time_is_written_and_read_back(
        name in "\\PC*",
        start in any::<i64>(),
        durations in prop::collection::vec(0i64..3_000, 1..40),
    ) {
        let mut b = TraceSketch::new();
        let op = b.op(&name, start, 1, None);
        for (at, &duration) in durations.iter().enumerate() {
            b.slice(NodeKind::HostOp, op.0, at == 0, start, duration);
        }
        let (_, nodes, _) = written(&b.done(), &WriteOptions::default());
        let (mut ns, mut us) = (0, 0);
        for (node, duration) in nodes.iter().zip(durations) {
            prop_assert_eq!(&node.name, &name);
            prop_assert_eq!(start_ns(node), Some(start));
            ns += duration;
            us += i64::try_from(node.duration_micros).expect("small");
            prop_assert!((us * 1000 - ns).abs() < 1000);
        }
    }
}

#[test]
fn what_nodes_compute_and_move() {
    let of = |roofline| {
        written(
            &sample(true),
            &WriteOptions {
                roofline,
                ..WriteOptions::default()
            },
        )
    };
    let (_, nodes, summary) = of(true);
    let told = |node: &Node| {
        (
            int(node, "num_ops"),
            int(node, "tensor_size"),
            attr(node, "roofline_source")
                .map(|_| text(node, "roofline_source").expect("a text").to_owned()),
        )
    };
    // aten::mm of [2, 3] without a second matrix: in 5 µs it does more than read that.
    assert_eq!(
        told(&nodes[5]),
        (Some(1), Some(5_000 * 3350 + 1675), Some("duration".into()))
    );
    // 4,096 bytes to the device: slower than the device's memory.
    assert_eq!(told(&nodes[6]).2, Some("duration".into()));
    assert_eq!(
        told(&nodes[9]),
        (None, None, None),
        "a communication has its size"
    );
    assert_eq!(told(&nodes[2]), (None, None, None), "its kernel does it");
    assert_eq!(
        summary.work.values().sum::<u64>(),
        nodes
            .iter()
            .filter(|node| attr(node, "num_ops").is_some())
            .filter(|node| text(node, "roofline_source") != Some("duration"))
            .count() as u64
    );
    assert!(
        of(false)
            .1
            .iter()
            .all(|node| attr(node, "num_ops").is_none())
    );
}

/// Covers a kernel with a whole cache among its tensors that writes one line of it, a kernel with
/// unknown work, and kernels that move what their ops state.
#[test]
fn what_no_kernel_can_have_done_keeps_the_measured_time() {
    let of = |name: &str, ns: i64| {
        let mut b = TraceSketch::new();
        let op = b.op(name, 0, ns, None);
        let device = &mut b.trace.device;
        device.ops.shapes[0] = device.names.intern("[[10000000]]");
        let row = b.row("k", 0, ns, op, etlink_model::CallIdx::NONE);
        b.node(NodeKind::DeviceOp, row.0, 0, ns);
        let options = WriteOptions {
            roofline: true,
            ..WriteOptions::default()
        };
        let (_, nodes, summary) = written(&b.done(), &options);
        let source = text(&nodes[0], "roofline_source").expect("a source");
        (source.to_owned(), summary)
    };
    // 80 MB, in and out: 24 µs at 3350 GB/s.
    let (source, summary) = of("aten::relu", 30_000);
    assert_eq!(source, "elementwise");
    let times = summary.roofline_kernels["k"];
    assert_eq!((times.measured_ns, times.roofline_ns), (30_000, 23_880));
    assert_eq!(summary.roofline.roofline_ns, 23_880);
    assert_eq!(of("aten::relu", 300_000).0, "elementwise");
    assert_eq!(of("my::op", 100_000).0, "bytes");
    for (name, ns) in [("aten::relu", 5_000), ("my::op", 300_000)] {
        let (source, summary) = of(name, ns);
        assert_eq!(source, "duration", "{name}");
        let cover = summary.roofline;
        assert_eq!((cover.implausible, cover.kept), (1, 0));
        assert_eq!(cover.roofline_ns, ns.unsigned_abs());
        let told = crate::astra::uncovered(&cover).expect("is told");
        assert!(told.contains("more than twice the measured time"), "{told}");
    }
}

/// A roofline includes the memory of a device, but not its link to the host.
#[test]
fn copies_that_are_slower_than_the_memory_keep_the_measured_time() {
    let of = |name: &str, bytes: u64, ns: i64| {
        let mut b = TraceSketch::new();
        let row = b.row(
            name,
            0,
            ns,
            etlink_model::OpIdx::NONE,
            etlink_model::CallIdx::NONE,
        );
        b.trace.device.rows.bytes[row.index()] = bytes;
        b.node(NodeKind::DeviceOp, row.0, 0, ns);
        let options = WriteOptions {
            roofline: true,
            ..WriteOptions::default()
        };
        let (_, nodes, summary) = written(&b.done(), &options);
        let source = text(&nodes[0], "roofline_source").expect("a source");
        (
            source.to_owned(),
            int(&nodes[0], "tensor_size"),
            summary.roofline.roofline_ns,
        )
    };
    // 25 GB/s and 1,500 GB/s.
    let millisecond = 1_000_000;
    let (source, _, takes_ns) = of("Memcpy HtoD (Pinned -> Device)", 25_000_000, millisecond);
    assert_eq!((source.as_str(), takes_ns), ("duration", 1_000_000));
    let (source, moves, takes_ns) =
        of("Memcpy DtoD (Device -> Device)", 1_500_000_000, millisecond);
    assert_eq!((source.as_str(), moves), ("copy", Some(3_000_000_000)));
    assert!((890_000..900_000).contains(&takes_ns), "{takes_ns}");
    // No less than the resolution of ASTRA-sim's clock.
    let (source, moves, _) = of("Memcpy DtoD (Device -> Device)", 512, 20);
    assert_eq!((source.as_str(), moves), ("copy", Some(16_384)));
}

#[test]
fn what_has_no_shapes_keeps_its_time_in_a_roofline() {
    let mut b = TraceSketch::new();
    let row = b.row(
        "gemm",
        0,
        7_000,
        etlink_model::OpIdx::NONE,
        etlink_model::CallIdx::NONE,
    );
    b.node(NodeKind::DeviceOp, row.0, 0, 7_000);
    let trace = b.done();
    let options = WriteOptions {
        roofline: true,
        ..WriteOptions::default()
    };
    let (_, nodes, summary) = written(&trace, &options);
    // With one operation, the roofline takes the time of the bytes at 3350 GB/s, truncated to whole
    // ns.
    let bytes = int(&nodes[0], "tensor_size").expect("a size");
    assert_eq!((int(&nodes[0], "num_ops"), bytes / 3350), (Some(1), 7_000));
    assert_eq!(text(&nodes[0], "roofline_source"), Some("duration"));
    let cover = summary.roofline;
    assert_eq!(
        [cover.nodes, cover.time_ns, cover.kept, cover.kept_ns],
        [1, 7_000, 1, 7_000]
    );
    assert_eq!(
        crate::astra::uncovered(&cover).expect("all"),
        "1 of 1 nodes (100 % of their time) have no shapes and keep the measured time"
    );
}

#[test]
fn simulated_communications_are_called_by_kind_and_group() {
    let trace = sample(true);
    let options = WriteOptions {
        serialize_comms: true,
        ..WriteOptions::default()
    };
    let (_, nodes, _) = written(&trace, &options);
    let node = nodes.last().expect("a node");
    assert_eq!(
        (node.name.as_str(), text(node, "trace_name")),
        (
            "all_reduce, group 0",
            Some("ncclDevKernel_AllReduce_Sum_f32")
        )
    );
}
