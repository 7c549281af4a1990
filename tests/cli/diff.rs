//! `etlink diff`: changes between two runs.

use crate::tool::{Tool, pairs};
use etlink_testing::{DeviceQueue, TraceBuilder};
use serde_json::{Value, json};

const US: i64 = 1_000;

/// Generates two steps of an op of 30 us that launches a kernel of `micros` us.
fn draw(kernel: &str, micros: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..2 {
        let begin = step * 200 * US;
        draw.annotation(
            main,
            &format!("ProfilerStep#{step}"),
            begin,
            begin + 150 * US,
        );
        draw.op(main, "aten::mm", begin + 10 * US, begin + 40 * US);
        draw.launch(
            main,
            (begin + 12 * US, begin + 15 * US),
            DeviceQueue::stream(7),
            kernel,
            (begin + 20 * US, begin + (20 + micros) * US),
        );
    }
    draw
}

#[test]
fn a_slower_kernel_is_named_with_its_cost_per_step() {
    let tool = Tool::new();
    tool.file("before.json", draw("gemm", 20).kineto());
    tool.file("after.json", draw("gemm", 32).kineto());
    let said = tool
        .run("diff before.json after.json --json")
        .exits(0)
        .json();
    let want = json!({"name": "gemm", "on_device": true, "kind": "slower", "counts": [1.0, 1.0],
        "times_ns": [20_000, 32_000], "cost_ns": 12_000});
    assert_eq!((&said["per"], &said["changes"][0]), (&json!("step"), &want));
    assert!(
        said["changes"]
            .as_array()
            .expect("rows")
            .iter()
            .skip(1)
            .all(|row| row["kind"] == "same"),
        "{said}"
    );
    tool.run("diff before.json after.json")
        .exits(0)
        .says("device time 20.000 us -> 32.000 us (+60.0 %)")
        .says("+12.000 us");
    let csv = tool.run("diff before.json after.json --csv").exits(0);
    assert!(
        csv.stdout
            .contains("\ngemm,true,slower,1,1,20000,32000,12000,,,gemm\n"),
        "{}",
        csv.stdout
    );
    tool.run("diff before.json after.json")
        .exits(0)
        .says("count before  count after  time before  time after")
        .says("before: before.json, 1 rank, 2 steps");
    tool.run("diff before.json before.json")
        .exits(0)
        .says("nothing changed");
    tool.run("diff - -")
        .exits(2)
        .complains(&["only one of the runs can be standard input"]);
}

#[test]
fn another_kernel_is_added_and_removed() {
    let tool = Tool::new();
    tool.file("before.json", draw("gemm_v1", 20).kineto());
    tool.file("after.json", draw("gemm_v2", 15).kineto());
    let said = tool
        .run("diff before.json after.json --json")
        .exits(0)
        .json();
    let rows: Vec<_> = said["changes"]
        .as_array()
        .expect("rows")
        .iter()
        .take(2)
        .map(|row| (row["name"].clone(), row["kind"].clone()))
        .collect();
    assert_eq!(
        rows,
        [
            (json!("gemm_v1"), json!("removed")),
            (json!("gemm_v2"), json!("added"))
        ]
    );
}

#[test]
fn recorded_runs_by_shape_and_by_stack() {
    let tool = Tool::new();
    let two = "{pairs}/ddp2_gloo-2.15.0 {pairs}/ddp2-2.15.0";
    let said = tool
        .run(&format!("diff {two} --group shape --json"))
        .exits(0)
        .json();
    assert_eq!(
        (&said["runs"][0]["ranks"], &said["runs"][1]["ranks"]),
        (&json!(2), &json!(2))
    );
    assert!(
        said["changes"]
            .as_array()
            .expect("rows")
            .iter()
            .any(|row| row["shapes"].is_string())
    );
    let same = "{pairs}/../averages/transformer-2.15.0";
    tool.run(&format!("diff {same} {same} --group stack --frames 1"))
        .exits(0)
        .says("nothing changed");
    tool.run(&format!("diff {same} nowhere"))
        .exits(2)
        .complains(&["nowhere"]);
}

