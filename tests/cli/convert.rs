//! `etlink convert`: lossless conversions and their limits.

use crate::tool::{Tool, gzip, pairs, unpacked};
use etlink_chakra::messages::{Losses, for_each_message, write_et, write_json};

/// Writes the ranks of a recorded run to `run`.
fn written_run() -> Tool {
    let tool = Tool::new();
    tool.run("merge {pairs}/tpdp4-2.15.0 -o run").exits(0);
    tool
}

const RANK: &str = "run/tpdp4-2.15.0.0.et";

/// Converts a file between the two lossless forms.
fn turned(bytes: &[u8], to_json: bool) -> Vec<u8> {
    let mut out = vec![];
    let mut lost_in_json = Losses::default();
    let losses = for_each_message(bytes, &mut |message| match to_json {
        true => write_json(message, &mut out, &mut lost_in_json),
        false => write_et(&message, &mut out),
    });
    assert!(losses.expect("reads").is_empty() && lost_in_json.is_empty());
    out
}

#[test]
fn all_recordings_come_back_from_json_byte_by_byte() {
    let tool = Tool::new();
    tool.run("merge {pairs} -o all").exits(0);
    let written = tool.files("all");
    let graphs = written.iter().filter(|(name, _)| name.ends_with(".et"));
    let mut compared = 0;
    for (name, bytes) in graphs {
        let back = turned(&turned(bytes, true), false);
        assert!(back == *bytes, "{name}");
        compared += 1;
    }
    assert!(compared > 30, "{compared} files");
}

#[test]
fn a_rank_comes_back_from_json_and_tables_byte_by_byte() {
    let tool = written_run();
    for (middle, back) in [("x.json", "json.et"), ("x.parquet", "tables.et")] {
        tool.run(&format!("convert {RANK} {middle} --strict"))
            .exits(0);
        tool.run(&format!("convert {middle} {back} --strict"))
            .exits(0);
        assert!(tool.read(back) == tool.read(RANK), "by way of {middle}");
    }
}

/// Whole or cut traces: their nodes, linked again, are a graph without faults.
#[test]
fn merged_json_becomes_a_graph_that_check_takes() {
    let tool = Tool::new();
    let mut converted = 0;
    let mut convert = |traces: &str| {
        tool.run(&format!("link -f {traces} -o tree.json")).exits(0);
        tool.run("convert -f tree.json again.et").exits(0);
        tool.run("check again.et").exits(0);
        converted += 1;
    };
    for folder in std::fs::read_dir(pairs()).expect("lists recordings") {
        let run = folder.expect("entry").path();
        let [host, device] = ["torch_et", "kineto_trace"]
            .map(|kind| run.join(format!("{kind}_0.json.gz")).display().to_string());
        convert(&format!("--host {host} --device {device}"));
    }
    let device = unpacked("ddp2-2.15.0/kineto_trace_0.json.gz");
    for percent in (40..100).step_by(6) {
        tool.file("cut.json", &device[..device.len() * percent / 100]);
        convert("--host {pairs}/ddp2-2.15.0/torch_et_0.json.gz --device cut.json");
    }
    assert!(converted > 30, "{converted} ranks");
}

#[test]
fn merged_json_has_no_edges_through_tensors() {
    let tool = Tool::new();
    let device = "{pairs}/ddp2-2.15.0/kineto_trace_0.json.gz";
    tool.run(&format!(
        "link --device {device} -o x.json --tensor-deps all"
    ))
    .exits(2)
    .complains(&["--tensor-deps does not apply to merged JSON"]);
}

#[test]
fn merged_json_by_way_of_other_formats() {
    let tool = Tool::new();
    let traces = "--host {pairs}/ddp2-2.15.0/torch_et_0.json.gz \
        --device {pairs}/ddp2-2.15.0/kineto_trace_0.json.gz";
    tool.run(&format!("link {traces} -o x.json.gz")).exits(0);
    let packed = tool.read("x.json.gz");
    tool.run_with("convert - x.et", &packed).exits(0);
    for (from, to) in [("x.json.gz", "minimal.et"), ("x.et", "less.et")] {
        tool.run(&format!("convert {from} {to} --attrs minimal"))
            .exits(0);
    }
    assert!(tool.read("less.et") == tool.read("minimal.et"));
    for middle in ["y.json", "y.parquet"] {
        tool.run(&format!("convert x.json.gz {middle}")).exits(0);
        tool.run(&format!("convert -f {middle} back.et")).exits(0);
        assert!(tool.read("back.et") == tool.read("x.et"), "{middle}");
    }
}

