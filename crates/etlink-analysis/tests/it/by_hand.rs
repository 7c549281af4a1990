//! Small programs with figures computed by hand.

use crate::support::{analyzed, analyzed_with, linked};
use etlink_analysis::{
    CollectiveTotals, CommunicationWait, GapCause, KernelRules, Options, OutsideCause, RowClass,
    UtilizationWindow, device_use,
};
use etlink_link::ranks::StepExclusion;
use etlink_model::NodeIdx;
use etlink_testing::{DeviceQueue, KinetoFlavour, ParamComms, TraceBuilder};

const US: i64 = 1_000;

fn us(start: i64, end: i64) -> (i64, i64) {
    (start * US, end * US)
}

/// ```text
/// us        0         10        20        30        40        50        60
/// calls     l  l  r w l                             l
/// stream 7    [== a =====][b ===========]                  [c =]
/// stream 20                              [waits for b ====]
/// ```
#[test]
fn gaps_by_cause() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, us(0, 1), DeviceQueue::stream(7), "a", us(2, 11));
    draw.launch(main, us(3, 4), DeviceQueue::stream(7), "b", us(12, 26));
    let record = draw.next_correlation();
    draw.call(main, "cudaEventRecord", us(6, 7), record);
    let wait = draw.next_correlation();
    draw.call(main, "cudaStreamWaitEvent", us(8, 9), wait);
    draw.sync(
        "Stream Wait Event",
        DeviceQueue::stream(20),
        us(8, 9),
        wait,
        Some((7, record)),
    );
    draw.launch(
        main,
        us(10, 11),
        DeviceQueue::stream(20),
        "first",
        us(14, 15),
    );
    draw.launch(
        main,
        us(12, 13),
        DeviceQueue::stream(20),
        "waits",
        us(27, 45),
    );
    draw.launch(main, us(50, 52), DeviceQueue::stream(7), "c", us(57, 60));
    let analysis = analyzed(&draw);
    let [device] = &analysis.idle[..] else {
        panic!("one device")
    };
    // 0-2 and 11-12 between rows; 26-27 between; 45-50 host late, 50-57 launch
    assert_eq!(
        (
            device.gaps,
            device.idle_ns,
            device.host_late_ns,
            device.launch_ns,
            device.between_ns
        ),
        (4, 16_000, 5_000, 7_000, 4_000)
    );
    let stream = |stream| {
        analysis
            .stream_idle
            .iter()
            .find(|idle| idle.stream == Some(stream))
            .expect("that stream")
    };
    let seven = stream(7);
    assert_eq!((seven.busy_ns, seven.idle_ns), (26_000, 32_000));
    // 26-50 host late, 50-57 launch
    assert_eq!(
        (
            seven.host_late_ns,
            seven.launch_ns,
            seven.between_ns,
            seven.longest_ns
        ),
        (24_000, 7_000, 1_000, 31_000)
    );
    let [queue, _] = &analysis.queues[..] else {
        panic!("two streams")
    };
    // a waits 0-2, b 3-12, c 50-57: 18 of 57 us
    assert_eq!(
        (queue.rows, queue.window_ns, queue.max_length),
        (3, 57_000, 1)
    );
    assert!((queue.mean_length - 18.0 / 57.0).abs() < 1e-12);
}

#[test]
fn a_stream_that_waits_for_another() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, us(0, 1), DeviceQueue::stream(20), "first", us(2, 4));
    draw.launch(main, us(3, 4), DeviceQueue::stream(7), "long", us(5, 40));
    let record = draw.next_correlation();
    draw.call(main, "cudaEventRecord", us(6, 7), record);
    let wait = draw.next_correlation();
    draw.call(main, "cudaStreamWaitEvent", us(8, 9), wait);
    draw.sync(
        "Stream Wait Event",
        DeviceQueue::stream(20),
        us(8, 9),
        wait,
        Some((7, record)),
    );
    draw.launch(
        main,
        us(10, 11),
        DeviceQueue::stream(20),
        "waits",
        us(42, 50),
    );
    let analysis = analyzed(&draw);
    let waiting = analysis
        .stream_idle
        .iter()
        .find(|idle| idle.stream == Some(20))
        .expect("that stream");
    // 4-10 the host, 10-40 the event, 40-42 the rest
    assert_eq!(
        (
            waiting.idle_ns,
            waiting.host_late_ns,
            waiting.event_wait_ns,
            waiting.between_ns
        ),
        (38_000, 6_000, 30_000, 2_000)
    );
}

/// ```text
/// us        0  2      10                  50     60
/// stream 7     [== a =][== event_wait ====][= b =][event_wait …
/// ```
#[test]
fn waits_are_no_work() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, us(0, 1), DeviceQueue::stream(7), "a", us(2, 10));
    draw.kernel(DeviceQueue::stream(7), "event_wait", us(10, 50), None);
    draw.launch(main, us(20, 21), DeviceQueue::stream(7), "b", us(50, 60));
    draw.kernel(DeviceQueue::stream(7), "event_wait", us(60, 102), None);
    let analysis = analyzed(&draw);
    let [time] = &analysis.breakdown[..] else {
        panic!("one device")
    };
    assert_eq!(
        (
            time.window_ns,
            time.computation_ns,
            time.exposed_other_ns,
            time.idle_ns,
            time.busy_ns()
        ),
        (102_000, 18_000, 82_000, 2_000, 18_000)
    );
    let [idle] = &analysis.idle[..] else {
        panic!("one device")
    };
    // 0-2 before the first row, 10-20 the host, 20-50 and 60-102 the waits
    assert_eq!(
        (
            idle.busy_ns,
            idle.gaps,
            idle.idle_ns,
            idle.host_late_ns,
            idle.event_wait_ns
        ),
        (18_000, 3, 84_000, 10_000, 72_000)
    );
    assert_eq!(analysis.stream_idle[0].event_wait_ns, 30_000);
    let total = etlink_analysis::run_totals(std::iter::once(&analysis));
    let busy = total
        .metrics
        .iter()
        .find(|metric| metric.name == "aggregate_gpu_utilization")
        .map(|metric| metric.value);
    assert_eq!(busy, Some(100.0 * 18.0 / 102.0));
}

#[test]
fn a_graph_launch_is_one_call_with_many_rows() {
    for (flavour, call) in [
        (KinetoFlavour::Cuda, "cudaGraphLaunch"),
        (KinetoFlavour::Rocm, "hipGraphLaunch"),
    ] {
        let mut draw = TraceBuilder::new(flavour);
        let main = draw.thread();
        let id = draw.next_correlation();
        draw.call(main, call, us(0, 10), id);
        for at in 0..5 {
            draw.kernel(
                DeviceQueue::stream(7),
                "k",
                us(20 + 4 * at, 23 + 4 * at),
                id,
            );
        }
        let [launch] = &analyzed(&draw).launches[..] else {
            panic!("one name")
        };
        assert_eq!(
            (
                launch.name.as_str(),
                launch.graph,
                launch.calls,
                launch.rows,
                launch.short_rows
            ),
            (call, true, 1, 5, 0)
        );
        assert_eq!(
            (
                launch.call_ns,
                launch.delay_min_ns,
                launch.delay_max_ns,
                launch.rows_ns
            ),
            (10_000, 10_000, 10_000, 15_000)
        );
    }
}

