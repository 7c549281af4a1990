//! Types of `web/src/data.types.ts`, which the page's script uses, from the values of a page.
//!
//! A test here derives the types from the crate's serialized values and compares them with the
//! committed file. `tsc`, which `cargo dev web` runs, checks the script against them.

#![expect(clippy::disallowed_methods, reason = "the types are a file")]

use super::type_recorder::TypeRecorder;
use super::*;
use etlink_formats::memory_snapshot::{DeviceMemory, MemorySeries, StackMemory};
use etlink_link::ranks::{PairBytes, RankSummary, align_clocks, join_ranks};
use etlink_link::{MatchRule, NoLaunch};
use etlink_model::{AnomalyKind, Diagnostic, DiagnosticCode, GlobalRank};
use etlink_testing::ParamComms;

/// Draws a step with a kernel, a collective, an allocation and a damaged event. Rank 1 is the last
/// to arrive at the collective.
fn one_step(rank: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 500_000);
    let iteration = "execute_context_1(8)_generation_0(0)";
    draw.annotation(main, iteration, 1_000, 490_000);
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

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/web/src/data.types.ts");

/// Returns the types of a page of two ranks with its timelines: of all ranks, then of rank 0.
fn page_types() -> String {
    let rules = KernelRules::built_in().expect("rules");
    let traces: Vec<LinkedTrace> = (0..2).map(|rank| linked(&one_step(rank))).collect();
    let summaries: Vec<RankSummary> = traces
        .iter()
        .zip((0..).map(GlobalRank))
        .map(|(trace, rank)| RankSummary::from_trace(trace, rank))
        .collect();
    let join = join_ranks(&summaries);
    let clocks = align_clocks(&summaries, &join);
    let ranks: Vec<ReportRank> = traces
        .iter()
        .zip(0..)
        .map(|(trace, rank)| report_rank(trace, rank, &rules))
        .collect();
    let mut stats = RankStats::new(&summaries, &join, clocks.clone());
    stats.pairs.push(PairBytes::default());
    let total = run_totals(ranks.iter().map(|rank| &rank.analysis));
    let row = ComparedRow {
        name: "void sum<4>(int)".to_owned(),
        short_name: "sum".to_owned(),
        before_ns: 1,
        after_ns: 3,
        cost_ns: 2,
        change_share: Some(2.0),
    };
    let new_row = ComparedRow {
        change_share: None,
        ..row.clone()
    };
    let compared = ComparedRuns {
        before: "before".to_owned(),
        sentences: vec!["a sentence".to_owned()],
        tables: vec![ComparedTable {
            title: "kernels".to_owned(),
            rows: vec![row, new_row],
            within_spread: 1,
            cut: 0,
        }],
    };
    let known_rank = SimulatedRankRow {
        simulated_ns: Some(1),
        measured_ns: Some(1),
        change_share: Some(0.5),
        communication_ns: Some(1),
        measured_communication_ns: Some(1),
        exposed_ns: Some(1),
        ..SimulatedRankRow::default()
    };
    let known_kind = SimulatedKindRow {
        simulated_ns: Some(1),
        measured_ns: Some(1),
        change_share: Some(0.5),
        last_done_ns: Some(1),
        ..SimulatedKindRow::default()
    };
    let known_comm = SimulatedCommRow {
        simulated_ns: Some(1),
        measured_ns: Some(1),
        longer_ns: Some(0),
        ..SimulatedCommRow::default()
    };
    let simulated = SimulatedPart {
        sentences: vec!["a sentence".to_owned()],
        ranks: vec![known_rank, SimulatedRankRow::default()],
        kinds: vec![known_kind, SimulatedKindRow::default()],
        communications: vec![known_comm, SimulatedCommRow::default()],
        tracks: vec![SimulatedTrack {
            spans: vec![SimulatedSpan::default()],
            ..SimulatedTrack::default()
        }],
        ..SimulatedPart::default()
    };
    let page = ReportPage {
        title: "a sample",
        ranks: &ranks,
        total: &total,
        met: Some(&stats),
        timelines: &[],
        diagnostics: &[Diagnostic::new(DiagnosticCode::TwoRuns, "a fact")],
        findings: &[
            FindingLink {
                gain_share: 0.5,
                begin_ns: Some(1),
                end_ns: Some(2),
                ..FindingLink::default()
            },
            FindingLink::default(),
        ],
        compared: Some(&compared),
        simulated: Some(&simulated),
    };
    let types = TypeRecorder::default();
    types.record(&page_data(&page, 1, 1).expect("values"));
    types.set_field("PageData", "ranks", "ReportRank[]");
    types.set_field("PageData", "total", "RunTotals");
    types.record(&total);
    for rank in &ranks {
        types.record_as("ReportRank", rank);
    }
    types.record(&PageTrees::new(ranks.iter().map(|rank| &rank.trees), 100));
    let of_run = RunTimeline::new(&summaries, &join, &clocks, Some("ProfilerStep#1"));
    types.record(&of_run.timeline(100));
    types.record(&drawn(&traces[0], (0, 1_000_000_000), 100));
    let held = DeviceMemory {
        stacks: vec![StackMemory::default()],
        timeline: MemorySeries {
            stack_bytes: vec![vec![1]],
            ..MemorySeries::default()
        },
        ..DeviceMemory::default()
    };
    types.record(&snapshot_chart(&held).0);
    record_rare_values(&types, &ranks[0]);
    types.declarations()
}

