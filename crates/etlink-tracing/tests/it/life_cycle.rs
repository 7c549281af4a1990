//! Life cycles of PyTorch's own `profile` (2.15.0), described in
//! `etlink-schedule/tests/cases/README.md`.

use crate::world::World;
use etlink_schedule::{Action, Arguments, Schedule};
use etlink_tracing::RecordingSession;
use serde_json::Value;

fn session(world: &World, case: &Value) -> RecordingSession {
    let recorders = world.recorders(&["it"]);
    match &case["schedule"] {
        Value::Null => RecordingSession::always(recorders),
        Value::Array(names) => {
            let all = [
                Action::None,
                Action::Warmup,
                Action::Record,
                Action::RecordAndSave,
            ];
            let actions: Vec<Action> = names
                .iter()
                .filter_map(|name| all.into_iter().find(|action| action.name() == name))
                .collect();
            RecordingSession::new(recorders, move |step| {
                *actions
                    .get(step as usize)
                    .or(actions.last())
                    .expect("actions")
            })
        }
        args => {
            let number = |name: &str| args[name].as_i64().unwrap_or_default();
            let [wait, warmup, active, repeat] = ["wait", "warmup", "active", "repeat"].map(number);
            let [skip_first, skip_first_wait] = ["skip_first", "skip_first_wait"].map(number);
            let schedule = Schedule::new(Arguments {
                skip_first,
                wait,
                warmup,
                active,
                repeat,
                skip_first_wait,
            })
            .expect("valid");
            RecordingSession::new(recorders, move |step| schedule.action(step))
        }
    }
}

/// Adds the place to the calls made there, in the words of the case file.
fn told(world: &World, place: &str, step: u64, all: &mut Vec<String>) {
    for call in world.calls() {
        let call = call.trim_start_matches("it ");
        let call = match call.split(' ').next() {
            Some("save") => format!("save {step}"),
            Some("finish") => "cleanup".to_owned(),
            _ => call.to_owned(),
        };
        all.push(format!("{place}: {call}"));
    }
}

fn run(case: &Value) -> (Vec<String>, Vec<String>) {
    let world = World::default();
    let mut calls = vec![];
    let mut session = session(&world, case);
    let error = case["exc_at"].as_u64();
    session.start().expect("starts");
    told(&world, "start", 0, &mut calls);
    for step in 0..error.or(case["steps"].as_u64()).expect("steps") {
        session.step().expect("steps");
        told(
            &world,
            &format!("step{step}->{}", step + 1),
            step + 1,
            &mut calls,
        );
    }
    assert_eq!(case["final_action"], session.action().name(), "{case}");
    assert_eq!(case["step_num"], session.step_number(), "{case}");
    let (warnings, step) = (
        session.warnings().iter().map(ToString::to_string).collect(),
        session.step_number(),
    );
    if error.is_some() {
        drop(session);
        told(&world, "exit-exc", step, &mut calls);
    } else if case["end"] == "stop" {
        session.stop().expect("stops");
        told(&world, "end", step, &mut calls);
        if case["restart"] == true {
            session.start().expect("starts");
            told(&world, "restart", step, &mut calls);
            session.stop().expect("stops");
            told(&world, "restop", step, &mut calls);
        }
    } else if case["end"] != "none" {
        session.finish().expect("ends");
        told(&world, "end", step, &mut calls);
    }
    (calls, warnings)
}

#[test]
fn a_session_makes_the_calls_that_pytorch_makes() {
    let text = include_str!("../../../etlink-schedule/tests/cases/lifecycle.jsonl");
    for case in text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a case"))
    {
        let texts = |key: &str| {
            case[key]
                .as_array()
                .expect("a list")
                .iter()
                .map(|text| text.as_str().expect("text").to_owned())
                .collect::<Vec<_>>()
        };
        let (mut calls, warnings) = run(&case);
        if case["ready"] == false {
            calls.retain(|call| !call.contains("save"));
        }
        assert_eq!(texts("calls"), calls, "{case}");
        let own: Vec<String> = texts("warnings")
            .into_iter()
            .filter(|text| !text.contains("clears events"))
            .collect();
        assert_eq!(own, warnings, "{case}");
    }
    assert_eq!(text.lines().count(), 30);
}
