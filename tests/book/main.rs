//! Tests the book: every command on a page runs, and prints the output shown there.
//!
//! A page is a session. Its ```` ```console ```` blocks run from top to bottom in one folder that
//! contains `testdata`. Elapsed seconds may differ. In the output, `[..]` stands for any text of a
//! line, and a line `...` for any lines. `INSTA_UPDATE=always` writes the printed output into the
//! page.
#![cfg(unix)]
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]
#![allow(unreachable_pub, reason = "a test program has no outside")]

mod page;

use page::{Block, Page};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn commands_print_what_the_pages_show() {
    let failures: Vec<String> = pages().iter().filter_map(|path| run_page(path)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = book().join("SUMMARY.md");
    let text = std::fs::read_to_string(&summary).expect("reads the summary");
    let listed: BTreeSet<PathBuf> = link_targets(&text)
        .map(|target| book().join(target))
        .collect();
    let written: BTreeSet<PathBuf> = pages()
        .into_iter()
        .filter(|path| *path != summary)
        .collect();
    assert_eq!(listed, written);
}

#[test]
fn links_lead_somewhere() {
    let mut documents = pages();
    let more = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
    documents.extend(more.map(|name| repository().join(name)));
    for document in documents {
        let text = std::fs::read_to_string(&document).expect("reads a page");
        let folder = document.parent().expect("has a folder");
        for target in link_targets(&text) {
            let file = target.split('#').next().unwrap_or(target);
            let is_elsewhere = file.is_empty() || file.contains("://");
            assert!(
                is_elsewhere || folder.join(file).exists(),
                "{} links to {target}, which is missing",
                document.display()
            );
        }
    }
}

/// Names of the traces on the page on other tools, and the recordings that stand for them.
const STAND_INS: [(&str, &str); 6] = [
    ("traces", "pairs/ddp2-2.15.0"),
    ("before", "gpu/graphs-base"),
    ("after", "gpu/graphs-changed"),
    (
        "trace.json.gz",
        "gpu/input_copy-base/kineto_trace_0.json.zst",
    ),
    ("host.json.gz", "gpu/input_copy-base/torch_et_0.json.zst"),
    (
        "memory_snapshot_0.pickle",
        "memory/memory_snapshot_0.pickle",
    ),
];

#[test]
fn commands_in_place_of_other_tools_run() {
    let folder = session_folder();
    for (name, recording) in STAND_INS {
        let recording = repository().join("testdata").join(recording);
        std::os::unix::fs::symlink(recording, folder.path().join(name)).expect("links a trace");
    }
    let text = std::fs::read_to_string(book().join("coming-from.md")).expect("reads the page");
    // every second part of a text split at backticks was quoted
    let quoted = text.split('`').skip(1).step_by(2);
    let commands: Vec<&str> = quoted.filter(|text| text.starts_with("etlink ")).collect();
    assert!(commands.len() > 30, "{commands:?}");
    for command in commands {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(folder.path())
            .env("PATH", search_path())
            .output()
            .expect("sh runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{command}: {errors}");
    }
}

#[test]
fn files_that_the_architecture_names_exist() {
    let document = repository().join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&document).expect("reads the architecture");
    // every second part of a text split at backticks was quoted
    let quoted = text.split('`').skip(1).step_by(2);
    let missing: Vec<&str> = quoted
        .filter(|name| name.starts_with("crates/") || name.starts_with("tests/"))
        .filter(|name| !repository().join(name).exists())
        .collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names {missing:?}");
}

/// Runs the commands of a page; returns the differences from the page, if there are any.
fn run_page(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).expect("reads a page");
    let page = Page::parse(&text);
    let folder = session_folder();
    let blocks = page.blocks.iter();
    let printed: Vec<String> = blocks
        .map(|block| run_block(block, folder.path()))
        .collect();
    if std::env::var("INSTA_UPDATE").is_ok_and(|mode| mode == "always") {
        let blessed = page.with_outputs(&printed);
        // Other tests read the pages at the same time, and would find a truncated one.
        if blessed != text {
            std::fs::write(path, blessed).expect("writes a page");
        }
        return None;
    }
    page.difference(&printed)
        .map(|difference| format!("{}:\n{difference}", path.display()))
}

/// Runs the commands of a block; returns them with their output, as the page would show it.
fn run_block(block: &Block, folder: &Path) -> String {
    let mut shown = String::new();
    for step in &block.steps {
        let output = Command::new("sh")
            .args(["-c", &format!("{} 2>&1", step.command)])
            .current_dir(folder)
            .env("PATH", search_path())
            .env("COLUMNS", "100")
            .output()
            .expect("sh runs");
        let text = String::from_utf8_lossy(&output.stdout);
        shown.push_str(&format!("$ {}\n{text}", step.command));
    }
    shown
}

/// Creates a folder with the repository's `testdata`.
fn session_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let link = folder.path().join("testdata");
    std::os::unix::fs::symlink(repository().join("testdata"), link).expect("links testdata");
    folder
}

/// Returns `PATH` with the tested command before all others.
fn search_path() -> std::ffi::OsString {
    let command = Path::new(env!("CARGO_BIN_EXE_etlink"));
    let folder = command.parent().expect("has a folder").to_owned();
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder).chain(std::env::split_paths(&inherited));
    std::env::join_paths(folders).expect("no folder has a colon")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn book() -> PathBuf {
    repository().join("docs/src")
}

/// Returns all pages, sorted.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![book()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("lists a folder") {
            let path = entry.expect("reads an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Iterates over the targets of Markdown links `[text](target)`.
fn link_targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}
