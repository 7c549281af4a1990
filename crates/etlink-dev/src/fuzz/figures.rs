//! Checks the figures of one trace, and laws that hold for any contents.

use anyhow::{Context, Result, ensure};
use etlink_analysis::top::{KeyAverages, Options as TopOptions, TopGroup, key_averages};
use etlink_analysis::{
    ClassifiedRows, KernelRules, Options, RankAnalysis, analyze, diff, run_totals,
};
use etlink_link::LinkedTrace;
use etlink_model::{DeviceTrace, TimeNs};
use etlink_replay::{PathReport, ReplayGraph, ReplayRun, ReplaySettings, critical_path};
use etlink_report::page::{
    self, PackedTimeline, ReportPage, ReportRank, TimelineWindow, TracedRank,
};
use etlink_tables::{GraphTimes, TraceTable};

/// Ranges of a timeline: few, so that some must be drawn together.
const RANGES: usize = 200;
/// Size limit of a timeline, bytes.
const ROOM: usize = 20_000;

/// Computes all figures, checks them and returns them as bytes.
pub(super) fn check_figures(trace: &LinkedTrace, rules: &KernelRules) -> Result<Vec<u8>> {
    let mut out = vec![];
    let options = Options {
        sequences_of: Some("aten".to_owned()),
        memory_timeline: true,
    };
    let analysis = analyze(trace, rules, &options);
    if is_sane(&trace.device) {
        of_analysis(&analysis)?;
    }
    serde_json::to_writer(&mut out, &analysis)?;
    // Two runs rather than four, to keep a round short.
    for nanoseconds in [false, true] {
        serde_json::to_writer(
            &mut out,
            &etlink_analysis::hta::hta_tables(
                trace.clone(),
                etlink_analysis::hta::HtaOptions {
                    nanoseconds,
                    include_last: nanoseconds,
                    rank: None,
                },
            ),
        )?;
    }
    serde_json::to_writer(&mut out, &check_tops(&trace.device)?)?;
    for table in TraceTable::ALL {
        let lines = table.write(trace, analysis.rank, &GraphTimes::default(), &mut out)?;
        let most = match table {
            TraceTable::Edges => trace.edges.len(),
            TraceTable::Nodes | TraceTable::Collectives => trace.nodes.len(),
            TraceTable::KernelMetrics => trace.kernel_metrics.len(),
            // Events are counted from four tables; no other source has their number.
            TraceTable::Events => usize::MAX,
        };
        ensure!(
            lines as usize == most || !matches!(table, TraceTable::Edges | TraceTable::Nodes),
            "{lines} lines of {most} {}",
            table.name()
        );
        ensure!(
            lines as usize <= most,
            "{lines} collectives of {most} nodes"
        );
    }
    out.extend(check_page(trace, analysis, rules)?);
    Ok(out)
}

/// Returns true if sums of times cannot overflow; beyond that they saturate and no longer add up.
fn is_sane(device: &DeviceTrace) -> bool {
    let (start, end) = device.window().unwrap_or_default();
    let lengths = device
        .rows
        .duration
        .iter()
        .chain(&device.ops.duration)
        .chain(&device.calls.duration);
    // Summed in 128 bits, to find out if 64 are enough.
    let whole: i128 = lengths.map(|length| i128::from(length.0)).sum();
    [start.0, end.0]
        .iter()
        .all(|time| time.unsigned_abs() < 1 << 60)
        && whole < 1 << 60
}

fn of_analysis(analysis: &RankAnalysis) -> Result<()> {
    for (time, idle) in analysis.breakdown.iter().zip(&analysis.idle) {
        let exposed =
            time.exposed_communication_ns + time.exposed_memory_ns + time.exposed_other_ns;
        ensure!(
            time.computation_ns + exposed + time.outside_ns + time.idle_ns == time.window_ns,
            "classes and idle are not the window: {time:?}"
        );
        ensure!(
            time.exposed_communication_ns + time.overlap_ns == time.communication_ns,
            "communication is not its parts: {time:?}"
        );
        let without_work = time.idle_ns + time.exposed_other_ns;
        ensure!(
            (time.device, time.busy_ns()) == (idle.device, idle.busy_ns),
            "work is not the busy time: {time:?}, {idle:?}"
        );
        ensure!(
            idle.idle_ns <= without_work,
            "gaps are more than the time without work: {time:?}, {idle:?}"
        );
        ensure!(
            time.exposed_other_ns > 0 || time.outside_ns > 0 || idle.idle_ns == time.idle_ns,
            "gaps are not the idle time: {time:?}, {idle:?}"
        );
    }
    for idle in analysis.idle.iter().chain(&analysis.stream_idle) {
        let causes = [
            idle.host_late_ns,
            idle.event_wait_ns,
            idle.launch_call_ns,
            idle.launch_ns,
            idle.between_ns,
            idle.unexplained_ns,
        ];
        ensure!(
            causes.iter().all(|cause| *cause >= 0) && causes.iter().sum::<i64>() == idle.idle_ns,
            "gaps have not one cause each: {idle:?}"
        );
    }
    for step in &analysis.steps {
        let exposed =
            step.exposed_communication_ns + step.exposed_memory_ns + step.exposed_other_ns;
        ensure!(
            step.computation_ns + exposed + step.idle_ns + step.unknown_ns == step.device_window_ns,
            "a step is not its parts: {step:?}"
        );
    }
    for queue in &analysis.queues {
        ensure!(
            queue.mean_length <= queue.max_length as f64 + 1e-9 && queue.full_ns <= queue.window_ns,
            "{queue:?}"
        );
    }
    let sum = run_totals([analysis].into_iter());
    ensure!(
        sum.breakdown.iter().all(|all| all.window_ns
            == analysis
                .breakdown
                .iter()
                .map(|time| time.window_ns)
                .sum::<i64>()),
        "{sum:?}"
    );
    for metric in &sum.metrics {
        // Shares are quotients of floats: rounding may raise them slightly above 100.
        let is_share = metric.unit == "%" && !(0.0..=100.0 + 1e-6).contains(&metric.value);
        ensure!(
            metric.value.is_finite() && metric.value >= 0.0 && !is_share,
            "{metric:?}"
        );
    }
    Ok(())
}

