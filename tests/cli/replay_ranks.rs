//! `etlink replay DIR`: all ranks of recorded and generated runs together.

use crate::tool::{Tool, pairs};
use etlink_testing::{DeviceQueue, KinetoFlavour, ParamComms, TraceBuilder};
use serde_json::{Value, json};

/// Copies the device traces of a recorded pair to `folder`.
fn put_devices(tool: &Tool, folder: &str, pair: &str, ranks: usize) {
    for rank in 0..ranks {
        let name = format!("kineto_trace_{rank}.json.gz");
        let trace = std::fs::read(pairs().join(pair).join(&name)).expect("a trace");
        tool.file(&format!("{folder}/{name}"), trace);
    }
}

#[test]
fn a_run_without_ranks_does_not_keep_the_others_from_being_replayed() {
    let tool = Tool::new();
    put_devices(&tool, "two/a", "ddp2-2.15.0", 2);
    put_devices(&tool, "two/b", "pipeline4-2.15.0", 4);
    // only the second run has that rank
    let json = tool.run("replay two --ranks 3 --json").exits(0).runs();
    assert_eq!(only(&json)["input"], "two/b");
    tool.run("replay two --ranks 9")
        .exits(2)
        .complains(&["no traces for the ranks requested with --ranks"]);

    put_devices(&tool, "odd/a", "ddp2-2.15.0", 2);
    tool.file("odd/b/kineto_trace_0.json", "{\"traceEvents\": 3, garbage");
    let json = tool.run("replay odd --json").exits(1).runs();
    assert_eq!(json[0]["input"], "odd/a");
    assert!(json[0]["figures"]["nodes"].as_u64() > Some(0));
    assert_eq!(json[1]["input"], "odd/b");
    assert_eq!(json[1]["figures"], Value::Null);
    assert_eq!(json[1]["together"]["excluded"][0]["reason"], "unreadable");
    let text = tool.run("replay odd").exits(1);
    text.says("not replayed").notes("left out");
    tool.run("replay odd/b")
        .exits(2)
        .complains(&["kineto_trace_0.json"]);
}

#[test]
fn a_rule_that_only_some_runs_know_is_a_note_of_the_others() {
    let tool = Tool::new();
    put_devices(&tool, "two/a", "ddp2-2.15.0", 2);
    put_devices(&tool, "two/b", "pipeline4-2.15.0", 4);
    for (rule, what) in [
        ("--explain 'rank=3/*'", "--explain rank=3/*"),
        ("--scale 'rank=3/*=2'", "--scale rank=3/*=2"),
    ] {
        let ran = tool
            .shell(&format!("$ETLINK replay two {rule} --json"))
            .exits(0);
        let json = ran.runs();
        let notes = json[0]["diagnostics"].to_string();
        assert!(notes.contains(what), "{notes}");
        assert!(notes.contains("no rank 3"), "{notes}");
        assert_eq!(json[0]["explanation"], Value::Null);
        let notes = json[1]["diagnostics"].to_string();
        assert!(!notes.contains(what), "{notes}");
    }
    // a name unknown to all runs
    for rule in ["--explain gloo:all_reduc", "--scale gloo:all_reduc=2"] {
        tool.run(&format!("replay two {rule}"))
            .exits(2)
            .complains(&["gloo:all_reduc", "similar names: gloo:"]);
    }
}

#[test]
fn a_damaged_rank_is_left_out_under_strict_and_the_others_are_replayed() {
    let tool = Tool::new();
    put_devices(&tool, "run", "ddp2-2.15.0", 2);
    let whole = tool.read("run/kineto_trace_1.json.gz");
    tool.file("run/kineto_trace_1.json.gz", &whole[..3000]);
    let json = tool.run("replay run --strict --json").exits(1).runs();
    let together = &only(&json)["together"];
    assert_eq!(together["ranks"].as_array().map(Vec::len), Some(1));
    let excluded = &together["excluded"];
    assert_eq!(excluded[0]["label"], "1");
    assert_eq!(excluded[0]["reason"], "damaged");
    // nothing is left: refused, with the name
    tool.run("replay run --strict --ranks 1")
        .exits(1)
        .complains(&["kineto_trace_1.json.gz", "refused under --strict"]);
}

