//! Dumps of PyTorch's flight recorder: next to traces, and alone.

use crate::tool::{Tool, pairs};
use serde_json::{Value, json};

const DDP: &str = "{pairs}/../flight/ddp2_gloo-2.15.0";
const GROUPS: &str = "{pairs}/../flight/tpdp4-2.15.0";
const STUCK: &str = "{pairs}/../flight/stuck4-2.15.0";

fn runs_of(tool: &Tool, arguments: &str) -> Value {
    tool.run(arguments).exits(0).runs()
}

#[test]
fn a_plain_gloo_run_has_collectives_with_sizes() {
    let tool = Tool::new();
    let report = runs_of(&tool, &format!("ranks {DDP} --json"));
    let collectives = report[0]["collectives"].as_array().expect("a list");
    let mut bytes: Vec<_> = collectives
        .iter()
        .map(|one| one["bytes"].as_u64())
        .collect();
    bytes.sort();
    // two buckets of DDP, 2,112 and 4,810 floats, in two steps
    assert_eq!(bytes, [8448, 8448, 19240, 19240].map(Some));
    assert_eq!(report[0]["problems"], json!([]));
    tool.run(&format!("ranks {DDP}"))
        .exits(0)
        .notes("4 of 4 collectives have group, sizes and type from the flight recorder dump");
}

/// File names as written by `etlink record`.
#[test]
fn dumps_that_end_in_pickle_are_of_the_rank_before_the_ending() {
    let tool = Tool::new();
    for rank in 0..2 {
        for (source, name) in [
            (format!("torch_et_{rank}.json.gz"), None),
            (format!("kineto_trace_{rank}.json.gz"), None),
            (
                format!("nccl_trace_rank_{rank}"),
                Some(format!("flight_recorder_{rank}.pickle")),
            ),
        ] {
            let bytes = std::fs::read(pairs().join("../flight/ddp2_gloo-2.15.0").join(&source));
            let name = name.unwrap_or(source);
            tool.file(&format!("run/{name}"), bytes.expect("recorded"));
        }
    }
    let report = runs_of(&tool, "ranks run --json");
    assert_eq!(report[0]["problems"], json!([]));
}

/// Incomplete files in a running job's work folder are left alone.
#[test]
fn the_work_folder_of_a_running_job_is_passed_by() {
    let tool = Tool::new();
    for name in ["torch_et_0.json.gz", "kineto_trace_0.json.gz"] {
        let bytes = std::fs::read(pairs().join("../flight/ddp2_gloo-2.15.0").join(name));
        tool.file(&format!("run/{name}"), bytes.expect("recorded"));
    }
    tool.file(
        "run/.etlink/uDy41.17.host.json",
        r#"{"schema": "1.1.1", "nodes": ["#,
    );
    let ran = tool.run("merge run -o out").exits(0);
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains(".etlink"), "{text}");
    }
}

#[test]
fn a_plain_gloo_run_is_an_input_of_astra_sim() {
    let tool = Tool::new();
    tool.run(&format!("merge {DDP} -o sim --for astra-sim"))
        .exits(0);
    tool.run("check sim").exits(0);
    for rank in 0..2 {
        let file = tool.read(&format!("sim/ddp2_gloo-2.15.0.{rank}.et"));
        let graph = etlink_chakra::read::read(&file[..]).expect("reads");
        let sizes = (0..graph.len()).filter_map(|node| graph.comm_of(node).size);
        let mut sizes: Vec<i64> = sizes.collect();
        sizes.sort();
        assert_eq!(sizes, [8448, 8448, 19240, 19240], "rank {rank}");
    }
}

