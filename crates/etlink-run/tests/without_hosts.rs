//! Joins recorded sets of several ranks with and without their host traces: the same collectives,
//! and the same straggler.
//!
//! `ETLINK_SETS` adds folders of sets, separated by `:`.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests"
)]

use etlink_run::{Run, RunOptions, RunSource};
use std::path::{Path, PathBuf};

/// Returns the number of joined collectives of the files, and the rank that others waited for most.
fn joined(files: Vec<PathBuf>) -> (usize, Option<i64>) {
    let run = Run::open(RunSource::Files(files), RunOptions::default()).expect("one run");
    let joined = run.join().expect("ranks");
    let stats = joined.straggler_stats();
    let late = etlink_link::ranks::worst_rank(&stats, |rank| rank.caused_ns);
    (
        joined.collective_skews().len(),
        late.map(|late| late.rank.0),
    )
}

#[test]
fn recorded_sets_join_alike_without_host_traces() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let more = std::env::var("ETLINK_SETS").unwrap_or_default();
    let more = more.split(':').filter(|folder| !folder.is_empty());
    let parents = ["pairs", "flight", "gpu"].map(|name| testdata.join(name));
    let mut sets = vec![testdata.join("two-hosts")];
    for parent in parents.into_iter().chain(more.map(PathBuf::from)) {
        let entries = std::fs::read_dir(parent).expect("a folder");
        sets.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    sets.sort();
    let (mut compared, mut collectives) = (0, 0);
    for set in sets.iter().filter(|set| set.is_dir()) {
        let entries = std::fs::read_dir(set).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let named = |path: &PathBuf, part: &str| path.to_string_lossy().contains(part);
        // dumps of the flight recorder tell what plain Gloo does
        let paths = paths.filter(|path| !named(path, "RECIPE") && !named(path, "etlink.json"));
        let (hosts, others): (Vec<PathBuf>, Vec<PathBuf>) =
            paths.partition(|path| named(path, "torch_et_"));
        if hosts.len() < 2 {
            continue;
        }
        let with = joined(others.iter().cloned().chain(hosts).collect());
        let without = joined(others);
        println!("{}: {with:?} with, {without:?} without", set.display());
        assert_eq!(with, without, "{}", set.display());
        (compared, collectives) = (compared + 1, collectives + with.0);
    }
    assert!(
        compared > 12 && collectives > 150,
        "{compared}, {collectives}"
    );
}
