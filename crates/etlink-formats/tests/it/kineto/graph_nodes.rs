//! Tests CUDA graphs as PyTorch's own CUPTI collector writes them: `testdata/graphs`.

use super::whole_trace::write;
use crate::kineto::support::{anomalies, document, kernel, read};
use etlink_formats::kineto::KinetoWriteOptions;
use etlink_model::{AnomalyKind, DeviceTrace, RowKind};

const STREAMS: &str = include_str!("../../../../../testdata/graphs/streams-2.15.0.json");
const LANES: &str = include_str!("../../../../../testdata/graphs/lanes-2.15.0.json");

/// Returns each dependency as `launch: cause -> effect`, ordered by effect.
fn dependencies(trace: &DeviceTrace) -> Vec<String> {
    let all = &trace.graph_dependencies;
    let name = |row: usize| trace.names.get(trace.rows.name[row]);
    let arrow = |at: usize| {
        let (cause, effect) = (all.cause[at].index(), all.effect[at].index());
        let launch = trace.rows.correlation[effect].0;
        format!("{launch}: {} -> {}", name(cause), name(effect))
    };
    (0..all.len()).map(arrow).collect()
}

/// Returns the names of the rows with their streams, in order.
fn streams(trace: &DeviceTrace) -> Vec<(&str, i64)> {
    let rows = &trace.rows;
    let stream = |row: usize| trace.queues[rows.queue[row].index()].stream;
    let name = |row: usize| trace.names.get(rows.name[row]);
    (0..rows.len())
        .map(|row| (name(row), stream(row)))
        .collect()
}

const ONE_LAUNCH: [&str; 6] = [
    "kA -> kB",
    "kA -> kC",
    "kC -> EventRecord",
    "EventRecord -> HostNode: on_done",
    "kB -> kD",
    "HostNode: on_done -> kD",
];

#[test]
fn arrows_between_nodes_of_a_graph_are_its_dependencies() {
    for text in [STREAMS, LANES] {
        let trace = read(text);
        let launches = ["9", "10"].into_iter();
        let want = launches.flat_map(|id| ONE_LAUNCH.map(|arrow| format!("{id}: {arrow}")));
        assert_eq!(dependencies(&trace), want.collect::<Vec<_>>());
        assert_eq!(anomalies(&trace), []);
    }
}

#[test]
fn a_row_that_was_moved_to_a_lane_keeps_its_stream() {
    let one = [
        ("kA", 7),
        ("kB", 7),
        ("kC", 13),
        ("EventRecord", 13),
        ("HostNode: on_done", 13),
        ("kD", 7),
    ];
    for text in [STREAMS, LANES] {
        assert_eq!(streams(&read(text)), [one, one].concat());
    }
}

#[test]
fn events_and_host_functions_of_a_graph_are_no_work_of_the_device() {
    let kinds = read(STREAMS).rows.kind;
    let (kernel, node) = (RowKind::Kernel, RowKind::GraphNode);
    assert_eq!(kinds[..6], [kernel, kernel, kernel, node, node, kernel]);
}

#[test]
fn dependencies_come_back_from_a_written_trace() {
    for text in [STREAMS, LANES] {
        let trace = read(text);
        let written = write(&trace, vec![], KinetoWriteOptions::default()).expect("memory");
        let again = read(&written);
        assert_eq!(dependencies(&again), dependencies(&trace));
        assert_eq!(streams(&again), streams(&trace));
    }
}

#[test]
fn an_arrow_without_its_row_is_counted() {
    // All rows of one kernel are lost, and with them two dependencies per launch.
    let lost = STREAMS.replace("\"name\":\"kA\"", "\"name\":\"kA\",\"ph\":\"B\"");
    let trace = read(&lost);
    assert_eq!(trace.rows.len(), 10);
    let kinds = anomalies(&trace);
    assert!(
        kinds.contains(&(AnomalyKind::GraphDependencyLost, 4)),
        "{kinds:?}"
    );
}

#[test]
fn arrows_of_which_all_ends_are_gone_are_counted() {
    let lost = STREAMS.replace("\"ph\":\"f\"", "\"ph\":\"t\"");
    assert_ne!(lost, STREAMS);
    let trace = read(&lost);
    assert_eq!(dependencies(&trace), [""; 0]);
    assert_eq!(anomalies(&trace), [(AnomalyKind::GraphDependencyLost, 12)]);
}

#[test]
fn an_arrow_may_be_off_by_what_two_roundings_make() {
    for (cause, effect, is_found) in [
        ("1.500", "2.000", true),
        ("1.502", "2.002", true),
        ("1.498", "1.998", true),
        ("1.503", "2.000", false),
        ("1.497", "2.000", false),
        ("1.500", "2.003", false),
        ("1.500", "1.997", false),
    ] {
        let arrow = |phase: &str, time: &str| {
            format!(
                r#"{{"ph": "{phase}", "id": {}, "cat": "ac2g", "name": "d", "pid": 0, "tid": 7, "ts": {time}}}"#,
                1i64 << 40
            )
        };
        let node = |at: u32| kernel(&format!(r#""correlation": 5, "graph node id": {at}"#), at);
        let trace = read(document(&[
            node(1),
            node(2),
            arrow("s", cause),
            arrow("f", effect),
        ]));
        let found = dependencies(&trace).len();
        assert_eq!(found, usize::from(is_found), "{cause} to {effect}");
    }
}
