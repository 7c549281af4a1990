//! Folders with ranks that are missing, broken, duplicated or not as in the manifest: reported, and
//! the rest continues.

use crate::ranks::{Drawn, RUN, draw, later, put, without_host_name};
use crate::tool::{Tool, unpacked};
use etlink_testing::{DeviceQueue, KinetoFlavour, ParamComms, TraceBuilder};
use serde_json::{Value, json};

/// Builds a manifest's entry for a rank with these file names; `None` for no traces.
fn listed(rank: i64, files: Option<[&str; 2]>) -> Value {
    let cycle = |[host_trace, device_trace]: [&str; 2]| {
        json!({"first_step": 3, "last_step": 4, "whole": true, "host_trace": host_trace,
            "device_trace": device_trace,
               "clock": {"unix_ns": 1_700_000_009_000_000_000i64 + rank,
                 "monotonic_ns": 5_000_000_000i64}})
    };
    let cycles: Vec<Value> = files.map(cycle).into_iter().collect();
    json!({"pid": 100 + rank, "host": "node", "rank": rank, "world": 4, "steps": 9,
        "excluded": false, "cycles": cycles, "notes": [], "lost": false})
}

fn manifest(tool: &Tool, name: &str, ranks: &[Value]) {
    tool.file(
        name,
        json!({"etlink": "0.1.0", "ranks": ranks, "notes": []}).to_string(),
    );
}

fn files(rank: i64) -> [String; 2] {
    ["torch_et", "kineto_trace"].map(|kind| format!("{kind}_{rank}.json"))
}

fn all(ranks: &[i64], folder: &str) -> Vec<Value> {
    let one = |rank: &i64| {
        let names = files(*rank).map(|name| format!("{folder}{name}"));
        listed(*rank, Some([&names[0], &names[1]]))
    };
    ranks.iter().map(one).collect()
}

