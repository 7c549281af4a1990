//! Recordings of ROCm's rocprofv3, drawn.

use crate::tool::{Tool, gzip};
use etlink_kineto::KinetoReadOptions;
use etlink_model::DeviceTrace;
use etlink_testing::{DeviceQueue, TraceBuilder, rocprof_json};

/// Two annotated steps of a copy and two kernels each.
fn drawn_trace() -> DeviceTrace {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..2 {
        let start = step * 1_000_000;
        draw.op(main, "forward", start, start + 400_000);
        let names = ["Cijk_gemm", "ncclDevKernel_Generic"];
        for (place, kernel) in names.iter().enumerate() {
            let launch = start + 100_000 * (place as i64 + 1);
            let row = (launch + 50_000, launch + 90_000);
            let call = (launch, launch + 5_000);
            draw.launch(main, call, DeviceQueue::stream(3), kernel, row);
        }
    }
    let kineto = etlink_kineto::read(&draw.kineto()[..], KinetoReadOptions::default());
    kineto.expect("a device trace")
}

#[test]
fn json_of_rocprofv3_is_known_linked_and_analyzed() {
    let tool = Tool::new();
    let text = rocprof_json(&drawn_trace());
    tool.file("run/gpu1/4711_results.json.gz", gzip(&text));
    let file = "run/gpu1/4711_results.json.gz";
    let facts = tool.run(&format!("inspect {file} --json")).exits(0).json();
    assert_eq!(facts["kind"], "rocprof_json");
    assert_eq!(facts["device_rows"], 4);
    assert_eq!(facts["runtime_calls"], 4);
    assert_eq!(facts["devices"]["AMD Instinct MI300X"], 1);
    assert_eq!(facts["anomalies"], serde_json::json!({}));
    tool.run(&format!("link --device {file} -o one.et"))
        .exits(0)
        .says("4 launched, 4 owned by an op");
    tool.run("check one.et").exits(0).says("ok");
    tool.run(&format!("analyze {file}"))
        .exits(0)
        .says("Cijk_gemm")
        .says("forward");
    tool.run(&format!("replay {file}"))
        .exits(0)
        .says("4 device ops");
    tool.run("merge run -o out")
        .exits(0)
        .says("4 of 4 device rows launched");
}

#[test]
fn what_is_cut_or_of_several_processes_is_said() {
    let tool = Tool::new();
    let text = rocprof_json(&drawn_trace());
    tool.file("cut.json", &text[..text.len() - 60]);
    let facts = tool.run("inspect cut.json --json").exits(0).json();
    let anomalies = facts["anomalies"].as_object().expect("a table");
    assert_eq!(anomalies.len(), 1, "{facts}");
    tool.run("inspect cut.json --strict").exits(1);
    let text = String::from_utf8(text).expect("utf8");
    let process = text
        .trim_start_matches("{\"rocprofiler-sdk-tool\":[")
        .trim_end_matches("]}");
    let both = format!("{{\"rocprofiler-sdk-tool\":[{process},{process}]}}");
    tool.file("both.json", both);
    tool.run("link --device both.json -o one.et")
        .exits(2)
        .complains(&["both.json", "2 processes", "the file of each process"]);
    tool.file("none.json", "{\"rocprofiler-sdk-tool\": [");
    tool.run("inspect none.json")
        .exits(2)
        .complains(&["none.json", "--output-format json"]);
}
