//! Compares with the results of HTA itself (traceinsight 0.6.1, pandas 2.2.3) for drawn traces.
//!
//! To run HTA again: `HTA_DRAWN=DIR cargo test -p etlink-analysis --test it drawn_without_damage` writes
//! the traces, `cargo dev hta --traces DIR` compares.

use crate::hta::support::linked;
use etlink_analysis::hta::{
    HtaOptions, HtaRunTables, HtaTables, NameStats, hta_tables, run_tables,
};
use etlink_model::Severity;
use etlink_testing::{DeviceQueue, TraceBuilder};
use std::path::Path;

const US: i64 = 1_000;

fn hta_of(draw: &TraceBuilder, settings: HtaOptions) -> HtaTables {
    hta_tables(linked(draw), settings)
}

fn stats(all: &[NameStats]) -> Vec<(&str, f64, f64, f64, f64, f64)> {
    all.iter()
        .map(|one| {
            (
                one.name.as_str(),
                one.sum,
                one.max,
                one.min,
                (one.stddev * 1e3).round() / 1e3,
                one.mean,
            )
        })
        .collect()
}

/// The traces given to HTA contain nothing that a reader would have to repair.
#[test]
fn drawn_without_damage() {
    let alone = [
        ("names", names()),
        ("annotations", annotations()),
        ("full_queue", full_queue()),
        ("ties", ties()),
    ];
    let ranks = (0..3).map(|rank| (format!("rank{rank}"), late_rank(rank)));
    for (name, draw) in alone
        .into_iter()
        .map(|(name, draw)| (name.to_owned(), draw))
        .chain(ranks)
    {
        let damage = linked(&draw)
            .report
            .anomalies
            .iter()
            .filter(|(kind, _)| kind.severity() == Severity::Damage)
            .count();
        assert_eq!(damage, 0, "{name}");
        if let Some(folder) = std::env::var_os("HTA_DRAWN") {
            std::fs::write(
                Path::new(&folder).join(format!("{name}.json")),
                draw.kineto(),
            )
            .expect("a folder that can be written");
        }
    }
}

/// Draws twelve kernels, k0 the longest, k11 twice.
fn names() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for at in 0..13 {
        let (name, start, length) = (format!("k{}", at.min(11)), 1_000 * at, 200 - 10 * at);
        draw.launch(
            main,
            (start * US, (start + 5) * US),
            DeviceQueue::stream(7),
            &name,
            ((start + 10) * US, (start + 10 + length) * US),
        );
    }
    draw
}

/// `others` are k8, k9 and k10, at which the running sum exceeds its 80 % quantile; their figures
/// are figures of sums.
#[test]
fn names_beyond_the_first_ten_are_others() {
    let tables = hta_of(&names(), HtaOptions::default());
    assert_eq!(tables.kernel_breakdown.len(), 12);
    let folded: Vec<NameStats> = tables
        .kernel_breakdown_top10
        .into_iter()
        .map(|kernel| kernel.stats)
        .collect();
    let alone = |name, sum| (name, sum, sum, sum, 0.0, sum);
    let mut found = stats(&folded);
    assert_eq!(
        found.remove(0),
        ("others", 330.0, 120.0, 100.0, 10.0, 110.0)
    );
    let rest = [
        ("k0", 200.0),
        ("k1", 190.0),
        ("k2", 180.0),
        ("k11", 170.0),
        ("k3", 170.0),
        ("k4", 160.0),
        ("k5", 150.0),
        ("k6", 140.0),
        ("k7", 130.0),
    ];
    assert_eq!(found, rest.map(|(name, sum)| alone(name, sum)));
}

/// HTA's test for names to keep is a sum below 0, which rounding creates.
#[test]
fn names_with_a_sum_below_0_are_no_others() {
    let mut draw = names();
    let main = draw.thread();
    let stream = DeviceQueue::stream(7);
    let begin = 20_000 * US;
    // 10.2 to 10.4 µs becomes 11 to 10.
    let row = (begin + 10_200, begin + 10_400);
    draw.launch(main, (begin, begin + 5 * US), stream, "short", row);
    let tables = hta_of(&draw, HtaOptions::default());
    let folded = tables.kernel_breakdown_top10.iter();
    let names: Vec<&str> = folded.map(|kernel| &kernel.stats.name[..]).collect();
    assert!(
        names.contains(&"short") && names.contains(&"others"),
        "{names:?}"
    );
}