#[test]
fn stragglers_are_told_per_step_and_in_all() {
    let tool = Tool::new();
    let ran = tool
        .run("ranks {pairs}/fsdp2-2.15.0 --json")
        .exits(0)
        .runs();
    let steps = ran[0]["steps"].as_array().expect("steps");
    let told: Vec<_> = steps
        .iter()
        .map(|step| {
            (
                step["step"].as_str(),
                step["collectives"].as_u64(),
                step["spans_steps"].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (Some("ProfilerStep#2"), Some(9), Some(0)),
            (Some("ProfilerStep#3"), Some(9), Some(0))
        ]
    );
    let sum = |all: &Value, key: &str| {
        all.as_array()
            .expect("a list")
            .iter()
            .map(|one| one[key].as_i64().expect("a number"))
            .sum::<i64>()
    };
    let waited = sum(&ran[0]["steps"], "waited_ns");
    assert!(waited > 0);
    for (list, key) in [("ranks", "waited_ns"), ("collectives", "waited_ns")] {
        assert_eq!(sum(&ran[0][list], key), waited, "{list} {key}");
    }
    let charged = ["caused_ns", "began_late_ns"].map(|key| sum(&ran[0]["ranks"], key));
    assert_eq!(
        charged.iter().sum::<i64>(),
        waited,
        "each wait is charged once"
    );
    put(&tool, &RUN);
    let ran = tool
        .run("ranks run")
        .exits(0)
        .says("stragglers")
        .says("(all)");
    let line = ran
        .stdout
        .lines()
        .find(|line| line.contains("(all)"))
        .expect("a line");
    assert!(
        line.contains("rank 2") && line.contains("100.0 %"),
        "{line}"
    );
    let csv = tool.run("ranks {pairs}/fsdp2-2.15.0 --csv").exits(0).stdout;
    let columns = concat!(
        "run,kind,ranks,group,number,bytes,start_ns,last,skew_ns,skew_error_ns,alone_ns,waited_ns,",
        "caused_ns,began_late_ns,handed_on_ns,waited_for,step,transfer_ns"
    );
    assert!(csv.starts_with(columns), "{csv}");
    assert_eq!(
        csv.lines()
            .filter(|line| line.contains(",ProfilerStep#3,"))
            .count(),
        9
    );
}

#[test]
fn sharded_ranks_are_matched_and_get_to_the_end() {
    let tool = Tool::new();
    tool.run("merge {pairs}/fsdp2-2.15.0 -o out")
        .exits(0)
        .says("1 group; 18 collectives and 0 messages matched, 0 not");
    tool.run("merge {pairs}/fsdp2-2.15.0 -o sim --for astra-sim")
        .exits(0);
    tool.run("check out sim")
        .exits(0)
        .says("fsdp2-2.15.0.*.et: ok, 2 ranks together");
}

#[test]
fn what_the_manifest_lists_and_is_not_there_is_named() {
    let tool = Tool::new();
    put(&tool, &[RUN[0], RUN[1], RUN[3]]);
    let mut ranks = all(&[0, 1, 3], "");
    let mut lost = listed(2, None);
    lost["lost"] = json!(true);
    ranks.push(lost);
    manifest(&tool, "run/etlink.json", &ranks);
    let said =
        "lists 4 ranks, but rank 2 has no trace here: it died in or after step 9 during recording";
    tool.run("ranks run")
        .exits(0)
        .notes(said)
        .notes("no trace of rank 2");
    tool.run("merge run -o out")
        .exits(0)
        .notes(said)
        .says("3 linked, 0 failed");
    let ran = tool.run("ranks run --json").exits(0).runs();
    assert!(
        ran[0]["diagnostics"][0]["message"]
            .as_str()
            .is_some_and(|note| note.contains(said)),
        "{}",
        ran[0]["diagnostics"]
    );
    ranks[3] = all(&[2], "").remove(0);
    ranks.extend(all(&[4, 5, 6, 7, 8, 9, 10, 11, 12], ""));
    manifest(&tool, "run/etlink.json", &ranks);
    tool.run("ranks run")
        .exits(0)
        .notes("rank 2, 4, 5, 6, 7, 8, 9, 10, … has no trace here: the listed files are missing");
}

#[test]
fn a_manifest_lies_above_the_folders_of_cycles() {
    let tool = Tool::new();
    for drawn in &RUN[..2] {
        tool.file(
            &format!("rec/cycle_1/kineto_trace_{}.json", drawn.rank),
            draw(*drawn),
        );
    }
    let mut ranks = all(&[0, 1], "cycle_1/");
    ranks.extend(all(&[2], "cycle_0/"));
    manifest(&tool, "rec/etlink.json", &ranks);
    for folder in ["rec", "rec/cycle_1"] {
        tool.run(&format!("ranks {folder}"))
            .exits(0)
            .notes("rank 2 has no trace here: it was recorded only in other cycles");
    }
    tool.file("rec/others/kineto_trace_0.json", draw(RUN[0]));
    assert!(
        !tool
            .run("ranks rec/others")
            .exits(0)
            .stdout
            .contains("etlink.json"),
        "it says nothing of this folder"
    );
}

/// Generates a device trace without its rank and the number of ranks.
fn nameless(rank: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    draw.origin(1_700_000_000_000_000_000);
    let main = draw.thread();
    let comms = ParamComms::new("allreduce", 0..2, rank, 7);
    let correlation = draw.next_correlation();
    draw.collective(main, &comms, 1_000, 21_000);
    draw.call(main, "cudaLaunchKernelExC", (6_000, 9_000), correlation);
    draw.collective_kernel(
        DeviceQueue::stream(20),
        "ncclDevKernel_AllReduce_Sum_f32",
        (30_000 + rank, 90_000),
        correlation,
        &comms,
    );
    draw.kineto()
}

#[test]
fn the_manifest_tells_ranks_that_nothing_else_does() {
    let tool = Tool::new();
    tool.file("run/left.json", nameless(0));
    tool.file("run/right.json", nameless(1));
    let without = tool.run("ranks run --json").exits(2).runs();
    assert_eq!(
        without[0]["collectives"],
        json!([]),
        "their ranks are not known"
    );
    manifest(
        &tool,
        "run/etlink.json",
        &[
            listed(0, Some(["none", "left.json"])),
            listed(1, Some(["none", "right.json"])),
        ],
    );
    let with = tool.run("ranks run --json").exits(0).runs();
    assert_eq!(
        (&with[0]["world_size"], &with[0]["absent"]),
        (&json!(4), &json!([2, 3]))
    );
    assert_eq!(
        (
            with[0]["collectives"].as_array().map(Vec::len),
            &with[0]["collectives"][0]["last"]
        ),
        (Some(1), &json!(1))
    );
}

#[test]
fn interleave_is_advised_only_where_it_can_be_given() {
    let tool = Tool::new();
    put(&tool, &RUN);
    let mut ranks = all(&[0, 1, 2, 3], "");
    for rank in &mut ranks {
        rank["step_times"] = json!({"plain_ns": 100, "recorded_ns": 400,
            "plain_steps": 5, "recorded_steps": 2});
    }
    let of_cycle = |name: &str, value: Value| {
        let mut ranks = ranks.clone();
        ranks[0]["cycles"][0][name] = value;
        ranks
    };
    let mut asked = ranks.clone();
    asked[0]["asked"] = json!([{"by": "etlink trigger", "first_step": 3, "last_step": 4}]);
    for (ranks, is_advised) in [
        (ranks.clone(), true),
        (of_cycle("own_profiler", json!(true)), false),
        (of_cycle("phase", json!("train")), false),
        (asked, false),
    ] {
        manifest(&tool, "run/etlink.json", &ranks);
        let ran = tool.run("ranks run").exits(0);
        let said = &ran.stderr;
        assert!(said.contains("recorded steps took 4.0 x"), "{said}");
        // It is unknown if those steps do more work.
        assert!(said.contains("or they do more work"), "{said}");
        assert_eq!(said.contains("--interleave"), is_advised, "{said}");
    }
}

#[test]
fn folders_of_the_nodes_of_one_job_are_one_run() {
    let tool = Tool::new();
    put(&tool, &RUN);
    for (name, content) in tool.files("run") {
        let node = match name.contains("_0.") || name.contains("_1.") {
            true => "n0",
            false => "n1",
        };
        tool.file(&format!("job/{node}/{name}"), &content);
        tool.file(&format!("job/{node}/cycle_1/{name}"), content);
    }
    let write = |node: &str, ranks: &[i64], job: &str| {
        let ranks = [all(ranks, ""), all(ranks, "cycle_1/")].concat();
        let text = json!({"etlink": "0.1.0", "ranks": ranks, "notes": [], "job": job});
        tool.file(&format!("job/{node}/etlink.json"), text.to_string());
    };
    // within one folder the manifest also states that all are on one machine
    manifest(&tool, "run/etlink.json", &all(&[0, 1, 2, 3], ""));
    let expected = tool.run("ranks run --json").exits(0).runs();
    write("n0", &[0, 1], "torchrun 7");
    write("n1", &[2, 3], "torchrun 7");
    let ran = tool.run("ranks job").exits(0);
    assert!(
        ran.stderr
            .contains("2 folders (n0, n1) belong to job `torchrun 7`"),
        "{}",
        ran.stderr
    );
    let ran = tool.run("ranks job --json").exits(0).runs();
    assert_eq!(ran.as_array().map(Vec::len), Some(2));
    for one in ran.as_array().expect("runs") {
        assert_eq!(one["collectives"], expected[0]["collectives"]);
        assert_eq!(one["absent"], json!([]));
    }
    tool.run("merge job -o out").exits(0);
    assert!(tool.path("out/cycle_1").exists());
    // another job, or the same ranks repeated: separate runs
    write("n1", &[2, 3], "torchrun 8");
    let ran = tool.run("ranks job --json").runs();
    assert_eq!(ran.as_array().map(Vec::len), Some(4));
}

#[test]
fn ranks_that_recorded_other_iterations_are_told() {
    let tool = Tool::new();
    put(&tool, &RUN);
    let clock = |ms: i64| json!({"unix_ns": ms * 1_000_000, "monotonic_ns": 0});
    let begun = |later: [i64; 4]| {
        let mut ranks = all(&[0, 1, 2, 3], "");
        for (rank, later) in ranks.iter_mut().zip(later) {
            rank["cycles"][0]["begin"] = clock(1_000 + later);
            rank["cycles"][0]["end"] = clock(1_100 + later);
        }
        ranks
    };
    for (later, told) in [
        ([0, 10, 20, 0], None),
        (
            [0, -300, 10, 0],
            Some("rank 1 recorded 0.300 s before rank 0, more than a step apart. "),
        ),
        (
            [0, 200, 10, 300],
            Some(
                "rank 3 recorded 0.300 s after rank 0, more than a step apart; so did 1 other rank",
            ),
        ),
    ] {
        manifest(&tool, "run/etlink.json", &begun(later));
        for command in ["ranks run", "merge run -o out --overwrite", "findings run"] {
            let ran = tool.run(command).exits(0);
            let is_told = told.is_none_or(|told| ran.stderr.contains(told));
            let is_noted = ran.stderr.contains("a step apart");
            assert_eq!(
                (is_told, is_noted),
                (true, told.is_some()),
                "{}",
                ran.stderr
            );
        }
        let code = i32::from(told.is_some());
        tool.run("ranks run --strict").exits(code);
        tool.run("merge run -o out --overwrite --strict")
            .exits(code);
    }
}

#[test]
fn a_manifest_that_contradicts_the_files_is_told_and_the_files_count() {
    let tool = Tool::new();
    put(&tool, &RUN);
    let mut ranks = all(&[0, 2, 3], "");
    ranks[2]["cycles"][0]["device_trace"] = json!("kineto_trace_1.json");
    ranks.iter_mut().for_each(|rank| rank["world"] = json!(8));
    ranks[1]["cycles"][0]["last_step"] = json!(6);
    manifest(&tool, "run/etlink.json", &ranks);
    for line in ["ranks run", "merge run -o out"] {
        let ran = tool.run(line).exits(0);
        ran.notes(
            "kineto_trace_1.json is from rank 1, but the recording's manifest says 3: rank 1 is used",
        )
        .notes(
            "does not list rank 1, which has a trace here: the trace may be from another recording",
        )
        .notes("states 8 ranks, but the traces state 4: the traces are used")
        .notes("states different steps: 3 to 4 for rank 0, 3 to 6 for rank 2");
    }
    assert_eq!(
        tool.run("ranks run --json").exits(0).runs()[0]["ranks"]
            .as_array()
            .map(Vec::len),
        Some(4)
    );
}

#[test]
fn an_unreadable_manifest_is_told_and_not_used() {
    let tool = Tool::new();
    put(&tool, &RUN);
    for text in ["{\"ranks\": 5}", "no manifest", ""] {
        tool.file("run/etlink.json", text);
        tool.run("ranks run")
            .exits(0)
            .notes("etlink.json is not used: not a manifest of a recording")
            .says("4 ranks, 8 matched collectives");
    }
}

#[test]
fn ranks_of_one_machine_are_on_one_clock_without_collectives_on_a_device() {
    let tool = Tool::new();
    for rank in 0..2 {
        for name in files(rank) {
            let trace = unpacked(&format!("ddp2-2.15.0/{name}.gz"));
            if name.starts_with("kineto") {
                tool.file(&format!("run/{name}"), without_host_name(&trace));
            } else {
                tool.file(&format!("run/{name}"), trace);
            }
        }
    }
    tool.run("ranks run")
        .exits(0)
        .notes("the clock offset of rank 1 to rank 0 is unknown");
    manifest(&tool, "run/etlink.json", &all(&[0, 1], ""));
    let ran = tool.run("ranks run").exits(0);
    assert!(
        !ran.stdout.contains("the clock offset") && ran.stdout.contains("machine"),
        "{}",
        ran.stdout
    );
    assert_eq!(
        tool.run("ranks run --json").exits(0).runs()[0]["clocks"][1]["by_machine"],
        true
    );
    let mut apart = all(&[0, 1], "");
    apart[1]["cycles"][0]["clock"]["monotonic_ns"] = json!(77_000_000_000i64);
    manifest(&tool, "run/etlink.json", &apart);
    tool.run("ranks run")
        .exits(0)
        .notes("the clock offset of rank 1");
}

#[test]
fn broken_files_of_a_rank_leave_the_others() {
    let tool = Tool::new();
    put(&tool, &RUN);
    let whole = draw(RUN[2]);
    tool.file("run/kineto_trace_2.json", &whole[..whole.len() * 6 / 10]);
    let ran = tool
        .run("ranks run")
        .exits(1)
        .notes("rank 2 is left out: its device trace is truncated");
    assert!(ran.stdout.contains("3 ranks, "), "{}", ran.stdout);
    for (text, why) in [
        ("", "run/kineto_trace_2.json"),
        ("{", "run/kineto_trace_2.json"),
        ("\u{1f}no", "run/kineto_trace_2.json"),
    ] {
        tool.file("run/kineto_trace_2.json", text);
        tool.run("ranks run")
            .exits(1)
            .notes("2 is left out:")
            .notes(why)
            .says("3 ranks, 8 matched collectives");
        tool.run("merge run -o out --overwrite")
            .exits(1)
            .notes("failed: 2:")
            .notes(why)
            .says("3 linked, 1 failed");
    }
    tool.run("merge run -o sim --for astra-sim").exits(1);
    let readme = String::from_utf8(tool.read("sim/README.md")).expect("text");
    let absent = "These ranks have no usable trace: 2.";
    assert!(readme.contains(absent), "{readme}");
}

#[test]
fn ranks_that_were_not_asked_for_are_not_said_to_lack_traces() {
    let tool = Tool::new();
    put(&tool, &RUN);
    let chosen = tool.run("ranks run --ranks 3").exits(0);
    let chosen = chosen.says("--ranks excludes the other ranks");
    assert!(!chosen.stdout.contains("no trace"), "{}", chosen.shown());
    tool.shell("rm run/kineto_trace_[012].json").exits(0);
    tool.run("ranks run")
        .exits(0)
        .notes("no trace of rank 0, 1, 2");
}

#[test]
fn two_files_of_one_rank_are_left_out_by_name() {
    let tool = Tool::new();
    put(&tool, &RUN);
    tool.file("run/device_1.json", later(&draw(RUN[1]), 1));
    let ran = tool.run("ranks run").exits(1).notes(
        "2 device traces claim rank 1 (device_1.json, kineto_trace_1.json): none is joined with the other ranks; keep one of them",
    );
    for name in ["device_1", "kineto_trace_1"] {
        assert!(
            ran.stderr
                .contains(&format!("{name} is left out: its rank is uncertain")),
            "{}",
            ran.shown()
        );
    }
    ran.says("3 ranks, 8 matched collectives");
}

#[cfg(unix)]
#[test]
fn a_link_to_nothing_is_a_trace_that_cannot_be_read() {
    let tool = Tool::new();
    put(&tool, &RUN);
    tool.shell("rm run/kineto_trace_2.json; ln -s nowhere.json run/kineto_trace_2.json")
        .exits(0);
    tool.run("ranks run")
        .exits(1)
        .notes("rank 2 is left out: cannot")
        .notes("run/kineto_trace_2.json")
        .says("3 ranks, 8 matched collectives");
    // a file without a rank in its name is named all the same
    tool.shell("mv run/kineto_trace_2.json run/more.json")
        .exits(0);
    tool.run("ranks run").exits(1).notes("run/more.json");
    // the compressed file next to it is the trace
    tool.file("run/kineto_trace_2.json", draw(RUN[2]));
    tool.shell("rm run/more.json; gzip run/kineto_trace_2.json; ln -s x run/kineto_trace_2.json")
        .exits(0);
    tool.run("ranks run")
        .exits(0)
        .notes("run/kineto_trace_2.json is a broken link")
        .says("4 ranks, ");
}

/// Two recordings in one folder are not a run of twice as many ranks.
#[test]
fn two_recordings_in_one_folder_are_not_added_up() {
    let tool = Tool::new();
    let both = "mkdir -p both; cp {pairs}/tpdp4-2.15.0/*.gz both; cd both; for r in 0 1 2 3; do \
        cp {pairs}/pipeline4-2.15.0/torch_et_$r.json.gz pytorch_et_$r.json.gz; \
        cp {pairs}/pipeline4-2.15.0/kineto_trace_$r.json.gz rank_$r.json.gz; done";
    tool.shell(both).exits(0);
    let runs = tool.run("ranks both --json").exits(0).runs();
    let runs = runs.as_array().expect("runs").iter();
    let runs = runs.map(|run| (&run["run"], run["ranks"].as_array().map(Vec::len)));
    let runs: Vec<_> = runs.collect();
    assert_eq!(
        runs,
        [(&json!("kineto-trace"), Some(4)), (&json!("rank"), Some(4))]
    );
    for command in ["analyze both", "findings both", "replay both"] {
        let said = tool.run(command).exits(0);
        assert!(!said.stdout.contains("8 ranks"), "{}", said.shown());
    }
    // a host trace belongs to the device trace of its process
    let merged = tool.run("merge both -o out").exits(0);
    let is_wrong =
        merged.stdout.contains("device trace only") || merged.stderr.contains("two runs");
    assert!(!is_wrong, "{}", merged.shown());
    // if only some ranks are recorded twice, nothing tells which recording the others are of
    tool.shell("rm both/rank_[123].json.gz").exits(0);
    let part = "2 device traces claim rank 0 (kineto_trace_0.json.gz, rank_0.json.gz)";
    for command in ["ranks both", "findings both", "replay both"] {
        tool.run(command)
            .exits(1)
            .notes(part)
            .notes("rank_0 is left out: its rank is uncertain");
    }
}

#[test]
fn folders_are_runs_of_their_own_even_with_the_same_ranks() {
    let tool = Tool::new();
    for folder in ["one", "two"] {
        for drawn in &RUN[..2] {
            let mut drawn: Drawn = *drawn;
            drawn.world = 2;
            tool.file(
                &format!("all/{folder}/kineto_trace_{}.json", drawn.rank),
                draw(drawn),
            );
        }
    }
    let ran = tool.run("ranks all --json").exits(0).runs();
    let told: Vec<_> = ran
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| (run["run"].as_str(), run["ranks"].as_array().map(Vec::len)))
        .collect();
    assert_eq!(told, [(Some("one"), Some(2)), (Some("two"), Some(2))]);
    tool.run("merge all -o out")
        .exits(0)
        .says("4 linked, 0 failed");
    tool.run("check out")
        .exits(0)
        .says("one.*.et: ok, 2 ranks together")
        .says("two.*.et: ok, 2 ranks together");
}