/// Checks the profiler's tables: each event is in one row, however they are grouped, and a table
/// compared with itself is unchanged.
fn check_tops(device: &DeviceTrace) -> Result<Vec<KeyAverages>> {
    let groups = [
        (TopGroup::Name, false),
        (TopGroup::Shape, false),
        (TopGroup::Stack(3), false),
        (TopGroup::Name, true),
    ];
    let tops: Vec<KeyAverages> = groups
        .iter()
        .map(|(group, python)| {
            key_averages(
                device,
                TopOptions {
                    group: *group,
                    python: *python,
                    ..TopOptions::default()
                },
            )
        })
        .collect();
    let [plain, shaped, stacked, frames] = &tops[..] else {
        unreachable!("four groups")
    };
    // `frames` also contains Python frames, which are additional events.
    for other in [shaped, stacked] {
        ensure!(
            event_count(plain) == event_count(other),
            "groups differ in their events"
        );
        ensure!(
            !is_sane(device) || self_times(plain) == self_times(other),
            "groups differ in their times"
        );
    }
    let same = diff::diff_runs(&[plain], &[plain]);
    ensure!(
        same.changes
            .iter()
            .all(|change| change.kind == diff::ChangeKind::Same && change.cost_ns == 0),
        "a run differs from itself: {same:?}"
    );
    let [there, back] = [
        diff::diff_runs(&[plain], &[frames, plain]),
        diff::diff_runs(&[frames, plain], &[plain]),
    ];
    ensure!(
        !is_sane(device) || cost_sum(&there) == -cost_sum(&back),
        "the way back costs other than the way there"
    );
    Ok(tops)
}

fn event_count(top: &KeyAverages) -> u64 {
    top.rows.iter().map(|row| row.count).sum()
}

fn self_times(top: &KeyAverages) -> (i64, i64) {
    (top.self_host_ns, top.self_device_ns)
}

fn cost_sum(diff: &diff::RunDiff) -> i128 {
    let costs = diff.changes.iter().map(|change| change.cost_ns);
    costs.map(i128::from).sum()
}

/// Checks the page for this trace alone, and its timelines.
fn check_page(trace: &LinkedTrace, analysis: RankAnalysis, rules: &KernelRules) -> Result<Vec<u8>> {
    let graph = etlink_replay::graph_from_trace(trace)?;
    let run = etlink_replay::run_graph(&graph, trace, &ReplaySettings::default());
    let path = PathReport::new(&graph, trace, &run, &critical_path(&graph, &run));
    let timelines = check_timelines(trace, (&graph, &run), &analysis, rules)?;
    let rank = ReportRank {
        label: "0".to_owned(),
        device_trace: "device.json".to_owned(),
        host_trace: None,
        device: None,
        memory_charts: page::memory_charts(&analysis.memory_timeline, 100),
        analysis,
        link: Some(trace.report.clone()),
        figures: Some(etlink_replay::replay_figures(&graph, trace, &run)),
        critical_path: Some(PathReport {
            steps: vec![],
            ..path
        }),
        trees: page::RankTrees::from_trace(&trace.device, 1),
    };
    // The title is the only text of a trace that is written into the HTML itself.
    let (ranks, title) = ([rank], trace.device.names.iter().last().unwrap_or_default());
    let all = run_totals(ranks.iter().map(|rank| &rank.analysis));
    let html = page::render_page(&ReportPage {
        title,
        ranks: &ranks,
        total: &all,
        met: None,
        timelines: &timelines,
        diagnostics: &[],
        findings: &[],
        compared: None,
        simulated: None,
    })?;
    let text = std::str::from_utf8(&html).context("the page is no text")?;
    // The data, the page's own script, the trees if there are any, and each timeline.
    let has_trees = text.contains("id=\"trees\"");
    ensure!(
        text.matches("</script>").count() == 2 + usize::from(has_trees) + timelines.len(),
        "a name of the trace is markup in the page"
    );
    Ok(html)
}

/// Checks the timelines of the whole trace and of its first step.
fn check_timelines(
    trace: &LinkedTrace,
    (graph, run): (&ReplayGraph, &ReplayRun),
    analysis: &RankAnalysis,
    rules: &KernelRules,
) -> Result<Vec<PackedTimeline>> {
    let rows = ClassifiedRows::new(trace, rules);
    let (start, end) = trace.device.window().unwrap_or_default();
    let step = analysis.steps.first().map(|step| {
        (
            TimeNs(step.start_ns),
            TimeNs(step.start_ns.saturating_add(step.duration_ns)),
        )
    });
    let path = etlink_replay::critical_path(graph, run);
    let of = TracedRank {
        rows: &rows,
        graph,
        run,
        path: &path,
    };
    let mut timelines = vec![];
    for (start, end) in [Some((start, end)), step].into_iter().flatten() {
        timelines.push(PackedTimeline::new(RANGES, ROOM, |most| {
            let window = TimelineWindow {
                start,
                end,
                step: None,
                note: String::new(),
            };
            page::trace_timeline(of, window, most, None)
        })?);
    }
    Ok(timelines)
}
