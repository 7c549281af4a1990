//! Tests the device trace rebuilt from a drawn one.

use super::rebuilt_traces;
use crate::etplus::write_etplus;
use crate::tests::sample;
use etlink_formats::host::HostReadOptions;
use etlink_link::LinkedTrace;
use etlink_model::{Correlation, DeviceTrace, DurationNs, RowKind, TimeNs};
use serde_json::{Value, json};

fn document(trace: &LinkedTrace) -> Value {
    let mut bytes = vec![];
    write_etplus(trace, &mut bytes).expect("writes");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn device_of(document: &Value) -> DeviceTrace {
    let bytes = serde_json::to_vec(document).expect("JSON");
    let lines = etlink_formats::host::read(&bytes[..], HostReadOptions::default());
    let graph = crate::read::read(&bytes[..]).expect("nodes");
    let traces = rebuilt_traces(lines.expect("nodes"), &graph);
    traces.expect("its traces").1
}

/// Positions of nodes of [`sample`] in the file: an op, its kernel, and a copy without an owning
/// op.
const OP: usize = 3;
const KERNEL: usize = 4;
const COPY: usize = 9;

/// Rebuilds the device trace from the nodes of [`sample`], some of them changed.
fn rebuilt(changes: &[(usize, &str, Value)]) -> DeviceTrace {
    let mut document = document(&sample(true));
    for (node, key, value) in changes {
        document["nodes"][node][key] = value.clone();
    }
    device_of(&document)
}

/// Returns the launch time of the kernel of [`sample`]; `None` if it was not launched.
fn launch_of_kernel(changes: &[(usize, &str, Value)]) -> Option<TimeNs> {
    let device = rebuilt(changes);
    let rows = 0..device.rows.len();
    let mut kernels = rows.filter(|row| device.names.get(device.rows.name[*row]) == "gemm<float>");
    let correlation = device.rows.correlation[kernels.next().expect("the kernel")];
    assert_ne!(correlation, Correlation(0));
    let mut calls = (0..device.calls.len()).map(|call| device.calls.row(call));
    let call = calls.find(|call| call.correlation == correlation);
    call.map(|call| call.start)
}

/// The op runs from 2.5 µs to 22.5 µs.
#[test]
fn a_rebuilt_launch_is_in_its_op_and_not_behind_its_row() {
    for (changes, launch) in [
        (&[][..], Some(9_000)),
        (&[(KERNEL, "ts", json!(2.5))], Some(2_500)),
        (&[(KERNEL, "ts", json!(2.499))], None),
        (&[(KERNEL, "ts", json!(22.5))], Some(22_499)),
        (&[(OP, "inclusive_dur", json!(0))], Some(2_500)),
    ] {
        assert_eq!(launch_of_kernel(changes), launch.map(TimeNs), "{changes:?}");
    }
}

#[test]
fn a_rebuilt_row_can_take_no_time_and_no_less() {
    let shortest = |device: DeviceTrace| device.rows.duration.iter().min().copied();
    for (us, rows, least) in [(0.0, 3, 0), (-1.0, 2, 650)] {
        let device = rebuilt(&[(KERNEL, "inclusive_dur", json!(us))]);
        assert_eq!(device.rows.len(), rows, "{us}");
        assert_eq!(shortest(device), Some(DurationNs(least)), "{us}");
    }
}

#[test]
fn rebuilt_copies_and_memsets_are_known_by_their_names() {
    for (name, kind, category) in [
        ("Memcpy DtoD", RowKind::Memcpy, "gpu_memcpy"),
        ("Memset (Device)", RowKind::Memset, "gpu_memset"),
        ("fill", RowKind::Kernel, "kernel"),
    ] {
        let device = rebuilt(&[(COPY, "name", json!(name))]);
        let mut rows = (0..device.rows.len()).map(|row| device.rows.row(row));
        let row = rows.find(|row| device.names.get(row.name) == name);
        let row = row.expect(name);
        let known = (row.kind, device.names.get(row.category));
        assert_eq!(known, (kind, category), "{name}");
    }
}

/// A run without devices has only ops.
#[test]
fn ops_or_rows_alone_have_times() {
    for (is_row, ops, rows) in [(true, 3, 0), (false, 0, 3)] {
        let mut document = document(&sample(true));
        for node in document["nodes"].as_array_mut().expect("nodes") {
            let node = node.as_object_mut().expect("a node");
            if node.contains_key("cat") == is_row {
                node.remove("ts");
            }
        }
        let device = device_of(&document);
        assert_eq!((device.ops.len(), device.rows.len()), (ops, rows));
    }
}