#[test]
fn partners_without_traces_are_neither_matched_nor_strangers() {
    let tool = Tool::new();
    tool.shell("cp -r {pairs}/pipeline4-2.15.0 run && rm run/*_2.json.gz")
        .exits(0);
    let ran = tool.run("merge run -o out --for astra-sim").exits(0);
    assert!(!ran.stdout.contains("another run"), "{}", ran.stdout);
    assert!(
        ran.stdout
            .contains("8 messages matched, 0 not, 16 with ranks whose traces are missing"),
        "{}",
        ran.stdout
    );
    // the placeholder of a rank without a trace does no work, and the others replay as measured
    let said = tool.run("replay out --json").exits(0).runs();
    assert_eq!(
        said[0]["together"]["ranks"].as_array().map(Vec::len),
        Some(3),
        "{said}"
    );
    assert!(
        said[0]["figures"]["replay_error"]
            .as_f64()
            .is_some_and(|error| error <= 0.02),
        "{said}"
    );
}

#[test]
fn clocks_that_no_offset_brings_together_are_said() {
    let tool = Tool::new();
    for rank in 0..2 {
        let mut draw = TraceBuilder::default();
        draw.distributed(rank, 2);
        let main = draw.thread();
        for round in 0..6 {
            // the second rank's clock alternates between right and 3 ms ahead
            let begin = (1 + 10 * round + 3 * rank * (round % 2)) * 1_000_000;
            let comms = ParamComms::new("allreduce", 0..2, rank, round);
            draw.collective(main, &comms, begin, begin + 20_000);
            let id = draw.next_correlation();
            draw.call(
                main,
                "cudaLaunchKernelExC",
                (begin + 5_000, begin + 9_000),
                id,
            );
            draw.collective_kernel(
                DeviceQueue::stream(20),
                "ncclDevKernel_AllReduce_Sum_f32",
                (begin + 100_000, begin + 450_000),
                id,
                &comms,
            );
        }
        tool.file(&format!("run/kineto_trace_{rank}.json"), draw.kineto());
    }
    tool.run("ranks run")
        .exits(0)
        .notes("no clock offset of rank 1 fits all its collectives and messages");
    tool.run("replay run")
        .exits(0)
        .says("every offset misses by");
}

