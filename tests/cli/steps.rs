//! Steps of inference, and steps selected by a pattern.

use crate::tool::Tool;
use etlink_testing::{DeviceQueue, ParamComms, TraceBuilder};
use serde_json::{Value, json};

const US: i64 = 1_000;

/// Generates iterations that begin every hundred microseconds: 80 us on the host, 40 us on the
/// device, half of them an exchange with the other rank.
fn iterations(rank: i64, names: &[&str]) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    let main = draw.thread();
    for (number, name) in (0..).zip(names) {
        let begin = 100 * US * number;
        let at = |us: i64| begin + us * US;
        draw.annotation(main, name, begin, at(80));
        draw.launch(
            main,
            (at(5), at(6)),
            DeviceQueue::stream(7),
            "gemm",
            (at(20), at(40)),
        );
        let comms = ParamComms::new("allreduce", 0..2, rank, number);
        let id = draw.next_correlation();
        draw.collective(main, &comms, at(8), at(11));
        draw.call(main, "cudaLaunchKernelExC", (at(9), at(10)), id);
        draw.collective_kernel(
            DeviceQueue::stream(7),
            "ncclDevKernel_AllReduce_Sum_f32",
            (at(40), at(60)),
            id,
            &comms,
        );
    }
    draw
}

const VLLM: [&str; 4] = [
    "execute_context_2(500)_generation_0(0)",
    "execute_context_0(0)_generation_2(2)",
    "execute_context_0(0)_generation_2(2)",
    "execute_context_1(300)_generation_2(2)",
];

#[test]
fn iterations_of_vllm_are_steps_with_phases() {
    let tool = Tool::new();
    tool.file("trace.json", iterations(0, &VLLM).kineto());
    let report = tool.run("analyze trace.json --json").exits(0).runs();
    let rank = &report[0]["ranks"][0];
    let steps = rank["steps"].as_array().expect("steps");
    let said = steps.iter().map(|step| {
        let name = step["name"].as_str().expect("name");
        json!([name, step["phase"], step["batch"], step["tokens"]])
    });
    assert_eq!(
        json!(said.collect::<Vec<_>>()),
        json!([
            [VLLM[0], "prefill", 2, 500],
            [VLLM[1], "decode", 2, 2],
            // one of several steps with the same name can be selected
            [format!("{} (2)", VLLM[2]), "decode", 2, 2],
            [VLLM[3], "mixed", 3, 302],
        ])
    );
    let phases = rank["phases"].as_array().expect("phases");
    let said = phases.iter().map(|phase| {
        json!([
            phase["phase"],
            phase["count"],
            phase["median_ns"],
            phase["period_ns"],
            phase["tokens"],
            phase["tokens_per_s"],
            phase["computation_ns"],
            phase["exposed_communication_ns"]
        ])
    });
    assert_eq!(
        json!(said.collect::<Vec<_>>()),
        json!([
            // 4 tokens from the start of the first batch to the start of the mixed batch
            ["decode", 2, 80_000, 200_000, 4, 20e3, 40_000, 40_000],
            // the last one's device work ends before it does
            ["mixed", 1, 80_000, 80_000, 302, 3_775e3, 20_000, 20_000],
            ["prefill", 1, 80_000, 100_000, 500, 5e6, 20_000, 20_000],
        ])
    );
    tool.run("analyze trace.json --table phases")
        .exits(0)
        .says("decode       2    2.0       4  80.000 us");
    tool.run(&format!(
        "report trace.json -o page.html --step {}",
        VLLM[3]
    ))
    .exits(0)
    .says("drawn: step execute_context_1(300)_generation_2(2) and 3 others of 1 rank");
}

/// A step whose device work follows an earlier one's, which is not in the trace.
#[test]
fn tokens_of_a_single_step_are_over_its_own_length() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let queue = DeviceQueue::stream(7);
    draw.annotation(main, "execute_context_0(0)_generation_2(2)", 0, 80 * US);
    let correlation = draw.next_correlation() + 1_000;
    draw.kernel(queue, "earlier", (0, 900 * US), correlation);
    let gemm = (900 * US, 1_000 * US);
    draw.launch(main, (5 * US, 6 * US), queue, "gemm", gemm);
    let tool = Tool::new();
    tool.file("trace.json", draw.kineto());
    let report = tool.run("analyze trace.json --json").exits(0).runs();
    // 2 tokens in the 100 us of its device work, not in the millisecond since its start
    let phase = &report[0]["ranks"][0]["phases"][0];
    assert_eq!(phase["tokens_per_s"], json!(20e3));
}