const MS: i64 = 1_000_000;

fn only(told: &Value) -> &Value {
    let runs = told.as_array().expect("a list of runs");
    assert_eq!(runs.len(), 1);
    &runs[0]
}

fn is_true(run: &Value, what: &str) {
    let share = |value: &Value, key: &str| {
        assert!(
            value.as_f64().is_some_and(|error| error <= 0.02),
            "{what}: {key} is {value}"
        )
    };
    let figures = &run["figures"];
    share(&figures["replay_error"], "replay error");
    share(&figures["end_error"]["mean_share"], "end error");
    assert_eq!(figures["contradictions"]["edges"], 0, "{what}");
    let ranks = run["together"]["ranks"].as_array().expect("ranks");
    ranks
        .iter()
        .for_each(|rank| share(&rank["replay_error"], "replay error of a rank"));
}

#[test]
fn recorded_runs_give_their_measured_times_back_with_all_collectives_joined() {
    let tool = Tool::new();
    for (case, joined, written) in [
        ("ddp2-2.15.0", 4, 4),
        ("ddp2-2.4.1", 4, 4),
        ("ddp2_race-2.15.0", 4, 4),
        // plain gloo records no collectives
        ("ddp2_gloo-2.15.0", 0, 0),
        ("ddp2_gloo-2.3.1", 0, 0),
        // simulators have no barriers: two are computation in files
        ("tpdp4-2.15.0", 26, 24),
        ("pipeline4-2.15.0", 24, 24),
        ("experts2-2.15.0", 4, 4),
        ("fsdp2-2.15.0", 18, 18),
    ] {
        let told = tool
            .run(&format!("replay {{pairs}}/{case} --critical-path --json"))
            .exits(0)
            .runs();
        let run = only(&told);
        is_true(run, case);
        let met = &run["together"]["collectives"];
        assert_eq!(met["joined"], joined, "{case}");
        assert!(
            met["local"]
                .as_object()
                .expect("local")
                .values()
                .all(|count| *count == 0),
            "{case}: {met}"
        );
        let path = &run["critical_path"];
        let sum = |key: &str| {
            path[key]
                .as_object()
                .expect(key)
                .values()
                .map(|time| time["ns"].as_i64().expect("ns"))
                .sum::<i64>()
        };
        assert_eq!(
            json!([sum("causes"), sum("ranks")]),
            json!([path["makespan_ns"], path["makespan_ns"]]),
            "{case}"
        );
        tool.run(&format!("merge {{pairs}}/{case} -o {case}"))
            .exits(0);
        let files = tool.run(&format!("replay {case} --json")).exits(0).runs();
        let files = only(&files);
        is_true(files, case);
        assert_eq!(
            (
                &files["together"]["collectives"]["joined"],
                &files["figures"]["replayed_ns"]
            ),
            (&json!(written), &run["figures"]["replayed_ns"])
        );
    }
}

#[test]
fn files_for_a_simulator_replay_as_measured_too() {
    let tool = Tool::new();
    for (at, mode) in ["", "--device-only", "--comm-only"].into_iter().enumerate() {
        tool.run(&format!("merge {{pairs}} -o {at} --for astra-sim {mode}"))
            .exits(0);
        let told = tool.run(&format!("replay {at} --json")).exits(0).runs();
        let runs = told.as_array().expect("runs");
        assert!(runs.len() > 20);
        runs.iter()
            .for_each(|run| is_true(run, &format!("{mode} {}", run["input"])));
    }
}

