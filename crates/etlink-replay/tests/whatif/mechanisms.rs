//! One program per mechanism: each held up the recorded run, or did not and will.

use super::machine::{Change, Instruction, MachineOptions};
use super::predict;
use Instruction::{DeviceSync, EventSync, Graph, Host, Op, Poll, Record, StreamSync, StreamWait};

/// A prediction may be off by so much of the true change, or by a latency or two.
const WITHIN: f64 = 0.05;
const LATENCIES_NS: i64 = 4_000;

fn launch(stream: i64, kernel: &'static str, us: i64) -> Instruction {
    let launch = Instruction::Launch { stream, kernel, us };
    Op("aten::op", vec![Host(2), launch, Host(1)])
}

fn record(event: u32, stream: i64) -> Instruction {
    Record { event, stream }
}

fn wait(stream: i64, event: u32) -> Instruction {
    StreamWait { stream, event }
}

/// The program, then a kernel and a synchronisation of the device.
fn with_end(mut program: Vec<Instruction>) -> Vec<Instruction> {
    program.extend([launch(7, "last", 30), Host(5), DeviceSync]);
    program
}

/// Checks a prediction with and without `cuda_sync` rows.
fn check(name: &str, program: Vec<Instruction>, options: MachineOptions, change: Change) {
    let program = with_end(program);
    for sync_rows in [false, true] {
        let options = MachineOptions {
            sync_rows,
            ..options
        };
        let outcome = predict(&program, options, change);
        let is_near = (outcome.predicted - outcome.truth).abs() <= LATENCIES_NS;
        assert!(
            is_near || outcome.error_of_change() <= WITHIN,
            "{name}, sync rows {sync_rows}: {outcome:?}"
        );
    }
}

fn check_grown(name: &str, program: Vec<Instruction>, factor: f64) {
    let change = Change::Kernel("A", factor);
    check(name, program, MachineOptions::default(), change);
}

#[test]
fn host_waits() {
    let sync = |us, wait: Instruction| vec![launch(7, "A", us), Host(60), wait, Host(50)];
    check_grown("a stream that delays", sync(200, StreamSync(7)), 3.0);
    check_grown("a stream that did not", sync(5, StreamSync(7)), 40.0);
    check_grown("a device that did not", sync(5, DeviceSync), 40.0);
    let event = |us| {
        let before = [launch(7, "A", us), record(1, 7), Host(60), EventSync(1)];
        [&before[..], &[Host(50)]].concat()
    };
    check_grown("an event that delays", event(200), 3.0);
    check_grown("an event that did not", event(5), 40.0);
    let other = vec![
        launch(20, "A", 5),
        launch(7, "B", 5),
        Host(60),
        StreamSync(20),
        Host(50),
    ];
    check_grown("another stream than the last, which did not", other, 40.0);
}

#[test]
fn event_waits() {
    let in_op = |us, pause| {
        let body = vec![record(1, 7), wait(20, 1), launch(20, "B", 150)];
        vec![
            launch(7, "A", us),
            Host(pause),
            Op("c10d::allreduce_", body),
        ]
    };
    check_grown("in an op, delays", in_op(200, 1), 3.0);
    check_grown("in an op, did not", in_op(5, 60), 60.0);
    let in_user_code = |us, pause| {
        let before = [launch(20, "A", us), launch(7, "B", 10), Host(pause)];
        let after = [record(1, 20), wait(7, 1), Host(2), launch(7, "C", 150)];
        [&before[..], &after].concat()
    };
    check_grown("in user code, delays", in_user_code(200, 10), 3.0);
    check_grown("in user code, did not", in_user_code(5, 60), 60.0);
}

#[test]
fn streams() {
    check_grown(
        "order of a stream",
        vec![launch(7, "A", 50), launch(7, "B", 50)],
        3.0,
    );
    let slack = vec![launch(7, "A", 5), Host(60), launch(7, "B", 50)];
    check_grown("order of a stream that did not delay", slack, 60.0);
    let legacy = MachineOptions {
        legacy: true,
        ..MachineOptions::default()
    };
    let blocked = vec![launch(13, "A", 200), launch(7, "B", 20)];
    let change = Change::Kernel("A", 3.0);
    check("the legacy default stream", blocked, legacy, change);
}

#[test]
fn graphs() {
    let branches = |side: i64, main: i64| {
        let rows = vec![
            (7, "root", 20, vec![]),
            (13, "A", side, vec![0]),
            (7, "B", main, vec![0]),
            (7, "join", 40, vec![1, 2]),
        ];
        vec![
            Op("replay", vec![Host(2), Graph(rows)]),
            Host(5),
            DeviceSync,
        ]
    };
    check_grown("a branch that did not delay", branches(20, 60), 8.0);
    check_grown("a branch that delays grows", branches(150, 20), 3.0);
    check_grown("a branch that delays shrinks", branches(150, 20), 0.2);
}

#[test]
fn polling_is_a_wait() {
    let poll = |us| {
        vec![
            launch(7, "A", us),
            record(1, 7),
            Poll(1),
            Host(50),
            launch(7, "B", 20),
        ]
    };
    check_grown("the kernel shrinks", poll(300), 0.3);
    check_grown("the kernel grows", poll(100), 3.0);
}

#[test]
fn a_full_launch_queue_is_a_wait() {
    let options = MachineOptions {
        depth: Some(64),
        ..MachineOptions::default()
    };
    let program: Vec<Instruction> = (0..300).map(|_| launch(7, "A", 20)).collect();
    let quick = Change::Kernel("A", 0.25);
    check("kernels are quicker", program.clone(), options, quick);
    check("the host is slower", program, options, Change::Host(2.0));
}

#[test]
fn another_cause_brings_its_own_latency() {
    let program = |us| {
        let steps = (0..100).map(|_| vec![launch(7, "A", us), Host(8)]);
        steps.flatten().collect::<Vec<_>>()
    };
    let options = MachineOptions::default();
    let slow = Change::Kernel("A", 10.0);
    check("kernels grow past launches", program(3), options, slow);
    check(
        "the host is quicker",
        program(5),
        options,
        Change::Host(0.2),
    );
}