/// Generates steps of these lengths, us, each with a wait of 5 us for a kernel of half its length.
fn draw_steps(lengths: &[i64]) -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let mut begin = 0;
    for (step, micros) in lengths.iter().enumerate() {
        let at = |us: i64| begin + us * US;
        draw.annotation(main, &format!("ProfilerStep#{step}"), at(0), at(*micros));
        draw.op(main, "aten::mm", at(10), at(30));
        draw.launch(
            main,
            (at(12), at(15)),
            DeviceQueue::stream(7),
            "sm80_gemm",
            (at(20), at(20 + micros / 2)),
        );
        let id = draw.next_correlation();
        draw.call(main, "cudaStreamSynchronize", (at(40), at(45)), id);
        begin += (micros + 10) * US;
    }
    draw.kineto()
}

#[test]
fn a_step_that_is_slower_by_more_than_steps_vary_is_real() {
    let tool = Tool::new();
    tool.file("before.json", draw_steps(&[200, 204, 196, 200]));
    tool.file("after.json", draw_steps(&[300, 306, 294, 300]));
    tool.file("again.json", draw_steps(&[201, 199, 203, 199]));
    tool.file("one.json", draw_steps(&[300]));
    let said = tool.run("diff before.json after.json").exits(0);
    assert!(
        said.stdout.starts_with(
            "mean step 207.500 us -> 307.500 us (+48.2 %); steps vary by 2.9 % before, 2.3 % after: real\n"
        ),
        "{}",
        said.shown()
    );
    said.says("devices are busy ")
        .says("device time by class, per step\n")
        .says("+50.0 %  computation gemm\n")
        .says("device time by launching op, per step\n")
        .says("+50.0 %  aten::mm\n");
    tool.run("diff before.json again.json")
        .exits(0)
        .says("steps vary by 2.9 % before, 2.4 % after: may be chance\n")
        .says("1 row changed within the spread of steps\n");
    tool.run("diff before.json one.json")
        .exits(0)
        .says("spread unknown with a single step\n");
    let json = tool
        .run("diff before.json after.json --json")
        .exits(0)
        .json();
    assert_eq!(
        (
            &json["step"]["times_ns"],
            &json["step"]["verdict"],
            &json["step"]["steps"]
        ),
        (&json!([207_500, 307_500]), &json!("real"), &json!([4, 4]))
    );
    let gemm = json!({"class": "computation", "name": "gemm", "counts": [1.0, 1.0],
        "times_ns": [100_000, 150_000], "cost_ns": 50_000});
    assert_eq!(json["classes"], json!([gemm]));
    assert_eq!(json["ops"][0]["name"], "aten::mm");
    assert_eq!(json["waiting"][0]["name"], "cudaStreamSynchronize");
}

/// Generates a rank of a run of `world_size`, with steps from number `first`, of these lengths in
/// us.
fn draw_rank([rank, world_size]: [i64; 2], first: i64, lengths: &[i64]) -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, world_size);
    let main = draw.thread();
    for (step, micros) in (first..).zip(lengths) {
        let begin = step * 300 * US;
        let name = format!("ProfilerStep#{step}");
        draw.annotation(main, &name, begin, begin + micros * US);
        draw.op(main, "aten::mm", begin + 10 * US, begin + 50 * US);
    }
    // a rank without steps also has something to compare
    draw.op(main, "aten::mm", 2_500 * US, 2_540 * US);
    draw.kineto()
}

/// Writes ranks with steps of 100 and 200 us; `slow` lists the steps of the slow one.
fn draw_two_ranks(tool: &Tool, folder: &str, slow: &[i64]) {
    tool.file(
        &format!("{folder}/kineto_trace_0.json"),
        draw_rank([0, 2], 3, &[100, 101, 99, 100]),
    );
    tool.file(
        &format!("{folder}/kineto_trace_1.json"),
        draw_rank([1, 2], 3, slow),
    );
}