#[test]
fn phases_of_sglang_over_ranks() {
    let names = [
        "step[EXTEND bs=1 toks=107]",
        "step[DECODE bs=4]",
        "step[DECODE bs=4]",
        "step[IDLE bs=0]",
    ];
    let tool = Tool::new();
    for rank in 0..2 {
        let trace = iterations(rank, &names).kineto();
        tool.file(&format!("run/kineto_trace_{rank}.json"), trace);
    }
    let report = tool.run("analyze run --json").exits(0).runs();
    let phases = report[0]["total"]["phases"].as_array().expect("phases");
    let said = phases.iter().map(|phase| {
        json!([
            phase["phase"],
            phase["count"],
            phase["batch"],
            phase["tokens"]
        ])
    });
    assert_eq!(
        json!(said.collect::<Vec<_>>()),
        json!([
            ["decode", 4, 4.0, 16],
            ["other", 2, 0.0, null],
            ["prefill", 2, 1.0, 214],
        ])
    );
    let report = tool.run("ranks run --json").exits(0).runs();
    let steps = report[0]["steps"].as_array().expect("steps");
    let names = steps.iter().map(|step| step["step"].clone());
    assert_eq!(
        json!(names.collect::<Vec<_>>()),
        json!([
            "step[EXTEND bs=1 toks=107]",
            "step[DECODE bs=4]",
            "step[DECODE bs=4] (2)",
            "step[IDLE bs=0]",
        ])
    );
}

/// vLLM calls its profiler's `step` before each iteration, which is then inside a `ProfilerStep`.
#[test]
fn a_profiler_step_has_the_phase_of_the_iteration_in_it() {
    let mut draw = iterations(0, &VLLM);
    let main = draw.thread();
    for step in 0..3 {
        let begin = 100 * US * step;
        let name = format!("ProfilerStep#{step}");
        draw.annotation(main, &name, begin - US, begin + 95 * US);
    }
    let tool = Tool::new();
    tool.file("trace.json", draw.kineto());
    tool.run("analyze trace.json --csv --table steps")
        .exits(0)
        .says("ProfilerStep#0,prefill,2,500,")
        .says("ProfilerStep#2,decode,2,2,");
}

#[test]
fn steps_by_a_pattern() {
    let tool = Tool::new();
    let names = ["train 32", "eval", "train 64", "train 64"];
    for rank in 0..2 {
        let trace = iterations(rank, &names).kineto();
        tool.file(&format!("run/kineto_trace_{rank}.json"), trace);
    }
    let pattern = "--steps-by ^(?<phase>train|eval)(.(?<batch>[0-9]+))?$";
    tool.run(&format!("analyze run {pattern} --csv --table phases"))
        .exits(0)
        .says("0,train,3,240000,80000.0,80000,80000,0.0,80000,280000,53.333333333333336,")
        .says("0,eval,1,80000,");
    // without it, the numbers at the end mark steps
    tool.run("analyze run --csv --table steps")
        .exits(0)
        .says("0,train 64 (2),");
    let trains = "--steps-by ^train";
    for line in ["ranks run --json", "analyze run --csv --table steps"] {
        let ran = tool.run(&format!("{line} {trains}")).exits(0);
        assert!(ran.stdout.contains("train 32"), "{line}");
        assert!(!ran.stdout.contains("eval"), "{line}");
    }
    tool.run(&format!("report run -o page.html {trains}"))
        .exits(0)
        .says("drawn: step train 64");
    // figures are per step: three per rank
    tool.run(&format!("diff run run {trains}"))
        .exits(0)
        .says("2 ranks, 6 steps");
    tool.run("analyze run --steps-by nothing")
        .exits(0)
        .notes("no annotation or op matches --steps-by nothing, so there are no steps");
    for (line, reason) in [
        ("--steps-by (", "regular expression: unclosed group"),
        ("--steps-by a --compat hta", "cannot be used with"),
    ] {
        let refused = tool.run(&format!("analyze run {line}")).exits(2);
        assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    }
}

/// Generates ranges with one name on two threads; the second thread's are fewer, and begin in the
/// middle of the first's.
fn two_threads(name: &str) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let [first, second] = [draw.thread(), draw.thread()];
    for number in 0..3 {
        let begin = 100 * US * number;
        draw.annotation(first, name, begin, begin + 80 * US);
        draw.launch(
            first,
            (begin + 5 * US, begin + 6 * US),
            DeviceQueue::stream(7),
            "gemm",
            (begin + 20 * US, begin + 40 * US),
        );
        if number < 2 {
            draw.annotation(second, name, begin + 50 * US, begin + 120 * US);
        }
    }
    draw
}

