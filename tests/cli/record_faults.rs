//! Fails the n-th file system call of `etlink record`, or kills it there, for every n. The program
//! publishes two traces like the hook, without PyTorch. Each test prints lines for the table of
//! `faults.rs`.

use crate::tool::{Ran, Tool, failing_numbers};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read;

type Files = BTreeMap<String, Vec<u8>>;

/// Uses the hook's own `files.py`, which moves an earlier recording aside.
const PROGRAM: &str = r#"
import json, os, sys
settings = json.loads(os.environ["ETLINK_RECORD"])
sys.path.insert(0, settings["hook"])
from _etlink_hook import files
open("ran", "w").close()
key = os.path.join(settings["work"], "{}.{}".format(settings["launcher"], os.getpid()))
pairs = []
for kind, last in (("torch_et", "finish_ts"), ("kineto_trace", "traceName")):
    with open(key + "." + kind, "w") as file:
        file.write('{"new": true, "%s": 0}' % last)
    pairs.append((key + "." + kind, kind + "_0.json"))
files.publish(settings, pairs, [])
cycle = {"whole": True, "host_trace": pairs[0][1], "device_trace": pairs[1][1]}
report = {"pid": os.getpid(), "launcher": settings["launcher"], "rank": 0, "cycles": [cycle]}
files.write_whole(key + ".json", json.dumps(report))
files.write_whole(key + ".steps", "1")
"#;
const LINE: &str = "record --wait 0 --warmup 0 --active 1 --gzip --tensorboard board --overwrite \
                    -o traces -- python3 program.py";

