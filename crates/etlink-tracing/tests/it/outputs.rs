//! Files of traces.
#![allow(clippy::disallowed_methods, reason = "tests look at files")]

use etlink_schedule::{Arguments, RankSelection, Schedule};
use etlink_tracing::{
    ExecutionTraceRecorder, KinetoRecorder, ProgramInfo, ProgramSpans, Recorder, RecordingSession,
    TensorBoardFolder, TraceFolder, TraceOutput,
};
use std::io::Read;
use std::path::Path;
use tempfile::tempdir;
use tracing::trace_span;
use tracing_subscriber::prelude::*;

/// Records two cycles of one step.
fn record(
    rank: u32,
    recorders: impl FnOnce(&ProgramSpans) -> Vec<Box<dyn Recorder>>,
) -> Result<(), etlink_tracing::RecorderFailures> {
    let spans = ProgramSpans::new(ProgramInfo {
        rank: Some(rank),
        ..ProgramInfo::default()
    });
    let schedule = Schedule::new(Arguments {
        wait: 1,
        warmup: 0,
        active: 1,
        repeat: 2,
        ..Arguments::default()
    })
    .expect("valid");
    let mut session = RecordingSession::scheduled(recorders(&spans), schedule);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(spans.layer()), || {
        session.start()?;
        for _ in 0..5 {
            trace_span!("op").in_scope(|| {});
            session.step()?;
        }
        session.finish()
    })
}

fn both(
    rank: u32,
    output: impl TraceOutput + 'static,
) -> Result<(), etlink_tracing::RecorderFailures> {
    record(rank, |spans| spans.recorders(output))
}

fn files(folder: &Path) -> Vec<String> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
    {
        let name = entry
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if entry.is_dir() {
            found.extend(files(&entry).iter().map(|file| format!("{name}/{file}")))
        } else {
            found.push(name)
        }
    }
    found.sort();
    found
}

#[test]
fn each_cycle_is_a_folder_for_merge_and_nothing_is_overwritten() {
    let folder = tempdir().expect("a folder");
    both(3, TraceFolder::new(folder.path())).expect("records");
    let expected = [
        "cycle_0/kineto_trace_3.json",
        "cycle_0/torch_et_3.json",
        "cycle_1/kineto_trace_3.json",
        "cycle_1/torch_et_3.json",
    ];
    assert_eq!(files(folder.path()), expected);
    let before = std::fs::read(folder.path().join(expected[0])).expect("reads");
    let text = both(3, TraceFolder::new(folder.path()))
        .expect_err("they are there")
        .to_string();
    assert!(
        text.contains("execution trace failed to save")
            && text.contains("kineto failed")
            && text.contains("another folder"),
        "{text}"
    );
    assert_eq!(
        std::fs::read(folder.path().join(expected[0])).expect("reads"),
        before
    );
    both(4, TraceFolder::new(folder.path()).gzip(true)).expect("another rank");
    assert_eq!(files(folder.path()).len(), 8);
}

#[test]
fn tensorboard_finds_workers_and_spans() {
    let folder = tempdir().expect("a folder");
    both(
        0,
        TensorBoardFolder::new(folder.path(), "host_0").gzip(true),
    )
    .expect("records");
    both(0, TensorBoardFolder::new(folder.path(), "host_0")).expect("a second run goes on");
    let kineto: Vec<String> = files(folder.path())
        .into_iter()
        .filter(|file| file.contains(".pt.trace.json"))
        .collect();
    assert_eq!(
        kineto,
        [
            "host_0.0.pt.trace.json.gz",
            "host_0.1.pt.trace.json.gz",
            "host_0.2.pt.trace.json",
            "host_0.3.pt.trace.json"
        ]
    );
    let host = std::fs::File::open(folder.path().join("host_0.1.et.json.gz"))
        .expect("the host trace beside it");
    let mut text = String::new();
    flate2::read::GzDecoder::new(host)
        .read_to_string(&mut text)
        .expect("gzip");
    assert!(text.contains("ProfilerStep#3"), "{text}");
    assert_eq!(files(folder.path()).len(), 8);
}

#[test]
fn one_recorder_alone_records_as_well() {
    let folder = tempdir().expect("a folder");
    record(0, |spans| {
        vec![Box::new(KinetoRecorder::new(
            spans,
            TraceFolder::new(folder.path()),
        ))]
    })
    .expect("records");
    assert_eq!(
        files(folder.path()),
        ["cycle_0/kineto_trace_0.json", "cycle_1/kineto_trace_0.json"]
    );
    record(1, |spans| {
        vec![Box::new(ExecutionTraceRecorder::new(
            spans,
            TraceFolder::new(folder.path()),
        ))]
    })
    .expect("records");
    assert_eq!(files(folder.path()).len(), 4);
}

#[test]
fn ranks_that_are_not_chosen_record_nothing() {
    let (folder, ranks) = (
        tempdir().expect("a folder"),
        "0,8-15".parse::<RankSelection>().expect("ranks"),
    );
    for rank in [0, 1, 8, 16] {
        let output = TraceFolder::new(folder.path());
        record(rank, |spans| {
            if ranks.has(rank) {
                spans.recorders(output)
            } else {
                vec![]
            }
        })
        .expect("records");
    }
    let chosen: Vec<String> = files(folder.path())
        .into_iter()
        .filter(|file| file.starts_with("cycle_1/t"))
        .collect();
    assert_eq!(
        chosen,
        ["cycle_1/torch_et_0.json", "cycle_1/torch_et_8.json"]
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = both(0, TraceFolder::new(file.path()))
        .expect_err("a file is no folder")
        .to_string();
    assert!(text.contains(&file.path().display().to_string()), "{text}");
}
