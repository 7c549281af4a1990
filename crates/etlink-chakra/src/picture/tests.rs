//! Tests pictures of written graphs.

use super::*;
use crate::WriteOptions;
use crate::et::write_et;
use crate::etplus::write_etplus;
use crate::read::read;
use crate::tests::sample;

fn written_graph() -> ChakraGraph {
    let mut bytes = vec![];
    write_et(&sample(true), &WriteOptions::default(), &mut bytes).expect("writes");
    read(bytes.as_slice()).expect("reads")
}

fn picture<'f>(file: &'f ChakraGraph, choice: &NodeChoice) -> Picture<'f> {
    Picture::new(file, choice).expect("nodes are chosen")
}

#[test]
fn a_graph_is_drawn() {
    let file = written_graph();
    let whole = to_dot(&picture(&file, &NodeChoice::default()));
    assert!(whole.starts_with("digraph {"), "{whole}");
    assert!(
        whole.contains(r#"shape = ellipse, label = "1 train \"x\"\n1.5 us""#),
        "{whole}"
    );
    assert!(whole.contains("shape = box") && whole.contains("shape = hexagon"));
    assert_eq!(whole.matches("style = dashed").count(), 6);
    assert_eq!(whole.matches("style = solid").count(), 4);
}

#[test]
fn what_is_not_chosen_is_counted() {
    let file = written_graph();
    let choice = NodeChoice {
        ids: Some(1..=2),
        ..NodeChoice::default()
    };
    let part = picture(&file, &choice);
    assert_eq!(part.size(), (2, 1));
    let losses = part.losses();
    assert_eq!(losses.count(LossKind::NodeNotChosen), file.len() as u64 - 2);
    // Node 0 before them, the call and the kernel after them.
    assert!(losses.count(LossKind::DepNotChosen) >= 2);
}

#[test]
fn depth_counts_deps_and_levels() {
    let file = written_graph();
    let near = NodeChoice {
        ids: Some(2..=2),
        depth: Some(1),
        ..NodeChoice::default()
    };
    let near = picture(&file, &near);
    let ids: Vec<u64> = near
        .graph
        .node_weights()
        .map(|node| file.id[*node])
        .collect();
    assert!(
        ids.contains(&1) && ids.contains(&2) && ids.contains(&3),
        "{ids:?}"
    );
    assert!(!ids.contains(&0), "{ids:?}");

    let mut bytes = vec![];
    write_etplus(&sample(true), &mut bytes).expect("writes");
    let tree = read(bytes.as_slice()).expect("reads");
    let levels = |depth| {
        let choice = NodeChoice {
            depth: Some(depth),
            ..NodeChoice::default()
        };
        picture(&tree, &choice).size()
    };
    let (process, threads) = (levels(0), levels(1));
    assert_eq!(process, (1, 0));
    assert!(threads.0 > 1 && threads.1 == threads.0 - 1, "{threads:?}");
}

#[test]
fn a_step_that_is_not_there_is_named() {
    let file = written_graph();
    let choice = NodeChoice {
        step: Some(7),
        ..NodeChoice::default()
    };
    let error = Picture::new(&file, &choice).expect_err("no such step");
    assert!(error.to_string().contains("ProfilerStep#7"), "{error}");
    let choice = NodeChoice {
        ids: Some(900..=901),
        ..NodeChoice::default()
    };
    assert!(Picture::new(&file, &choice).is_err(), "no such nodes");
}

#[test]
fn graphml_escapes_names_and_keeps_edges_apart() {
    let mut file = written_graph();
    let name = file.names.intern("a<b> & \u{1}c");
    file.name[0] = name;
    let text = to_graphml(&picture(&file, &NodeChoice::default()));
    assert!(
        text.contains("<data key=\"name\">a&lt;b&gt; &amp; \u{FFFD}c</data>"),
        "{text}"
    );
    assert_eq!(text.matches("<node id=").count(), file.len());
    assert_eq!(text.matches("<data key=\"dep\">ctrl").count(), 6);
    assert_eq!(text.matches("<data key=\"dep\">data").count(), 4);
}
