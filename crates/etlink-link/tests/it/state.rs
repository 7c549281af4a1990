//! Tests that the columns take the memory that ARCHITECTURE.md states.

use etlink_link::{EdgeKind, LinkedTrace};
use etlink_model::{
    AuxiliaryEvents, CollectiveRecords, CpuOps, DeviceRows, EventDetails, HostNodes, MemoryRows,
    RuntimeCalls, SyncRows, ThreadWaits,
};

const ARCHITECTURE: &str = include_str!("../../../../ARCHITECTURE.md");

/// Bytes per entry.
fn entry<T>(_: &[T]) -> usize {
    size_of::<T>()
}

#[test]
fn the_documented_bytes_per_event_are_those_of_the_columns() {
    let LinkedTrace {
        op_host,
        op_rule,
        op_parent,
        op_exclusive,
        call_op,
        row_call,
        row_op,
        row_no_launch,
        nodes,
        ..
    } = LinkedTrace::default();
    let per_op = entry(&op_host) + entry(&op_rule) + entry(&op_parent) + entry(&op_exclusive);
    let per_row = entry(&row_call) + entry(&row_op) + entry(&row_no_launch);
    let node = [
        entry(&nodes.kind),
        entry(&nodes.source),
        entry(&nodes.first),
        entry(&nodes.on_device),
        entry(&nodes.track),
    ];
    let times = entry(&nodes.start) + entry(&nodes.duration);
    // start of its edges
    let first_edge = size_of::<u32>();
    for (what, read, linked) in [
        ("host node", HostNodes::ROW_BYTES, 0),
        ("CPU op, annotation", CpuOps::ROW_BYTES, per_op),
        ("runtime call", RuntimeCalls::ROW_BYTES, entry(&call_op)),
        ("device row", DeviceRows::ROW_BYTES, per_row),
        ("synchronisation row", SyncRows::ROW_BYTES, 0),
        ("wait of a thread", ThreadWaits::ROW_BYTES, 0),
        ("auxiliary event", AuxiliaryEvents::ROW_BYTES, 0),
        ("detail of an event", EventDetails::ROW_BYTES, 0),
        ("allocation or free", MemoryRows::ROW_BYTES, 0),
        ("collective", CollectiveRecords::ROW_BYTES, 0),
        (
            "graph node",
            0,
            node.iter().sum::<usize>() + times + first_edge,
        ),
        (
            "edge",
            0,
            size_of::<EdgeKind>() + size_of::<u32>() + size_of::<bool>(),
        ),
    ] {
        let row = format!("| {what} | {read} | {linked} |");
        assert!(
            ARCHITECTURE.contains(&row),
            "ARCHITECTURE.md is to say\n{row}"
        );
    }
}