#[test]
fn a_cut_trace_does_not_tell_which_of_gloos_ranges_ran_what() {
    let tool = Tool::new();
    tool.shell("cp -r {pairs}/ddp2-2.15.0 run && rm run/kineto_trace_1.json.gz")
        .exits(0);
    let whole = unpacked("ddp2-2.15.0/kineto_trace_1.json.gz");
    tool.file("run/kineto_trace_1.json", &whole[..whole.len() * 9 / 10]);
    let local =
        &tool.run("replay run --json").exits(0).runs()[0]["together"]["collectives"]["local"];
    assert_eq!(local["contradicted"], 0, "clocks are not to blame: {local}");
}

#[test]
fn force_replaces_a_run_as_a_whole() {
    let tool = Tool::new();
    put(&tool, &RUN);
    tool.run("merge run -o out --for astra-sim").exits(0);
    tool.file("out/run.notes.txt", "mine");
    for rank in [2, 3] {
        std::fs::remove_file(tool.path(&format!("run/kineto_trace_{rank}.json"))).expect("removed");
    }
    put(
        &tool,
        &[0, 1].map(|rank| Drawn {
            world: 2,
            ..RUN[rank]
        }),
    );
    tool.run("merge run -o out --for astra-sim")
        .exits(2)
        .complains(&["already exists", "--overwrite"]);
    tool.run("merge run -o out --for astra-sim --overwrite")
        .exits(0);
    assert!(
        tool.path("out/run.1.et").exists()
            && !tool.path("out/run.2.et").exists()
            && !tool.path("out/run.3.et").exists()
    );
    assert!(tool.path("out/run.notes.txt").exists());
    tool.run("check out").exits(0);
}