#[test]
fn a_step_is_that_of_the_slowest_rank_also_where_ranks_lack_steps() {
    let tool = Tool::new();
    draw_two_ranks(&tool, "whole", &[200, 202, 198, 200]);
    draw_two_ranks(&tool, "cut", &[200, 202, 198]);
    draw_two_ranks(&tool, "short", &[200]);
    draw_two_ranks(&tool, "none", &[]);
    let rule = ["--fail-if", "step > 5%"].map(String::from);
    let diff = |before: &str, after: &str| {
        let words = ["diff", before, after].map(String::from);
        tool.run_words(&[&words[..], &rule].concat())
    };
    let lacks = "step times use the 3 steps on all ranks: ProfilerStep#6 is missing, truncated or empty on \
                 rank 1";
    for (before, after, cut) in [("cut", "whole", "before"), ("whole", "cut", "after")] {
        diff(before, after)
            .exits(0)
            .says("266.000 us")
            .says(": may be chance\n")
            .notes(&format!("note: {cut}: {lacks}"));
    }
    let both = diff("cut", "cut").exits(0);
    both.notes(&format!("note: 2 runs (before, after): {lacks}"));
    let json = tool.run("diff cut whole --json").exits(0).json();
    assert_eq!(json["step"]["steps"], json!([3, 4]));
    assert_eq!(
        json["runs"][0]["incomplete_steps"],
        json!([{"step": "ProfilerStep#6", "ranks": [1]}])
    );
    assert_eq!(json["runs"][1].get("incomplete_steps"), None);
    assert!(
        json["diagnostics"][0]["code"] == "steps_differ"
            && json["diagnostics"][0]["runs"] == json!(["before"]),
        "{json}"
    );
    // from one step or none, no rule can be decided
    diff("short", "whole").exits(2).complains(&[
        "--fail-if step > 5%: unknown, because only one step is on all ranks of the run before: \
         ProfilerStep#4 is missing",
    ]);
    diff("whole", "none").exits(2).complains(&[
        "--fail-if step > 5%: unknown, because no step is on all ranks of the run after: ProfilerStep#3 \
         is missing",
    ]);
    let none = tool.run("diff whole none").exits(0).notes(
        "after: step times are not compared, because no step is on all ranks: 4 steps \
         (ProfilerStep#3, ProfilerStep#4, ProfilerStep#5, …) are missing",
    );
    assert!(!none.stdout.contains("mean step "), "{}", none.shown());
    assert!(!none.stdout.starts_with("step "), "{}", none.shown());
}

#[test]
fn ranks_that_are_no_part_of_a_run_are_named_and_not_compared() {
    let tool = Tool::new();
    let lengths = [200, 202, 198, 200];
    draw_two_ranks(&tool, "whole", &lengths);
    draw_two_ranks(&tool, "foreign", &lengths);
    tool.file(
        "foreign/kineto_trace_1.json",
        draw_rank([1, 64], 3, &lengths),
    );
    tool.file("absent/kineto_trace_1.json", draw_rank([1, 2], 3, &lengths));
    tool.run("diff whole absent")
        .exits(0)
        .says("after: absent, 1 rank, 4 steps\n")
        .notes("note: after: no trace of rank 0");
    tool.run("diff absent absent --ranks 1")
        .exits(0)
        .lacks("no trace of rank 0");
    let why = "rank 1 is left out: it is from a run of 64 ranks; most others are from a run of 2; --allow-mismatch includes it";
    tool.run("diff foreign whole")
        .exits(1)
        .says("before: foreign, 1 rank, 4 steps\n")
        .notes(&format!("note: before: {why}"));
    let json = tool.run("diff foreign whole --json").exits(1).json();
    assert_eq!(json["excluded"][0]["label"], "1");
    let told = &json["diagnostics"][0];
    assert_eq!(told["code"], "rank_left_out", "{json}");
    let words = [&told["message"], &told["remedy"]].map(|text| text.as_str().unwrap_or(""));
    assert_eq!(words.join("; "), why);
    tool.run("diff foreign whole --allow-mismatch")
        .exits(0)
        .says("before: foreign, 2 ranks, 8 steps of all ranks\n")
        .notes("note: before: rank 1: included by --allow-mismatch: it is from a run of 64 ranks");
    tool.run("report foreign whole -o page.html")
        .exits(1)
        .notes(&format!("note: before: {why}"));
}