#[test]
fn groups_of_a_part_of_the_ranks_are_those_of_the_trace() {
    let tool = Tool::new();
    let report = runs_of(&tool, &format!("ranks {GROUPS} --json"));
    let collectives = report[0]["collectives"].as_array().expect("a list");
    let count = |kind: &str, ranks: &str, bytes: u64| {
        let of_kind = collectives.iter().filter(|one| {
            one["kind"] == kind && one["ranks"] == ranks && one["bytes"] == json!(bytes)
        });
        of_kind.count()
    };
    assert_eq!(collectives.len(), 26);
    // the same program over a backend with records: `pairs/tpdp4-2.15.0`
    assert_eq!(count("all_gather", "ranks 0, 1", 1024), 4);
    assert_eq!(count("reduce_scatter", "ranks 2, 3", 1024), 2);
    assert_eq!(count("all_reduce", "ranks 1, 3", 4096), 4);
    assert_eq!(count("barrier", "ranks 0, 1, 2, 3", 0), 2);
}

#[test]
fn dumps_alone_say_which_rank_hangs_where() {
    let tool = Tool::new();
    tool.run(&format!("ranks {STUCK}"))
        .exits(0)
        .says("the run hangs on rank 2: others wait for it, and it waits for no rank")
        .says("ranks 0, 1, 3 wait in all_reduce 4 of ranks 0, 1, 2, 3, which rank 2 has not");
    let report = runs_of(&tool, &format!("ranks {STUCK} --json"));
    assert_eq!(report[0]["waited_for"], json!([2]));
    assert_eq!(
        report[0]["stuck"][0]["not_called"][0]["last_number"],
        json!(3)
    );
    let csv = tool.run(&format!("ranks {STUCK} --csv")).exits(0).stdout;
    assert_eq!(csv.lines().count(), 1 + 15);
    let dump = format!("{STUCK}/nccl_trace_rank_0");
    let inspected = tool.run(&format!("inspect {dump} --json")).exits(0);
    assert_eq!(inspected.only_file()["kind"], json!("flight_recorder"));
}

/// Each node of a job writes to its own disk.
#[test]
fn dumps_of_several_nodes_are_of_one_job() {
    let tool = Tool::new();
    for rank in 0..4 {
        let name = format!("nccl_trace_rank_{rank}");
        let node = rank / 2;
        let from = format!("{STUCK}/{name}");
        copy(&tool, &from, &format!("job/node{node}/{name}"));
        copy(&tool, &from, &format!("twice/monday/{name}"));
        copy(&tool, &from, &format!("twice/tuesday/{name}"));
    }
    tool.run("ranks job")
        .exits(0)
        .notes("the dumps in node0 and node1 are read as one job")
        .says("flight recorder of 4 ranks, ")
        .says("the run hangs on rank 2");
    let report = runs_of(&tool, "ranks job --json");
    assert_eq!(report.as_array().map(Vec::len), Some(1));
    // in deeper folders, next to a dump of another job, and next to one without a rank
    for rank in 0..4 {
        let name = format!("nccl_trace_rank_{rank}");
        let from = format!("{STUCK}/{name}");
        copy(&tool, &from, &format!("deep/node{}/fr/{name}", rank / 2));
    }
    copy(
        &tool,
        &format!("{DDP}/nccl_trace_rank_0"),
        "deep/old/nccl_trace_rank_0",
    );
    tool.file("deep/logs/nccl_trace_rank_9", []);
    tool.run("ranks deep")
        .says("the run hangs on rank 2")
        .notes("the dumps in node0/fr and node1/fr are read as one job");
    // two dumps per rank are two runs
    let report = runs_of(&tool, "ranks twice --json");
    assert_eq!(report.as_array().map(Vec::len), Some(2));
}

/// Dumps of four ranks, and of two others: their groups do not contain each other.
#[test]
fn dumps_whose_groups_lack_the_ranks_beside_them_are_of_another_job() {
    let tool = Tool::new();
    copy(
        &tool,
        &format!("{STUCK}/nccl_trace_rank_2"),
        "jobs/a/nccl_trace_rank_2",
    );
    copy(
        &tool,
        &format!("{DDP}/nccl_trace_rank_0"),
        "jobs/b/nccl_trace_rank_0",
    );
    let report = runs_of(&tool, "ranks jobs --json");
    assert_eq!(report.as_array().map(Vec::len), Some(2));
}

