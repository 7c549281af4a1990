//! Options common to several commands, and renamed ones.

use crate::tool::Tool;

const MLP: &str = "--host {pairs}/mlp-2.15.0/torch_et_0.json.gz \
    --device {pairs}/mlp-2.15.0/kineto_trace_0.json.gz";

/// Each command describes its options by its own effects.
#[test]
fn measurements_are_those_that_the_command_takes() {
    let tool = Tool::new();
    for command in ["report", "findings"] {
        let help = tool.run(&format!("{command} --help")).exits(0);
        let help = help.says("Nsight Compute");
        assert!(!help.stdout.contains("card"), "{command}");
    }
    tool.run("analyze --help").exits(0).says("vLLM or SGLang");
}

/// Advice to replace a file does not lead to linking two programs.
#[test]
fn overwrite_does_not_link_what_does_not_fit() {
    let tool = Tool::new();
    let other = MLP
        .replace("kineto_trace_0", "x")
        .replace("mlp-2.15.0/x", "conv-2.15.0/kineto_trace_0");
    tool.file("x.et", "mine");
    tool.run(&format!("link {MLP} -o x.et"))
        .exits(2)
        .complains(&["x.et already exists", "--overwrite"]);
    tool.run(&format!("link {other} -o x.et --overwrite"))
        .exits(2)
        .complains(&["different programs", "--allow-mismatch"]);
    tool.run(&format!("link {other} -o x.et --allow-mismatch"))
        .exits(2)
        .complains(&["x.et already exists", "--overwrite"]);
    assert_eq!(tool.read("x.et"), b"mine");
    tool.run(&format!("link {other} -o x.et --allow-mismatch -f"))
        .exits(0);
    assert_ne!(tool.read("x.et"), b"mine");
}

#[test]
fn a_format_is_asked_for_by_its_name() {
    let tool = Tool::new();
    for (format, head) in [
        ("chakra", None),
        ("etplus", Some("{")),
        ("chrome", Some("{")),
        ("perfetto", Some("\n")),
    ] {
        tool.run(&format!("link {MLP} -o {format} --format {format}"))
            .exits(0);
        let content = tool.read(format);
        let begins = head.is_none_or(|head| content.starts_with(head.as_bytes()));
        assert!(begins, "{format}: {:?}", &content[..20]);
    }
    let chrome = String::from_utf8(tool.read("chrome")).expect("JSON is text");
    assert!(chrome.contains("traceEvents"));
}

#[test]
fn ranks_without_a_trace_are_refused_by_every_command() {
    let tool = Tool::new();
    let run = "{pairs}/ddp2-2.15.0";
    tool.file("page.html", "a good page");
    for line in [
        format!("ranks {run} --ranks 5,9"),
        format!("ranks {run} --ranks 5,9 --json"),
        format!("report {run} --ranks 5,9 -o page.html --overwrite"),
        format!("merge {run} --ranks 5,9 -o out"),
        format!("analyze {run} --ranks 5,9"),
        format!("replay {run} --ranks 5,9"),
    ] {
        tool.run(&line)
            .exits(2)
            .complains(&["no traces for the ranks requested with --ranks"]);
    }
    assert_eq!(tool.read("page.html"), b"a good page");
    assert!(!tool.path("out").exists());
}

#[test]
fn a_rank_that_was_not_asked_for_is_not_missing() {
    let tool = Tool::new();
    let run = "{pairs}/ddp2-2.15.0";
    let ran = tool.run(&format!("merge {run} -o out --ranks 0")).exits(0);
    assert!(!ran.stderr.contains("no trace of rank"), "{}", ran.shown());
    let json = tool.run(&format!("merge {run} -o json --ranks 0 --json"));
    let absent = &json.exits(0).json()["runs"][0]["absent"];
    assert_eq!(*absent, serde_json::json!([]));
}

