//! Information in the graph, and the forms of a `.et` that users can request.

use crate::tool::Tool;
use etlink_testing::{DeviceQueue, TraceBuilder};

const THREADS: &str = "--host {pairs}/threads-2.15.0/torch_et_0.json.gz \
    --device {pairs}/threads-2.15.0/kineto_trace_0.json.gz";

/// Generates two streams, a wait between them, and a call that blocks.
fn drawn(tool: &Tool) {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 100_000);
    draw.launch(
        main,
        (10_000, 15_000),
        DeviceQueue::stream(7),
        "gemm",
        (20_000, 400_000),
    );
    draw.call(main, "cudaEventRecord", (20_000, 21_000), None);
    draw.call(main, "cudaStreamWaitEvent", (22_000, 23_000), None);
    draw.launch(
        main,
        (30_000, 35_000),
        DeviceQueue::stream(20),
        "after",
        (402_000, 450_000),
    );
    draw.call(main, "cudaDeviceSynchronize", (110_000, 455_000), None);
    draw.op(main, "aten::item", 500_000, 510_000);
    tool.file("device.json", draw.kineto());
}

#[test]
fn waits_show_in_the_report_and_in_the_replay() {
    let tool = Tool::new();
    drawn(&tool);
    tool.run("link --device device.json")
        .exits(0)
        .says("event wait")
        .says("host wait");
    let figures = &tool.run("replay device.json --json").exits(0).only_run()["figures"];
    assert_eq!(
        (
            &figures["replay_error"],
            &figures["unexplained"]["device_ops"]
        ),
        (&0.0.into(), &0.into())
    );
    assert_eq!(
        (
            &figures["by_edge"]["event_wait"]["inferred"],
            &figures["by_edge"]["host_wait"]["count"]
        ),
        (&1.into(), &2.into())
    );
    // a quicker gemm starts the other stream, and the blocked thread, earlier
    let what_if = &tool
        .run("replay device.json --scale gemm=0.5 --json")
        .exits(0)
        .only_run()["what_if"];
    assert_eq!(what_if["change_ns"], -190_000);
    tool.run("replay device.json --explain after")
        .exits(0)
        .says("event wait, inferred")
        .says("stream 20");
}

#[test]
fn latency_is_folded_a_node_or_dropped() {
    let tool = Tool::new();
    drawn(&tool);
    let nodes = |how: &str| {
        let linked = tool
            .run(&format!(
                "link --device device.json -o {how}.et --latency {how} --json"
            ))
            .exits(0)
            .json();
        tool.run(&format!("check {how}.et")).exits(0);
        let replayed = tool
            .run(&format!("replay {how}.et --json"))
            .exits(0)
            .only_run();
        assert_eq!(replayed["figures"]["replay_error"], 0.0, "{how}");
        linked["written"]["nodes"].as_u64().expect("a count")
    };
    let (fold, node, dropped) = (nodes("fold"), nodes("node"), nodes("drop"));
    assert!(fold == dropped && node > dropped, "{fold} {node} {dropped}");
    tool.run("link --device device.json -o x.json --latency node")
        .exits(2)
        .complains(&["--latency", ".et"]);
}

#[test]
fn without_gaps_the_host_is_quick() {
    let tool = Tool::new();
    drawn(&tool);
    tool.run("link --device device.json -o all.et").exits(0);
    let few = tool
        .run("link --device device.json -o few.et --no-gaps --json")
        .exits(0)
        .json();
    tool.run("check few.et").exits(0);
    assert!(
        few["written"]["nodes"].as_u64()
            < few["report"]["nodes"]
                .as_object()
                .map(|kinds| kinds.values().filter_map(|n| n.as_u64()).sum())
    );
}

#[test]
fn tensors_tie_threads_together_unless_they_are_not_wanted() {
    let tool = Tool::new();
    let edges = |which: &str| {
        let linked = tool
            .run(&format!("link {THREADS} --tensor-deps {which} --json"))
            .exits(0)
            .json();
        linked["report"]["edges"]["tensor"].as_u64().unwrap_or(0)
    };
    let (raw, all, none) = (edges("raw"), edges("all"), edges("none"));
    assert!(raw > 0 && all >= raw && none == 0, "{raw} {all} {none}");
}