#[test]
fn dumps_of_several_nodes_describe_the_run_beside_them() {
    let tool = Tool::new();
    for rank in 0..2 {
        for name in ["torch_et", "kineto_trace"] {
            let file = format!("{name}_{rank}.json.gz");
            copy(
                &tool,
                &format!("{DDP}/{file}"),
                &format!("run/traces/{file}"),
            );
        }
        let dump = format!("nccl_trace_rank_{rank}");
        copy(
            &tool,
            &format!("{DDP}/{dump}"),
            &format!("run/dumps{rank}/{dump}"),
        );
    }
    tool.run("ranks run -v")
        .exits(0)
        .notes("recorder dumps in dumps0 and dumps1 are used for this run")
        .notes("flight recorder dump")
        .notes("4 of 4 collectives have group, sizes and type");
}

#[test]
fn a_rank_without_a_dump_is_named() {
    let tool = Tool::new();
    for rank in [0, 1, 3] {
        copy(
            &tool,
            &format!("{STUCK}/nccl_trace_rank_{rank}"),
            &format!("nccl_trace_rank_{rank}"),
        );
    }
    tool.run("ranks .")
        .exits(0)
        .says("there is no dump of rank 2")
        .says("the cause of the hang is unknown: there is no dump of rank 2");
    let report = runs_of(&tool, "ranks . --json");
    assert_eq!(report[0]["absent"], json!([2]));
}

#[test]
fn a_rank_whose_dump_is_refused_is_not_one_without_a_dump() {
    let tool = Tool::new();
    for rank in [0, 1, 3] {
        let name = format!("nccl_trace_rank_{rank}");
        copy(&tool, &format!("{STUCK}/{name}"), &name);
    }
    let evil = b"\x80\x02}X\x07\x00\x00\x00entriescposix\nsystem\nX\x02\x00\x00\x00ls\x85Rs.";
    tool.file("nccl_trace_rank_2", evil);
    let ran = tool.run("ranks .").exits(1);
    let ran = ran
        .says("hang is unknown: the dump of rank 2 is left out")
        .notes("loading the file would call posix.system")
        .says("; the dump of rank 2 is left out\n");
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains("no dump of rank"), "{}", ran.shown());
    }
    let report = tool.run("ranks . --json").exits(1).runs();
    assert_eq!(report[0]["absent"], json!([2]));
    assert_eq!(report[0]["unusable"], json!([2]));
}

#[test]
fn a_pickle_that_would_call_code_is_refused_and_named() {
    let tool = Tool::new();
    let evil = b"\x80\x02}X\x07\x00\x00\x00entriescposix\nsystem\nX\x02\x00\x00\x00ls\x85Rs.";
    tool.file("nccl_trace_rank_0", evil);
    tool.run("ranks .").exits(2).complains(&[
        "nccl_trace_rank_0: loading the file would call posix.system (byte 15)",
        "do not load it with Python",
    ]);
}

