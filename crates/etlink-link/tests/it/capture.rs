//! Tests kernels of graph launches with the ops of a capture-time trace.
//!
//! ```text
//! capture  Begin [aten::addmm: gemm] [aten::relu: relu] … End   calls only, nothing runs
//! replay   GraphLaunch        stream 7   gemm == relu = …       rows only, no ops
//! ```

use crate::support::{alone, checked, device};
use etlink_link::{CaptureReport, EdgeKind, Error, LinkedTrace, NodeKind};
use etlink_model::{NodeIdx, RowIdx};
use etlink_testing::{DeviceQueue, GraphKernel, KinetoFlavour, ThreadRef, TraceBuilder};
use proptest::prelude::*;

const STREAM: DeviceQueue = DeviceQueue {
    device: 0,
    context: 0,
    stream: 7,
};

/// Draws an op of 8 us that launches `kernel` during capture.
fn captured_op(
    draw: &mut TraceBuilder,
    thread: ThreadRef,
    at: i64,
    op: &str,
    batch: i64,
    kernel: &str,
) {
    let op = draw.op(thread, op, at, at + 8_000);
    draw.arg(op, "Input Dims", &format!("[[{batch}, 64]]"));
    draw.arg(op, "Input type", "[\"float\"]");
    draw.captured(thread, (at + 2_000, at + 4_000), kernel);
}

/// Draws a capture of `(op, kernel)` pairs, 10 us each, starting at `at`.
fn capture(draw: &mut TraceBuilder, thread: ThreadRef, at: i64, batch: i64, ops: &[(&str, &str)]) {
    let end = at + 10_000 * (ops.len() as i64 + 2);
    draw.annotation(thread, &format!("capture of {batch}"), at, end);
    draw.capture(thread, at + 1_000, end - 1_000);
    for (&(op, kernel), slot) in ops.iter().zip(1..) {
        captured_op(draw, thread, at + 10_000 * slot, op, batch, kernel);
    }
}

fn layers(count: usize, last: (&'static str, &'static str)) -> Vec<(&'static str, &'static str)> {
    let layer = [
        ("aten::addmm", "gemm"),
        ("aten::relu", "relu"),
        ("aten::add", "add"),
    ];
    let mut ops = layer.repeat(count);
    ops.push(last);
    ops
}

const SOFTMAX: (&str, &str) = ("aten::softmax", "softmax");
const ARGMAX: (&str, &str) = ("aten::argmax", "argmax");

/// Draws a graph launch at `at`, whose kernels run in sequence, 1 us each.
fn replay(draw: &mut TraceBuilder, thread: ThreadRef, at: i64, kernels: &[&str]) {
    let kernels: Vec<GraphKernel<'_>> = kernels
        .iter()
        .zip(0..)
        .map(|(name, slot)| {
            (
                STREAM,
                *name,
                at + 10_000 + 2_000 * slot,
                at + 11_000 + 2_000 * slot,
            )
        })
        .collect();
    draw.graph_launch_of(thread, (at, at + 5_000), &kernels);
}

fn kernels<'a>(ops: &[(&str, &'a str)]) -> Vec<&'a str> {
    ops.iter().map(|(_, kernel)| *kernel).collect()
}

fn rocm() -> (TraceBuilder, ThreadRef) {
    let mut draw = TraceBuilder::new(KinetoFlavour::Rocm);
    let main = draw.thread();
    (draw, main)
}

fn carried(of_replay: &TraceBuilder, of_capture: &TraceBuilder) -> Result<LinkedTrace, Error> {
    carried_of(of_replay, &[of_capture])
}

fn carried_of(
    of_replay: &TraceBuilder,
    of_captures: &[&TraceBuilder],
) -> Result<LinkedTrace, Error> {
    let mut captures = etlink_link::GraphCaptures::default();
    for of_capture in of_captures {
        captures.add(&device(of_capture))?;
    }
    let mut trace = alone(of_replay);
    etlink_link::carry_captured_ops(&mut trace, captures);
    Ok(checked(trace))
}

