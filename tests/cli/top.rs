//! `etlink top`: the profiler's table. `etlink-analysis` compares its figures with PyTorch's.

use crate::tool::{Tool, unpacked};
use etlink_testing::{DeviceQueue, TraceBuilder};

const TRACE: &str = "{pairs}/../averages/transformer-2.15.0/kineto_trace_0.json.gz";

#[test]
fn the_table_has_the_profilers_columns_and_totals() {
    let tool = Tool::new();
    let ran = tool.run(&format!("top {TRACE} -n 3")).exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let columns: Vec<&str> = lines[1]
        .split("  ")
        .map(str::trim)
        .filter(|column| !column.is_empty())
        .collect();
    let head = [
        "Name",
        "Self CPU %",
        "Self CPU",
        "CPU total %",
        "CPU total",
        "CPU time avg",
        "CPU Mem",
        "Self CPU Mem",
        "# of Calls",
    ];
    assert_eq!(columns, head);
    assert_eq!(lines.len(), 2 + 3 + 2, "{}", ran.stdout);
    assert!(
        lines[5].starts_with("  3 of ")
            && lines[5].ends_with(" rows; --rows 0 shows all")
            && lines[6].starts_with("Self CPU time total: "),
        "{}",
        ran.stdout
    );
    let all = tool.run(&format!("top {TRACE} -n 0")).exits(0);
    assert!(
        all.stdout.contains("ProfilerStep*") && !all.stdout.contains("-n 0 shows all"),
        "{}",
        all.stdout
    );
}

#[test]
fn own_times_of_rows_add_up_to_the_total() {
    let tool = Tool::new();
    for trace in [
        TRACE,
        "{pairs}/../averages/threads-2.15.0/kineto_trace_0.json.gz",
        "{pairs}/ddp2_gloo-2.15.0/kineto_trace_0.json.gz",
    ] {
        let said = tool.run(&format!("top {trace} --json")).exits(0).json();
        let table = &said["tables"][0];
        let rows = table["rows"].as_array().expect("rows").iter();
        let own: i64 = rows.filter_map(|row| row["self_host_ns"].as_i64()).sum();
        assert_eq!(Some(own), table["self_host_ns"].as_i64(), "{trace}");
    }
}

#[test]
fn rows_are_sorted_and_grouped_as_asked() {
    let tool = Tool::new();
    let rows = |options: &str| {
        tool.run(&format!("top {TRACE} --json {options}"))
            .exits(0)
            .json()["tables"][0]["rows"]
            .clone()
    };
    let (by_host, by_count, by_shape) =
        (rows("--by host"), rows("--by count"), rows("--group shape"));
    assert_eq!(by_host[0]["name"], "ProfilerStep*");
    assert!(by_count[0]["count"].as_u64() > by_host[0]["count"].as_u64());
    assert!(by_shape.as_array().expect("rows").len() > by_host.as_array().expect("rows").len());
    let by_stack = rows("--group stack --frames 1");
    assert!(
        by_stack
            .as_array()
            .expect("rows")
            .iter()
            .any(|row| row["stack"][0] == "<built-in function linear>")
    );
    assert!(
        rows("--python")
            .as_array()
            .expect("rows")
            .iter()
            .any(|row| row["name"] == "nn.Module: Linear_0")
    );
}

#[test]
fn a_folder_gives_a_table_per_rank_and_ranks_can_be_chosen() {
    let tool = Tool::new();
    let ran = tool
        .run("top {pairs}/../averages/ddp2_gloo-2.15.0 --json")
        .exits(0)
        .json();
    assert_eq!(ran["schema"], "etlink.top");
    let ranks: Vec<_> = ran["tables"]
        .as_array()
        .expect("tables")
        .iter()
        .map(|table| table["rank"].as_i64())
        .collect();
    assert_eq!(ranks, [Some(0), Some(1)]);
    let csv = tool
        .run("top {pairs}/../averages/ddp2_gloo-2.15.0 --ranks 1 --csv")
        .exits(0);
    assert!(
        csv.stdout.starts_with("file,rank,name,")
            && csv
                .stdout
                .lines()
                .skip(1)
                .all(|line| line.contains("kineto_trace_1.json.gz,1,"))
    );
    tool.run("top {pairs}/../averages/ddp2_gloo-2.15.0 --ranks 7")
        .exits(2)
        .complains(&["no traces for the ranks requested with --ranks"]);
}

#[test]
fn shapes_come_from_the_host_trace_where_the_device_trace_has_none() {
    let tool = Tool::new();
    let text = String::from_utf8(unpacked("mlp-2.15.0/kineto_trace_0.json.gz")).expect("text");
    tool.file(
        "kineto_trace_0.json",
        text.replace("\"Input Dims\"", "\"Other\""),
    );
    let rows = |line: &str| tool.run(line).exits(0).json()["tables"][0]["rows"].clone();
    let own = rows("top {pairs}/mlp-2.15.0/kineto_trace_0.json.gz --group shape --json --by host");
    let from_host = rows(
        "top kineto_trace_0.json --host {pairs}/mlp-2.15.0/torch_et_0.json.gz --group shape \
        --json --by host",
    );
    let of = |rows: &serde_json::Value, name: &str| {
        let rows = rows
            .as_array()
            .expect("rows")
            .iter()
            .filter(|row| row["name"] == name);
        rows.map(|row| {
            (
                row["shapes"].clone(),
                row["count"].clone(),
                row["host_ns"].clone(),
            )
        })
        .collect::<Vec<_>>()
    };
    // tensors; for other arguments the two writers differ
    for name in ["aten::mm", "aten::relu", "aten::threshold_backward"] {
        assert!(!of(&own, name).is_empty());
        assert_eq!(of(&own, name), of(&from_host, name), "{name}");
    }
    tool.run("top kineto_trace_0.json --group shape")
        .exits(0)
        .notes("the trace was recorded without shapes");
    tool.run("top kineto_trace_0.json --group stack")
        .exits(0)
        .notes("the trace was recorded without stacks");
}

