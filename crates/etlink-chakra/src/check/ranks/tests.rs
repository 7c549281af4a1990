//! Tests faults between ranks, which are given as lists of nodes.

use super::*;
use crate::proto::attribute_proto::Value;
use crate::proto::{AttributeProto, GlobalMetadata, Node};
use prost::Message as _;

fn node(
    id: u64,
    deps: &[u64],
    node_type: NodeType,
    attrs: &[(&str, i64)],
    group: Option<&str>,
) -> Node {
    let attr = |name: &str, value| AttributeProto {
        name: name.into(),
        value: Some(value),
        ..AttributeProto::default()
    };
    let mut all: Vec<AttributeProto> = attrs
        .iter()
        .map(|(name, value)| attr(name, Value::Int64Val(*value)))
        .collect();
    all.extend(group.map(|group| attr("pg_name", Value::StringVal(group.into()))));
    Node {
        id,
        name: format!("n{id}"),
        r#type: node_type.into(),
        data_deps: deps.to_vec(),
        attr: all,
        ..Node::default()
    }
}

fn comp(id: u64, deps: &[u64]) -> Node {
    node(id, deps, NodeType::CompNode, &[], None)
}

fn reduce(id: u64, deps: &[u64], group: &str, bytes: i64) -> Node {
    node(
        id,
        deps,
        NodeType::CommCollNode,
        &[("comm_type", 0), ("comm_size", bytes)],
        Some(group),
    )
}

fn send(id: u64, deps: &[u64], to: i64) -> Node {
    node(
        id,
        deps,
        NodeType::CommSendNode,
        &[("comm_dst", to), ("comm_size", 8)],
        None,
    )
}

fn recv(id: u64, deps: &[u64], from: i64) -> Node {
    node(
        id,
        deps,
        NodeType::CommRecvNode,
        &[("comm_src", from), ("comm_size", 8)],
        None,
    )
}

fn check(ranks: &[Vec<Node>]) -> Vec<Finding> {
    let read = |(rank, nodes): (i64, &Vec<Node>)| {
        let mut bytes = GlobalMetadata {
            version: "0.0.4".into(),
            ..GlobalMetadata::default()
        }
        .encode_length_delimited_to_vec();
        nodes
            .iter()
            .for_each(|node| bytes.extend(node.encode_length_delimited_to_vec()));
        RankNodes::from_graph(rank, &crate::read::read(&bytes[..]).expect("reads"))
    };
    let ranks: Vec<RankNodes> = (0..).zip(ranks).map(read).collect();
    let groups = [
        ("1".to_owned(), vec![0, 1]),
        ("2".to_owned(), vec![0, 1, 2]),
        ("3".to_owned(), vec![1, 2]),
    ]
    .into();
    check_ranks(&ranks, Some(&groups))
}

fn told(ranks: &[Vec<Node>]) -> Vec<(FindingKind, u64, String)> {
    check(ranks)
        .into_iter()
        .map(|finding| {
            (
                finding.kind,
                finding.count,
                finding.examples[0].detail.clone(),
            )
        })
        .collect()
}

fn kinds(ranks: &[Vec<Node>]) -> Vec<FindingKind> {
    check(ranks)
        .into_iter()
        .map(|finding| finding.kind)
        .collect()
}

#[test]
fn ranks_that_agree_have_no_findings() {
    let rank = || {
        vec![
            comp(0, &[]),
            reduce(1, &[0], "1", 64),
            comp(2, &[1]),
            reduce(3, &[2], "", 8),
        ]
    };
    assert_eq!(kinds(&[rank(), rank()]), []);
    assert_eq!(
        kinds(&[
            vec![send(0, &[], 1), recv(1, &[0], 1)],
            vec![send(0, &[], 0), recv(1, &[0], 0)]
        ]),
        []
    );
}

