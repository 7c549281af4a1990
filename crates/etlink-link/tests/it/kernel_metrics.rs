//! Tests the join of kernel metrics by name, grid and order of launch.

use crate::support::alone;
use etlink_link::roofline::{RooflineFormula, op_work, row_work};
use etlink_link::{LinkedTrace, join_counter_ranges, join_kernel_metrics};
use etlink_model::{MetricProfile, ProfiledKernel, ProfiledMetric, RowIdx};
use etlink_testing::{DeviceQueue, TraceBuilder};

/// A trace with these kernels in sequence, all with the drawing's default grid.
fn kernels(names: &[&str]) -> LinkedTrace {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for (place, name) in (0..).zip(names) {
        let start = place * 100_000;
        let (call, row) = ((start, start + 5_000), (start + 20_000, start + 50_000));
        draw.launch(main, call, DeviceQueue::stream(7), name, row);
    }
    alone(&draw)
}

/// A profile of kernels, each with one metric and its value.
fn profile(kernels: &[(&str, i64, &str, &str, f64)]) -> MetricProfile {
    let mut profile = MetricProfile::default();
    for (place, (name, process, metric, unit, value)) in (0..).zip(kernels) {
        profile.kernels.push(ProfiledKernel {
            name: profile.names.intern(name),
            process: *process,
            ..ProfiledKernel::default()
        });
        profile.metrics.push(ProfiledMetric {
            kernel: place,
            metric: profile.names.intern(metric),
            unit: profile.names.intern(unit),
            value: *value,
        });
    }
    profile
}

/// Value of each kernel's only metric; `None` without a metric.
fn values(trace: &LinkedTrace) -> Vec<Option<f64>> {
    let value = |row: usize| {
        let places = trace.row_metrics(RowIdx::new(row));
        assert!(places.len() < 2, "one metric");
        trace.kernel_metrics.value[places].first().copied()
    };
    (0..trace.device.rows.len()).map(value).collect()
}

#[test]
fn kernels_of_one_name_are_joined_in_order_of_launch() {
    let mut trace = kernels(&["void gemm<4>(float*)", "relu", "void gemm<4>(float*)"]);
    let join = join_kernel_metrics(
        &mut trace,
        &profile(&[
            // blanks depend on the demangler
            ("void gemm<4>(float *)", 1, "m", "", 1.0),
            ("void gemm<4>(float *)", 1, "m", "", 3.0),
            ("relu", 1, "m", "", 2.0),
        ]),
    );
    assert_eq!(values(&trace), [Some(1.0), Some(2.0), Some(3.0)]);
    assert_eq!((join.joined, join.repeated, join.left_out), (3, 0, 0));
    assert!(join.diagnostics().is_empty());
}

#[test]
fn names_of_functions_alone_are_joined_too() {
    let mut trace = kernels(&["void a::gemm<4>(float*)", "b::relu"]);
    let other = profile(&[("gemm", 1, "m", "", 1.0), ("relu", 1, "m", "", 2.0)]);
    join_kernel_metrics(&mut trace, &other);
    assert_eq!(values(&trace), [Some(1.0), Some(2.0)]);
}

#[test]
fn a_profile_of_one_step_is_repeated_for_each() {
    let mut trace = kernels(&["a", "a", "a", "a"]);
    let step = profile(&[("a", 1, "m", "", 1.0), ("a", 1, "m", "", 2.0)]);
    let join = join_kernel_metrics(&mut trace, &step);
    assert_eq!(values(&trace), [Some(1.0), Some(2.0), Some(1.0), Some(2.0)]);
    assert_eq!((join.joined, join.repeated), (4, 2));
    assert_eq!(
        join.diagnostics()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["2 of 4 kernels reuse the metrics of another launch of the same kernel and grid"]
    );
}

#[test]
fn what_does_not_repeat_evenly_is_joined_as_far_as_it_goes() {
    let mut trace = kernels(&["a", "a", "a"]);
    let other = profile(&[("a", 1, "m", "", 1.0), ("a", 1, "m", "", 2.0)]);
    let join = join_kernel_metrics(&mut trace, &other);
    assert_eq!(values(&trace), [Some(1.0), Some(2.0), None]);
    assert_eq!((join.joined, join.repeated, join.left_out), (2, 0, 0));
}