/// Builds a document in the style of `chakra_trace_link`: Python's spaces, ids from 0, nothing
/// specific to etlink.
fn as_of_trace_link(json: &[u8]) -> Vec<u8> {
    let mut document: serde_json::Value = serde_json::from_slice(json).expect("JSON");
    let members = document.as_object_mut().expect("an object");
    members.remove("linked_by");
    for node in document["nodes"].as_array_mut().expect("a list") {
        for key in ["id", "ctrl_deps"] {
            node[key] = (node[key].as_u64().expect("an id") - 1).into();
        }
    }
    serde_json::to_vec_pretty(&document).expect("JSON")
}

#[test]
fn merged_json_of_others_says_what_is_lost() {
    let tool = Tool::new();
    let run = "{pairs}/transformer-2.15.0";
    tool.run(&format!(
        "link --host {run}/torch_et_0.json.gz --device {run}/kineto_trace_0.json.gz -o ours.json"
    ))
    .exits(0);
    tool.file("theirs.json", as_of_trace_link(&tool.read("ours.json")));
    tool.run("inspect theirs.json")
        .exits(0)
        .says("a merged trace (ET+)");
    tool.run("convert theirs.json x.et")
        .exits(0)
        .notes("not in the output: runtime calls, host waits and waits between streams");
    tool.run("check x.et --strict").exits(0);
    tool.run("convert theirs.json y.et --strict")
        .exits(1)
        .complains(&["runtime calls, host waits"]);
    assert!(!tool.path("y.et").exists());
}

/// Reducing a full file gives the minimal one, byte for byte.
#[test]
fn a_full_file_becomes_the_minimal_one() {
    let tool = Tool::new();
    for (run, options) in [
        ("tpdp4-2.15.0", "--for astra-sim"),
        ("transformer-2.15.0", ""),
    ] {
        for attributes in ["full", "minimal"] {
            let to = format!("{run}-{attributes}");
            tool.run(&format!(
                "merge {{pairs}}/{run} -o {to} {options} --attrs {attributes}"
            ))
            .exits(0);
        }
        let file = format!("{run}.0.et");
        tool.run(&format!(
            "convert {run}-full/{file} {run}.et --attrs minimal --strict"
        ))
        .exits(0)
        .notes("that simulators do not read");
        let expected = tool.read(&format!("{run}-minimal/{file}"));
        assert!(tool.read(&format!("{run}.et")) == expected, "{run}");
        tool.run(&format!(
            "convert {run}-full/{file} same-{file} --attrs full"
        ))
        .exits(0);
        assert!(tool.read(&format!("same-{file}")) == tool.read(&format!("{run}-full/{file}")));
    }
    tool.run("convert tpdp4-2.15.0.et more.et --attrs full")
        .complains(&["--attrs full", "link the recording again"]);
    assert!(!tool.path("more.et").exists());
    tool.run("convert tpdp4-2.15.0.et x.dot --attrs minimal")
        .complains(&["--attrs applies only to .et files"]);
}

#[test]
fn packed_files_and_standard_output() {
    let tool = written_run();
    tool.file("packed.et.gz", gzip(&tool.read(RANK)));
    tool.run("convert packed.et.gz x.json.gz").exits(0);
    tool.run("convert x.json.gz back.et").exits(0);
    assert!(tool.read("back.et") == tool.read(RANK));
    let ran = tool
        .run(&format!("convert {RANK} - --to dot --range 3..5"))
        .exits(0);
    assert!(ran.stdout.starts_with("digraph {"), "{}", ran.stdout);
}

#[test]
fn what_is_lost_is_said_and_refused() {
    let tool = written_run();
    let bytes = tool.read(RANK);
    tool.file("cut.et", &bytes[..bytes.len() - 5]);
    tool.run("convert cut.et cut.json --strict")
        .exits(1)
        .complains(&["truncated messages at the end of the file: 1"]);
    assert!(!tool.path("cut.json").exists());
    tool.run("convert cut.et cut.json")
        .exits(0)
        .notes("not in the output: truncated messages at the end of the file: 1");
    // the file states its number of nodes, and half of them are missing
    tool.file("half.et", &bytes[..bytes.len() / 2]);
    let ran = tool.run("convert half.et half.json --json").exits(0);
    let report = ran.json();
    let whole = tool
        .run(&format!("convert {RANK} whole.json --json"))
        .exits(0);
    let whole = whole.json();
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    assert_eq!(
        number(&report["nodes"]) + number(&report["losses"]["missing_node"]),
        number(&whole["nodes"])
    );
    // a selected part is not a loss
    tool.run(&format!("convert {RANK} part.dot --range 3..9 --strict"))
        .exits(0)
        .says("7 nodes");
}