#[test]
fn a_device_trace_of_another_program_or_rank_is_no_part_of_a_run() {
    let tool = Tool::new();
    for (folder, other) in [
        ("program", "pipeline4-2.15.0/kineto_trace_2.json.gz"),
        ("rank", "tpdp4-2.15.0/kineto_trace_3.json.gz"),
    ] {
        let copy = format!(
            "cp -r {{pairs}}/tpdp4-2.15.0 {folder} && rm -f {folder}/RECIPE {folder}/*_3.json.gz && \
            cp {{pairs}}/{other} {folder}/kineto_trace_2.json.gz"
        );
        tool.shell(&copy).exits(0);
    }
    for (folder, why) in [
        ("program", "different programs"),
        ("rank", "the device trace is from rank 3"),
    ] {
        // `ranks` reports the same steps
        let ranks = tool.run(&format!("ranks {folder} --json")).exits(1).runs();
        let line = format!("diff {{pairs}}/tpdp4-2.15.0 {folder}");
        tool.run(&line)
            .exits(1)
            .notes("kineto_trace_2")
            .notes(why)
            .says(&format!("after: {folder}, 2 ranks, 4 steps"));
        let diff = tool.run(&format!("{line} --json")).exits(1).json();
        assert_eq!(diff["excluded"], ranks[0]["excluded"], "{folder}");
        let allowed = format!("{line} --allow-mismatch");
        tool.run(&allowed).exits(0).says("3 ranks, 6 steps");
    }
}

#[test]
fn a_cut_trace_is_named() {
    let tool = Tool::new();
    let lengths = [200, 202, 198, 200];
    draw_two_ranks(&tool, "whole", &lengths);
    draw_two_ranks(&tool, "cut", &lengths);
    let mut trace = draw_rank([1, 2], 3, &lengths);
    trace.truncate(trace.len() - 200);
    tool.file("cut/kineto_trace_1.json", trace);
    tool.run("diff whole cut")
        .exits(0)
        .notes("note: after: the device trace of rank 1 is truncated: the missing part");
}

#[test]
fn several_runs_are_not_one_side_of_a_comparison() {
    let tool = Tool::new();
    let lengths = [200, 202, 198, 200];
    draw_two_ranks(&tool, "whole", &lengths);
    for rank in [0, 1] {
        for cycle in [1, 2] {
            let trace = draw_rank([rank, 2], 3, &lengths);
            tool.file(
                &format!("cycles/kineto_trace_{rank}.cycle{cycle}.json"),
                crate::ranks::later(trace.as_ref(), cycle),
            );
        }
    }
    tool.run("diff whole cycles").exits(2).complains(&[
        "cycles has 2 runs",
        "give one of them, such as cycles/cycle1 or cycles/cycle2",
    ]);
    tool.run("diff whole cycles/cycle1")
        .exits(0)
        .says("after: cycles/cycle1, 2 ranks, 8 steps of all ranks\n");
}

/// A folder that contains both traces and a folder of traces cannot be given as its own run.
#[test]
fn a_run_around_another_has_a_remedy_that_works() {
    let tool = Tool::new();
    for folder in ["all/monday", "all/monday/retry", "all/tuesday"] {
        tool.file(
            &format!("{folder}/kineto_trace_0.json"),
            draw("gemm", 20).kineto(),
        );
    }
    tool.run("report all -o page.html").exits(2).complains(&[
        "all has 3 runs",
        "give one of them, such as all/monday/retry or all/tuesday",
    ]);
    tool.run("report all/monday -o page.html")
        .exits(2)
        .complains(&[
            "give all/monday/retry. For the traces in all/monday itself, move the folders of other runs \
             elsewhere",
        ]);
    tool.run("report all/monday/retry -o page.html").exits(0);
    tool.shell("mv all/monday/retry all/retry").exits(0);
    tool.run("report all/monday -o outer.html").exits(0);
}

