//! Traces for Perfetto: the measured events, and the critical path of a replay.

use crate::error::RunError;
use crate::output::{Piece, Target};
use etlink_link::LinkedTrace;
use etlink_model::{Diagnostic, diagnostic};
use etlink_replay::{ReplayGraph, ReplayRun, ReplaySettings};
use etlink_report::perfetto::{self, CriticalStep, TimelineFormat, TimelineRank, TimelineSummary};
use serde::Serialize;

/// Counts of a trace for Perfetto.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PerfettoCounts {
    /// Number of ops, calls and device rows.
    pub slices: u64,
    /// Number of drawn edges.
    pub arrows: u64,
    /// Number of nodes on the critical path.
    pub critical_path: u64,
}

/// Replays the unchanged graph and writes the trace. Also returns the stored size, bytes.
///
/// # Errors
/// Fails if the graph has no valid order, or the target cannot be written.
pub fn of_linked(trace: &LinkedTrace, target: &Target) -> Result<(PerfettoCounts, u64), RunError> {
    let (graph, run) = run_measured(trace, target)?;
    of_run(trace, &graph, &run, target)
}

/// Writes the trace with the critical path of this replay.
pub fn of_run(
    trace: &LinkedTrace,
    graph: &ReplayGraph,
    run: &ReplayRun,
    target: &Target,
) -> Result<(PerfettoCounts, u64), RunError> {
    let path = critical_steps(graph, run);
    let (summary, stored) = target
        .write(|mut out| perfetto::write_trace(trace, &path, timeline_format(target), &mut out))?;
    Ok((perfetto_counts(summary), stored))
}

/// Writes a rank's part of the timeline of all ranks.
pub fn of_member(
    trace: &LinkedTrace,
    member: &TimelineRank<'_>,
    target: &Target,
) -> Result<(PerfettoCounts, Piece), RunError> {
    let (graph, run) = run_measured(trace, target)?;
    let path = critical_steps(&graph, &run);
    let (summary, piece) = target.piece(|mut out| {
        perfetto::write_rank(trace, &path, member, timeline_format(target), &mut out)
    })?;
    Ok((perfetto_counts(summary), piece))
}

/// Returns a note on events that exports for Perfetto omit; `None` if there are none.
pub fn left_out_note(trace: &LinkedTrace) -> Option<Diagnostic> {
    let mut left_out = vec![];
    for (event, count) in &trace.device.events {
        left_out.extend(left_out_events(event, *count));
    }
    // a trace with a number in each category would list thousands
    let more = left_out.len().saturating_sub(MOST_CATEGORIES);
    left_out.truncate(MOST_CATEGORIES);
    if more > 0 {
        left_out.push(format!("events of {more} more categories"));
    }
    let list = left_out.join(", ");
    (!list.is_empty())
        .then(|| diagnostic!(EventsNotShown, "events left out of the timeline: {list}"))
}

/// Describes omitted events of a phase and category; `None` if they are shown.
fn left_out_events(event: &str, count: u64) -> Option<String> {
    let (phase, category) = event.split_once(' ').unwrap_or((event, ""));
    match phase {
        // names of tracks are shown; their sort keys are not, because the graph orders its tracks
        "X" | "i" | "I" | "C" | "M" => None,
        // `ac2g` links a call to its kernel, like the launch edges of the graph; only the beginning
        // of an arrow is counted
        "s" if !matches!(category, "ac2g" | "async_gpu") => {
            Some(format!("{count} {category} arrows"))
        }
        "s" | "t" | "f" => None,
        _ => Some(format!("{count} {category} events of phase {phase}")),
    }
}

/// Maximum number of categories in a note.
const MOST_CATEGORIES: usize = 8;

/// Returns the format of the target, which is always a timeline here.
fn timeline_format(target: &Target) -> TimelineFormat {
    target.format.for_perfetto().unwrap_or(TimelineFormat::Json)
}

fn run_measured(
    trace: &LinkedTrace,
    target: &Target,
) -> Result<(ReplayGraph, ReplayRun), RunError> {
    let graph = etlink_replay::graph_from_trace(trace)
        .map_err(|cause| RunError::unreadable(target.path().display(), cause))?;
    // unchanged, so this is the critical path of the measured run
    let run = etlink_replay::run_graph(&graph, trace, &ReplaySettings::default());
    Ok((graph, run))
}

fn critical_steps(graph: &ReplayGraph, run: &ReplayRun) -> Vec<CriticalStep> {
    etlink_replay::critical_path(graph, run)
        .iter()
        .map(|step| of_step(graph, run, step))
        .collect()
}

fn perfetto_counts(summary: TimelineSummary) -> PerfettoCounts {
    PerfettoCounts {
        slices: summary.slices,
        arrows: summary.arrows,
        critical_path: summary.steps,
    }
}

fn of_step(graph: &ReplayGraph, run: &ReplayRun, step: &etlink_replay::PathStep) -> CriticalStep {
    let [cause, delay_cause] = step.causes(graph).map(etlink_replay::PathCause::name);
    let node = step.node.index();
    // from the replay, not from the trace: with a what-if, the path belongs to the changed graph
    let (start, duration) = (run.start[node], run.duration[node]);
    CriticalStep {
        node: step.node,
        start,
        duration,
        delay: step.latency_ns,
        cause,
        delay_cause,
        via: step.via.name(),
    }
}
