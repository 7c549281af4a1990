//! `etlink convert --anonymise`: traces without the names that tell whose run it is.

use crate::tool::{Tool, pairs};
use etlink_testing::{DeviceQueue, TraceBuilder};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::io::Read;

/// Word in each place of the traces below where a program can put a text of its own.
const SECRET: &str = "acme";

fn unpacked(tool: &Tool, name: &str) -> String {
    let mut text = String::new();
    GzDecoder::new(&tool.read(name)[..])
        .read_to_string(&mut text)
        .expect("text");
    text
}

#[test]
fn no_text_of_the_program_gets_through() {
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 2);
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 100_000);
    draw.annotation(main, "acme ranking 7", 1_000, 90_000);
    draw.annotation(main, "Optimizer.step#AcmeSGD.step", 91_000, 95_000);
    draw.python(main, "nn.Module: AcmeBlock_3", 1_000, 80_000);
    draw.python(main, "/home/acme/train.py(12): acme_step", 2_000, 70_000);
    draw.op(main, "aten::mm", 3_000, 60_000);
    draw.launch(
        main,
        (4_000, 6_000),
        DeviceQueue::stream(7),
        "gemm",
        (10_000, 50_000),
    );
    for event in [
        r#"{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0.0, "args": {"name": "acme"}}"#,
        r#"{"ph": "M", "name": "thread_name", "pid": 1, "tid": 3, "ts": 0.0, "args": {"name": "thread 3 (acme)"}}"#,
        r#"{"ph": "X", "cat": "cpu_op", "name": "aten::to", "pid": 1000, "tid": 1000, "ts": 96.0, "dur": 1.0,
            "args": {"Concrete Inputs": ["acme/file", "[1, 2]", "cuda:0"], "acme": 1, "kernel_file": "/acme/x.py",
            "Call stack": "acme", "Module Hierarchy": "acme", "Process Group Description": "acme"}}"#,
    ] {
        draw.raw(event);
    }
    let trace = String::from_utf8(draw.kineto()).expect("text");
    let trace = trace.replacen(
        '{',
        r#"{"acme_job": "acme", "host_name": "acme", "username": "acme", "#,
        1,
    );
    let tool = Tool::new();
    tool.file("run/acme_kineto_trace_0.json", trace);
    let told = tool.run("convert run out --anonymise").exits(0);
    assert!(told.stdout.contains("fields left out: "), "{}", told.stdout);
    let copy = unpacked(&tool, "out/kineto_trace_0.json.gz").to_lowercase();
    assert!(!copy.contains(SECRET), "{copy}");
    for kept in [
        "profilerstep#1",
        "annotation_0",
        "aten::mm",
        "gemm",
        "cuda:0",
        "[1, 2]",
    ] {
        assert!(copy.contains(kept), "{kept}: {copy}");
    }
    tool.run("convert run out --anonymise")
        .exits(2)
        .complains(&["out exists", "a new folder"]);
}

/// Returns the numbers of a report, in its order, without those of times of day.
/// One broken trace costs itself, not the folder.
#[test]
fn a_trace_that_is_no_json_is_left_out() {
    let tool = Tool::new();
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 2);
    let main = draw.thread();
    draw.op(main, "aten::mm", 3_000, 60_000);
    let trace = draw.kineto();
    tool.file("run/kineto_trace_0.json", &trace[..]);
    tool.file("run/kineto_trace_1.json", &trace[..trace.len() - 9]);
    let told = tool.run("convert run --anonymise -o out").exits(1);
    assert!(
        told.stdout.contains("kineto_trace_1.json cannot be copied"),
        "{}",
        told.stdout
    );
    assert!(unpacked(&tool, "out/kineto_trace_0.json.gz").contains("aten::mm"));
    assert!(!tool.path("out/kineto_trace_1.json.gz").exists());
    tool.run("convert run/kineto_trace_1.json alone --anonymise")
        .exits(2);
}

fn numbers(report: &Value, all: &mut Vec<String>) {
    match report {
        Value::Number(number) => all.push(number.to_string()),
        Value::Array(values) => values.iter().for_each(|value| numbers(value, all)),
        Value::Object(fields) => fields.values().for_each(|value| numbers(value, all)),
        _ => {}
    }
}

#[test]
fn times_keep_all_their_digits() {
    let tool = Tool::new();
    let event = r#""ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1"#;
    let times = r#""ts":1712195495519689.047,"dur":3.001"#;
    let text = format!(r#"{{"schemaVersion": 1, "traceEvents": [{{{event}, {times}}}]}}"#);
    tool.file("kineto_trace_0.json", text);
    tool.run("convert kineto_trace_0.json out --anonymise")
        .exits(0);
    let files = std::fs::read_dir(tool.path("out")).expect("a folder");
    let name = files.last().expect("a file").expect("an entry").file_name();
    let copy = unpacked(&tool, &format!("out/{}", name.display()));
    assert!(
        copy.contains("1712195495519689.047") && copy.contains("3.001"),
        "{copy}"
    );
}

/// Schemas of execution traces before 1.1 have lists in place of inputs and outputs.
#[test]
fn old_host_traces_keep_no_text_either() {
    let tool = Tool::new();
    let node = r#"{"id": 2, "name": "aten::to", "parent": 1, "inputs": ["/acme/file", 3], "input_shapes": [[], []],
        "input_types": ["String", "Int"], "outputs": ["acme"], "output_shapes": [[]], "output_types": ["String"],
        "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": 1, "fw_tid": 0, "op_schema": "acme", "rf_id": 1}"#;
    let text = format!(
        r#"{{"schema": "1.0.1", "pid": 1, "time": "acme", "start_ts": 1, "nodes": [{node}]}}"#
    );
    tool.file("pytorch_et_3.json", &text[..]);
    tool.run("convert pytorch_et_3.json alone --anonymise")
        .exits(0);
    assert!(unpacked(&tool, "alone/torch_et_3.json.gz").contains("aten::to"));
    tool.file("run/torch_et_0.json", text);
    tool.run("convert run out --anonymise").exits(0);
    let copy = unpacked(&tool, "out/torch_et_0.json.gz");
    assert!(
        !copy.contains(SECRET) && copy.contains("aten::to"),
        "{copy}"
    );
}

#[test]
fn figures_of_recordings_stay() {
    let tool = Tool::new();
    for run in ["ddp2-2.15.0", "tpdp4-2.15.0", "../gpu/nccl"] {
        let source = pairs().join(run).display().to_string();
        tool.run(&format!("convert {source} copy --anonymise"))
            .exits(0);
        for command in ["findings", "replay", "ranks"] {
            let [mut before, mut after] = [vec![], vec![]];
            let of = |path: &str| tool.run(&format!("{command} {path} --json"));
            let (recorded, copied) = (of(&source), of("copy"));
            if recorded.code == 2 {
                continue;
            }
            numbers(&recorded.json(), &mut before);
            numbers(&copied.json(), &mut after);
            assert_eq!(before, after, "{command} {run}");
        }
        std::fs::remove_dir_all(tool.path("copy")).expect("removes");
    }
}
