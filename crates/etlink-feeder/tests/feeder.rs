//! Feeds graphs to their end, and checks invalid files.
#![allow(clippy::expect_used, reason = "tests")]

mod graphs;

use etlink_feeder::{Feeder, FeederError, IssueOrder};
use graphs::{DIAMOND, Drawn, draw_graph, file, issue_all};
use std::collections::BTreeSet;
use std::io::Cursor;

fn open(bytes: &[u8]) -> Result<Feeder<Cursor<&[u8]>>, FeederError> {
    Feeder::new(Cursor::new(bytes), IssueOrder::Stock)
}

fn refused(bytes: &[u8]) -> String {
    open(bytes).expect_err("it is no graph").to_string()
}

#[test]
fn nodes_are_issued_when_all_that_they_wait_for_has_ended() {
    let bytes = file(&DIAMOND);
    let mut feeder = open(&bytes).expect("a graph");
    assert_eq!((feeder.nodes(), feeder.ready()), (4, 1));
    assert_eq!(feeder.first_ready().expect("no scratch"), Some(0));
    assert_eq!(feeder.issue_next().expect("no scratch"), Some(0));
    assert_eq!(feeder.issue_next().expect("no scratch"), None);
    feeder.end(0).expect("it was issued");
    assert_eq!((feeder.ready(), feeder.issued(), feeder.ended()), (2, 0, 1));
    feeder.issue(1).expect("it waits for 0 alone");
    feeder.push_back(1).expect("it was issued");
    feeder.issue(1).expect("it was taken back");
    feeder.end(1).expect("it was issued");
    assert_eq!(feeder.issue_next().expect("no scratch"), Some(2));
    assert_eq!(feeder.ready(), 0);
    feeder.end(2).expect("it was issued");
    assert_eq!(issue_all(&mut feeder, 1), [3]);
    assert_eq!((feeder.ready(), feeder.issued(), feeder.ended()), (0, 0, 4));
}

#[test]
fn a_node_is_read_when_it_is_asked_for() {
    let bytes = file(&DIAMOND);
    let mut feeder = open(&bytes).expect("a graph");
    for id in [3, 0, 3, 2] {
        let node = feeder.node(id).expect("it is there");
        assert_eq!((node.id, node.duration_micros), (id, id * 3));
        assert_eq!(node.name, format!("node {id}"));
    }
    let error = feeder.node(7).expect_err("there is none");
    assert_eq!(error.to_string(), "node 7 does not exist");
}

#[test]
fn what_cannot_be_is_refused() {
    let bytes = file(&DIAMOND);
    let mut feeder = open(&bytes).expect("a graph");
    let said = |result: Result<(), FeederError>| result.expect_err("it cannot be").to_string();
    assert_eq!(
        said(feeder.issue(1)),
        "node 1 cannot be issued: it waits for other nodes, was already issued, or has ended"
    );
    assert_eq!(said(feeder.issue(9)), "node 9 does not exist");
    let not_issued = "node 0 was not issued, or has already ended";
    assert_eq!(said(feeder.end(0)), not_issued);
    feeder.issue(0).expect("it waits for none");
    feeder.end(0).expect("it was issued");
    assert_eq!(said(feeder.end(0)), not_issued);
    assert_eq!(said(feeder.push_back(0)), not_issued);
}

#[test]
fn files_that_are_no_graphs_are_named() {
    assert_eq!(refused(&[]), "the graph has no nodes");
    assert_eq!(refused(&file(&[])), "the graph has no nodes");
    assert_eq!(
        refused(&file(&[(0, &[], &[]), (0, &[], &[])])),
        "two nodes have the id 0"
    );
    assert_eq!(
        refused(&file(&[(0, &[], &[]), (5, &[3], &[])])),
        "node 5 depends on node 3, which is missing from the file"
    );
    assert_eq!(
        refused(&file(&[(1, &[2], &[]), (2, &[1], &[])])),
        "2 nodes can never be issued, because they wait for each other (one is node 1)"
    );
    assert_eq!(
        refused(&file(&[
            (0, &[], &[]),
            (1, &[2], &[]),
            (2, &[1], &[]),
            (3, &[2], &[])
        ])),
        "3 nodes can never be issued, because they wait for each other (one is node 1)"
    );
    let mut zeros = file(&[]);
    zeros.extend([0; 64]);
    assert_eq!(refused(&zeros), "two nodes have the id 0");
    assert_eq!(
        refused(b"\x28\xb5\x2f\xfd rest"),
        "the file is compressed with zstd; decompress it: `zstd -d FILE`"
    );
    assert_eq!(
        refused(b"\x1f\x8b\x08 rest"),
        "the file is compressed with gzip; decompress it: `gzip -d FILE`"
    );
    let text = br#"{"schema": "1.1.1", "nodes": []}"#;
    assert!(open(text).is_err());
}

