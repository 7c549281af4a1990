//! Slices of traces: `--steps` and `--time`.

use crate::tool::Tool;
use etlink_testing::{DeviceQueue, HostSchema, ParamComms, TraceBuilder};
use serde_json::Value;

const US: i64 = 1_000;

/// Kind of step marks in a program.
#[derive(Clone, Copy, Debug)]
enum Marks {
    Profiler,
    Numbered,
    Optimizer,
    Inference,
}

/// Generates steps of 100 us on the host with three kernels each. If a kernel takes more than 33
/// us, the device falls behind: with 40 us, each step from the second on runs kernels of the
/// previous one. One range encloses everything, and one op of another thread spans each border
/// between steps.
fn late_steps(marks: Marks, steps: i64, kernel_us: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 1);
    let (main, other) = (draw.thread(), draw.thread());
    draw.annotation(main, "whole run", 0, steps * 100 * US);
    let mut free = 0;
    for step in 0..steps {
        let begin = step * 100 * US;
        let at = |us: i64| begin + us * US;
        match marks {
            Marks::Profiler => {
                draw.annotation(main, &format!("ProfilerStep#{}", step + 3), begin, at(99));
            }
            Marks::Numbered => {
                draw.annotation(main, &format!("train {}", step + 3), begin, at(99));
            }
            Marks::Inference => {
                let name = "execute_context_0(0)_generation_2(2)";
                draw.annotation(main, name, begin, at(99));
            }
            Marks::Optimizer => {
                draw.annotation(main, "Optimizer.step#SGD.step", at(90), at(99));
            }
        }
        draw.op(other, "aten::over", at(70), at(130));
        for kernel in 0..3 {
            let called = at(10 + 25 * kernel);
            draw.op(main, "aten::mm", called - 2 * US, called + 12 * US);
            let start = free.max(called + 8 * US);
            free = start + kernel_us * US;
            let call = (called, called + 5 * US);
            draw.launch(main, call, DeviceQueue::stream(7), "gemm", (start, free));
        }
    }
    draw
}

/// Returns the steps that `analyze` shows, without data that depends on adjacent steps.
fn analyzed_steps(tool: &Tool, line: &str) -> Vec<Value> {
    let report = tool.run(&format!("analyze {line} --json")).exits(0).runs();
    let steps = report[0]["ranks"][0]["steps"].as_array().expect("steps");
    let mut steps = steps.clone();
    for step in &mut steps {
        step["before_recording_ns"].take();
        step["excluded"].take();
    }
    steps
}

#[test]
fn steps_of_a_slice_have_the_figures_of_the_whole() {
    let tool = Tool::new();
    for (marks, first, kernel_us) in [
        (Marks::Profiler, 3, 40),
        (Marks::Numbered, 3, 40),
        // the first mark only ends a part that is not a step
        (Marks::Optimizer, 1, 40),
        (Marks::Inference, 0, 40),
        // the device reaches the second step after the host has finished the sixth
        (Marks::Profiler, 3, 100),
        (Marks::Profiler, 3, 250),
    ] {
        tool.file("trace.json", late_steps(marks, 6, kernel_us).kineto());
        let whole = analyzed_steps(&tool, "trace.json");
        let last = first + whole.len() as i64 - 1;
        for (from, to) in [(first, first), (first + 1, first + 3), (last, last)] {
            let slice = analyzed_steps(&tool, &format!("trace.json --steps {from}-{to}"));
            let places = (from - first) as usize..=(to - first) as usize;
            assert_eq!(
                slice, whole[places],
                "{marks:?} {kernel_us} us {from} to {to}"
            );
        }
    }
    tool.file("trace.json", late_steps(Marks::Numbered, 6, 40).kineto());
    let steps_by = "trace.json --steps-by aten::mm";
    let whole = analyzed_steps(&tool, steps_by);
    let slice = analyzed_steps(&tool, &format!("{steps_by} --steps 4-5"));
    assert_eq!(slice, whole[4..=5]);
}

/// Times count from the start of the trace, whatever its clock. Partial steps do not count.
#[test]
fn a_slice_of_time_has_the_whole_steps_in_it() {
    let tool = Tool::new();
    let mut draw = late_steps(Marks::Profiler, 6, 40);
    draw.origin(1_700_000_000_000_000_000);
    tool.file("trace.json", draw.kineto());
    let whole = analyzed_steps(&tool, "trace.json");
    for (time, places) in [
        ("100us..399us", 1..4),
        ("0.15ms..", 2..6),
        ("..0.000250s", 0..2),
    ] {
        let slice = analyzed_steps(&tool, &format!("trace.json --time {time}"));
        assert_eq!(slice, whole[places], "{time}");
    }
}