#[test]
fn a_longer_profile_and_unknown_kernels_are_left_out_and_counted() {
    let mut trace = kernels(&["a"]);
    let other = profile(&[
        ("a", 1, "m", "", 1.0),
        ("a", 1, "m", "", 2.0),
        ("b", 1, "m", "", 3.0),
    ]);
    let join = join_kernel_metrics(&mut trace, &other);
    assert_eq!(values(&trace), [Some(1.0)]);
    assert_eq!(join.left_out, 2);
    assert_eq!(
        join.diagnostics()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["2 of 3 kernels with metrics are not in this trace and are left out"]
    );
}

#[test]
fn of_several_processes_that_of_the_trace_counts() {
    let mut trace = kernels(&["a"]);
    let own = match trace.device.threads[0].pid {
        etlink_model::TrackLabel::Int(pid) => pid,
        etlink_model::TrackLabel::Text(_) => panic!("a number"),
    };
    let other = profile(&[("a", own + 1, "m", "", 1.0), ("a", own, "m", "", 2.0)]);
    join_kernel_metrics(&mut trace, &other);
    assert_eq!(values(&trace), [Some(2.0)]);
}

#[test]
fn a_second_join_replaces_the_first() {
    let mut trace = kernels(&["a"]);
    join_kernel_metrics(&mut trace, &profile(&[("a", 1, "m", "", 1.0)]));
    join_kernel_metrics(&mut trace, &profile(&[("a", 1, "m", "", 2.0)]));
    assert_eq!(values(&trace), [Some(2.0)]);
}

#[test]
fn measured_work_stands_for_what_formulas_say() {
    let mut trace = kernels(&["a", "b", "c"]);
    let mut other = profile(&[
        ("a", 1, "dram__bytes.sum", "Mbyte", 2.0),
        (
            "b",
            1,
            "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
            "inst",
            500.0,
        ),
        // a rate, in a roofline chart's metrics
        ("c", 1, "dram__bytes.sum.per_second", "Gbyte/second", 3.0),
    ]);
    other.metrics.push(ProfiledMetric {
        kernel: 2,
        metric: other.names.intern("gpu__time_duration.sum"),
        unit: other.names.intern("usecond"),
        value: 10.0,
    });
    join_kernel_metrics(&mut trace, &other);
    let work = row_work(&trace, &op_work(&trace));
    assert_eq!(work[0].bytes, 2_000_000);
    // a fused multiplication and addition counts as two
    assert_eq!(
        (work[1].operations, work[1].formula),
        (1_000, RooflineFormula::Measured)
    );
    assert_eq!(work[2].bytes, 30_000);
}

/// Ranges as CUPTI's range profiler writes them, after launches without kernels.
fn counted_launches(launches: usize, ranges: usize) -> LinkedTrace {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 100_000);
    for place in 0..launches as i64 {
        let id = draw.next_correlation();
        let start = 1_000 + place * 10_000;
        draw.call(main, "cudaLaunchKernel", (start, start + 2_000), id);
    }
    for range in 0..ranges {
        draw.raw(&format!(
            r#"{{"ph": "X", "cat": "cuda_profiler_range", "name": "k{range}", "pid": 0,
                "tid": 0, "ts": {}, "dur": 4, "args": {{"dram__bytes.sum": {range}.5}}}}"#,
            30 + 10 * range
        ));
    }
    alone(&draw)
}

#[test]
fn counter_ranges_are_of_launches_where_there_are_no_kernels() {
    let mut trace = counted_launches(2, 2);
    let join = join_counter_ranges(&mut trace).expect("ranges");
    assert_eq!((join.calls, join.left_out), (2, 0));
    let call = |place: usize| {
        let places = trace.call_metrics(etlink_model::CallIdx::new(place));
        trace.kernel_metrics.value[places].to_vec()
    };
    assert_eq!((call(0), call(1)), (vec![0.5], vec![1.5]));
    let mut trace = counted_launches(3, 2);
    let join = join_counter_ranges(&mut trace).expect("ranges");
    assert_eq!((join.calls, join.left_out), (0, 2));
    assert!(trace.kernel_metrics.is_empty());
}
