//! Records the example program into files and links them: a separate test, because its threads need
//! a subscriber for the whole process.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    reason = "a test"
)]

#[path = "../examples/training/device.rs"]
mod device;
#[path = "../examples/training/tensor.rs"]
mod tensor;
#[path = "../examples/training/train.rs"]
mod train;

use etlink_chakra::{WriteOptions, check, et, read};
use etlink_link::{EdgeKind, LinkOptions, LinkedTrace, MatchRule, link};
use etlink_model::{GlobalRank, TensorUses};
use etlink_schedule::{Arguments, Schedule};
use etlink_tracing::{ProgramInfo, ProgramSpans, RecordingSession, TraceFolder};
use flate2::read::GzDecoder;
use std::fs::File;
use std::path::Path;
use tracing_subscriber::prelude::*;

fn linked(cycle: &Path) -> (LinkedTrace, TensorUses) {
    let open = |name: &str| GzDecoder::new(File::open(cycle.join(name)).expect(name));
    let host = etlink_formats::host::read(
        open("torch_et_3.json.gz"),
        etlink_formats::host::HostReadOptions::default(),
    )
    .expect("a host trace");
    let device = etlink_formats::kineto::read(
        open("kineto_trace_3.json.gz"),
        etlink_formats::kineto::KinetoReadOptions::default(),
    )
    .expect("a device trace");
    let uses = etlink_formats::host::tensor_uses(&host);
    (
        link(Some(host), device, LinkOptions::default()).expect("links"),
        uses,
    )
}

/// Asserts that both traces are fully linked without contradictions.
fn is_whole(trace: &LinkedTrace) {
    let report = &trace.report;
    assert_eq!(report.anomalies.iter().collect::<Vec<_>>(), []);
    assert!(
        report.cpu_ops >= 44 && report.cpu_ops == report.host_ops,
        "{report:?}"
    );
    assert_eq!(
        report.matched.iter().collect::<Vec<_>>(),
        [(&MatchRule::Id, &report.cpu_ops)]
    );
    assert_eq!(
        (report.device_rows, report.launched, report.owned_by_op),
        (26, 26, 26),
        "{report:?}"
    );
    assert_eq!(
        (report.rank, report.world_size),
        (Some(GlobalRank(3)), Some(4))
    );
    // a temporary backward thread, a copy that kernels wait for, and a wait for them: all stated
    for kind in [EdgeKind::Handoff, EdgeKind::EventWait, EdgeKind::HostWait] {
        assert!(
            trace.edges.iter().any(|edge| edge.kind == kind),
            "no {kind:?}: {report:?}"
        );
        assert!(
            trace
                .edges
                .iter()
                .filter(|edge| edge.kind == kind)
                .all(|edge| !edge.inferred),
            "{kind:?}"
        );
    }
}

/// Asserts that a replay reproduces the measured times.
fn replays(trace: &LinkedTrace) {
    let graph = etlink_replay::graph_from_trace(trace).expect("a graph");
    let run = etlink_replay::run_graph(&graph, trace, &etlink_replay::ReplaySettings::default());
    let figures = etlink_replay::replay_figures(&graph, trace, &run);
    assert_eq!(
        figures.contradictions.as_ref().map(|found| found.edges),
        Some(0),
        "{figures:?}"
    );
    assert!(
        figures.replay_error.is_some_and(|error| error <= 0.01),
        "{figures:?}"
    );
}

/// Asserts that `etlink check` finds nothing in the written graph.
fn is_clean(trace: &LinkedTrace) {
    let mut file = vec![];
    et::write_et(trace, &WriteOptions::default(), &mut file).expect("writes");
    let findings = check::check(&read::read(std::io::Cursor::new(file)).expect("reads"));
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn a_rust_program_is_recorded_and_linked() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = ProgramInfo {
        rank: Some(3),
        world_size: Some(4),
        devices: vec!["two threads".into()],
        ..ProgramInfo::default()
    };
    let spans = ProgramSpans::new(program);
    tracing_subscriber::registry().with(spans.layer()).init();
    let schedule = Schedule::new(Arguments {
        wait: 2,
        warmup: 1,
        active: 2,
        repeat: 2,
        ..Arguments::default()
    })
    .expect("valid");
    let mut session = RecordingSession::scheduled(
        spans.recorders(TraceFolder::new(folder.path()).gzip(true)),
        schedule,
    );
    train::train(&mut session, 12).expect("trains");
    session.finish().expect("ends");
    for (cycle, steps) in [
        ("cycle_0", ["ProfilerStep#3", "ProfilerStep#4"]),
        ("cycle_1", ["ProfilerStep#8", "ProfilerStep#9"]),
    ] {
        let (trace, uses) = linked(&folder.path().join(cycle));
        is_whole(&trace);
        replays(&trace);
        is_clean(&trace);
        let names = &trace.device.names;
        let recorded: Vec<&str> = trace
            .device
            .ops
            .name
            .iter()
            .map(|name| names.get(*name))
            .filter(|name| name.starts_with("Profiler"))
            .collect();
        assert_eq!(recorded, steps);
        // the weights are the same storages in all steps
        let storages = uses.refs.storage.iter().filter(|storage| {
            uses.refs
                .storage
                .iter()
                .filter(|other| other == storage)
                .count()
                >= 6
        });
        assert!(storages.count() > 0);
    }
    assert!(!folder.path().join("cycle_2").exists());
}