/// Damage of a dump next to traces is told with its name, and is no damage of the traces.
#[test]
fn a_cut_dump_does_not_refuse_its_trace() {
    let tool = Tool::new();
    for rank in 0..4 {
        let dump = format!("nccl_trace_rank_{rank}");
        for name in [
            format!("torch_et_{rank}.json.gz"),
            format!("kineto_trace_{rank}.json.gz"),
            dump.clone(),
        ] {
            copy(&tool, &format!("{GROUPS}/{name}"), &format!("run/{name}"));
        }
        if rank % 2 == 0 {
            let whole = std::fs::read(tool.path(&format!("run/{dump}"))).expect("reads");
            tool.file(&format!("run/{dump}"), &whole[..whole.len() * 2 / 3]);
        }
    }
    let mut ran = tool.run("ranks run");
    for rank in [0, 2] {
        ran = ran.notes(&format!(
            "rank {rank}: damage: run/nccl_trace_rank_{rank}: the file is truncated"
        ));
    }
    let problem = "collectives that are missing on some rank";
    assert_eq!(ran.stderr.matches(problem).count(), 1, "{}", ran.stderr);
    let ran = tool.run("ranks run --strict");
    assert!(!ran.stderr.contains("left out"), "{}", ran.stderr);
    for name in [
        "torch_et_0.json.gz",
        "kineto_trace_0.json.gz",
        "nccl_trace_rank_0",
    ] {
        let bytes = std::fs::read(tool.path(&format!("run/{name}"))).expect("reads");
        tool.file(&format!("one/{name}"), bytes);
    }
    tool.run("analyze one")
        .exits(0)
        .notes("note: damage: one/nccl_trace_rank_0: the file is truncated");
}

#[test]
fn a_cut_dump_says_what_came_before() {
    let tool = Tool::new();
    for rank in 0..4 {
        copy(
            &tool,
            &format!("{STUCK}/nccl_trace_rank_{rank}"),
            &format!("nccl_trace_rank_{rank}"),
        );
    }
    let whole = std::fs::read(tool.path("nccl_trace_rank_2")).expect("reads");
    tool.file("nccl_trace_rank_2", &whole[..whole.len() - 30]);
    tool.run("ranks .")
        .exits(0)
        .says("hang is unknown: the dump of rank 2 is truncated")
        .says("rank 2's dump is truncated after all_reduce")
        .notes("nccl_trace_rank_2: damage: the file is truncated");
    let report = runs_of(&tool, "ranks . --json");
    assert_eq!(report[0]["verdict"], json!("unknown"));
    assert_eq!(report[0]["waited_for"], json!([]));
    assert_eq!(report[0]["cut"][0]["rank"], json!(2));
    tool.run("ranks . --csv")
        .exits(0)
        .says(",is_cut")
        .says(",true")
        .notes("its later calls are unknown");
    tool.run("ranks . --strict")
        .exits(1)
        .notes("nccl_trace_rank_2: refused under --strict");
}

/// A full disk, or a rank that was killed while writing, leaves an empty dump.
#[test]
fn an_empty_dump_is_a_dump_that_cannot_be_read() {
    let tool = Tool::new();
    let whole =
        format!("{STUCK}/nccl_trace_rank_2").replace("{pairs}", &pairs().display().to_string());
    let whole = std::fs::read(whole).expect("recorded");
    for (folder, prefix) in [("usual", "nccl_trace_rank_"), ("own", "fr_of_job7-")] {
        for rank in [0, 1, 3] {
            let from = format!("{STUCK}/nccl_trace_rank_{rank}");
            copy(&tool, &from, &format!("{folder}/{prefix}{rank}"));
        }
        for left in [0, 1, 3, 60] {
            tool.file(&format!("{folder}/{prefix}2"), &whole[..left]);
            tool.run(&format!("ranks {folder}"))
                .exits(1)
                .says("hang is unknown: the dump of rank 2 is left out")
                .notes(&format!("{prefix}2 is left out: "));
        }
        tool.file(&format!("{folder}/{prefix}2"), []);
        tool.run(&format!("ranks {folder}"))
            .exits(1)
            .notes("is empty: its rank exited before it wrote the dump")
            .lacks("record the trace again");
    }
    // other programs' names are not taken for dumps
    tool.file("usual/core.4711", []);
    tool.file("usual/tmp9", []);
    let said = tool.run("ranks usual").exits(1);
    assert!(!said.stderr.contains("tmp9"), "{}", said.shown());
}

