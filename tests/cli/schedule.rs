//! `etlink schedule`: the action of each step, and likely mistakes.

use crate::tool::Tool;
use serde_json::json;

#[test]
fn stretches_of_steps_are_listed() {
    let ran = Tool::new()
        .run(
            "schedule --wait 1 --warmup 1 --active 2 --repeat 1 --skip-first 0 \
        --skip-first-wait 0 --steps 20",
        )
        .exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "  NONE             step 0",
            "  WARMUP           step 1",
            "  RECORD           step 2",
            "  RECORD_AND_SAVE  step 3",
            "  NONE             steps 4-19",
        ]
    );
    assert_eq!(ran.stderr, "");
}

#[test]
fn json_has_the_action_of_every_step() {
    let ran = Tool::new()
        .run(
            "schedule --wait 1 --warmup 1 --active 2 --skip-first 2 \
        --skip-first-wait -1 --steps 8 --json",
        )
        .exits(0);
    let actions = [
        "NONE",
        "NONE",
        "WARMUP",
        "RECORD",
        "RECORD_AND_SAVE",
        "NONE",
        "WARMUP",
        "RECORD",
    ];
    let document = json!({ "schema": "etlink.schedule", "version": 1, "actions": actions });
    assert_eq!(ran.json(), document);
    assert!(
        ran.stderr
            .starts_with("note: the program ends while recording"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_looks_unintended_is_a_note() {
    let tool = Tool::new();
    for (line, words) in [
        (
            "--wait 1 --warmup 0 --active 2 --repeat 1 --steps 3",
            "Profiler won't be using warmup",
        ),
        (
            "--wait 25 --warmup 1 --active 2 --steps 20",
            "none of these steps is recorded; the first would be step 26",
        ),
        (
            "--wait 1 --warmup 2 --active 2 --steps 7",
            "the program ends during warmup: the last cycle leaves no trace",
        ),
        (
            "--wait 1 --warmup 1 --active 5 --steps 4",
            "saved with fewer steps; it would be complete after 7 steps",
        ),
    ] {
        tool.run(&format!("schedule {line}")).exits(0).notes(words);
    }
}

#[test]
fn arguments_that_pytorch_rejects_are_named() {
    let tool = Tool::new();
    let words = [
        "etlink: invalid schedule",
        "wait is -1, needs to be at least 0",
        "active is 0, needs to be at least 1",
    ];
    let ran = tool
        .run("schedule --wait -1 --warmup 1 --active 0 --steps 4")
        .exits(2)
        .complains(&words);
    assert_eq!(ran.stdout, "");
    for (line, word) in [
        ("--wait 1 --warmup 1 --steps 4", "--active"),
        ("--wait 1 --warmup 1 --active 1 --steps 0", "--steps"),
    ] {
        let ran = tool.run(&format!("schedule {line}")).exits(2);
        assert!(ran.stderr.contains(word), "{}", ran.stderr);
    }
}

#[test]
fn any_number_of_steps_is_told_as_it_comes() {
    let tool = Tool::new();
    let most = u64::MAX;
    let ran = tool
        .run(&format!(
            "schedule --wait 0 --warmup 1 --active 1 --repeat 1 --steps {most}"
        ))
        .exits(0);
    assert_eq!(ran.stdout.lines().count(), 3);
    ran.says(&format!("NONE             steps 2-{}\n", most - 1));
    for form in ["", "--json"] {
        let ran = tool
            .shell(&format!(
                "$ETLINK schedule --wait 0 --warmup 1 --active 1 --steps {} {form} | head -n 3",
                most - 1
            ))
            .exits(0);
        assert_eq!((ran.stdout.lines().count(), ran.stderr.as_str()), (3, ""));
    }
}
