//! Merged JSON (ET+) is read by its nodes: as they are, or linked again.

use crate::tool::{Tool, pairs};
use serde_json::Value;

/// Writes a pair of traces as merged JSON to `x.json`, and as a `.et` to `x.et`.
fn linked(run: &str) -> Tool {
    let tool = Tool::new();
    let folder = pairs().join(run).display().to_string();
    for output in ["x.json", "x.et"] {
        tool.run(&format!(
            "link --host {folder}/torch_et_0.json.gz --device {folder}/kineto_trace_0.json.gz -o {output}"
        ))
        .exits(0);
    }
    tool
}

/// A recording without devices has no runtime calls, so its nodes say nearly all.
#[test]
fn merged_json_is_replayed_nearly_as_its_two_traces() {
    for run in ["mlp-2.15.0", "ddp2-2.15.0", "transformer-2.3.1"] {
        let tool = linked(run);
        let makespan = |file: &str| {
            let ran = tool.run(&format!("replay {file} --json")).exits(0);
            ran.runs()[0]["figures"]["replayed_ns"]
                .as_f64()
                .expect("a time")
        };
        let (graph, tree) = (makespan("x.et"), makespan("x.json"));
        assert!((tree - graph).abs() < 0.01 * graph, "{run}: {tree} {graph}");
        tool.run("replay x.json")
            .exits(0)
            .notes("which merged JSON lacks (each kernel is launched as late in its op");
        tool.run("convert x.json again.et").exits(0);
        tool.run("check again.et").exits(0);
        assert_eq!(makespan("again.et"), tree, "{run}");
    }
}

/// The nodes contain the ops.
#[test]
fn merged_json_is_analyzed_by_its_nodes() {
    let tool = linked("mlp-2.15.0");
    let device = "{pairs}/mlp-2.15.0/kineto_trace_0.json.gz";
    let whole = tool
        .run(&format!("analyze {device} --json"))
        .exits(0)
        .runs();
    let nodes = tool.run("analyze x.json --json").exits(0).runs();
    let text = tool.read("x.json");
    let [piped, named] = ["-", "/dev/fd/0"].map(|file| {
        let ran = tool.run_with(&format!("analyze {file} --json"), &text);
        ran.exits(0).runs()
    });
    for table in ["steps", "host_ops"] {
        let of = |json: &Value| json[0]["ranks"][0][table].clone();
        assert!(!of(&whole).as_array().is_none_or(Vec::is_empty), "{table}");
        assert_eq!(of(&nodes), of(&whole), "{table}");
        assert_eq!(of(&piped), of(&whole), "{table}");
        assert_eq!(of(&named), of(&whole), "{table}");
    }
    // the number of a descriptor is not a rank
    assert_eq!(named[0]["ranks"][0]["label"], "-");
    tool.run("analyze x.json")
        .exits(0)
        .notes("nodes of merged JSON (ET+) lack calls");
    tool.run("report x.json -o page.html").exits(0);
    tool.file("cut.json", &text[..text.len() / 2]);
    tool.run("analyze cut.json").exits(0);
    for line in ["analyze cut.json --strict", "replay cut.json --strict"] {
        tool.run(line).exits(1);
    }
}

#[test]
fn commands_that_need_traces_refuse_merged_json() {
    let tool = linked("mlp-2.15.0");
    let device = "{pairs}/mlp-2.15.0/kineto_trace_0.json.gz";
    for line in [
        "findings x.json".to_owned(),
        "top x.json".to_owned(),
        "link --device x.json -o y.et".to_owned(),
        format!("diff {device} x.json"),
    ] {
        tool.run(&line).exits(2).complains(&[
            "x.json is a merged trace (ET+)",
            "give one of the traces it was made from",
        ]);
    }
    tool.run("merge {pairs}/ddp2-2.15.0 -o run --format etplus")
        .exits(0);
    for line in ["findings run", "ranks run", "merge run -o out"] {
        tool.run(line)
            .exits(2)
            .complains(&["run has no host or device traces, only graphs that etlink wrote"]);
    }
}

/// All commands choose the same file of a rank. Both forms have the time at which the rank was
/// recorded.
#[test]
fn a_folder_may_have_ranks_in_two_forms() {
    let tool = Tool::new();
    for (folder, format) in [("trees", "etplus"), ("graphs", "chakra")] {
        tool.run(&format!(
            "merge {{pairs}}/ddp2-2.15.0 -o {folder} --format {format}"
        ))
        .exits(0);
    }
    for name in ["0.et", "1.et"] {
        let graph = tool.read(&format!("graphs/ddp2-2.15.0.{name}"));
        tool.file(&format!("both/ddp2-2.15.0.{name}"), graph);
    }
    for name in ["0.json.gz", "1.json.gz"] {
        let tree = tool.read(&format!("trees/ddp2-2.15.0.{name}"));
        tool.file(&format!("both/ddp2-2.15.0.{name}"), tree);
    }
    tool.file(
        "mixed/ddp2-2.15.0.0.et",
        tool.read("graphs/ddp2-2.15.0.0.et"),
    );
    let tree = tool.read("trees/ddp2-2.15.0.1.json.gz");
    tool.file("mixed/ddp2-2.15.0.1.json.gz", tree);
    for folder in ["both", "mixed"] {
        let groups = tool.read("graphs/comm_group.json");
        tool.file(&format!("{folder}/comm_group.json"), groups);
    }
    for line in ["analyze both", "replay both", "report both -f -o page.html"] {
        tool.run(line).exits(0).notes(
            "ranks 0, 1 have several files: ddp2-2.15.0.0.et is read because it is the graph itself; \
             ddp2-2.15.0.0.json.gz is not read",
        );
    }
    for command in ["analyze", "replay"] {
        tool.run(&format!("{command} mixed"))
            .exits(1)
            .notes("rank 0 is left out: ");
    }
    tool.run("convert trees --rank 1 one.et").exits(0);
    tool.run("check one.et").exits(0);
}

/// Like on a full disk: the part before the end is converted, with a note.
#[test]
fn a_packed_file_that_is_cut_is_converted_as_far_as_it_goes() {
    let tool = Tool::new();
    let folder = pairs().join("ddp2-2.15.0").display().to_string();
    tool.run(&format!(
        "link --host {folder}/torch_et_0.json.gz --device {folder}/kineto_trace_0.json.gz -o whole.json.gz"
    ))
    .exits(0);
    let whole = tool.read("whole.json.gz");
    tool.file("cut.json.gz", &whole[..whole.len() / 2]);
    tool.run("convert cut.json.gz cut.et")
        .exits(0)
        .notes("truncated messages at the end of the file: 1");
    tool.run("check cut.et").exits(0);
}

#[test]
fn communications_that_become_computation_are_told() {
    let tool = linked("ddp2_gloo-2.15.0");
    tool.run("convert x.json again.et")
        .exits(0)
        .notes("collectives and messages written as computation, as in `etlink link`");
}
