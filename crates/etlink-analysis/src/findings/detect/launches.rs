//! Detects launch-bound stretches: kernels shorter than their launches, and full queues.

use crate::RowClass;
use crate::findings::candidate::{CauseCandidate, CauseEvidence};
use crate::findings::detect::host::{is_own_work, launch_intervals};
use crate::findings::host_span::HostSpan;
use crate::findings::kind::CauseKind;
use crate::findings::launched_row::LaunchedRow;
use crate::findings::launching::skip_launches;
use crate::findings::text::{mean_ns, sum_ns};
use crate::findings::view::{LaunchInterval, RankView};
use crate::median_ns;
use etlink_link::{EdgeKind, launches_graph};
use etlink_model::{NodeIdx, OpIdx};
use etlink_replay::GraphEdits;

/// Name prefix of the range around an optimizer step in PyTorch (`Optimizer.profile_hook_step`).
const OPTIMIZER_NAME: &str = "Optimizer.step#";

/// Fewest consecutive launches that a graph could merge.
const LEAST_RUN: usize = 2;

/// Most consecutive longer kernels within a stretch of short ones.
const MOST_LONG: usize = 2;

/// Longest delay from a launch to its kernel, in ns, at which the device counts as starved: after a
/// longer one, it had other work.
const MOST_AHEAD_NS: i64 = 100_000;

/// Finds kernels that end before the next launch.
pub(crate) fn small_kernels(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let intervals = launch_intervals(view);
    let all: Vec<&LaunchInterval> = intervals.iter().collect();
    let candidate = launch_candidate(view, CauseKind::SmallKernels, "", &all);
    candidate.into_iter().collect()
}

/// Like [`small_kernels`], within optimizers.
pub(crate) fn optimizer_launches(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let ops = (0..view.trace.device.ops.len()).map(OpIdx::new);
    let steps: Vec<(OpIdx, HostSpan)> = ops
        .filter(|op| view.op_name(*op).starts_with(OPTIMIZER_NAME))
        .map(|op| (op, view.op_span(op)))
        .collect();
    let Some((first, _)) = steps.first() else {
        return vec![];
    };
    let intervals = launch_intervals(view);
    let is_inside = |interval: &&LaunchInterval| {
        let span = interval.span;
        // Optimizer steps do not nest: only the last one that has begun can contain the interval.
        let begun = steps.partition_point(|(_, step)| step.start <= span.start);
        let last = begun.checked_sub(1).map(|last| steps[last].1);
        last.is_some_and(|step| step.thread == span.thread && span.start < step.end)
    };
    let inside: Vec<&LaunchInterval> = intervals.iter().filter(is_inside).collect();
    let name = view.op_name(*first).trim_start_matches(OPTIMIZER_NAME);
    let subject = name.split('.').next().unwrap_or(name);
    let candidate = launch_candidate(view, CauseKind::OptimizerLaunches, subject, &inside);
    candidate.into_iter().collect()
}

/// Makes a candidate that removes the host's launch time, if kernels are shorter than launches.
fn launch_candidate(
    view: &RankView<'_>,
    kind: CauseKind,
    subject: &str,
    intervals: &[&LaunchInterval],
) -> Option<CauseCandidate> {
    let mut edits = GraphEdits::default();
    let (mut kernels, mut launches) = (vec![], vec![]);
    let is_optimizer = kind == CauseKind::OptimizerLaunches;
    let starved = starved_runs(view, is_optimizer, intervals);
    let longest = starved.iter().filter_map(|run| run_span(run));
    let longest = longest.max_by_key(|(start, end)| (end.saturating_sub(*start), -start));
    for (interval, row) in starved.into_iter().flatten() {
        // The duration of a collective is mostly waiting for other ranks.
        if view.rows.class[row] != RowClass::Communication {
            kernels.push(view.row_ns(row));
        }
        launches.push(interval.worked_ns);
        if !is_optimizer {
            continue;
        }
        // A fused optimizer is a single kernel: the gaps between its parts go with their launches.
        edits.at_once.extend(view.row_node[row].get());
        // Scaled, not removed: host waits in between stay.
        for node in view.nodes_in(interval.span) {
            if is_launch_work(view, *node) {
                edits.scaled.push((*node, 0.0));
            }
        }
    }
    let (kernel_ns, launch_ns) = (mean_ns(&kernels), mean_ns(&launches));
    // Collectives alone do not show that kernels are short; neither do a few long kernels.
    if kernels.is_empty() || kernel_ns >= launch_ns {
        return None;
    }
    if !is_optimizer {
        // The gain is that of the question `graphs`.
        edits = skip_launches(view.trace);
        view.keep_inside(&mut edits);
    }
    let evidence = CauseEvidence {
        count: kernels.len() as u64,
        time_ns: sum_ns(launches.iter().copied()),
        // Means, because the sums decide which side waits for the other.
        typical_ns: kernel_ns,
        compared: Some(launch_ns as f64),
        start_ns: longest.map(|(start, _)| start),
        end_ns: longest.map(|(_, end)| end),
        ..CauseEvidence::default()
    };
    Some(view.candidate(kind, subject, edits, evidence))
}