/// Lists every device row as `kernel op shapes scope`, in order of time.
fn rows(trace: &LinkedTrace) -> Vec<String> {
    let row = |row: usize| {
        let name = trace.device_name(trace.device.rows.name[row]);
        match trace
            .captured
            .as_ref()
            .and_then(|captured| captured.of(RowIdx::new(row)))
        {
            Some(op) => format!("{name} {} {} {} {}", op.name, op.shapes, op.types, op.scope),
            None => format!("{name} -"),
        }
    };
    (0..trace.device.rows.len()).map(row).collect()
}

fn want(batch: i64, ops: &[(&str, &str)]) -> Vec<String> {
    ops.iter()
        .map(|(op, kernel)| format!("{kernel} {op} [[{batch}, 64]] [\"float\"] capture of {batch}"))
        .collect()
}

fn report(trace: &LinkedTrace) -> CaptureReport {
    trace.report.capture.expect("a capture trace was given")
}

#[test]
fn several_graphs_replayed_in_another_order() {
    let (small, large) = (layers(2, SOFTMAX), layers(3, ARGMAX));
    let (mut of_capture, main) = rocm();
    capture(&mut of_capture, main, 0, 8, &small);
    capture(&mut of_capture, main, 500_000, 16, &large);
    let (mut of_replay, main) = rocm();
    for (at, ops) in [(0, &large), (100_000, &small), (200_000, &large)] {
        replay(&mut of_replay, main, at, &kernels(ops));
    }
    of_replay.launch(main, (300_000, 302_000), STREAM, "gemm", (310_000, 311_000));
    let trace = carried(&of_replay, &of_capture).expect("carries");
    let mut expected = [want(16, &large), want(8, &small), want(16, &large)].concat();
    expected.push("gemm -".into());
    assert_eq!(rows(&trace), expected);
    assert_eq!(
        report(&trace),
        CaptureReport {
            captures: 2,
            launches: 17,
            complete: 3,
            carried: 27,
            ..CaptureReport::default()
        }
    );
    assert_eq!(
        (trace.report.graph_launches, trace.report.graph_rows),
        (3, 27)
    );
}

/// SGLang and vLLM write a trace per batch size.
#[test]
fn captures_in_several_traces_are_those_of_one() {
    let (small, large) = (layers(2, SOFTMAX), layers(3, ARGMAX));
    let [of_small, of_large, of_other] =
        [(8, &small), (16, &large), (32, &large)].map(|(batch, ops)| {
            let (mut drawn, main) = rocm();
            capture(&mut drawn, main, 0, batch, ops);
            drawn
        });
    let (mut of_replay, main) = rocm();
    replay(&mut of_replay, main, 0, &kernels(&large));
    replay(&mut of_replay, main, 100_000, &kernels(&small));
    let trace = carried_of(&of_replay, &[&of_small, &of_large]).expect("carries");
    assert_eq!(rows(&trace), [want(16, &large), want(8, &small)].concat());
    assert_eq!(report(&trace).captures, 2);
    // two traces that describe the same kernels differently: none of the two is right
    let trace = carried_of(&of_replay, &[&of_small, &of_large, &of_other]).expect("carries");
    let ambiguous = kernels(&large).len() as u64;
    assert_eq!(report(&trace).ambiguous, ambiguous);
    assert!(rows(&trace)[0].ends_with(" -"));
}

#[test]
fn a_kernel_that_the_replay_lacks() {
    // of ten: the missing one shifts none of the others
    let ops = layers(3, SOFTMAX);
    let (mut of_capture, main) = rocm();
    capture(&mut of_capture, main, 0, 8, &ops);
    let (mut of_replay, main) = rocm();
    let mut fewer = ops.clone();
    fewer.remove(4);
    replay(&mut of_replay, main, 0, &kernels(&fewer));
    let trace = carried(&of_replay, &of_capture).expect("carries");
    assert_eq!(rows(&trace), want(8, &fewer));
    assert_eq!(
        report(&trace),
        CaptureReport {
            captures: 1,
            launches: 10,
            partial: 1,
            carried: 9,
            ..CaptureReport::default()
        }
    );
}