#[test]
fn what_has_no_times_is_refused() {
    let tool = Tool::new();
    tool.run("top {pairs}/mlp-2.15.0/torch_et_0.json.gz")
        .exits(2)
        .complains(&["is a PyTorch execution trace", "in a Kineto trace"]);
    tool.run("top nowhere.json")
        .exits(2)
        .complains(&["cannot open nowhere.json"]);
    tool.file("empty/readme.txt", "");
    tool.file(
        "noevents.json",
        r#"{"schemaVersion": 1, "traceEvents": []}"#,
    );
    for line in [
        "top noevents.json",
        "analyze noevents.json",
        "diff noevents.json {pairs}/mlp-2.15.0/kineto_trace_0.json.gz",
    ] {
        tool.run(line)
            .exits(2)
            .complains(&["noevents.json", "the device trace has no timed events"]);
    }
    tool.run("top empty")
        .exits(2)
        .complains(&["the folder has no host or device traces"]);
}

#[test]
fn a_tree_of_modules_and_ops() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 100_000);
    for layer in 0..2 {
        let at = 1_000 + 40_000 * layer;
        draw.python(main, &format!("nn.Module: Linear_{layer}"), at, at + 30_000);
        draw.op(main, "aten::mm", at + 1_000, at + 29_000);
        let (call, row) = ((at + 2_000, at + 4_000), (at + 10_000, at + 20_000));
        draw.launch(main, call, DeviceQueue::stream(7), "gemm", row);
    }
    draw.op(main, "aten::zeros", 90_000, 90_500);
    let tool = Tool::new();
    tool.file("trace.json", draw.kineto());
    let tree = tool.run("top trace.json --tree").exits(0).stdout;
    let names: Vec<&str> = tree
        .lines()
        .filter(|line| line.starts_with(' '))
        .filter_map(|line| line.split(" %").nth(1))
        .map(|line| line.trim_end())
        .collect();
    assert_eq!(names.len(), 4, "{tree}");
    assert!(names[1].ends_with("1    step"), "{tree}");
    assert!(names[2].ends_with("2      nn.Module: Linear"), "{tree}");
    assert!(names[3].ends_with("2        aten::mm"), "{tree}");
    assert!(
        tree.contains("1 node hidden: deeper, or below 1 %"),
        "{tree}"
    );
    let shallow = tool.run("top trace.json --tree --depth 1").exits(0).stdout;
    assert!(!shallow.contains("Linear"), "{shallow}");
    let all = tool.run("top trace.json --tree --min-share 0").exits(0);
    all.says("aten::zeros");
    let each = tool.run("top trace.json --tree --each-module").exits(0);
    each.says("nn.Module: Linear_1");
    let folded = tool.run("top trace.json --tree --folded device").exits(0);
    let lines: Vec<&str> = folded.stdout.lines().collect();
    let (stack, ns) = lines[0].rsplit_once(' ').expect("a stack and its time");
    assert_eq!((lines.len(), ns), (1, "20000"), "{lines:?}");
    assert!(
        stack.ends_with(";step;nn.Module: Linear;aten::mm"),
        "{stack}"
    );
    let report = tool.run("top trace.json --tree --json").exits(0).json();
    let nodes = report["tables"][0]["tree"]["nodes"].as_array();
    let nodes = nodes.expect("nodes");
    assert_eq!(nodes.len(), 5);
    assert_eq!(nodes[2]["kind"], "module");
    assert_eq!(nodes[2]["parent"], 1);
    assert_eq!(nodes[3]["self_device_ns"], 20_000);
    let refused = tool.run("top trace.json --depth 2").exits(2);
    assert!(refused.stderr.contains("--tree"), "{}", refused.stderr);
}

/// Indentation that grows with the depth would make 50 MB from 5,000 nested ops.
#[test]
fn a_tree_of_thousands_of_levels_is_legible() {
    const LEVELS: i64 = 5_000;
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for level in 0..LEVELS {
        let name = format!("op_{level}");
        draw.op(main, &name, level * 10, 4 * LEVELS * 10 - level * 10);
    }
    let tool = Tool::new();
    tool.file("trace.json", draw.kineto());
    let tree = tool.run("top trace.json --tree --min-share 0").exits(0);
    let lines: Vec<&str> = tree.stdout.lines().collect();
    assert!(lines.len() as i64 > LEVELS, "{} lines", lines.len());
    let longest = lines.iter().map(|line| line.len()).max();
    assert!(longest < Some(150), "{longest:?} bytes in a line");
    let tree = tree.says("    op_0");
    tree.says("  (level 5000) op_4999");
}
