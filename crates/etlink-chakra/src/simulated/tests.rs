use super::comms::{length, union};
use super::*;
use crate::convert::GroupRanks;
use crate::proto::NodeType;
use crate::read::ChakraGraph;
use crate::read::graph::{CommAttrs, GraphNode};
use std::collections::BTreeMap;

const STAMP: &str = "[2026-11-23 18:55:38.498]";

fn node(word: &str, rank: i64, tick: i64, id: u64, name: &str) -> String {
    format!(
        "{STAMP} [workload] [debug] {word},sys->id={rank}, tick={tick}, node->id={id}, \
         node->name={name}, node->type=4\n"
    )
}

fn finished(rank: i64, tick: i64) -> String {
    format!(
        "{STAMP} [workload] [info] sys[{rank}] finished, {tick} cycles, exposed communication 5 \
         cycles.\n"
    )
}

fn read(text: &str) -> AstraLog {
    let mut reader = AstraLogReader::default();
    reader.read(text.as_bytes()).expect("memory does not fail");
    reader.finish()
}

#[test]
fn names_may_have_what_separates_fields() {
    let odd = "at::add, node->type=7, tick=3\nsecond line";
    let text = [node("issue", 1, 4, 2, odd), node("callback", 1, 9, 2, odd)].concat();
    let log = read(&text);
    let (id, found) = log.ranks[&1].nodes.first().expect("a node");
    assert_eq!((*id, found.start_ns, found.end_ns), (2, 4, Some(9)));
    // The name has a line break, so the rest is in another line of the log.
    assert_eq!(log.names.get(found.name), "at::add");
    let plain = read(&node("issue", 0, 0, 1, "a, node->type=7, b"));
    let name = plain.ranks[&0].nodes[&1].name;
    assert_eq!(plain.names.get(name), "a, node->type=7, b");
}

#[test]
fn times_that_no_simulation_has_are_damage() {
    for tick in [
        "9007199254740992",
        "9223372036854775808",
        "18446744073709551615",
    ] {
        let node = node("issue", 0, 0, 1, "a").replace("tick=0", &format!("tick={tick}"));
        let log =
            read(&(node + &finished(0, 0).replace(", 0 cycles", &format!(", {tick} cycles"))));
        assert_eq!((log.damaged, log.last_ns), (2, 0), "{tick}");
    }
}

#[test]
fn the_last_of_several_simulations_is_taken() {
    let one = |end: i64| {
        [
            node("issue", 0, 0, 1, "a"),
            node("callback", 0, end, 1, "a"),
            finished(0, end),
            format!("{STAMP} [system] [warning] Exiting\n"),
        ]
        .concat()
    };
    let log = read(&(one(7) + &one(9)));
    assert_eq!((log.runs, log.ranks[&0].finished_ns), (2, Some(9)));
    assert!(log.has_end);
    // The first run was killed before its end: time goes back.
    let killed = node("issue", 0, 0, 1, "a") + &node("callback", 0, 5, 1, "a");
    let log = read(&(killed + &one(9)));
    assert_eq!((log.runs, log.ranks[&0].finished_ns), (2, Some(9)));
    // Console output has no nodes.
    let log = read(&(finished(0, 5) + &finished(0, 5)));
    assert_eq!((log.runs, log.has_end), (2, false));
    assert_eq!(read("").runs, 0);
}

#[test]
fn statistics_and_messages_are_kept() {
    let text = format!(
        "{STAMP} [statistics] [info] sys[0], Wall time: 9\n\
         {STAMP} [statistics] [info] sys[0], Comm time: 3\n\
         {STAMP} [statistics] [info] sys[0], Average compute utilization: 3.200%\n\
         {STAMP} [workload] [critical] For rank 1 ET node 302, communicator group 1 not found\n\
         {STAMP} [system] [critical] warning! a callable is removed before call Only GPU and COMM \
         types are supported for overlap extraction\n"
    );
    let log = read(&text);
    let statistics = log.ranks[&0].statistics;
    assert_eq!(
        (statistics.wall_ns, statistics.communication_ns),
        (Some(9), Some(3))
    );
    assert!(log.statistics_dropped);
    assert_eq!(
        log.critical,
        ["For rank 1 ET node 302, communicator group 1 not found"]
    );
}

#[test]
fn cut_lines_are_counted_and_other_texts_are_not() {
    let whole = node("issue", 0, 0, 1, "a");
    let log = read(&format!("make: nothing to do\n{whole}{}", &whole[..70]));
    assert_eq!((log.damaged, log.first_damaged, log.lines), (1, Some(3), 3));
    let log = read("sys.path was changed\nsyslog\n");
    assert_eq!((log.known_lines, log.lines), (0, 2));
    // An end whose beginning is in a lost part of the log.
    assert_eq!(read(&node("callback", 0, 3, 1, "a")).without_begin, 1);
}

#[test]
fn a_difference_below_zero_wraps() {
    let line = format!(
        "{STAMP} [workload] [info] sys[0] finished, 5 cycles, exposed communication \
         18446744073709551614 cycles.\n"
    );
    assert_eq!(read(&line).ranks[&0].exposed_ns, Some(-2));
}

