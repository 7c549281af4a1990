//! Tests that the traces restored from an ET+ give the same bytes when linked again.
#![cfg(test)]

use etlink_chakra::et::write_et;
use etlink_chakra::etplus::{RecordedTraces, RecordingError, recorded_traces, write_etplus};
use etlink_chakra::messages::LossKind;
use etlink_chakra::{WriteOptions, read};
use etlink_formats::host::HostReadOptions;
use etlink_formats::kineto::KinetoReadOptions;
use etlink_link::{EdgeKind, LinkOptions, LinkedTrace};
use etlink_testing::{HostSchema, Machine, random_program};
use serde_json::Value;

/// Draws and links a trace.
fn drawn(seed: u64, with_host: bool) -> LinkedTrace {
    let (program, options, change) = random_program(seed);
    let machine = Machine::run(&program, options, change);
    let options = KinetoReadOptions {
        shapes: !with_host,
        ..KinetoReadOptions::default()
    };
    let device =
        etlink_formats::kineto::read(&machine.trace.kineto()[..], options).expect("a device trace");
    let host = with_host.then(|| {
        // The layouts of PyTorch 2.1 and of today.
        let schema = [HostSchema::V1_0_1, HostSchema::V1_1_1][seed as usize % 2];
        let text = machine.trace.host(schema);
        let read = etlink_formats::host::read(&text[..], HostReadOptions::default());
        let mut host = read.expect("a host trace");
        host.tensors = Some(etlink_formats::host::tensor_uses(&host));
        host
    });
    etlink_link::link(host, device, LinkOptions::default()).expect("links")
}

fn merged_json(trace: &LinkedTrace) -> Vec<u8> {
    let mut bytes = vec![];
    let summary = write_etplus(trace, &mut bytes).expect("writes");
    assert_eq!(summary.bytes, bytes.len() as u64);
    bytes
}

fn graph(trace: &LinkedTrace) -> Vec<u8> {
    let mut bytes = vec![];
    write_et(trace, &WriteOptions::default(), &mut bytes).expect("writes");
    bytes
}

fn traces_of(json: &[u8]) -> Result<RecordedTraces, RecordingError> {
    let read = etlink_formats::host::read_linked(json, HostReadOptions::default());
    let (lines, behind) = read.expect("nodes");
    recorded_traces(lines, &read::read(json).expect("nodes"), &behind)
}

fn linked_again(json: &[u8]) -> (LinkedTrace, RecordedTraces) {
    let mut traces = traces_of(json).expect("its traces");
    let mut host = traces.host.take();
    if let Some(host) = &mut host {
        host.tensors = Some(etlink_formats::host::tensor_uses(host));
    }
    let options = traces.link_options();
    let device = std::mem::take(&mut traces.device);
    let trace = etlink_link::link(host, device, options).expect("links");
    (trace, traces)
}