#[test]
fn launch_delay_per_op() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::linear", 0, 40 * US);
    draw.op(main, "aten::mm", 5 * US, 35 * US);
    let stream = DeviceQueue::stream(7);
    draw.launch(main, us(10, 12), stream, "gemm", us(20, 30));
    draw.launch(main, us(20, 22), stream, "gemm", us(36, 40));
    draw.launch(main, us(36, 38), stream, "bias", us(40, 41));
    // outside all ops
    draw.launch(main, us(50, 51), stream, "triton", us(60, 70));
    let ops = analyzed(&draw).op_launches;
    let figures: Vec<_> = ops
        .iter()
        .map(|op| (op.name.as_str(), op.calls, op.delay_min_ns, op.delay_max_ns))
        .collect();
    assert_eq!(
        figures,
        [
            ("aten::mm", 2, 8_000, 14_000),
            ("aten::linear", 1, 2_000, 2_000)
        ]
    );
    assert_eq!(ops[1].short_rows, 1);
}

#[test]
fn bandwidth_is_over_the_time_in_which_copies_run() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let mut copy = |start: i64, end: i64, bytes: u64| {
        let id = draw.next_correlation();
        draw.call(main, "cudaMemcpyAsync", us(start - 5, start - 4), id);
        draw.memcpy(
            DeviceQueue::stream(start % 7),
            "Memcpy HtoD (Pinned -> Device)",
            us(start, end),
            id,
            bytes,
        );
    };
    // two at once: 30000 bytes in 15 us; one later: 10000 in 5 us; one of unknown size
    copy(10, 20, 10_000);
    copy(15, 25, 20_000);
    copy(40, 45, 10_000);
    copy(50, 90, 0);
    let [copies] = &analyzed(&draw).copies[..] else {
        panic!("one kind")
    };
    assert_eq!(
        (copies.rows, copies.rows_without_size, copies.bytes),
        (4, 1, 40_000)
    );
    assert_eq!(
        (
            copies.busy_ns,
            copies.sized_busy_ns,
            copies.sum_ns,
            copies.sized_sum_ns
        ),
        (60_000, 20_000, 65_000, 25_000)
    );
    assert_eq!(
        (copies.gb_per_s, copies.max_gb_per_s),
        (Some(2.0), Some(2.0))
    );
}

#[test]
fn what_counts_as_a_step() {
    let draw = |names: [&str; 2]| {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        for (at, name) in [(0, names[0]), (100, names[1])] {
            draw.annotation(main, name, at * US, (at + 80) * US);
            draw.annotation(
                main,
                "Optimizer.step#SGD.step",
                (at + 60) * US,
                (at + 70) * US,
            );
        }
        draw.launch(
            main,
            us(5, 6),
            DeviceQueue::stream(7),
            "in the first",
            us(10, 20),
        );
        // launched in the first step, runs in the second
        draw.launch(
            main,
            us(75, 76),
            DeviceQueue::stream(7),
            "late",
            us(110, 130),
        );
        draw.launch(
            main,
            us(90, 91),
            DeviceQueue::stream(7),
            "between",
            us(140, 145),
        );
        draw
    };
    let steps = analyzed(&draw(["ProfilerStep#3", "ProfilerStep#4"])).steps;
    assert_eq!(
        steps
            .iter()
            .map(|step| (step.name.as_str(), step.duration_ns, step.rows))
            .collect::<Vec<_>>(),
        [("ProfilerStep#3", 80_000, 2), ("ProfilerStep#4", 80_000, 0)]
    );
    assert_eq!(
        (
            steps[0].device_start_ns,
            steps[0].device_window_ns,
            steps[0].computation_ns,
            steps[0].idle_ns
        ),
        (10_000, 120_000, 30_000, 90_000)
    );
    let steps = analyzed(&draw(["execute_context_1(8)", "execute_context_0"])).steps;
    assert_eq!(
        steps.iter().map(|step| step.start_ns).collect::<Vec<_>>(),
        [0, 100_000]
    );
    let steps = analyzed(&draw(["epoch", "epoch"])).steps;
    assert_eq!(
        steps
            .iter()
            .map(|step| (step.start_ns, step.duration_ns))
            .collect::<Vec<_>>(),
        [(70_000, 100_000)]
    );
}

#[test]
fn a_step_inside_another() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 100 * US);
    draw.annotation(main, "ProfilerStep#2", 20 * US, 30 * US);
    for at in [5, 25, 50] {
        draw.launch(
            main,
            us(at, at + 1),
            DeviceQueue::stream(7),
            "a",
            us(at + 10, at + 15),
        );
    }
    let found: Vec<_> = analyzed(&draw)
        .steps
        .iter()
        .map(|step| (step.rows, step.device_window_ns, step.computation_ns))
        .collect();
    assert_eq!(found, [(2, 50_000, 10_000), (1, 5_000, 5_000)]);
}

#[test]
fn volume_and_bandwidth_of_collectives() {
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 4);
    let main = draw.thread();
    for (at, name, seq) in [
        (0, "allreduce", 1),
        (100, "allreduce", 2),
        (200, "_allgather_base", 3),
    ] {
        let comms = ParamComms {
            in_elements: 1_000,
            out_elements: if seq == 3 { 4_000 } else { 1_000 },
            ..ParamComms::new(name, 0..4, 0, seq)
        };
        let id = draw.next_correlation();
        draw.call(main, "cudaLaunchKernelExC", us(at, at + 1), id);
        draw.collective_kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_x",
            us(at + 5, at + 10),
            id,
            &comms,
        );
    }
    draw.launch(
        main,
        us(300, 301),
        DeviceQueue::stream(20),
        "ncclDevKernel_ReduceScatter_Sum_f32",
        us(305, 306),
    );
    let all = analyzed(&draw).collectives;
    let found: Vec<_> = all
        .iter()
        .map(|one| {
            (
                one.kind.as_str(),
                one.group.as_str(),
                one.count,
                one.in_bytes,
                one.bytes,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (
                "all_reduce",
                "ranks 0, 1, 2, 3",
                2,
                Some(8_000),
                Some(8_000)
            ),
            (
                "all_gather",
                "ranks 0, 1, 2, 3",
                1,
                Some(4_000),
                Some(16_000)
            ),
            // only the name of its kernel is known
            ("reduce_scatter", "", 1, None, None)
        ]
    );
    let unsized_ones: Vec<u64> = all.iter().map(|one| one.without_size).collect();
    assert_eq!(unsized_ones, [0, 0, 1]);
    // 8000 bytes in 10 us; twice 3/4 of them cross the links
    assert_eq!(all[0].algorithm_gb_per_s, Some(0.8));
    assert!((all[0].bus_gb_per_s.expect("known") - 1.2).abs() < 1e-9);
    assert_eq!((all[2].algorithm_gb_per_s, all[2].sum_ns), (None, 1_000));
}

/// ```text
/// us       0   10  20         100           180
/// main     c10d::allreduce_
///            record_param_comms
/// worker             gloo:all_reduce =========
/// ```
#[test]
fn host_ops_last_as_long_as_what_carries_them_out() {
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 2);
    let (main, worker) = (draw.thread(), draw.thread());
    for at in [0, 1_000] {
        let comms = ParamComms {
            in_elements: 1_000,
            out_elements: 1_000,
            dtype: "Float".into(),
            ..ParamComms::new("allreduce", 0..2, 0, at)
        };
        draw.op(main, "c10d::allreduce_", at * US, (at + 20) * US);
        draw.collective(main, &comms, (at + 2) * US, (at + 10) * US);
        draw.annotation(worker, "gloo:all_reduce", (at + 30) * US, (at + 110) * US);
    }
    let [all] = &analyzed(&draw).collectives[..] else {
        panic!("one kind")
    };
    assert_eq!(
        (
            all.kind.as_str(),
            all.on_device,
            all.count,
            all.bytes,
            all.sum_ns
        ),
        ("all_reduce", false, 2, Some(8_000), 160_000)
    );
    assert_eq!(all.algorithm_gb_per_s, Some(0.05));
}

