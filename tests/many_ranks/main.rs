//! Measures the memory that commands keep per rank, on runs with hundreds of ranks. A separate
//! program, since the allocator counts for all its threads.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests"
)]

use etlink::documents::{AnalyzeDocument, AnalyzeQuery, ReplayDocument, ReplayQuery, RunQuery};
use etlink::run::{RunOptions, RunSource};
use etlink_testing::all_reduce_rank;
use peak_alloc::PeakAlloc;
use std::path::Path;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Ranks of the small and the large run.
const FEW: u64 = 40;
const MANY: u64 = 160;
/// Ops of a rank, in addition to its three collectives.
const OPS: u32 = 500;

fn draw_run(folder: &Path, ranks: u64) -> RunSource {
    let folder = folder.join(format!("run{ranks}"));
    std::fs::create_dir_all(&folder).expect("makes folder");
    for rank in 0..ranks {
        let path = folder.join(format!("kineto_trace_{rank}.json"));
        std::fs::write(path, all_reduce_rank(rank, ranks, OPS)).expect("writes");
    }
    RunSource::Folder(folder)
}

/// Reads one rank after the other, so that the peak shows the memory kept per rank.
fn query(source: &RunSource, memory: u64) -> RunQuery {
    RunQuery {
        source: source.clone(),
        options: RunOptions {
            threads: 1,
            memory: Some(memory),
            ..RunOptions::default()
        },
    }
}

fn analyzed(source: &RunSource, memory: u64) -> anyhow::Result<AnalyzeDocument> {
    AnalyzeDocument::read(&query(source, memory), &AnalyzeQuery::default())
}

fn replayed(source: &RunSource, memory: u64) -> anyhow::Result<ReplayDocument> {
    ReplayDocument::read(&query(source, memory), &ReplayQuery::default())
}

const ENOUGH: u64 = 1_000_000_000;
/// Memory of the program, one thread and the largest rank, with no room to keep results.
const LEAST: u64 = 18_200_000;

/// Returns the growth of the peak per rank, bytes.
fn growth<T>(runs: &[RunSource; 2], read: impl Fn(&RunSource, u64) -> anyhow::Result<T>) -> usize {
    let [few, many] = [0, 1].map(|place| {
        let before = HEAP.current_usage();
        HEAP.reset_peak_usage();
        read(&runs[place], ENOUGH).expect("reads");
        HEAP.peak_usage().saturating_sub(before)
    });
    let added = usize::try_from(MANY - FEW).expect("a small number");
    many.saturating_sub(few) / added
}

#[test]
fn commands_count_what_they_keep_of_each_rank() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = [FEW, MANY].map(|ranks| draw_run(folder.path(), ranks));
    let document = replayed(&runs[0], ENOUGH).and_then(|document| document.to_json());
    let document: serde_json::Value =
        serde_json::from_str(&document.expect("replays")).expect("json");
    let nodes = document["together"]["ranks"][0]["nodes"].as_u64();
    let nodes = usize::try_from(nodes.expect("a number")).expect("few");
    let (analyze, replay) = (growth(&runs, analyzed), growth(&runs, replayed));
    println!("a rank of {nodes} nodes: analyze keeps {analyze} bytes of it, replay {replay}");
    assert!(analyze < 16_000, "{analyze}");
    assert!(replay < 7_000 + 160 * nodes, "{replay} of {nodes} nodes");
    let errors = [
        analyzed(&runs[1], LEAST).err(),
        replayed(&runs[1], LEAST).err(),
    ];
    for error in errors {
        let error = error.expect("refused").to_string();
        for said in [
            "the results of all 160 ranks need about ",
            "--memory allows 18.2 MB",
        ] {
            assert!(error.contains(said), "{error}");
        }
    }
}
