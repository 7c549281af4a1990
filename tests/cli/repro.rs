//! `etlink repro`: the script has the recorded ops as data.

use crate::tool::{Tool, pairs};
use serde_json::Value;
use std::path::PathBuf;

fn trace(case: &str) -> PathBuf {
    let gpu = pairs().with_file_name("gpu");
    gpu.join(case).join("kineto_trace_0.json.zst")
}

fn text(tool: &Tool, name: &str) -> String {
    String::from_utf8(tool.read(name)).expect("UTF-8")
}

/// Returns the ops of a script: each is JSON in a literal of Python, whose escapes are JSON's.
fn cases(script: &str) -> Vec<Value> {
    let literals = script.lines().filter_map(|line| {
        let literal = line.trim().strip_prefix("json.loads(")?;
        literal.strip_suffix("),")
    });
    let texts = literals.map(|literal| serde_json::from_str::<String>(literal).expect("a text"));
    texts
        .map(|text| serde_json::from_str(&text).expect("an op"))
        .collect()
}

#[test]
fn ops_of_a_recording() {
    let tool = Tool::new();
    let resnet = trace("resnet50");
    let line = format!("repro {} -o all.py --top", resnet.display());
    tool.run(&format!("{line} 5")).exits(0);
    let five = cases(&text(&tool, "all.py"));
    let listed = tool
        .run(&format!("ops {} --json", resnet.display()))
        .exits(0)
        .json();
    let listed = &listed["runs"][0]["ranks"][0]["ops"];
    for (at, case) in five.iter().enumerate() {
        for field in ["op", "shapes", "types", "strides", "values", "kernel"] {
            assert_eq!(case[field], listed[at][field]);
        }
        assert_eq!(case["recorded_ns"], listed[at]["median_ns"]);
    }
    assert_eq!(five.len(), 5);
    // an existing script is kept
    tool.run(&format!("{line} 5")).exits(2);
    tool.run(&format!("{line} 0 -f")).exits(0);
    assert_eq!(
        cases(&text(&tool, "all.py")).len(),
        listed
            .as_array()
            .expect("ops")
            .iter()
            .filter(|op| op["op"] != "")
            .count()
    );
}

#[test]
fn one_shape_of_an_op() {
    let tool = Tool::new();
    let path = trace("resnet50");
    let line = format!("repro {} --op aten::mm --shape 1 -o mm.py", path.display());
    tool.run(&line).exits(0);
    let chosen = cases(&text(&tool, "mm.py"));
    assert_eq!(chosen.len(), 1);
    assert_eq!(chosen[0]["op"], "aten::mm");
    // aten::mm has a shape of 128 times 1000 times 2048
    assert_eq!(chosen[0]["operations"], 2 * 128 * 1000 * 2048);
    tool.run(&format!(
        "repro {} --op aten::none -o none.py",
        path.display()
    ))
    .exits(2);
    tool.run(&format!("repro {} -o script.txt", path.display()))
        .exits(2);
    assert!(!tool.path("none.py").exists());
}

#[test]
fn ops_of_a_run_without_a_device() {
    let tool = Tool::new();
    let folder = pairs().join("conv-2.15.0");
    tool.run(&format!("repro {} --top 0 -o conv.py", folder.display()))
        .exits(0);
    let names: Vec<Value> = cases(&text(&tool, "conv.py"))
        .into_iter()
        .map(|case| case["op"].clone())
        .collect();
    assert!(names.contains(&Value::from("aten::mkldnn_convolution")));
    // an op that only calls others
    assert!(!names.contains(&Value::from("aten::conv2d")));
}

#[test]
fn text_of_a_trace_is_not_run() {
    let tool = Tool::new();
    let row = r#"{"ph":"X","cat":"kernel","name":"k","ts":20,"dur":5,"pid":0,"tid":7,"args":{"device":0,"stream":7,"correlation":1}}"#;
    let call = r#"{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":11,"dur":2,"pid":1,"tid":1,"args":{"correlation":1}}"#;
    let op = r#"{"ph":"X","cat":"cpu_op","name":"\"),exit(3),(\"\n# CASES","ts":10,"dur":9,"pid":1,"tid":1,"args":{"Input Dims":[[2]],"Input type":["float"]}}"#;
    tool.file(
        "kineto_trace_0.json",
        format!(r#"{{"traceEvents":[{op},{call},{row}]}}"#),
    );
    tool.run("repro kineto_trace_0.json -o odd.py").exits(0);
    let odd = cases(&text(&tool, "odd.py"));
    assert_eq!(odd[0]["op"], "\"),exit(3),(\"\n# CASES");
}