#[test]
fn the_cut_rest_of_a_step_halves_no_mean() {
    let tool = Tool::new();
    tool.file("before.json", draw_steps(&[400, 404, 396]));
    // the profiler was stopped 20 us after the last step
    tool.file("after.json", draw_steps(&[400, 404, 396, 20]));
    tool.run("diff before.json after.json")
        .exits(0)
        .says("mean step 406.667 us, unchanged")
        .says("after: after.json, 1 rank, 3 steps (left out: 1 step truncated or without device rows)\n");
    let json = tool
        .run("diff before.json after.json --json")
        .exits(0)
        .json();
    assert_eq!(
        (
            &json["runs"][1]["steps"],
            &json["runs"][1]["excluded_steps"]
        ),
        (&json!(3), &json!(1))
    );
    tool.run("analyze after.json --table steps")
        .exits(0)
        .says("3 steps, mean 406.667 us; 400.000 us on the host")
        .says("left out of the mean: ProfilerStep#3 (40.000 us), which is truncated");
}

#[test]
fn a_host_that_runs_ahead_of_its_device_makes_no_step_shorter() {
    let tool = Tool::new();
    // steps of 100 us, 300 us apart, without a device
    let mut apart = TraceBuilder::default();
    let main = apart.thread();
    // and launches of 100 us for kernels of 300 us
    let mut ahead = TraceBuilder::default();
    let other = ahead.thread();
    for step in 0..4 {
        let begin = step * 300 * US;
        let name = format!("ProfilerStep#{step}");
        apart.annotation(main, &name, begin, begin + 100 * US);
        apart.op(main, "aten::mm", begin, begin + 90 * US);
        let called = step * 100 * US;
        ahead.annotation(other, &name, called, called + 100 * US);
        ahead.op(other, "aten::mm", called + US, called + 90 * US);
        let call = (called + 2 * US, called + 5 * US);
        let row = (begin + 10 * US, begin + 305 * US);
        ahead.launch(other, call, DeviceQueue::stream(7), "sm80_gemm", row);
    }
    tool.file("apart.json", apart.kineto());
    tool.file("ahead.json", ahead.kineto());
    let same = tool.run("diff apart.json apart.json").exits(0);
    let same = same
        .lacks("%)")
        .lacks("may be chance")
        .says("nothing changed");
    assert!(
        same.stdout.starts_with("mean step 250.000 us"),
        "{}",
        same.shown()
    );
    tool.run("diff ahead.json ahead.json")
        .exits(0)
        .says("mean step 301.250 us, unchanged");
}

