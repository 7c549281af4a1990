//! A profiler that takes time for each op slows the host down; without it, the machine runs the
//! same program faster.

use super::read_trace;
use etlink_link::{LinkOptions, LinkedTrace, link};
use etlink_model::DurationNs;
use etlink_replay::{
    ReplaySettings, answer_range, graph_from_trace, overhead_doubt, run_graph, without_overhead,
    work_makespan,
};
use etlink_testing::{
    Machine, MachineChange,
    MachineInstruction::{self, DeviceSync, Host, Launch, Op, Step},
    MachineOptions,
};

const STEPS: u32 = 6;

/// Steps of 40 nested ops with a kernel of `us` each.
fn program(us: i64) -> Vec<MachineInstruction> {
    let op = || {
        let view = Op("aten::view", vec![Host(1)]);
        let kernel = Launch {
            stream: 7,
            kernel: "add",
            us,
        };
        Op("aten::add", vec![view, Host(2), kernel])
    };
    let step = |number| {
        let ops = (0..40).map(|_| op());
        Step(number, ops.chain([DeviceSync, Host(30)]).collect())
    };
    (0..STEPS).map(step).collect()
}

fn plain_run(us: i64, change: MachineChange) -> i64 {
    Machine::run(&program(us), MachineOptions::default(), change).makespan
}

/// Returns the trace of a run with a profiler that takes 8 us before and 12 us in each op.
fn recorded(us: i64) -> (LinkedTrace, i64) {
    let options = MachineOptions {
        cost_before_op: 8_000,
        cost_at_end: 12_000,
        ..MachineOptions::default()
    };
    let run = Machine::run(&program(us), options, MachineChange::None);
    (read_trace(&run.trace), run.makespan)
}

/// Returns the length of the run without overhead, by the trace, and of the run with longer kernels.
fn lengths_without(trace: &LinkedTrace, known_step: Option<DurationNs>) -> (i64, i64) {
    let (device, overhead) = without_overhead(trace, known_step).expect("ops without work");
    assert!(overhead.per_op_ns.0 > 0);
    assert_eq!(device.rows.len(), trace.device.rows.len());
    let sum = |durations: &[DurationNs]| durations.iter().map(|time| time.0).sum::<i64>();
    assert_eq!(
        sum(&device.rows.duration),
        sum(&trace.device.rows.duration),
        "device work takes what it took"
    );
    let trace = link(None, device, LinkOptions::default()).expect("the same events");
    let graph = graph_from_trace(&trace).expect("no circle");
    let makespan = |rules: &[String]| {
        let scales = rules.iter().map(|rule| rule.parse().expect("a rule"));
        let settings = ReplaySettings {
            scales: scales.collect(),
            ..ReplaySettings::default()
        };
        work_makespan(&graph, &run_graph(&graph, &trace, &settings)).0
    };
    let longer = MachineChange::Kernels(4.0).rules();
    (makespan(&[]), makespan(&longer))
}

fn error(predicted: i64, truth: i64) -> f64 {
    (predicted - truth).abs() as f64 / truth as f64
}

#[test]
fn a_known_step_makes_the_run_and_its_what_if_true() {
    for us in [2, 10, 25] {
        let truth = plain_run(us, MachineChange::None);
        let longer = plain_run(us, MachineChange::Kernels(4.0));
        let (trace, slow) = recorded(us);
        assert!(slow > truth * 5 / 4, "{us}: recording slows the host");
        let step = DurationNs(truth / i64::from(STEPS));
        let (without, what_if) = lengths_without(&trace, Some(step));
        assert!(error(without, truth) < 0.02, "{us}: {without} for {truth}");
        assert!(
            error(what_if, longer) < 0.02,
            "{us}: {what_if} for {longer}"
        );
    }
}

#[test]
fn ops_without_work_tell_most_of_the_overhead() {
    let truth = plain_run(2, MachineChange::None);
    let (trace, slow) = recorded(2);
    let (without, _) = lengths_without(&trace, None);
    let removed = (slow - without) as f64 / (slow - truth) as f64;
    assert!((0.75..=1.1).contains(&removed), "{removed}");
}

#[test]
fn a_run_without_steps_needs_an_estimate() {
    let run = Machine::run(&[Host(5)], MachineOptions::default(), MachineChange::None);
    let mut draw = run.trace;
    let thread = draw.thread();
    draw.op(thread, "aten::mm", 0, 9_000);
    let trace = read_trace(&draw);
    for known in [None, Some(DurationNs(1_000))] {
        assert!(without_overhead(&trace, known).is_err());
    }
}

/// Returns the least and the greatest change by a rule, if the overhead of recording is uncertain.
fn change_range(trace: &LinkedTrace, rule: &str) -> (i64, i64) {
    let graph = graph_from_trace(trace).expect("no circle");
    let settings = ReplaySettings {
        scales: vec![rule.parse().expect("a rule")],
        overhead_doubt: overhead_doubt(trace, &graph),
        ..ReplaySettings::default()
    };
    assert!(!settings.overhead_doubt.is_empty());
    let plain = run_graph(&graph, trace, &ReplaySettings::default());
    let run = run_graph(&graph, trace, &settings);
    let range = answer_range(&graph, trace, &settings, (&plain, &run), &|_| None);
    (range.least_change_ns, range.most_change_ns)
}

/// The overhead is the same with and without the change.
#[test]
fn an_uncertain_overhead_is_no_doubt_about_a_change_of_nothing() {
    let (mut trace, _) = recorded(10);
    trace.report.overhead = without_overhead(&trace, None)
        .ok()
        .map(|(_, overhead)| overhead);
    assert_eq!(change_range(&trace, "kind=kernel 1"), (0, 0));
    let (least, most) = change_range(&trace, "kind=kernel 0");
    assert!(least < most && most <= 0, "{least} to {most}");
}
