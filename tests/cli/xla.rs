//! Profiles of JAX: recorded ones, and one with a device.

use crate::tool::{Tool, pairs};
use std::path::PathBuf;

fn recorded(name: &str) -> PathBuf {
    pairs().join("../jax").join(name)
}

/// Puts both forms of a profile with three steps of two kernels into a folder.
fn put_profiles(tool: &Tool, folder: &str) {
    for name in ["worker.xplane.pb", "worker.trace.json.gz"] {
        let file = recorded("../recorders").join(name);
        let content = std::fs::read(file).expect("test data");
        tool.file(&format!("{folder}/{name}"), content);
    }
}

#[test]
fn both_recorded_forms_are_known_and_say_the_same() {
    let tool = Tool::new();
    for case in ["mlp-0.10.2", "sharded2-0.10.2"] {
        let facts = ["host.xplane.pb", "host.trace.json.gz"].map(|file| {
            let file = recorded(case).join(file);
            let ran = tool.run(&format!("inspect {} --json", file.display()));
            ran.exits(0).only_file()
        });
        let [space, json] = &facts;
        assert_eq!(space["kind"], "xla_space");
        assert_eq!(json["kind"], "xla_json");
        for key in ["window_ns", "cpu_ops", "device_rows", "events", "anomalies"] {
            assert_eq!(space[key], json[key], "{case}: {key}");
        }
        assert!(space["cpu_ops"].as_u64() > Some(100), "{space}");
        assert_eq!(space["anomalies"], serde_json::json!({}));
    }
}

#[test]
fn notes_say_what_helps_with_jax() {
    let tool = Tool::new();
    let file = recorded("mlp-0.10.2").join("host.xplane.pb");
    let alone = tool.run(&format!("link --device {}", file.display()));
    let alone = alone.exits(0).notes("no device rows and no runtime calls");
    assert!(
        !alone.stderr.contains("ProfilerActivity"),
        "{}",
        alone.shown()
    );
    tool.run(&format!(
        "link --host {{pairs}}/mlp-2.15.0/torch_et_0.json.gz --device {}",
        file.display()
    ))
    .exits(2)
    .complains(&[
        "different programs",
        "XLA's profiler does not record PyTorch ops",
    ]);
}

#[test]
fn times_at_the_ends_of_the_range_are_left_out() {
    let tool = Tool::new();
    let event = |start: &str| {
        format!(
            r#"{{"ph": "X", "pid": 3, "tid": 1, "name": "fusion", "ts": {start}, "dur": 1,
                "args": {{"hlo_op": "fusion"}}}}"#
        )
    };
    let events = ["-9200000000000000", "9200000000000000", "5", "7"].map(event);
    let names = [
        r#"{"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}}"#,
        r#"{"ph":"M","pid":3,"tid":1,"name":"thread_name","args":{"name":"XLA Ops"}}"#,
    ];
    let all = [names.join(","), events.join(",")].join(",");
    let head = r#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":["#;
    tool.file("ends.trace.json", format!("{head}{all}]}}"));
    let facts = tool
        .run("inspect ends.trace.json --json")
        .exits(0)
        .only_file();
    assert_eq!(facts["kind"], "xla_json");
    let anomalies = facts["anomalies"].as_object().expect("a table");
    let (label, count) = anomalies.iter().next().expect("one");
    assert!(label.contains("more than 146 years"), "{facts}");
    assert_eq!(*count, 2);
    tool.run("analyze ends.trace.json").exits(0);
}

#[test]
fn recorded_steps_and_hlo_ops_are_analyzed() {
    let tool = Tool::new();
    let file = recorded("mlp-0.10.2/host.xplane.pb");
    tool.run(&format!("analyze {} --all", file.display()))
        .exits(0)
        .says("3 steps")
        .says("train#2")
        .says("dot.1");
}

#[test]
fn a_folder_of_jax_is_merged_and_its_drawn_json_left_out() {
    let tool = Tool::new();
    put_profiles(&tool, "plugins/profile/2026_11_23");
    tool.run("merge plugins -o out")
        .exits(0)
        .notes("worker.trace.json.gz: generated from the .xplane.pb next to it")
        .says("6 of 6 device rows launched");
    let written = tool.files("out");
    let graph = written.keys().find(|name| name.ends_with(".et"));
    let graph = graph.unwrap_or_else(|| panic!("no graph among {:?}", written.keys()));
    tool.run(&format!("check out/{graph}")).exits(0);
}

#[test]
fn one_profile_is_linked_and_replayed() {
    let tool = Tool::new();
    put_profiles(&tool, "run");
    for file in ["worker.xplane.pb", "worker.trace.json.gz"] {
        tool.run(&format!("link --device run/{file} -o one.et --overwrite"))
            .exits(0)
            .says("6 launched");
        tool.run("check one.et").exits(0).says("ok");
        tool.run(&format!("analyze run/{file}"))
            .exits(0)
            .says("gemm_fusion_dot_1");
        tool.run(&format!("replay run/{file}"))
            .exits(0)
            .says("6 device ops");
    }
}

#[test]
fn damage_is_counted_and_refused_on_request() {
    let tool = Tool::new();
    put_profiles(&tool, "run");
    let whole = tool.read("run/worker.xplane.pb");
    tool.file("cut.xplane.pb", &whole[..whole.len() - 30]);
    let facts = tool
        .run("inspect cut.xplane.pb --json")
        .exits(0)
        .only_file();
    let anomalies = facts["anomalies"].as_object().expect("a table");
    assert_eq!(anomalies.len(), 1, "{facts}");
    assert_eq!(facts["device_rows"], 6);
    tool.run("inspect cut.xplane.pb --strict").exits(1);
    tool.file("begun.xplane.pb", &whole[..60]);
    tool.run("link --device begun.xplane.pb -o one.et")
        .exits(2)
        .complains(&["no timed events", "record it again"]);
    let mut claim = vec![0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
    claim.extend_from_slice(b"\x12\x09/host:CPU");
    tool.file("claim.xplane.pb", claim);
    tool.run("inspect claim.xplane.pb")
        .exits(2)
        .complains(&["claim.xplane.pb", "byte 0", "2 GiB"]);
}
