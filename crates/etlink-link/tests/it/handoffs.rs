//! Tests work that a thread hands to the autograd engine and waits for.

use crate::support::{alone, delays, edges, thread};
use etlink_link::ranks::{CommExtent, Communication, RankSummary};
use etlink_link::{EdgeKind, LinkedTrace, ThreadWork};
use etlink_model::{GlobalRank, NodeIdx, ThreadIdx, TimeNs};
use etlink_testing::{DeviceQueue, ParamComms, ThreadRef, TraceBuilder};

/// Draws a step: main runs a forward op, waits, and runs the optimizer; the worker runs two
/// backward ops from 30 to 70 us.
fn step(draw: &mut TraceBuilder, main: ThreadRef, worker: ThreadRef, number: i64, at: i64) {
    let forward = draw.op(main, "aten::mm", at, at + 20_000);
    draw.sequence(forward, number, 0);
    let backward = draw.op(worker, "MmBackward0", at + 30_000, at + 50_000);
    draw.sequence(backward, number, 1);
    draw.op(worker, "AccumulateGrad", at + 55_000, at + 70_000);
    draw.op(main, "optimizer", at + 80_000, at + 90_000);
}

fn inferred(trace: &LinkedTrace) -> Vec<bool> {
    trace
        .edges
        .iter()
        .filter(|edge| edge.kind == EdgeKind::Handoff)
        .map(|edge| edge.inferred)
        .collect()
}

#[test]
fn the_giver_waits_from_the_workers_first_op_to_its_last() {
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    step(&mut draw, main, worker, 7, 0);
    step(&mut draw, main, worker, 8, 100_000);
    let trace = alone(&draw);
    let gaps = thread(&trace);
    assert_eq!(
        gaps[..4],
        [
            "aten::mm 0-20",
            "optimizer 80-90",
            "host gap 90-100",
            "aten::mm 100-120"
        ]
    );
    // between the two steps, the worker only waits for work
    let want = [
        "aten::mm -> boundary",
        "AccumulateGrad -> optimizer",
        "aten::mm -> MmBackward0",
        "AccumulateGrad -> optimizer",
    ];
    assert_eq!(edges(&trace, EdgeKind::Handoff), want);
    assert_eq!(inferred(&trace), [false; 4]);
    assert_eq!(
        delays(&trace),
        [""; 0],
        "the worker's boundary takes no time"
    );
}

#[test]
fn a_thread_works_while_somebody_waits_for_it() {
    let mut draw = TraceBuilder::default();
    let (main, worker, pool) = (draw.thread(), draw.thread(), draw.thread());
    step(&mut draw, main, worker, 7, 0);
    step(&mut draw, main, worker, 8, 100_000);
    draw.op(pool, "collate", 10_000, 11_000);
    let trace = alone(&draw);
    let work = ThreadWork::of_trace(&trace);
    let [main, worker, pool] = [0, 1, 2].map(ThreadIdx);
    assert_eq!(
        [main, worker, pool].map(|thread| work.is_program(thread)),
        [true, false, false]
    );
    let is_awaited = |thread, at| work.is_awaited(thread, TimeNs(at));
    // between two ops of one backward pass; before the next pass, the worker has nothing to do
    assert!(is_awaited(worker, 52_000) && !is_awaited(worker, 75_000));
    assert!(!is_awaited(worker, 120_000) && is_awaited(worker, 152_000));
    assert!(is_awaited(main, 25_000) && !is_awaited(pool, 50_000));
}

#[test]
fn inside_an_annotation_its_own_time_is_cut() {
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    draw.annotation(main, "ProfilerStep#1", 0, 100_000);
    step(&mut draw, main, worker, 7, 0);
    let trace = alone(&draw);
    assert_eq!(
        edges(&trace, EdgeKind::Handoff),
        ["aten::mm -> boundary", "AccumulateGrad -> optimizer"]
    );
    assert_eq!(
        trace.op_exclusive[0].0, 10_000,
        "without the wait and waking"
    );
}

#[test]
fn a_launch_at_the_workers_first_instant_hangs_on_its_boundary() {
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    step(&mut draw, main, worker, 7, 0);
    draw.launch(
        worker,
        (30_000, 34_000),
        DeviceQueue::stream(7),
        "k",
        (40_000, 45_000),
    );
    let trace = alone(&draw);
    assert_eq!(edges(&trace, EdgeKind::Handoff).len(), 2);
    assert_eq!(trace.report.launched, 1);
}

