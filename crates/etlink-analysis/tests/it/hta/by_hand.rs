//! Compares with HTA's figures computed by hand.

use crate::hta::support::linked;
use etlink_analysis::hta::{HtaOptions, HtaTables, hta_tables};
use etlink_testing::{DeviceQueue, TraceBuilder};

const US: i64 = 1_000;

fn hta_of(draw: &TraceBuilder, settings: HtaOptions) -> HtaTables {
    hta_tables(linked(draw), settings)
}

/// ```text
/// us          0   2.3     5.8    8          12      15.2
/// stream 7        [gemm===]                 [copy===]        2.3-5.8 is 3-5, 12-15.2 is 12-15
/// stream 20           [nccl======]                           4.1-8 is 5-8
/// ```
fn draw() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(
        main,
        (US / 2, US),
        DeviceQueue::stream(7),
        "gemm",
        (2_300, 5_800),
    );
    draw.launch(
        main,
        (1_500, 2 * US),
        DeviceQueue::stream(20),
        "ncclDevKernel_AllReduce",
        (4_100, 8_000),
    );
    let id = draw.next_correlation();
    draw.call(main, "cudaMemcpyAsync", (10_500, 11_000), id);
    draw.memcpy(
        DeviceQueue::stream(7),
        "Memcpy HtoD (Pageable -> Device)",
        (12_000, 15_200),
        id,
        40_000,
    );
    draw
}

#[test]
fn times_lose_what_is_no_whole_microsecond() {
    let tables = hta_of(&draw(), HtaOptions::default());
    let time = &tables.temporal_breakdown[0];
    // The window is 3 to 15; 3-8 touches, then 12-15.
    assert_eq!(
        (
            time.kernel_time,
            time.idle_time,
            time.compute_time,
            time.non_compute_time
        ),
        (12.0, 4.0, 2.0, 6.0)
    );
    assert_eq!(
        (
            time.idle_time_pctg,
            time.compute_time_pctg,
            time.non_compute_time_pctg
        ),
        (33.33, 16.67, 50.0)
    );
    // gemm ends at 5, where nccl begins.
    assert_eq!(
        tables.comm_comp_overlap[0].comp_comm_overlap_pctg,
        Some(0.0)
    );
    let exact = hta_of(
        &draw(),
        HtaOptions {
            nanoseconds: true,
            ..HtaOptions::default()
        },
    );
    let time = &exact.temporal_breakdown[0];
    assert_eq!(
        (
            time.kernel_time,
            time.idle_time,
            time.compute_time,
            time.non_compute_time
        ),
        (12.9, 4.0, 3.5, 5.4)
    );
    assert_eq!(
        exact.comm_comp_overlap[0].comp_comm_overlap_pctg,
        Some(43.59)
    );
    let types: Vec<_> = exact
        .kernel_type_breakdown
        .iter()
        .map(|one| (one.kernel_type.as_str(), one.sum, one.percentage))
        .collect();
    assert_eq!(
        types,
        [
            ("MEMORY", 3.0, 42.9),
            ("COMMUNICATION", 2.0, 28.6),
            ("COMPUTATION", 1.0, 14.3),
            ("COMPUTATION overlapping COMMUNICATION", 1.0, 14.3)
        ],
        "also then HTA makes each piece of time whole microseconds here"
    );
}

#[test]
fn rows_shorter_than_a_microsecond_have_a_negative_length() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(
        main,
        (0, 500),
        DeviceQueue::stream(7),
        "short",
        (2_200, 2_700),
    );
    draw.launch(
        main,
        (600, 900),
        DeviceQueue::stream(7),
        "short",
        (4_300, 5_100),
    );
    let tables = hta_of(&draw, HtaOptions::default());
    let [kernel] = &tables.kernel_breakdown[..] else {
        panic!("one name")
    };
    // 2.2-2.7 becomes 3 to 2; 4.3-5.1 becomes 5 to 5.
    assert_eq!(
        (
            kernel.stats.sum,
            kernel.stats.min,
            kernel.stats.max,
            kernel.stats.mean
        ),
        (-1.0, -1.0, 0.0, -0.5)
    );
    assert!((kernel.stats.stddev - 0.5f64.sqrt()).abs() < 1e-12);
    let time = &tables.temporal_breakdown[0];
    assert_eq!(
        (time.kernel_time, time.compute_time, time.idle_time),
        (2.0, -1.0, 3.0)
    );
}