#[test]
fn ranks_are_chosen_in_every_command_of_runs() {
    let tool = Tool::new();
    let run = "{pairs}/tpdp4-2.15.0";
    let ranks = tool
        .run(&format!("ranks {run} --ranks 0,2 --json"))
        .exits(0);
    assert_eq!(ranks.runs()[0]["ranks"].as_array().map(Vec::len), Some(2));
    assert_eq!(ranks.runs()[0]["absent"], serde_json::json!([]));
    let replayed = tool
        .run(&format!("replay {run} --ranks 1-3 --json"))
        .exits(0)
        .runs();
    let together = replayed[0]["together"]["ranks"].as_array().map(Vec::len);
    assert_eq!(together, Some(3));
    tool.run(&format!("report {run} --ranks 3 -o x.html"))
        .exits(0)
        .says("1 rank");
    tool.run(&format!("merge {run} --ranks 1,2 -o out"))
        .exits(0);
    let written: Vec<String> = tool.files("out").into_keys().collect();
    assert_eq!(
        written,
        ["comm_group.json", "tpdp4-2.15.0.1.et", "tpdp4-2.15.0.2.et"]
    );
    // ranks that were not requested are not missing
    let merged = tool
        .run(&format!("merge {run} --ranks 0,2 -o two --json"))
        .exits(0);
    assert_eq!(merged.json()["runs"][0]["absent"], serde_json::json!([]));
    assert!(
        !merged.stderr.contains("no trace of rank"),
        "{}",
        merged.shown()
    );
    for rank in [0, 2] {
        let name = format!("kineto_trace_{rank}.json");
        let trace = crate::tool::unpacked(&format!("tpdp4-2.15.0/{name}.gz"));
        tool.file(&format!("part/{name}"), trace);
    }
    let merged = tool.run("merge part --ranks 0,3 -o three --json").exits(0);
    assert_eq!(merged.json()["runs"][0]["absent"], serde_json::json!([3]));
    tool.run("check out --ranks 2")
        .exits(0)
        .says("tpdp4-2.15.0.2.et: ok");
    // rank 0 has a file, though it is left out
    tool.run("generate ring --ranks 3 -o ring").exits(0);
    tool.run("check ring --ranks 1,2")
        .exits(0)
        .notes("--ranks leaves out 1 of 3 files");
    tool.run("check out --ranks 7")
        .exits(2)
        .complains(&["--ranks"]);
    tool.run("replay out/tpdp4-2.15.0.1.et --ranks 1")
        .exits(2)
        .complains(&["--ranks", "folder"]);
}

/// Builds a trace that states its rank only after its events, where only reading finds it.
fn with_rank_at_the_end(name: &str) -> Vec<u8> {
    let trace = serde_json::from_slice(&crate::tool::unpacked(name));
    let mut trace: serde_json::Map<String, serde_json::Value> = trace.expect("valid JSON");
    let stated = trace.shift_remove("distributedInfo");
    trace.insert("distributedInfo".to_owned(), stated.expect("it has one"));
    serde_json::to_vec(&trace).expect("writes")
}

#[test]
fn a_rank_that_was_not_asked_for_is_no_failure_whatever_names_its_file() {
    let tool = Tool::new();
    for (name, rank) in [("alpha", 0), ("beta", 1)] {
        let trace = with_rank_at_the_end(&format!("ddp2-2.15.0/kineto_trace_{rank}.json.gz"));
        tool.file(&format!("run/{name}.json"), trace);
    }
    let ran = tool
        .run("merge run --ranks 1 -o out")
        .exits(0)
        .says("1 linked, 0 failed");
    assert!(!ran.stdout.contains("alpha"), "{}", ran.shown());
    let written: Vec<String> = tool.files("out").into_keys().collect();
    assert!(written.contains(&"run.beta.et".to_owned()), "{written:?}");
    assert!(!written.contains(&"run.alpha.et".to_owned()), "{written:?}");
    tool.run("merge run --ranks 7 -o other")
        .exits(2)
        .complains(&["no traces for the ranks requested with --ranks"]);
}

