//! Measures the memory kept per rank, in runs with hundreds of ranks. A separate program, because
//! the allocator counts all its threads.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests"
)]

use etlink_run::merge::{MergeOptions, merge};
use etlink_run::{Run, RunOptions, RunSet, RunSource};
use etlink_testing::all_reduce_rank;
use peak_alloc::PeakAlloc;
use std::path::Path;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Few and many ranks. Memory that grows with the square of the ranks far exceeds the bound at
/// `MANY`.
const FEW: u64 = 136;
const MANY: u64 = 544;
/// Maximum memory kept per rank with three collectives, bytes. Names, collectives and the report
/// take 5 kB.
const MOST_OF_RANK: usize = 9_000;

/// Blanks behind each trace, so that the estimate per rank exceeds the memory kept per rank.
const BLANKS: usize = 96 << 10;

fn draw_run(folder: &Path, ranks: u64) -> RunSource {
    let folder = folder.join(format!("run{ranks}"));
    std::fs::create_dir_all(&folder).expect("makes folder");
    for rank in 0..ranks {
        let path = folder.join(format!("kineto_trace_{rank}.json"));
        let mut text = all_reduce_rank(rank, ranks, 0);
        text.extend([b' '; BLANKS]);
        std::fs::write(path, text).expect("writes");
    }
    RunSource::Folder(folder)
}

/// Returns options with less memory than the estimate for all ranks, so that no linked trace is
/// kept. Ranks are processed one by one, so that the peak is the kept memory, which fits.
fn options() -> RunOptions {
    RunOptions {
        threads: 1,
        memory: Some(26_000_000),
        ..RunOptions::default()
    }
}

/// Returns the peak of additional memory during an action, bytes.
fn peak_of(action: impl FnOnce()) -> usize {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    action();
    HEAP.peak_usage().saturating_sub(before)
}

fn merge_peak(source: &RunSource, output: &Path) -> usize {
    peak_of(|| {
        let runs = RunSet::open(source.clone(), options()).expect("opens");
        let report = merge(&runs, output, &MergeOptions::default()).expect("merges");
        assert!(report.is_complete());
        std::fs::remove_dir_all(output).expect("removes");
    })
}

fn join_peak(source: &RunSource, ranks: u64) -> usize {
    peak_of(|| {
        let run = Run::open(source.clone(), options()).expect("opens");
        let joined = run.join().expect("joins");
        assert_eq!(joined.summaries.len() as u64, ranks);
        assert_eq!(joined.collective_skews().len(), 3);
    })
}

#[test]
fn what_stays_of_a_rank_does_not_grow_with_the_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out");
    let [few, many] = [FEW, MANY].map(|ranks| {
        let source = draw_run(folder.path(), ranks);
        [merge_peak(&source, &output), join_peak(&source, ranks)]
    });
    let added = usize::try_from(MANY - FEW).expect("a small number");
    for (place, command) in ["merge", "join"].into_iter().enumerate() {
        let of_rank = many[place].saturating_sub(few[place]) / added;
        println!(
            "{command}: {} bytes at {FEW} ranks, {} at {MANY}: {of_rank} a rank",
            few[place], many[place]
        );
        assert!(of_rank < MOST_OF_RANK, "{command} keeps {of_rank} a rank");
    }
}
