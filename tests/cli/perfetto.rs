//! Perfetto traces from `link` and `replay`, in JSON. `cargo dev perfetto` tests that Perfetto
//! reads them.

use crate::tool::{Tool, pairs, unpacked};
use etlink_testing::{DeviceQueue, TraceBuilder};
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

/// Returns the JSON of `analyze` without file names.
fn analyzed(tool: &Tool, file: &str, more: &str) -> Value {
    let ran = tool.run(&format!("analyze {file} --json {more}")).exits(0);
    let text = ran.stdout.replace(file, "FILE");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_perfetto_trace_is_read_as_the_recording_that_it_was_made_from() {
    let tool = Tool::new();
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 50_000);
    draw.python(main, "train.py(1): step", 0, 60_000);
    let stream = DeviceQueue::stream(7);
    draw.launch(main, (5_000, 8_000), stream, "gemm", (12_000, 40_000));
    tool.file("drawn.json", draw.kineto());
    let recorded = [
        "mlp-2.15.0",
        "tpdp4-2.15.0",
        "ddp2-2.4.1",
        "open_range-2.15.0",
    ];
    for pair in recorded {
        let text = unpacked(&format!("{pair}/kineto_trace_0.json.gz"));
        tool.file(&format!("{pair}.json"), text);
    }
    for name in recorded.into_iter().chain(["drawn"]) {
        let (json, perfetto) = (format!("{name}.json"), format!("{name}.pftrace"));
        tool.run(&format!("link --device {json} -o {perfetto}"))
            .exits(0);
        let from_json = analyzed(&tool, &json, "");
        assert_eq!(analyzed(&tool, &perfetto, ""), from_json, "{name}");
        // compressed, and as another export of the trace read back
        tool.run(&format!(
            "link --device {perfetto} -o again.pftrace.gz --overwrite"
        ))
        .exits(0);
        assert_eq!(analyzed(&tool, "again.pftrace.gz", ""), from_json, "{name}");
        let graph = |device: &str| {
            tool.run(&format!("link --device {device} -o x.et --overwrite"))
                .exits(0);
            tool.read("x.et")
        };
        assert!(graph(&json) == graph(&perfetto), "{name}");
    }
}

#[test]
fn perfetto_traces_that_cannot_be_read_back_say_why() {
    let tool = Tool::new();
    tool.run("merge {pairs}/tpdp4-2.15.0 --format perfetto -o view")
        .exits(0);
    tool.run("merge {pairs}/tpdp4-2.15.0 --format perfetto -o view --overwrite")
        .exits(0);
    tool.run("analyze view/timeline.pftrace.gz")
        .exits(2)
        .complains(&["timeline of several ranks", "folder"]);
    tool.file(
        "foreign.pftrace",
        b"\x0a\x08\x32\x06\x0a\x04\x08\x06\x10\x05",
    );
    for command in ["analyze foreign.pftrace", "link --device foreign.pftrace"] {
        tool.run(command).exits(2).complains(&[
            "foreign.pftrace",
            "another program",
            "Kineto trace",
        ]);
    }
    tool.run(&format!("link {MLP} -o x.pftrace")).exits(0);
    let whole = tool.read("x.pftrace");
    tool.file("cut.pftrace", &whole[..whole.len() / 2]);
    tool.run("link --device cut.pftrace")
        .exits(0)
        .says("the stream of the file is truncated or damaged")
        .says("inside the packet at byte");
    tool.run("link --device cut.pftrace --strict").exits(1);
}

#[test]
fn traces_of_the_collector_of_torch_are_read_like_their_json() {
    let tool = Tool::new();
    for name in ["streams", "lanes"] {
        let file = format!("{{pairs}}/../graphs/{name}-2.15.0");
        let inspected = |ending: &str| {
            let facts = tool
                .run(&format!("inspect {file}.{ending} --json"))
                .exits(0)
                .only_file();
            [
                "window_ns",
                "base_ns",
                "cpu_ops",
                "runtime_calls",
                "device_rows",
                "threads",
                "queues",
            ]
            .map(|key| facts[key].clone())
        };
        assert_eq!(inspected("pftrace"), inspected("json"), "{name}");
        let replayed = |ending: &str| {
            let command = format!("replay {file}.{ending} --explain kC --json");
            let mut json = tool.run(&command).exits(0).json();
            for key in ["trace", "file", "input"] {
                json.as_object_mut().expect("an object").remove(key);
            }
            json.to_string().replace(ending, "")
        };
        // the other format truncates overlapping rows on a lane, so only the first is the same to
        // the end
        if name == "streams" {
            assert_eq!(replayed("pftrace"), replayed("json"));
        }
    }
}

#[test]
fn rows_that_the_collector_of_torch_cut_are_counted() {
    let tool = Tool::new();
    let cut = "truncated in its .pftrace because a row of another stream begins";
    // kB before kC, in two steps
    let lanes = "{pairs}/../graphs/lanes-2.15.0";
    tool.run(&format!("link --device {lanes}.pftrace"))
        .exits(0)
        .says(cut)
        .says("2  device rows");
    tool.run(&format!("link --device {lanes}.pftrace --strict"))
        .exits(1);
    for whole in ["lanes-2.15.0.json", "streams-2.15.0.pftrace"] {
        let ran = tool.run(&format!(
            "link --device {{pairs}}/../graphs/{whole} --strict"
        ));
        let ran = ran.exits(0);
        assert!(!ran.stdout.contains(cut), "{}", ran.shown());
    }
}

#[test]
fn a_folder_of_traces_of_the_collector_of_torch_is_a_run() {
    let tool = Tool::new();
    let trace = std::fs::read(pairs().join("../graphs/streams-2.15.0.pftrace")).expect("reads");
    tool.file("run/rank0.pftrace", &trace);
    tool.file("run/rank1.pftrace", &trace);
    tool.run("merge run -o out")
        .exits(0)
        .says("2 linked, 0 failed");
    let plain = unpacked("../graphs/streams-2.15.0.pftrace");
    tool.file("cut.pftrace", &plain[..plain.len() / 2]);
    tool.run("link --device cut.pftrace -o x.et")
        .exits(0)
        .says("the stream of the file is truncated or damaged");
    tool.run("link --device cut.pftrace -o y.et --strict")
        .exits(1);
}

#[test]
fn what_a_program_called_a_node_of_a_graph_is_told() {
    let tool = Tool::new();
    for ending in ["json", "pftrace"] {
        let file = format!("{{pairs}}/../graphs/streams-2.15.0.{ending}");
        tool.run(&format!("replay {file} --explain kC"))
            .exits(0)
            .says("\"kC\" (layer.3)");
        tool.run(&format!("link --device {file} -o x.et --overwrite"))
            .exits(0);
        let graph = tool.read("x.et");
        let note = b"layer.4";
        assert!(
            graph.windows(note.len()).any(|part| part == note),
            "{ending}"
        );
        tool.run(&format!("link --device {file} -o x.pftrace --overwrite"))
            .exits(0);
        tool.run("replay x.pftrace --explain kB")
            .exits(0)
            .says("(layer.2)");
    }
}
