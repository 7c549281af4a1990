//! Tests the owners of device rows.

use crate::support::{alone, both, launches};
use etlink_link::NodeKind;
use etlink_testing::{DeviceQueue, ParamComms, TraceBuilder};

#[test]
fn the_innermost_op_around_the_call() {
    // aten::linear --------------------------
    //   aten::addmm ---------------
    //     launch -     aten::empty --   launch -
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::linear", 0, 100_000);
    draw.op(main, "aten::addmm", 10_000, 60_000);
    draw.op(main, "aten::empty", 40_000, 50_000);
    draw.launch(
        main,
        (20_000, 25_000),
        DeviceQueue::stream(7),
        "inner",
        (30_000, 40_000),
    );
    draw.launch(
        main,
        (70_000, 75_000),
        DeviceQueue::stream(7),
        "outer",
        (80_000, 90_000),
    );
    let want = [
        "inner <- cudaLaunchKernel of aten::addmm",
        "outer <- cudaLaunchKernel of aten::linear",
    ];
    assert_eq!(launches(&alone(&draw)), want);
    assert_eq!(launches(&both(&draw)), want);
}

#[test]
fn an_op_that_only_the_device_trace_has_gives_its_rows_to_the_next_that_both_have() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::linear", 0, 100_000);
    draw.op(main, "aten::relu", 120_000, 130_000);
    let lost = draw.op(main, "triton_poi_fused", 10_000, 60_000);
    draw.not_in_host(lost);
    draw.launch(
        main,
        (20_000, 25_000),
        DeviceQueue::stream(7),
        "k",
        (30_000, 40_000),
    );
    assert_eq!(
        launches(&both(&draw)),
        ["k <- cudaLaunchKernel of aten::linear"]
    );
    assert_eq!(
        launches(&alone(&draw)),
        ["k <- cudaLaunchKernel of triton_poi_fused"]
    );
}

#[test]
fn a_call_inside_a_call() {
    // aten::mm -------------
    //   cudaLaunchKernel ----
    //      cuLaunchKernel --
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 50_000);
    draw.call(main, "cudaLaunchKernel", (10_000, 30_000), 3);
    draw.driver_call(main, "cuLaunchKernel", (15_000, 25_000), 4);
    draw.kernel(DeviceQueue::stream(7), "k", (40_000, 45_000), 4);
    assert_eq!(launches(&alone(&draw)), ["k <- cuLaunchKernel of aten::mm"]);
}

/// ```text
/// c10d::allreduce_ --------------------
///   record_param_comms --------------         stream 20
///     nccl:all_reduce ----
///       launch -  . . . . . . . . . . . . . . . nccl ======
/// ```
fn all_reduce(copied: bool) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let comms = ParamComms::new("allreduce", 0..2, 0, 9);
    draw.op(main, "c10d::allreduce_", 0, 100_000);
    draw.collective(main, &comms, 10_000, 90_000);
    draw.annotation(main, "nccl:all_reduce", 20_000, 60_000);
    draw.call(main, "cudaLaunchKernelExC", (30_000, 40_000), 5);
    let (queue, span, name) = (
        DeviceQueue::stream(20),
        (110_000, 200_000),
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    );
    if copied {
        draw.collective_kernel(queue, name, span, 5, &comms)
    } else {
        draw.kernel(queue, name, span, 5)
    }
    draw
}

#[test]
fn a_collective_s_kernel_is_of_its_record_param_comms() {
    for copied in [true, false] {
        for trace in [alone(&all_reduce(copied)), both(&all_reduce(copied))] {
            let kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL <- cudaLaunchKernelExC of \
                 record_param_comms";
            assert_eq!(launches(&trace), [kernel]);
            assert_eq!(
                trace.report.nodes[&NodeKind::Collective],
                1,
                "the kernel, not also the op"
            );
            let node = trace
                .nodes
                .indices()
                .map(|at| trace.nodes.get(at))
                .find(|node| node.kind == NodeKind::Collective)
                .expect("one");
            let found = trace.collective(&node).expect("what it communicates");
            assert_eq!(
                (
                    found.record.seq,
                    found.record.in_elements,
                    found.record.group_size
                ),
                (9, 1024, 2)
            );
        }
    }
}

#[test]
fn a_collective_without_a_kernel_is_its_host_op() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "c10d::allreduce_", 0, 100_000);
    draw.collective(
        main,
        &ParamComms::new("allreduce", 0..2, 0, 9),
        10_000,
        90_000,
    );
    draw.collective(main, &ParamComms::new("wait", 0..2, 0, 9), 92_000, 95_000);
    let trace = both(&draw);
    assert_eq!(trace.report.nodes[&NodeKind::Collective], 1);
}