#[test]
fn verbose_commands_name_files_times_and_what_is_not_used() {
    let tool = Tool::new();
    for name in [
        "torch_et_0",
        "kineto_trace_0",
        "torch_et_1",
        "kineto_trace_1",
    ] {
        let trace = crate::tool::unpacked(&format!("ddp2-2.15.0/{name}.json.gz"));
        tool.file(&format!("run/{name}.json"), trace);
    }
    tool.file("run/settings.json", "{\"a\": 1}");
    for command in ["ranks", "replay"] {
        let quiet = tool.run(&format!("{command} run")).exits(0);
        assert!(!quiet.stderr.contains("read in"), "{}", quiet.shown());
        tool.run(&format!("{command} run -v"))
            .exits(0)
            .notes("rank 0: run/torch_et_0.json and run/kineto_trace_0.json: read in ")
            .notes("rank 1: run/torch_et_1.json and run/kineto_trace_1.json: read in ")
            .notes("settings.json is an unknown kind of file: not used");
    }
    for command in ["top run", "diff run run", "report run -o page.html"] {
        tool.run(&format!("{command} -v"))
            .exits(0)
            .notes("rank 1: host trace run/torch_et_1.json and device trace run/kineto_trace_1.json, by")
            .notes("settings.json is an unknown kind of file: not used");
    }
    tool.run("replay -v run/kineto_trace_0.json")
        .exits(0)
        .notes("run/kineto_trace_0.json: read in ");
}

#[test]
fn nothing_that_could_be_done_is_exit_code_2_for_every_command() {
    let tool = Tool::new();
    tool.file("run/kineto_trace_0.json", "{");
    for line in [
        "merge run -o out",
        "ranks run",
        "report run -o x.html",
        "analyze run",
        "top run",
        "replay run",
    ] {
        let ran = tool.run(line).exits(2);
        let printed = format!("{}{}", ran.stdout, ran.stderr);
        assert!(printed.contains("kineto_trace_0.json"), "{}", ran.shown());
    }
    assert!(!tool.path("x.html").exists());
}

#[test]
fn damage_is_refused_by_a_strict_report() {
    let tool = Tool::new();
    let device = crate::tool::unpacked("mlp-2.15.0/kineto_trace_0.json.gz");
    tool.file("trace.json", &device[..device.len() / 2]);
    tool.run("report trace.json -o x.html --strict")
        .exits(1)
        .complains(&["trace.json", "--strict"]);
    assert!(!tool.path("x.html").exists());
    tool.run("inspect trace.json --strict").exits(1);
    tool.run("inspect trace.json").exits(0);
}

#[test]
fn several_files_are_inspected() {
    let tool = Tool::new();
    tool.file("no.json", "no");
    let pair = "{pairs}/mlp-2.15.0/torch_et_0.json.gz {pairs}/mlp-2.15.0/kineto_trace_0.json.gz";
    let all = tool.run(&format!("inspect {pair} --json")).exits(0).files();
    assert_eq!(all[0]["kind"], "host_trace");
    assert_eq!(all[1]["kind"], "kineto_trace");
    let some = tool
        .run(&format!("inspect no.json {pair} --json"))
        .exits(1)
        .complains(&["no.json"]);
    assert_eq!(some.files().as_array().map(Vec::len), Some(2));
    tool.run("inspect no.json no.json").exits(2);
}

#[test]
fn notes_go_to_standard_error_and_can_be_silenced() {
    let tool = Tool::new();
    let device = crate::tool::unpacked("mlp-2.15.0/kineto_trace_0.json.gz");
    tool.file("run/kineto_trace_0.json", &device[..device.len() / 2]);
    for line in [
        "analyze run",
        "ranks run",
        "replay run",
        "top run",
        "merge run -o out -f",
    ] {
        let plain = tool.run(line).exits(0);
        assert!(!plain.stdout.contains("note:"), "{}", plain.shown());
        let quiet = tool.run(&format!("{line} -q")).exits(0);
        assert_eq!(quiet.stderr, "", "{}", quiet.shown());
    }
    tool.run("analyze run")
        .exits(0)
        .notes("the file is truncated");
}

#[test]
fn record_has_no_report() {
    let tool = Tool::new();
    tool.run("record --wait 0 --warmup 0 --active 1 -o traces --json -- true")
        .exits(2)
        .complains(&["--json", "traces/etlink.json"]);
}
