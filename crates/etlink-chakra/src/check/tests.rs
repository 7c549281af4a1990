//! Tests that every fault is found in a file that has it, and no other fault.

use super::*;
use crate::proto::attribute_proto::Value;
use crate::proto::{AttributeProto, GlobalMetadata, Node};
use crate::read::read;
use prost::Message;

fn node(id: u64, node_type: NodeType) -> Node {
    Node {
        id,
        name: format!("n{id}"),
        r#type: node_type.into(),
        ..Node::default()
    }
}

fn comp(id: u64, deps: &[u64]) -> Node {
    Node {
        data_deps: deps.to_vec(),
        ..node(id, NodeType::CompNode)
    }
}

fn comm(node_type: NodeType, attrs: &[(&str, Value)]) -> Node {
    let attr = attrs.iter().map(|(name, value)| AttributeProto {
        name: (*name).to_owned(),
        value: Some(value.clone()),
        ..AttributeProto::default()
    });
    Node {
        attr: attr.collect(),
        ..node(1, node_type)
    }
}

fn file(nodes: &[Node]) -> Vec<u8> {
    let metadata = GlobalMetadata {
        version: "0.0.4".to_owned(),
        attr: vec![],
    };
    let mut bytes = metadata.encode_length_delimited_to_vec();
    nodes
        .iter()
        .for_each(|node| bytes.extend(node.encode_length_delimited_to_vec()));
    bytes
}

fn found(bytes: &[u8]) -> Vec<(FindingKind, u64)> {
    let graph = read(bytes).expect("reads");
    check(&graph)
        .iter()
        .map(|finding| (finding.kind, finding.count))
        .collect()
}

fn faults(nodes: &[Node]) -> Vec<(FindingKind, u64)> {
    found(&file(nodes))
}

fn int(value: i64) -> Value {
    Value::Int64Val(value)
}

#[test]
fn a_good_file_has_no_findings() {
    let send = comm(
        NodeType::CommSendNode,
        &[("comm_dst", Value::Int32Val(1)), ("comm_size", int(8))],
    );
    let nodes = [comp(0, &[]), send, comp(2, &[0, 1])];
    assert_eq!(faults(&nodes), []);
}

#[test]
fn faults_of_ids_and_deps() {
    use FindingKind::{Cycle, DanglingDep, DuplicateId, SelfDep};
    assert_eq!(faults(&[comp(1, &[]), comp(1, &[])]), [(DuplicateId, 1)]);
    assert_eq!(
        faults(&[comp(1, &[9]), comp(2, &[1, 9]), comp(3, &[8])]),
        [(DanglingDep, 3)]
    );
    assert_eq!(faults(&[comp(1, &[1])]), [(SelfDep, 1)]);
    assert_eq!(
        faults(&[comp(1, &[3]), comp(2, &[1]), comp(3, &[2]), comp(4, &[3])]),
        [(Cycle, 3)]
    );
    let ctrl = Node {
        ctrl_deps: vec![2],
        ..comp(1, &[])
    };
    assert_eq!(
        faults(&[ctrl, comp(2, &[1])]),
        [(Cycle, 2)],
        "a cycle can go through both kinds of deps"
    );
}

#[test]
fn dangling_deps_say_which_id_and_who_needs_it() {
    let graph = read(file(&[comp(1, &[9]), comp(2, &[1, 9])]).as_slice()).expect("reads");
    let findings = check(&graph);
    let example = &findings[0].examples[0];
    assert_eq!(
        (example.id, example.detail.as_str()),
        (Some(9), "references: 2, first: node 1 (n1)")
    );
}

#[test]
fn faults_of_types() {
    assert_eq!(
        faults(&[node(1, NodeType::MetadataNode)]),
        [(FindingKind::MetadataNode, 1)]
    );
    assert_eq!(
        faults(&[node(1, NodeType::InvalidNode)]),
        [(FindingKind::InvalidNode, 1)]
    );
    let unknown = Node {
        r#type: 77,
        ..comp(1, &[])
    };
    assert_eq!(faults(&[unknown]), [(FindingKind::InvalidNode, 1)]);
}