#[test]
fn pictures_of_graphs_and_trees() {
    let tool = written_run();
    tool.run(&format!("convert {RANK} x.graphml")).exits(0);
    tool.run(&format!("convert {RANK} x.dot --step 99"))
        .exits(2)
        .complains(&["ProfilerStep#99", "existing steps: "]);
    tool.run(
        "link --host {pairs}/tpdp4-2.15.0/torch_et_0.json.gz --device \
        {pairs}/tpdp4-2.15.0/kineto_trace_0.json.gz -o tree.json",
    )
    .exits(0);
    tool.run("convert tree.json tree.dot --depth 2")
        .exits(0)
        .says("merged JSON (ET+)");
    let upper = String::from_utf8(tool.read("tree.dot")).expect("is text");
    assert!(upper.contains("|process]") && upper.contains("style = dashed"));
}

#[test]
fn a_run_as_goal() {
    let tool = written_run();
    for how in ["ring", "tree", "pairwise"] {
        tool.run(&format!(
            "convert run {how}.goal --collectives {how} --strict"
        ))
        .exits(0)
        .says("of 4 ranks");
        let text = String::from_utf8(tool.read(&format!("{how}.goal"))).expect("is text");
        assert!(text.starts_with("num_ranks 4\n"));
        let count = |word: &str| text.matches(word).count();
        assert!(count(": send ") > 0);
        assert_eq!(count(": send "), count(": recv "));
    }
    tool.run("convert run x.et")
        .exits(2)
        .complains(&["the folder has 4 ranks", "--rank"]);
    tool.run("convert run --rank 2 x.et").exits(0);
    assert!(tool.read("x.et") == tool.read("run/tpdp4-2.15.0.2.et"));
}

#[test]
fn formats_that_do_not_go_together_are_refused_with_the_way() {
    let tool = written_run();
    tool.run("analyze {pairs}/mlp-2.15.0 --parquet tables")
        .exits(0);
    tool.run("convert tables x.et")
        .complains(&["tables of analyze", "`etlink link`"]);
    tool.run(
        "link --device {pairs}/tpdp4-2.15.0/kineto_trace_0.json.gz --format etplus -o tree.json",
    )
    .exits(0);
    tool.run("convert tree.json x.goal")
        .exits(2)
        .complains(&["make their .et files with"]);
    tool.run("convert {pairs}/tpdp4-2.15.0/torch_et_0.json.gz x.et")
        .exits(2)
        .complains(&["etlink link --host ET --device KINETO -o x.et"]);
    tool.run(&format!("convert {RANK} x.json --to etplus"))
        .exits(2)
        .complains(&["a graph of slices has no tree of ops"]);
    tool.run(&format!("convert {RANK} x.json --from jsonizer"))
        .exits(2)
        .complains(&["is Chakra protobuf"]);
    tool.run(&format!("convert {RANK} x.unknown"))
        .exits(2)
        .complains(&["--to"]);
    tool.run(&format!("convert {RANK} x.json --depth 3"))
        .exits(2)
        .complains(&["select what is drawn"]);
    tool.run("convert {pairs}/tpdp4-2.15.0/kineto_trace_0.json.gz x.et")
        .exits(2)
        .complains(&["not a format that convert reads", "etlink link --device"]);
    tool.run(&format!("convert -f {RANK} {RANK}"))
        .exits(2)
        .complains(&["is also an input"]);
}

#[test]
fn tables_are_replaced_as_a_whole() {
    let tool = written_run();
    tool.run(&format!("convert {RANK} x.parquet")).exits(0);
    tool.run(&format!("convert {RANK} x.parquet -f")).exits(0);
    tool.file("x.parquet/edges.parquet", "mine");
    tool.run(&format!("convert {RANK} x.parquet -f"))
        .exits(2)
        .complains(&["edges.parquet", "etlink did not write it"]);
    assert_eq!(tool.read("x.parquet/edges.parquet"), b"mine");
}