#[test]
fn ranges_of_two_threads_that_overlap_are_steps_of_one_and_the_others_are_named() {
    let tool = Tool::new();
    tool.file("loop.json", two_threads("forward").kineto());
    let run = tool.run("analyze loop.json --steps-by ^forward$ --csv --table steps");
    let run = run.exits(0).notes(
        "ranges that match --steps-by ^forward$ on 2 threads overlap: the 3 on thread 1000 are used \
         as steps, and the 2 on other threads are not",
    );
    let rows = run.stdout.lines().filter(|line| line.contains("forward"));
    assert_eq!(rows.count(), 3, "{}", run.stdout);
    // iterations of engines are selected in the same way
    tool.file("engine.json", two_threads("run_batch").kineto());
    tool.run("analyze engine.json --csv --table steps")
        .exits(0)
        .notes("inference engine iterations on 2 threads overlap: the 3 on thread 1000");
}

/// Generates set-up, then 21 optimizer steps, one every 10 ms: 20 whole steps. It is unknown if the
/// first part is a step, and the recording truncates the last one.
fn optimizer_steps(rank: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    let main = draw.thread();
    let queue = DeviceQueue::stream(7);
    let work = |draw: &mut TraceBuilder, begin: i64| {
        let at = |us: i64| begin + us * US;
        draw.op(main, "aten::mm", at(10), at(70));
        draw.launch(main, (at(20), at(30)), queue, "gemm", (at(100), at(8_100)));
    };
    work(&mut draw, 0);
    for step in 0..21 {
        let begin = 1_000_000 * US + (step * 10_000 + rank * 100) * US;
        work(&mut draw, begin);
        let optimizer = begin + 9_000 * US;
        let name = "Optimizer.step#SGD.step";
        draw.annotation(main, name, optimizer, optimizer + 900 * US);
    }
    work(&mut draw, 1_250_000 * US);
    draw
}

/// Time before the first and after the last end of an optimizer step is never counted as a step.
#[test]
fn all_commands_count_the_same_whole_steps() {
    const STEP: i64 = 10_000 * US;
    let tool = Tool::new();
    for rank in 0..2 {
        let trace = format!("run/kineto_trace_{rank}.json");
        tool.file(&trace, optimizer_steps(rank).kineto());
    }
    let found = &tool.run("findings run --json").exits(0).json()["runs"][0];
    // the second rank begins and ends its steps 0.1 ms later
    assert_eq!(found["window_ns"], json!(20 * STEP));
    assert_eq!(found["steps"], 20);

    let analysis = tool.run("analyze run --json").exits(0).runs();
    let steps = analysis[0]["ranks"][0]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 20);
    let lengths = steps.iter().map(|step| step["duration_ns"].as_i64());
    assert!(lengths.into_iter().all(|length| length == Some(STEP)));
    tool.run("analyze run")
        .exits(0)
        .says("mean 10.000 ms from the last rank's begin to the last rank's end");

    let replayed = tool.run("replay run --json").exits(0).runs();
    let steps = replayed[0]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 40, "{replayed:#}");
    tool.run("report run -o page.html").exits(0);
    let page = std::fs::read_to_string(tool.path("page.html")).expect("a page");
    assert!(page.contains("a step takes 10.00 ms"));
}

/// Asserts that all commands give the same length of a step and the same window. Between steps that do
/// not follow each other, there is time that belongs to none.
fn assert_one_length(tool: &Tool, path: &str, follow: bool) {
    let run = |command: &str| {
        tool.run(&format!("{command} {path} --json"))
            .exits(0)
            .runs()
    };
    let found = &run("findings")[0];
    let steps = found["steps"].as_i64().expect("steps");
    if steps == 0 {
        return;
    }
    let window = found["window_ns"].as_i64().expect("a window");
    let replayed = &run("replay")[0]["step"];
    assert_eq!(replayed["steps"], steps, "{path}");
    let mean = replayed["unchanged_ns"].as_i64().expect("a mean");
    assert!(mean == window / steps || !follow, "{path}: {replayed}");
    let diff = tool.run(&format!("diff {path} {path} --json")).exits(0);
    let diff = &diff.json()["step"];
    assert_eq!(diff["steps"][0], steps, "{path}");
    let compared = diff["times_ns"][0].as_i64().expect("a mean");
    // one is rounded, the other truncated
    assert!((mean..=mean + 1).contains(&compared), "{path}: {diff}");
    let sum = |steps: &Value| -> i64 {
        let steps = steps.as_array().expect("steps").iter();
        let counted = steps.filter(|step| step["excluded"].is_null());
        counted
            .map(|step| step["length_ns"].as_i64().expect("a length"))
            .sum()
    };
    let analysis = run("analyze");
    let ranks = analysis[0]["ranks"].as_array().expect("ranks");
    for rank in ranks {
        let total = sum(&rank["steps"]);
        if ranks.len() == 1 && follow {
            assert_eq!(total, window, "{path}");
        }
        for used in rank["utilization"].as_array().expect("devices") {
            assert!(used["window_ns"] == total || !follow, "{path}");
        }
        let devices = rank["utilization"].as_array().expect("devices").iter();
        for (used, time) in devices.zip(rank["breakdown"].as_array().expect("devices")) {
            for key in ["window_ns", "computation_ns", "exposed_communication_ns"] {
                assert_eq!(used[key], time[key], "{path}: {key}");
            }
        }
        let idle = rank["idle"].as_array().expect("devices").iter();
        for (idle, time) in idle.zip(rank["breakdown"].as_array().expect("devices")) {
            let rest = time["idle_ns"]
                .as_i64()
                .zip(time["exposed_other_ns"].as_i64());
            let rest = rest.map(|(idle, other)| idle + other);
            assert_eq!(idle["idle_ns"].as_i64(), rest, "{path}");
        }
    }
    if ranks.len() > 1 {
        let by_step = &run("ranks")[0]["steps"];
        let named = by_step.as_array().expect("steps").iter();
        let named = named.filter(|step| !step["step"].is_null()).count();
        if named as i64 == steps && follow {
            assert_eq!(sum(by_step), window, "{path}");
        }
    }
}

