//! Each cause brings its own latency.

use super::{Drawing, starts};
use crate::labels::NoLabels;
use crate::{EdgeKind, ReplayGraph, ReplayKind, ReplaySettings, run_graph};
use etlink_model::{EdgeIdx, NodeIdx};

/// Time from a launch call to its kernel, in ns.
const LAUNCH: i64 = 6_000;
/// Time from one kernel of a stream to the next, in ns.
const STREAM: i64 = 1_000;

/// Draws a host that launches a kernel each `period`; each kernel takes `kernel`.
fn launches(count: usize, period: i64, kernel: i64) -> Drawing {
    let mut drawing = Drawing::default();
    let mut host: Option<NodeIdx> = None;
    let mut last: Option<(NodeIdx, i64)> = None;
    for number in 0..count as i64 {
        let begin = number * period;
        let op = drawing.node("op", ReplayKind::HostOp, 0, Some(begin), period);
        if let Some(host) = host {
            drawing.edge(host, EdgeKind::ProgramOrder, op);
        }
        host = Some(op);
        // A kernel is launched at the end of its op.
        let launched = begin + period + LAUNCH;
        let free = last.map_or(i64::MIN, |(_, end)| end + STREAM);
        let start = launched.max(free);
        let row = drawing.node("kernel", ReplayKind::Kernel, 1, Some(start), kernel);
        drawing.edge(op, EdgeKind::Launch, row);
        if let Some((before, _)) = last {
            drawing.edge(before, EdgeKind::StreamOrder, row);
        }
        last = Some((row, start + kernel));
    }
    drawing
}

fn makespan(drawing: &Drawing, rules: &[&str]) -> i64 {
    let scales = rules.iter().map(|rule| rule.parse().expect("a rule"));
    let settings = ReplaySettings {
        scales: scales.collect(),
        ..ReplaySettings::default()
    };
    drawing.run(&settings).makespan().0
}

/// Other edges decide once kernels are longer or the host is quicker.
#[test]
fn what_changes_the_deciding_cause_is_predicted() {
    let recorded = launches(40, 50_000, 5_000);
    // In the recording, no kernel directly follows another: the default for streams applies.
    let slow_kernels = launches(40, 50_000, 100_000);
    assert_eq!(
        makespan(&recorded, &["kernel=20"]),
        makespan(&slow_kernels, &[])
    );
    let quick_host = launches(40, 1_000, 5_000);
    assert_eq!(
        makespan(&recorded, &["op=0.02"]),
        makespan(&quick_host, &[])
    );
}

/// On a device that is always busy, no launch shows its own latency.
#[test]
fn the_usual_latency_stays_within_what_was_measured() {
    let graph = launches(40, 3_000, 50_000).graph();
    let run = run_graph(&graph, &NoLabels, &ReplaySettings::default());
    assert_eq!(run.start, graph.start);
    for node in graph.indices() {
        for edge in graph.edges_to(node) {
            assert!(ready_ns(&graph, edge) <= graph.start[node.index()].0);
        }
    }
    let last = NodeIdx::new(graph.len() - 1);
    let by_kind = |kind| {
        let mut edges = graph.edges_to(last);
        let edge = edges.find(|edge| graph.dep(*edge).kind == kind);
        graph.latency(edge.expect("an edge of that kind")).0
    };
    assert_eq!(by_kind(EdgeKind::StreamOrder), STREAM);
    // the very first kernel waited only for its launch
    assert_eq!(by_kind(EdgeKind::Launch), LAUNCH);
}

fn ready_ns(graph: &ReplayGraph, edge: EdgeIdx) -> i64 {
    (graph.end(graph.dep(edge).from) + graph.latency(edge)).0
}

/// An unexplained delay is not a latency of the node after it.
#[test]
fn delays_begin_when_their_causes_have_ended() {
    let mut drawing = Drawing::default();
    let before = drawing.node("before", ReplayKind::Kernel, 1, Some(0), 100);
    let delay = drawing.node("", ReplayKind::UnexplainedWait, 1, Some(100), 90_000);
    let after = drawing.node("after", ReplayKind::Kernel, 1, Some(90_100), 10);
    drawing.edge(before, EdgeKind::StreamOrder, delay);
    drawing.edge(delay, EdgeKind::StreamOrder, after);
    let settings = ReplaySettings {
        scales: vec!["before=2".parse().expect("a rule")],
        ..ReplaySettings::default()
    };
    assert_eq!(starts(&drawing.run(&settings)), [0, 200, 90_200]);
}