#[test]
fn a_run_with_a_cut_rank_is_no_whole_goal() {
    let tool = written_run();
    let bytes = tool.read(RANK);
    tool.file(RANK, &bytes[..bytes.len() / 2]);
    tool.run("convert run cut.goal --strict")
        .exits(1)
        .complains(&["nodes that the file states but does not contain"]);
    assert!(!tool.path("cut.goal").exists());
    tool.run("convert run cut.goal")
        .exits(0)
        .notes("not in the output: nodes that the file states");
    tool.run(&format!("convert {RANK} cut.graphml --strict"))
        .exits(1)
        .complains(&["nodes that the file states"]);
}

/// An empty output would look like a successful conversion.
#[test]
fn what_has_no_whole_node_is_not_converted() {
    let tool = written_run();
    tool.run(&format!("convert {RANK} whole.json")).exits(0);
    let json = tool.read("whole.json");
    let metadata = json.windows(4).position(|four| four == b"\n}\n{");
    let length = metadata.expect("metadata and a node") + 40;
    tool.file("cut.json", &json[..length]);
    for output in ["cut.et", "cut.parquet", "cut.goal"] {
        tool.run(&format!("convert cut.json {output}"))
            .exits(2)
            .complains(&["cut.json", "no complete node", "truncated messages"]);
        assert!(!tool.path(output).exists(), "{output}");
    }
}

#[test]
fn goal_of_one_rank_says_how_many_are_missing() {
    let tool = written_run();
    for rank in [0, 1] {
        tool.run(&format!(
            "convert run/tpdp4-2.15.0.{rank}.et x.goal --strict"
        ))
        .exits(1)
        .complains(&[
            "ranks without a file, written as idle ranks: 3",
            "collectives of a group with missing ranks",
        ]);
    }
}

#[test]
fn standard_input_is_converted() {
    let tool = written_run();
    let bytes = tool.read(RANK);
    for (input, output) in [
        (bytes.clone(), "x.json"),
        (gzip(&bytes), "packed.json"),
        (bytes.clone(), "x.parquet"),
        (bytes.clone(), "x.graphml"),
        (bytes.clone(), "x.goal"),
    ] {
        tool.run_with(&format!("convert - {output}"), &input)
            .exits(0);
    }
    tool.run(&format!("convert {RANK} file.json")).exits(0);
    assert!(tool.read("x.json") == tool.read("file.json"));
    assert!(tool.read("packed.json") == tool.read("file.json"));
    tool.run_with("convert - y.json", b"").exits(2);
}

#[test]
fn an_execution_trace_is_called_what_it_is() {
    let tool = Tool::new();
    let trace = "{pairs}/tpdp4-2.15.0/torch_et_0.json.gz";
    tool.run(&format!("convert {trace} x.et"))
        .exits(2)
        .complains(&[
            "torch_et_0.json.gz: cannot convert an execution trace of PyTorch",
            "etlink link --host ET --device KINETO -o x.et",
        ]);
    tool.run(&format!("convert {trace} x.dot --depth 3"))
        .exits(0)
        .says("an execution trace of PyTorch");
}

#[test]
fn a_workload_of_simai_becomes_a_run() {
    let tool = Tool::new();
    let text = |stages: u32| {
        format!(
            "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: {stages} vpp: 1 \
            ga: 1 all_gpus: 8 checkpoints: 0 checkpoint_initiates: 0\n1\n\
            moe\t-1\t2000\tALLTOALL_EP\t4096\t2000\tALLREDUCE\t4096\t1000\tREDUCESCATTER\t8192\t100\n"
        )
    };
    tool.file("one.txt", text(1));
    tool.run("convert one.txt run")
        .exits(0)
        .says("one.txt (a workload of SimAI) -> run (Chakra protobuf): 48 nodes");
    tool.run("check run --strict")
        .exits(0)
        .says("ok, 8 ranks together");
    assert!(tool.path("run/network.yml").exists());
    tool.file("two.txt", text(2));
    tool.run("convert two.txt half")
        .exits(0)
        .notes("one of 2 pipeline stages");
    tool.run("check half").exits(0).says("4 ranks together");
    for (output, complaint) in [
        ("x.json", "first convert it to a folder"),
        ("x --to goal", "first convert it to a folder"),
        ("x --attrs minimal", "--attrs"),
        ("-", "standard output cannot take several files"),
    ] {
        tool.run(&format!("convert one.txt {output}"))
            .exits(2)
            .complains(&[complaint]);
    }
    tool.file("cut.txt", text(1).replace("\n1\n", "\n2\n"));
    tool.run("convert cut.txt x")
        .exits(2)
        .complains(&["cut.txt", "2 layers"]);
}
