//! Traces with many different names or groups beside ordinary ones of their size: what the commands
//! take for them.
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
/// Processor time of an odd trace, at most, as a multiple of the ordinary one's.
const MOST_TIMES_ORDINARY: i64 = 4;
/// A record of each name takes memory; a map of its fields, or a text of each, takes far more.
const MOST_MEMORY_TIMES_ORDINARY: i64 = 2;
/// A process that was interrupted often takes longer; what is too slow fails each time.
const ATTEMPTS: usize = 4;

/// Commands with the kinds that each is measured with.
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

/// Processor time, us, and the largest memory of all commands so far, in the system's unit.
#[derive(Clone, Copy, Debug)]
struct Usage {
    microseconds: i64,
    memory: i64,
}

/// One test, in a program of its own: the system has one sum for all children of a process.
#[test]
fn different_names_and_groups_cost_little() {
    let folder = tempfile::tempdir().expect("a folder");
    let ordinary = draw(Oddity::Ordinary, folder.path());
    // the largest memory never falls: the ordinary commands' has to be known first
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