#[test]
fn programs_with_launches_events_and_full_queues_come_back() {
    let mut kinds = vec![];
    for seed in 0..24 {
        for with_host in [true, false] {
            let trace = drawn(seed, with_host);
            let (again, traces) = linked_again(&merged_json(&trace));
            assert!(traces.losses.is_empty(), "seed {seed}");
            assert!(graph(&again) == graph(&trace), "seed {seed}, {with_host}");
            assert!(merged_json(&again) == merged_json(&trace), "seed {seed}");
            kinds.extend(trace.edges.iter().map(|edge| edge.kind));
        }
    }
    for kind in [EdgeKind::Launch, EdgeKind::EventWait, EdgeKind::HostWait] {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
}

/// Changes a document of merged JSON.
fn changed(json: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut document: Value = serde_json::from_slice(json).expect("JSON");
    change(&mut document);
    serde_json::to_vec(&document).expect("JSON")
}

#[test]
fn nodes_and_recording_have_to_be_of_one_file() {
    let json = merged_json(&drawn(1, true));
    let nodes = |document: &mut Value| document["nodes"].take();
    let error = |json: &[u8]| traces_of(json).expect_err("is refused").to_string();
    let without_a_node = changed(&json, |document| {
        let mut all = nodes(document);
        all.as_array_mut().expect("a list").remove(5);
        document["nodes"] = all;
    });
    assert!(error(&without_a_node).contains("ids do not count from 1"));
    let without_a_time = changed(&json, |document| {
        let nodes = document["nodes"].as_array_mut().expect("a list");
        let timed = nodes.iter_mut().find(|node| node.get("ts").is_some());
        timed
            .expect("a time")
            .as_object_mut()
            .expect("a node")
            .remove("ts");
    });
    assert!(error(&without_a_time).contains("has no time"));
    let newer = changed(&json, |document| {
        document["recording"]["version"] = 9.into()
    });
    assert_eq!(
        traces_of(&newer).expect_err("is refused"),
        RecordingError::UnknownVersion { version: 9 }
    );
    for (path, value) in [
        (
            "/recording/tables/calls/columns/start",
            Value::from(vec![1]),
        ),
        ("/recording/tables/calls/columns/thread/0", 7_000.into()),
        ("/recording/tables/calls/columns/name/0", 1_000_000.into()),
        (
            "/recording/tables/calls/columns/duration/0",
            i64::MAX.into(),
        ),
        ("/recording/tables/rows/columns/queue/0", (-1).into()),
        ("/recording/tables/rows/columns/node/0", 0.into()),
        ("/recording/tables/ops/rows", 1.into()),
        ("/recording/threads", Value::Null),
    ] {
        let damaged = changed(&json, |document| {
            *document.pointer_mut(path).expect(path) = value;
        });
        assert!(traces_of(&damaged).is_err(), "{path}");
    }
}

/// The time of a node counts, even if it is stored elsewhere too.
#[test]
fn what_is_changed_in_a_node_is_changed_in_the_graph() {
    let trace = drawn(1, true);
    let json = changed(&merged_json(&trace), |document| {
        let nodes = document["nodes"].as_array_mut().expect("a list");
        for node in nodes.iter_mut().filter(|node| node["cat"] == "kernel") {
            node["inclusive_dur"] = 0.5.into();
        }
    });
    let (again, _) = linked_again(&json);
    let rows = &again.device.rows;
    assert!(!rows.is_empty() && rows.duration.iter().all(|duration| duration.0 == 500));
}

/// Converts to the form of `chakra_trace_link`: ids from 0, no mark, no recording; device rows
/// without correlation and device.
fn as_of_trace_link(json: &[u8]) -> Vec<u8> {
    changed(json, |document| {
        let members = document.as_object_mut().expect("an object");
        members.remove("recording");
        members.remove("linked_by");
        for node in document["nodes"].as_array_mut().expect("a list") {
            for key in ["id", "ctrl_deps"] {
                node[key] = (node[key].as_u64().expect("an id") - 1).into();
            }
            let node = node.as_object_mut().expect("a node");
            node.remove("correlation");
            node.remove("device");
        }
    })
}

#[test]
fn nodes_alone_give_ops_rows_and_who_launched_them() {
    for seed in 0..12 {
        let trace = drawn(seed, true);
        let (again, traces) = linked_again(&as_of_trace_link(&merged_json(&trace)));
        let (was, is) = (&trace.device, &again.device);
        let timed = trace.op_host.iter().filter(|node| node.get().is_some());
        assert_eq!(is.ops.len(), timed.count(), "seed {seed}");
        assert_eq!(
            traces.losses.count(LossKind::Recording),
            (is.ops.len() + is.rows.len()) as u64
        );
        assert_eq!(
            (&is.rows.start, &is.rows.duration),
            (&was.rows.start, &was.rows.duration)
        );
        for row in 0..was.rows.len() {
            let op_name = |trace: &LinkedTrace| {
                let op = trace.row_op[row].get()?;
                Some(
                    trace
                        .device_name(trace.device.ops.name[op.index()])
                        .to_owned(),
                )
            };
            assert_eq!(op_name(&again), op_name(&trace), "seed {seed}, row {row}");
            assert!(
                again.row_call[row].get().is_some(),
                "seed {seed}, row {row}"
            );
        }
    }
    let plain = changed(
        &as_of_trace_link(&merged_json(&drawn(1, true))),
        |document| {
            for node in document["nodes"].as_array_mut().expect("a list") {
                node.as_object_mut().expect("a node").remove("ts");
            }
        },
    );
    assert_eq!(
        traces_of(&plain).expect_err("is refused"),
        RecordingError::NoTimes
    );
}