#[test]
fn idle_time_by_when_the_call_began() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for (call, start, end) in [(0, 2, 10), (3, 12, 20), (25, 28, 30), (26, 90, 95)] {
        draw.launch(
            main,
            (call * US, call * US + 500),
            DeviceQueue::stream(7),
            "k",
            (start * US, end * US),
        );
    }
    let found: Vec<_> = hta_of(&draw, HtaOptions::default())
        .idle_time_breakdown
        .iter()
        .map(|idle| (idle.idle_category, idle.idle_time))
        .collect();
    // 10-12 was launched in time, 20-28 late, 30-90 in time but exceeds 30 µs.
    assert_eq!(
        found,
        [("host_wait", 8.0), ("kernel_wait", 2.0), ("other", 60.0)]
    );
}

#[test]
fn the_last_step_is_left_out() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..3 {
        let at = 100 * step * US;
        draw.annotation(
            main,
            &format!("ProfilerStep#{}", step + 5),
            at,
            at + 90 * US,
        );
        draw.launch(
            main,
            (at + US, at + 2 * US),
            DeviceQueue::stream(7),
            "k",
            (at + 10 * US, at + 20 * US),
        );
    }
    // Lost in any case: no call has its id.
    draw.kernel(DeviceQueue::stream(7), "stray", (40 * US, 45 * US), 77);
    let steps = |settings| {
        let tables = hta_of(&draw, settings);
        let steps: Vec<u64> = tables.profiler_steps.iter().map(|step| step.step).collect();
        (
            steps,
            tables.temporal_breakdown[0].compute_time,
            tables.cuda_kernel_launch_stats.len(),
        )
    };
    assert_eq!(steps(HtaOptions::default()), (vec![5, 6], 20.0, 2));
    assert_eq!(
        steps(HtaOptions {
            include_last: true,
            ..HtaOptions::default()
        }),
        (vec![5, 6, 7], 30.0, 3)
    );
}

#[test]
fn queue_and_bandwidth_over_samples() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for (call, start) in [(0, 4), (1, 8)] {
        draw.launch(
            main,
            (call * US, call * US + 500),
            DeviceQueue::stream(7),
            "k",
            (start * US, (start + 1) * US),
        );
    }
    let id = draw.next_correlation();
    draw.call(main, "cudaMemcpyAsync", (20 * US, 21 * US), id);
    draw.memcpy(
        DeviceQueue::stream(9),
        "Memcpy DtoH (Device -> Pageable)",
        (22 * US, 24 * US),
        id,
        64,
    );
    let tables = hta_of(&draw, HtaOptions::default());
    // The lengths are 1 2 1 0.
    let queue = &tables.queue_length_summary[0];
    assert_eq!(
        (
            queue.queue_length_count,
            queue.queue_length_mean,
            queue.queue_length_max,
            queue.queue_length_50
        ),
        (4.0, 1.0, 2.0, 1.0)
    );
    let bandwidth = &tables.memory_bw_summary[0];
    assert_eq!(
        (
            bandwidth.name.as_str(),
            bandwidth.memory_bw_gbps_count,
            bandwidth.memory_bw_gbps_mean
        ),
        ("Memcpy DtoH", 1.0, 12.5)
    );
    assert_eq!(bandwidth.memory_bw_gbps_std, None);
    let launches: Vec<_> = tables
        .cuda_kernel_launch_stats
        .iter()
        .map(|one| (one.cpu_duration, one.gpu_duration, one.launch_delay))
        .collect();
    // 0 to 0.5 µs becomes 0 to 0.
    assert_eq!(
        launches,
        [(0.0, 1.0, 4.0), (0.0, 1.0, 7.0), (1.0, 2.0, 1.0)]
    );
}

#[test]
fn what_hta_takes_for_device_rows() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(
        main,
        (0, US),
        DeviceQueue::stream(7),
        "multimem_all_reduce",
        (2 * US, 4 * US),
    );
    let triton = draw.op(main, "triton_poi_fused_0", 10 * US, 16 * US);
    draw.arg(triton, "stream", "0");
    let wait = draw.next_correlation();
    draw.call(main, "cudaStreamSynchronize", (20 * US, 30 * US), wait);
    draw.sync(
        "Stream Sync",
        DeviceQueue::stream(7),
        (20 * US, 30 * US),
        wait,
        None,
    );
    let tables = hta_of(&draw, HtaOptions::default());
    let time = &tables.temporal_breakdown[0];
    // The op is computation, the wait is work.
    assert_eq!(
        (
            time.kernel_time,
            time.compute_time,
            time.non_compute_time,
            time.idle_time
        ),
        (28.0, 8.0, 10.0, 10.0)
    );
}