#[test]
fn a_whole_dump_comes_before_a_cut_one_of_its_rank() {
    let tool = Tool::new();
    for rank in 0..4 {
        let name = format!("nccl_trace_rank_{rank}");
        copy(&tool, &format!("{STUCK}/{name}"), &name);
    }
    let whole = std::fs::read(tool.path("nccl_trace_rank_1")).expect("reads");
    tool.file("nccl_trace_rank_1.pickle", &whole);
    tool.file("nccl_trace_rank_1", &whole[..whole.len() - 30]);
    tool.run("ranks .")
        .exits(0)
        .says("the run hangs on rank 2")
        .notes("nccl_trace_rank_1 is left out: another dump of rank 1");
    // ranks that were not requested still have dumps
    tool.run("ranks . --ranks 0,1").lacks("no dump");
}

/// PyTorch writes dumps to the same place in each run, and a rank that died wrote none.
#[test]
fn a_dump_of_yesterday_accuses_no_rank() {
    let tool = Tool::new();
    const CREATED: &str = "\"time_created_ns\": ";
    let call = |number: i64, state: &str, time: i64| {
        format!(
            "{{\"record_id\": {number}, \"pg_id\": 0, \"process_group\": [\"0\", \"default_pg\"], \
             \"collective_seq_id\": {number}, \"p2p_seq_id\": 0, \"op_id\": {number}, \
             \"profiling_name\": \"nccl:all_reduce\", {CREATED}{time}, \"input_sizes\": [[4]], \
             \"output_sizes\": [[4]], \"state\": \"{state}\", \"retired\": false, \"is_p2p\": false}}"
        )
    };
    let dump = |calls: &[String]| {
        format!(
            "{{\"version\": \"2.10\", \"pg_config\": {{\"0\": {{\"name\": \"0\", \"desc\": \
             \"default_pg\", \"ranks\": \"[0, 1, 2]\"}}}}, \"pg_status\": {{}}, \"entries\": [{}]}}",
            calls.join(", ")
        )
    };
    let now = 1_790_000_000_000_000_000;
    let waits = dump(&[call(1, "completed", now), call(2, "started", now + 1_000)]);
    for rank in [0, 1] {
        tool.file(&format!("nccl_trace_rank_{rank}.json"), &waits);
    }
    let yesterday = now - 86_400_000_000_000;
    tool.file(
        "nccl_trace_rank_2.json",
        dump(&[call(1, "completed", yesterday)]),
    );
    tool.run("ranks .")
        .exits(1)
        .says("the cause of the hang is unknown")
        .notes("nccl_trace_rank_2.json is left out: its last call is ")
        .notes("belongs to another run");
}

#[test]
fn a_dump_of_another_run_describes_nothing() {
    let tool = Tool::new();
    for rank in [0, 1] {
        let trace = format!("kineto_trace_{rank}.json.gz");
        copy(&tool, &format!("{DDP}/{trace}"), &trace);
        let dump = format!("nccl_trace_rank_{rank}");
        copy(&tool, &format!("{GROUPS}/{dump}"), &dump);
    }
    tool.run("ranks .")
        .exits(0)
        .notes("The dump is truncated or from another run, its buffer was too small")
        .notes("8 Gloo collectives without group and size");
}

#[test]
fn traces_are_wanted_elsewhere() {
    let tool = Tool::new();
    tool.run(&format!("merge {STUCK} -o out"))
        .exits(2)
        .complains(&[
            "the folder has no host or device traces, only flight recorder dumps",
            "give them to `etlink ranks`",
        ]);
}

#[test]
fn a_dump_counts_in_the_memory_budget() {
    let tool = Tool::new();
    for rank in [0, 1] {
        let trace = format!("kineto_trace_{rank}.json.gz");
        copy(&tool, &format!("{DDP}/{trace}"), &trace);
    }
    let head = b"\x80\x02}X\x07\x00\x00\x00entries](";
    let dump = [&head[..], &b"N".repeat(60_000_000), b"es."].concat();
    tool.file("nccl_trace_rank_0.gz", crate::tool::gzip(&dump));
    tool.run("merge . -o out --memory 100M")
        .exits(2)
        .complains(&["nccl_trace_rank_0.gz", "100"]);
}

