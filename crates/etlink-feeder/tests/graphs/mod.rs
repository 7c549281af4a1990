//! Generates graphs for tests, and feeds them.
#![allow(dead_code, reason = "each test takes what it needs")]

use etlink_chakra::messages::{ChakraMessage, write_et};
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::proto::{AttributeProto, GlobalMetadata, Node};
use etlink_feeder::Feeder;
use std::collections::VecDeque;
use std::io::{Read, Seek};

/// A node: its id, and its data and control dependencies.
pub(crate) type Drawn<'a> = (u64, &'a [u64], &'a [u64]);

pub(crate) fn file(nodes: &[Drawn<'_>]) -> Vec<u8> {
    let count = AttributeProto {
        name: "node_count".to_owned(),
        value: Some(Value::Uint64Val(nodes.len() as u64)),
        ..AttributeProto::default()
    };
    let metadata = GlobalMetadata {
        version: "0.0.4".to_owned(),
        attr: vec![count],
    };
    let mut bytes = vec![];
    write_et(&ChakraMessage::Metadata(metadata), &mut bytes).expect("memory takes it");
    for (id, data, ctrl) in nodes {
        let node = Node {
            id: *id,
            name: format!("node {id}"),
            duration_micros: id.wrapping_mul(3),
            data_deps: data.to_vec(),
            ctrl_deps: ctrl.to_vec(),
            ..Node::default()
        };
        write_et(&ChakraMessage::Node(Box::new(node)), &mut bytes).expect("memory takes it");
    }
    bytes
}

/// A generated node, with owned dependencies.
pub(crate) type DrawnNode = (u64, Vec<u64>, Vec<u64>);

/// Generates an acyclic graph of up to `most` nodes: ids with gaps and in any order, dependencies
/// of both kinds, some listed twice, and nodes before their dependencies.
pub(crate) fn draw_graph(draw: &mut fastrand::Rng, most: usize) -> Vec<DrawnNode> {
    let count = draw.usize(1..most);
    let gap = draw.u64(1..9);
    let mut ids: Vec<u64> = (0..count as u64).map(|id| id * gap + 3).collect();
    if draw.bool() {
        draw.shuffle(&mut ids);
    }
    let mut nodes: Vec<DrawnNode> = (0..count)
        .map(|place| {
            let mut some = |most: usize| -> Vec<u64> {
                let most = most.min(place);
                (0..most).map(|_| ids[draw.usize(0..place)]).collect()
            };
            (ids[place], some(3), some(2))
        })
        .collect();
    // a node may precede its dependencies in a file
    if draw.bool() {
        draw.shuffle(&mut nodes);
    }
    nodes
}

/// Encodes the file of a graph.
pub(crate) fn drawn_file(nodes: &[DrawnNode]) -> Vec<u8> {
    let nodes: Vec<Drawn<'_>> = nodes
        .iter()
        .map(|(id, data, ctrl)| (*id, &data[..], &ctrl[..]))
        .collect();
    file(&nodes)
}

/// Returns ids in issue order; up to `limit` nodes are in flight, and end in issue order.
pub(crate) fn issue_all<R: Read + Seek>(feeder: &mut Feeder<R>, limit: usize) -> Vec<u64> {
    let (mut issued, mut under_way) = (vec![], VecDeque::new());
    loop {
        while under_way.len() < limit
            && let Some(id) = feeder.issue_next().expect("no scratch")
        {
            under_way.push_back(id);
            issued.push(id);
        }
        let Some(id) = under_way.pop_front() else {
            return issued;
        };
        feeder.end(id).expect("it was issued");
    }
}

/// A diamond: 1 and 2 wait for 0, and 3 for both; 3 lists 1 twice.
pub(crate) const DIAMOND: [Drawn<'_>; 4] = [
    (0, &[], &[]),
    (1, &[0], &[]),
    (2, &[], &[0]),
    (3, &[1, 2], &[1]),
];