/// Steps of 1 ms on a device whose host runs ahead of it by several steps.
fn steps_ahead(rank: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    let main = draw.thread();
    let queue = DeviceQueue::stream(7);
    let earlier = draw.next_correlation();
    draw.kernel(queue, "gemm", (0, 1_500 * US), earlier);
    for step in 0..4 {
        let begin = (10 + 100 * step) * US;
        draw.annotation(
            main,
            &format!("ProfilerStep#{step}"),
            begin,
            begin + 90 * US,
        );
        draw.op(main, "aten::mm", begin + US, begin + 50 * US);
        let row = 1_500 + 1_000 * step;
        let row = (row * US, (row + 980 + 10 * rank) * US);
        draw.launch(main, (begin + 2 * US, begin + 5 * US), queue, "gemm", row);
    }
    // work after the last step is part of none
    draw.launch(
        main,
        (900 * US, 905 * US),
        queue,
        "gemm",
        (6_000 * US, 7_000 * US),
    );
    draw
}

#[test]
fn all_commands_give_one_length_of_a_step() {
    let tool = Tool::new();
    for rank in 0..2 {
        let trace = steps_ahead(rank).kineto();
        tool.file(&format!("ahead/kineto_trace_{rank}.json"), trace);
        let trace = iterations(rank, &VLLM).kineto();
        tool.file(&format!("vllm/kineto_trace_{rank}.json"), trace);
    }
    assert_one_length(&tool, "ahead", true);
    assert_one_length(&tool, "ahead/kineto_trace_1.json", true);
    assert_one_length(&tool, "vllm", false);
    let ahead = &tool.run("findings ahead --json").exits(0).runs()[0];
    // from the end of the work from before the recording to the end of the last step's
    assert_eq!(ahead["window_ns"], (4_490 - 500) * US);
    for pair in std::fs::read_dir(crate::tool::pairs()).expect("pairs") {
        let pair = pair.expect("a folder").file_name();
        let path = format!("{{pairs}}/{}", pair.to_string_lossy());
        assert_one_length(&tool, &path, true);
    }
}

/// Twelve layers of one pass contain less device work than its head.
#[test]
fn layers_of_a_model_are_no_steps() {
    let tool = Tool::new();
    let queue = DeviceQueue::stream(7);
    for (file, head_us, count) in [("layers.json", 3_000, 0), ("batches.json", 300, 12)] {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        let mut idle = 0;
        for layer in 0..13 {
            let begin = layer * 70 * US;
            let at = |us: i64| begin + us * US;
            let length = if layer < 12 {
                draw.annotation(main, &format!("layer {layer}"), at(0), at(60));
                75 * US
            } else {
                head_us * US
            };
            draw.op(main, "aten::mm", at(5), at(45));
            let start = idle.max(at(20));
            idle = start + length;
            draw.launch(main, (at(10), at(15)), queue, "gemm", (start, idle));
        }
        tool.file(file, draw.kineto());
        let report = tool.run(&format!("analyze {file} --json")).exits(0).runs();
        let steps = report[0]["ranks"][0]["steps"].as_array().map(Vec::len);
        assert_eq!(steps, Some(count), "{file}");
    }
    let definition = "a range `layer N`";
    for command in ["analyze", "findings", "replay"] {
        let ran = tool.run(&format!("{command} batches.json")).exits(0);
        ran.says(definition);
    }
    let found = tool.run("findings batches.json --json").exits(0).json();
    assert_eq!(found["runs"][0]["step_definition"], definition);
    let found = tool.run("findings layers.json --json").exits(0).json();
    assert!(found["runs"][0].get("step_definition").is_none());
}
