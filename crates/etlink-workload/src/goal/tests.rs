//! Tests of graphs written as GOAL.

use super::*;
use crate::{Message, WorkloadBuilder};
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::proto::{AttributeProto, CollectiveCommType, Int64List};
use etlink_chakra::read::read;

fn goal(graphs: Vec<WorkloadBuilder>, groups: GroupList) -> (String, Losses) {
    let files: Vec<ChakraGraph> = graphs
        .into_iter()
        .map(|graph| read(graph.finish(&[]).to_et().as_slice()).expect("reads"))
        .collect();
    let run = GoalRun {
        ranks: (0..).zip(&files).collect(),
        groups,
        algorithm: CollectiveAlgorithm::Ring,
    };
    let mut out = vec![];
    let losses = write_goal(&run, &mut out).expect("writes");
    (String::from_utf8(out).expect("is text"), losses)
}

#[test]
fn messages_and_calculations_keep_their_order() {
    let message = Message {
        source: 0,
        destination: 1,
        tag: 3,
        bytes: 64,
    };
    let mut sender = WorkloadBuilder::default();
    let work = sender.add_computation("work", 7, &[]);
    sender.add_send("give", message, &[work]);
    let mut receiver = WorkloadBuilder::default();
    receiver.add_receive("take", message, &[]);
    let (text, losses) = goal(vec![sender, receiver], GroupList::new());
    assert!(losses.is_empty(), "{losses:?}");
    assert_eq!(
        text,
        "num_ranks 2\n\nrank 0 {\nn0: calc 7000 cpu 0\nn1: send 64b to 1 tag 3 cpu 0\n\
        n1 requires n0\n}\n\nrank 1 {\nn0: recv 64b from 0 tag 3 cpu 0\n}\n"
    );
}

/// The schedule terminates, because no line requires a later node on the same cycle.
#[test]
fn nodes_that_wait_for_each_other_do_not_stop_the_schedule() {
    let mut graph = WorkloadBuilder::default();
    let first = graph.add_computation("first", 1, &[]);
    let second = graph.add_computation("second", 1, &[first]);
    graph.add_computation("third", 1, &[second]);
    let mut file = graph.finish(&[]);
    file.nodes[0].data_deps.push(1);
    file.nodes[2].ctrl_deps.push(2);
    let graph = read(file.to_et().as_slice()).expect("reads");
    let run = GoalRun {
        ranks: BTreeMap::from([(0, &graph)]),
        groups: GroupList::new(),
        algorithm: CollectiveAlgorithm::Ring,
    };
    let mut out = vec![];
    let losses = write_goal(&run, &mut out).expect("writes");
    let text = String::from_utf8(out).expect("is text");
    let needs: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("requires"))
        .collect();
    assert_eq!(needs, ["n1 requires n0", "n2 requires n1"]);
    assert_eq!(losses.count(LossKind::CyclicDep), 2);
}

#[test]
fn collectives_of_two_groups_have_tags_of_their_own() {
    let graph = || {
        let mut graph = WorkloadBuilder::default();
        let kind = CollectiveCommType::AllReduce;
        let first = graph.add_collective("a", kind, 8, None, &[]);
        graph.add_collective("b", kind, 8, Some(1), &[first]);
        graph
    };
    let groups = GroupList::from([("1".to_owned(), vec![1, 2])]);
    let (text, losses) = goal(vec![graph(), graph(), graph()], groups);
    // rank 0 is not in the group
    assert_eq!(losses.count(LossKind::CollectiveAsCalc), 1);
    let tags = |tag: i64| text.matches(&format!("tag {tag} ")).count();
    // a ring of three has four sends and four receives per rank, a ring of two has two of each
    assert_eq!((tags(1 << 24), tags((1 << 24) + 1)), (3 * 2 * 4, 2 * 2 * 2));
    assert!(text.contains("n1e requires n0\n"), "{text}");
}

#[test]
fn what_goal_does_not_have_is_counted() {
    let mut graph = WorkloadBuilder::default();
    graph.add_collective("a", CollectiveCommType::AllReduce, 8, Some(7), &[]);
    let mut file = read(graph.finish(&[]).to_et().as_slice()).expect("reads");
    file.node_type.push(NodeType::MemLoadNode);
    file.node_type.swap_remove(0);
    let run = GoalRun {
        ranks: BTreeMap::from([(2, &file)]),
        groups: GroupList::new(),
        algorithm: CollectiveAlgorithm::Tree,
    };
    let mut out = vec![];
    let losses = write_goal(&run, &mut out).expect("writes");
    assert_eq!(losses.count(LossKind::MemoryAsCalc), 1);
    assert_eq!(losses.count(LossKind::AbsentRank), 2);
    let text = String::from_utf8(out).expect("is text");
    assert!(text.starts_with("num_ranks 3\n\nrank 0 {\n}\n"), "{text}");
}

