//! Impossible device rows, in all commands that read them: reported first, counted alike, and
//! without a verdict on missing data.

use crate::tool::Tool;
use etlink_testing::{DeviceQueue, TraceBuilder};
use serde_json::Value;

const US: i64 = 1_000;
const MS: i64 = 1_000 * US;

/// A launch and the row that the recorder wrote for it.
struct Launched {
    id: i64,
    row: Option<(i64, i64)>,
}

/// Generates steps of 10 ms with 20 launches each; `change` modifies launches by number.
fn steps(count: i64, call: &str, change: impl Fn(usize, &mut Launched)) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.origin(1_000 * MS);
    let main = draw.thread();
    let mut number = 0;
    for step in 0..count {
        let begin = step * 10 * MS;
        draw.annotation(
            main,
            &format!("ProfilerStep#{step}"),
            begin,
            begin + 10 * MS,
        );
        for place in 0..20 {
            let at = begin + 10 * US + place * 450 * US;
            let (op, kernel) = [("aten::mm", "gemm"), ("aten::add", "add")][number % 2];
            draw.op(main, op, at, at + 50 * US);
            let id = draw.next_correlation();
            draw.call(main, call, (at + 10 * US, at + 15 * US), id);
            let mut launched = Launched {
                id,
                row: Some((at + 50 * US, at + 430 * US)),
            };
            change(number, &mut launched);
            if let Some(span) = launched.row {
                draw.kernel(DeviceQueue::stream(7), kernel, span, launched.id);
            }
            number += 1;
        }
    }
    draw
}

/// Returns the count of an anomaly in a command's output for its only rank.
fn count(anomalies: &Value, kind: &str) -> Option<u64> {
    let mut all = anomalies.as_array().into_iter().flatten();
    all.find(|one| one["kind"] == kind)?["count"].as_u64()
}

/// Checks the output of all commands on a trace with `found` anomalies of a kind.
fn expect_damage(tool: &Tool, kind: &str, found: u64) -> [Value; 2] {
    let findings = tool.run("findings t.json --json").exits(0).json();
    let [findings] = [&findings["runs"][0]].map(Value::clone);
    assert_eq!(
        count(&findings["anomalies"][0]["anomalies"], kind),
        Some(found),
        "{findings:#}"
    );
    let analyzed = tool.run("analyze t.json --json").exits(0).json();
    let rank = analyzed["runs"][0]["ranks"][0].clone();
    assert_eq!(count(&rank["anomalies"], kind), Some(found));
    for command in ["findings", "analyze"] {
        let said = tool
            .run(&format!("{command} t.json"))
            .exits(0)
            .stdout
            .clone();
        assert!(said.starts_with("damage: "), "{said}");
    }
    for command in [
        "link --device",
        "replay",
        "top",
        "inspect",
        "analyze",
        "findings",
    ] {
        let said = tool.run(&format!("{command} t.json"));
        let all = said.exits(0);
        assert!(
            format!("{}{}", all.stdout, all.stderr).contains(&found.to_string()),
            "{command}"
        );
        tool.run(&format!("{command} t.json --strict")).exits(1);
    }
    [findings, rank]
}

#[test]
fn an_overlong_row_is_no_busy_time() {
    let tool = Tool::new();
    let overlong = |number: usize, launched: &mut Launched| {
        if number == 10 {
            launched.row = launched.row.map(|(start, _)| (start, start + 3_400 * MS));
        }
    };
    tool.file("t.json", steps(2, "cudaLaunchKernel", overlong).kineto());
    let [findings, rank] = expect_damage(&tool, "row_overlong", 1);
    assert!(
        findings["window_ns"].as_i64() < Some(21 * MS),
        "{findings:#}"
    );
    let busy = rank["utilization"][0]["busy_share"]
        .as_f64()
        .expect("a share");
    assert!((0.7..0.8).contains(&busy), "{busy}");
    for step in rank["steps"].as_array().expect("steps") {
        assert!(
            step["device_window_ns"].as_i64() < Some(10 * MS),
            "{step:#}"
        );
    }
}

