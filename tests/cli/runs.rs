//! Inputs that every command accepts as a run: folders of traces, of written graphs, of both.

use crate::tool::{Tool, unpacked};

/// Merges two runs in separate folders into `demo`.
fn two_runs(tool: &Tool, format: &str) {
    tool.shell("mkdir in && cp -r {pairs}/ddp2-2.15.0 {pairs}/tpdp4-2.15.0 in")
        .exits(0);
    tool.run(&format!("merge in -o demo --format {format}"))
        .exits(0);
}

#[test]
fn written_graphs_in_subfolders_are_runs_for_every_command() {
    let tool = Tool::new();
    two_runs(&tool, "chakra");
    let analyzed = tool.run("analyze demo --json").exits(0).runs();
    let runs = analyzed.as_array().expect("a list of runs");
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0]["run"], "ddp2-2.15.0");
    assert_eq!(runs[0]["ranks"].as_array().expect("ranks").len(), 2);
    assert_eq!(runs[1]["run"], "tpdp4-2.15.0");
    let replayed = tool.run("replay demo --json").exits(0).runs();
    assert_eq!(replayed.as_array().expect("a list of runs").len(), 2);
    tool.run("check demo").exits(0);
    // a page covers one run
    tool.run("report demo -o page.html").exits(2).complains(&[
        "demo",
        "2 runs",
        "demo/ddp2-2.15.0",
    ]);
    tool.run("report demo/ddp2-2.15.0 -o page.html").exits(0);
}

#[test]
fn folders_of_merged_traces_are_runs() {
    let tool = Tool::new();
    two_runs(&tool, "etplus");
    let analyzed = tool.run("analyze demo --json").exits(0).runs();
    assert_eq!(analyzed[0]["run"], "ddp2-2.15.0");
    assert_eq!(analyzed[0]["ranks"].as_array().expect("ranks").len(), 2);
    tool.run("report demo/ddp2-2.15.0 -o page.html").exits(0);
    let replayed = tool.run("replay demo --json").exits(0).runs();
    assert_eq!(replayed.as_array().expect("a list of runs").len(), 2);
}

#[test]
fn commands_that_want_traces_say_what_takes_graphs() {
    let tool = Tool::new();
    two_runs(&tool, "chakra");
    for line in ["ranks demo", "merge demo -o out", "top demo"] {
        tool.run(line).exits(2).complains(&[
            "demo has no host or device traces",
            "graphs that etlink wrote",
            "the folder of the traces",
        ]);
    }
    std::fs::create_dir(tool.path("empty")).expect("makes folder");
    tool.run("ranks empty").exits(2).complains(&[
        "empty: the folder has no host or device traces",
        "names such as",
    ]);
}

#[test]
fn a_rank_that_contradicts_the_trace_is_taken_where_that_is_allowed() {
    let tool = Tool::new();
    let trace = "{pairs}/ddp2-2.15.0/kineto_trace_0.json.gz";
    tool.run(&format!("analyze {trace} --rank 5"))
        .exits(2)
        .complains(&["rank"]);
    tool.run(&format!("analyze {trace} --rank 5 --allow-mismatch"))
        .exits(0);
}

#[test]
fn a_view_that_etlink_wrote_is_no_recording() {
    let tool = Tool::new();
    tool.shell("cp -r {pairs}/ddp2-2.15.0 in && rm -f in/RECIPE")
        .exits(0);
    let device = "in/kineto_trace_0.json.gz";
    tool.run(&format!("link --device {device} -o in/rank2.trace.json"))
        .exits(0);
    let ranks = tool.run("ranks in --json").exits(0).runs();
    assert_eq!(ranks[0]["ranks"].as_array().expect("ranks").len(), 2);
    assert_eq!(ranks[0]["excluded"].as_array().expect("a list").len(), 0);
    let notes = ranks[0]["diagnostics"].to_string();
    assert!(notes.contains("rank2.trace.json"), "{notes}");
    tool.run("link --device in/rank2.trace.json")
        .exits(2)
        .complains(&["rank2.trace.json", "timeline for Perfetto"]);
}

#[test]
fn excluded_traces_have_one_shape_in_every_report() {
    let tool = Tool::new();
    tool.shell("cp -r {pairs}/ddp2-2.15.0 in && rm -f in/RECIPE")
        .exits(0);
    tool.file("in/kineto_trace_2.json", "{\"traceEvents\": [");
    for command in ["ranks", "analyze", "replay", "top"] {
        let report = tool.run(&format!("{command} in --json")).exits(1).json();
        let run = match command {
            "replay" => &report["runs"][0]["together"],
            "top" => &report,
            _ => &report["runs"][0],
        };
        let excluded = &run["excluded"][0];
        assert_eq!(excluded["label"], "2", "{command}: {run}");
        assert_eq!(excluded["reason"], "unreadable", "{command}: {excluded}");
        let message = excluded["message"].as_str().expect("a message");
        assert!(
            message.contains("kineto_trace_2.json"),
            "{command}: {message}"
        );
    }
}

#[test]
fn each_command_says_once_who_is_not_taken_and_ends_with_the_same_code() {
    let copy = |tool: &Tool, case: &str, ranks: &[i64], as_rank: Option<i64>| {
        for rank in ranks {
            for kind in ["torch_et", "kineto_trace"] {
                let content = unpacked(&format!("{case}/{kind}_{rank}.json.gz"));
                let rank = as_rank.unwrap_or(*rank);
                tool.file(&format!("run/{kind}_{rank}.json"), content);
            }
        }
    };
    let absent = ("no trace of rank 2, 3", "no trace of ranks 2, 3 (requested");
    let is_said = |line: &&str| {
        let parts = [
            "left out: ",
            "not joined with",
            "no trace of rank",
            "kineto_trace_3",
        ];
        parts.iter().any(|part| line.contains(part)) && !line.contains("report a different rank")
    };
    for (foreign, options, said, code) in [
        (None, "", absent.0, 0),
        (None, "--ranks 0-3", absent.1, 0),
        (Some("fsdp2-2.15.0"), "", "it is from a run of 2 ranks", 1),
        (
            Some("fsdp2-2.15.0"),
            "--ranks 0-3",
            "it is from a run of 2 ranks",
            1,
        ),
        (Some("damaged"), "", "kineto_trace_3", 1),
    ] {
        let tool = Tool::new();
        let ranks: &[i64] = if foreign.is_some() {
            &[0, 1, 2]
        } else {
            &[0, 1]
        };
        copy(&tool, "tpdp4-2.15.0", ranks, None);
        match foreign {
            Some("damaged") => {
                copy(&tool, "tpdp4-2.15.0", &[3], None);
                tool.file("run/kineto_trace_3.json", "{\"traceEvents\": 3}");
            }
            Some(case) => copy(&tool, case, &[1], Some(3)),
            None => {}
        }
        for command in [
            "top run",
            "ranks run",
            "analyze run",
            "report run -o page.html --overwrite",
            "replay run",
            "merge run -o out --overwrite",
            "findings run",
            "diff run {pairs}/tpdp4-2.15.0",
        ] {
            let ran = tool.run(&format!("{command} {options}"));
            let lines = ran.stderr.lines().chain(ran.stdout.lines());
            let notes: Vec<&str> = lines.filter(is_said).collect();
            let shown = format!("{command} {options}: {notes:?}\n{}", ran.stderr);
            assert_eq!(ran.code, code, "{shown}");
            assert_eq!(notes.len(), 1, "{shown}");
            assert!(notes[0].contains(said), "{shown}");
        }
    }
}
