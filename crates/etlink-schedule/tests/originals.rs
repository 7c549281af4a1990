//! Compares with the answers of PyTorch 2.15.0 (`torch/profiler/profiler.py`) and Lightning 2.6.6,
//! described in `cases/README.md`.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use etlink_schedule::{
    Action, Arguments, InvalidArguments, Loop, Phase, PhaseSchedule, RecorderCall, Schedule,
    Transition,
};
use serde_json::Value;

fn cases(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a case per line"))
        .collect()
}

fn schedule(args: &Value) -> Result<Schedule, InvalidArguments> {
    let mut arguments = Arguments::default();
    for (name, value) in args.as_object().expect("arguments") {
        let argument = match &name[..] {
            "wait" => &mut arguments.wait,
            "warmup" => &mut arguments.warmup,
            "active" => &mut arguments.active,
            "repeat" => &mut arguments.repeat,
            "skip_first" => &mut arguments.skip_first,
            "skip_first_wait" => &mut arguments.skip_first_wait,
            other => panic!("argument {other}"),
        };
        *argument = value.as_i64().expect("a number");
    }
    Schedule::new(arguments)
}

fn letter(action: Action) -> char {
    match action {
        Action::None => 'N',
        Action::Warmup => 'W',
        Action::Record => 'R',
        Action::RecordAndSave => 'S',
    }
}

fn named(name: &Value) -> Action {
    let all = [
        Action::None,
        Action::Warmup,
        Action::Record,
        Action::RecordAndSave,
    ];
    all.into_iter()
        .find(|action| action.name() == name)
        .expect("an action")
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array()
        .expect("a list")
        .iter()
        .map(|text| text.as_str().expect("text").to_owned())
        .collect()
}

#[test]
fn schedules() {
    let cases = cases(include_str!("cases/schedule.jsonl"));
    let (mut rejected, mut warned) = (0, 0);
    for case in &cases {
        match schedule(&case["args"]) {
            Ok(schedule) => {
                let actions: String = (0..60).map(|step| letter(schedule.action(step))).collect();
                assert_eq!(case["actions"], actions, "{case}");
                let warnings: Vec<String> =
                    schedule.warning().iter().map(ToString::to_string).collect();
                assert_eq!(texts(&case["warnings"]), warnings, "{case}");
                warned += warnings.len();
            }
            Err(InvalidArguments(faults)) => {
                let message = case["error"].as_str().expect("PyTorch rejects it too");
                for fault in faults {
                    let part = format!("{}={} (need", fault.argument.name(), fault.got);
                    assert!(message.contains(&part), "{part} in {message}");
                }
                rejected += 1;
            }
        }
    }
    assert_eq!((cases.len(), rejected, warned), (200, 2, 64));
}

/// A profiler that logs its calls, driven by nothing but the transitions.
struct Profiler<'a> {
    case: &'a Value,
    action: Action,
    step: u64,
    calls: Vec<String>,
    warnings: Vec<String>,
}

impl Profiler<'_> {
    fn new(case: &Value) -> Profiler<'_> {
        let mut profiler = Profiler {
            case,
            action: Action::None,
            step: 0,
            calls: vec![],
            warnings: vec![],
        };
        profiler.action = profiler.scheduled();
        profiler
    }

    fn scheduled(&self) -> Action {
        match &self.case["schedule"] {
            Value::Null => Action::Record,
            Value::Array(actions) => named(
                actions
                    .get(self.step as usize)
                    .or(actions.last())
                    .expect("actions"),
            ),
            args => schedule(args).expect("valid").action(self.step),
        }
    }

    fn carry_out(&mut self, place: &str, transition: Transition) {
        self.warnings
            .extend(transition.warning.map(|warning| warning.to_string()));
        for call in transition.calls {
            let call = match call {
                RecorderCall::Prepare => "prepare".to_owned(),
                RecorderCall::Start => "start".to_owned(),
                RecorderCall::Stop => "stop".to_owned(),
                RecorderCall::Save if self.case["ready"] == false => continue,
                RecorderCall::Save => format!("save {}", self.step),
            };
            self.calls.push(format!("{place}: {call}"));
        }
    }

    fn step(&mut self) {
        let before = self.action;
        self.step += 1;
        self.action = self.scheduled();
        self.carry_out(
            &format!("step{}->{}", self.step - 1, self.step),
            before.then(self.action),
        );
    }

    fn run(&mut self) {
        let error = self.case["exc_at"].as_u64();
        let steps = error.or(self.case["steps"].as_u64()).expect("steps");
        self.carry_out("start", Action::None.then(self.action));
        (0..steps).for_each(|_| self.step());
        if self.case["end"] != "none" {
            self.carry_out(
                if error.is_some() { "exit-exc" } else { "end" },
                self.action.exit(),
            );
        }
        if self.case["restart"] == true {
            self.carry_out("restart", Action::None.then(self.action));
            self.carry_out("restop", self.action.exit());
        }
    }
}

#[test]
fn life_cycles() {
    let cases = cases(include_str!("cases/lifecycle.jsonl"));
    for case in &cases {
        let mut profiler = Profiler::new(case);
        profiler.run();
        // `cleanup` belongs to `with`, and the other warning to PyTorch's list of events; neither
        // is part of the schedule.
        let calls: Vec<String> = texts(&case["calls"])
            .into_iter()
            .filter(|call| !call.ends_with(": cleanup"))
            .collect();
        assert_eq!(calls, profiler.calls, "{case}");
        let warnings: Vec<String> = texts(&case["warnings"])
            .into_iter()
            .filter(|text| !text.contains("clears events"))
            .collect();
        assert_eq!(warnings, profiler.warnings, "{case}");
        assert_eq!(case["final_action"], profiler.action.name(), "{case}");
        assert_eq!(case["step_num"], profiler.step, "{case}");
    }
    assert_eq!(cases.len(), 30);
}

#[test]
fn phases() {
    let cases = cases(include_str!("cases/lightning.jsonl"));
    for case in &cases {
        let runs = if case["fit"] == true {
            Loop::Fit
        } else {
            Loop::Other
        };
        let mut phases = PhaseSchedule::new(schedule(&case["args"]).expect("valid"), runs);
        let (mut actions, mut steps_before) = (String::new(), vec![]);
        for step in case["steps"].as_str().expect("steps").chars() {
            let phase = match step {
                't' => Phase::Train,
                'v' => Phase::Validation,
                'e' => Phase::Test,
                'p' => Phase::Predict,
                other => panic!("phase {other}"),
            };
            steps_before.push(phases.steps(phase));
            actions.push(letter(phases.step(phase)));
        }
        assert_eq!(case["actions"], actions, "{case}");
        assert_eq!(case["steps_before"], Value::from(steps_before), "{case}");
    }
    assert_eq!(cases.len(), 122);
}
