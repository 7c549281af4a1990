//! Snapshots of PyTorch's allocator: `analyze` and `report`.

use crate::tool::{Tool, gzip};
use std::path::PathBuf;

fn snapshot() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/memory/memory_snapshot_0.pickle")
}

#[test]
fn analyze_names_the_stacks_of_the_peak() {
    let tool = Tool::new();
    let path = snapshot().display().to_string();
    let text = tool.run(&format!("analyze {path}")).exits(0).stdout;
    assert!(text.contains("model/net.py:20 forward"), "{text}");
    let file = tool
        .run(&format!("analyze {path} --json"))
        .exits(0)
        .only_file();
    let device = &file["devices"][0];
    assert_eq!(device["stacks"][0]["peak_bytes"], 31_457_880);
    assert_eq!(device["failed"][0]["bytes"], 734_003_200);
    let csv = tool.run(&format!("analyze {path} --csv")).exits(0).stdout;
    assert!(csv.starts_with("device,peak_bytes,"), "{csv}");
    // options that have no meaning for it
    tool.run(&format!("analyze {path} --table kernels"))
        .exits(2);
}

#[test]
fn a_packed_snapshot_is_read_and_a_dangerous_one_refused() {
    let tool = Tool::new();
    let bytes = std::fs::read(snapshot()).expect("a file");
    tool.file("packed.pickle.gz", gzip(&bytes));
    tool.run("analyze packed.pickle.gz").exits(0);
    let mut calls = bytes[..bytes.len() - 1].to_vec();
    calls.extend(b"cposix\nsystem\n\x8c\x02id\x85R.");
    tool.file("calls.pickle", calls);
    tool.run("analyze calls.pickle")
        .exits(2)
        .complains(&["calls.pickle", "posix.system"]);
    tool.file("cut.pickle", &bytes[..bytes.len() / 2]);
    tool.run("analyze cut.pickle").exits(0).notes("truncated");
}

#[test]
fn the_page_draws_the_stacks_over_time() {
    let tool = Tool::new();
    let path = snapshot().display().to_string();
    tool.run(&format!("report {path} -o page.html")).exits(0);
    assert!(tool.read("page.html").starts_with(b"<!doctype html>"));
}

#[test]
fn other_commands_name_the_ones_that_take_it() {
    let tool = Tool::new();
    let path = snapshot().display().to_string();
    for command in ["top", "ops", "findings", "replay"] {
        tool.run(&format!("{command} {path}"))
            .exits(2)
            .complains(&["etlink analyze"]);
    }
}