/// ```text
/// host     [ProfilerStep#1 [fwd] [fwd]][ProfilerStep#2 [fwd]     ]
/// device      [ProfilerStep#1  ]           [ProfilerStep#2    ]
/// ```
fn annotations() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for (step, start) in [(1, 0), (2, 100), (3, 200)] {
        draw.annotation(
            main,
            &format!("ProfilerStep#{step}"),
            start * US,
            (start + 90) * US,
        );
        draw.annotation(main, "fwd", (start + 5) * US, (start + 25 + step) * US);
        draw.launch(
            main,
            ((start + 10) * US, (start + 15) * US),
            DeviceQueue::stream(7),
            "k",
            ((start + 30) * US, (start + 60) * US),
        );
        for (name, from, to) in [
            (format!("ProfilerStep#{step}"), 30, 60),
            ("fwd".to_owned(), 30, 50 + step),
        ] {
            let (ts, dur) = (start + from, to - from);
            draw.raw(&format!(
                concat!(
                    r#"{{"ph": "X", "cat": "gpu_user_annotation", "name": "{name}", "#,
                    r#""pid": 0, "tid": 7, "ts": {ts}.000, "dur": {dur}.250, "#,
                    r#""args": {{"External id": 1}}}}"#,
                ),
                name = name,
                ts = ts,
                dur = dur
            ));
        }
    }
    draw
}

#[test]
fn annotations_of_hosts_and_devices() {
    let tables = hta_of(&annotations(), HtaOptions::default());
    let step = |number: &'static str, sum| (number, sum, sum, sum, 0.0, sum);
    let (one, two, three) = ("ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3");
    // The last step begins with its range on the device; its host work before that is kept.
    let host = [
        step(one, 90.0),
        step(two, 90.0),
        step(three, 90.0),
        ("fwd", 66.0, 23.0, 21.0, 1.0, 22.0),
    ];
    assert_eq!(stats(&tables.user_annotation_breakdown_cpu), host);
    let device = [
        ("fwd", 43.0, 22.0, 21.0, 0.707, 21.5),
        step(one, 30.0),
        step(two, 30.0),
    ];
    assert_eq!(stats(&tables.user_annotation_breakdown_gpu), device);
    let all = hta_of(
        &annotations(),
        HtaOptions {
            include_last: true,
            ..HtaOptions::default()
        },
    );
    let device = [
        ("fwd", 66.0, 23.0, 21.0, 1.0, 22.0),
        step(one, 30.0),
        step(two, 30.0),
        step(three, 30.0),
    ];
    assert_eq!(stats(&all.user_annotation_breakdown_gpu), device);
}

/// Draws 1,100 launches, one per microsecond, before the first kernel begins.
fn full_queue() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for at in 0..1_100 {
        draw.launch(
            main,
            (at * US, at * US + 500),
            DeviceQueue::stream(7),
            "k",
            ((2_000 + 2 * at) * US, (2_001 + 2 * at) * US),
        );
    }
    draw
}

#[test]
fn time_at_a_full_queue() {
    let tables = hta_of(&full_queue(), HtaOptions::default());
    let [blocked] = &tables.blocked_on_full_queue[..] else {
        panic!("one stream: {:?}", tables.blocked_on_full_queue)
    };
    assert_eq!(
        (blocked.stream, blocked.duration_at_max_queue_length),
        (7, 1129.0)
    );
    assert!((blocked.relative_duration_at_max_queue_length - 0.26893758932825157).abs() < 1e-12);
}

/// Draws a kernel that begins as a copy ends; a Triton op has a stream in the first of two steps.
fn ties() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for (step, start) in [(1, 0), (2, 100)] {
        draw.annotation(
            main,
            &format!("ProfilerStep#{step}"),
            start * US,
            (start + 90) * US,
        );
        let id = draw.next_correlation();
        draw.call(
            main,
            "cudaMemcpyAsync",
            ((start + 2) * US, (start + 4) * US),
            id,
        );
        draw.memcpy(
            DeviceQueue::stream(9),
            "Memcpy HtoD (Pageable -> Device)",
            ((start + 5) * US, (start + 20) * US),
            id,
            64,
        );
        draw.launch(
            main,
            ((start + 10) * US, (start + 15) * US),
            DeviceQueue::stream(7),
            "gemm",
            ((start + 20) * US, (start + 40) * US),
        );
        let triton = draw.op(
            main,
            "triton_poi_fused_0",
            (start + 50) * US,
            (start + 56) * US,
        );
        draw.arg(triton, "stream", "0");
    }
    draw
}