#[test]
fn faults_of_collectives() {
    use FindingKind::{
        CommOnCpu, InstantBroadcast, NoCommSize, NoCommType, SmallAllGather, UnsupportedCommType,
        WrongAttrType, ZeroCommSize,
    };
    let coll = |attrs: &[(&str, Value)]| faults(&[comm(NodeType::CommCollNode, attrs)]);
    let (kind, size) = (("comm_type", int(0)), ("comm_size", int(8)));
    assert_eq!(coll(&[kind.clone(), size.clone()]), []);
    assert_eq!(
        coll(&[
            ("comm_type", Value::Uint32Val(7)),
            ("comm_size", Value::Fixed64Val(1))
        ]),
        []
    );
    assert_eq!(coll(std::slice::from_ref(&size)), [(NoCommType, 1)]);
    assert_eq!(coll(std::slice::from_ref(&kind)), [(NoCommSize, 1)]);
    assert_eq!(
        coll(&[("comm_type", int(9)), size.clone()]),
        [(UnsupportedCommType, 1)]
    );
    assert_eq!(
        coll(&[("comm_type", int(1 << 40)), size.clone()]),
        [(UnsupportedCommType, 1)]
    );
    assert_eq!(
        coll(&[kind.clone(), ("comm_size", int(0))]),
        [(ZeroCommSize, 1)]
    );
    assert_eq!(
        coll(&[("comm_type", int(2)), ("comm_size", Value::Sint64Val(-3))]),
        [(SmallAllGather, 1)]
    );
    let broadcast = ("comm_type", int(5));
    assert_eq!(
        coll(&[broadcast.clone(), size.clone()]),
        [(InstantBroadcast, 1)]
    );
    let timed = Node {
        duration_micros: 3,
        ..comm(NodeType::CommCollNode, &[broadcast, size.clone()])
    };
    assert_eq!(faults(&[timed]), []);
    for (bytes, found) in [(1, 1), (3, 1), (4, 0)] {
        let gather = coll(&[("comm_type", int(2)), ("comm_size", int(bytes))]);
        assert_eq!(gather, [(SmallAllGather, 1)][..found], "{bytes}");
    }
    assert_eq!(
        coll(&[
            kind.clone(),
            size.clone(),
            ("is_cpu_op", Value::BoolVal(true))
        ]),
        [(CommOnCpu, 1)]
    );
    let text = Value::StringVal("8".to_owned());
    assert_eq!(
        coll(&[kind.clone(), ("comm_size", text)]),
        [(NoCommSize, 1), (WrongAttrType, 1)]
    );
    assert_eq!(
        coll(&[kind.clone(), ("comm_size", Value::DoubleVal(8.0))]),
        [(NoCommSize, 1), (WrongAttrType, 1)]
    );
    assert_eq!(
        coll(&[kind, size, ("pg_name", int(1))]),
        [(WrongAttrType, 1)]
    );
}

#[test]
fn faults_of_sends_and_receives() {
    let size = ("comm_size", int(8));
    assert_eq!(
        faults(&[comm(
            NodeType::CommSendNode,
            &[("comm_src", int(0)), size.clone()]
        )]),
        [(FindingKind::NoPeer, 1)]
    );
    assert_eq!(
        faults(&[comm(NodeType::CommRecvNode, &[("comm_dst", int(0)), size])]),
        [(FindingKind::NoPeer, 1)]
    );
    assert_eq!(
        faults(&[comm(
            NodeType::CommRecvNode,
            &[("comm_src", int(0)), ("comm_size", int(0))]
        )]),
        [(FindingKind::ZeroCommSize, 1)]
    );
}

#[test]
fn faults_of_the_file() {
    assert_eq!(found(b""), [(FindingKind::EmptyFile, 1)]);
    assert_eq!(found(&file(&[])), [(FindingKind::NoNodes, 1)]);
    let bare = comp(1, &[]).encode_length_delimited_to_vec();
    assert_eq!(found(&bare), [(FindingKind::NoMetadata, 1)]);
    let zero = comp(0, &[]).encode_length_delimited_to_vec();
    assert_eq!(
        found(&zero),
        [(FindingKind::NoMetadata, 1)],
        "a node of id 0 begins like metadata"
    );
    let mut cut = file(&[comp(1, &[]), comp(2, &[])]);
    cut.pop();
    assert_eq!(found(&cut), [(FindingKind::Truncated, 1)]);
    let mut noise = file(&[comp(1, &[])]);
    noise.extend([3, 0x0B, 0xFF, 0xFF]);
    assert_eq!(found(&noise), [(FindingKind::Undecodable, 1)]);
}

#[test]
fn strings_that_are_not_utf8_are_found_anywhere() {
    let inputs = Some(crate::proto::IoInfo {
        values: "QQQ".to_owned(),
        ..Default::default()
    });
    let text = Value::StringVal("QQQ".to_owned());
    for bad in [
        Node {
            name: "QQQ".to_owned(),
            ..comp(1, &[])
        },
        Node {
            inputs,
            ..comp(1, &[])
        },
        Node {
            attr: vec![AttributeProto {
                name: "x".to_owned(),
                value: Some(text),
                ..Default::default()
            }],
            ..comp(1, &[])
        },
    ] {
        let mut bytes = file(&[bad]);
        let at = bytes
            .windows(3)
            .position(|three| three == b"QQQ")
            .expect("there");
        bytes[at + 1] = 0xFF;
        assert_eq!(found(&bytes), [(FindingKind::InvalidUtf8, 1)]);
        assert_eq!(
            read(bytes.as_slice()).expect("reads").len(),
            1,
            "the node is kept"
        );
    }
}