#[test]
fn equal_neighbours_of_a_missing_kernel_stay_open() {
    let mut ops = layers(3, SOFTMAX);
    ops[4] = ("aten::mul", "gemm");
    let (mut of_capture, main) = rocm();
    capture(&mut of_capture, main, 0, 8, &ops);
    let (mut of_replay, main) = rocm();
    // the first or the second of two kernels named gemm is missing
    let mut fewer = kernels(&ops);
    fewer.remove(4);
    replay(&mut of_replay, main, 0, &fewer);
    let trace = carried(&of_replay, &of_capture).expect("carries");
    let mut expected = want(8, &ops);
    expected.remove(4);
    expected[3] = "gemm -".into();
    assert_eq!(rows(&trace), expected);
    assert_eq!((report(&trace).carried, report(&trace).ambiguous), (8, 1));
}

#[test]
fn graphs_of_the_same_kernels_are_not_guessed() {
    let (mut of_capture, main) = rocm();
    for (at, batch) in [(0, 8), (500_000, 16)] {
        capture(&mut of_capture, main, at, batch, &layers(3, SOFTMAX));
    }
    let (mut of_replay, main) = rocm();
    replay(&mut of_replay, main, 0, &kernels(&layers(3, SOFTMAX)));
    let trace = carried(&of_replay, &of_capture).expect("carries");
    assert!(
        rows(&trace).iter().all(|row| row.ends_with(" -")),
        "{:?}",
        rows(&trace)
    );
    assert_eq!(
        report(&trace),
        CaptureReport {
            captures: 2,
            launches: 20,
            complete: 1,
            ambiguous: 10,
            ..CaptureReport::default()
        }
    );

    // two captures with equal descriptions leave no choice
    let (mut of_capture, main) = rocm();
    for at in [0, 500_000] {
        capture(&mut of_capture, main, at, 8, &layers(3, SOFTMAX));
    }
    assert_eq!(
        report(&carried(&of_replay, &of_capture).expect("carries")).carried,
        10
    );
}

#[test]
fn what_runs_while_a_capture_is_open_is_not_captured() {
    // an op of another thread launches a kernel that runs; autograd's thread launches a captured
    // one
    let ops = [("aten::addmm", "gemm"), ("aten::relu", "relu")];
    let (mut of_capture, main) = rocm();
    capture(&mut of_capture, main, 0, 8, &ops);
    let other = of_capture.thread();
    of_capture.op(other, "loader", 10_000, 18_000);
    of_capture.launch(
        other,
        (12_000, 13_000),
        DeviceQueue::stream(9),
        "gemm",
        (20_000, 21_000),
    );
    captured_op(&mut of_capture, other, 25_000, "AddmmBackward0", 4, "gemm");
    let (mut of_replay, main) = rocm();
    replay(&mut of_replay, main, 0, &["gemm", "relu", "gemm"]);
    let trace = carried(&of_replay, &of_capture).expect("carries");
    let mut expected = want(8, &ops);
    expected.push("gemm AddmmBackward0 [[4, 64]] [\"float\"] ".into());
    assert_eq!(rows(&trace), expected);
}

#[test]
fn streams_of_a_launch_run_side_by_side() {
    let ops = [
        ("aten::addmm", "gemm"),
        ("aten::relu", "relu"),
        ("aten::conv2d", "conv"),
        ("aten::tanh", "tanh"),
        ("aten::cat", "cat"),
    ];
    let (mut of_capture, main) = rocm();
    capture(&mut of_capture, main, 0, 8, &ops);
    let (mut of_replay, main) = rocm();
    // captured in sequence, run in parallel: conv and tanh next to gemm and relu
    let side = DeviceQueue {
        stream: 9,
        ..STREAM
    };
    let rows_of_launch = [
        (STREAM, "gemm", 10_000, 14_000),
        (side, "conv", 11_000, 12_000),
        (side, "tanh", 13_000, 15_000),
        (STREAM, "relu", 14_000, 16_000),
        (STREAM, "cat", 17_000, 18_000),
    ];
    of_replay.graph_launch_of(main, (0, 5_000), &rows_of_launch);
    let trace = carried(&of_replay, &of_capture).expect("carries");
    let expected = want(8, &[ops[0], ops[2], ops[3], ops[1], ops[4]]);
    assert_eq!(rows(&trace), expected);
    assert_eq!((report(&trace).complete, report(&trace).carried), (1, 5));
}

