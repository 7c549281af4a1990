//! Tests program order, stream order, boundaries, and sums.

use crate::support::{alone, anomalies, edges, thread};
use etlink_link::{EdgeKind, NodeKind};
use etlink_model::AnomalyKind;
use etlink_testing::{DeviceQueue, KinetoFlavour, TraceBuilder};

#[test]
fn a_thread_in_program_order() {
    // step ------------------------------------
    //   a -----------            b ----
    //      launch --
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "step", 0, 100_000);
    draw.op(main, "a", 10_000, 50_000);
    draw.op(main, "b", 60_000, 80_000);
    draw.launch(
        main,
        (20_000, 30_000),
        DeviceQueue::stream(7),
        "k",
        (40_000, 70_000),
    );
    let trace = alone(&draw);
    assert_eq!(
        thread(&trace),
        [
            "step 0-10",
            "a 10-20",
            "cudaLaunchKernel 20-30",
            "a 30-50",
            "step 50-60",
            "b 60-80",
            "step 80-100"
        ]
    );
    assert_eq!(edges(&trace, EdgeKind::ProgramOrder).len(), 6);
    assert_eq!(edges(&trace, EdgeKind::Launch), ["a -> k"]);
    assert_eq!(
        (
            trace.report.nodes[&NodeKind::HostGap],
            trace.report.nodes[&NodeKind::HostOp]
        ),
        (3, 3)
    );
}

#[test]
fn gaps_between_ops() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "a", 0, 10_000);
    draw.op(main, "b", 30_000, 40_000);
    assert_eq!(
        thread(&alone(&draw)),
        ["a 0-10", "host gap 10-30", "b 30-40"]
    );
}

#[test]
fn rows_of_a_stream_in_order() {
    // stream 7   a ===  b ===      c ===
    // stream 20     x ===
    let mut draw = TraceBuilder::default();
    for (stream, name, start, end) in [
        (7, "a", 0, 10_000),
        (7, "b", 10_000, 20_000),
        (20, "x", 5_000, 15_000),
        (7, "c", 50_000, 60_000),
    ] {
        draw.kernel(DeviceQueue::stream(stream), name, (start, end), None);
    }
    let trace = alone(&draw);
    assert_eq!(edges(&trace, EdgeKind::StreamOrder), ["a -> b", "b -> c"]);
    assert_eq!(anomalies(&trace), []);
}

#[test]
fn streams_of_other_devices_and_contexts_are_other_streams() {
    let mut draw = TraceBuilder::default();
    for (device, context, start) in [(0, 1, 0), (1, 1, 20_000), (0, 2, 40_000)] {
        draw.kernel(
            DeviceQueue {
                device,
                context,
                stream: 7,
            },
            "k",
            (start, start + 10_000),
            None,
        );
    }
    assert_eq!(edges(&alone(&draw), EdgeKind::StreamOrder), [""; 0]);
}

#[test]
fn rows_that_overlap_on_a_stream_have_no_order_between_them() {
    // a ==========
    //    b =============
    //                     c ====
    let mut draw = TraceBuilder::new(KinetoFlavour::Rocm);
    for (name, start, end) in [
        ("a", 0, 50_000),
        ("b", 20_000, 70_000),
        ("c", 80_000, 90_000),
    ] {
        draw.kernel(DeviceQueue::stream(0), name, (start, end), None);
    }
    let trace = alone(&draw);
    assert_eq!(
        edges(&trace, EdgeKind::StreamOrder),
        ["unexplained wait -> b", "a -> c", "b -> c"]
    );
    assert_eq!(anomalies(&trace), [(AnomalyKind::StreamOverlap, 1)]);
}

/// Draws two launches and their rows on one stream, in us.
fn two_launches(first: (i64, i64), second: (i64, i64), other_process: bool) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let us = |span: (i64, i64)| (span.0 * 1_000, span.1 * 1_000);
    let main = draw.thread();
    let thread = if other_process {
        draw.process(77).thread()
    } else {
        main
    };
    draw.launch(main, us((0, 2)), DeviceQueue::stream(7), "a", us(first));
    draw.launch(thread, us((3, 5)), DeviceQueue::stream(7), "b", us(second));
    draw
}