#[test]
fn types_that_meet_and_ops_with_a_stream() {
    let tables = hta_of(&ties(), HtaOptions::default());
    let types: Vec<_> = tables
        .kernel_type_breakdown
        .iter()
        .map(|one| (one.kernel_type.as_str(), one.sum))
        .collect();
    assert_eq!(
        types,
        [
            ("COMPUTATION", 26.0),
            ("MEMORY", 15.0),
            ("COMPUTATION overlapping MEMORY", 0.0)
        ]
    );
}

/// Draws a rank with two steps; rank 2 begins the communication of both last, rank 1 that of the
/// second before it.
fn late_rank(rank: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 3);
    let main = draw.thread();
    for (step, start, late) in [(1, 0, [0, 1, 6]), (2, 200, [0, 4, 5]), (3, 400, [0, 0, 0])] {
        draw.annotation(
            main,
            &format!("ProfilerStep#{step}"),
            start * US,
            (start + 190) * US,
        );
        let begin = start + 20 + late[rank as usize];
        draw.launch(
            main,
            ((start + 5) * US, (start + 9) * US),
            DeviceQueue::stream(20),
            "ncclKernel_AllReduce_RING_LL",
            (begin * US, (start + 90) * US),
        );
        // These durations differ less.
        let begin = start + 100 - 2 * rank;
        draw.launch(
            main,
            ((start + 6) * US, (start + 9) * US),
            DeviceQueue::stream(20),
            "ncclKernel_AllGather",
            (begin * US, (start + 120) * US),
        );
        // Short kernels do not count.
        draw.launch(
            main,
            ((start + 7) * US, (start + 9) * US),
            DeviceQueue::stream(21),
            "ncclKernel_Broadcast",
            ((start + 130) * US, (start + 131) * US),
        );
    }
    draw
}

#[test]
fn ranks_that_start_last() {
    let ranks: Vec<HtaTables> = (0..3)
        .map(|rank| hta_of(&late_rank(rank), HtaOptions::default()))
        .collect();
    let HtaRunTables {
        potential_stragglers,
        kernel_type_breakdown,
        profiler_steps,
    } = run_tables(ranks.iter());
    assert_eq!(
        potential_stragglers
            .iter()
            .map(|one| one.straggler)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(
        kernel_type_breakdown
            .iter()
            .map(|one| (one.kernel_type.as_str(), one.sum))
            .collect::<Vec<_>>(),
        [("COMMUNICATION", 542.0)]
    );
    assert_eq!(
        profiler_steps
            .iter()
            .map(|one| one.step)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(
        run_tables(ranks.iter().take(1)).potential_stragglers,
        [],
        "nobody to compare with"
    );
    // Times of all ranks count from the first event of all ranks.
    let mut aligned = ranks.clone();
    etlink_analysis::hta::align_series(aligned.iter_mut());
    let first_times = |ranks: &[HtaTables]| -> Vec<f64> {
        let series = ranks.iter().map(|rank| &rank.queue_length_series);
        series.map(|series| series[0].ts).collect()
    };
    let (own, common) = (first_times(&ranks), first_times(&aligned));
    assert_eq!(own[0], common[0]);
    let later: Vec<f64> = (0..3).map(|rank| common[rank] - own[rank]).collect();
    assert!(later.iter().all(|later| *later >= 0.0), "{later:?}");
}

/// The call that launched the file's first event is not counted as a launch, as in a trace of 2021
/// that begins with a kernel.
#[test]
fn the_first_event_has_no_number() {
    let event = |cat: &str, name: &str, stream: &str, ts: i64, id: i64| {
        format!(
            concat!(
                r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": 0, "tid": 7, "#,
                r#""ts": {ts}, "dur": 2, "args": {{{stream} "correlation": {id}}}}}"#,
            ),
            cat = cat,
            name = name,
            ts = ts,
            stream = stream,
            id = id
        )
    };
    let stream = r#""device": 0, "stream": 7,"#;
    let events = [
        event("Kernel", "k", stream, 20, 1),
        event("Runtime", "cudaLaunchKernel", "", 10, 1),
        event("Runtime", "cudaLaunchKernel", "", 14, 2),
        event("Kernel", "k", stream, 30, 2),
    ];
    let text = format!(r#"{{"traceEvents": [{}]}}"#, events.join(","));
    let device = etlink_formats::kineto::read(
        text.as_bytes(),
        etlink_formats::kineto::KinetoReadOptions::default(),
    )
    .expect("reads");
    let trace =
        etlink_link::link(None, device, etlink_link::LinkOptions::default()).expect("links");
    let queues = hta_tables(trace, HtaOptions::default()).queue_length_summary;
    assert_eq!(
        queues
            .iter()
            .map(|one| (one.queue_length_count, one.queue_length_max))
            .collect::<Vec<_>>(),
        [(2.0, 1.0)]
    );
}

/// Draws two kernels with CUPTI counters, launched in an op inside another.
fn draw_counted(ranges: usize) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "step", 0, 100 * US);
    draw.op(main, "aten::conv2d", US, 40 * US);
    draw.op(main, "aten::convolution", 2 * US, 39 * US);
    for start in [10 * US, 20 * US] {
        let id = draw.next_correlation();
        draw.call(main, "cudaLaunchKernel", (start, start + US), id);
    }
    for range in 0..ranges {
        draw.raw(&format!(
            r#"{{"ph": "X", "cat": "cuda_profiler_range", "name": "k{range}", "pid": 0,
                "tid": 0, "ts": {start}, "dur": 4, "args": {{"sm__a b.sum": {value}.5,
                "sm__cycles.avg": "7"}}}}"#,
            start = 30 + 10 * range,
            value = range + 1,
        ));
    }
    draw
}