#[test]
fn ranges_of_gloo_without_records() {
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    draw.op(main, "aten::mm", 0, 10 * US);
    for (at, kind, shape) in [
        (0, "all_reduce", "[[4, 25]]"),
        (200, "all_reduce", "[[10], [2, 5]]"),
        (400, "all_gather", "[[8]]"),
    ] {
        let range = draw.annotation(
            worker,
            &format!("gloo:{kind}"),
            (at + 30) * US,
            (at + 110) * US,
        );
        draw.arg(range, "Input Dims", shape);
        draw.arg(range, "Input type", "[\"float\"]");
    }
    let all = analyzed(&draw).collectives;
    let found: Vec<_> = all
        .iter()
        .map(|one| {
            (
                one.kind.as_str(),
                one.count,
                one.in_bytes,
                one.bytes,
                one.sum_ns,
                one.algorithm_gb_per_s,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("all_reduce", 2, Some(480), Some(480), 160_000, None),
            // its input reveals nothing about its output
            ("all_gather", 1, Some(32), None, 80_000, None)
        ]
    );
}

#[test]
fn groups_that_only_their_sizes_tell_apart() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 10 * US);
    for (ts, size) in [(60, 4), (80, 2)] {
        draw.raw(&format!(
            concat!(
                r#"{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "#,
                r#""pid": 0, "tid": 7, "ts": {ts}.000, "dur": 10.000, "#,
                r#""args": {{"device": 0, "stream": 7, "Collective name": "allreduce", "#,
                r#""In msg nelems": 1000, "Out msg nelems": 1000, "Group size": {size}, "#,
                r#""dtype": "Float"}}}}"#,
            ),
            ts = ts,
            size = size
        ));
    }
    let all = analyzed(&draw).collectives;
    let found: Vec<_> = all
        .iter()
        .map(|one| (one.group.as_str(), one.group_size, one.bus_gb_per_s))
        .collect();
    // 4000 bytes in 10 us, by 2 (n - 1) / n
    assert_eq!(
        found,
        [
            ("2 ranks", 2, Some(0.4)),
            ("4 ranks", 4, Some(0.6000000000000001))
        ]
    );
}

/// All-reduces of several sizes; `length` gives the duration for a number of elements.
fn all_reduces(length: fn(i64) -> i64) -> CollectiveTotals {
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 2);
    let main = draw.thread();
    for (at, elements) in [(0, 250), (100, 500), (200, 1_000)] {
        let comms = ParamComms {
            in_elements: elements,
            out_elements: elements,
            ..ParamComms::new("allreduce", 0..2, 0, at)
        };
        let id = draw.next_correlation();
        draw.call(main, "cudaLaunchKernelExC", us(at, at + 1), id);
        let end = (at + 5) * US + length(elements as i64);
        draw.collective_kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_x",
            ((at + 5) * US, end),
            id,
            &comms,
        );
    }
    let [all] = &analyzed(&draw).collectives[..] else {
        panic!("one kind")
    };
    all.clone()
}

#[test]
fn latency_and_bandwidth_by_sizes() {
    // 3 us, plus 2 ns for each of an element's 4 bytes
    let all = all_reduces(|elements| 3_000 + 8 * elements);
    let (latency, slope) = all.latency_ns.zip(all.ns_per_byte).expect("three sizes");
    assert!(
        (latency - 3_000.0).abs() < 1e-6 && (slope - 2.0).abs() < 1e-9,
        "{latency} {slope}"
    );
    for waits in [
        |elements: i64| 20_000 - 8 * elements,
        |elements| 80 * elements - 10_000,
    ] {
        let all = all_reduces(waits);
        assert_eq!(
            (all.latency_ns, all.ns_per_byte),
            (None, None),
            "what waits for others follows no line"
        );
    }
}

#[test]
fn metrics_of_a_run() {
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 2);
    let main = draw.thread();
    for step in 0..4 {
        let at = 100 * step;
        draw.annotation(
            main,
            &format!("ProfilerStep#{step}"),
            at * US,
            (at + 80 + step) * US,
        );
        draw.launch(
            main,
            us(at, at + 1),
            DeviceQueue::stream(7),
            "gemm",
            us(at + 10, at + 40),
        );
        let id = draw.next_correlation();
        draw.call(main, "cudaLaunchKernelExC", us(at + 2, at + 3), id);
        draw.collective_kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_x",
            us(at + 30, at + 40),
            id,
            &ParamComms::new("allreduce", 0..2, 0, step),
        );
        let id = draw.next_correlation();
        draw.call(main, "cudaMemcpyAsync", us(at + 4, at + 5), id);
        draw.memcpy(
            DeviceQueue::stream(7),
            "Memcpy DtoD (Device -> Device)",
            us(at + 40, at + 50),
            id,
            20_000,
        );
    }
    let analysis = analyzed(&draw);
    let total = etlink_analysis::run_totals(std::iter::once(&analysis));
    let value = |name: &str| {
        total
            .metrics
            .iter()
            .find(|metric| metric.name == name)
            .map(|metric| metric.value)
    };
    for (name, want) in [
        ("avg_step_time", 101e-6),
        ("communication_time_per_step", 10e-6),
        ("total_trace_time", 383e-6),
        ("total_kernel_time", 160e-6),
        ("aggregate_gpu_utilization", 100.0 * 160.0 / 383.0),
        ("communication_fraction", 25.0),
        ("compute_comm_overlap", 100.0),
        ("dominant_kernel_concentration", 75.0),
        ("memory_transfer_overhead", 100.0 * 40.0 / 383.0),
        ("average_memory_bandwidth", 2.0),
        ("communication_overhead", 100.0 * 10.0 / 101.0),
        ("break_down_gemm", 120e-6),
        ("break_down_nccl", 40e-6),
        // 4096 bytes each in 10 us, factor 2 · 1/2
        ("bus_bandwidth_all_reduce", 0.4096),
        ("coll_call_num", 4.0),
        ("collective_vol_all_reduce_gb", 4.0 * 4096.0 / 1e9),
    ] {
        let found = value(name).unwrap_or_else(|| panic!("no {name}"));
        assert!((found - want).abs() < 1e-9, "{name}: {found}, not {want}");
    }
    assert_eq!(
        (
            value("load_imbalance_ratio"),
            value("straggler"),
            value("ttft")
        ),
        (None, None, None),
        "of one rank without tokens"
    );
}