#[test]
fn a_launch_that_starts_before_its_predecessor_ends_follows_it_if_it_ends_later() {
    // a ==========
    //        b =========     programmatic dependent launch
    for (first, second, other_process, is_ordered) in [
        ((10, 60), (59, 80), false, true),
        ((10, 60), (40, 80), false, true),
        ((10, 60), (40, 60), false, true),
        ((10, 60), (40, 59), false, false),
        ((10, 60), (56, 80), true, true),
        ((10, 60), (55, 80), true, false),
        // the row launched later starts first: contradicts the order of the launches
        ((40, 80), (10, 60), false, false),
    ] {
        let trace = alone(&two_launches(first, second, other_process));
        let order = edges(&trace, EdgeKind::StreamOrder);
        let is_found = order.contains(&"a -> b".to_owned());
        assert_eq!(is_found, is_ordered, "{first:?} {second:?} {order:?}");
        let overlaps = trace.report.anomalies.count(AnomalyKind::StreamOverlap);
        assert_eq!(overlaps, u64::from(!is_ordered), "{first:?} {second:?}");
    }
}

#[test]
fn a_row_inside_a_long_one_follows_what_ended_before_both() {
    // a ==   long ==================
    //          b ==   c ==            d ==
    let mut draw = TraceBuilder::default();
    let rows = [
        ("a", 0, 10),
        ("long", 20, 100),
        ("b", 30, 40),
        ("c", 50, 60),
        ("d", 110, 120),
    ];
    for (name, start, end) in rows {
        draw.kernel(
            DeviceQueue::stream(7),
            name,
            (start * 1_000, end * 1_000),
            None,
        );
    }
    let trace = alone(&draw);
    assert_eq!(
        edges(&trace, EdgeKind::StreamOrder),
        ["a -> long", "a -> b", "b -> c", "long -> d", "c -> d"]
    );
    assert_eq!(anomalies(&trace), [(AnomalyKind::StreamOverlap, 2)]);
}

#[test]
fn rows_that_touch_within_rounding_are_in_order() {
    let mut draw = TraceBuilder::default();
    draw.kernel(DeviceQueue::stream(7), "a", (0, 10_900), None);
    draw.kernel(DeviceQueue::stream(7), "b", (10_000, 20_000), None);
    assert_eq!(edges(&alone(&draw), EdgeKind::StreamOrder), ["a -> b"]);
}

#[test]
fn ranges_that_overlap_without_nesting_are_counted() {
    // a ------
    //    b ------
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "a", 0, 50_000);
    draw.op(main, "b", 20_000, 90_000);
    let trace = alone(&draw);
    assert_eq!(thread(&trace), ["a 0-20", "b 20-90"]);
    assert_eq!(anomalies(&trace), [(AnomalyKind::PartialOverlap, 1)]);
}

#[test]
fn ops_of_no_length_have_a_node() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "a", 0, 10_000);
    draw.op(main, "empty", 5_000, 5_000);
    draw.op(main, "last", 10_000, 10_000);
    assert_eq!(
        thread(&alone(&draw)),
        ["a 0-5", "empty 5-5", "a 5-10", "last 10-10"]
    );
}

#[test]
fn whole_microseconds_nest_too() {
    // the 2021 format rounds both ends: the call appears to outlast its op
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda2021);
    let main = draw.thread();
    draw.op(main, "a", 1_900, 20_100);
    draw.launch(
        main,
        (15_000, 20_090),
        DeviceQueue::stream(7),
        "k",
        (30_000, 40_000),
    );
    let trace = alone(&draw);
    assert_eq!((trace.report.owned_by_op, anomalies(&trace)), (1, vec![]));
}