#[test]
fn intervals_join_and_keep_their_length() {
    let joined = union(vec![(5, 9), (0, 3), (2, 4), (9, 10)]);
    assert_eq!(joined, [(0, 4), (5, 10)]);
    assert_eq!(length(&joined), 9);
}

/// Creates a computation followed by an all-reduce of all ranks, both on a device.
fn graph() -> ChakraGraph {
    let mut graph = ChakraGraph::default();
    let compute = GraphNode {
        id: 1,
        node_type: NodeType::CompNode,
        name: "compute",
        is_cpu_op: Some(false),
        ..GraphNode::default()
    };
    graph.push(&compute, &[], &[]);
    let comm = CommAttrs {
        comm_type: Some(0),
        size: Some(64),
        ..CommAttrs::default()
    };
    let all_reduce = GraphNode {
        id: 2,
        node_type: NodeType::CommCollNode,
        name: "all_reduce",
        comm,
        ..GraphNode::default()
    };
    graph.push(&all_reduce, &[], &[1]);
    graph
}

fn two_ranks(text: &str) -> Result<SimulatedRun, etlink_model::Failure> {
    let (log, groups) = (read(text), GroupRanks::new(BTreeMap::new(), [0, 1]));
    let ranks = (0..2).map(|rank| GraphComms::new(rank, &graph(), &groups, &log, true));
    Ok(SimulatedRun::new(ranks.collect::<Result<Vec<_>, _>>()?))
}

#[test]
fn a_collective_transfers_from_the_last_arrival_to_the_last_end() {
    let text = [
        node("issue", 0, 0, 1, "compute"),
        node("issue", 1, 0, 1, "compute"),
        node("callback", 0, 10, 1, "compute"),
        node("issue", 0, 10, 2, "all_reduce"),
        node("callback", 1, 30, 1, "compute"),
        node("issue", 1, 30, 2, "all_reduce"),
        node("callback", 0, 45, 2, "all_reduce"),
        finished(0, 45),
        node("callback", 1, 50, 2, "all_reduce"),
        finished(1, 50),
    ]
    .concat();
    let run = two_ranks(&text).expect("of one run");
    let report = compare_simulation(&read(&text), &run, None);
    let [comm] = &report.communications[..] else {
        panic!("{report:?}");
    };
    assert_eq!(comm.ranks, "ranks 0, 1");
    assert_eq!(
        (comm.simulated_start_ns, comm.simulated_ns, comm.bytes),
        (30, Some(20), 64)
    );
    assert_eq!(comm.simulated_wait_ns, 20);
    let times = |rank: usize| {
        let rank = &report.ranks[rank];
        (rank.simulated_ns, rank.communication_ns, rank.exposed_ns)
    };
    assert_eq!(times(0), (Some(45), Some(35), Some(35)));
    assert_eq!(times(1), (Some(50), Some(20), Some(20)));
    assert!(report.stuck.is_empty());
}

#[test]
fn a_rank_that_waits_for_ever_is_named_with_its_node() {
    let text = [
        node("issue", 0, 0, 1, "compute"),
        node("callback", 0, 10, 1, "compute"),
        node("issue", 0, 10, 2, "all_reduce"),
    ]
    .concat();
    let run = two_ranks(&text).expect("of one run");
    let report = compare_simulation(&read(&text), &run, None);
    assert_eq!(report.stuck[0].waiting, ["all_reduce (node 2)"]);
    assert_eq!(report.stuck[1].waiting, [""; 0]);
    assert_eq!(report.communications[0].simulated_ns, None);
}

#[test]
fn nodes_of_another_export_are_refused() {
    let unknown = two_ranks(&node("issue", 0, 0, 9, "compute")).expect_err("no node 9");
    assert_eq!(
        unknown.to_string(),
        "line 1: rank 0 issues node 9, which is not in its graph"
    );
    let other = two_ranks(&node("issue", 0, 0, 1, "aten::mm")).expect_err("another name");
    assert!(
        other
            .to_string()
            .starts_with("line 1: node 1 of rank 0 is named"),
        "{other}"
    );
}

#[test]
fn the_timeline_has_what_was_simulated() {
    let text = [
        node("issue", 0, 0, 1, "compute"),
        node("callback", 0, 10_500, 1, "compute"),
    ]
    .concat();
    let run = two_ranks(&text).expect("of one run");
    let mut out = vec![];
    write_timeline(&run, None, &mut out).expect("memory does not fail");
    let timeline: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    let events = timeline["traceEvents"].as_array().expect("a list");
    let slices: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(slices.len(), 1, "{timeline}");
    assert_eq!(
        (&slices[0]["dur"], &slices[0]["name"]),
        (&10.5.into(), &"compute".into())
    );
    let process = events
        .iter()
        .find(|event| event["name"] == "process_name" && event["pid"] == slices[0]["pid"]);
    let name = process.map(|process| &process["args"]["name"]);
    assert_eq!(name, Some(&"rank 0, simulated".into()));
}