#[test]
fn a_simulator_folder_is_not_begun_for_ranks_that_are_too_far_apart() {
    let tool = Tool::new();
    let (mut first, mut last) = (RUN[0], RUN[1]);
    (first.world, last.world, last.rank) = (6_001, 6_001, 6_000);
    put(&tool, &[first, last]);
    tool.run("merge run -o out --for astra-sim")
        .exits(2)
        .complains(&[
            "more than 4096 ranks are missing",
            "leave --for astra-sim out",
        ]);
    assert!(!tool.path("out").exists(), "nothing half-written");
}

#[test]
fn traces_know_their_ranks_better_than_names_that_count_on_each_host() {
    let tool = Tool::new();
    // the second of two hosts: local ranks in the names
    for rank in [2, 3] {
        tool.file(
            &format!("run/kineto_trace_{}.json", rank - 2),
            draw(Drawn { rank, ..RUN[3] }),
        );
    }
    let said = "traces that report a different rank than their file names: 2 of 2 (kineto_trace_0.json is from rank 2): the reported ranks are consistent and are used";
    for line in ["ranks run", "merge run -o out", "replay run", "analyze run"] {
        tool.run(line).exits(0).notes(said);
    }
    assert!(
        tool.path("out/run.2.et").exists()
            && tool.path("out/run.3.et").exists()
            && !tool.path("out/run.0.et").exists()
    );
    let ran = tool.run("ranks run --json").exits(0).runs();
    assert_eq!(
        (
            &ran[0]["absent"],
            ran[0]["collectives"].as_array().map(Vec::len)
        ),
        (&json!([0, 1]), Some(8))
    );
}

