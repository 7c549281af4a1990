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

mod collectives;
mod machine;
mod mechanisms;
mod programs;

use etlink_link::LinkOptions;
use etlink_replay::{ReplaySettings, graph_from_trace, run_graph, work_makespan};
use machine::{Change, Instruction, Machine, MachineOptions};

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

/// Runs a program as it is and changed, and predicts the second from the first.
fn predict(program: &[Instruction], options: MachineOptions, change: Change) -> Outcome {
    let recorded = Machine::run(program, options, Change::None);
    let changed = Machine::run(program, options, change);
    let device = etlink_kineto::read(
        &recorded.trace.kineto()[..],
        etlink_kineto::KinetoReadOptions::default(),
    );
    let device = device.expect("a device trace");
    let trace = etlink_link::link(None, device, LinkOptions::default()).expect("links");
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