#[test]
fn a_launch_right_after_the_wait_hangs_on_what_followed_it() {
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    step(&mut draw, main, worker, 7, 0);
    draw.launch(
        main,
        (70_000, 74_000),
        DeviceQueue::stream(7),
        "k",
        (78_000, 79_000),
    );
    let trace = alone(&draw);
    let launch = trace
        .edges
        .iter()
        .find(|edge| edge.kind == EdgeKind::Launch)
        .expect("launched");
    assert_eq!(trace.nodes.get(launch.from).start.0, 70_000);
    assert_eq!(
        edges(&trace, EdgeKind::Handoff),
        ["aten::mm -> boundary", "AccumulateGrad -> host gap"]
    );
}

#[test]
fn a_giver_that_works_meanwhile_does_not_wait() {
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    step(&mut draw, main, worker, 7, 0);
    draw.op(main, "aten::add", 40_000, 45_000);
    assert_eq!(edges(&alone(&draw), EdgeKind::Handoff), [""; 0]);
}

#[test]
fn without_numbers_the_engines_names_tell_where_one_thread_alone_has_a_gap() {
    for others in [0, 1] {
        let mut draw = TraceBuilder::default();
        let (main, worker) = (draw.thread(), draw.thread());
        draw.op(main, "aten::mm", 0, 20_000);
        draw.op(
            worker,
            "autograd::engine::evaluate_function: MmBackward0",
            30_000,
            70_000,
        );
        draw.op(main, "optimizer", 80_000, 90_000);
        for _ in 0..others {
            let other = draw.thread();
            draw.op(other, "a", 0, 1_000);
            draw.op(other, "b", 90_000, 95_000);
        }
        let trace = alone(&draw);
        assert_eq!(
            inferred(&trace),
            vec![true; if others == 0 { 2 } else { 0 }]
        );
    }
}

#[test]
fn each_process_counts_its_sequence_numbers_by_itself() {
    // two ranks in one file, in step with each other
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    draw.process(4321);
    let (other_main, other_worker) = (draw.thread(), draw.thread());
    step(&mut draw, main, worker, 7, 0);
    step(&mut draw, other_main, other_worker, 7, 0);
    let trace = alone(&draw);
    let pid = |node: NodeIdx| {
        let thread = trace.nodes.track[node.index()];
        trace.device.threads[thread.index()].pid
    };
    let handoffs: Vec<_> = trace
        .edges
        .iter()
        .filter(|edge| edge.kind == EdgeKind::Handoff)
        .collect();
    assert_eq!(handoffs.len(), 4);
    assert!(
        handoffs.iter().all(|edge| pid(edge.from) == pid(edge.to)),
        "{handoffs:?}"
    );
}

/// Draws an `allreduce` with this number, handed over by `main` at `at`.
fn all_reduce(draw: &mut TraceBuilder, main: ThreadRef, number: i64, at: i64) {
    draw.collective(
        main,
        &ParamComms::new("allreduce", 0..2, 0, number),
        at,
        at + 10_000,
    );
}

#[test]
fn gloo_runs_collectives_in_the_order_in_which_they_were_given() {
    // main    allreduce 1   allreduce 2        wait 1 ------|    wait 2
    // worker        gloo ===================================   gloo on another thread =====
    let mut draw = TraceBuilder::default();
    let (main, one, two) = (draw.thread(), draw.thread(), draw.thread());
    all_reduce(&mut draw, main, 1, 0);
    all_reduce(&mut draw, main, 2, 20_000);
    draw.annotation(one, "gloo:all_reduce", 5_000, 90_000);
    draw.annotation(two, "gloo:all_reduce", 35_000, 70_000);
    draw.collective(main, &ParamComms::new("wait", 0..2, 0, 1), 50_000, 95_000);
    draw.collective(main, &ParamComms::new("wait", 0..2, 0, 2), 100_000, 105_000);
    let trace = alone(&draw);
    let record = "record_param_comms";
    let want = [
        format!("{record} -> boundary"),
        format!("{record} -> boundary"),
        format!("gloo:all_reduce -> {record}"),
        format!("gloo:all_reduce -> {record}"),
    ];
    assert_eq!(edges(&trace, EdgeKind::Handoff), want);
    assert_eq!(
        thread(&trace)[..4],
        [
            "record_param_comms 0-5",
            "record_param_comms 5-10",
            "host gap 10-20",
            "record_param_comms 20-30"
        ]
    );
    assert_eq!(
        thread(&trace)[4..6],
        ["host gap 30-50", "record_param_comms 95-95"]
    );
}