fn earlier() -> Files {
    let names = ["torch_et_0.json", "kineto_trace_0.json", "etlink.json"];
    let old = names.map(|name| (name.to_owned(), br#"{"ranks": []}"#.to_vec()));
    Files::from(old)
}

/// Prints the outcomes of the runs with faults as a line of a table.
fn print_tally(fault: &str, exit_codes: &BTreeMap<i32, u32>) {
    let runs: u32 = exit_codes.values().sum();
    let codes: Vec<String> = (exit_codes.iter())
        .map(|(code, runs)| format!("{code} ({runs})"))
        .collect();
    println!(
        "| record | {fault} | {runs} runs | exit {} |",
        codes.join(", ")
    );
}

fn run_with_fault(tool: &Tool, number: u32) -> Ran {
    drop(std::fs::remove_file(tool.path("ran")));
    drop(std::fs::remove_dir_all(tool.path("board")));
    record(tool, number, "ENOSPC")
}

/// Records while a call of `etlink record` fails.
fn record(tool: &Tool, number: u32, effect: &str) -> Ran {
    let fault = tool.fault("", &format!("any:{number}:{effect}"));
    let fault = fault.map(|(name, value)| format!("{name}={value}"));
    std::fs::create_dir_all(tool.path("tmp")).expect("makes folder");
    let fault = fault.join(" ");
    tool.shell(&format!(
        "TMPDIR=$PWD/tmp FAIL_OPEN=1 {fault} $ETLINK {LINE}"
    ))
}

/// Returns the files visible to a user.
fn visible(tool: &Tool) -> Files {
    let mut files = tool.files("traces");
    files.retain(|name, _| !name.starts_with(".etlink"));
    files
}

/// Returns the text of a trace, compressed or not; it must be complete.
fn text(name: &str, bytes: &[u8]) -> String {
    let mut text = String::new();
    if name.ends_with(".gz") {
        GzDecoder::new(bytes)
            .read_to_string(&mut text)
            .expect("whole");
    } else {
        text.push_str(std::str::from_utf8(bytes).expect("text"));
    }
    serde_json::from_str::<serde_json::Value>(&text).expect("a whole document");
    text
}

/// Fails each call in turn, until a run has no further calls.
fn each_call_fails(before: &Files) {
    let tool = Tool::new();
    tool.file("program.py", PROGRAM);
    let mut exit_codes = BTreeMap::new();
    for number in failing_numbers() {
        drop(std::fs::remove_dir_all(tool.path("traces")));
        std::fs::create_dir(tool.path("traces")).expect("makes folder");
        tool.put_files("traces", before);
        let ran = run_with_fault(&tool, number);
        let after = visible(&tool);
        if !ran.stderr.contains("injected: ") {
            assert!(number > 50, "only {number} calls");
            ran.exits(0);
            print_tally("a call fails", &exit_codes);
            return;
        }
        *exit_codes.entry(ran.code).or_default() += 1;
        let has_started = tool.path("ran").exists();
        let what = format!("call {number}: {}", ran.stderr);
        if !has_started {
            // nothing was started, so only the reason is printed
            assert_eq!((ran.code, &after), (2, before), "{what}");
            continue;
        }
        assert!(matches!(ran.code, 0 | 1), "{} {what}", ran.code);
        for kind in ["torch_et_0.json", "kineto_trace_0.json"] {
            let mut found = after.iter().filter(|(name, _)| name.starts_with(kind));
            let (name, bytes) = found.next().unwrap_or_else(|| panic!("no {kind}, {what}"));
            assert!(text(name, bytes).contains("new"), "{name} is old, {what}");
            assert!(found.next().is_none(), "{kind} twice, {what}");
        }
        let half = tool.names().into_iter().chain(after.keys().cloned());
        let half: Vec<String> = half.filter(|name| name.ends_with(".new")).collect();
        assert!(half.is_empty(), "{half:?} {what}");
        // leftovers in the work folder are cleaned up
        tool.run(LINE).exits(0);
        let names: Vec<String> = tool.files("traces").into_keys().collect();
        let whole = [
            "etlink.json",
            "kineto_trace_0.json.gz",
            "torch_et_0.json.gz",
        ];
        assert_eq!(names, whole, "{what}");
    }
}

#[test]
fn a_first_recording() {
    each_call_fails(&Files::new());
}

#[test]
fn a_recording_that_replaces_another() {
    each_call_fails(&earlier());
}

/// An earlier recording of two ranks; a new one of one rank replaces a part of it.
fn earlier_of_two_ranks() -> Files {
    let mut files = earlier();
    for name in ["torch_et_1.json", "cycle_1/kineto_trace_1.json"] {
        files.insert(name.to_owned(), br#"{"ranks": []}"#.to_vec());
    }
    files
}

/// Runs the program over an earlier recording with each call failing, then `record` without a
/// fault, which must clean up the folder; `check` gets the folder's files.
fn each_call_over(program: &str, effect: &str, check: fn(&Files, &str)) {
    let tool = Tool::new();
    tool.file("program.py", program);
    let mut exit_codes = BTreeMap::new();
    for number in failing_numbers() {
        drop(std::fs::remove_dir_all(tool.path("traces")));
        drop(std::fs::remove_dir_all(tool.path("board")));
        for name in earlier_of_two_ranks().keys() {
            tool.file(&format!("traces/{name}"), br#"{"ranks": []}"#);
        }
        let ran = record(&tool, number, effect);
        let line = "record --wait 0 --warmup 0 --active 1 -o traces -- true";
        tool.run(line).exits(2).complains(&["already exists"]);
        let what = format!("call {number}: {}", ran.stderr);
        check(&visible(&tool), &what);
        assert!(!tool.path("traces/.etlink").exists(), "{what}");
        if !ran.stderr.contains("injected: ") {
            assert!(number > 50, "only {number} calls");
            print_tally(effect, &exit_codes);
            return;
        }
        *exit_codes.entry(ran.code).or_default() += 1;
    }
}

#[test]
fn an_earlier_recording_that_is_not_replaced_is_never_lost() {
    // the program ends after moving the old files and before the first new one
    let program = PROGRAM.split("files.publish").next();
    let program = format!("{}files.make_room(settings)\n", program.expect("a part"));
    for effect in ["ENOSPC", "KILL"] {
        each_call_over(&program, effect, |after, what| {
            assert_eq!(after, &earlier_of_two_ranks(), "{what}");
        });
    }
}

#[test]
fn a_killed_launcher_mixes_no_recordings() {
    each_call_over(PROGRAM, "KILL", |after, what| {
        if after == &earlier_of_two_ranks() {
            return;
        }
        for (name, bytes) in after {
            let is_trace = name.ends_with(".json") && name != "etlink.json";
            assert!(
                !is_trace || text(name, bytes).contains("new"),
                "{name} is old, {what}"
            );
            assert!(!name.contains("_1.json"), "{name} is old, {what}");
        }
        for kind in ["torch_et_0.json", "kineto_trace_0.json"] {
            let is_there = after.keys().any(|name| name.starts_with(kind));
            assert!(is_there, "no {kind}, {what}");
        }
    });
}

#[test]
fn folders_that_a_killed_launcher_began_to_make_are_removed_by_the_next() {
    let tool = Tool::new();
    tool.file("program.py", PROGRAM);
    std::fs::create_dir(tool.path("tmp")).expect("makes folder");
    // an empty folder has no files
    let folders = || tool.shell("ls -d tmp/etlink-hook-*").stdout;
    for number in failing_numbers() {
        record(&tool, number, "KILL");
        if tool.path("ran").exists() {
            break;
        }
    }
    assert!(!folders().is_empty());
    // folders without a lock may just be being created
    let line = format!("TMPDIR=$PWD/tmp $ETLINK {LINE}");
    tool.shell(&line).exits(0);
    let young = folders();
    assert!(!young.is_empty());
    tool.shell("touch -d '1 hour ago' tmp/etlink-hook-*; mkdir tmp/etlink-hook-other");
    tool.shell(&line).exits(0);
    assert_eq!(folders(), "tmp/etlink-hook-other\n");
}
