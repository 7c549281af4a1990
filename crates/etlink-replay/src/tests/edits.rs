//! Runs with single nodes removed.

use super::{Drawing, starts};
use crate::{EdgeKind, EditableGraph, GraphEdits, ReplayKind};
use etlink_model::NodeIdx;

/// Draws a host that loads for 100 and launches, and a device with an earlier kernel of 30:
///
/// ```text
/// thread   loads ---------- calls -
/// stream   first ===               second ===    5 after its launch
/// ```
fn late_host() -> (Drawing, [NodeIdx; 4]) {
    let mut drawing = Drawing::default();
    let first = drawing.node("first", ReplayKind::Kernel, 1, Some(0), 30);
    let loads = drawing.node("loads", ReplayKind::HostOp, 0, Some(0), 100);
    let calls = drawing.node("calls", ReplayKind::Runtime, 0, Some(100), 10);
    let second = drawing.node("second", ReplayKind::Kernel, 1, Some(105), 50);
    drawing.edge(loads, EdgeKind::ProgramOrder, calls);
    drawing.edge(loads, EdgeKind::Launch, second);
    drawing.edge(first, EdgeKind::StreamOrder, second);
    (drawing, [first, loads, calls, second])
}

#[test]
fn without_edits_all_starts_as_measured() {
    let (drawing, _) = late_host();
    let graph = drawing.graph();
    let editable = EditableGraph::new(&graph);
    assert_eq!(
        starts(&editable.run_edited(&GraphEdits::default())),
        [0, 0, 100, 105]
    );
    assert_eq!(starts(editable.plain_run()), [0, 0, 100, 105]);
}

#[test]
fn another_cause_decides_with_its_own_latency() {
    let (drawing, [_, loads, ..]) = late_host();
    let graph = drawing.graph();
    let editable = EditableGraph::new(&graph);
    let edits = GraphEdits {
        removed: vec![loads],
        ..GraphEdits::default()
    };
    // No row follows another here, so stream order takes its usual latency, limited to less than
    // the measured 75 from the end of the first kernel: it did not decide.
    assert_eq!(starts(&editable.run_edited(&edits)), [0, 0, 0, 104]);
    let graph = faster_pair();
    let editable = EditableGraph::new(&graph);
    let edits = GraphEdits {
        removed: vec![NodeIdx(2)],
        ..GraphEdits::default()
    };
    // The third kernel follows the second by 2, as the second follows the first.
    assert_eq!(starts(&editable.run_edited(&edits))[4], 30 + 2 + 30 + 2);
}

/// Draws three kernels: the second follows the first by 2, the third waits for a late launch.
fn faster_pair() -> crate::ReplayGraph {
    let mut drawing = Drawing::default();
    let first = drawing.node("first", ReplayKind::Kernel, 1, Some(0), 30);
    let second = drawing.node("second", ReplayKind::Kernel, 1, Some(32), 30);
    let loads = drawing.node("loads", ReplayKind::HostOp, 0, Some(0), 100);
    let calls = drawing.node("calls", ReplayKind::Runtime, 0, Some(100), 10);
    let third = drawing.node("third", ReplayKind::Kernel, 1, Some(105), 50);
    drawing.edge(first, EdgeKind::StreamOrder, second);
    drawing.edge(loads, EdgeKind::ProgramOrder, calls);
    drawing.edge(loads, EdgeKind::Launch, third);
    drawing.edge(second, EdgeKind::StreamOrder, third);
    drawing.graph()
}

#[test]
fn freed_nodes_wait_for_nothing_of_that_kind() {
    let (drawing, [_, _, _, second]) = late_host();
    let graph = drawing.graph();
    let editable = EditableGraph::new(&graph);
    let edits = GraphEdits {
        freed: vec![(second, EdgeKind::StreamOrder)],
        scaled: vec![(NodeIdx(1), 0.5)],
        ..GraphEdits::default()
    };
    assert_eq!(starts(&editable.run_edited(&edits)), [0, 0, 50, 55]);
}

#[test]
fn parts_of_one_kernel_begin_at_once() {
    let graph = faster_pair();
    let editable = EditableGraph::new(&graph);
    let edits = GraphEdits {
        at_once: vec![NodeIdx(1)],
        ..GraphEdits::default()
    };
    assert_eq!(starts(&editable.run_edited(&edits))[1], 30);
}

#[test]
fn edits_of_one_rank_are_those_of_all_by_other_numbers() {
    let own = GraphEdits {
        removed: vec![NodeIdx(1)],
        at_once: vec![NodeIdx(2)],
        scaled: vec![(NodeIdx(3), 0.5)],
        errors: vec![(NodeIdx(3), 0.1)],
        freed: vec![(NodeIdx(4), EdgeKind::Launch)],
    };
    let mut all = GraphEdits::default();
    assert!(all.is_empty());
    all.extend_shifted(&own, NodeIdx(10));
    let shifted = GraphEdits {
        removed: vec![NodeIdx(11)],
        at_once: vec![NodeIdx(12)],
        scaled: vec![(NodeIdx(13), 0.5)],
        errors: vec![(NodeIdx(13), 0.1)],
        freed: vec![(NodeIdx(14), EdgeKind::Launch)],
    };
    assert_eq!(all, shifted);
}
