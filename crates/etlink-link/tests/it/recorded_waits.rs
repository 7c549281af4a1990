//! Tests waits between threads, as `etlink record` writes them to the device trace.

use crate::support::{alone, delays, edges, thread};
use etlink_link::EdgeKind;
use etlink_testing::TraceBuilder;

/// Draws a wait of thread `tid`, in microseconds. In `after` and `frees`, 0 means none.
fn wait(draw: &mut TraceBuilder, tid: u32, span: (u32, u32), (after, frees): (u32, u32)) {
    let (start, duration) = (span.0, span.1 - span.0);
    draw.raw(&format!(
        r#"{{"ph": "X", "cat": "etlink_wait", "name": "queue", "pid": 1000, "tid": {tid},
            "ts": {start}, "dur": {duration}, "args": {{"after": {after}, "frees": {frees}}}}}"#
    ));
}

/// Numbers of the first two threads that a builder draws.
const MAIN: u32 = 1000;
const OTHER: u32 = 1001;

#[test]
fn a_get_follows_its_put_whether_it_had_to_wait_or_not() {
    let mut draw = TraceBuilder::default();
    let (main, producer) = (draw.thread(), draw.thread());
    draw.op(main, "use 0", 0, 20_000);
    draw.op(producer, "make 1", 0, 10_000);
    wait(&mut draw, OTHER, (10, 11), (0, 1));
    draw.op(producer, "make 2", 11_000, 50_000);
    wait(&mut draw, OTHER, (50, 50), (0, 2));
    wait(&mut draw, MAIN, (20, 21), (1, 0));
    draw.op(main, "use 1", 21_000, 30_000);
    wait(&mut draw, MAIN, (30, 55), (2, 0));
    draw.op(main, "use 2", 55_000, 60_000);
    let trace = alone(&draw);
    assert_eq!(
        thread(&trace),
        ["use 0 0-20", "use 1 21-30", "use 2 55-60"],
        "time in the calls is no work"
    );
    assert_eq!(
        edges(&trace, EdgeKind::Handoff),
        ["host gap -> use 1", "host gap -> use 2"]
    );
    assert!(trace.edges.iter().all(|edge| !edge.inferred));
}

#[test]
fn a_put_into_a_full_queue_waits_for_the_get_before_it_releases() {
    let mut draw = TraceBuilder::default();
    let (main, producer) = (draw.thread(), draw.thread());
    draw.op(main, "use", 0, 40_000);
    wait(&mut draw, MAIN, (40, 41), (0, 1));
    draw.op(producer, "make", 0, 10_000);
    wait(&mut draw, OTHER, (10, 42), (1, 2));
    draw.op(main, "use", 41_000, 50_000);
    wait(&mut draw, MAIN, (50, 51), (2, 0));
    draw.op(main, "end", 51_000, 60_000);
    let trace = alone(&draw);
    assert_eq!(
        edges(&trace, EdgeKind::Handoff),
        ["host gap -> host gap", "host gap -> end"]
    );
    let slices: Vec<String> = trace
        .nodes
        .indices()
        .map(|node| trace.nodes.get(node))
        .filter(|node| node.track.0 == 1)
        .map(|node| format!("{} {}+{}", trace.name(&node), node.start.0, node.duration.0))
        .collect();
    // the release is after the wait, or a later put would not delay the get
    assert_eq!(slices[1..], ["make 0+10000", "host gap 42000+0"]);
}

#[test]
fn a_thread_without_ops_works_between_its_waits() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "use 0", 0, 20_000);
    for (number, at) in [(1, 10), (2, 30), (3, 50)] {
        wait(&mut draw, OTHER, (at, at + 1), (0, number));
        wait(&mut draw, MAIN, (at + 10, at + 15), (number, 0));
        let begin = i64::from(at + 15) * 1000;
        draw.op(main, "use", begin, begin + 5_000);
    }
    let trace = alone(&draw);
    let other = trace.nodes.track.iter().filter(|track| track.0 == 1);
    assert!(
        other.count() >= 5,
        "three releases and two stretches of work"
    );
    assert_eq!(edges(&trace, EdgeKind::Handoff).len(), 3);
}

#[test]
fn a_started_thread_did_not_live_before() {
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    draw.op(main, "before", 0, 30_000);
    wait(&mut draw, MAIN, (30, 30), (0, 1));
    draw.op(main, "beside", 31_000, 50_000);
    wait(&mut draw, OTHER, (35, 35), (1, 0));
    draw.op(worker, "work", 36_000, 70_000);
    wait(&mut draw, OTHER, (70, 70), (0, 2));
    wait(&mut draw, MAIN, (50, 72), (2, 0));
    draw.op(main, "joined", 72_000, 90_000);
    let trace = alone(&draw);
    assert_eq!(
        delays(&trace),
        [""; 0],
        "the worker's boundary takes no time"
    );
    assert_eq!(
        edges(&trace, EdgeKind::Handoff),
        ["host gap -> boundary", "host gap -> joined"]
    );
}

#[test]
fn numbers_that_nothing_frees_and_waits_outside_of_the_window_make_no_edge() {
    let mut draw = TraceBuilder::default();
    let (main, other) = (draw.thread(), draw.thread());
    draw.op(main, "use", 10_000, 20_000);
    draw.op(other, "make", 10_000, 30_000);
    wait(&mut draw, OTHER, (0, 5), (0, 1));
    wait(&mut draw, MAIN, (20, 25), (1, 0));
    wait(&mut draw, MAIN, (20, 26), (7, 0));
    draw.op(main, "use", 26_000, 30_000);
    wait(&mut draw, OTHER, (30, 90), (0, 7));
    let trace = alone(&draw);
    assert_eq!(edges(&trace, EdgeKind::Handoff), [""; 0]);
    assert_eq!(
        trace
            .device
            .window()
            .map(|(begin, end)| end - begin)
            .map(|ns| ns.0),
        Some(20_000)
    );
}