#[test]
fn operations_and_how_much_of_the_peaks_is_used() {
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 2);
    let main = draw.thread();
    for at in [0, 100] {
        // 2 · 100 · 200 · 300 operations in two kernels
        let mm = draw.op(main, "aten::mm", at * US, (at + 50) * US);
        draw.arg(mm, "Input Dims", "[[100, 200], [200, 300]]");
        draw.arg(mm, "Input type", r#"["float", "float"]"#);
        draw.launch(
            main,
            us(at + 1, at + 2),
            DeviceQueue::stream(7),
            "gemm",
            us(at + 10, at + 30),
        );
        draw.launch(
            main,
            us(at + 3, at + 4),
            DeviceQueue::stream(7),
            "splitk",
            us(at + 30, at + 40),
        );
    }
    // an addition does not count, nor does work launched outside all ops
    let add = draw.op(main, "aten::add", 160 * US, 190 * US);
    draw.arg(add, "Input Dims", "[[100, 200], [100, 200]]");
    draw.launch(
        main,
        us(161, 162),
        DeviceQueue::stream(7),
        "elementwise",
        us(170, 180),
    );
    draw.launch(
        main,
        us(200, 201),
        DeviceQueue::stream(7),
        "gemm",
        us(205, 210),
    );
    let comms = ParamComms::new("allreduce", 0..2, 0, 1);
    let id = draw.next_correlation();
    draw.call(main, "cudaLaunchKernelExC", us(202, 203), id);
    draw.collective_kernel(
        DeviceQueue::stream(20),
        "ncclDevKernel_x",
        us(204, 208),
        id,
        &comms,
    );
    let analysis = analyzed(&draw);
    let [one] = &analysis.work[..] else {
        panic!("one device")
    };
    assert_eq!(
        (one.rows, one.operations, one.sum_ns, one.window_ns),
        // from the first op to the last row
        (4, 24_000_000, 60_000, 210_000)
    );
    assert!(
        (one.tflops - 24.0 / 210.0).abs() < 1e-12 && (one.busy_tflops - 0.4).abs() < 1e-12,
        "{one:?}"
    );
    let metrics = etlink_analysis::run_totals(std::iter::once(&analysis)).metrics;
    let peaks = |tflops, link_gb_per_s| {
        let used = etlink_analysis::peak_metrics(
            &metrics,
            etlink_analysis::HardwarePeaks {
                tflops,
                link_gb_per_s,
            },
        );
        used.into_iter()
            .map(|metric| (metric.name, metric.value))
            .collect::<Vec<_>>()
    };
    let [(name, hfu)] = &peaks(Some(1.2), None)[..] else {
        panic!("one peak")
    };
    assert_eq!(name, "hfu");
    assert!((hfu - 2_000.0 / 210.0).abs() < 1e-9, "{hfu}");
    // 4096 bytes in 4 us
    assert_eq!(
        peaks(None, Some(10.24)),
        [("bandwidth_utilization_all_reduce".to_owned(), 0.1)]
    );
}

/// A step of 20 us on a device: a product of 4 us, a sum of 6 us, and an op of `unknown` us whose
/// shapes do not reveal its work.
fn draw_peaks(name: &str, multiprocessors: u32, unknown: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::new(KinetoFlavour::Rocm);
    let properties = format!(r#"[{{"id": 0, "name": "{name}", "numSms": {multiprocessors}}}]"#);
    draw.metadata("deviceProperties", &properties);
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 20 * US);
    let ops = [
        (
            "aten::mm",
            "[[1024, 1024], [1024, 1024]]",
            r#"["c10::BFloat16", "c10::BFloat16"]"#,
            2,
            us(2, 6),
        ),
        (
            "aten::add",
            "[[1000000], [1000000]]",
            r#"["float", "float"]"#,
            4,
            us(6, 12),
        ),
        (
            "vllm::moe",
            "[[1000, 1000]]",
            r#"["c10::BFloat16"]"#,
            6,
            us(12, 12 + unknown),
        ),
    ];
    for (op, dims, types, at, row) in ops {
        let range = draw.op(main, op, (at - 1) * US, (at + 1) * US - 100);
        draw.arg(range, "Input Dims", dims);
        draw.arg(range, "Input type", types);
        let call = (at * US, at * US + 500);
        draw.launch(main, call, DeviceQueue::stream(7), op, row);
    }
    draw
}

#[test]
fn peaks_of_a_known_device() {
    let analysis = analyzed(&draw_peaks("AMD Instinct MI300X VF", 304, 1));
    let [one] = &analysis.peaks[..] else {
        panic!("one device: {:?}", analysis.peaks)
    };
    // 2 · 1024³ operations at 1307.4 · 10¹² a second, three matrices and three vectors at 5300 GB/s
    let compute = 2.0 * 1024f64.powi(3) / 1307.4e3;
    let memory = [3.0 * 2.0 * 1024f64.powi(2) / 5300.0, 12e6 / 5300.0];
    for (share, want) in [
        (Some(one.covered), 10.0 / 11.0),
        (one.mfu, compute / 20e3),
        (one.roof_share, (compute + memory[1]) / 10e3),
        (one.bandwidth_share, (memory[0] + memory[1]) / 10e3),
        (one.memory_bound, 0.6),
    ] {
        let share = share.expect("enough is known");
        assert!((share - want).abs() < 1e-12, "{share}, not {want}");
    }
    let total = etlink_analysis::run_totals(std::iter::once(&analysis));
    let mfu = total.metrics.iter().find(|metric| metric.name == "mfu");
    let mfu = mfu.expect("a metric").value;
    assert!((mfu - 100.0 * compute / 20e3).abs() < 1e-9);
}

#[test]
fn no_shares_where_too_little_is_known() {
    let little = analyzed(&draw_peaks("AMD Instinct MI300X", 304, 2)).peaks;
    assert_eq!(little.len(), 1);
    assert_eq!((little[0].covered, little[0].mfu), (10.0 / 12.0, None));
    assert_eq!(analyzed(&draw_peaks("ARTEMIS", 304, 1)).peaks, []);
    // a partition of a device
    let part = draw_peaks("AMD Instinct MI300X", 38, 1);
    assert_eq!(analyzed(&part).peaks, []);
}

#[test]
fn coverage_by_time_and_by_kernel() {
    // the builder's kernels have 128 blocks, 0.592593 on each multiprocessor
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, us(0, 1), DeviceQueue::stream(7), "a", us(2, 3));
    draw.raw(concat!(
        r#"{"ph": "X", "cat": "kernel", "name": "no grid", "pid": 0, "tid": 7, "#,
        r#""ts": 20.000, "dur": 4.000, "args": {"device": 0, "stream": 7}}"#,
    ));
    draw.raw(concat!(
        r#"{"ph": "X", "cat": "kernel", "name": "small", "pid": 0, "tid": 7, "#,
        r#""ts": 10.000, "dur": 3.000, "args": {"device": 0, "stream": 7, "grid": [54, "#,
        r#"1, 1]}}"#,
    ));
    let [coverage] = &analyzed(&draw).coverage[..] else {
        panic!("one device")
    };
    assert_eq!((coverage.multiprocessors, coverage.rows), (216, 2));
    let (large, small) = (128.0 / 216.0, 54.0 / 216.0);
    assert!((coverage.by_row - (large + small) / 2.0).abs() < 1e-9);
    assert!((coverage.by_time - (large + 3.0 * small) / 4.0).abs() < 1e-9);
    assert_eq!(
        (coverage.low_share, coverage.high_share, coverage.time_share),
        (0.5, 0.0, 0.5)
    );
}

#[test]
fn grids_that_hip_counts_in_threads() {
    let mut draw = TraceBuilder::new(KinetoFlavour::Rocm);
    draw.metadata(
        "deviceProperties",
        r#"[{"id": 0, "name": "AMD Instinct MI210", "numSms": 104}]"#,
    );
    let main = draw.thread();
    for (at, call) in [
        (0, "hipLaunchKernel"),
        (10, "hipExtModuleLaunchKernel"),
        (20, "hipHccModuleLaunchKernel"),
    ] {
        let id = draw.next_correlation();
        draw.call(main, call, us(at, at + 1), id);
        // grid [64, 2, 1], block [128, 1, 1]: 128 blocks, or 64 x 2 threads in 2 blocks
        draw.kernel(DeviceQueue::stream(0), "k", us(at + 2, at + 3), id);
    }
    let [coverage] = &analyzed(&draw).coverage[..] else {
        panic!("one device")
    };
    assert_eq!(coverage.rows, 3);
    assert!(
        (coverage.by_row - (1.0 + 2.0 * 2.0 / 104.0) / 3.0).abs() < 1e-9,
        "{coverage:?}"
    );
}

