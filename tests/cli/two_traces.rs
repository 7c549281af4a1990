//! Pairs of traces that belong together, or do not.

use crate::tool::{Tool, unpacked};

fn replaced(name: &str, from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(unpacked(name)).expect("text");
    assert!(text.contains(from), "{from} is in {name}");
    text.replace(from, to).into_bytes()
}

/// Returns the pid in a recorded host trace.
fn pid(name: &str) -> String {
    let text = String::from_utf8(unpacked(name)).expect("text");
    let rest = text.split("\"pid\": ").nth(1).expect("has a pid");
    rest.split(',').next().expect("a number").trim().to_owned()
}

#[test]
fn two_programs_are_refused_unless_allowed() {
    let tool = Tool::new();
    let pair = "link --host {pairs}/transformer-2.3.1/torch_et_0.json.gz \
        --device {pairs}/conv-2.1.2/kineto_trace_0.json.gz -o out.et";
    tool.run(pair).exits(2).complains(&[
        "different programs",
        "ops match",
        "--allow-mismatch",
        "torch_et_0.json.gz",
        "kineto_trace_0.json.gz",
    ]);
    assert_eq!(tool.names(), [""; 0]);
    tool.run(&format!("{pair} --allow-mismatch")).exits(0);
}

#[test]
fn programs_that_share_many_names_are_refused_too() {
    let tool = Tool::new();
    let programs = ["mlp", "conv", "transformer", "inference"];
    for (host, device) in programs
        .iter()
        .flat_map(|host| programs.iter().map(move |device| (host, device)))
        .filter(|(host, device)| host != device)
    {
        let line = format!(
            "link --host {{pairs}}/{host}-2.15.0/torch_et_0.json.gz \
                --device {{pairs}}/{device}-2.15.0/kineto_trace_0.json.gz"
        );
        tool.run(&line).exits(2).complains(&["different programs"]);
    }
}

#[test]
fn two_runs_of_one_program_are_linked_and_said_first() {
    let tool = Tool::new();
    let pid = pid("mlp-2.15.0/torch_et_0.json.gz");
    tool.file(
        "host.json",
        replaced(
            "mlp-2.15.0/torch_et_0.json.gz",
            &format!("\"pid\": {pid},"),
            "\"pid\": 77,",
        ),
    );
    let line = "link --host host.json --device {pairs}/mlp-2.15.0/kineto_trace_0.json.gz -o out.et";
    let ran = tool.run(line).exits(0);
    assert!(
        ran.stderr
            .starts_with("note: the two traces are from two runs of one program (process 77"),
        "{}",
        ran.stdout
    );
    tool.run(&format!("{line} --overwrite --strict"))
        .exits(1)
        .complains(&["--strict"]);
}

#[test]
fn strict_writes_nothing_when_something_was_damaged() {
    let tool = Tool::new();
    let device = unpacked("mlp-2.15.0/kineto_trace_0.json.gz");
    tool.file("device.json", &device[..device.len() / 2]);
    tool.run("link --device device.json -o out.et --strict")
        .exits(1);
    assert_eq!(tool.names(), ["device.json"]);
    tool.run("link --device device.json -o out.et")
        .exits(0)
        .says("the file is truncated");
}

#[test]
fn other_steps_are_refused() {
    let tool = Tool::new();
    tool.file(
        "host.json",
        replaced(
            "mlp-2.15.0/torch_et_0.json.gz",
            "ProfilerStep#",
            "ProfilerStep#7",
        ),
    );
    tool.run("link --host host.json --device {pairs}/mlp-2.15.0/kineto_trace_0.json.gz -o out.et")
        .exits(2)
        .complains(&["same steps", "ProfilerStep#72", "ProfilerStep#2"]);
}

#[test]
fn ranks_that_differ_are_refused() {
    let tool = Tool::new();
    let line = "link --host {pairs}/ddp2-2.15.0/torch_et_0.json.gz \
        --device {pairs}/ddp2-2.15.0/kineto_trace_1.json.gz -o out.et";
    tool.run(line)
        .exits(2)
        .complains(&["rank 0", "rank 1", "--allow-mismatch"]);
    tool.run("link --device {pairs}/ddp2-2.15.0/kineto_trace_1.json.gz --rank 0 -o out.et")
        .exits(2)
        .complains(&["--rank 0", "rank 1"]);
}

#[test]
fn a_device_trace_without_observer_ids_says_that_matching_is_by_order() {
    let tool = Tool::new();
    let text = String::from_utf8(unpacked("mlp-2.15.0/kineto_trace_0.json.gz")).expect("text");
    let mut parts = text.split("\"Record function id\": ");
    let mut zeroed = parts.next().expect("some").to_owned();
    for part in parts {
        zeroed += "\"Record function id\": 0";
        zeroed += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    tool.file("device.json", zeroed);
    let ran = tool
        .run(
            "link --host {pairs}/mlp-2.15.0/torch_et_0.json.gz --device device.json -o \
        out.et --json",
        )
        .exits(0)
        .json();
    assert_eq!(ran["report"]["matched"]["order"], 396);
    assert!(
        ran["report"]["diagnostics"]
            .to_string()
            .contains("no execution trace observer was running")
    );
}