#[test]
fn graph_node_ids_order_the_rows_of_a_launch() {
    // one name on two streams: only the nodes' numbers distinguish them
    let ops = [
        ("aten::relu", "elementwise"),
        ("aten::tanh", "elementwise"),
        ("aten::cat", "cat"),
    ];
    let (mut of_capture, main) = rocm();
    capture(&mut of_capture, main, 0, 8, &ops);
    let side = DeviceQueue::stream(9);
    let launch = |flavour| {
        let mut draw = TraceBuilder::new(flavour);
        let main = draw.thread();
        let kernels = [
            (DeviceQueue::stream(7), "elementwise", 14_000, 15_000),
            (side, "elementwise", 10_000, 11_000),
            (DeviceQueue::stream(7), "cat", 17_000, 18_000),
        ];
        draw.graph_launch_of(main, (0, 5_000), &kernels);
        draw
    };
    let with_nodes = carried(&launch(KinetoFlavour::Cuda), &of_capture).expect("carries");
    assert_eq!(rows(&with_nodes), want(8, &[ops[1], ops[0], ops[2]]));
    let without = carried(&launch(KinetoFlavour::Rocm), &of_capture).expect("carries");
    assert_eq!(
        (report(&without).carried, report(&without).ambiguous),
        (1, 2)
    );
}

#[test]
fn copies_and_memsets_are_known_by_what_they_do() {
    let (mut of_capture, main) = rocm();
    of_capture.capture(main, 1_000, 50_000);
    for (at, op, call) in [
        (10_000, "aten::copy_", "hipMemcpyAsync"),
        (20_000, "aten::zero_", "hipMemsetAsync"),
    ] {
        of_capture.op(main, op, at, at + 8_000);
        let id = of_capture.next_correlation();
        of_capture.call(main, call, (at + 1_000, at + 2_000), id);
    }
    captured_op(&mut of_capture, main, 30_000, "aten::relu", 8, "relu");
    of_capture.captured(main, (40_000, 41_000), "of no op");
    let (mut of_replay, main) = rocm();
    replay(
        &mut of_replay,
        main,
        0,
        &[
            "__amd_rocclr_copyBuffer",
            "__amd_rocclr_fillBufferAligned",
            "relu",
            "of no op",
        ],
    );
    let trace = carried(&of_replay, &of_capture).expect("carries");
    let found = rows(&trace);
    assert!(
        found[0].contains("aten::copy_")
            && found[1].contains("aten::zero_")
            && found[2].contains("aten::relu"),
        "{found:?}"
    );
    assert_eq!((report(&trace).carried, report(&trace).without_op), (3, 1));
}

#[test]
fn graphs_that_were_not_captured_are_said() {
    let (mut of_capture, main) = rocm();
    capture(&mut of_capture, main, 0, 8, &layers(3, SOFTMAX));
    let (mut of_replay, main) = rocm();
    replay(&mut of_replay, main, 0, &["other", "kernels"]);
    let trace = carried(&of_replay, &of_capture).expect("carries nothing");
    assert_eq!(
        report(&trace),
        CaptureReport {
            captures: 1,
            launches: 10,
            unknown: 1,
            not_found: 2,
            ..CaptureReport::default()
        }
    );
    assert!(
        trace
            .report
            .diagnostics
            .iter()
            .any(|one| one.message.contains("none of the 1 graph launches")),
        "{:?}",
        trace.report.diagnostics
    );
}

