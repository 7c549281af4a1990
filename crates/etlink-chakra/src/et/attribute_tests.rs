//! Tests that attributes omitted by nodes can be restored.

use super::tests::{attr, written};
use super::*;
use crate::AttributeSet;
use crate::messages::{Losses, for_each_message, write_json};
use crate::proto::attribute_proto::Value;
use crate::proto::{GlobalMetadata, Node};
use crate::read::{ChakraGraph, NodePlacement, read};
use crate::tests::sample;
use etlink_link::NodeKind;
use etlink_model::{HostThread, TrackLabel};
use std::collections::BTreeSet;

/// Attributes that Chakra's feeders and ASTRA-sim request from nodes (`et_feeder_node_attr.h`,
/// `Workload.cc`).
const READ_BY_SIMULATORS: [&str; 9] = [
    "is_cpu_op",
    "num_ops",
    "tensor_size",
    "comm_type",
    "comm_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "pg_name",
];

fn with_attributes(attributes: AttributeSet) -> WriteOptions<'static> {
    WriteOptions {
        attributes,
        roofline: true,
        ..WriteOptions::default()
    }
}

fn bytes_of(trace: &LinkedTrace, attributes: AttributeSet) -> Vec<u8> {
    let mut bytes = vec![];
    write_et(trace, &with_attributes(attributes), &mut bytes).expect("writes");
    bytes
}

/// Reads the file, and the same file converted to JSON.
fn read_both(bytes: &[u8]) -> [ChakraGraph; 2] {
    let (mut json, mut losses) = (vec![], Losses::default());
    let read_all = for_each_message(bytes, &mut |message| {
        write_json(message, &mut json, &mut losses)
    });
    assert!(read_all.expect("reads").is_empty() && losses.is_empty());
    [read(bytes).expect("reads"), read(&json[..]).expect("reads")]
}

