//! Sessions with recorders that log their calls and record a small program.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

mod failures;
mod life_cycle;
mod outputs;
mod spans;
mod world;

use etlink_schedule::{Action, Arguments, Loop, Phase, PhaseSchedule, Schedule, Warning};
use etlink_tracing::{ProfilerActivity, RecordingSession};
use world::World;

fn schedule(wait: i64, warmup: i64, active: i64, repeat: i64) -> Schedule {
    Schedule::new(Arguments {
        wait,
        warmup,
        active,
        repeat,
        ..Arguments::default()
    })
    .expect("valid")
}

/// Runs a program that does one op per step.
fn run(world: &World, session: &mut RecordingSession, steps: u64) {
    for _ in 0..steps {
        world.op(&format!("op{}", session.step_number()));
        session.step().expect("goes well");
    }
}

#[test]
fn all_recorders_record_the_same_steps_in_numbered_files() {
    let world = World::default();
    let mut session =
        RecordingSession::scheduled(world.recorders(&["host", "device"]), schedule(1, 1, 2, 3));
    session.start().expect("starts");
    run(&world, &mut session, 14);
    session.finish().expect("ends");
    let mut expected = vec![];
    for (cycle, ops) in [["op2", "op3"], ["op6", "op7"], ["op10", "op11"]]
        .iter()
        .enumerate()
    {
        for name in ["device", "host"] {
            expected.push(format!("cycle_{cycle}/{name}.json: {}", ops.join(" ")));
        }
    }
    assert_eq!(world.files(), expected);
}

#[test]
fn the_first_recorder_is_switched_first() {
    let world = World::default();
    let mut session =
        RecordingSession::scheduled(world.recorders(&["host", "device"]), schedule(0, 0, 1, 1));
    session.start().expect("starts");
    session.step().expect("steps");
    session.finish().expect("ends");
    let calls = ["prepare", "start", "stop", "save 0..1", "finish"]
        .map(|call| ["host", "device"].map(|name| format!("{name} {call}")));
    assert_eq!(world.calls(), calls.concat());
}

#[test]
fn a_session_that_ends_in_mid_cycle_saves_what_it_has() {
    let world = World::default();
    let mut session = RecordingSession::scheduled(world.recorders(&["host"]), schedule(1, 1, 5, 1));
    session.start().expect("starts");
    run(&world, &mut session, 4);
    world.op("half of op4");
    session.stop().expect("stops");
    world.op("later");
    assert_eq!(world.files(), ["cycle_0/host.json: op2 op3 half of op4"]);
    assert!(
        world.calls().contains(&"host save 2..5 cut".to_owned()),
        "{:?}",
        world.calls()
    );
    session.stop().expect("nothing happens");
    session.step().expect("only counts");
    assert_eq!(session.step_number(), 5);
    session.start().expect("goes on in the cycle");
    run(&world, &mut session, 3);
    assert_eq!(world.files()[1..], ["cycle_1/host.json: op5 op6"]);
}

#[test]
fn an_activity_that_is_toggled_is_missing_in_all_traces() {
    let world = World::default();
    let mut session =
        RecordingSession::scheduled(world.recorders(&["host", "device"]), schedule(1, 0, 3, 2));
    session.start().expect("starts");
    session
        .toggle(ProfilerActivity::Cpu, false)
        .expect("nothing records");
    assert_eq!(session.warnings(), [Warning::NoWarmup]);
    run(&world, &mut session, 2);
    session.toggle(ProfilerActivity::Cpu, false).expect("off");
    run(&world, &mut session, 1);
    session.toggle(ProfilerActivity::Cpu, true).expect("on");
    run(&world, &mut session, 5);
    for name in ["host", "device"] {
        assert!(
            world
                .files()
                .contains(&format!("cycle_0/{name}.json: op1 op3")),
            "{:?}",
            world.files()
        );
        assert!(
            world
                .files()
                .contains(&format!("cycle_1/{name}.json: op5 op6 op7")),
            "{:?}",
            world.files()
        );
    }
}

#[test]
fn phases_drive_a_session_and_their_odd_pairs_are_told() {
    let world = World::default();
    let mut phases = PhaseSchedule::new(schedule(1, 1, 1, 0), Loop::Fit);
    let mut session = RecordingSession::new(world.recorders(&["host"]), |_| Action::None);
    session.start().expect("starts");
    for phase in [
        Phase::Train,
        Phase::Validation,
        Phase::Train,
        Phase::Test,
        Phase::Train,
        Phase::Validation,
    ] {
        world.op(&format!("{phase:?}"));
        session.step_as(phases.step(phase)).expect("steps");
    }
    // training and validation warm up, training records to the end of the test step; the warmup of
    // test is lost, as training is done and NONE
    assert_eq!(world.files(), ["cycle_0/host.json: Test"]);
    assert_eq!(session.warnings(), [Warning::WarmupThenNone]);
}

#[test]
fn a_warning_is_told_once() {
    let mut session = RecordingSession::new(vec![], |step| {
        if step % 2 == 0 {
            Action::Warmup
        } else {
            Action::None
        }
    });
    session.start().expect("starts");
    run(&World::default(), &mut session, 6);
    assert_eq!(session.warnings(), [Warning::WarmupThenNone]);
}
