//! Tests the steps in which collectives were launched.

use crate::support::{alone, alone_changed};
use etlink_link::ranks::{RankSummary, step_definition};
use etlink_model::{CommIdx, GlobalRank, StepIdx, StepWork};
use etlink_testing::{DeviceQueue, KinetoFlavour, ParamComms, TraceBuilder};

const MS: i64 = 1_000_000;

/// Draws an annotation per range, and a collective for each of these launch times, which runs 3 ms
/// later.
fn drawn(ranges: &[(&str, i64, i64)], launched: &[i64]) -> TraceBuilder {
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    draw.distributed(0, 2);
    let main = draw.thread();
    for (name, start, end) in ranges {
        draw.annotation(main, name, start * MS, end * MS);
    }
    for (number, at) in (0..).zip(launched) {
        let comms = ParamComms::new("allreduce", 0..2, 0, number);
        let (at, correlation) = (at * MS + 1000, draw.next_correlation());
        draw.collective(main, &comms, at, at + 20_000);
        draw.call(
            main,
            "cudaLaunchKernelExC",
            (at + 5_000, at + 9_000),
            correlation,
        );
        draw.collective_kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_AllReduce_Sum_f32",
            (at + 3 * MS, at + 3 * MS + 9_000),
            correlation,
            &comms,
        );
    }
    draw
}

/// Names of the steps of the communications, `-` for none.
fn steps(draw: &TraceBuilder) -> Vec<String> {
    let facts = RankSummary::from_trace(&alone(draw), GlobalRank(0));
    (0..)
        .take(facts.communications.len())
        .map(|at| {
            facts
                .steps
                .get(CommIdx(at))
                .map_or("-".into(), |step| step.name.clone())
        })
        .collect()
}

#[test]
fn a_collective_is_of_the_step_that_launched_it() {
    let ranges = [
        ("ProfilerStep#7", 10, 20),
        ("ProfilerStep#8", 20, 30),
        ("Optimizer.step#SGD.step", 18, 19),
    ];
    assert_eq!(
        steps(&drawn(&ranges, &[1, 12, 19, 21])),
        ["-", "ProfilerStep#7", "ProfilerStep#7", "ProfilerStep#8"]
    );
}

/// Steps of the communications if the first range that begins at `time`, in µs as Kineto writes it,
/// begins at `written` instead.
fn steps_of_displaced(draw: &TraceBuilder, time: &str, written: &str) -> Vec<StepIdx> {
    let trace = alone_changed(draw, time, written);
    RankSummary::from_trace(&trace, GlobalRank(0)).steps.by_comm
}

#[test]
fn ids_tell_steps_that_are_displaced_in_time() {
    let draw = drawn(
        &[("ProfilerStep#7", 10, 20), ("ProfilerStep#8", 20, 30)],
        &[12, 21],
    );
    // the second step's range is written 5 ms late, with its original id
    assert_eq!(
        steps_of_displaced(&draw, "20000.000", "25000.000"),
        [StepIdx(0), StepIdx(1)]
    );
}

/// If optimizers end steps, times decide: work launched after an end belongs to the next step.
#[test]
fn times_tell_optimizer_steps_that_are_displaced() {
    let ranges = [
        ("Optimizer.step#SGD.step", 18, 19),
        ("Optimizer.step#SGD.step", 28, 29),
    ];
    let draw = drawn(&ranges, &[12, 30, 40]);
    // the first one is written 20 ms late, with its original id
    assert_eq!(
        steps_of_displaced(&draw, "18000.000", "38000.000"),
        [StepIdx::NONE, StepIdx(0), StepIdx::NONE]
    );
}

#[test]
fn a_profiler_step_does_the_work_of_the_annotation_inside() {
    let ranges = [
        ("ProfilerStep#1", 10, 20),
        ("ProfilerStep#2", 20, 30),
        ("execute_new_1_cached_0", 21, 29),
    ];
    let summary = RankSummary::from_trace(&alone(&drawn(&ranges, &[12])), GlobalRank(0));
    let works: Vec<bool> = summary
        .steps
        .all
        .iter()
        .map(|step| step.work == StepWork::default())
        .collect();
    assert_eq!(works, [true, false]);
}