#[test]
fn counters_of_kernels_have_the_ops_of_their_launches() {
    let counters = hta_of(&draw_counted(2), HtaOptions::default()).cupti_counters;
    let said: Vec<_> = counters
        .iter()
        .map(|one| {
            (
                one.kernel,
                &one.name[..],
                one.ts,
                &one.counter[..],
                one.value,
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            (0, "k0", 30.0, "sm__a b.sum", 1.5),
            (0, "k0", 30.0, "sm__cycles.avg", 7.0),
            (1, "k1", 40.0, "sm__a b.sum", 2.5),
            (1, "k1", 40.0, "sm__cycles.avg", 7.0),
        ]
    );
    for one in &counters {
        let ops = (&one.top_level_op[..], &one.bottom_level_op[..]);
        assert_eq!(ops, ("aten::conv2d", "aten::convolution"));
        assert_eq!(one.op_stack, "aten::conv2d > aten::convolution");
    }
    // HTA returns nothing if it cannot pair them.
    let unpaired = hta_of(&draw_counted(3), HtaOptions::default());
    assert_eq!(unpaired.cupti_counters, []);
}

#[test]
fn series_are_what_their_summaries_are_of() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 5 * US);
    let stream = DeviceQueue::stream(7);
    draw.launch(main, (US, 2 * US), stream, "k", (10 * US, 20 * US));
    draw.launch(main, (3 * US, 4 * US), stream, "k", (20 * US, 30 * US));
    let id = draw.next_correlation();
    draw.call(main, "cudaMemcpyAsync", (4 * US, 5 * US), id);
    let copy = "Memcpy HtoD (Pinned -> Device)";
    draw.memcpy(stream, copy, (30 * US, 40 * US), id, 4_000);
    let tables = hta_of(&draw, HtaOptions::default());
    let lengths: Vec<_> = tables
        .queue_length_series
        .iter()
        .map(|one| (one.ts, one.stream, one.queue_length))
        .collect();
    let expected = [
        (1.0, 1),
        (3.0, 2),
        (4.0, 3),
        (10.0, 2),
        (20.0, 1),
        (30.0, 0),
    ];
    assert_eq!(lengths, expected.map(|(ts, length)| (ts, 7, length)));
    let bandwidths: Vec<_> = tables
        .memory_bw_series
        .iter()
        .map(|one| (one.ts, &one.name[..], one.memory_bw_gbps))
        .collect();
    assert_eq!(
        bandwidths,
        [(30.0, "Memcpy HtoD", 12.5), (40.0, "Memcpy HtoD", 0.0)]
    );
}
