//! Checks `--memory` against the system's figures: a process stays within it, or refuses and writes
//! nothing.
#![cfg(target_os = "linux")]
#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that runs a program on files"
)]

use etlink_testing::Oddity;
use nix::sys::resource::{UsageWho, getrusage};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Events per rank, which is 5 MB in compact form. By file size alone all ranks would fit; two
/// ranks of a page do not.
const EVENTS: usize = 40_000;
const RANKS: usize = 4;
/// Memory that `--memory` reserves for the program itself.
const PROGRAM: u64 = 16_000_000;
/// Ascending budgets, because the system reports the largest peak of all processes so far.
const BUDGETS: [u64; 3] = [45_000_000, 70_000_000, 110_000_000];
/// Commands that keep little per rank. The others may exceed the budget slightly.
const COMMANDS: [&[&str]; 4] = [
    &["merge", "traces", "-o", "out"],
    &["ranks", "traces", "--json"],
    &["analyze", "traces", "--json"],
    &["top", "traces", "--json"],
];

fn peak_bytes() -> u64 {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the system tells what was used");
    u64::try_from(used.max_rss()).expect("a size") << 10
}

/// One test in its own program: the system has a single peak for all children of a process.
#[test]
fn no_command_holds_more_than_it_may() {
    let folder = tempfile::tempdir().expect("a folder");
    draw(Oddity::Names, 20, &folder.path().join("few/traces"));
    for command in COMMANDS {
        run(command, u64::MAX >> 1, &folder.path().join("few"));
    }
    // a test build is larger than a release build, which is the basis of `--memory`
    let more = peak_bytes().saturating_sub(PROGRAM);
    let mut refused = 0;
    let kinds = [Oddity::Names, Oddity::FrameNames];
    let folders = kinds.map(|kind| folder.path().join(kind.name()));
    for (kind, folder) in kinds.into_iter().zip(&folders) {
        draw(kind, EVENTS, &folder.join("traces"));
    }
    for budget in BUDGETS {
        for (kind, folder) in kinds.into_iter().zip(&folders) {
            for command in COMMANDS {
                let is_refused = run(command, budget, folder);
                refused += usize::from(is_refused);
                let peak = peak_bytes();
                assert!(
                    peak <= budget + more,
                    "{command:?} of {} held {peak} bytes of {budget}",
                    kind.name()
                );
            }
        }
    }
    let all = BUDGETS.len() * kinds.len() * COMMANDS.len();
    assert!(
        (1..all / 2).contains(&refused),
        "{refused} of {all} were refused: the budgets test nothing"
    );
}

fn draw(kind: Oddity, events: usize, traces: &Path) {
    fs::create_dir_all(traces).expect("makes a folder");
    for rank in 0..RANKS {
        let drawn = kind.draw_rank(events, rank);
        let name = |trace: &str| traces.join(format!("{trace}_{rank}.json"));
        fs::write(name("kineto_trace"), drawn.device).expect("writes");
        if let Some(host) = drawn.host {
            fs::write(name("torch_et"), host).expect("writes");
        }
    }
}

/// Runs a command; returns true if it refused.
fn run(command: &[&str], budget: u64, folder: &Path) -> bool {
    // the page's folder; a merge creates its own
    fs::create_dir_all(folder.join("out")).expect("makes a folder");
    let done = Command::new(env!("CARGO_BIN_EXE_etlink"))
        .args(command)
        .args(["--allow-mismatch", "-j", "4", "--memory"])
        .arg(budget.to_string())
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .expect("etlink runs");
    let said = String::from_utf8_lossy(&done.stderr);
    let output = folder.join("out");
    let has_written = fs::read_dir(&output).is_ok_and(|mut files| files.next().is_some());
    let is_refused = done.status.code() == Some(2);
    if is_refused {
        assert!(said.contains("--memory"), "{command:?}: {said}");
        assert!(!has_written, "{command:?} left something");
    } else {
        assert_eq!(done.status.code(), Some(0), "{command:?}: {said}");
    }
    let _ = fs::remove_dir_all(&output);
    is_refused
}