#[test]
fn a_cut_file_is_refused_wherever_it_is_cut() {
    let bytes = file(&DIAMOND);
    for length in 0..bytes.len() {
        assert!(
            open(&bytes[..length]).is_err(),
            "{length} of {}",
            bytes.len()
        );
    }
    assert!(open(&bytes).is_ok());
    let count = file(&DIAMOND);
    let last = count.len() - file(&DIAMOND[..3]).len();
    let shorter = refused(&count[..count.len() - last]);
    assert_eq!(
        shorter,
        "the file states 4 nodes but has 3: it is truncated or was changed"
    );
}

/// Each id is a multiple of the bucket counts, so all ids share a bucket.
#[test]
fn ids_of_one_bucket_take_no_longer() {
    let ids = Vec::from_iter((1..40_000).map(|id| id * 13 * 29 * 59 * 127 * 257 * 541 * 1_109));
    let nodes: Vec<Drawn<'_>> = ids.iter().map(|id| (*id, &[][..], &[][..])).collect();
    let bytes = file(&nodes);
    let mut feeder = open(&bytes).expect("a graph");
    // a linear search through the bucket would take a minute
    assert_eq!(issue_all(&mut feeder, 7).len(), ids.len());
}

/// The end of such a message exceeds 64 bits.
#[test]
fn a_message_longer_than_all_files_is_cut() {
    let mut bytes = file(&DIAMOND);
    let offset = bytes.len();
    bytes.extend([0xff; 9]);
    bytes.extend([0x01, 0x00]);
    let stated = u64::MAX;
    let said =
        format!("the file is truncated inside the message at byte {offset} with {stated} bytes");
    assert_eq!(refused(&bytes), said);
}

#[test]
fn damaged_files_are_an_error_or_a_graph() {
    let bytes = file(&DIAMOND);
    let mut draw = fastrand::Rng::with_seed(11);
    for _ in 0..20_000 {
        let mut damaged = bytes.clone();
        for _ in 0..draw.usize(1..4) {
            let place = draw.usize(0..damaged.len());
            damaged[place] = draw.u8(..);
        }
        if let Ok(mut feeder) = open(&damaged) {
            let issued = issue_all(&mut feeder, 3);
            assert!(issued.len() <= feeder.nodes());
            for id in issued {
                // protobuf may reject the node, since names must be UTF-8
                let _ = feeder.node(id);
            }
        }
    }
}

/// Random graphs with gaps in their ids and in any order: each node is issued once, after all of
/// its dependencies.
#[test]
fn all_nodes_are_issued_once_in_an_order_that_their_dependencies_allow() {
    let mut draw = fastrand::Rng::with_seed(5);
    for _ in 0..300 {
        let graph = draw_graph(&mut draw, 60);
        let nodes: Vec<Drawn<'_>> = graph
            .iter()
            .map(|node| (node.0, &node.1[..], &node.2[..]))
            .collect();
        let bytes = file(&nodes);
        for order in [IssueOrder::Stock, IssueOrder::ById] {
            let mut feeder = Feeder::new(Cursor::new(&bytes[..]), order).expect("a graph");
            let issued = issue_all(&mut feeder, 1);
            let mut seen = BTreeSet::new();
            for id in &issued {
                let (_, data, ctrl) = nodes.iter().find(|node| node.0 == *id).expect("a node");
                assert!(data.iter().chain(*ctrl).all(|dep| seen.contains(dep)));
                assert!(seen.insert(*id), "{id} was issued twice");
            }
            assert_eq!(issued.len(), nodes.len());
        }
    }
}

#[test]
fn by_id_the_lowest_comes_first() {
    let bytes = file(&[(9, &[], &[]), (2, &[], &[]), (5, &[], &[]), (1, &[9], &[])]);
    let mut feeder = Feeder::new(Cursor::new(&bytes[..]), IssueOrder::ById).expect("a graph");
    assert_eq!(issue_all(&mut feeder, 1), [2, 5, 9, 1]);
}
