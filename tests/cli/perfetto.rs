//! Traces for Perfetto from `link` and `replay`, in JSON. That Perfetto reads them is what `cargo
//! dev perfetto` tests.

use crate::tool::{Tool, unpacked};
use etlink_testing::TraceBuilder;
use serde_json::Value;

const MLP: &str = "--host {pairs}/mlp-2.15.0/torch_et_0.json.gz \
    --device {pairs}/mlp-2.15.0/kineto_trace_0.json.gz";

/// Time on the critical path's track, ns.
fn path_ns(trace: &Value) -> i64 {
    let events = trace["traceEvents"].as_array().expect("events");
    let process = events
        .iter()
        .find(|event| event["args"]["name"] == "critical path")
        .expect("a critical path");
    let steps = events
        .iter()
        .filter(|event| event["ph"] == "X" && event["pid"] == process["pid"]);
    steps
        .map(|step| (step["dur"].as_f64().expect("dur") * 1000.0).round() as i64)
        .sum()
}

#[test]
fn link_writes_every_op_and_the_critical_path() {
    let tool = Tool::new();
    let ran = tool
        .run(&format!("link {MLP} -o x.trace.json --json"))
        .exits(0)
        .json();
    let trace: Value = serde_json::from_slice(&tool.read("x.trace.json")).expect("JSON");
    let ops = trace["traceEvents"]
        .as_array()
        .expect("events")
        .iter()
        .filter(|event| event["cat"] == "cpu_op" || event["cat"] == "user_annotation");
    assert_eq!(ops.count(), 396);
    assert_eq!(ran["shown"]["slices"], 396);
    let replayed = tool.run(&format!("replay {MLP} --json")).exits(0).json();
    assert_eq!(
        Value::from(path_ns(&trace)),
        replayed["figures"]["replayed_ns"]
    );
    tool.run(&format!("link {MLP} -o y.trace.json"))
        .exits(0)
        .says("396 slices")
        .says("steps of the critical path");
}

#[test]
fn the_packed_form_and_standard_output_say_the_same_at_any_thread_count() {
    let tool = Tool::new();
    tool.run(&format!("link {MLP} -j 1 -o x.trace.json"))
        .exits(0);
    tool.run(&format!("link {MLP} -j 4 -o x.trace.json.gz"))
        .exits(0);
    let plain = String::from_utf8(tool.read("x.trace.json")).expect("UTF-8");
    let piped = tool
        .run(&format!("link {MLP} --format chrome -o -"))
        .exits(0);
    assert!(piped.stdout == plain);
    let mut text = String::new();
    std::io::Read::read_to_string(
        &mut flate2::read::MultiGzDecoder::new(&tool.read("x.trace.json.gz")[..]),
        &mut text,
    )
    .expect("unpacks");
    assert!(text == plain);
}

#[test]
fn replay_writes_the_path_of_the_changed_run() {
    let tool = Tool::new();
    let changed = tool
        .run(&format!(
            "replay {MLP} --scale kind=host=0.5 -o x.trace.json --json"
        ))
        .exits(0)
        .json();
    let trace: Value = serde_json::from_slice(&tool.read("x.trace.json")).expect("JSON");
    assert_eq!(
        Value::from(path_ns(&trace)),
        changed["what_if"]["makespan_ns"]
    );
    assert!(
        changed["what_if"]["change_ns"]
            .as_i64()
            .is_some_and(|change| change < 0)
    );
    tool.run(&format!("replay {MLP} -o y.trace.json"))
        .exits(0)
        .says("y.trace.json")
        .says("396 slices");
}

#[test]
fn what_cannot_be_written_is_refused_before_work() {
    let tool = Tool::new();
    tool.file("x.trace.json", "kept");
    tool.run(&format!("link {MLP} -o x.trace.json"))
        .exits(2)
        .complains(&["x.trace.json", "--overwrite"]);
    tool.run(&format!("replay {MLP} -o x.trace.json"))
        .exits(2)
        .complains(&["x.trace.json", "--overwrite"]);
    assert_eq!(tool.read("x.trace.json"), b"kept");
    tool.run(&format!("replay {MLP} -o x.json"))
        .exits(2)
        .complains(&["x.json", ".trace.json"]);
    tool.run(&format!("link {MLP} -o x.txt"))
        .exits(2)
        .complains(&["x.txt", ".trace.json"]);
    tool.run(&format!("link {MLP} -o x.et")).exits(0);
    tool.run("replay x.et -o y.trace.json")
        .exits(2)
        .complains(&["x.et", "Kineto"]);
    let kineto = tool.file(
        "z.trace.json",
        unpacked("mlp-2.15.0/kineto_trace_0.json.gz"),
    );
    tool.run("replay z.trace.json -o z.trace.json --overwrite")
        .exits(2)
        .complains(&["z.trace.json", "input"]);
    assert_eq!(
        std::fs::read(kineto).expect("kept"),
        unpacked("mlp-2.15.0/kineto_trace_0.json.gz")
    );
}

#[test]
fn a_note_names_what_is_not_in_the_timeline() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 10_000);
    draw.python(main, "train.py(1): step", 0, 20_000);
    draw.python(main, "nn.Module: Linear_0", 1_000, 9_000);
    let tool = Tool::new();
    tool.file("trace.json", draw.kineto());
    for output in ["x.pftrace", "x.trace.json"] {
        tool.run(&format!("link --device trace.json -o {output}"))
            .exits(0)
            .notes("events that are not in the timeline: 2 python_function");
    }
}