#[test]
fn sequences_of_the_outermost_ops() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for at in [0, 100, 200] {
        draw.op(main, "aten::linear", at * US, (at + 50) * US);
        draw.op(main, "aten::linear_inner", (at + 5) * US, (at + 40) * US);
        draw.launch(
            main,
            us(at + 10, at + 11),
            DeviceQueue::stream(7),
            "gemm",
            us(at + 20, at + 30),
        );
        if at < 200 {
            draw.launch(
                main,
                us(at + 45, at + 46),
                DeviceQueue::stream(7),
                "bias",
                us(at + 60, at + 65),
            );
        }
    }
    let all = analyzed_with(
        &draw,
        &Options {
            sequences_of: Some("linear".into()),
            ..Options::default()
        },
    )
    .sequences;
    let found: Vec<_> = all
        .iter()
        .map(|one| {
            (
                one.op.as_str(),
                one.count,
                one.rows,
                one.device_ns,
                one.op_ns,
                one.names.as_str(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("aten::linear", 2, 2, 30_000, 100_000, "gemm | bias"),
            ("aten::linear", 1, 1, 10_000, 50_000, "gemm")
        ]
    );
}

#[test]
fn peaks_of_memory() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::empty", 0, 10 * US);
    let mut memory = |ts: &str, kind: i64, bytes: i64, totals: &str| {
        draw.raw(&format!(
            r#"{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1000,
              "tid": 1000, "ts": {ts}, "args": {{{totals}"Bytes": {bytes}, "Device Id": {},
              "Device Type": {kind}}}}}"#,
            kind - 1
        ));
    };
    memory(
        "1.000",
        1,
        512,
        "\"Total Reserved\": 4096, \"Total Allocated\": 1512, ",
    );
    memory(
        "2.000",
        1,
        1024,
        "\"Total Reserved\": 4096, \"Total Allocated\": 2536, ",
    );
    memory(
        "3.000",
        1,
        -2036,
        "\"Total Reserved\": 4096, \"Total Allocated\": 500, ",
    );
    memory("4.000", 0, 64, "");
    memory("5.000", 0, -128, "");
    let analysis = analyzed_with(
        &draw,
        &Options {
            memory_timeline: true,
            ..Options::default()
        },
    );
    let [cpu, cuda] = &analysis.memory[..] else {
        panic!("two devices")
    };
    assert_eq!(
        (
            cpu.device_type,
            cpu.device,
            cpu.start_bytes,
            cpu.peak_bytes,
            cpu.end_bytes
        ),
        ("cpu", -1, 0, 64, -64)
    );
    assert_eq!(
        (
            cuda.device_type,
            cuda.allocations,
            cuda.frees,
            cuda.allocated_sum_bytes
        ),
        ("cuda", 2, 1, 1536)
    );
    assert_eq!(
        (
            cuda.start_bytes,
            cuda.peak_bytes,
            cuda.peak_ns,
            cuda.end_bytes,
            cuda.peak_reserved_bytes
        ),
        (1000, 2536, 2_000, 500, 4096)
    );
    let points: Vec<i64> = analysis
        .memory_timeline
        .iter()
        .map(|point| point.allocated_bytes)
        .collect();
    assert_eq!(points, [1512, 2536, 500, 64, -64]);
}

#[test]
fn a_peak_before_the_first_event() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::empty", 0, 10 * US);
    draw.raw(concat!(
        r#"{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "#,
        r#""pid": 1000, "tid": 1000, "ts": 3.000, "args": {"Total Reserved": 4096, "#,
        r#""Total Allocated": 500, "Bytes": -1000, "Device Id": 0, "Device Type": 1}}"#,
    ));
    let [cuda] = &analyzed(&draw).memory[..] else {
        panic!("one device")
    };
    assert_eq!(
        (
            cuda.start_bytes,
            cuda.peak_bytes,
            cuda.peak_ns,
            cuda.end_bytes
        ),
        (1_500, 1_500, 3_000, 500)
    );
}

/// ```text
/// us        0         10        20        30        40        50
/// host      l [aten::item ==========================]l
///                 [cudaStreamSynchronize ====]
/// stream 7  [a =]                                       [b]
/// ```
#[test]
fn a_gap_names_what_the_host_did() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let stream = DeviceQueue::stream(7);
    draw.launch(main, us(0, 1), stream, "a", us(2, 6));
    draw.op(main, "aten::item", 4 * US, 50 * US);
    let sync = draw.next_correlation();
    draw.call(main, "cudaStreamSynchronize", us(8, 40), sync);
    draw.launch(main, us(52, 53), stream, "b", us(55, 60));
    let analysis = analyzed(&draw);
    let [gap, before_first] = &analysis.gaps[..] else {
        panic!("two gaps")
    };
    assert_eq!((before_first.start_ns, before_first.length_ns), (0, 2_000));
    assert_eq!((gap.start_ns, gap.length_ns), (6_000, 49_000));
    assert_eq!((gap.cause, gap.cause_ns), (GapCause::HostLate, 46_000));
    assert_eq!(gap.host.as_deref(), Some("cudaStreamSynchronize"));
    assert_eq!(gap.host_ns, 32_000);
    assert_eq!((&gap.row_before[..], &gap.row_after[..]), ("a", "b"));
    // 6-8 and 40-50 the op itself, 50-52 nothing
    let found: Vec<_> = analysis
        .host_idle
        .iter()
        .map(|host| (host.host.as_deref(), host.idle_ns, host.gaps))
        .collect();
    assert_eq!(
        found,
        [
            (Some("cudaStreamSynchronize"), 32_000, 1),
            (Some("aten::item"), 12_000, 1),
            (None, 2_000, 1),
        ]
    );
}

/// ```text
/// us        0         100       200       300       400
/// main      [ProfilerStep#1 ------------------------]
///            l [aten::mm]                   [step]
/// engine                    .  . [Backward]l
/// pool                            [Stage]     l
/// stream 7   [a]                             [b] [c]
/// ```
#[test]
fn a_thread_that_idles_is_no_work_of_the_host() {
    let mut draw = TraceBuilder::default();
    let (main, engine, pool) = (draw.thread(), draw.thread(), draw.thread());
    let stream = DeviceQueue::stream(7);
    draw.annotation(main, "ProfilerStep#1", 0, 400 * US);
    draw.launch(main, us(1, 2), stream, "a", us(3, 10));
    let forward = draw.op(main, "aten::mm", 20 * US, 100 * US);
    draw.sequence(forward, 7, 0);
    let backward = draw.op(engine, "MmBackward0", 200 * US, 240 * US);
    draw.sequence(backward, 7, 1);
    draw.launch(engine, us(230, 231), stream, "b", us(235, 250));
    draw.op(main, "step", 280 * US, 300 * US);
    draw.op(pool, "Stage", 260 * US, 270 * US);
    draw.launch(pool, us(310, 311), stream, "c", us(315, 320));
    let analysis = analyzed(&draw);
    let found: Vec<_> = analysis
        .host_idle
        .iter()
        .map(|host| (host.host.as_deref(), host.idle_ns))
        .collect();
    // The engine received its work when it began; until then, the main thread was the cause. Only
    // the op within the pool's 60 us is work.
    assert_eq!(
        found,
        [
            (Some("ProfilerStep#1"), (1 + 110) * US),
            (Some("aten::mm"), 80 * US),
            (Some("MmBackward0"), 30 * US),
            (Some("Stage"), 10 * US),
        ]
    );
    let late = analysis.idle[0].host_late_ns;
    assert_eq!(late, (1 + 220 + 60 + 80) * US);
    assert!((analysis.host_idle[3].share - 10.0 / 361.0).abs() < 1e-9);
}