#[test]
fn ranks_and_replay_say_the_same_of_who_waited() {
    let tool = Tool::new();
    for case in [
        "ddp2-2.15.0",
        "ddp2-2.4.1",
        "ddp2_race-2.15.0",
        "tpdp4-2.15.0",
        "pipeline4-2.15.0",
        "experts2-2.15.0",
        "fsdp2-2.15.0",
    ] {
        let replayed = tool
            .run(&format!("replay {{pairs}}/{case} --json"))
            .exits(0)
            .runs();
        let ranks = tool
            .run(&format!("ranks {{pairs}}/{case} --json"))
            .exits(0)
            .runs();
        let each = |ranks: &Value, of: fn(&Value) -> &Value| {
            ranks
                .as_array()
                .expect("ranks")
                .iter()
                .map(|rank| of(rank).clone())
                .collect::<Vec<_>>()
        };
        let stood_still = each(&only(&replayed)["together"]["ranks"], |rank| {
            &rank["collectives"]["waiting_ns"]
        });
        assert_eq!(
            each(&ranks[0]["ranks"], |rank| &rank["waited_ns"]),
            stood_still,
            "{case}"
        );
    }
}

#[test]
fn a_rank_for_a_folder_is_refused() {
    let tool = Tool::new();
    tool.run("replay {pairs}/ddp2-2.15.0 --rank 1")
        .exits(2)
        .complains(&["--rank", "rank=1/"]);
}

#[test]
fn the_critical_path_goes_from_rank_to_rank_by_a_collective() {
    let tool = Tool::new();
    let ran = tool
        .run("replay {pairs}/pipeline4-2.15.0 --critical-path")
        .exits(0);
    ran.says("rank 2 arrived last at message 1 from rank 2 to rank 3")
        .says("24  joined, including messages")
        .says("  rank 3  ");
}

#[test]
fn a_slower_rank_makes_the_others_wait_in_its_collectives() {
    let tool = Tool::new();
    for folder in ["{pairs}/ddp2-2.15.0", "out"] {
        tool.run("merge {pairs}/ddp2-2.15.0 -o out --overwrite")
            .exits(0);
        let told = tool
            .shell(&format!(
                "$ETLINK replay {folder} --scale 'rank=1/kind=host_op 3' --json"
            ))
            .exits(0)
            .runs();
        let change = |rank: usize, key: &str| {
            only(&told)["what_if"]["ranks"][rank][key]
                .as_i64()
                .expect("ns")
        };
        assert!(
            change(0, "end_change_ns") > 5 * MS && change(1, "end_change_ns") > 5 * MS,
            "{told}"
        );
        assert!(change(0, "waiting_change_ns") > 5 * MS && change(0, "transfer_change_ns") == 0);
        tool.shell(&format!("$ETLINK replay {folder} --scale 'rank=7/*=3'"))
            .exits(2)
            .complains(&[
                "--scale rank=7/*=3: changes nothing",
                "no rank 7; ranks: 0, 1",
            ]);
        let free = tool
            .shell(&format!(
                "$ETLINK replay {folder} --scale 'rank=1/*=3' --drop-edges collective --json"
            ))
            .exits(0)
            .runs();
        assert!(
            only(&free)["what_if"]["ranks"][0]["end_change_ns"]
                .as_i64()
                .expect("ns")
                <= 0,
            "nobody waits for rank 1"
        );
    }
}

/// Two all-reduces on stream 20 that take 50 us once all ranks have come, by a clock that is ahead.
/// ```text
/// rank 0   launch  |=wait=====|50=|    rank 1   launch   . . . |50=|
/// ```
fn draw(rank: i64, ahead_ns: i64, arrives: [i64; 2]) -> Vec<u8> {
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    draw.distributed(rank, 2)
        .origin(1_700_000_000_000 * MS + ahead_ns);
    let main = draw.thread();
    for (round, arrival) in (0..).zip(arrives) {
        let begin = (round + 1) * MS;
        let comms = ParamComms::new("allreduce", 0..2, rank, round + 100);
        draw.collective(main, &comms, begin, begin + 20_000);
        let correlation = draw.next_correlation();
        draw.call(
            main,
            "cudaLaunchKernelExC",
            (begin + 5_000, begin + 9_000),
            correlation,
        );
        draw.collective_kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_AllReduce_Sum_f32",
            (begin + arrival, begin + 250_000),
            correlation,
            &comms,
        );
    }
    draw.kineto()
}

