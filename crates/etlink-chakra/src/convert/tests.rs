//! Tests written graphs as the other crates see them.

use super::*;
use crate::WriteOptions;
use crate::et::write_et;
use crate::etplus::write_etplus;
use crate::read::{ChakraGraph, read};
use crate::tests::sample;
use etlink_formats::kineto::KinetoReadOptions;
use etlink_link::ranks::{GroupIdentity, Peers, RankSet};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{CollectiveKind, DurationNs, GlobalRank, GroupIdx};
use etlink_replay::{ReplayKind, ReplaySettings, run_graph, work_makespan};
use etlink_testing::{Machine, MachineChange};

fn written_graph() -> ChakraGraph {
    let mut bytes = vec![];
    write_et(&sample(true), &WriteOptions::default(), &mut bytes).expect("writes");
    read(bytes.as_slice()).expect("reads")
}

fn written_tree() -> ChakraGraph {
    let mut bytes = vec![];
    write_etplus(&sample(true), &mut bytes).expect("writes");
    read(bytes.as_slice()).expect("reads")
}

#[test]
fn a_written_graph_runs_as_the_linked_one() {
    let file = written_graph();
    let (graph, told) = replay_graph(&file).expect("a graph");
    let linked = etlink_replay::graph_from_trace(&sample(true)).expect("a graph");
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(graph.start, linked.start);
    assert_eq!(
        graph.edges(),
        linked.edges() - 1,
        "two edges of one pair are one dep"
    );
}

/// Returns the makespan of a file if kernels take a tenth of their time. The file has lost its
/// start times, from which latencies could be learned again.
fn quicker_makespan(trace: &LinkedTrace, dep_latencies: bool) -> DurationNs {
    let options = WriteOptions {
        dep_latencies,
        ..WriteOptions::default()
    };
    let mut bytes = vec![];
    write_et(trace, &options, &mut bytes).expect("writes");
    let mut file = read(bytes.as_slice()).expect("reads");
    file.start_ns.fill(None);
    let (graph, _) = replay_graph(&file).expect("a graph");
    work_makespan(
        &graph,
        &run_graph(&graph, &NodeNames(&file), &quicker_kernels()),
    )
}

fn quicker_kernels() -> ReplaySettings {
    ReplaySettings {
        scales: vec!["kind=kernel 0.1".parse().expect("a rule")],
        ..ReplaySettings::default()
    }
}

/// With one latency per node, a file predicts changes differently than its trace.
#[test]
fn with_latencies_of_deps_a_file_predicts_what_its_trace_does() {
    let mut differ = 0;
    for seed in 0..20 {
        let (program, machine, _) = etlink_testing::random_program(seed);
        let recorded = Machine::run(&program, machine, MachineChange::None);
        let kineto = recorded.trace.kineto();
        let device = etlink_formats::kineto::read(&kineto[..], KinetoReadOptions::default());
        let device = device.expect("a device trace");
        let trace = etlink_link::link(None, device, LinkOptions::default()).expect("links");
        let graph = etlink_replay::graph_from_trace(&trace).expect("a graph");
        let run = run_graph(&graph, &trace, &quicker_kernels());
        let predicted = work_makespan(&graph, &run);
        assert_eq!(quicker_makespan(&trace, true), predicted, "seed {seed}");
        differ += u32::from(quicker_makespan(&trace, false) != predicted);
    }
    assert!(differ > 0, "the test could not fail");
}

#[test]
fn a_cycle_is_named() {
    let mut file = written_graph();
    // The first two nodes wait for each other.
    file.ctrl_deps = Default::default();
    file.ctrl_deps.push(&[file.id[1]]);
    file.ctrl_deps.push(&[file.id[0]]);
    (2..file.len()).for_each(|_| file.ctrl_deps.push(&[]));
    let error = replay_graph(&file).expect_err("a cycle");
    let text = error.to_string();
    assert!(
        text.contains("etlink check") && text.contains("boundary"),
        "{text}"
    );
}

#[test]
fn a_tree_is_drawn_by_its_times() {
    let graph = tree_graph(&written_tree()).expect("has times");
    let drawn = graph
        .kind
        .iter()
        .filter(|kind| **kind != ReplayKind::Boundary);
    // Three ops and three device rows have times; the roots and an unmatched op do not.
    assert_eq!((drawn.count(), graph.edges()), (6, 0));
    let mut file = written_tree();
    file.start_ns.iter_mut().for_each(|start| *start = None);
    assert!(tree_graph(&file).is_err(), "no node has a time");
}

#[test]
fn what_communicates_is_summarized() {
    let file = written_graph();
    let (graph, _) = replay_graph(&file).expect("a graph");
    let listed = GroupList::from([("0".to_owned(), vec![0, 1])]);
    let summary = summarize_rank(
        GlobalRank(0),
        &file,
        &graph,
        &GroupRanks::new(listed, [0, 1]),
    );
    assert_eq!(summary.communications.len(), 1);
    let own = summary.communications[0];
    assert_eq!((own.kind, own.bytes), (CollectiveKind::AllReduce, 4096));
    assert_eq!(own.peers, Peers::Group(GroupIdx(0)));
    assert_eq!(
        summary.groups,
        [GroupIdentity::Ranks(RankSet::from_iter([0, 1]))]
    );
    assert!(own.on_device && own.extent.is_transfer);
}

#[test]
fn a_written_graph_has_rows_and_calls() {
    let groups = GroupList::new();
    let trace = linked_trace(&written_graph(), Some(3), &groups).expect("links");
    let trace = trace.expect("has rows");
    assert_eq!(trace.device.rows.len(), 3);
    assert_eq!(trace.report.rank, Some(GlobalRank(3)));
    let empty = linked_trace(&ChakraGraph::default(), None, &groups).expect("links");
    assert!(empty.is_none());
}
