//! Tests written and read columns, and the traces restored from a drawn trace: complete, damaged,
//! or without its recording.

use super::column::{Coding, NumberList};
use super::{RecordedTraces, RecordingError, recorded_traces};
use crate::etplus::write_etplus;
use crate::tests::sample;
use etlink_host::HostReadOptions;
use etlink_link::LinkedTrace;
use etlink_model::{Correlation, DeviceTrace, DurationNs, RowIdx, RowKind, TimeNs};
use proptest::prelude::*;
use serde_json::{Value, json};

fn written(coding: Coding, numbers: &[i64]) -> String {
    let list = NumberList::new(coding, numbers.iter().copied());
    serde_json::to_string(&list).expect("text")
}

fn read(text: &str) -> NumberList {
    serde_json::from_str(text).expect("a list")
}

#[test]
fn runs_and_differences() {
    for (coding, numbers, text) in [
        (Coding::Plain, &[5, 5, 5, 7][..], "[5,5,5,7]"),
        (Coding::Plain, &[-1, -1, -1, -1, 0], "[[-1,4],0]"),
        (Coding::Delta, &[10, 11, 12, 13, 14], "[10,[1,4]]"),
        (Coding::Delta, &[7, 5], "[7,-2]"),
        (Coding::Plain, &[], "[]"),
    ] {
        assert_eq!(written(coding, numbers), text);
    }
    // A run bounds its memory: no file claims more rows than it has bytes for.
    assert_eq!(
        written(Coding::Plain, &[3; 600]),
        "[[3,255],[3,255],[3,90]]"
    );
    assert!(serde_json::from_str::<NumberList>("[[3,256]]").is_err());
}

#[test]
fn other_lengths_are_refused() {
    assert_eq!(
        read("[1,[2,4]]").numbers(Coding::Plain, 5),
        Some(vec![1, 2, 2, 2, 2])
    );
    for rows in [0, 4, 6] {
        assert_eq!(read("[1,[2,4]]").numbers(Coding::Plain, rows), None);
    }
    for text in ["[1.5]", "[\"1\"]", "[[1]]", "{}", "[18446744073709551615]"] {
        assert!(serde_json::from_str::<NumberList>(text).is_err(), "{text}");
    }
}

fn document(trace: &LinkedTrace) -> Value {
    let mut bytes = vec![];
    write_etplus(trace, &mut bytes).expect("writes");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn traces_of(document: &Value) -> Result<RecordedTraces, RecordingError> {
    let bytes = serde_json::to_vec(document).expect("JSON");
    let read = etlink_host::read_linked(&bytes[..], HostReadOptions::default());
    let (lines, behind) = read.expect("nodes");
    let graph = crate::read::read(&bytes[..]).expect("nodes");
    recorded_traces(lines, &graph, &behind)
}

/// The op's node in the file has the device trace's record of the communication.
#[test]
fn a_record_of_the_device_trace_does_not_become_one_of_the_host_trace() {
    let traces = traces_of(&document(&sample(true))).expect("its traces");
    assert_eq!(traces.device.collectives.len(), 1);
    let host = traces.host.expect("a host trace");
    assert_eq!(host.collectives.len(), 0);
    assert!(host.nodes.collective.iter().all(|row| *row == u32::MAX));
}

#[test]
fn numbers_end_with_what_they_number() {
    let mut trace = sample(true);
    let dependencies = &mut trace.device.graph_dependencies;
    dependencies.effect.push(RowIdx(2));
    dependencies.cause.push(RowIdx(0));
    let sound = document(&trace);
    let device = traces_of(&sound).expect("its traces").device;
    let no_row = "a number refers to a missing row";
    let (threads, queues) = (device.threads.len(), device.queues.len());
    let (names, records) = (device.names.count(), device.collectives.len());
    let rows = device.rows.len();
    for (column, numbers, what) in [
        ("ops/columns/thread", json!([threads, 0, 0]), no_row),
        ("rows/columns/queue", json!([queues, 0, 0]), no_row),
        ("calls/columns/name", json!([names, 0]), no_row),
        ("ops/columns/collective", json!([records, 0, 0]), no_row),
        ("graph_dependencies/columns/effect", json!([rows]), no_row),
        ("graph_dependencies/columns/cause", json!([rows]), no_row),
        ("rows/columns/node", json!([11, 0, 0]), "node 11 is missing"),
        (
            "host/columns/node",
            json!([1, 1, 0, 2, 2, 1]),
            "two nodes of the host trace are the same node of the file",
        ),
        (
            "host/columns/id",
            json!([1, 1, 8, 0, 4, 6]),
            "ids of the host trace do not ascend",
        ),
    ] {
        let mut damaged = sound.clone();
        let place = damaged.pointer_mut(&format!("/recording/tables/{column}"));
        *place.expect(column) = numbers;
        let error = traces_of(&damaged).expect_err(column).to_string();
        assert!(error.contains(what), "{column}: {error}");
    }
}

/// Positions of nodes of [`sample`] in the file: an op, its kernel, and a copy without an owning
/// op.
const OP: usize = 3;
const KERNEL: usize = 4;
const COPY: usize = 9;

/// Rebuilds the device trace from the nodes of [`sample`], some of them changed.
fn rebuilt(changes: &[(usize, &str, Value)]) -> DeviceTrace {
    let mut document = document(&sample(true));
    document
        .as_object_mut()
        .expect("members")
        .remove("recording");
    for (node, key, value) in changes {
        document["nodes"][node][key] = value.clone();
    }
    traces_of(&document).expect("its traces").device
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
        document
            .as_object_mut()
            .expect("members")
            .remove("recording");
        for node in document["nodes"].as_array_mut().expect("nodes") {
            let node = node.as_object_mut().expect("a node");
            if node.contains_key("cat") == is_row {
                node.remove("ts");
            }
        }
        let device = traces_of(&document).expect("its traces").device;
        assert_eq!((device.ops.len(), device.rows.len()), (ops, rows));
    }
}

proptest! {
    #[test]
    fn numbers_come_back(
        numbers in prop::collection::vec(
            prop_oneof![Just(0i64), Just(1), Just(i64::MIN), any::<i64>()],
            0..40,
        ),
    ) {
        for coding in [Coding::Plain, Coding::Delta] {
            let list = read(&written(coding, &numbers));
            prop_assert_eq!(list.numbers(coding, numbers.len()), Some(numbers.clone()));
        }
    }
}

#[test]
fn times_that_readers_of_recordings_keep_are_read_back() {
    use super::column::in_time;
    let last = (1 << 62) - 1;
    assert_eq!([in_time(last), in_time(-last)], [Some(last), Some(-last)]);
    assert_eq!(in_time(last + 1), None);
}