#[test]
fn time_in_collectives_is_waiting_for_the_last_and_transfer() {
    let tool = Tool::new();
    tool.file("run/kineto_trace_0.json", draw(0, 0, [20_000, 200_000]));
    tool.file(
        "run/kineto_trace_1.json",
        draw(1, -5 * MS, [200_000, 30_000]),
    );
    let told = tool.run("replay run --json").exits(0).runs();
    is_true(only(&told), "drawn");
    let all = &only(&told)["together"];
    assert_eq!(
        (
            &all["collectives"]["joined"],
            &all["ranks"][1]["clock_offset_ns"]
        ),
        (&json!(2), &json!(5 * MS))
    );
    let spent = |rank: usize| &all["ranks"][rank]["collectives"];
    assert_eq!(
        spent(0),
        &json!({"count": 2, "waiting_ns": 180_000, "transfer_ns": 100_000})
    );
    assert_eq!(
        spent(1),
        &json!({"count": 2, "waiting_ns": 170_000, "transfer_ns": 100_000})
    );
    // a network of twice the speed: the second transfer starts after the measured gap
    let faster = tool
        .shell("$ETLINK replay run --scale 'kind=collective 0.5' --json")
        .exits(0)
        .runs();
    assert_eq!(only(&faster)["what_if"]["device_end_change_ns"], -25_000);
    let one = tool.run("replay run --json -j 1").exits(0).runs();
    assert_eq!(one, told, "at any number of threads");
    let apart = tool.run("replay run --json --no-align").exits(0).runs();
    assert_eq!(
        only(&apart)["together"]["collectives"]["local"]["contradicted"],
        2,
        "by clocks that are apart nothing fits"
    );
    is_true(only(&apart), "not aligned");
}

/// Generates work of `works_us` on the host, then an all-reduce that takes 50 us once both ranks
/// have arrived, and the wait for it. The other rank arrives at `last_us`.
fn work_and_reduce(rank: i64, works_us: i64, last_us: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    draw.distributed(rank, 2).origin(1_700_000_000_000 * MS);
    let main = draw.thread();
    let worked = works_us * 1_000;
    let comms = ParamComms::new("allreduce", 0..2, rank, 1);
    draw.op(main, "aten::mm", 0, worked);
    draw.collective(main, &comms, worked, worked + 10_000);
    let launch = draw.next_correlation();
    let called = worked + 2_000;
    draw.call(
        main,
        "cudaLaunchKernelExC",
        (called, called + 4_000),
        launch,
    );
    let last = last_us.max(works_us) * 1_000 + 8_000;
    draw.collective_kernel(
        DeviceQueue::stream(20),
        "ncclDevKernel_AllReduce_Sum_f32",
        (called + 6_000, last + 50_000),
        launch,
        &comms,
    );
    let sync = draw.next_correlation();
    let waits = (worked + 12_000, last + 54_000);
    draw.call(main, "cudaDeviceSynchronize", waits, sync);
    draw.op(main, "aten::add", last + 54_000, last + 154_000);
    draw.kineto()
}

#[test]
fn a_slower_rank_is_predicted_from_the_run_before() {
    let tool = Tool::new();
    for (folder, works) in [("before", [300, 200]), ("after", [300, 900])] {
        for rank in [0, 1] {
            let [own, other] = [works[rank], works[1 - rank]];
            let trace = work_and_reduce(rank as i64, own, other);
            tool.file(&format!("{folder}/kineto_trace_{rank}.json"), trace);
        }
    }
    let told = tool
        .run("replay --validate before after --json")
        .exits(0)
        .json();
    let error = |key: &str| told[key].as_f64().expect("a share");
    assert!(error("error") < 0.01, "{told}");
    assert!(error("unchanged_error") > 0.3, "{told}");
    assert_eq!(told["verdict"], "confirmed");
    assert_eq!(told["only_before"]["nodes"], json!(0), "{told}");
    tool.run("replay --validate before after/kineto_trace_0.json")
        .exits(2)
        .notes("--validate takes two traces, or two folders");
}