/// Draws an `allreduce` of `elements` in a group of this name, handed over by `main` at `at`.
fn all_reduce_in(
    draw: &mut TraceBuilder,
    main: ThreadRef,
    (group, number): (&str, i64),
    elements: u64,
    at: i64,
) {
    let comms = ParamComms {
        group_name: group.to_owned(),
        in_elements: elements,
        out_elements: elements,
        ..ParamComms::new("allreduce", 0..2, 0, number)
    };
    draw.collective(main, &comms, at, at + 10_000);
}

/// Lists the collectives handed to workers, as elements of the record and length of the range in
/// us, sorted by elements.
fn carried_out(trace: &LinkedTrace) -> Vec<(u64, i64)> {
    let summary = RankSummary::from_trace(trace, GlobalRank(0));
    let length = |extent: &CommExtent| extent.end_ns.since(extent.start_ns) / 1_000;
    let one = |comm: &Communication| (comm.in_bytes / 4, length(&comm.extent));
    let mut all: Vec<_> = summary.communications.iter().map(one).collect();
    all.sort_unstable();
    all
}

/// Lists names, starts and lengths in us of the communications.
fn communications(trace: &LinkedTrace) -> Vec<String> {
    let nodes = trace.nodes.indices().map(|node| trace.nodes.get(node));
    let nodes = nodes.filter(|node| trace.is_communication(node));
    let described = nodes.map(|node| {
        let known = trace
            .collective(&node)
            .map_or("", |found| found.kind().name());
        let (start, length) = (node.start.0 / 1_000, node.duration.0 / 1_000);
        format!("{} {start}+{length} {known}", trace.name(&node))
    });
    described.collect()
}

#[test]
fn the_range_of_a_worker_is_the_communication() {
    // worker    aten::copy_ in the range: its longest slice is the transfer
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    all_reduce(&mut draw, main, 1, 0);
    draw.annotation(worker, "gloo:all_reduce", 5_000, 90_000);
    draw.op(worker, "aten::copy_", 10_000, 20_000);
    draw.collective(main, &ParamComms::new("wait", 0..2, 0, 1), 50_000, 95_000);
    let trace = alone(&draw);
    assert_eq!(communications(&trace), ["gloo:all_reduce 20+70 all_reduce"]);
    let summary = RankSummary::from_trace(&trace, GlobalRank(0));
    assert_eq!(
        (summary.communications.len(), summary.unrecorded_gloo),
        (1, 0)
    );
}

#[test]
fn without_records_the_ops_of_c10d_give_work_to_gloo() {
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    draw.op(main, "c10d::allreduce_", 0, 10_000);
    draw.annotation(worker, "gloo:all_reduce", 20_000, 90_000);
    draw.op(main, "aten::copy_", 95_000, 100_000);
    let trace = alone(&draw);
    assert_eq!(communications(&trace), ["gloo:all_reduce 20+70 "]);
    let handoffs = edges(&trace, EdgeKind::Handoff);
    assert_eq!(
        handoffs,
        [
            "c10d::allreduce_ -> boundary",
            "gloo:all_reduce -> aten::copy_"
        ]
    );
    let summary = RankSummary::from_trace(&trace, GlobalRank(0));
    assert_eq!((summary.unrecorded.len(), summary.unrecorded_gloo), (0, 1));
}