/// Returns the span from the first launch of a stretch to the end of the last.
fn run_span(run: &[Launch<'_>]) -> Option<(i64, i64)> {
    let (first, last) = run.first().zip(run.last())?;
    Some((first.0.span.start, last.0.span.end))
}

/// A launch and its row.
type Launch<'i> = (&'i LaunchInterval, usize);

/// Returns stretches of launches whose kernels are shorter than the next launch, so that the device
/// ends up waiting for the host. At their start, it may still have other work.
fn starved_runs<'i>(
    view: &RankView<'_>,
    is_optimizer: bool,
    intervals: &[&'i LaunchInterval],
) -> Vec<Vec<Launch<'i>>> {
    let (mut runs, mut run): (Vec<Vec<Launch<'_>>>, Vec<Launch<'_>>) = (vec![], vec![]);
    // Number of consecutive long kernels at the end of the run.
    let mut long = 0;
    for interval in intervals {
        let call = interval.row.and_then(|row| view.trace.row_call[row].get());
        // A graph is already launched as a whole.
        let launches = call.filter(|call| !launches_graph(view.call_name(*call)));
        let is_launching = launches.is_some() && !interval.is_long();
        let row = if is_launching { interval.row } else { None };
        if let Some(row) = row {
            run.push((*interval, row));
            let is_long = view.row_ns(row) > interval.worked_ns;
            long = if is_long { long + 1 } else { 0 };
        }
        if row.is_none() || long > MOST_LONG {
            run.truncate(run.len() - long.min(run.len()));
            runs.push(std::mem::take(&mut run));
            long = 0;
        }
    }
    run.truncate(run.len() - long.min(run.len()));
    runs.push(run);
    runs.retain(|run| {
        let device_ns = sum_ns(run.iter().map(|(_, row)| view.row_ns(*row)));
        let host_ns = sum_ns(run.iter().map(|(interval, _)| interval.worked_ns));
        // If no device waits, launches cost nothing; but the gaps between the kernels of an
        // optimizer always do.
        let is_felt = is_optimizer || run.iter().any(|launch| is_starved(view, launch));
        run.len() >= LEAST_RUN && is_felt && device_ns < host_ns
    });
    runs
}

/// Returns true if a kernel started soon after its launch: one that starts later was queued behind
/// other work.
fn is_starved(view: &RankView<'_>, (interval, row): &Launch<'_>) -> bool {
    view.rows.span(*row).0.saturating_sub(interval.span.start) <= MOST_AHEAD_NS
}

fn is_launch_work(view: &RankView<'_>, node: NodeIdx) -> bool {
    let slice = view.trace.nodes.get(node);
    let mut around = view.op_and_parents(view.trace.op_of(&slice));
    is_own_work(view, node) && !around.any(|op| view.is_input_op(op))
}

/// Finds launches that took long because the queue was full.
pub(crate) fn queue_full(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let calls = &view.trace.device.calls;
    let (mut times, mut usual, mut depth) = (vec![], 0, 0);
    let mut blocked: Vec<HostSpan> = vec![];
    for full in &view.trace.full_queues {
        times.extend(
            full.blocked
                .iter()
                .map(|call| calls.duration[call.index()].0),
        );
        blocked.extend(full.blocked.iter().map(|call| view.call_span(*call)));
        (usual, depth) = (full.usual.0.max(usual), full.depth.max(depth));
    }
    if times.is_empty() {
        return vec![];
    }
    let mut edits = GraphEdits::default();
    // The graph models this time as a wait. Other launches, which found room, wait for the queue
    // too: without the slow ones they would come early.
    for one in view.launched.iter().flatten() {
        free_launch(view, one, &mut edits);
    }
    let longest = blocked
        .iter()
        .max_by_key(|span| span.end.saturating_sub(span.start));
    let evidence = CauseEvidence {
        count: times.len() as u64,
        time_ns: sum_ns(times.iter().copied()),
        typical_ns: median_ns(&mut times),
        compared: Some(usual as f64),
        depth: Some(depth as u64),
        start_ns: longest.map(|span| span.start),
        end_ns: longest.map(|span| span.end),
        ..CauseEvidence::default()
    };
    vec![view.candidate(CauseKind::QueueFull, "", edits, evidence)]
}

/// Frees a launch that waits for the start of an earlier one.
fn free_launch(view: &RankView<'_>, launched: &LaunchedRow, edits: &mut GraphEdits) {
    for node in view.call_nodes(launched.call) {
        let deps = view.trace.edges.deps(node).iter();
        let held = deps.filter(|edge| edge.kind == EdgeKind::HostWait);
        let mut held = held.peekable();
        // A blocking copy waits for its own row, whatever else it waits for.
        let waits = held.peek().is_some()
            && held.all(|edge| {
                let from = view.trace.row_of(&view.trace.nodes.get(edge.from));
                let is_own = from.is_some_and(|row| row.index() == launched.row);
                edge.inferred && !is_own
            });
        if waits {
            edits.freed.push((node, EdgeKind::HostWait));
        }
    }
}