#[test]
fn graphs_of_some_ranks_say_that_others_are_absent() {
    let tool = Tool::new();
    put_devices(&tool, "run", "tpdp4-2.15.0", 2);
    tool.run("merge run -o graphs").exits(0);
    let said = "note: no trace of rank 2, 3";
    tool.run("replay graphs").exits(0).notes(said);
}

#[test]
fn a_validation_says_what_is_odd_in_either_run() {
    let tool = Tool::new();
    for (folder, ranks) in [("before", 0..2), ("after", 0..1)] {
        for rank in ranks {
            let mut trace = work_and_reduce(rank, 300, 200);
            if folder == "before" && rank == 1 {
                // the disk was full
                trace.truncate(trace.len() - 200);
            }
            tool.file(&format!("{folder}/kineto_trace_{rank}.json"), trace);
        }
    }
    let said = tool.run("replay --validate before after").exits(0);
    said.notes("note: before: rank 1: damage: the file is truncated")
        .notes("note: after: no trace of rank 1");
    let json = tool
        .run("replay --validate before after --json")
        .exits(0)
        .json();
    assert!(
        json["diagnostics"].as_array().is_some_and(|all| all
            .iter()
            .any(|told| told["code"] == "ranks_absent" && told["runs"] == json!(["after"]))),
        "{json}"
    );
    assert_eq!(json["excluded"], json!([]));
    // an unreadable trace is not part of the run
    tool.file("after/kineto_trace_1.json", "[1, 2");
    let said = tool.run("replay --validate before after --json").exits(1);
    assert_eq!(said.json()["excluded"][0]["label"], "1");
}

#[test]
fn two_programs_predict_nothing_of_each_other() {
    let tool = Tool::new();
    for rank in [0, 1] {
        let trace = work_and_reduce(rank, 300, 200);
        tool.file(&format!("one/kineto_trace_{rank}.json"), trace);
        let mut other = TraceBuilder::default();
        other.distributed(rank, 2);
        let main = other.thread();
        other.op(main, "other::op", 0, 50_000);
        tool.file(&format!("other/kineto_trace_{rank}.json"), other.kineto());
    }
    let why = "have no node in common";
    tool.run("replay --validate one other")
        .exits(2)
        .complains(&["one and other", why]);
    tool.run("replay --validate one/kineto_trace_0.json other/kineto_trace_0.json")
        .exits(2)
        .complains(&["one/kineto_trace_0.json and other/kineto_trace_0.json", why]);
}

/// Common parts take as long as before; the time after is decided by new ones.
#[test]
fn a_prediction_that_did_not_come_true_is_refuted() {
    let tool = Tool::new();
    for (name, own, new, count) in [
        ("before", "before::op", 0, 1),
        ("after", "after::op", 900_000, 1),
        ("other", "other::op", 0, 9),
    ] {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        let common = if count == 1 { 9 } else { 1 };
        for at in 0..common {
            draw.op(main, "aten::mm", at * 20_000, at * 20_000 + 10_000);
        }
        for at in 0..count {
            let begin = 200_000 + at * 20_000;
            draw.op(main, own, begin, begin + 10_000 + new);
        }
        tool.file(&format!("{name}.json"), draw.kineto());
    }
    let verdict = |line: &str| {
        let told = tool
            .run(&format!("replay --validate {line} --json"))
            .exits(1)
            .json();
        told["verdict"].as_str().map(str::to_owned)
    };
    assert_eq!(
        verdict("before.json after.json").as_deref(),
        Some("refuted")
    );
    let unlike = verdict("after.json other.json");
    assert_eq!(unlike.as_deref(), Some("different_programs"));
    tool.run("replay --validate before.json after.json")
        .exits(1)
        .says("refuted");
}