#[test]
fn nothing_is_said_of_time_whose_rows_are_lost() {
    let tool = Tool::new();
    let lost = |number: usize, launched: &mut Launched| {
        if !(60..100).contains(&number) {
            launched.row = None;
        }
    };
    tool.file("t.json", steps(32, "cudaLaunchKernel", lost).kineto());
    let [findings, rank] = expect_damage(&tool, "launch_without_row", 600);
    assert_eq!(findings["is_unknown"], true);
    assert_eq!(findings["findings"], Value::Array(vec![]));
    assert_eq!(rank["utilization"][0]["busy_share"], Value::Null);
    assert_eq!(rank["utilization"][0]["idle_ns"], 0);
    assert_eq!(rank["idle"], Value::Array(vec![]));
}

#[test]
fn a_stretch_without_rows_is_left_out_of_all_shares() {
    let tool = Tool::new();
    let lost = |number: usize, launched: &mut Launched| {
        if (100..160).contains(&number) {
            launched.row = None;
        }
    };
    tool.file(
        "whole.json",
        steps(32, "hipLaunchKernel", |_, _| {}).kineto(),
    );
    tool.file("t.json", steps(32, "hipLaunchKernel", lost).kineto());
    let [findings, rank] = expect_damage(&tool, "launch_without_row", 60);
    let whole = tool.run("analyze whole.json --json").exits(0).json();
    let whole = &whole["runs"][0]["ranks"][0]["utilization"][0];
    let used = &rank["utilization"][0];
    // three steps of 32
    let unknown = used["unknown_ns"].as_i64().expect("ns");
    assert!((29 * MS..31 * MS).contains(&unknown), "{used:#}");
    assert_eq!(findings["unknown_ns"], unknown);
    let share = |used: &Value| used["busy_share"].as_f64().expect("a share");
    assert!(
        (share(used) - share(whole)).abs() < 0.01,
        "{used:#} {whole:#}"
    );
    tool.run("findings whole.json --strict").exits(0);
}

#[test]
fn rows_of_a_shared_correlation_go_to_their_launches() {
    let tool = Tool::new();
    let shared = |number: usize, launched: &mut Launched| launched.id -= (number % 2) as i64;
    tool.file("t.json", steps(2, "hipLaunchKernel", shared).kineto());
    let [_, rank] = expect_damage(&tool, "correlation_shared", 20);
    let kernels = rank["kernels"].as_array().expect("kernels");
    let add = kernels.iter().find(|kernel| kernel["name"] == "add");
    assert_eq!(add.expect("a kernel")["op"], "aten::add");
}

#[test]
fn rows_of_time_0_make_no_idle_time() {
    let tool = Tool::new();
    let zero = |number: usize, launched: &mut Launched| {
        if number % 4 == 3 {
            launched.row = Some((-1_000 * MS, -1_000 * MS));
        }
    };
    tool.file("t.json", steps(2, "cudaLaunchKernel", zero).kineto());
    let [findings, rank] = expect_damage(&tool, "row_without_time", 10);
    assert_eq!(findings["is_unknown"], true);
    assert_eq!(rank["idle"], Value::Array(vec![]));
    let kernels = rank["kernels"].as_array().expect("kernels").iter();
    let rows: u64 = kernels.filter_map(|kernel| kernel["count"].as_u64()).sum();
    assert_eq!(rows, 30);
}

#[test]
fn a_trace_without_device_rows_gets_the_recorders_reason() {
    let tool = Tool::new();
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 50 * US);
    draw.trailing_metadata(
        "ERROR",
        r#"["ERROR:2026-01-08 08:51:59 865:3386 CuptiActivityApi.cpp:42] CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"]"#,
    );
    tool.file("t.json", draw.kineto());
    expect_damage(&tool, "recorder_failed", 1);
    tool.run("findings t.json")
        .exits(0)
        .says("INSUFFICIENT_PRIVILEGES");
}
