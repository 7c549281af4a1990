//! `etlink diff`: what changed between two runs.

use crate::tool::Tool;
use etlink_testing::{DeviceQueue, TraceBuilder};
use serde_json::json;

const US: i64 = 1_000;

/// Two steps of an op of 30 us that launches a kernel of that many us.
fn draw(kernel: &str, micros: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..2 {
        let begin = step * 200 * US;
        draw.annotation(
            main,
            &format!("ProfilerStep#{step}"),
            begin,
            begin + 150 * US,
        );
        draw.op(main, "aten::mm", begin + 10 * US, begin + 40 * US);
        draw.launch(
            main,
            (begin + 12 * US, begin + 15 * US),
            DeviceQueue::stream(7),
            kernel,
            (begin + 20 * US, begin + (20 + micros) * US),
        );
    }
    draw
}

#[test]
fn a_slower_kernel_is_named_with_its_cost_per_step() {
    let tool = Tool::new();
    tool.file("before.json", draw("gemm", 20).kineto());
    tool.file("after.json", draw("gemm", 32).kineto());
    let said = tool
        .run("diff before.json after.json --json")
        .exits(0)
        .json();
    let want = json!({"name": "gemm", "on_device": true, "kind": "slower", "counts": [1.0, 1.0],
        "times_ns": [20_000, 32_000], "cost_ns": 12_000});
    assert_eq!((&said["per"], &said["changes"][0]), (&json!("step"), &want));
    assert!(
        said["changes"]
            .as_array()
            .expect("rows")
            .iter()
            .skip(1)
            .all(|row| row["kind"] == "same"),
        "{said}"
    );
    tool.run("diff before.json after.json")
        .exits(0)
        .says("device time 20.000 us -> 32.000 us (+60.0 %)")
        .says("+12.000 us");
    let csv = tool.run("diff before.json after.json --csv").exits(0);
    assert!(
        csv.stdout
            .contains("\ngemm,true,slower,1,1,20000,32000,12000,,\n"),
        "{}",
        csv.stdout
    );
    tool.run("diff before.json after.json")
        .exits(0)
        .says("count before  count after  time before  time after")
        .says("before: before.json, 1 rank, 2 steps");
    tool.run("diff before.json before.json")
        .exits(0)
        .says("nothing changed");
    tool.run("diff - -")
        .exits(2)
        .complains(&["only one of the two runs can be standard input"]);
}

#[test]
fn another_kernel_is_added_and_removed() {
    let tool = Tool::new();
    tool.file("before.json", draw("gemm_v1", 20).kineto());
    tool.file("after.json", draw("gemm_v2", 15).kineto());
    let said = tool
        .run("diff before.json after.json --json")
        .exits(0)
        .json();
    let rows: Vec<_> = said["changes"]
        .as_array()
        .expect("rows")
        .iter()
        .take(2)
        .map(|row| (row["name"].clone(), row["kind"].clone()))
        .collect();
    assert_eq!(
        rows,
        [
            (json!("gemm_v1"), json!("removed")),
            (json!("gemm_v2"), json!("added"))
        ]
    );
}

#[test]
fn recorded_runs_by_shape_and_by_stack() {
    let tool = Tool::new();
    let two = "{pairs}/ddp2_gloo-2.15.0 {pairs}/ddp2-2.15.0";
    let said = tool
        .run(&format!("diff {two} --group shape --json"))
        .exits(0)
        .json();
    assert_eq!(
        (&said["runs"][0]["ranks"], &said["runs"][1]["ranks"]),
        (&json!(2), &json!(2))
    );
    assert!(
        said["changes"]
            .as_array()
            .expect("rows")
            .iter()
            .any(|row| row["shapes"].is_string())
    );
    let same = "{pairs}/../averages/transformer-2.15.0";
    tool.run(&format!("diff {same} {same} --group stack --frames 1"))
        .exits(0)
        .says("nothing changed");
    tool.run(&format!("diff {same} nowhere"))
        .exits(2)
        .complains(&["nowhere"]);
}
