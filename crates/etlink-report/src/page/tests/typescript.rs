//! The script's types against what the crate writes.
//!
//! `web/src/data.sample.ts` holds the values of a page of two ranks, as serde writes them, and says
//! that they have the types of `web/src/data.ts`. A test here keeps the values as they are written
//! today; `tsc`, which `cargo dev web` runs, keeps the types: it refuses a key that a type has and
//! the values lack, a key that the values have and a type lacks, and a value of another type.
//! Records of tables may have more fields than their types name: the page shows all of them.

#![expect(clippy::disallowed_methods, reason = "the sample is a file")]

use super::*;
use etlink_link::ranks::{RankSummary, align_clocks, join_ranks};
use etlink_testing::ParamComms;
use serde_json::json;
use std::fmt::Write;

/// A step with a kernel, a collective, an allocation and an event that is damaged. Rank 1 comes
/// last to the collective.
fn one_step(rank: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 500_000);
    draw.op(main, "aten::mm", 10_000, 60_000);
    let stream = DeviceQueue::stream(7);
    draw.launch(
        main,
        (20_000, 26_000),
        stream,
        "sm80_gemm_f16",
        (40_000, 140_000),
    );
    let comms = ParamComms::new("allreduce", 0..2, rank, 1);
    let correlation = draw.next_correlation();
    draw.op(main, "nccl:all_reduce", 115_000, 140_000);
    draw.call(main, "cudaLaunchKernelExC", (120_000, 126_000), correlation);
    draw.collective_kernel(
        DeviceQueue::stream(20),
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        (160_000 + 30_000 * rank, 330_000),
        correlation,
        &comms,
    );
    draw.raw(
        r#"{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1000,
            "tid": 1000, "ts": 12.0, "args": {"Total Reserved": 8192, "Total Allocated": 4096,
            "Bytes": 1024, "Device Id": 0, "Device Type": 1}}"#,
    );
    draw.raw(
        r#"{"ph": "X", "cat": "cpu_op", "name": "aten::damaged", "pid": 1000, "tid": 1000,
            "ts": 300.0, "dur": -5.0}"#,
    );
    draw
}

/// The page's values and its timelines: of all ranks, then of rank 0.
fn sample() -> (Value, Vec<Value>) {
    let rules = KernelRules::built_in().expect("rules");
    let traces: Vec<LinkedTrace> = (0..2).map(|rank| linked(&one_step(rank))).collect();
    let summaries: Vec<RankSummary> = traces
        .iter()
        .zip(0..)
        .map(|(trace, rank)| RankSummary::from_trace(trace, rank))
        .collect();
    let join = join_ranks(&summaries);
    let clocks = align_clocks(&summaries, &join);
    let options = Options {
        memory_timeline: true,
        ..Options::default()
    };
    let mut ranks = vec![];
    for (place, trace) in traces.iter().enumerate() {
        let mut analysis = analyze(trace, &rules, &options);
        let points = std::mem::take(&mut analysis.memory_timeline);
        let (graph, run) = ran(trace);
        let path = etlink_replay::critical_path(&graph, &run);
        ranks.push(ReportRank {
            label: place.to_string(),
            device_trace: format!("kineto_trace_{place}.json"),
            host_trace: None,
            device: None,
            analysis,
            memory_charts: memory_charts(&points, 100),
            link: Some(trace.report.clone()),
            figures: Some(etlink_replay::replay_figures(&graph, trace, &run)),
            critical_path: Some(PathReport {
                steps: vec![],
                ..PathReport::new(&graph, trace, &run, &path)
            }),
        });
    }
    let stats = RankStats::new(&summaries, &join, clocks.clone());
    let page = ReportPage {
        title: "a sample",
        ranks: &ranks,
        total: &run_totals(ranks.iter().map(|rank| &rank.analysis)),
        met: Some(&stats),
        timelines: &[],
        notes: &["a note".to_owned()],
    };
    let data = page_data(&page, 1, 1).expect("values");
    let mut data = serde_json::to_value(data).expect("JSON");
    // else each release would change the sample
    data["written_by"] = json!("etlink");
    let of_all = RunTimeline::new(&summaries, &join, &clocks, Some("ProfilerStep#1")).timeline(100);
    let of_one = drawn(&traces[0], (0, 1_000_000_000), 100);
    let timelines = [of_all, of_one].map(|timeline| serde_json::to_value(timeline).expect("JSON"));
    (data, timelines.to_vec())
}

/// Arrays without elements say nothing of the types of these.
#[test]
fn the_sample_has_an_element_of_each_kind() {
    let (data, timelines) = sample();
    let filled = [
        "/cards",
        "/ranks",
        "/ranks/0/breakdown",
        "/ranks/0/steps",
        "/ranks/0/memory",
        "/ranks/0/memory_charts",
        "/ranks/0/link/anomalies",
        "/total/kernels",
        "/cut",
        "/met/clocks",
        "/met/ranks",
        "/met/skews",
        "/met/late/first",
    ];
    for path in filled {
        let values = data.pointer(path).and_then(Value::as_array);
        assert!(values.is_some_and(|values| !values.is_empty()), "{path}");
    }
    let joints = timelines[0].pointer("/joints").and_then(Value::as_array);
    assert!(joints.is_some_and(|joints| !joints.is_empty()));
    let waits = timelines[1].pointer("/deps/to").and_then(Value::as_array);
    assert!(waits.is_some_and(|waits| !waits.is_empty()));
}

/// `INSTA_UPDATE=always` writes the file, as it does with the goldens.
#[test]
fn the_sample_is_what_the_crate_writes() {
    let (data, timelines) = sample();
    let mut text = "// Written by a test of the crate: INSTA_UPDATE=always cargo test -p \
                    etlink-report typescript\n"
        .to_owned();
    let data = serde_json::to_string_pretty(&data).expect("JSON");
    let timelines = serde_json::to_string_pretty(&timelines).expect("JSON");
    text += "import type { Data, Packed } from \"./data\";\n\n";
    let _ = writeln!(
        text,
        "export const DATA = {data} satisfies Omit<Data, \"timelines\">;\n"
    );
    let _ = writeln!(
        text,
        "export const TIMELINES = {timelines} satisfies Packed[];"
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/web/src/data.sample.ts");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(path, &text).expect("writes the sample");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == text,
        "{path} is not what the crate writes: write it with INSTA_UPDATE=always, and mend data.ts \
         until `cargo dev web` builds"
    );
}