/// ```text
/// us        0         100       200       300       400
/// host      [ProfilerStep#1 ---------------------]
/// stream 7     [a====]     [b==]                    c=]
/// ```
#[test]
fn utilization_is_of_the_step() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 400 * US);
    let stream = DeviceQueue::stream(7);
    draw.launch(main, us(10, 11), stream, "a", us(30, 100));
    draw.launch(main, us(12, 13), stream, "b", us(200, 240));
    draw.launch(main, us(390, 391), stream, "c", us(410, 430));
    let analysis = analyzed(&draw);
    let [device] = &analysis.utilization[..] else {
        panic!("one device")
    };
    // from the first row to the last: 400 us; the step and its work: 430 us
    assert_eq!(analysis.breakdown[0].window_ns, 430_000);
    assert_eq!((device.window, device.steps), (UtilizationWindow::Steps, 1));
    assert_eq!((device.start_ns, device.window_ns), (0, 430_000));
    assert_eq!((device.busy_ns, device.before_recording_ns), (130_000, 0));
    assert_eq!(device.idle_ns, 300_000);
    assert_eq!(device.busy_share, Some(130.0 / 430.0));
}

/// ```text
/// us        0         100       200       300       400
/// calls            l l                              l
/// stream 7  [from before =======][a==]                 [b]
/// ```
#[test]
fn work_from_before_the_recording_is_neither_busy_nor_idle() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let stream = DeviceQueue::stream(7);
    let earlier = draw.next_correlation();
    draw.op(main, "aten::add", 0, US);
    draw.kernel(stream, "from before", us(0, 200), earlier);
    draw.launch(main, us(50, 51), stream, "a", us(200, 240));
    draw.launch(main, us(390, 391), stream, "b", us(400, 410));
    let analysis = analyzed(&draw);
    let [device] = &analysis.utilization[..] else {
        panic!("one device")
    };
    assert_eq!(device.window, UtilizationWindow::Process);
    assert_eq!(device.window_ns, 410_000);
    assert_eq!(
        (device.before_recording_ns, device.busy_ns),
        (200_000, 50_000)
    );
    assert_eq!((device.idle_ns, device.whole_ns()), (160_000, 210_000));
    let [time] = &analysis.breakdown[..] else {
        panic!("one device")
    };
    assert_eq!((time.start_ns, time.window_ns), (0, 410_000));
    assert_eq!((time.outside_ns, time.busy_ns()), (200_000, 50_000));
    assert_eq!(time.idle_ns, 160_000);
    let [idle] = &analysis.idle[..] else {
        panic!("one device")
    };
    assert_eq!((idle.outside_ns, idle.busy_ns), (200_000, 50_000));
    assert_eq!((idle.gaps, idle.idle_ns), (1, 160_000));
    assert_eq!(analysis.stream_idle[0].outside_ns, 200_000);
}

/// ```text
/// us        0         100       200       300       400
/// step            [ProfilerStep#1 --------------------]
/// calls      l                l        l       l
/// stream 7   [warm up]              [copy]       [a==]
/// stream 8  [from before ================]   [b]
/// ```
#[test]
fn tables_of_device_time_are_of_the_steps() {
    const HTOD: &str = "Memcpy HtoD (Pageable -> Device)";
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let (seven, eight) = (DeviceQueue::stream(7), DeviceQueue::stream(8));
    let earlier = draw.next_correlation();
    draw.kernel(eight, "from before", us(0, 240), earlier);
    let warm_up = draw.next_correlation();
    draw.call(main, "cudaMemcpyAsync", us(5, 6), warm_up);
    draw.memcpy(seven, HTOD, us(10, 80), warm_up, 1000);
    draw.annotation(main, "ProfilerStep#1", 60 * US, 400 * US);
    let copy = draw.next_correlation();
    draw.call(main, "cudaMemcpyAsync", us(150, 151), copy);
    draw.memcpy(seven, HTOD, us(200, 230), copy, 600);
    draw.launch(main, us(240, 241), eight, "b", us(280, 290));
    draw.launch(main, us(310, 311), seven, "a", us(320, 350));
    let analysis = analyzed(&draw);
    let [time] = &analysis.breakdown[..] else {
        panic!("one device")
    };
    // the step begins when the row from before ends
    assert_eq!((time.start_ns, time.window_ns), (240_000, 160_000));
    assert_eq!(time.exposed_memory_ns, 0);
    assert_eq!(time.computation_ns, 40_000);
    assert_eq!(time.outside_ns, 0);
    assert_eq!(time.idle_ns, (40 + 30 + 50) * US);
    let [idle] = &analysis.idle[..] else {
        panic!("one device")
    };
    assert_eq!(
        (idle.busy_ns, idle.outside_ns, idle.idle_ns),
        (40_000, 0, 120_000)
    );
    let all = analysis.outside.iter();
    let all: i64 = all.map(|outside| outside.sum_ns).sum();
    assert_eq!(all, (240 + 70) * US);
    let [copies] = &analysis.copies[..] else {
        panic!("one kind")
    };
    assert_eq!((copies.rows, copies.bytes), (1, 600));
    // the stream is free for the step once its row from before the step ends
    let streams: Vec<_> = analysis.stream_idle.iter().collect();
    assert_eq!((streams[0].outside_ns, streams[0].idle_ns), (0, 90_000));
    assert_eq!((streams[1].outside_ns, streams[1].idle_ns), (0, 40_000));
}

/// ```text
/// us        0         100       200       300
/// step         [ProfilerStep#1 ----------]
/// calls      l    l        l               l
/// stream 7  [from before ==][warm up][a==][b==]   [c]
/// ```
#[test]
fn kernels_are_of_the_steps_that_launched_them() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let stream = DeviceQueue::stream(7);
    let earlier = draw.next_correlation();
    draw.kernel(stream, "gemm", us(0, 120), earlier);
    draw.launch(main, us(2, 3), stream, "gemm", us(120, 150));
    draw.annotation(main, "ProfilerStep#1", 20 * US, 300 * US);
    let mm = draw.op(main, "aten::mm", 30 * US, 60 * US);
    draw.arg(mm, "Input Dims", "[[100, 200], [200, 300]]");
    draw.arg(mm, "Input type", r#"["float", "float"]"#);
    draw.launch(main, us(40, 41), stream, "gemm", us(150, 190));
    draw.launch(main, us(90, 91), stream, "b", us(190, 200));
    draw.launch(main, us(310, 311), stream, "c", us(330, 340));
    let analysis = analyzed(&draw);
    let kernels = analysis.kernels.iter();
    let sums: Vec<_> = kernels
        .map(|kernel| {
            (
                &*kernel.name,
                kernel.durations.count,
                kernel.durations.sum_ns,
            )
        })
        .collect();
    assert_eq!(sums, [("gemm", 1, 40_000), ("b", 1, 10_000)]);
    let outside = analysis.outside.iter();
    let outside: Vec<_> = outside
        .map(|of| (of.launched, of.rows, of.sum_ns))
        .collect();
    assert_eq!(
        outside,
        [
            (OutsideCause::BeforeRecording, 1, 120_000),
            (OutsideCause::BeforeSteps, 1, 30_000),
            (OutsideCause::AfterSteps, 1, 10_000)
        ]
    );
    // the op takes 30 of the 280 us, and the call after it 1
    assert_eq!(analysis.steps[0].between_ops_ns, 249_000);
    // the step begins when the device has ended the work launched before it
    let step = &analysis.steps[0];
    assert_eq!((step.begin_ns, step.length_ns), (150_000, 150_000));
    let [rate] = &analysis.work[..] else {
        panic!("one device")
    };
    assert_eq!((rate.rows, rate.steps, rate.window_ns), (1, 1, 150_000));
    assert!((rate.tflops - 12e6 / 150e3 / 1e3).abs() < 1e-12, "{rate:?}");
}