#[test]
fn names_count_where_traces_cannot_all_be_right() {
    let tool = Tool::new();
    put(&tool, &RUN[..2]);
    // copies of one rank's trace, and of a rank outside the run
    for (name, inside) in [(2, 1), (3, 3)] {
        tool.file(
            &format!("run/kineto_trace_{name}.json"),
            draw(Drawn {
                rank: inside,
                ..RUN[0]
            }),
        );
    }
    let said = "traces that report a different rank than their file names: 1 of 4 (kineto_trace_2.json is from rank 1), but the reported ranks are inconsistent: the names are used";
    let ran = tool
        .run("merge run -o out")
        .exits(0)
        .notes(&format!("note: {said}"));
    assert!(!ran.stdout.contains(": :"), "{}", ran.stdout);
    assert!((0..4).all(|rank| tool.path(&format!("out/run.{rank}.et")).exists()));
    for (name, inside) in [(2, 9), (3, 3)] {
        tool.file(
            &format!("run/kineto_trace_{name}.json"),
            draw(Drawn {
                rank: inside,
                ..RUN[0]
            }),
        );
    }
    tool.run("ranks run")
        .exits(0)
        .notes("inconsistent: the names are used")
        .says("4 ranks, ");
}

#[test]
fn ranks_after_the_last_trace_get_a_file_too() {
    let tool = Tool::new();
    put(&tool, &RUN.map(|drawn| Drawn { world: 8, ..drawn })[..3]);
    tool.run("merge run -o out --for astra-sim")
        .exits(0)
        .notes("no trace of rank 3, 4, 5, 6, 7: 3 of 8 ranks have traces");
    assert!(
        (0..8).all(|rank| tool.path(&format!("out/run.{rank}.et")).exists())
            && !tool.path("out/run.8.et").exists()
    );
    assert!(String::from_utf8_lossy(&tool.read("out/network.yml")).contains("npus_count: [ 8 ]"));
    assert!(
        String::from_utf8_lossy(&tool.read("out/README.md"))
            .contains("These ranks have no usable trace: 3, 4, 5, 6, 7.")
    );
    tool.run("check out").exits(0).says("8 ranks together");
    // those leftovers must not stay next to a run without a simulator
    tool.run("merge run -o out --overwrite").exits(0);
    assert!(tool.path("out/run.2.et").exists() && !tool.path("out/run.3.et").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn where_nothing_can_be_written_is_named() {
    let tool = Tool::new();
    put(&tool, &RUN);
    for line in [
        "ranks run",
        "ranks run --json",
        "ranks run --csv",
        "merge run -o out --overwrite",
        "check out",
        "replay run",
        "schedule --wait 1 --warmup 1 --active 1 --steps 3",
    ] {
        tool.shell(&format!("$ETLINK {line} > /dev/full"))
            .exits(2)
            .complains(&["standard output", "No space left"]);
    }
    for output in [
        "/dev/full --format chakra",
        "/dev/full --format etplus",
        "- --format chakra > /dev/full",
    ] {
        let name = if output.starts_with('-') {
            "standard output"
        } else {
            "/dev/full"
        };
        tool.shell(&format!(
            "$ETLINK link --device run/kineto_trace_0.json -o {output}"
        ))
        .exits(2)
        .complains(&[name, "No space left"]);
    }
}

/// Moves every third event of a generated rank to the minimum or maximum of all times.
fn absurd(drawn: Drawn) -> String {
    let text = String::from_utf8(draw(drawn)).expect("text");
    let mut events = text.split("\"ts\": ");
    let mut out = events.next().expect("a head").to_owned();
    for (at, event) in events.enumerate() {
        let (ts, rest) = event.split_once(',').expect("more");
        let ts = [ts, "-9223372036854775.0", ts, ts, "9223372036854775.5", ts][at % 6];
        out += &format!("\"ts\": {ts},{rest}");
    }
    out
}

#[test]
fn times_that_no_trace_should_have_do_no_harm() {
    let tool = Tool::new();
    put(&tool, &RUN);
    tool.file("run/kineto_trace_1.json", absurd(RUN[1]));
    for line in [
        "merge run -o out --allow-mismatch",
        "merge run -o sim --for astra-sim --allow-mismatch",
        "replay sim --critical-path",
        "analyze run --allow-mismatch",
        "report run -o x.html --allow-mismatch",
    ] {
        tool.run(line).exits(0);
    }
    // events after such a time count as truncated
    for line in [
        "ranks run --allow-mismatch",
        "replay run --allow-mismatch --critical-path --scale kind=collective=9",
    ] {
        tool.run(line).exits(0).notes(
            "its device trace is truncated and lacks collectives that other ranks have with it",
        );
    }
    // one reason, and the right one
    tool.file(
        "x.json",
        draw(RUN[0])
            .iter()
            .map(|byte| *byte as char)
            .collect::<String>()
            .replace("\"ts\": ", "\"ts\": 9999999999999999"),
    );
    tool.run("link --device x.json")
        .exits(2)
        .complains(&["x.json", "more than 146 years"]);
}

/// Two programs that one machine ran within a minute, with files of both in one folder.
#[test]
fn a_rank_of_which_nothing_fits_the_others_is_named_by_all_reports() {
    let tool = Tool::new();
    for rank in 0..4 {
        let pair = if rank == 2 {
            "pipeline4-2.15.0"
        } else {
            "tpdp4-2.15.0"
        };
        for what in ["torch_et", "kineto_trace"] {
            let trace = unpacked(&format!("{pair}/{what}_{rank}.json.gz"));
            tool.file(&format!("run/{what}_{rank}.json"), trace);
        }
    }
    let said =
        "no communication of rank 2 matches another rank: its trace is probably from another run";
    for command in ["ranks", "findings", "replay", "analyze"] {
        tool.run(&format!("{command} run --allow-mismatch"))
            .notes(said);
    }
    // two ranks of the other program match each other
    for what in ["torch_et", "kineto_trace"] {
        let trace = unpacked(&format!("pipeline4-2.15.0/{what}_3.json.gz"));
        tool.file(&format!("run/{what}_3.json"), trace);
    }
    let found = tool.run("ranks run --allow-mismatch --json").runs();
    let told = found[0]["diagnostics"].as_array().expect("a list").iter();
    let strangers = told.filter(|one| one["code"] == "rank_stranger");
    let strangers: Vec<&Value> = strangers.map(|one| &one["ranks"]).collect();
    assert_eq!(strangers, [&json!([2, 3])]);
}

/// A trace that was copied under another rank's name may belong to either rank.
#[test]
fn of_one_trace_under_two_ranks_neither_is_taken() {
    let tool = Tool::new();
    tool.shell(
        "mkdir run && cp {pairs}/tpdp4-2.15.0/*.json.gz run && cd run && chmod u+w * \
        && cp kineto_trace_0.json.gz kineto_trace_3.json.gz && cp torch_et_0.json.gz torch_et_3.json.gz",
    )
    .exits(0);
    for command in ["ranks", "analyze", "findings", "replay", "top"] {
        for strict in ["", " --strict"] {
            let ran = tool.run(&format!("{command} run{strict}")).exits(1);
            ran.notes("rank 0 is left out: its trace and the trace of rank 3 are from one process")
                .notes(
                    "rank 3 is left out: its trace and the trace of rank 0 are from one process",
                );
        }
    }
    let report = tool.run("ranks run --json").exits(1).runs();
    let excluded = report[0]["excluded"].as_array().expect("excluded");
    let said: Vec<_> = excluded
        .iter()
        .map(|one| json!([one["label"], one["reason"]["same_trace"]["rank"]]))
        .collect();
    assert_eq!(json!(said), json!([["0", 3], ["3", 0]]));
    assert_eq!(report[0]["ranks"].as_array().map(Vec::len), Some(2));
    // the remaining ranks stay joined, and the others get a graph each
    tool.run("merge run -o out").exits(1);
    for name in ["run.1.et", "run.2.et", "run.0.not_joined.et"] {
        assert!(tool.path("out").join(name).exists(), "{name}");
    }
    tool.shell("rm run/*_[12].json.gz").exits(0);
    for command in ["analyze", "findings"] {
        tool.run(&format!("{command} run"))
            .exits(2)
            .complains(&["no rank can be used: its trace and the trace of rank 3"]);
    }
    tool.run("merge run -o none").exits(1);
    // a run of 4 ranks has no rank 7, so that trace is the copy
    tool.shell(
        "rm run/* && cp {pairs}/tpdp4-2.15.0/kineto_trace_* run \
        && cp run/kineto_trace_1.json.gz run/kineto_trace_7.json.gz",
    )
    .exits(0);
    let report = tool.run("ranks run --json").exits(1).runs();
    let excluded = &report[0]["excluded"];
    assert_eq!(excluded[0]["reason"]["same_trace"]["rank"], 1, "{excluded}");
    assert_eq!(report[0]["ranks"].as_array().map(Vec::len), Some(4));
}

#[test]
fn device_traces_that_were_swapped_go_to_the_host_traces_of_their_processes() {
    let whole = Tool::new().run("ranks {pairs}/ddp2-2.15.0 --json").exits(0);
    for states_rank in [true, false] {
        let tool = Tool::new();
        for rank in 0..2 {
            let host = unpacked(&format!("ddp2-2.15.0/torch_et_{rank}.json.gz"));
            tool.file(&format!("run/torch_et_{rank}.json"), host);
            let device = unpacked(&format!("ddp2-2.15.0/kineto_trace_{rank}.json.gz"));
            let mut device = String::from_utf8(device).expect("is text");
            if !states_rank {
                device = device.replace("distributedInfo", "otherInfo");
            }
            tool.file(&format!("run/kineto_trace_{}.json", 1 - rank), device);
        }
        let ran = tool.run("ranks run --json").exits(0);
        assert_eq!(ran.runs()[0]["ranks"], whole.runs()[0]["ranks"]);
        tool.run("findings run")
            .exits(0)
            .notes("kineto_trace_1.json is from the process of torch_et_0.json")
            .lacks("two runs");
    }
}
