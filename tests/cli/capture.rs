//! `--capture`: a graph that was captured under one profiler and replayed under another.

use crate::tool::Tool;
use etlink_testing::{DeviceQueue, KinetoFlavour, TraceBuilder};

/// Writes the trace of a capture, and the trace of a replay:
/// ```text
/// capture  [aten::addmm: gemm] [aten::relu: relu]       replay  hipGraphLaunch   gemm == relu =
/// ```
fn traces(tool: &Tool) {
    let mut draw = TraceBuilder::new(KinetoFlavour::Rocm);
    let main = draw.thread();
    draw.annotation(main, "capture_32", 0, 60_000);
    draw.capture(main, 1_000, 50_000);
    for (at, name, kernel, shapes) in [
        (10_000, "aten::addmm", "gemm", "[[64], [32, 8], [8, 64]]"),
        (20_000, "aten::relu", "relu", "[[32, 64]]"),
    ] {
        let op = draw.op(main, name, at, at + 8_000);
        draw.arg(op, "Input Dims", shapes);
        let floats = format!(
            "[{}]",
            vec![r#""float""#; shapes.matches('[').count() - 1].join(", ")
        );
        draw.arg(op, "Input type", &floats);
        draw.captured(main, (at + 2_000, at + 4_000), kernel);
    }
    tool.file("capture.json", draw.kineto());
    let mut draw = TraceBuilder::new(KinetoFlavour::Rocm);
    let main = draw.thread();
    let stream = DeviceQueue::stream(7);
    draw.graph_launch_of(
        main,
        (0, 5_000),
        &[
            (stream, "gemm", 10_000, 20_000),
            (stream, "relu", 20_000, 21_000),
        ],
    );
    tool.file("replay.json", draw.kineto());
}

#[test]
fn analyses_see_ops_and_work_through_graph_launches() {
    let tool = Tool::new();
    traces(&tool);
    let of = |line: &str| {
        let line = format!("{line} replay.json --capture capture.json --json");
        let mut run = tool.run(&line).exits(0).only_run();
        run["ranks"][0].take()
    };
    let ops = of("ops");
    let figures = |row: &serde_json::Value| {
        let keys = ["op", "count", "sum_ns", "operations", "bytes"];
        keys.map(|key| row[key].to_string()).join(" ")
    };
    let rows: Vec<String> = ops["ops"]
        .as_array()
        .expect("rows")
        .iter()
        .map(figures)
        .collect();
    let addmm = (2 * 32 * 8 * 64, 4 * (64 + 32 * 8 + 8 * 64 + 32 * 64));
    let relu = (32 * 64, 2 * 4 * 32 * 64);
    assert_eq!(
        rows,
        [
            format!("\"aten::addmm\" 1 10000 {} {}", addmm.0, addmm.1),
            format!("\"aten::relu\" 1 1000 {} {}", relu.0, relu.1),
        ]
    );
    let kernels = of("analyze --table kernels");
    let named = kernels["kernels"].as_array().expect("rows").iter();
    assert_eq!(
        named.map(|row| &row["op"]).collect::<Vec<_>>(),
        ["aten::addmm", "aten::relu"]
    );
    assert_eq!(of("analyze --table work")["work"][0]["operations"], addmm.0);
    // without the capture nothing is known
    let plain = tool.run("ops replay.json --json").exits(0).only_run();
    let plain = plain["ranks"][0]["ops"].as_array().expect("rows").iter();
    assert!(
        plain.clone().count() == 2 && { plain }
            .all(|row| row["op"] == "" && row["bytes"].is_null())
    );
}

/// SGLang writes a folder of captures, of all ranks and batch sizes, beside the traces.
#[test]
fn a_folder_of_captures_beside_the_trace_is_found() {
    let tool = Tool::new();
    traces(&tool);
    let capture = tool.read("capture.json");
    std::fs::remove_file(tool.path("capture.json")).expect("removes");
    for name in ["run/capture_traces/bs32.json", "other/bs32.json"] {
        tool.file(name, &capture);
    }
    tool.file("run/capture_traces/notes.txt", "no trace");
    tool.file("run/rank0.json", tool.read("replay.json"));
    let ops = |line: &str| {
        let run = tool.run(&format!("{line} --json")).exits(0).only_run();
        let ranks = run["ranks"].as_array().expect("ranks");
        assert_eq!(ranks.len(), 1, "{line}");
        let names = ranks[0]["ops"].as_array().expect("rows").iter();
        let names = names.map(|row| row["op"].as_str().unwrap_or("").to_owned());
        (names.collect::<Vec<_>>(), run)
    };
    let carried = ["aten::addmm", "aten::relu"];
    for line in [
        "ops run/rank0.json",
        "ops run",
        "ops replay.json --capture other",
    ] {
        assert_eq!(ops(line).0, carried, "{line}");
    }
    // a list beside the traces is passed by; a trace that cannot be read is said
    let unused = |line: &str| {
        let (_, run) = ops(line);
        let notes = run["ranks"][0]["diagnostics"]
            .as_array()
            .expect("list")
            .iter();
        notes.filter(|one| one["code"] == "capture_unused").count()
    };
    assert_eq!(unused("ops run/rank0.json"), 0);
    tool.file("run/capture_traces/bs64.json", tool.read("replay.json"));
    assert_eq!(unused("ops run/rank0.json"), 1);
    tool.run("ops replay.json --capture run/capture_traces")
        .exits(0);
    // the trace itself may be in the folder; one without captures is refused, and so is a loss
    tool.file("other/replay.json", tool.read("replay.json"));
    assert_eq!(ops("ops other/replay.json --capture other").0, carried);
    std::fs::create_dir(tool.path("empty")).expect("makes a folder");
    for folder in ["empty", "run/capture_traces/notes.txt"] {
        tool.run(&format!("ops replay.json --capture {folder}"))
            .exits(2);
    }
    tool.run("link --device run/rank0.json -o run/capture_traces/bs32.json --overwrite")
        .exits(2);
    let of_other = String::from_utf8(capture).expect("text");
    let stated = r#"{"distributedInfo": {"rank": 1, "world_size": 2}, "#;
    tool.file("ranks/1.json", of_other.replacen('{', stated, 1));
    let with_rank = "link --device replay.json --rank 0 --capture";
    tool.run(&format!("{with_rank} ranks")).exits(2);
    tool.run(&format!("{with_rank} ranks/1.json")).exits(0);
}

#[test]
fn kernels_of_a_graph_launch_bear_op_and_shapes_of_the_capture() {
    let tool = Tool::new();
    traces(&tool);
    let told = tool
        .run("link --device replay.json --capture capture.json -o out.json --json")
        .exits(0)
        .json();
    let figures = &told["report"]["capture"];
    assert_eq!(
        (&figures["complete"], &figures["carried"], &told["captures"]),
        (&1.into(), &2.into(), &serde_json::json!(["capture.json"]))
    );
    let merged: serde_json::Value = serde_json::from_slice(&tool.read("out.json")).expect("JSON");
    let rows: Vec<_> = merged["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .filter(|node| node["cat"] == "kernel")
        .collect();
    let facts = |key: &str| {
        rows.iter()
            .map(|row| row[key].as_str().unwrap_or("").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(facts("captured_op"), ["aten::addmm", "aten::relu"]);
    assert_eq!(
        facts("captured_shapes"),
        ["[[64], [32, 8], [8, 64]]", "[[32, 64]]"]
    );
    assert_eq!(facts("captured_scope"), ["capture_32", "capture_32"]);

    tool.run("link --device replay.json --capture capture.json -o out.et")
        .exits(0)
        .says("2  kernels of graph launches were assigned their captured op");
    let written = tool.read("out.et");
    for text in [
        "captured_op",
        "aten::addmm",
        "captured_shapes",
        "[[64], [32, 8], [8, 64]]",
    ] {
        assert!(
            written
                .windows(text.len())
                .any(|window| window == text.as_bytes()),
            "{text} is in the .et"
        );
    }
    tool.run("check out.et").exits(0);
    tool.run("replay out.et").exits(0);
}

#[test]
fn without_a_capture_trace_nothing_is_said_of_it() {
    let tool = Tool::new();
    traces(&tool);
    let told = tool
        .run("link --device replay.json -o out.et --json")
        .exits(0)
        .json();
    assert!(
        told["report"].get("capture").is_none() && told.get("capture").is_none(),
        "{told}"
    );
    assert_eq!(
        (
            &told["report"]["graph_launches"],
            &told["report"]["graph_rows"]
        ),
        (&1.into(), &2.into())
    );
}

#[test]
fn what_is_no_trace_of_a_capture_is_refused_by_name() {
    let tool = Tool::new();
    traces(&tool);
    let run = |capture: &str| {
        tool.run(&format!(
            "link --device replay.json --capture {capture} -o out.et"
        ))
        .exits(2)
    };
    run("replay.json").complains(&[
        "replay.json",
        "the trace contains no graph capture",
        "is this the trace of the replay?",
        "leave --capture out",
    ]);
    run("{pairs}/mlp-2.15.0/torch_et_0.json.gz")
        .complains(&["torch_et_0.json.gz", "--capture needs the Kineto trace"]);
    run("absent.json").complains(&["absent.json"]);
    tool.file("cuda.json", {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        draw.capture(main, 1_000, 50_000);
        draw.captured(main, (10_000, 12_000), "gemm");
        draw.kineto()
    });
    run("cuda.json").complains(&[
        "cuda.json",
        "do not name their kernels",
        "cudaLaunchKernel at 10000 ns",
        "leave --capture out",
    ]);
    tool.run("link --device - --capture - -o out.et")
        .exits(2)
        .complains(&["only one of --host, the device trace and --capture"]);
    tool.run("link --device replay.json --capture capture.json -o capture.json --overwrite")
        .exits(2)
        .complains(&["is also an input"]);
    assert_eq!(tool.names(), ["capture.json", "cuda.json", "replay.json"]);
}

#[test]
fn inspect_tells_captures_and_launches() {
    let tool = Tool::new();
    traces(&tool);
    assert_eq!(
        tool.run("inspect capture.json --json").exits(0).only_file()["graph_captures"],
        1
    );
    assert_eq!(
        tool.run("inspect replay.json --json").exits(0).only_file()["graph_launches"],
        1
    );
}