/// Generates two collectives in sequence on one stream, one of all three ranks and one of the first
/// two. Rank 1 calls them in reverse order.
fn opposite(rank: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 3);
    let main = draw.thread();
    let sizes: &[u64] = match rank {
        0 => &[2, 3],
        1 => &[3, 2],
        _ => &[3],
    };
    for (at, size) in (0..).zip(sizes) {
        let mut comms = ParamComms::new("allreduce", 0..*size, rank, 7);
        comms.group_name = size.to_string();
        let begin = at * 100_000;
        draw.collective(main, &comms, begin, begin + 20_000);
        let correlation = draw.next_correlation();
        let call = (begin + 5_000, begin + 9_000);
        draw.call(main, "cudaLaunchKernelExC", call, correlation);
        let kernel = (begin + 30_000, begin + 90_000);
        let name = "ncclDevKernel_AllReduce_Sum_f32";
        draw.collective_kernel(DeviceQueue::stream(20), name, kernel, correlation, &comms);
    }
    draw.kineto()
}

/// Graphs linked one by one keep the order of each rank.
#[test]
fn graphs_that_wait_for_each_other_are_said_to_deadlock() {
    let tool = Tool::new();
    tool.shell("mkdir set").exits(0);
    for rank in 0..3 {
        let trace = format!("kineto_trace_{rank}.json");
        tool.file(&trace, opposite(rank));
        tool.run(&format!("link --device {trace} -o set/run.{rank}.et"))
            .exits(0);
    }
    tool.file("set/comm_group.json", r#"{"2": [0, 1], "3": [0, 1, 2]}"#);
    tool.run("check set").exits(1);
    let said = tool.run("replay set").exits(1);
    said.notes("the ranks deadlock");
    let told = tool.run("replay set --json").exits(1).runs();
    assert_eq!(told[0]["together"]["is_deadlocked"], true, "{told}");
}

/// Generates steps from number 3, with these lengths in us.
fn draw_steps(rank: i64, lengths_us: &[i64]) -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    let main = draw.thread();
    for (step, micros) in (3..).zip(lengths_us) {
        let (begin, end) = (step * MS, step * MS + micros * 1_000);
        draw.annotation(main, &format!("ProfilerStep#{step}"), begin, end);
        draw.op(main, "aten::mm", begin, end);
    }
    draw.kineto()
}

#[test]
fn the_step_is_of_those_that_all_ranks_have() {
    let tool = Tool::new();
    for (folder, cut) in [
        ("one", &[600][..]),
        ("two", &[600, 600]),
        ("all", &[600; 3]),
    ] {
        let whole = draw_steps(0, &[500, 500, 900]);
        tool.file(&format!("{folder}/kineto_trace_0.json"), whole);
        let cut = draw_steps(1, cut);
        tool.file(&format!("{folder}/kineto_trace_1.json"), cut);
    }
    let step = |folder: &str| tool.run(&format!("replay {folder}")).exits(0);
    // rank 0 has two more steps
    step("one").says("600.000 us  the only step, without 2 truncated, empty, behind earlier work, or not on all ranks");
    step("two").says(
        "mean of 2 steps, without 1 truncated, empty, behind earlier work, or not on all ranks",
    );
    step("all").says("mean of 3 steps, to the end of the device work");
    let json = tool.run("replay one --json").exits(0).runs();
    assert_eq!(json[0]["steps"].as_array().map(Vec::len), Some(4));
}

#[test]
fn an_explained_transfer_says_who_came_last_and_that_its_start_is_inferred() {
    let tool = Tool::new();
    tool.file("run/kineto_trace_0.json", draw(0, 0, [20_000, 200_000]));
    tool.file(
        "run/kineto_trace_1.json",
        draw(1, -5 * MS, [200_000, 30_000]),
    );
    // rank 1 comes 180 us later to the first all-reduce
    let wanted = |rank: u32| {
        let name = "ncclDevKernel_AllReduce_Sum_f32";
        format!("replay run --explain rank={rank}/{name}")
    };
    let told = tool.run(&format!("{} --json", wanted(0))).exits(0).runs();
    let told = &only(&told)["explanation"];
    assert_eq!(told["measured_start_ns"], Value::Null, "{told}");
    assert_eq!(told["inferred_start_ns"], told["start_ns"]);
    assert_eq!(
        told["last_arrival"],
        json!({"rank": 1, "behind_first_ns": 180_000})
    );
    tool.run(&wanted(0))
        .exits(0)
        .says("inferred start")
        .says("arrived last at the collective, 180.000 us after the first");
    // its own kernel began when it arrived, which is measured
    let told = tool.run(&format!("{} --json", wanted(1))).exits(0).runs();
    let told = &only(&told)["explanation"];
    assert_eq!(told["measured_start_ns"], told["start_ns"], "{told}");
    assert_eq!(told["last_arrival"]["rank"], 1);
}

