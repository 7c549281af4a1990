//! Merged JSON (ET+) contains its original traces: commands give the same answers.

use crate::tool::{Tool, pairs, unpacked};
use serde_json::Value;

/// Returns the answer without file names.
fn answer(tool: &Tool, line: &str) -> Value {
    let mut json = tool.run(line).exits(0).runs();
    drop_names(&mut json);
    json
}

fn drop_names(json: &mut Value) {
    match json {
        Value::Object(members) => {
            for name in ["device_trace", "host_trace", "input", "file", "files"] {
                members.remove(name);
            }
            // a rank without a number is named after its file
            members.retain(|name, value| {
                name != "label" || !value.as_str().is_some_and(|label| label.contains(".json"))
            });
            members.values_mut().for_each(drop_names);
        }
        Value::Array(values) => {
            values.retain(|value| !value["message"].as_str().is_some_and(is_of_merged));
            values.iter_mut().for_each(drop_names);
        }
        Value::String(text) => {
            for name in ["kineto_trace_0.json.gz", "kineto_trace_1.json.gz"] {
                *text = text.replace(name, "x.json");
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns true for facts that only merged JSON has.
fn is_of_merged(note: &str) -> bool {
    note.contains("merged JSON has only the data needed for linking")
}

#[test]
fn merged_json_is_answered_as_its_two_traces() {
    let tool = Tool::new();
    let mut compared = 0;
    for folder in std::fs::read_dir(pairs()).expect("lists recordings") {
        let run = folder.expect("entry").path();
        let [host, device] = ["torch_et", "kineto_trace"]
            .map(|kind| run.join(format!("{kind}_0.json.gz")).display().to_string());
        tool.run(&format!(
            "link -f --host {host} --device {device} -o x.json"
        ))
        .exits(0);
        for command in ["analyze", "findings", "replay"] {
            let pair = format!("{command} --json --host {host} {device}");
            let of_pair = answer(&tool, &pair);
            assert_eq!(
                answer(&tool, &format!("{command} --json x.json")),
                of_pair,
                "{pair}"
            );
        }
        compared += 1;
    }
    assert!(compared > 20, "{compared} recordings");
}

#[test]
fn a_folder_of_merged_json_is_answered_as_the_recordings() {
    let tool = Tool::new();
    for run in ["ddp2-2.15.0", "tpdp4-2.15.0", "pipeline4-2.15.0"] {
        tool.run(&format!("merge {{pairs}}/{run} -o {run} --format etplus"))
            .exits(0);
        for command in ["analyze", "findings", "ranks", "replay"] {
            assert_eq!(
                answer(&tool, &format!("{command} --json {run}")),
                answer(&tool, &format!("{command} --json {{pairs}}/{run}")),
                "{command} {run}"
            );
        }
    }
}

/// Names of groups, clocks and the simulator's network match those from the recordings.
#[test]
fn a_folder_of_merged_json_is_merged_as_the_recordings() {
    let tool = Tool::new();
    for run in ["ddp2-2.15.0", "tpdp4-2.15.0"] {
        tool.run(&format!("merge {{pairs}}/{run} -o {run} --format etplus"))
            .exits(0);
        for option in ["", "--for astra-sim"] {
            tool.run(&format!("merge {run} -f -o again/{run} {option}"))
                .exits(0);
            tool.run(&format!("merge {{pairs}}/{run} -f -o once/{run} {option}"))
                .exits(0);
            let (again, once) = (tool.files("again"), tool.files("once"));
            assert!(again == once, "{run} {option}: {:?}", again.keys());
        }
    }
}

#[test]
fn merged_json_from_a_pipe() {
    let tool = Tool::new();
    let run = "{pairs}/mlp-2.15.0";
    tool.run(&format!(
        "link --host {run}/torch_et_0.json.gz --device {run}/kineto_trace_0.json.gz -o x.json"
    ))
    .exits(0);
    let mut piped = tool
        .run_with("analyze - --json", &tool.read("x.json"))
        .exits(0)
        .runs();
    drop_names(&mut piped);
    let mut named = answer(&tool, "analyze x.json --json");
    for json in [&mut piped, &mut named] {
        json[0]["ranks"][0]
            .as_object_mut()
            .expect("a rank")
            .remove("label");
    }
    assert_eq!(piped, named);
}

/// Some of the nodes suffice for figures of ops; a truncated recording inside is not read.
#[test]
fn merged_json_without_a_whole_recording_is_its_nodes() {
    let tool = Tool::new();
    let run = "{pairs}/mlp-2.15.0";
    tool.run(&format!(
        "link --host {run}/torch_et_0.json.gz --device {run}/kineto_trace_0.json.gz -o x.json"
    ))
    .exits(0);
    let text = tool.read("x.json");
    let recording = b"\"recording\":";
    let begin = text
        .windows(recording.len())
        .position(|part| part == recording)
        .expect("a recording");
    tool.file("cut.json", &text[..(begin + text.len()) / 2]);
    tool.run("analyze cut.json")
        .exits(0)
        .notes("results are based only on the nodes: its \"recording\" is damaged");
    tool.run("analyze cut.json --strict").exits(1);
    tool.run("report cut.json -o page.html")
        .exits(0)
        .notes("results are based only on the nodes");
    tool.run("findings cut.json")
        .exits(2)
        .complains(&["cut.json", "its \"recording\" is damaged"]);
    let nodes = [&text[..begin], b"\"finish_ts\": 1}".as_slice()].concat();
    tool.file("theirs.json", nodes);
    tool.run("analyze theirs.json").exits(0);
    tool.run("findings theirs.json").exits(2).complains(&[
        "theirs.json is a merged trace (ET+) that does not contain the traces",
        "give those",
    ]);
    // the nodes contain the ops: time outside them never exceeds the traces' figure
    let whole = tool.run("analyze x.json --json").exits(0).runs();
    for file in ["cut.json", "theirs.json"] {
        let ran = tool.run(&format!("analyze {file} --json")).exits(0);
        let nodes = ran.runs();
        for table in ["steps", "host_ops"] {
            let of = |json: &Value| json[0]["ranks"][0][table].clone();
            assert!(!of(&whole).as_array().is_none_or(Vec::is_empty), "{table}");
            assert_eq!(of(&nodes), of(&whole), "{file}: {table}");
        }
        tool.run(&format!("analyze {file}"))
            .exits(0)
            .notes("nodes of merged JSON (ET+) lack calls");
    }
    tool.run("replay cut.json")
        .exits(2)
        .complains(&["cut.json: its \"recording\" is damaged"]);
    tool.run("replay theirs.json")
        .exits(2)
        .complains(&["theirs.json is a merged trace (ET+) that does not contain the traces"]);
}

/// The number of a descriptor is not a rank.
#[test]
fn merged_json_from_a_descriptor_has_no_rank() {
    let tool = Tool::new();
    let device = "{pairs}/mlp-2.15.0/kineto_trace_0.json.gz";
    tool.run(&format!("link --device {device} -o x.json"))
        .exits(0);
    let ran = tool
        .run_with("analyze /dev/fd/0 --json", &tool.read("x.json"))
        .exits(0);
    assert_eq!(ran.runs()[0]["ranks"][0]["label"], "-");
}

/// A rank of a folder is converted in the context of its run: group names, times and decisions of
/// others.
#[test]
fn a_rank_of_a_folder_is_converted_as_it_is_merged() {
    let tool = Tool::new();
    for run in ["ddp2-2.15.0", "tpdp4-2.15.0", "pipeline4-2.15.0"] {
        tool.run(&format!(
            "merge {{pairs}}/{run} -o trees/{run} --format etplus"
        ))
        .exits(0);
        tool.run(&format!("merge {{pairs}}/{run} -o graphs/{run}"))
            .exits(0);
        for rank in [0, 1] {
            tool.run(&format!("convert trees/{run} --rank {rank} -f one.et"))
                .exits(0);
            let of_merge = tool.read(&format!("graphs/{run}/{run}.{rank}.et"));
            assert!(tool.read("one.et") == of_merge, "{run}, rank {rank}");
        }
    }
    // unjoined ranks are reported
    let whole = tool.read("trees/tpdp4-2.15.0/tpdp4-2.15.0.2.json.gz");
    tool.file(
        "trees/tpdp4-2.15.0/tpdp4-2.15.0.2.json.gz",
        &whole[..whole.len() / 2],
    );
    tool.run("convert trees/tpdp4-2.15.0 --rank 0 -f one.et")
        .exits(0)
        .notes("rank 2 is left out of the join: ");
    tool.run("convert trees/tpdp4-2.15.0 --rank 2 -f one.et")
        .exits(0)
        .notes("rank 2 has no complete recording: it is converted alone");
}

/// Among a rank's three files the recording is found, and a truncated one does not replace a graph.
#[test]
fn a_recording_is_found_among_other_files() {
    let tool = with_both_forms("both", &[]);
    for rank in [0, 1] {
        let graph = tool.read(&format!("graphs/ddp2-2.15.0.{rank}.et"));
        let tree = tool.read(&format!("trees/ddp2-2.15.0.{rank}.json.gz"));
        for folder in ["three", "cut"] {
            tool.file(&format!("{folder}/ddp2-2.15.0.{rank}.et"), &graph);
            tool.file(&format!("{folder}/ddp2-2.15.0.{rank}.json.gz"), &tree);
        }
        let json = format!("three/ddp2-2.15.0.{rank}.json");
        tool.run(&format!("convert graphs/ddp2-2.15.0.{rank}.et {json} -f"))
            .exits(0);
    }
    let matched = |folder: &str| {
        let ranks = tool.run(&format!("ranks {folder} --json")).exits(0).runs();
        ranks[0]["collectives"]["matched"].clone()
    };
    assert_eq!(matched("three"), matched("trees"));
    tool.run("analyze three").exits(0).notes(
        "ddp2-2.15.0.0.json.gz is read because it contains the traces; ddp2-2.15.0.0.et and ddp2-2.15.0.0.json are not read",
    );
    let cut = tool.read("trees/ddp2-2.15.0.0.json.gz")[..20_000].to_vec();
    tool.file("cut/ddp2-2.15.0.0.json.gz", cut);
    tool.run("analyze cut").exits(0).notes(
        "ddp2-2.15.0.0.et is read because it is the graph itself; ddp2-2.15.0.0.json.gz is not read",
    );
    let replayed = |folder: &str| {
        let json = tool.run(&format!("replay {folder} --json")).exits(0).runs();
        json[0]["together"]["ranks"].as_array().map(Vec::len)
    };
    assert_eq!((replayed("cut"), replayed("graphs")), (Some(2), Some(2)));
}

/// Writes a run as merged JSON to `trees`, as `.et` to `graphs`, and selected files of both to
/// `to`.
fn with_both_forms(to: &str, files: &[&str]) -> Tool {
    let tool = Tool::new();
    let source = "{pairs}/ddp2-2.15.0";
    tool.run(&format!("merge {source} -o trees --format etplus"))
        .exits(0);
    tool.run(&format!("merge {source} -o graphs")).exits(0);
    for file in files {
        let name = file.rsplit('/').next().unwrap_or(file);
        tool.file(&format!("{to}/{name}"), tool.read(file));
    }
    tool
}

/// All commands choose the same file of a rank.
#[test]
fn one_file_counts_of_a_rank_that_has_two() {
    let tool = with_both_forms(
        "both",
        &[
            "graphs/ddp2-2.15.0.0.et",
            "graphs/ddp2-2.15.0.1.et",
            "graphs/comm_group.json",
            "trees/ddp2-2.15.0.0.json.gz",
            "trees/ddp2-2.15.0.1.json.gz",
        ],
    );
    let note = "ranks 0, 1 have several files: ddp2-2.15.0.0.json.gz is read because it contains the traces; ddp2-2.15.0.0.et is not read";
    for line in [
        "analyze both",
        "replay both",
        "findings both",
        "ranks both",
        "merge both -f -o out",
        "report both -f -o page.html",
    ] {
        tool.run(line).exits(0).notes(note);
    }
    for command in ["analyze", "replay", "ranks"] {
        let without_note = |line: &str| {
            let mut json = answer(&tool, line);
            if let Some(notes) = json
                .pointer_mut("/0/diagnostics")
                .and_then(Value::as_array_mut)
            {
                notes.retain(|told| told["code"] != "file_left_out");
            }
            json
        };
        assert_eq!(
            without_note(&format!("{command} both --json"))
                .to_string()
                .replace("both", "trees"),
            without_note(&format!("{command} trees --json")).to_string(),
            "{command}"
        );
    }
    tool.run("convert both --rank 1 -f one.et")
        .exits(0)
        .notes("rank 1 has several files: ddp2-2.15.0.1.et is read because it is the graph itself");
    assert!(tool.read("one.et") == tool.read("graphs/ddp2-2.15.0.1.et"));
}

/// Both forms contain the time at which the rank was recorded.
#[test]
fn ranks_in_two_forms_are_of_one_run() {
    let tool = with_both_forms(
        "mixed",
        &[
            "graphs/ddp2-2.15.0.0.et",
            "graphs/comm_group.json",
            "trees/ddp2-2.15.0.1.json.gz",
        ],
    );
    for command in ["analyze", "replay"] {
        let ran = tool.run(&format!("{command} mixed")).exits(0);
        assert!(!ran.stderr.contains("left out"), "{}", ran.shown());
    }
    let json = tool.run("replay mixed --json").exits(0).runs();
    assert_eq!(json[0]["together"]["collectives"]["joined"], 4);
    // a graph contains no traces to link
    for line in ["findings mixed", "ranks mixed", "merge mixed -o out"] {
        let ran = tool.run(line);
        ran.notes("rank 0 is left out: ddp2-2.15.0.0.et has no traces");
    }
}

/// Own times of ops need data that merged JSON lacks.
#[test]
fn top_and_diff_want_the_recording() {
    let tool = Tool::new();
    let device = "{pairs}/mlp-2.15.0/kineto_trace_0.json.gz";
    tool.run(&format!("link --device {device} -o x.json"))
        .exits(0);
    for line in ["top x.json".to_owned(), format!("diff {device} x.json")] {
        tool.run(&line)
            .exits(2)
            .complains(&["x.json is a merged trace (ET+)"]);
    }
}

/// A rank with a damaged recording does not displace whole ones.
#[test]
fn a_damaged_member_of_a_folder_is_left_out() {
    let tool = Tool::new();
    tool.run("merge {pairs}/ddp2-2.15.0 -o run --format etplus")
        .exits(0);
    let whole = tool.read("run/ddp2-2.15.0.1.json.gz");
    for left in [whole.len() - 3000, whole.len() / 4] {
        tool.file("run/ddp2-2.15.0.1.json.gz", &whole[..left]);
        let ran = tool.run("analyze run").exits(1);
        assert!(!ran.stderr.contains("another run"), "{}", ran.shown());
        ran.notes("ddp2-2.15.0.1.json.gz");
    }
}

/// Oddities of the traces are reported for the merged file too.
#[test]
fn merged_json_says_what_was_damaged() {
    let tool = Tool::new();
    let host = unpacked("mlp-2.15.0/torch_et_0.json.gz");
    tool.file("host.json", &host[..host.len() * 9 / 10]);
    let device = "{pairs}/mlp-2.15.0/kineto_trace_0.json.gz";
    tool.run(&format!(
        "link --host host.json --device {device} -o x.json"
    ))
    .exits(0);
    let whole = answer(&tool, &format!("analyze --json --host host.json {device}"));
    assert_eq!(answer(&tool, "analyze --json x.json"), whole);
    tool.run("analyze x.json --strict").exits(1);
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
    let tool = Tool::new();
    let folder = pairs().join("ddp2_gloo-2.15.0").display().to_string();
    tool.run(&format!(
        "link --host {folder}/torch_et_0.json.gz --device {folder}/kineto_trace_0.json.gz -o x.json"
    ))
    .exits(0);
    tool.run("convert x.json x.et")
        .exits(0)
        .notes("collectives and messages written as computation, as in `etlink link`");
}