fn report_rank(trace: &LinkedTrace, rank: usize, rules: &KernelRules) -> ReportRank {
    let options = Options {
        memory_timeline: true,
        sequences_of: Some("aten::".to_owned()),
    };
    let mut analysis = analyze(trace, rules, &options);
    let points = std::mem::take(&mut analysis.memory_timeline);
    let (graph, run) = ran(trace);
    let path = etlink_replay::critical_path(&graph, &run);
    ReportRank {
        label: rank.to_string(),
        device_trace: format!("kineto_trace_{rank}.json"),
        host_trace: Some(format!("torch_et_{rank}.json")),
        device: Some("a device".to_owned()),
        analysis,
        memory_charts: memory_charts(&points, 100),
        link: Some(trace.report.clone()),
        figures: Some(etlink_replay::replay_figures(&graph, trace, &run)),
        critical_path: Some(PathReport::new(&graph, trace, &run, &path)),
        trees: RankTrees::from_trace(&trace.device, 2),
    }
}

/// Records values that the sample lacks: those that only other recordings have, or are missing
/// there.
fn record_rare_values(types: &TypeRecorder, rank: &ReportRank) {
    types.record_as(
        "ReportRank",
        &ReportRank {
            host_trace: None,
            device: None,
            analysis: RankAnalysis::blank(),
            link: None,
            figures: None,
            critical_path: None,
            ..rank.clone()
        },
    );
    let fact = Diagnostic::new(DiagnosticCode::TwoRuns, "a fact");
    let mut report = etlink_link::LinkReport {
        diagnostics: vec![
            fact.clone(),
            fact.of_run("a")
                .of_rank(GlobalRank(0))
                .of_file("b")
                .advise("c"),
        ],
        host_schema: Some("1.1.1".to_owned()),
        matched: [(MatchRule::default(), 1)].into_iter().collect(),
        no_launch: [(NoLaunch::default(), 1)].into_iter().collect(),
        capture: Some(etlink_link::CaptureReport::default()),
        device_clocks: vec![
            etlink_link::DeviceClock::default(),
            etlink_link::DeviceClock {
                at_most_ns: Some(DurationNs(1)),
                ..etlink_link::DeviceClock::default()
            },
        ],
        ..etlink_link::LinkReport::default()
    };
    // some kinds have no place
    let anomalies = &mut report.anomalies;
    anomalies.add(AnomalyKind::CollectiveDiffers, 1, None);
    types.record(&report);
    types.record(&run_totals([RankAnalysis::blank()].iter()));
    types.record(&Timeline {
        rank: Some(0),
        ..Timeline::default()
    });
    types.record(&etlink_replay::ReplayFigures::default());
    types.record(&etlink_analysis::PeakUse {
        mfu: Some(0.5),
        roof_share: Some(0.5),
        bandwidth_share: Some(0.5),
        memory_bound: Some(0.5),
        gb_per_s: Some(2_039.0),
        link_gb_per_s: Some(300.0),
        ..etlink_analysis::PeakUse::default()
    });
}

/// With `INSTA_UPDATE=always` the test writes the file, as it does with the goldens.
#[test]
fn the_script_has_the_types_that_the_crate_writes() {
    let text = format!(
        "// Written by a test of the crate:\n// INSTA_UPDATE=always cargo test -p etlink-report \
         typescript\n{}",
        page_types()
    );
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(FILE, &text).expect("writes the types");
    }
    let committed = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        committed == text,
        "{FILE} is not what the crate writes: write it with INSTA_UPDATE=always, and mend the \
         script until `cargo dev web` builds"
    );
}