/// Slices are the same for all forms of a trace, and are reported as slices.
#[test]
fn slices_of_pairs_and_pipes_are_the_same() {
    let tool = Tool::new();
    let draw = late_steps(Marks::Profiler, 6, 100);
    tool.file("run/kineto_trace_0.json", draw.kineto());
    tool.file("run/torch_et_0.json", draw.host(HostSchema::V1_1_1));
    let pair = "link --host run/torch_et_0.json --device run/kineto_trace_0.json";
    assert_eq!(analyzed_steps(&tool, "run --steps 5-6").len(), 2);
    let piped = tool.run_with("analyze - --steps 5-6 --json", &draw.kineto());
    let piped = piped.exits(0).runs();
    // read whole and then sliced, or read as a slice
    let file = tool.run("analyze run/kineto_trace_0.json --steps 5-6 --json");
    let file = file.exits(0).runs();
    for (key, value) in file[0]["ranks"][0].as_object().expect("a rank") {
        if key != "device_trace" {
            assert_eq!(&piped[0]["ranks"][0][key], value, "{key}");
        }
    }
    // the host trace is sliced together with the device trace
    let linked = tool
        .run(&format!("{pair} --steps 5-6 --json"))
        .exits(0)
        .json();
    let report = &linked["report"];
    assert_eq!(report["unmatched"]["host_outside_window"], 0);
    assert_eq!(report["matched"]["id"], report["cpu_ops"]);
    // work launched in the previous step has no launch, which is not damage
    assert_eq!(report["no_launch"]["before_window"], 5);
    tool.run("merge run -o out --steps 5-6").exits(0);
    tool.run("check out").exits(0);
    for line in [
        "replay run",
        "findings run",
        "ranks run",
        "top run",
        "diff run run",
    ] {
        tool.run(&format!("{line} --steps 5-6"))
            .exits(0)
            .notes("only steps 5 to 6 are read, out of steps 3 to 8 in the trace");
    }
    tool.run("inspect run/kineto_trace_0.json --time 0s..200us")
        .exits(0)
        .notes("only 0.000 s to 0.000 s of the trace of 0.002 s");
}

#[test]
fn an_empty_slice_is_refused_with_what_the_trace_has() {
    let tool = Tool::new();
    tool.file("trace.json", late_steps(Marks::Profiler, 6, 40).kineto());
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 1_000);
    tool.file("none.json", draw.kineto());
    // 2 s in the middle without an event
    let mut draw = late_steps(Marks::Profiler, 2, 40);
    let main = draw.thread();
    draw.op(main, "aten::mm", 2_000_000 * US, 2_000_100 * US);
    tool.file("gap.json", draw.kineto());
    tool.run("link --device trace.json -o x.et").exits(0);
    for (line, reason) in [
        ("trace.json --steps 9", "the trace has steps 3 to 8"),
        ("none.json --steps 9", "the trace has no steps"),
        ("none.json --time 1s..2s", "the trace lasts 0.000 s"),
        ("gap.json --time 1s..1.5s", "the trace lasts 2.000 s"),
        ("trace.json --steps 5-3", "the end is not after the start"),
        ("trace.json --time 5", "a range of times with units"),
        ("trace.json --steps 3 --time 1s..", "cannot be used with"),
        ("x.et --steps 3", "a written graph"),
    ] {
        let refused = tool.run(&format!("analyze {line}")).exits(2);
        assert!(
            refused.stderr.contains(reason),
            "{line}: {}",
            refused.stderr
        );
    }
}

/// Rows whose times are wrong by years move neither the begin nor the end of a trace.
#[test]
fn times_of_a_slice_count_from_what_can_be_true() {
    let tool = Tool::new();
    let draw = |far: Option<i64>| {
        let mut draw = late_steps(Marks::Profiler, 6, 20);
        let main = draw.thread();
        let id = draw.next_correlation();
        draw.call(main, "cudaLaunchKernel", (1_000, 2_000), id);
        let start = far.unwrap_or(4_000);
        draw.kernel(DeviceQueue::stream(9), "far", (start, start + 5_000), id);
        draw.kineto()
    };
    let second = 1_000_000_000;
    for far in [100_000_000 * second, -100_000_000 * second, 3_600 * second] {
        tool.file("far.json", draw(Some(far)));
        tool.file("right.json", draw(None));
        let line = |file: &str| format!("{file} --time 150us..450us");
        let [far, right] =
            ["far.json", "right.json"].map(|file| analyzed_steps(&tool, &line(file)));
        assert!(!right.is_empty());
        assert_eq!(far, right);
        tool.run("analyze far.json --time 1s..2s").exits(2);
    }
}