/// ```text
/// us        0         100       200       300
/// step      [ProfilerStep#1 -----------------]
/// stream 7   [gemm===]
/// stream 20     [all_reduce==========]
///                ~~~~~~~~~~~~~~~~         waits for the last rank, from 40 to 200
/// ```
#[test]
fn waiting_in_a_collective_is_told_from_work() {
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 2);
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 300 * US);
    draw.launch(main, us(2, 3), DeviceQueue::stream(7), "gemm", us(10, 100));
    let comms = ParamComms::new("allreduce", 0..2, 0, 1);
    draw.collective(main, &comms, 20 * US, 30 * US);
    let id = draw.next_correlation();
    draw.call(main, "cudaLaunchKernelExC", us(22, 24), id);
    let stream = DeviceQueue::stream(20);
    draw.collective_kernel(stream, "ncclDevKernel_AllReduce", us(40, 240), id, &comms);
    let trace = linked(&draw);
    let rules = KernelRules::built_in().expect("rules");
    let device = device_use(&trace, &rules);
    assert_eq!(device.utilization[0].busy_ns, 230_000);
    let mut nodes = trace.nodes.indices();
    let node = nodes.find(|node| {
        let node = trace.nodes.get(*node);
        node.on_device && trace.is_communication(&node)
    });
    let node = node.expect("the kernel");
    let header = &trace.device.header;
    let wait = |node: NodeIdx, start: i64, waits_ns: i64| CommunicationWait {
        node,
        start_ns: header.unix_time(etlink_model::TimeNs(start)),
        waits_ns,
    };
    // the gemm hides 60 of the 160 us of waiting
    let exposed = &device.exposed;
    assert_eq!(
        exposed.waiting_ns(&[wait(node, 40 * US, 160 * US)]),
        100_000
    );
    assert_eq!(exposed.waiting_ns(&[]), 0);
    // overlapping waits count once, and a node of the host is no row of a device
    let twice = [wait(node, 40 * US, 160 * US), wait(node, 90 * US, 30 * US)];
    assert_eq!(exposed.waiting_ns(&twice), 100_000);
    assert_eq!(exposed.waiting_ns(&[wait(NodeIdx(0), 0, 300 * US)]), 0);
}

/// Steps with these lengths in us, and these numbers of kernels.
fn draw_steps(names: &str, steps: &[(i64, i64)]) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let mut begin = 0;
    for (number, (length, kernels)) in steps.iter().enumerate() {
        let at = |time: i64| (begin + time) * US;
        let name = names.replace('N', &number.to_string());
        draw.annotation(main, &name, at(0), at(*length));
        for kernel in 0..*kernels {
            let (call, row) = (kernel * 20, kernel * 20 + 5);
            let stream = DeviceQueue::stream(7);
            draw.launch(
                main,
                (at(call), at(call + 1)),
                stream,
                "k",
                (at(row), at(row + 10)),
            );
        }
        begin += length + 10;
    }
    draw
}

#[test]
fn what_a_recording_cuts_counts_in_no_mean() {
    let stub = Some(StepExclusion::Stub);
    let none = Some(StepExclusion::NoDeviceRows);
    for (names, steps, want) in [
        // the profiler was stopped right after a step
        (
            "ProfilerStep#N",
            vec![(9_000, 3), (49, 0)],
            vec![None, none],
        ),
        (
            "ProfilerStep#N",
            vec![(30, 1), (900, 3), (800, 3)],
            vec![stub, None, None],
        ),
        (
            "ProfilerStep#N",
            vec![(900, 3), (800, 3), (30, 1)],
            vec![None, None, stub],
        ),
        // the first step warms up, and the last one is whole
        (
            "ProfilerStep#N",
            vec![(13_400, 3), (1_300, 1), (1_200, 1)],
            vec![None; 3],
        ),
        (
            "ProfilerStep#N",
            vec![(13_400, 3), (1_300, 1)],
            vec![None; 2],
        ),
        // a step in the middle is whole, however short
        (
            "ProfilerStep#N",
            vec![(900, 3), (30, 1), (800, 3)],
            vec![None; 3],
        ),
        ("ProfilerStep#N", vec![(900, 3), (100, 1)], vec![None; 2]),
        // in a run without devices, no step has device rows
        ("ProfilerStep#N", vec![(900, 0), (800, 0)], vec![None; 2]),
        ("ProfilerStep#N", vec![(30, 1)], vec![None]),
        // a decode may be that much shorter than a prefill
        (
            "execute_context_N(8)_generation_0(0)",
            vec![(9_000, 3), (50, 2)],
            vec![None; 2],
        ),
    ] {
        let analysis = analyzed(&draw_steps(names, &steps));
        let excluded: Vec<_> = analysis.steps.iter().map(|step| step.excluded).collect();
        assert_eq!(excluded, want, "{names} {steps:?}");
    }
    let analysis = analyzed(&draw_steps("ProfilerStep#N", &[(9_000, 3), (49, 0)]));
    let total = etlink_analysis::run_totals(std::iter::once(&analysis));
    let mut metrics = total.metrics.iter();
    let mean = metrics.find(|metric| metric.name == "avg_step_time");
    assert_eq!(mean.map(|mean| mean.value), Some(9e-3));
}

/// ```text
/// us        0         100       200       300       400
/// host      [aten::add]
/// calls        l
/// stream 7     . . . . . . . . [a========]             the stream was at work from before
/// ```
#[test]
fn a_device_that_is_at_earlier_work_is_so_from_the_begin_on() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::add", 0, 100 * US);
    let stream = DeviceQueue::stream(7);
    draw.launch(main, us(50, 51), stream, "a", us(300, 400));
    let analysis = analyzed(&draw);
    let [device] = &analysis.utilization[..] else {
        panic!("one device")
    };
    assert_eq!(
        (device.window_ns, device.before_recording_ns),
        (400_000, 300_000)
    );
    assert_eq!((device.busy_ns, device.idle_ns), (100_000, 0));
    assert_eq!(device.busy_share, Some(1.0));
}

/// ```text
/// us        0         100       200       300       400       500
/// calls      l  l
/// stream 7   [a==]           [b====]       (launched late)
/// stream 20      . . . . . . . . . .[c====]            first row: waits for b, not for what came
///                                                      before the recording
/// ```
#[test]
fn the_first_row_of_a_second_stream_waits_for_the_first_stream() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let (seven, twenty) = (DeviceQueue::stream(7), DeviceQueue::stream(20));
    draw.annotation(main, "ProfilerStep#1", 0, 500 * US);
    draw.launch(main, us(5, 6), seven, "a", us(10, 40));
    let id = draw.next_correlation();
    draw.call(main, "cudaLaunchKernel", us(20, 21), id);
    draw.launch(main, us(245, 246), seven, "b", us(250, 340));
    draw.kernel(twenty, "c", us(343, 400), id);
    let analysis = analyzed(&draw);
    let [device] = &analysis.utilization[..] else {
        panic!("one device")
    };
    assert_eq!((device.window_ns, device.before_recording_ns), (500_000, 0));
    assert_eq!(device.busy_ns, (30 + 90 + 57) * US);
}