#[test]
fn groups_of_gloo_have_queues_of_their_own() {
    // main       A1  A2  B1  A3
    // worker A    == A1 100 us == | == A2 200 us ========= | == A3 300 us ======
    // worker B            B1 20 us
    for other_first in [false, true] {
        let mut draw = TraceBuilder::default();
        let (main, of_a, of_b) = (draw.thread(), draw.thread(), draw.thread());
        all_reduce_in(&mut draw, main, ("A", 1), 1_000_000, 0);
        all_reduce_in(&mut draw, main, ("A", 2), 2_000_000, 20_000);
        all_reduce_in(&mut draw, main, ("B", 1), 10, 40_000);
        all_reduce_in(&mut draw, main, ("A", 3), 3_000_000, 60_000);
        // if B's worker begins before A's, the sizes of A's queue alone do not identify the owner
        let first = if other_first { 60_000 } else { 5_000 };
        draw.annotation(of_a, "gloo:all_reduce", first, first + 100_000);
        draw.annotation(of_b, "gloo:all_reduce", 55_000, 75_000);
        draw.annotation(of_a, "gloo:all_reduce", 200_000, 400_000);
        draw.annotation(of_a, "gloo:all_reduce", 400_000, 700_000);
        let want = [
            (10, 20),
            (1_000_000, 100),
            (2_000_000, 200),
            (3_000_000, 300),
        ];
        assert_eq!(carried_out(&alone(&draw)), want);
    }
}

#[test]
fn who_rests_until_its_collective_has_ended_waits_for_it() {
    // main    allreduce 1    allreduce 2    - - - - - - - - copy     optimizer
    // worker        gloo ==================== | gloo =====|    gloo on another thread ====|
    for (next, waits) in [(190_000, true), (190_001, false)] {
        let mut draw = TraceBuilder::default();
        let (main, one, two) = (draw.thread(), draw.thread(), draw.thread());
        draw.annotation(main, "ProfilerStep#1", 0, 300_000);
        all_reduce(&mut draw, main, 1, 1_000);
        all_reduce(&mut draw, main, 2, 20_000);
        draw.annotation(one, "gloo:all_reduce", 5_000, 80_000);
        draw.annotation(two, "gloo:all_reduce", 35_000, 90_000);
        draw.op(main, "aten::copy_", next, 200_000);
        let trace = alone(&draw);
        let back: Vec<String> = edges(&trace, EdgeKind::Handoff)
            .into_iter()
            .filter(|edge| edge.starts_with("gloo"))
            .collect();
        assert_eq!(
            back,
            vec!["gloo:all_reduce -> ProfilerStep#1"; if waits { 2 } else { 0 }],
            "{next}"
        );
        let after = if waits {
            "ProfilerStep#1 100-190"
        } else {
            "ProfilerStep#1 30-190"
        };
        assert!(
            thread(&trace).contains(&after.to_owned()),
            "{:?}",
            thread(&trace)
        );
    }
}

#[test]
fn what_a_worker_begins_before_its_work_has_ended_is_no_part_of_that() {
    // whole microseconds: the range begins before the last op has ended, and outlasts the wait of
    // the thread that handed it over
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    step(&mut draw, main, worker, 7, 0);
    draw.annotation(worker, "range", 69_000, 100_000);
    assert_eq!(
        edges(&alone(&draw), EdgeKind::Handoff),
        ["aten::mm -> boundary", "AccumulateGrad -> optimizer"]
    );
}

#[test]
fn the_reducer_waits_at_the_end_of_the_backward_pass() {
    // main    forward   |= engine: allreduce =||= engine =|   copy
    // worker                     gloo =====       or gloo ====|     woken 5 ms later
    let cases = [
        (
            "DistributedDataParallel.forward",
            60,
            91,
            "ProfilerStep#1 90-91",
        ),
        (
            "DistributedDataParallel.forward",
            1_000,
            6_000,
            // waking takes 10 us, as after any other wait
            "ProfilerStep#1 1010-6000",
        ),
        ("Model.forward", 60, 91, "ProfilerStep#1 90-91"),
        ("Model.forward", 1_000, 6_000, "ProfilerStep#1 90-6000"),
    ];
    for (forward, end, next, after) in cases {
        let mut draw = TraceBuilder::default();
        let (main, worker) = (draw.thread(), draw.thread());
        draw.annotation(main, "ProfilerStep#1", 0, 9_000_000);
        draw.op(main, forward, 1_000, 10_000);
        let engine = "autograd::engine::evaluate_function: ";
        draw.op(main, &format!("{engine}AccumulateGrad"), 20_000, 40_000);
        all_reduce(&mut draw, main, 1, 25_000);
        draw.op(main, &format!("{engine}SlowBackward"), 40_000, 90_000);
        draw.annotation(worker, "gloo:all_reduce", 37_000, end * 1_000);
        draw.op(main, "aten::copy_", next * 1_000, 7_000_000);
        let trace = alone(&draw);
        let back = edges(&trace, EdgeKind::Handoff).into_iter();
        let back: Vec<String> = back.filter(|edge| edge.starts_with("gloo")).collect();
        let waits = forward.starts_with("Distributed");
        let want = vec!["gloo:all_reduce -> ProfilerStep#1"; usize::from(waits)];
        assert_eq!(back, want, "{forward}");
        assert!(
            thread(&trace).contains(&after.to_owned()),
            "{:?}",
            thread(&trace)
        );
        assert_eq!(delays(&trace), [""; 0]);
    }
}

