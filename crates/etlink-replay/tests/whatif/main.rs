//! Compares predictions with changed programs that were run again.
//!
//! A replay of an unchanged trace reproduces its times whatever the edges mean. Here a machine with
//! known mechanisms runs a program, its trace is linked, one thing is changed in the replay, and
//! the machine runs the changed program.
#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test; how many programs it draws is a variable"
)]

mod clocks;
mod collectives;
mod cross_step;
mod handoffs;
mod mechanisms;
mod mutations;
mod overlap;
mod path;
mod recording_overhead;

use etlink_link::{LinkOptions, LinkedTrace};
use etlink_replay::{
    AnswerRange, ReplaySettings, answer_range, graph_from_trace, run_graph, work_makespan,
};
use etlink_testing::{
    Machine, MachineChange, MachineInstruction, MachineOptions, TraceBuilder, random_program,
};

/// Predicted and true effect of a change, in ns.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    before: i64,
    truth: i64,
    predicted: i64,
    range: AnswerRange,
}

impl Outcome {
    /// Returns true if the range contains the truth, to the nanoseconds by which the machine rounds.
    fn is_covered(self) -> bool {
        const ROUNDED: i64 = 20;
        let range = self.range.least_change_ns - ROUNDED..=self.range.most_change_ns + ROUNDED;
        range.contains(&(self.truth - self.before))
    }

    /// Returns the width of the range, relative to the true change.
    fn width(self) -> f64 {
        let change = (self.truth - self.before).abs().max(1_000);
        (self.range.most_change_ns - self.range.least_change_ns) as f64 / change as f64
    }

    /// Returns the error relative to the true change.
    fn error_of_change(self) -> f64 {
        let change = (self.truth - self.before).abs().max(1);
        (self.predicted - self.truth).abs() as f64 / change as f64
    }

    /// Returns the error relative to the true time.
    fn error_of_time(self) -> f64 {
        (self.predicted - self.truth).abs() as f64 / self.truth.max(1) as f64
    }
}

/// Links a trace.
fn read_trace(draw: &TraceBuilder) -> LinkedTrace {
    let read = etlink_formats::kineto::KinetoReadOptions::default();
    let device = etlink_formats::kineto::read(&draw.kineto()[..], read).expect("a device trace");
    etlink_link::link(None, device, LinkOptions::default()).expect("links")
}

/// Returns the lengths of a trace's replay, unchanged and with a rule.
fn makespans(draw: &TraceBuilder, rule: &str) -> [i64; 2] {
    let trace = read_trace(draw);
    let graph = graph_from_trace(&trace).expect("no circle");
    let rule = rule.parse().expect("a rule");
    [vec![], vec![rule]].map(|scales| {
        let settings = ReplaySettings {
            scales,
            ..ReplaySettings::default()
        };
        work_makespan(&graph, &run_graph(&graph, &trace, &settings)).0
    })
}

/// Runs a program unchanged and changed, and predicts the second run from the first.
fn predict(
    program: &[MachineInstruction],
    options: MachineOptions,
    change: MachineChange,
) -> Outcome {
    let recorded = Machine::run(program, options, MachineChange::None);
    let changed = Machine::run(program, options, change);
    let trace = read_trace(&recorded.trace);
    let graph = graph_from_trace(&trace).expect("no circle");
    let plain = run_graph(&graph, &trace, &ReplaySettings::default());
    let measured = work_makespan(&graph, &plain).0;
    assert_eq!(measured, recorded.makespan, "what was measured comes back");
    let rules = change.rules();
    let scales = rules.iter().map(|rule| rule.parse().expect("a rule"));
    let settings = ReplaySettings {
        scales: scales.collect(),
        ..ReplaySettings::default()
    };
    let run = run_graph(&graph, &trace, &settings);
    Outcome {
        before: recorded.makespan,
        truth: changed.makespan,
        predicted: work_makespan(&graph, &run).0,
        range: answer_range(&graph, &trace, &settings, (&plain, &run), &|_| None),
    }
}

/// Largest error of a predicted mechanism: a share of the true change, or a latency or two.
const WITHIN: f64 = 0.05;
const LATENCIES_NS: i64 = 3_000;

#[test]
fn mechanisms_are_predicted() {
    let mut wrong = vec![];
    for mechanism in mechanisms::mechanisms() {
        let outcome = predict(&mechanism.program, mechanism.options, mechanism.change);
        let is_near = (outcome.predicted - outcome.truth).abs() <= LATENCIES_NS;
        if !is_near && outcome.error_of_change() > WITHIN {
            let sync_rows = mechanism.options.sync_rows;
            wrong.push(format!(
                "{}, sync rows {sync_rows}: {outcome:?}",
                mechanism.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Number of random programs per test run. `PROGRAMS=1000` draws more.
const PROGRAMS: u64 = 200;

/// Predicts random programs from traces with or without `cuda_sync` rows.
fn predict_random_programs(sync_rows: bool) -> Vec<Outcome> {
    let programs = std::env::var("PROGRAMS").map_or(Ok(PROGRAMS), |text| text.parse());
    let mut outcomes = vec![];
    for seed in 0..programs.expect("PROGRAMS is a number") {
        let (program, options, change) = random_program(seed);
        let options = MachineOptions {
            sync_rows,
            ..options
        };
        let outcome = predict(&program, options, change);
        outcomes.push(outcome);
    }
    outcomes
}

/// Returns the median and the 95th percentile of a figure.
fn median_and_p95(outcomes: &[Outcome], of: fn(Outcome) -> f64) -> (f64, f64) {
    let mut values: Vec<f64> = outcomes.iter().map(|outcome| of(*outcome)).collect();
    values.sort_by(f64::total_cmp);
    let at = |percent: usize| values[values.len() * percent / 100];
    (at(50), at(95))
}

/// Thresholds: half of the predictions are within 0.2 % of the new time, 95 of 100 within 1.5 %. 95
/// of 100 ranges contain the truth, and half of these are no wider than a tenth of the true change.
#[test]
fn random_programs_are_predicted_and_their_ranges_hold_the_truth() {
    for sync_rows in [true, false] {
        let outcomes = predict_random_programs(sync_rows);
        let (median, p95) = median_and_p95(&outcomes, Outcome::error_of_time);
        let (width, wide) = median_and_p95(&outcomes, Outcome::width);
        // Seeds are indices in the list.
        for (seed, outcome) in outcomes.iter().enumerate() {
            if outcome.error_of_time() > 0.03 || !outcome.is_covered() {
                println!("seed {seed}, sync rows {sync_rows}: {outcome:?}");
            }
        }
        let covered = outcomes.iter().filter(|outcome| outcome.is_covered());
        let (covered, all) = (covered.count(), outcomes.len());
        let line = format!(
            "sync rows {sync_rows}: {covered} of {all} ranges hold the truth, width {width:.3}, p95 \
             {wide:.3} of the change; error {median:.4}, p95 {p95:.4} of the time"
        );
        println!("{line}");
        assert!(median <= 0.002 && p95 <= 0.015, "{line}");
        assert!(covered * 100 >= all * 95 && width <= 0.1, "{line}");
    }
}