/// Returns a list of texts in the first message.
fn texts<'m>(metadata: &'m GlobalMetadata, name: &str) -> &'m [String] {
    let found = metadata.attr.iter().find(|attr| attr.name == name);
    match found.and_then(|attr| attr.value.as_ref()) {
        Some(Value::StringList(list)) => &list.values,
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn what_full_nodes_leave_out_is_read_back() {
    let mut trace = sample(true);
    // A range of another process on a thread that nothing else uses.
    trace.device.threads.push(HostThread {
        pid: TrackLabel::Int(200),
        tid: TrackLabel::Int(201),
    });
    trace.nodes.track[7] = etlink_model::TrackIdx(1);
    // The host trace comes from another run.
    trace.host.as_mut().expect("a host trace").header.pid = Some(300);
    for graph in read_both(&bytes_of(&trace, AttributeSet::Full)) {
        assert_eq!(graph.attribute_set(), Some(AttributeSet::Full));
        for node in trace.nodes.indices() {
            let (index, linked) = (node.index(), trace.nodes.get(node));
            let place = graph.place_of(index);
            let process = if index == 7 { 200 } else { 100 };
            let on_host = !linked.on_device;
            assert_eq!(graph.kind_of(index), linked.kind.name());
            assert_eq!(graph.is_cpu_op[index], Some(on_host));
            assert_eq!(graph.start_ns[index], Some(linked.start.0));
            assert_eq!(graph.duration_ns[index], linked.duration.0);
            assert_eq!(place.pid, on_host.then_some(TrackLabel::Int(process)));
            assert_eq!(place.stream, linked.on_device.then_some(7));
        }
    }
}

#[test]
fn texts_of_many_nodes_stand_once() {
    let trace = sample(true);
    let (metadata, nodes, _) = written(&trace, &with_attributes(AttributeSet::Full));
    let types = texts(&metadata, "argument_types");
    assert_eq!(types, [r#"["Tensor(float)", "Double"]"#]);
    let told = |node: &Node| node.inputs.as_ref().map(|inputs| inputs.types.clone());
    let told: Vec<String> = nodes.iter().filter_map(told).collect();
    assert_eq!(told, ["#0", "#0", "#0"]);
    // A schema that only one op has stays with the op.
    let schema = Value::StringVal("aten::mm(Tensor a) -> Tensor".to_owned());
    assert_eq!(attr(&nodes[2], "op_schema"), Some(&schema));
}

#[test]
fn schemas_of_several_ops_are_numbers() {
    let mut trace = sample(true);
    let host = trace.host.as_mut().expect("a host trace");
    let name = host.names.intern("aten::mm(Tensor a) -> Tensor");
    host.nodes.op_schema.fill(name);
    let (metadata, nodes, _) = written(&trace, &with_attributes(AttributeSet::Full));
    assert_eq!(
        texts(&metadata, "op_schemas"),
        ["aten::mm(Tensor a) -> Tensor"]
    );
    assert_eq!(attr(&nodes[2], "op_schema"), Some(&Value::Uint64Val(0)));
}

#[test]
fn ids_that_repeat_are_written_once() {
    let mut trace = sample(true);
    // 112 is the `rf_id` of mm.
    trace.device.ops.external_id = vec![7, 112, -1];
    trace.device.calls.external_id = vec![8, 9];
    trace.device.rows.external_id = vec![8, 5, -1];
    let (_, nodes, _) = written(&trace, &with_attributes(AttributeSet::Full));
    let ids = [1, 2, 3, 5, 6, 8, 9].map(|node: usize| attr(&nodes[node], "external_id"));
    let int = |number| Some(Value::Int64Val(number));
    // train, mm, its call, gemm, a copy that nothing launched, comms, the kernel of its call.
    let want = [int(7), None, int(8), None, int(5), int(-1), int(-1)];
    assert_eq!(ids.map(|id| id.cloned()), want);
}

#[test]
fn minimal_files_have_what_simulators_read() {
    let trace = sample(true);
    let (_, full, full_summary) = written(&trace, &with_attributes(AttributeSet::Full));
    let (_, minimal, summary) = written(&trace, &with_attributes(AttributeSet::Minimal));
    assert_eq!(summary.types, full_summary.types);
    assert!(summary.bytes < full_summary.bytes * 2 / 3, "{summary:?}");
    let is_read = |name: &str| READ_BY_SIMULATORS.contains(&name);
    let mut seen = BTreeSet::new();
    for (full, minimal) in full.into_iter().zip(minimal) {
        let attributes = full.attr.into_iter().filter(|attr| is_read(&attr.name));
        let want = Node {
            start_time_micros: 0,
            inputs: None,
            outputs: None,
            attr: attributes.collect(),
            ..full
        };
        assert_eq!(minimal, want);
        seen.extend(minimal.attr.into_iter().map(|attr| attr.name));
    }
    assert!(
        seen.contains("comm_size") && seen.contains("num_ops"),
        "{seen:?}"
    );
}

#[test]
fn a_minimal_file_does_not_say_what_it_lacks() {
    for graph in read_both(&bytes_of(&sample(true), AttributeSet::Minimal)) {
        assert_eq!(graph.attribute_set(), Some(AttributeSet::Minimal));
        for index in 0..graph.len() {
            assert_eq!(graph.kind_of(index), "");
            assert_eq!(graph.place_of(index), NodePlacement::default());
            assert_eq!(graph.correlation[index], None);
            assert_eq!(graph.start_ns[index], None);
            assert!(graph.is_cpu_op[index].is_some());
        }
        assert_eq!(graph.duration_ns[9], 39_000, "with its latency");
    }
}

/// Attributes with these names in other writers' files keep their own meaning.
#[test]
fn files_that_state_no_set_are_read_as_they_are() {
    let node = Node {
        id: 1,
        start_time_micros: 5,
        attr: vec![
            crate::proto::AttributeProto {
                name: "ns".to_owned(),
                value: Some(Value::Int64List(crate::proto::Int64List {
                    values: vec![1, 2],
                })),
                ..Default::default()
            },
            crate::proto::AttributeProto {
                name: "tid".to_owned(),
                value: Some(Value::Int64Val(3)),
                ..Default::default()
            },
        ],
        ..Node::default()
    };
    let metadata = GlobalMetadata {
        version: "0.0.4".to_owned(),
        attr: vec![crate::proto::AttributeProto {
            name: "pid".to_owned(),
            value: Some(Value::Uint64Val(4)),
            ..Default::default()
        }],
    };
    let messages = crate::messages::ChakraMessages {
        metadata,
        nodes: vec![node],
    };
    for graph in read_both(&messages.to_et()) {
        assert_eq!(graph.attribute_set(), None);
        assert_eq!((graph.start_ns[0], graph.duration_ns[0]), (Some(5_000), 0));
        assert_eq!((graph.kind_of(0), graph.is_cpu_op[0]), ("", None));
        assert_eq!(graph.place_of(0).pid, None);
    }
}

#[test]
fn a_demoted_collective_keeps_its_kind() {
    let mut trace = sample(true);
    // With a group of one rank, a simulator would never end.
    trace.device.collectives.group_size.fill(1);
    let bytes = bytes_of(&trace, AttributeSet::Full);
    let graph = read(&bytes[..]).expect("reads");
    assert_eq!(graph.node_type[9], crate::proto::NodeType::CompNode);
    assert_eq!(graph.kind_of(9), NodeKind::Collective.name());
}

#[test]
fn exact_times_of_a_message() {
    let trace = sample(true);
    let (_, nodes, _) = written(&trace, &with_attributes(AttributeSet::Full));
    for (index, node) in nodes.iter().enumerate() {
        let times = (trace.nodes.start[index].0, trace.nodes.duration[index].0);
        assert_eq!(crate::messages::exact_times(node), Some(times));
    }
    let (_, nodes, _) = written(&trace, &with_attributes(AttributeSet::Minimal));
    assert_eq!(crate::messages::exact_times(&nodes[1]), None);
}