/// A backward pass with DDP from 20 to 90 us, which hands each all-reduce to its own thread. The
/// other ops of `main` are copies of `reducer`, 5 us each from these times, and an optimizer's.
fn reduced_step(ranges: &[[i64; 2]], copies: &[i64], optimizer: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 9_000_000);
    draw.op(main, "DistributedDataParallel.forward", 1_000, 10_000);
    let engine = "autograd::engine::evaluate_function: ";
    draw.op(main, &format!("{engine}AccumulateGrad"), 20_000, 40_000);
    for (number, [start, end]) in (1..).zip(ranges) {
        all_reduce(&mut draw, main, number, 24_000 + number * 1_000);
        let worker = draw.thread();
        draw.annotation(worker, "gloo:all_reduce", start * 1_000, end * 1_000);
    }
    draw.op(main, &format!("{engine}SlowBackward"), 40_000, 90_000);
    for copy in copies {
        let reducer = "torch.distributed.ddp.reducer::copy_bucket_to_grad";
        draw.op(main, reducer, copy * 1_000, (copy + 5) * 1_000);
    }
    draw.op(main, "optimizer", optimizer * 1_000, 7_000_000);
    draw
}

/// Ends of the transfers, in us.
fn transfer_ends(trace: &LinkedTrace) -> Vec<i64> {
    let nodes = trace.nodes.indices().map(|node| trace.nodes.get(node));
    let transfers = nodes.filter(|node| trace.is_communication(node));
    let ends = transfers.map(|node| (node.start + node.duration).0 / 1_000);
    ends.collect()
}

#[test]
fn a_range_that_ends_after_the_reducer_has_gone_on_ended_late() {
    // Gloo completes the future before it ends its range: `AsyncWork::finishWorkGloo`.
    // main    |== engine: allreduce ==||= engine =| . . . . . copy  optimizer
    // worker             gloo ==========================|~~~~~~~|
    let late = |end| reduced_step(&[[37, end]], &[6_000], 6_100);
    for end in [6_003, 6_090, 6_500, 7_500] {
        let trace = alone(&late(end));
        assert_eq!(transfer_ends(&trace), [5_990], "{end}");
        let back = edges(&trace, EdgeKind::Handoff).into_iter();
        let back: Vec<String> = back.filter(|edge| edge.starts_with("gloo")).collect();
        let copy = "torch.distributed.ddp.reducer::copy_bucket_to_grad";
        assert_eq!(back, [format!("gloo:all_reduce -> {copy}")], "{end}");
        let of_main = thread(&trace);
        let slept = of_main.iter().any(|slice| slice.ends_with(" 90-6000"));
        assert!(!slept, "{end}: {of_main:?}");
    }
}

#[test]
fn the_transfer_of_a_late_range_is_its_part_before_the_reducer_goes_on() {
    // It takes 180 us, and its range ends a millisecond later.
    let trace = alone(&reduced_step(&[[70, 1_200]], &[250], 300));
    assert_eq!(transfer_ends(&trace), [240]);
}

#[test]
fn the_reducer_waits_for_one_bucket_after_the_other() {
    // main    engine =| . . . . . copy 1 . . . . . . copy 2   optimizer
    // workers  ==== 1 =======|~~~~|
    //          ==== 2 =====================|~~~~~|
    for [first, second] in [[990, 1_990], [1_001, 1_990], [1_003, 2_004], [1_500, 3_000]] {
        let draw = reduced_step(&[[37, first], [38, second]], &[1_000, 2_000], 2_050);
        let trace = alone(&draw);
        assert_eq!(transfer_ends(&trace), [990, 1_990], "{first} {second}");
        let of_main = thread(&trace);
        let rest = of_main
            .iter()
            .find(|slice| slice.starts_with("ProfilerStep#1 1005"));
        assert_eq!(rest, None, "{first} {second}: {of_main:?}");
    }
}