#[test]
fn files_without_times_wait_for_each_other_too() {
    let tool = Tool::new();
    for rank in 0..2 {
        let (compute, reduce) = (
            json!({"id": "1", "name": "gemm", "type": "COMP_NODE",
                "durationMicros": (rank + 1) * 100}),
            "all_reduce",
        );
        let group = json!({"id": "2", "name": reduce, "type": "COMM_COLL_NODE", "ctrlDeps": ["1"],
            "durationMicros": 30,
            "attr": [{"name": "comm_type", "int64Val": "0"}, {"name": "comm_size",
              "int64Val": "8"}]});
        let head = json!({"version": "0.0.4"});
        tool.file(
            &format!("run/sim.{rank}.et"),
            [head, compute, group]
                .map(|part| part.to_string())
                .join("\n"),
        );
    }
    let told = tool
        .run("replay run --json --critical-path")
        .exits(0)
        .runs();
    let run = only(&told);
    assert_eq!(
        (
            &run["figures"]["replayed_ns"],
            &run["figures"]["measured_ns"]
        ),
        (&json!(230_000), &json!(null))
    );
    assert_eq!(
        run["together"]["ranks"][0]["collectives"],
        json!({"count": 1, "waiting_ns": 100_000, "transfer_ns": 30_000})
    );
    let crossing =
        json!([{"from": 1, "to": 0, "by": "all_reduce 0 of ranks 0, 1", "at_ns": 200_000}]);
    assert_eq!(run["critical_path"]["crossings"], crossing);
    assert!(
        run["diagnostics"].to_string().contains("no start times"),
        "{}",
        run["diagnostics"]
    );
}

#[test]
fn ranks_that_are_not_there_or_broken_are_named_and_the_rest_runs() {
    let tool = Tool::new();
    for rank in 0..2 {
        tool.file(
            &format!("run/kineto_trace_{rank}.json"),
            draw(rank, 0, [20_000, 30_000]),
        );
    }
    tool.file("run/kineto_trace_2.json", "no trace");
    let ran = tool.run("replay run").exits(1);
    ran.notes("kineto_trace_2.json")
        .says("2  joined, including messages");
    tool.run("replay run -o x.trace.json")
        .exits(2)
        .complains(&["-o", "--host"]);
    tool.run("replay empty-is-no-folder").exits(2);
    tool.file("none/readme.txt", "");
    tool.run("replay none")
        .exits(2)
        .complains(&["none", "traces"]);
}

#[test]
fn a_quicker_network_changes_what_bytes_take() {
    let tool = Tool::new();
    let asked = |folder: &str| {
        let question = "--what-if bandwidth=default_pg:2";
        tool.run(&format!("replay {{pairs}}/{folder} {question}"))
            .exits(0)
    };
    // Its transfers have three sizes.
    asked("fsdp2-2.15.0")
        .notes("bandwidth=default_pg:2: all_gather of group \"0\": ")
        .notes("GB/s, fitted to 3 sizes");
    asked("ddp2-2.15.0").notes("all_reduce of group \"0\": too few or too similar sizes");
    asked("tpdp4-2.15.0").notes("barrier of group \"0\" moves no bytes");
}

/// A message goes from one rank to another, whatever the number of ranks.
#[test]
fn more_ranks_change_no_messages() {
    let tool = Tool::new();
    tool.run("replay {pairs}/pipeline4-2.15.0 --what-if ranks=8")
        .exits(2)
        .complains(&["no collective is known to include all 4 ranks"]);
}