#[test]
fn launches_and_collectives_are_of_the_steps() {
    let mut draw = TraceBuilder::default();
    draw.distributed(0, 2);
    let main = draw.thread();
    let (seven, twenty) = (DeviceQueue::stream(7), DeviceQueue::stream(20));
    draw.annotation(main, "ProfilerStep#1", 1_000 * US, 2_000 * US);
    for (number, begin) in [(0, 0), (1, 1_100)] {
        let at = |start: i64, end: i64| us(begin + start, begin + end);
        draw.launch(main, at(10, 11), seven, "a", at(20, 30));
        let mut comms = ParamComms::new("allreduce", 0..2, 0, number);
        (comms.in_elements, comms.out_elements) = (1_000, 1_000);
        let (start, end) = at(40, 60);
        draw.collective(main, &comms, start, end);
        let id = draw.next_correlation();
        draw.call(main, "cudaLaunchKernelExC", at(45, 50), id);
        draw.collective_kernel(twenty, "ncclDevKernel_AllReduce", at(60, 100), id, &comms);
    }
    let analysis = analyzed(&draw);
    let launches = analysis.launches.iter();
    let launches: Vec<_> = launches.map(|call| (call.calls, call.rows)).collect();
    assert_eq!(launches, [(1, 1), (1, 1)]);
    let ops: u64 = analysis.op_launches.iter().map(|op| op.calls).sum();
    assert_eq!(ops, 2, "{:?}", analysis.op_launches);
    let [all_reduce] = &analysis.collectives[..] else {
        panic!("one kind: {:?}", analysis.collectives)
    };
    assert_eq!((all_reduce.count, all_reduce.sum_ns), (1, 40_000));
}

/// ```text
/// us        0  2      10                  50     60
/// stream 7     [== a =][== event_wait ====][= b =]
/// ```
#[test]
fn a_row_that_only_waits_has_no_share() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let stream = DeviceQueue::stream(7);
    draw.launch(main, us(0, 1), stream, "a", us(2, 10));
    draw.kernel(stream, "event_wait", us(10, 50), None);
    draw.launch(main, us(20, 21), stream, "b", us(50, 52));
    let kernels = analyzed(&draw).kernels;
    let shares: Vec<_> = kernels
        .iter()
        .map(|kernel| (kernel.class, kernel.share))
        .collect();
    assert_eq!(
        shares,
        [
            (RowClass::Other, None),
            (RowClass::Computation, Some(0.8)),
            (RowClass::Computation, Some(0.2))
        ]
    );
}

/// ```text
/// us        0    10        1000                      7000 7010
/// host      [l]            [cudaLaunchKernel ============]
/// stream 7    [a==]                                       [b==]
/// ```
#[test]
fn a_launching_call_that_blocks_is_no_latency() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let stream = DeviceQueue::stream(7);
    draw.launch(main, us(0, 1), stream, "a", us(2, 20));
    // the module of `b` is loaded
    draw.launch(main, us(1_000, 7_000), stream, "b", us(7_010, 7_020));
    let analysis = analyzed(&draw);
    let [idle] = &analysis.idle[..] else {
        panic!("one device")
    };
    assert_eq!((idle.idle_ns, idle.host_late_ns), (6_992_000, 980_000));
    assert_eq!((idle.launch_call_ns, idle.launch_ns), (6_000_000, 10_000));
    let gap = &analysis.gaps[0];
    assert_eq!((gap.cause, gap.cause_ns), (GapCause::LaunchCall, 6_000_000));
    assert_eq!(gap.host.as_deref(), Some("cudaLaunchKernel"));
    // even if the call began while the device was still working
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, us(0, 1), stream, "a", us(2, 2_000));
    draw.launch(main, us(1_000, 7_000), stream, "b", us(7_010, 7_020));
    let idle = &analyzed(&draw).idle[0];
    assert_eq!((idle.launch_call_ns, idle.launch_ns), (5_000_000, 10_000));
    assert_eq!(idle.between_ns, 2_000, "before the first row");
}

/// ```text
/// us        0          100        200        300        400        500        600      1000
/// calls     l l  [copy ---------------------][l r w l]
/// stream 7  [quick ==] [queued =] [copy ====]  [long =============]
/// stream 20                                                        [waits ===]
/// ```
/// The program runs four times. Device times are on a clock that is `ahead` of the host's.
fn steps_by_clock(ahead: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let (seven, twenty) = (DeviceQueue::stream(7), DeviceQueue::stream(20));
    draw.op(main, "first", 0, US);
    for step in 1..5 {
        let host = |from: i64, to: i64| us(1_000 * step + from, 1_000 * step + to);
        let device = |from: i64, to: i64| {
            let (start, end) = host(from, to);
            (start + ahead, end + ahead)
        };
        draw.launch(main, host(0, 2), seven, "quick", device(0, 95));
        draw.launch(main, host(3, 5), seven, "queued", device(105, 195));
        let copy = draw.next_correlation();
        draw.call(main, "cudaMemcpy", host(10, 310), copy);
        let name = "Memcpy DtoH (Device -> Pageable)";
        draw.memcpy(seven, name, device(205, 310), copy, 64);
        draw.launch(main, host(320, 322), seven, "long", device(330, 500));
        let record = draw.next_correlation();
        draw.call(main, "cudaEventRecord", host(324, 325), record);
        let wait = draw.next_correlation();
        draw.call(main, "cudaStreamWaitEvent", host(326, 327), wait);
        let event = Some((7, record));
        draw.sync("Stream Wait Event", twenty, device(326, 327), wait, event);
        draw.launch(main, host(330, 332), twenty, "waits", device(503, 600));
    }
    draw.op(main, "last", 5_000 * US, 5_001 * US);
    draw
}

#[test]
fn causes_of_idle_time_are_by_one_clock() {
    let right = analyzed(&steps_by_clock(0));
    let [device] = &right.idle[..] else {
        panic!("one device")
    };
    // before the first program, between programs, after the last, and before each `long`
    let late = 1_000 + 3 * 400 + 401 + 4 * 10;
    assert_eq!(device.host_late_ns, late * US);
    let figures = |analysis: &etlink_analysis::RankAnalysis| {
        format!(
            "{:#?}\n{:#?}\n{:#?}\n{:#?}",
            analysis.idle, analysis.stream_idle, analysis.launches, analysis.queues
        )
    };
    for ahead in [-55, 9, 40] {
        let trace = linked(&steps_by_clock(ahead * US));
        let clocks = trace.report.device_clocks.iter();
        let found: Vec<i64> = clocks.map(|clock| clock.ahead_ns.0).collect();
        assert_eq!(found, [ahead * US]);
        let analysis = analyzed(&steps_by_clock(ahead * US));
        assert_eq!(figures(&analysis), figures(&right), "{ahead}");
    }
}

/// ```text
/// us        0    20   300       400       500       700       800
/// step        [ProfilerStep#1 -----------------------------------]
/// stream 7  [o]                 [o =======]         [b ======]
/// stream 8       [a ==]
/// ```
#[test]
fn what_nothing_explains_begins_where_the_known_causes_end() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let (seven, eight) = (DeviceQueue::stream(7), DeviceQueue::stream(8));
    draw.launch(main, us(0, 1), seven, "o", us(3, 8));
    draw.launch(main, us(4, 5), seven, "o", us(400, 500));
    draw.annotation(main, "ProfilerStep#1", 10 * US, 900 * US);
    draw.launch(main, us(12, 14), eight, "a", us(20, 300));
    draw.launch(main, us(16, 18), seven, "b", us(700, 800));
    let analysis = analyzed(&draw);
    let [device] = &analysis.idle[..] else {
        panic!("one device")
    };
    // `b` waits from 500 on, when `o` ends
    assert_eq!(
        (device.idle_ns, device.outside_ns, device.unexplained_ns),
        (300 * US, 0, 200 * US)
    );
}