#[test]
fn labels_come_before_who_requires_them() {
    let mut graph = WorkloadBuilder::default();
    let first = graph.add_computation("a", 1, &[]);
    graph.add_computation("b", 1, &[first]);
    let mut file = graph.finish(&[]);
    // the first node waits for the second
    file.nodes[0].data_deps.push(1);
    file.nodes[1].data_deps.clear();
    let file = read(file.to_et().as_slice()).expect("reads");
    let run = GoalRun {
        ranks: BTreeMap::from([(0, &file)]),
        groups: GroupList::new(),
        algorithm: CollectiveAlgorithm::Ring,
    };
    let mut out = vec![];
    write_goal(&run, &mut out).expect("writes");
    let text = String::from_utf8(out).expect("is text");
    assert!(
        text.ends_with("n1: calc 1000 cpu 0\nn0 requires n1\n}\n"),
        "{text}"
    );
}

#[test]
fn what_is_for_ranks_without_a_file_is_counted() {
    let message = Message {
        source: 0,
        destination: 1,
        tag: 0,
        bytes: 64,
    };
    let mut sender = WorkloadBuilder::default();
    let first = sender.add_send("give", message, &[]);
    let kind = CollectiveCommType::AllReduce;
    sender.add_collective("sum", kind, 8, Some(1), &[first]);
    let groups = GroupList::from([("1".to_owned(), vec![0, 1])]);
    let (text, losses) = goal(vec![sender], groups);
    assert_eq!(losses.count(LossKind::AbsentPeer), 1);
    assert_eq!(losses.count(LossKind::PartialGroup), 1);
    assert!(!text.contains("send") && !text.contains("recv"), "{text}");
    // the collective is one calculation, and the absent rank is idle
    assert_eq!(text.matches("calc").count(), 2, "{text}");
    assert!(text.starts_with("num_ranks 2\n"), "{text}");
    assert!(text.ends_with("\nrank 1 {\n}\n"), "{text}");
}

#[test]
fn all_ranks_of_the_run_without_a_file_are_counted() {
    let mut graph = WorkloadBuilder::default();
    graph.add_computation("work", 7, &[]);
    let mut file = read(graph.finish(&[]).to_et().as_slice()).expect("reads");
    let mut absent = |world_size: &str, groups: GroupList| {
        file.metadata = vec![("world_size".to_owned(), world_size.to_owned())];
        let run = GoalRun {
            ranks: BTreeMap::from([(1, &file)]),
            groups,
            algorithm: CollectiveAlgorithm::Ring,
        };
        let losses = write_goal(&run, &mut vec![]).expect("writes");
        losses.count(LossKind::AbsentRank)
    };
    assert_eq!(absent("4", GroupList::new()), 3);
    let groups = GroupList::from([("1".to_owned(), vec![0, 7])]);
    assert_eq!(absent("4", groups), 7);
    // a damaged number does not cause a count up to it
    assert_eq!(
        absent("9223372036854775807", GroupList::new()),
        (1 << 63) - 2
    );
}

/// CPU time is not measured: a loop over all pairs would take minutes.
#[test]
fn a_node_of_many_dependencies_takes_no_square_of_their_number() {
    let mut graph = WorkloadBuilder::default();
    let mut deps = vec![];
    for _ in 0..200_000 {
        deps.push(graph.add_computation("work", 1, &[]));
    }
    graph.add_computation("all", 1, &deps);
    let mut messages = graph.finish(&[]);
    let last = messages.nodes.last_mut().expect("a node");
    // in both lists, and twice in one of them
    last.ctrl_deps = last.data_deps.clone();
    last.ctrl_deps.push(0);
    let file = read(messages.to_et().as_slice()).expect("reads");
    let run = GoalRun {
        ranks: BTreeMap::from([(0, &file)]),
        groups: GroupList::new(),
        algorithm: CollectiveAlgorithm::Ring,
    };
    let mut out = vec![];
    write_goal(&run, &mut out).expect("writes");
    let text = String::from_utf8(out).expect("is text");
    assert_eq!(text.matches("n200000 requires ").count(), 200_000);
}

/// Rank 0 sends 3 bytes to rank 1, which sends none back.
#[test]
fn an_uneven_all_to_all_has_messages_of_its_pairs() {
    let rank = |lists: [Vec<i64>; 2]| {
        let mut graph = WorkloadBuilder::default();
        graph.add_collective("a", CollectiveCommType::AllToAll, 6, None, &[]);
        let mut file = graph.finish(&[]);
        for (name, values) in ["sent_bytes", "received_bytes"].into_iter().zip(lists) {
            let list = Value::Int64List(Int64List { values });
            file.nodes[0].attr.push(AttributeProto::new(name, list));
        }
        read(file.to_et().as_slice()).expect("reads")
    };
    let files = [
        rank([vec![9, 3], vec![9, 0]]),
        rank([vec![0, 7], vec![3, 7]]),
    ];
    let run = GoalRun {
        ranks: (0..).zip(&files).collect(),
        groups: GroupList::new(),
        algorithm: CollectiveAlgorithm::Ring,
    };
    let mut out = vec![];
    write_goal(&run, &mut out).expect("writes");
    let text = String::from_utf8(out).expect("is text");
    let messages: Vec<&str> = text.lines().filter(|line| line.contains(" tag ")).collect();
    let tag = MESSAGE_TAGS;
    assert_eq!(
        messages,
        [
            format!("n0s0x0: send 3b to 1 tag {tag} cpu 0"),
            format!("n0s0x0: recv 3b from 0 tag {tag} cpu 0")
        ]
    );
}
