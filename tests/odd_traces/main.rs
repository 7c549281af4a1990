//! Compares the cost of traces with many distinct names or groups to ordinary ones of the same
//! size.
#![cfg(unix)]
#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that runs a program on files"
)]

use etlink_testing::Oddity;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const EVENTS: usize = 30_000;
/// Maximum processor time of an odd trace, as a multiple of the ordinary one's.
const MOST_TIMES_ORDINARY: i64 = 4;
/// Maximum memory of an odd trace, as a multiple of the ordinary one's. A record per name is
/// allowed; a map of its fields, or a text per name, takes far more.
const MOST_MEMORY_TIMES_ORDINARY: i64 = 2;
/// Number of attempts: a process that was interrupted often takes longer, but code that is too slow
/// fails each time.
const ATTEMPTS: usize = 4;

/// Commands with the kinds of oddity to measure.
const CASES: [(&[&str], &[Oddity]); 3] = [
    (
        &["analyze", "--json"],
        &[Oddity::KernelNames, Oddity::Annotations, Oddity::GlooGroups],
    ),
    (
        &["top", "--rows", "0"],
        &[Oddity::KernelNames, Oddity::Annotations],
    ),
    (
        &["link", "--overwrite", "-o", "out.et", "--device"],
        &[Oddity::GlooGroups],
    ),
];

/// Processor time, us, and the peak memory of all commands so far, in the system's unit.
#[derive(Clone, Copy, Debug)]
struct Usage {
    microseconds: i64,
    memory: i64,
}

/// One test in its own program: the system has one sum for all children of a process.
#[test]
fn different_names_and_groups_cost_little() {
    let folder = tempfile::tempdir().expect("a folder");
    let ordinary = draw(Oddity::Ordinary, folder.path());
    // the peak never falls, so the ordinary commands' must be known first
    let mut most_memory = 0;
    for (command, _) in CASES {
        most_memory = run(command, &ordinary).memory * MOST_MEMORY_TIMES_ORDINARY;
    }
    let mut failed = vec![];
    for (command, kinds) in CASES {
        for kind in kinds {
            let odd = draw(*kind, folder.path());
            let is_cheap = |_: usize| {
                let usual = run(command, &ordinary);
                let usage = run(command, &odd);
                eprintln!("{command:?} {}: {usual:?}, {usage:?}", kind.name());
                usage.microseconds <= usual.microseconds * MOST_TIMES_ORDINARY
                    && usage.memory <= most_memory
            };
            if !(0..ATTEMPTS).any(is_cheap) {
                failed.push((command, kind.name()));
            }
        }
    }
    assert!(failed.is_empty(), "over the bar: {failed:?}");
}

fn draw(kind: Oddity, folder: &Path) -> PathBuf {
    let path = folder.join(format!("{}.json", kind.name()));
    std::fs::write(&path, kind.draw_rank(EVENTS, 0).device).expect("room on the disk");
    path
}

fn run(command: &[&str], trace: &Path) -> Usage {
    let before = usage();
    let status = Command::new(env!("CARGO_BIN_EXE_etlink"))
        .args(command)
        .arg(trace)
        .current_dir(trace.parent().expect("a folder"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("the command runs");
    assert!(status.success(), "{command:?} {}", trace.display());
    let after = usage();
    Usage {
        microseconds: after.microseconds - before.microseconds,
        memory: after.memory,
    }
}

fn usage() -> Usage {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).expect("counted");
    Usage {
        microseconds: used.user_time().num_microseconds() + used.system_time().num_microseconds(),
        memory: used.max_rss(),
    }
}
