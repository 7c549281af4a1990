//! Predictions against programs that were run again, changed.
//!
//! A replay of an unchanged trace gives its times back whatever the edges mean. Here a machine of
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
mod mutations;
mod overlap;
mod path;

use etlink_link::{LinkOptions, LinkedTrace};
use etlink_replay::{ReplaySettings, graph_from_trace, run_graph, work_makespan};
use etlink_testing::{
    Machine, MachineChange, MachineInstruction, MachineOptions, TraceBuilder, mechanisms,
    random_program,
};

/// How a change turned out, ns.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    before: i64,
    truth: i64,
    predicted: i64,
}

impl Outcome {
    /// Off by so much of the true change.
    fn error_of_change(self) -> f64 {
        let change = (self.truth - self.before).abs().max(1);
        (self.predicted - self.truth).abs() as f64 / change as f64
    }

    /// Off by so much of the true time.
    fn error_of_time(self) -> f64 {
        (self.predicted - self.truth).abs() as f64 / self.truth.max(1) as f64
    }
}

/// A trace, linked.
fn read_trace(draw: &TraceBuilder) -> LinkedTrace {
    let read = etlink_kineto::KinetoReadOptions::default();
    let device = etlink_kineto::read(&draw.kineto()[..], read).expect("a device trace");
    etlink_link::link(None, device, LinkOptions::default()).expect("links")
}

/// How long the replay of a trace takes, as it was and by a rule.
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

/// Runs a program as it is and changed, and predicts the second from the first.
fn predict(
    program: &[MachineInstruction],
    options: MachineOptions,
    change: MachineChange,
) -> Outcome {
    let recorded = Machine::run(program, options, MachineChange::None);
    let changed = Machine::run(program, options, change);
    let trace = read_trace(&recorded.trace);
    let graph = graph_from_trace(&trace).expect("no circle");
    let run = |settings| work_makespan(&graph, &run_graph(&graph, &trace, &settings)).0;
    let plain = run(ReplaySettings::default());
    assert_eq!(plain, recorded.makespan, "what was measured comes back");
    let rules = change.rules();
    let scales = rules.iter().map(|rule| rule.parse().expect("a rule"));
    let predicted = run(ReplaySettings {
        scales: scales.collect(),
        ..ReplaySettings::default()
    });
    Outcome {
        before: recorded.makespan,
        truth: changed.makespan,
        predicted,
    }
}

/// A prediction of a mechanism may be off by so much of the true change, or by a latency or two.
const WITHIN: f64 = 0.05;
const LATENCIES_NS: i64 = 4_000;

#[test]
fn mechanisms_are_predicted() {
    let mut wrong = vec![];
    for mechanism in mechanisms() {
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

/// Programs that a run of the test draws. `PROGRAMS=1000` draws more.
const PROGRAMS: u64 = 60;

/// The bars: half of the predictions within 0.2 % of the new time, 95 of 100 within 3 %.
#[test]
fn random_programs_are_predicted() {
    let programs = std::env::var("PROGRAMS").map_or(Ok(PROGRAMS), |text| text.parse());
    let mut outcomes: Vec<(f64, u64, Outcome)> = vec![];
    for seed in 0..programs.expect("PROGRAMS is a number") {
        let (program, options, change) = random_program(seed);
        let outcome = predict(&program, options, change);
        let error = outcome.error_of_time();
        if error > 0.03 {
            println!(
                "seed {seed}: {change:?}, {options:?}: {outcome:?}, {:.1} %",
                100.0 * error
            );
        }
        outcomes.push((error, seed, outcome));
    }
    outcomes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let error_at = |share: usize| outcomes[outcomes.len() * share / 100].0;
    let (median, p95) = (error_at(50), error_at(95));
    println!(
        "{} programs: median {:.3} %, p95 {:.2} %",
        outcomes.len(),
        100.0 * median,
        100.0 * p95
    );
    assert!(median <= 0.002, "median {median}");
    assert!(p95 <= 0.03, "p95 {p95}");
}
