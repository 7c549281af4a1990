//! A failing recorder: no recorder keeps running, no other recording is lost, the next cycle is
//! tried.

use crate::schedule;
use crate::world::{Fault, World};
use etlink_tracing::{RecorderFailures, RecorderRequest, RecordingSession};
use std::panic::{AssertUnwindSafe, catch_unwind};

const NAMES: [&str; 3] = ["host", "device", "power"];

/// Runs two cycles of one warmup step and two recorded steps; `device` fails once. Returns the
/// result of each step and the recorders running after it.
fn two_cycles(world: &World, request: RecorderRequest) -> Vec<(u64, String, Vec<&'static str>)> {
    let mut session = RecordingSession::scheduled(world.recorders(&NAMES), schedule(0, 1, 2, 2));
    world.fail("device", request, Fault::Error);
    let mut told = vec![];
    let mut note = |step, result: Result<(), RecorderFailures>, world: &World| {
        if let Err(failures) = result {
            told.push((step, failures.to_string(), world.running()));
        }
    };
    note(0, session.start(), world);
    for step in 1..=7 {
        world.op(&format!("op{}", step - 1));
        note(step, session.step(), world);
    }
    note(8, session.finish(), world);
    assert!(
        world.running().is_empty(),
        "{request}: {:?} run on",
        world.running()
    );
    told
}

#[test]
fn a_cycle_that_one_cannot_begin_is_given_up_by_all_and_the_next_is_whole() {
    for (request, step) in [(RecorderRequest::Prepare, 0), (RecorderRequest::Start, 1)] {
        let world = World::default();
        let told = two_cycles(&world, request);
        let message = format!("recorder device failed to {request} at step {step}: out of luck");
        assert_eq!(told, [(step, message, vec![])], "{request}");
        assert_eq!(
            world.files(),
            ["device", "host", "power"].map(|name| format!("cycle_0/{name}.json: op4 op5")),
            "{request}"
        );
        // recorders after the failed one are not started in vain
        let started = world
            .calls()
            .iter()
            .filter(|call| call.ends_with("power start"))
            .count();
        assert_eq!(started, 1, "{request}");
    }
}

#[test]
fn what_the_others_recorded_is_saved() {
    for request in [RecorderRequest::Stop, RecorderRequest::Save] {
        let world = World::default();
        let told = two_cycles(&world, request);
        assert_eq!(
            told,
            [(
                3,
                format!("recorder device failed to {request} at step 3: out of luck"),
                vec![]
            )],
            "{request}"
        );
        let expected = [
            "cycle_0/host.json: op1 op2",
            "cycle_0/power.json: op1 op2",
            "cycle_1/device.json: op4 op5",
            "cycle_1/host.json: op4 op5",
            "cycle_1/power.json: op4 op5",
        ];
        assert_eq!(world.files(), expected, "{request}");
    }
}

#[test]
fn files_are_completed_though_stopping_failed() {
    let world = World::default();
    let mut session = RecordingSession::always(world.recorders(&NAMES));
    session.start().expect("starts");
    world.fail("host", RecorderRequest::Stop, Fault::Error);
    world.fail("device", RecorderRequest::Save, Fault::Error);
    world.fail("power", RecorderRequest::Finish, Fault::Error);
    let failures = session.finish().expect_err("fails").0;
    assert_eq!(
        failures
            .iter()
            .map(|failure| (&failure.recorder[..], failure.request))
            .collect::<Vec<_>>(),
        [
            ("host", RecorderRequest::Stop),
            ("device", RecorderRequest::Save),
            ("power", RecorderRequest::Finish)
        ]
    );
    assert_eq!(world.files().len(), 1);
    assert_eq!(
        world
            .calls()
            .iter()
            .filter(|call| call.ends_with("finish"))
            .count(),
        3
    );
}

#[test]
fn a_recorder_that_cannot_toggle_goes_on() {
    let world = World::default();
    let mut session = RecordingSession::always(world.recorders(&NAMES));
    session.start().expect("starts");
    world.fail("host", RecorderRequest::Toggle, Fault::Error);
    session
        .toggle(etlink_tracing::ProfilerActivity::Cpu, false)
        .expect_err("fails");
    world.op("op");
    session.finish().expect("ends");
    assert_eq!(
        world.files(),
        [
            "cycle_0/device.json: ",
            "cycle_0/host.json: op",
            "cycle_0/power.json: "
        ]
    );
}

#[test]
fn a_program_that_ends_in_an_error_leaves_its_traces() {
    let world = World::default();
    let program = || -> Result<(), RecorderFailures> {
        let mut session =
            RecordingSession::scheduled(world.recorders(&NAMES), schedule(0, 1, 5, 1));
        session.start()?;
        session.step()?;
        world.op("op1");
        panic!("the program's own error");
    };
    catch_unwind(AssertUnwindSafe(program)).expect_err("panics");
    assert_eq!(
        world.files(),
        ["device", "host", "power"].map(|name| format!("cycle_0/{name}.json: op1"))
    );
    assert_eq!(
        world
            .calls()
            .iter()
            .filter(|call| call.ends_with("finish"))
            .count(),
        3
    );
}

#[test]
fn a_recorder_that_panics_leaves_nobody_running() {
    for request in [
        RecorderRequest::Prepare,
        RecorderRequest::Start,
        RecorderRequest::Stop,
        RecorderRequest::Save,
    ] {
        let world = World::default();
        world.fail("device", request, Fault::Panic);
        let program = || {
            let mut session =
                RecordingSession::scheduled(world.recorders(&NAMES), schedule(0, 1, 1, 1));
            let _ = session.start();
            let _ = session.step();
            let _ = session.step();
        };
        catch_unwind(AssertUnwindSafe(program)).expect_err("panics");
        assert!(
            world.running().is_empty(),
            "{request}: {:?} run on",
            world.running()
        );
        assert_eq!(
            world
                .calls()
                .iter()
                .filter(|call| call.ends_with("finish"))
                .count(),
            3,
            "{request}"
        );
    }
}

#[test]
fn a_panic_while_saving_does_not_save_anything_twice() {
    let world = World::default();
    world.fail("device", RecorderRequest::Save, Fault::Panic);
    let program = || {
        let mut session =
            RecordingSession::scheduled(world.recorders(&NAMES), schedule(0, 0, 2, 2));
        let _ = session.start();
        let _ = session.step();
        let _ = session.step();
    };
    catch_unwind(AssertUnwindSafe(program)).expect_err("panics");
    assert_eq!(
        world
            .calls()
            .iter()
            .filter(|call| call.contains("save"))
            .collect::<Vec<_>>(),
        ["host save 0..2", "device save 0..2"]
    );
}