/// A trace of any size is linked within the memory of its slice.
#[test]
fn a_slice_takes_the_memory_of_a_slice() {
    let tool = Tool::new();
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..40 {
        let begin = step * 20_000 * US;
        let name = format!("ProfilerStep#{step}");
        draw.annotation(main, &name, begin, begin + 19_000 * US);
        for op in 0..1_500 {
            let start = begin + op * 10 * US;
            draw.op(main, "aten::add", start, start + 4 * US);
        }
    }
    tool.file("kineto.json", draw.kineto());
    tool.file("et.json", draw.host(HostSchema::V1_1_1));
    let link = "link --host et.json --device kineto.json -o x.et -j 1 --memory 25M";
    tool.run(link)
        .exits(2)
        .complains(&["allow more with --memory", "--steps"]);
    assert!(!tool.path("x.et").exists());
    tool.run(&format!("{link} --steps 17")).exits(0);
}

/// Draws steps of 2 ms on one of two machines, whose clock is `ahead` us ahead, with one all-reduce
/// each. Rank 1 comes 60 us late to that of every other step.
fn rank_of_run(rank: i64, numbers: std::ops::Range<i64>, ahead: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    draw.origin((1_700_000_000_000_000 + ahead) * US);
    draw.metadata("host_name", &format!("\"machine{}\"", ahead.signum()));
    let main = draw.thread();
    for number in numbers {
        let at = |us: i64| (number * 2_000 + us) * US;
        draw.annotation(main, &format!("ProfilerStep#{number}"), at(0), at(2_000));
        let late = if rank == 1 && number % 2 == 0 { 60 } else { 0 };
        let gemm = (at(40), at(160 + late));
        draw.launch(main, (at(20), at(25)), DeviceQueue::stream(7), "gemm", gemm);
        let comms = ParamComms::new("allreduce", 0..2, rank, number);
        draw.collective(main, &comms, at(200), at(210));
        let id = draw.next_correlation();
        draw.call(main, "cudaLaunchKernel", (at(202), at(207)), id);
        let kernel = (at(220 + late), at(400));
        let name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
        draw.collective_kernel(DeviceQueue::stream(20), name, kernel, id, &comms);
    }
    draw.kineto()
}

/// Ranks that were recorded from different moments on are sliced at one moment.
#[test]
fn times_of_all_ranks_count_from_the_begin_of_the_run() {
    let steps_of = |tool: &Tool, line: &str| {
        let run = tool
            .run(&format!("ranks {line} --json"))
            .exits(0)
            .only_run();
        let mut steps = run["steps"].as_array().expect("steps").clone();
        steps.retain(|step| step["step"].is_string());
        (run["clocks"][1]["offset_ns"].clone(), steps)
    };
    for (ranks, ahead) in [
        ([3..13, 6..13], 0),
        ([6..13, 3..13], 0),
        ([3..13, 4..23], 0),
        ([3..13, 6..13], 5_000_000),
        ([6..13, 3..13], 5_000),
    ] {
        let tool = Tool::new();
        for (rank, numbers) in (0..).zip(ranks) {
            let content = rank_of_run(rank, numbers, rank * ahead);
            tool.file(&format!("run/rank{rank}.json"), content);
        }
        let (offset, whole) = steps_of(&tool, "run");
        assert_eq!(offset, -ahead * US);
        // the run begins with step 3
        let (offset, slice) = steps_of(&tool, "run --time 7ms..13ms");
        assert_eq!(offset, -ahead * US, "{ahead}");
        let named = |name: &str| {
            let mut steps = whole.iter();
            steps.find(|step| step["step"] == name)
        };
        for name in ["ProfilerStep#7", "ProfilerStep#8"] {
            let sliced = slice.iter().find(|step| step["step"] == name);
            assert_eq!(sliced, named(name), "{ahead} {name}");
        }
        assert_eq!(slice.len(), 2, "{slice:?}");
    }
}
