//! Compares with the data of HTA's Python class, computed by hand.

use crate::hta::support::linked;
use etlink_analysis::hta::{HtaOptions, HtaTables, HtaTrace, RANK_TABLES, StragglerQuery};
use etlink_testing::{DeviceQueue, TraceBuilder};

const US: i64 = 1_000;

/// Tables to which HTA's Python class applies arguments.
const DETAILS: [&str; 6] = [
    "idle_intervals",
    "launches",
    "kernel_types_without_memory",
    "annotations_gpu",
    "annotations_cpu",
    "extent",
];

fn in_detail(trace: etlink_link::LinkedTrace) -> HtaTables {
    let names = [RANK_TABLES, &DETAILS].concat();
    HtaTrace::new(trace, HtaOptions::default()).tables(&names)
}

/// ```text
/// us          0    10    20        30         40    50
/// stream 7         [gemm=]         [copy======]
/// ```
fn kernel_and_copy() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let stream = DeviceQueue::stream(7);
    draw.launch(main, (US, 2 * US), stream, "gemm", (10 * US, 20 * US));
    let id = draw.next_correlation();
    draw.call(main, "cudaMemcpyAsync", (22 * US, 25 * US), id);
    let copy = "Memcpy HtoD (Pinned -> Device)";
    draw.memcpy(stream, copy, (30 * US, 40 * US), id, 4_000);
    draw
}

#[test]
fn gaps_and_launches_before_any_argument() {
    let tables = in_detail(linked(&kernel_and_copy()));
    let gaps = tables.idle_intervals.iter();
    let gaps: Vec<_> = gaps
        .map(|gap| (gap.stream, gap.idle_interval, gap.host_wait))
        .collect();
    // The first row has no previous gap; the copy was called after the kernel had ended.
    assert_eq!(gaps, [(7, None, false), (7, Some(10.0), true)]);
    let launches: Vec<_> = tables.launches.iter().map(|one| one.is_memory).collect();
    assert_eq!(launches, [false, true]);
    let launches: Vec<_> = tables.launches.iter().map(|one| &one.launch).collect();
    let stats: Vec<_> = tables.cuda_kernel_launch_stats.iter().collect();
    assert_eq!(launches, stats);
    let types = tables.kernel_types_without_memory.iter();
    let types: Vec<_> = types.map(|one| (&one.kernel_type[..], one.sum)).collect();
    assert_eq!(types, [("COMPUTATION", 10.0)]);
    let extent = &tables.extent[0];
    assert_eq!((extent.first_start, extent.duration), (Some(1.0), 29.0));
}

#[test]
fn every_table_is_found_by_its_name() {
    let blank = HtaTables::blank();
    for name in RANK_TABLES.iter().chain(&DETAILS) {
        assert_eq!(shown(&blank, name).len(), 1, "{name}");
    }
    assert!(blank.records("no_such_table").is_none());
}

/// Records of a table, as printed.
fn shown(tables: &HtaTables, name: &str) -> Vec<serde_json::Value> {
    let records = tables.records(name).expect(name);
    records.map(|record| record.expect("JSON")).collect()
}

#[test]
fn a_table_alone_is_that_among_all() {
    let draw = kernel_and_copy();
    let all = in_detail(linked(&draw));
    let loaded = HtaTrace::new(linked(&draw), HtaOptions::default());
    for name in RANK_TABLES.iter().chain(&DETAILS) {
        assert_eq!(
            shown(&loaded.tables(&[name]), name),
            shown(&all, name),
            "{name}"
        );
    }
    let one = loaded.tables(&["temporal_breakdown"]);
    assert!(shown(&one, "kernel_breakdown").is_empty());
    assert_eq!(shown(&all, "kernel_breakdown").len(), 2);
}

/// HTA ignores `tid`: MTIA rows without `stream` belong to no device.
#[test]
fn rows_that_do_not_say_their_stream_are_left_out() {
    let row = |tid: u32, args: &str| {
        format!(
            r#"{{"ph": "X", "cat": "mtia_ccp_events", "name": "dma_request", "pid": 9,
                "tid": {tid}, "ts": {tid}, "dur": 5, "args": {{{args}}}}}"#
        )
    };
    let rows = [row(4, r#""stream": 1"#), row(801, r#""size": 16"#)];
    let text = format!(r#"{{"traceEvents": [{}]}}"#, rows.join(","));
    let options = etlink_formats::kineto::KinetoReadOptions::default();
    let device = etlink_formats::kineto::read(text.as_bytes(), options).expect("reads");
    let trace = etlink_link::link(None, device, Default::default()).expect("links");
    let tables = in_detail(trace);
    assert_eq!(tables.temporal_breakdown[0].kernel_time, 5.0);
    // They are still events of the trace.
    assert_eq!(tables.extent[0].duration, 797.0);
}

/// Draws a rank; rank 0 starts its communication of step 1 last, rank 1 its communication of step
/// 2.
fn rank(rank: i64) -> HtaTables {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in [1, 2, 3] {
        let begin = i64::from(step) * 1_000 * US;
        draw.annotation(
            main,
            &format!("ProfilerStep#{step}"),
            begin,
            begin + 900 * US,
        );
        let late = if rank + 1 == i64::from(step) { 200 } else { 0 };
        let start = begin + (100 + late) * US;
        let stream = DeviceQueue::stream(20);
        let name = "ncclKernel_AllReduce";
        draw.launch(
            main,
            (begin + US, begin + 2 * US),
            stream,
            name,
            (start, begin + 800 * US),
        );
    }
    let settings = HtaOptions {
        rank: Some(rank),
        ..HtaOptions::default()
    };
    etlink_analysis::hta::hta_tables(linked(&draw), settings)
}

#[test]
fn stragglers_of_some_steps() {
    let ranks = [rank(0), rank(1)];
    let of_step = |step| {
        let query = StragglerQuery {
            steps: Some([step].into()),
            candidates: 1,
        };
        let found = etlink_analysis::hta::potential_stragglers(ranks.iter(), &query);
        found.iter().map(|one| one.straggler).collect::<Vec<_>>()
    };
    assert_eq!(of_step(1), [0]);
    assert_eq!(of_step(2), [1]);
    assert_eq!(of_step(7), [] as [i64; 0]);
}