#[test]
fn a_collective_that_one_rank_lacks_is_named_and_stuck() {
    let found = told(&[
        vec![
            reduce(1, &[], "1", 64),
            reduce(4, &[1], "1", 8),
            comp(5, &[4]),
        ],
        vec![reduce(1, &[], "1", 64)],
    ]);
    let lacking = "rank 0: collective 1 of its group, missing on rank 1".to_owned();
    let stuck = "rank 0: waits here for ranks that lack it; 2 of 3 nodes never run".to_owned();
    assert_eq!(
        found,
        [
            (FindingKind::CollectiveMissing, 1, lacking),
            (FindingKind::Stuck, 1, stuck)
        ]
    );
}

#[test]
fn types_and_sizes_are_compared() {
    let found = told(&[
        vec![reduce(1, &[], "1", 320)],
        vec![reduce(7, &[], "1", 704)],
    ]);
    assert_eq!(
        found,
        [(
            FindingKind::CollectiveSizeDiffers,
            1,
            "rank 1: 704 bytes, but on rank 0 320 bytes (node 1)".to_owned()
        )]
    );
    let gather = node(
        1,
        &[],
        NodeType::CommCollNode,
        &[("comm_type", 2), ("comm_size", 320)],
        Some("1"),
    );
    assert_eq!(
        kinds(&[vec![reduce(1, &[], "1", 320)], vec![gather]]),
        [FindingKind::CollectiveTypeDiffers]
    );
}

#[test]
fn groups_are_listed_and_have_the_rank_and_files() {
    assert_eq!(
        kinds(&[vec![reduce(1, &[], "9", 8)], vec![reduce(1, &[], "9", 8)]]),
        [FindingKind::GroupNotListed]
    );
    assert_eq!(
        kinds(&[vec![reduce(1, &[], "3", 8)], vec![reduce(1, &[], "3", 8)]]),
        [FindingKind::RankMissing, FindingKind::NotInGroup]
    );
    let found = told(&[vec![reduce(1, &[], "2", 8)], vec![reduce(1, &[], "2", 8)]]);
    assert_eq!(
        found,
        [(
            FindingKind::RankMissing,
            1,
            "rank 0: rank 2 has no file".to_owned()
        )]
    );
}

#[test]
fn messages_have_two_sides() {
    assert_eq!(
        kinds(&[
            vec![send(0, &[], 1), send(1, &[], 1)],
            vec![recv(0, &[], 0)]
        ]),
        [FindingKind::SendWithoutRecv]
    );
    let found = kinds(&[vec![comp(0, &[])], vec![recv(0, &[], 0)]]);
    assert_eq!(found, [FindingKind::RecvWithoutSend, FindingKind::Stuck]);
}

#[test]
fn ranks_that_wait_for_each_other_are_named() {
    let found = told(&[
        vec![recv(3, &[], 1), send(4, &[3], 1)],
        vec![
            comp(0, &[]),
            recv(5, &[0], 0),
            send(6, &[5], 0),
            comp(7, &[6]),
        ],
    ]);
    assert_eq!(
        found[0],
        (
            FindingKind::Stuck,
            2,
            "rank 0: waits here for rank 1; 2 of 2 nodes never run".to_owned()
        )
    );
    assert_eq!(found[1].0, FindingKind::OrderDiffers);
}

#[test]
fn opposite_orders_are_stuck_where_deps_say_so_and_else_a_warning() {
    let chained = vec![
        vec![reduce(1, &[], "1", 8), reduce(2, &[1], "2", 8)],
        vec![reduce(1, &[], "2", 8), reduce(2, &[1], "1", 8)],
        vec![reduce(1, &[], "2", 8)],
    ];
    assert_eq!(
        kinds(&chained),
        [FindingKind::Stuck, FindingKind::OrderDiffers]
    );
    let free = vec![
        vec![reduce(1, &[], "1", 8), reduce(2, &[], "2", 8)],
        vec![reduce(1, &[], "2", 8), reduce(2, &[], "1", 8)],
        vec![reduce(1, &[], "2", 8)],
    ];
    assert_eq!(kinds(&free), [FindingKind::OrderDiffers]);
}