#[test]
fn traces_without_a_capture_that_could_be_used() {
    let (mut of_replay, main) = rocm();
    replay(&mut of_replay, main, 0, &["gemm"]);
    let refused = |of_capture: &TraceBuilder| carried(&of_replay, of_capture).expect_err("refused");

    let error = refused(&of_replay);
    assert!(
        matches!(
            error,
            Error::NoCapture {
                calls: 1,
                replays: 1
            }
        ),
        "{error}"
    );

    let (mut cut, main) = rocm();
    cut.begin_capture(main, 5_000);
    captured_op(&mut cut, main, 10_000, "aten::relu", 8, "relu");
    let error = refused(&cut);
    assert!(
        matches!(
            &error,
            Error::CutCapture { captures: 1, first }
                if first == "hipStreamBeginCapture at 5000 ns"
        ),
        "{error}"
    );

    let (mut empty, main) = rocm();
    empty.capture(main, 5_000, 9_000);
    assert!(matches!(refused(&empty), Error::EmptyCapture { .. }));

    let mut cuda = TraceBuilder::default();
    let main = cuda.thread();
    capture(&mut cuda, main, 0, 8, &layers(1, SOFTMAX));
    let error = refused(&cuda);
    assert!(
        matches!(
            &error,
            Error::UnnamedCapture { captures: 1, first }
                if first == "cudaLaunchKernel at 12000 ns"
        ),
        "{error}"
    );
}

#[test]
fn a_graph_launch_launches_all_its_rows_and_streams_order_them() {
    let (mut draw, main) = rocm();
    draw.op(main, "replay", 0, 20_000);
    let side = DeviceQueue {
        stream: 9,
        ..STREAM
    };
    let names = ["a", "b", "c", "d"];
    let kernels: Vec<GraphKernel<'_>> = names
        .iter()
        .zip(0..)
        .map(|(name, at)| {
            (
                if at % 2 == 0 { STREAM } else { side },
                *name,
                10_000 + at * 500,
                10_900 + at * 500,
            )
        })
        .collect();
    draw.graph_launch_of(main, (4_000, 9_000), &kernels);
    let trace = alone(&draw);
    let of = |kind| trace.edges.iter().filter(move |edge| edge.kind == kind);
    let causes: Vec<_> = of(EdgeKind::Launch)
        .map(|edge| trace.nodes.get(edge.from))
        .collect();
    assert_eq!(causes.len(), 4);
    // the slice that ends at the start of the launch call
    assert!(
        causes
            .iter()
            .all(|node| node.kind == NodeKind::HostOp && (node.start + node.duration).0 == 4_000),
        "{causes:?}"
    );
    let name = |node: NodeIdx| trace.name(&trace.nodes.get(node)).to_owned();
    let order: Vec<String> = of(EdgeKind::StreamOrder)
        .map(|edge| format!("{} -> {}", name(edge.from), name(edge.to)))
        .collect();
    assert_eq!(order, ["a -> c", "b -> d"]);
}

proptest! {
    /// Few names, so they repeat; each op has its own shape, so a wrong one shows.
    #[test]
    fn no_kernel_gets_a_wrong_op(
        names in proptest::collection::vec(0usize..4, 1..60),
        lost in proptest::collection::vec(0usize..60, 0..6),
    ) {
        const NAMES: [&str; 4] = ["gemm", "relu", "add", "copy"];
        let (mut of_capture, main) = rocm();
        of_capture.capture(main, 0, 10_000 * (names.len() as i64 + 2));
        for (&name, slot) in names.iter().zip(1..) {
            captured_op(
                &mut of_capture,
                main,
                10_000 * slot,
                "aten::op",
                slot,
                NAMES[name],
            );
        }
        let kept: Vec<(i64, &str)> = names
            .iter()
            .zip(1..)
            .filter(|&(_, slot)| !lost.contains(&(slot as usize)))
            .map(|(&name, slot)| (slot, NAMES[name]))
            .collect();
        let (mut of_replay, main) = rocm();
        of_replay.op(main, "replay", 0, 5_000);
        replay(
            &mut of_replay,
            main,
            0,
            &kept.iter().map(|(_, name)| *name).collect::<Vec<_>>(),
        );
        let trace = carried(&of_replay, &of_capture).expect("carries");
        let lost_none = kept.len() == names.len();
        for (&(slot, _), row) in kept.iter().zip(0..) {
            match trace
                .captured
                .as_ref()
                .and_then(|captured| captured.of(RowIdx::new(row)))
            {
                Some(op) => prop_assert_eq!(op.shapes, format!("[[{slot}, 64]]")),
                None => prop_assert!(!lost_none, "nothing is missing, so nothing is open"),
            }
        }
        let found = report(&trace);
        prop_assert_eq!(
            found.carried + found.ambiguous + found.not_found + found.without_op,
            kept.len() as u64
        );
    }
}