#[test]
fn other_pickles_displace_no_dump() {
    let tool = Tool::new();
    let snapshot =
        b"\x80\x04\x95\x9b\0\0\0\0\0\0\0}\x94(\x8c\x08segments\x94]\x94\x8c\x0cload_entries\x94u.";
    for rank in [0, 1] {
        let trace = format!("kineto_trace_{rank}.json.gz");
        copy(&tool, &format!("{DDP}/{trace}"), &trace);
        let dump = format!("nccl_trace_rank_{rank}");
        copy(&tool, &format!("{DDP}/{dump}"), &dump);
        tool.file(&format!("cuda_memory_rank_{rank}.pickle"), snapshot);
        // an unreadable dump, which is first by name
        tool.file(
            &format!("broken_rank_{rank}"),
            b"\x80\x02}X\x07\x00\x00\x00entriescposix\nsystem\n.",
        );
    }
    tool.run("ranks .")
        .exits(0)
        .notes("4 of 4 collectives have group, sizes and type from the flight recorder dump")
        .notes("broken_rank_0 is an unreadable dump of rank 0: not used");
}

#[test]
fn logs_of_the_inspector_beside_dumps_are_told() {
    let tool = Tool::new();
    for rank in 0..4 {
        let dump = format!("nccl_trace_rank_{rank}");
        copy(&tool, &format!("{STUCK}/{dump}"), &dump);
    }
    tool.file("node-pid7.log", crate::inspector::log_of(0));
    tool.run("ranks .")
        .exits(0)
        .says("the run hangs on rank 2")
        .notes("ignoring 1 log of NCCL's inspector");
}

#[test]
fn terminals_get_no_escape_sequences_of_a_dump() {
    let tool = Tool::new();
    let dump = r#"{"version": "2.10", "pg_config": {"0": {"desc": "\u001b[4J"}}, "pg_status": {}, "entries": [{
        "frames": [{"name": "\u001b]0;f", "filename": "a\u001b.py", "line": 1}], "record_id": 1,
        "process_group": ["\u001b[2J", "\u001b[3J"], "collective_seq_id": 1,
        "profiling_name": "nccl:all_reduce", "time_created_ns": 5, "state": "started"}]}"#;
    tool.file("rank0.json", dump);
    tool.file(
        "nccl_trace_rank_1",
        b"\x80\x02}X\x07\x00\x00\x00entriescos\n\x1b]0;pwn\x07\n.",
    );
    for command in ["ranks .", "ranks . --csv"] {
        let ran = tool.run(command);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("u{1b}"), "{command}: {said:?}");
        assert!(!said.contains('\x1b'), "{command}: {said:?}");
    }
}

#[test]
fn commands_that_want_times_say_what_to_do_with_what_has_none() {
    let tool = Tool::new();
    tool.run(&format!("analyze {STUCK}/nccl_trace_rank_0"))
        .exits(2)
        .complains(&[
            "is a PyTorch flight recorder dump",
            "give the folder of all dumps to `etlink ranks`",
        ]);
    let card = b"version: 1\ndescription: x\nworkload:\n  model:\n    model_family: x\n";
    tool.file("card.yaml", card);
    tool.run("analyze card.yaml").exits(2).complains(&[
        "is a workload card (ccl-bench)",
        "give a trace of the same run, and this file as --metrics",
    ]);
}

/// Copies a recording into the tool's folder.
fn copy(tool: &Tool, from: &str, to: &str) {
    let bytes = std::fs::read(from.replace("{pairs}", &crate::tool::pairs().display().to_string()))
        .expect("reads");
    tool.file(to, bytes);
}