#[test]
fn ids_against_time_are_a_warning() {
    let at = |id, start_time_micros| Node {
        start_time_micros,
        ..comp(id, &[])
    };
    let graph = read(file(&[at(3, 30), at(1, 40), at(2, 0)]).as_slice()).expect("reads");
    let findings = check(&graph);
    assert_eq!(
        (findings[0].kind, findings[0].severity),
        (
            FindingKind::IdsNotInTimeOrder,
            crate::finding::Severity::Warning
        )
    );
    assert_eq!(findings[0].examples[0].detail, "starts before node 1");
}

/// Node 1 has the lower id and the later start, but it waits for node 2: no reader can start it
/// first.
#[test]
fn ids_against_time_of_what_cannot_start_earlier_are_no_warning() {
    let at = |id, deps: &[u64], start_time_micros| Node {
        start_time_micros,
        duration_micros: 5,
        ..comp(id, deps)
    };
    let waits = file(&[at(1, &[2], 15), at(2, &[], 10), at(3, &[], 20)]);
    assert_eq!(found(&waits), []);
    // Once node 1 has ended, both are ready, and the lower id goes first although it began later.
    let both_ready = file(&[at(1, &[], 10), at(2, &[1], 30), at(3, &[], 20)]);
    assert_eq!(found(&both_ready), [(FindingKind::IdsNotInTimeOrder, 1)]);
}

fn etplus(nodes: &str) -> Vec<(FindingKind, u64)> {
    let head = concat!(
        r#"{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "time": "", "start_ts": 0, "#,
        r#""linked_by": "x", "nodes": ["#,
    );
    found(format!("{head}{nodes}], \"finish_ts\": 1}}").as_bytes())
}

fn op(id: u64, name: &str, parent: u64, without: &str) -> String {
    let names = [
        "rf_id",
        "fw_parent",
        "seq_id",
        "scope",
        "tid",
        "fw_tid",
        "op_schema",
    ];
    let attrs: Vec<String> = names
        .iter()
        .filter(|name| **name != without)
        .map(|name| format!("{{\"name\": \"{name}\", \"value\": 0}}"))
        .collect();
    format!(
        "{{\"id\": {id}, \"name\": \"{name}\", \"ctrl_deps\": {parent}, \"inputs\": {{}}, \
            \"outputs\": {{}}, \"attrs\": [{}]}}",
        attrs.join(",")
    )
}

#[test]
fn faults_of_an_op_tree() {
    let root = op(1, "[pytorch|profiler|execution_trace|process]", 1, "");
    let tree = |more: &[String]| etplus(&[std::slice::from_ref(&root), more].concat().join(",\n"));
    assert_eq!(tree(&[op(2, "a", 1, "")]), []);
    assert_eq!(
        tree(&[op(2, "a", 1, ""), op(2, "b", 1, "")]),
        [(FindingKind::DuplicateId, 1)]
    );
    assert_eq!(
        tree(&[op(2, "a", 7, "")]),
        [(FindingKind::MissingParent, 1)]
    );
    assert_eq!(tree(&[op(2, "a", 2, "")]), [(FindingKind::SelfDep, 1)]);
    assert_eq!(
        tree(&[op(2, "a", 3, ""), op(3, "b", 2, "")]),
        [(FindingKind::Cycle, 2)]
    );
    assert_eq!(
        tree(&[op(2, "a", 1, "fw_tid")]),
        [(FindingKind::MissingAttr, 1)]
    );
    assert_eq!(
        tree(&[op(2, "a", 1, "").replace("\"outputs\": {}, ", "")]),
        [(FindingKind::MissingKey, 1)]
    );
    assert_eq!(etplus(""), [(FindingKind::NoNodes, 1)]);
}

#[test]
fn many_nodes_in_a_chain_need_no_stack() {
    let mut graph = ChakraGraph {
        format: FileKind::ChakraEt,
        ..ChakraGraph::default()
    };
    let count = 200_000;
    for id in 0..count {
        let node = crate::read::GraphNode {
            id,
            node_type: NodeType::CompNode,
            ..Default::default()
        };
        let dep = if id == 0 { count - 1 } else { id - 1 };
        graph.push(&node, &[], &[dep]);
    }
    let findings = check(&graph);
    assert_eq!(findings.len(), 1);
    assert_eq!(
        (findings[0].kind, findings[0].count),
        (FindingKind::Cycle, count)
    );
}