#[test]
fn ops_are_not_compared_where_a_trace_does_not_tell_them() {
    let tool = Tool::new();
    tool.file("before.json", draw_steps(&[200, 204]));
    // without launches and ops, the kernels stand alone
    let text = String::from_utf8(draw_steps(&[300, 306])).expect("text");
    let text = text.replace(r#""correlation": "#, r#""number": "#);
    tool.file(
        "after.json",
        text.replace(r#""External id": "#, r#""id": "#),
    );
    let said = tool.run("diff before.json after.json").exits(0);
    let said = said.says("device time by op is not compared: ");
    assert!(!said.stdout.contains("by the op"), "{}", said.shown());
    let rule = "op aten::mm > 1%";
    let words = ["diff", "before.json", "after.json", "--fail-if", rule];
    tool.run_words(&words.map(String::from)).exits(2);
}

#[test]
fn a_rule_that_holds_fails_the_command() {
    let tool = Tool::new();
    tool.file("before.json", draw_steps(&[200, 204, 196, 200]));
    tool.file("after.json", draw_steps(&[300, 306, 294, 300]));
    tool.file("again.json", draw_steps(&[201, 199, 203, 199]));
    let args = |after: &str, rule: &str| {
        let words = ["diff", "before.json", after, "--fail-if", rule, "-q"];
        words.map(String::from).to_vec()
    };
    for (after, rule, code) in [
        ("after.json", "step > 5%", 1),
        ("after.json", "step>60%", 0),
        ("after.json", "step > 90us", 1),
        ("after.json", "class gemm > 40 %", 1),
        ("after.json", "class computation > 40 %", 1),
        ("after.json", "op aten::mm > 1 ms", 0),
        ("after.json", "kernel sm80_gemm > 49us", 1),
        ("after.json", "utilization < -90%", 0),
        ("after.json", "waiting > 0ns", 0),
        ("after.json", "step < -5%", 0),
        // the normal variation of steps is not a regression
        ("again.json", "step > 0.01%", 0),
        ("after.json", "step", 2),
        ("after.json", "step > much", 2),
        ("after.json", "steps > 5%", 2),
        ("after.json", "utilization > 5ms", 2),
        ("after.json", "class softmax > 5%", 2),
    ] {
        tool.run_words(&args(after, rule)).exits(code);
    }
    let two = tool.run_words(
        &[
            "diff",
            "before.json",
            "after.json",
            "--json",
            "--fail-if",
            "step > 90%",
            "--fail-if",
            "device > 5%",
        ]
        .map(String::from),
    );
    let two = two
        .exits(1)
        .complains(&["--fail-if device > 5%: the rule holds"]);
    assert_eq!(two.json()["failed"], json!(["device > 5%"]));
    tool.run_words(&args("after.json", "class softmax > 5%"))
        .exits(2)
        .complains(&["neither run has a class softmax"]);
    let wrong = tool.run_words(&args("after.json", "step > much")).exits(2);
    assert!(wrong.shown().contains("use a number with %"));
}

/// Generates the run of `draw` with this device name, and `ops` more ops per step.
fn draw_on(device: &str, kernel: &str, ops: i64) -> Vec<u8> {
    let mut draw = draw(kernel, 20);
    let main = draw.thread();
    for op in 0..ops {
        let begin = (45 + op) * US;
        draw.op(main, "aten::add", begin, begin + US / 2);
    }
    let properties = format!(r#"[{{"id": 0, "name": "{device}"}}]"#);
    draw.metadata("deviceProperties", &properties);
    draw.kineto()
}

#[test]
fn unlike_runs_say_so_first() {
    let tool = Tool::new();
    let nvidia = draw_on("NVIDIA H100", "sm90_xmma_gemm", 0);
    tool.file("h100.json", nvidia);
    tool.file("mi300.json", draw_on("AMD Instinct MI300X", "Cijk_MT64", 0));
    tool.file("larger.json", draw_on("NVIDIA H100", "sm90_xmma_gemm", 8));
    let said = tool.run("diff h100.json mi300.json").exits(0).stdout;
    let first = said.lines().next().expect("a line");
    assert_eq!(
        first,
        "devices differ (NVIDIA H100 -> AMD Instinct MI300X): compare classes and ops; kernels in \
         both runs take 0 % of device time"
    );
    let json = tool.run("diff h100.json mi300.json --json").exits(0).json();
    assert_eq!(
        json["likeness"]["devices"],
        json!([["NVIDIA H100"], ["AMD Instinct MI300X"]])
    );
    let said = tool.run("diff h100.json larger.json").exits(0).stdout;
    let first = said.lines().next().expect("a line");
    assert_eq!(
        first,
        "host ops and calls per step differ (2 -> 6): the work may not be the same"
    );
    // and no such note if both are alike
    let said = tool.run("diff h100.json h100.json").exits(0).stdout;
    assert!(said.starts_with("mean step "), "{said}");
}

/// Generates a step of 100 us that launches a kernel of 20 us, after a kernel of `micros` us that
/// was launched before the recording.
fn draw_before(micros: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let earlier = draw.next_correlation();
    let stream = DeviceQueue::stream(7);
    draw.annotation(main, "ProfilerStep#1", 0, 100 * US);
    draw.op(main, "aten::mm", 10 * US, 30 * US);
    draw.kernel(stream, "gemm", (0, micros * US), earlier);
    let row = (micros * US, (micros + 20) * US);
    draw.launch(main, (12 * US, 15 * US), stream, "gemm", row);
    draw.kineto()
}

#[test]
fn work_of_the_iteration_before_is_not_compared() {
    let tool = Tool::new();
    tool.file("before.json", draw_before(30));
    tool.file("after.json", draw_before(70));
    let said = tool
        .run("diff before.json after.json --json")
        .exits(0)
        .json();
    assert_eq!(said["runs"][0]["device_ns"], 20_000, "{said}");
    let gemm = &said["changes"];
    let gemm = gemm.as_array().expect("rows").iter();
    let gemm: Vec<_> = gemm.filter(|row| row["name"] == "gemm").collect();
    assert_eq!(gemm[0]["times_ns"], json!([20_000, 20_000]));
    let outside = json!([{"launched": "before_recording", "rows": 1, "sum_ns": 70_000}]);
    assert_eq!(said["runs"][1]["outside"], outside);
    tool.run("diff before.json after.json")
        .exits(0)
        .says("mean step 70.000 us -> 30.000 us")
        .says("after, not compared: 1 device row launched before the recording, 70.000 us");
}

#[test]
fn waits_are_no_time_of_a_device() {
    let tool = Tool::new();
    let one = draw("gemm", 20);
    let mut two = draw("gemm", 20);
    let main = two.thread();
    let id = two.next_correlation();
    two.call(main, "cudaDeviceSynchronize", (50 * US, 90 * US), id);
    two.raw(
        r#"{"ph": "X", "cat": "cuda_sync", "name": "Context Sync", "pid": 0, "tid": 7, "ts": 50,
            "dur": 40, "args": {"device": 0, "stream": -1, "correlation": 3}}"#,
    );
    tool.file("one.json", one.kineto());
    tool.file("two.json", two.kineto());
    tool.run("diff one.json two.json")
        .exits(0)
        .says("device time 20.000 us -> 20.000 us");
}

#[test]
fn ops_of_several_runs_are_those_of_each() {
    let gpu = pairs().with_file_name("gpu");
    let paths = ["lm", "lm-large", "lm-memory"].map(|name| gpu.join(name).display().to_string());
    let tool = Tool::new();
    let report = tool
        .run(&format!("diff {} --json", paths.join(" ")))
        .exits(0)
        .json();
    let sides = report["sides"].as_array().expect("runs");
    assert_eq!(sides.len(), 3);
    for (at, (path, side)) in paths.iter().zip(sides).enumerate() {
        let ops = tool.run(&format!("ops {path} --json")).exits(0).json();
        let ops = ops["runs"][0]["ranks"][0]["ops"].as_array().expect("ops");
        let sum = |records: &[&Value], field: &str| {
            let figures = records
                .iter()
                .map(|one| one[field].as_f64().expect("a figure"));
            figures.sum::<f64>()
        };
        let steps = side["steps"].as_f64().expect("a number");
        for name in ["aten::addmm", "aten::native_layer_norm"] {
            let is_it = |one: &&Value| one["op"] == name;
            let own: Vec<&Value> = ops.iter().filter(is_it).collect();
            let all = report["ops"].as_array().expect("ops").iter();
            let compared = all.filter(|one| one["run"] == at).filter(is_it);
            let compared: Vec<&Value> = compared.collect();
            let (wanted, found) = (sum(&own, "sum_ns") / steps, sum(&compared, "ns"));
            assert!(
                (wanted - found).abs() < 1.0,
                "{path} {name}: {wanted} {found}"
            );
            let (wanted, found) = (sum(&own, "count") / steps, sum(&compared, "calls"));
            assert!(
                (wanted - found).abs() < 1e-6,
                "{path} {name}: {wanted} {found}"
            );
        }
    }
    tool.run(&format!("diff {} --fail-if 'step > 5%'", paths.join(" ")))
        .exits(2);
}

#[test]
fn runs_that_recording_slowed_are_compared_with_a_note() {
    let gpu = pairs().with_file_name("gpu");
    let [slowed, interleaved] =
        ["lm", "recorder-interleaved"].map(|name| gpu.join(name).display().to_string());
    let tool = Tool::new();
    let ran = tool.run(&format!("diff {slowed} {interleaved}")).exits(0);
    ran.notes("recording slowed the host");
}