/// Time before the first end and after the last one is no whole step.
#[test]
fn optimizer_steps_end_steps() {
    let ranges = [
        ("Optimizer.step#SGD.step", 18, 19),
        ("Optimizer.step#SGD.step", 28, 29),
        ("Optimizer.step#Adam.step", 12, 13),
        ("run 1", 0, 60),
    ];
    assert_eq!(
        steps(&drawn(&ranges, &[1, 15, 19, 30])),
        ["-", "-", "optimizer step 1", "-"]
    );
}

#[test]
fn numbered_annotations_are_steps_where_nothing_else_is() {
    let ranges = [
        ("batch 1", 10, 20),
        ("batch 2", 20, 30),
        ("layer.1", 11, 12),
        ("layer.2", 12, 13),
        ("epoch 3", 5, 60),
    ];
    assert_eq!(
        steps(&drawn(&ranges, &[1, 12, 21])),
        ["-", "batch 1", "batch 2"]
    );
    assert_eq!(steps(&drawn(&[("forward", 10, 20)], &[12])), ["-"]);
}

/// Layers of a pass whose head has most of the device work; ranges that leave most time to others;
/// ranges whose numbers recur, or that overlap; layers by their module's path.
#[test]
fn ranges_of_parts_of_a_step_are_no_steps() {
    let layers = [("layer 0", 10, 12), ("layer 1", 12, 14)];
    assert_eq!(steps(&drawn(&layers, &[10, 15, 16])), ["-"; 3]);
    let ops = [("Identity_0", 10, 11), ("Identity_1", 20, 21)];
    assert_eq!(steps(&drawn(&ops, &[10, 20])), ["-"; 2]);
    let passes = [
        ("layer 0", 10, 12),
        ("layer 1", 12, 14),
        ("layer 0", 14, 16),
        ("layer 1", 16, 18),
    ];
    assert_eq!(steps(&drawn(&passes, &[10, 12, 14, 16])), ["-"; 4]);
    let overlapping = [("worker 1", 10, 14), ("worker 2", 12, 16)];
    assert_eq!(steps(&drawn(&overlapping, &[10, 12])), ["-"; 2]);
    let modules = [("model.layers.0", 10, 12), ("model.layers.1", 12, 14)];
    assert_eq!(steps(&drawn(&modules, &[10, 12])), ["-"; 2]);
}

#[test]
fn a_step_is_defined_by_its_name() {
    let defined = |name: &str| step_definition(name).unwrap_or_default();
    assert_eq!(defined("ProfilerStep#7"), "");
    assert!(defined("optimizer step 3").contains("Optimizer.step"));
    assert_eq!(defined("batch 3"), "a range `batch N`");
    assert_eq!(defined("run_batch"), "a range such as `run_batch`");
}

#[test]
fn iterations_of_inference_are_steps() {
    let ranges = [
        // around the annotation of the model runner, which is more specific
        ("run_batch", 9, 22),
        ("step[EXTEND bs=1 toks=90]", 10, 20),
        ("run_batch", 29, 42),
        ("step[DECODE bs=2]", 30, 40),
        // the draft model of speculative decoding
        ("step[DECODE bs=2]", 31, 33),
        ("run_batch", 49, 62),
        ("step[DECODE bs=2]", 50, 60),
    ];
    assert_eq!(
        steps(&drawn(&ranges, &[1, 12, 34, 51])),
        [
            "-",
            "step[EXTEND bs=1 toks=90]",
            "step[DECODE bs=2]",
            "step[DECODE bs=2] (2)"
        ]
    );
    let batches = [("run_batch", 10, 20), ("run_batch", 20, 30)];
    assert_eq!(
        steps(&drawn(&batches, &[12, 21])),
        ["run_batch", "run_batch (2)"]
    );
    let profiled = [
        ("ProfilerStep#1", 10, 20),
        ("execute_new_1_cached_0", 11, 19),
    ];
    assert_eq!(steps(&drawn(&profiled, &[12])), ["ProfilerStep#1"]);
}
