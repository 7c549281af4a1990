//! Perfetto traces from `link` and `replay`, in JSON. `cargo dev perfetto` tests that Perfetto
//! reads them.

use crate::tool::{Tool, unpacked};
use etlink_testing::TraceBuilder;
use serde_json::Value;

const MLP: &str = "--host {pairs}/mlp-2.15.0/torch_et_0.json.gz \
    {pairs}/mlp-2.15.0/kineto_trace_0.json.gz";

/// Returns the total time on the critical path's track, ns.
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
    // the profiler's own range and two instants are not ops
    assert_eq!(ran["shown"]["slices"], 399);
    let replayed = tool
        .run(&format!("replay {MLP} --json"))
        .exits(0)
        .only_run();
    assert_eq!(
        Value::from(path_ns(&trace)),
        replayed["figures"]["replayed_ns"]
    );
    tool.run(&format!("link {MLP} -o y.trace.json"))
        .exits(0)
        .says("399 slices")
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
        .only_run();
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
        .says("399 slices");
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
    for phase in ["s", "f"] {
        draw.raw(&format!(
            r#"{{"ph": "{phase}", "id": 1, "pid": 1000, "tid": 1000, "ts": 2, "cat": "fwdbwd"}}"#
        ));
    }
    let tool = Tool::new();
    tool.file("trace.json", draw.kineto());
    for output in ["x.pftrace", "x.trace.json"] {
        tool.run(&format!("link --device trace.json -o {output}"))
            .exits(0)
            .notes("events left out of the timeline: 1 fwdbwd arrows");
    }
    let trace: Value = serde_json::from_slice(&tool.read("x.trace.json")).expect("JSON");
    let frames = trace["traceEvents"].as_array().expect("events").iter();
    let frames = frames.filter(|event| event["cat"] == "python_function");
    assert_eq!(frames.count(), 2);
}

#[test]
fn a_trace_for_perfetto_is_no_input() {
    let tool = Tool::new();
    tool.run(&format!("link {MLP} -o x.pftrace")).exits(0);
    tool.run(&format!("link {MLP} -o x.trace.json")).exits(0);
    // a clock, as in every recording made by Perfetto itself
    tool.file(
        "foreign.pftrace",
        b"\x0a\x08\x32\x06\x0a\x04\x08\x06\x10\x05",
    );
    for file in ["x.pftrace", "x.trace.json", "foreign.pftrace"] {
        let facts = tool.run(&format!("inspect {file} --json")).exits(0);
        assert_eq!(facts.only_file()["kind"], "timeline", "{file}");
        for command in ["analyze", "link --device"] {
            tool.run(&format!("{command} {file}")).exits(2).complains(&[
                file,
                "a timeline for Perfetto",
                "give the trace it was made from",
            ]);
        }
    }
}

#[test]
fn what_a_program_called_a_node_of_a_graph_is_told() {
    let tool = Tool::new();
    let file = "{pairs}/../graphs/streams-2.15.0.json";
    tool.run(&format!("replay {file} --explain kC"))
        .exits(0)
        .says("\"kC\" (layer.3)");
    tool.run(&format!("link --device {file} -o x.et")).exits(0);
    let graph = tool.read("x.et");
    let note = b"layer.4";
    assert!(graph.windows(note.len()).any(|part| part == note));
}
