//! Tests what traces rebuilt from the nodes of an ET+ have in common with the original ones.
#![cfg(test)]

use etlink_chakra::etplus::{rebuilt_traces, write_etplus};
use etlink_chakra::read;
use etlink_formats::host::HostReadOptions;
use etlink_formats::kineto::KinetoReadOptions;
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{DeviceTrace, Failure, HostTrace};
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

fn traces_of(json: &[u8]) -> Result<(HostTrace, DeviceTrace), Failure> {
    let lines = etlink_formats::host::read(json, HostReadOptions::default());
    rebuilt_traces(lines.expect("nodes"), &read::read(json).expect("nodes"))
}

fn linked_again(json: &[u8]) -> LinkedTrace {
    let (host, device) = traces_of(json).expect("its traces");
    let options = LinkOptions {
        allow_mismatch: true,
        ..LinkOptions::default()
    };
    etlink_link::link(Some(host), device, options).expect("links")
}

/// Changes a document of merged JSON.
fn changed(json: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut document: Value = serde_json::from_slice(json).expect("JSON");
    change(&mut document);
    serde_json::to_vec(&document).expect("JSON")
}

/// Converts to the form of `chakra_trace_link`: ids from 0, no mark; device rows
/// without correlation and device.
fn as_of_trace_link(json: &[u8]) -> Vec<u8> {
    changed(json, |document| {
        let members = document.as_object_mut().expect("an object");
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
fn nodes_give_ops_rows_and_who_launched_them() {
    for seed in 0..12 {
        let trace = drawn(seed, true);
        let again = linked_again(&as_of_trace_link(&merged_json(&trace)));
        let (was, is) = (&trace.device, &again.device);
        let timed = trace.op_host.iter().filter(|node| node.get().is_some());
        assert_eq!(is.ops.len(), timed.count(), "seed {seed}");
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
    assert!(traces_of(&plain).is_err(), "no node has a time");
}
