//! A trace for Perfetto: what was measured, and the critical path of a run.

use crate::output::Target;
use crate::pair::Shown;
use anyhow::{Context, Result};
use etlink_link::LinkedTrace;
use etlink_model::DurationNs;
use etlink_replay::{Graph, Run, Settings};
use etlink_report::perfetto::{self, Step};

/// Runs the graph as it is, and writes. Also the stored size, bytes.
pub fn of_linked(trace: &LinkedTrace, target: &Target) -> Result<(Shown, u64)> {
    let graph = etlink_replay::graph_of(trace).with_context(|| target.path().display().to_string())?;
    let run = etlink_replay::run(&graph, trace, &Settings::default());
    of_run(trace, &graph, &run, target)
}

/// Writes with the critical path of this run.
pub fn of_run(trace: &LinkedTrace, graph: &Graph, run: &Run, target: &Target) -> Result<(Shown, u64)> {
    let path: Vec<Step> = etlink_replay::critical_path(graph, run).iter().map(|step| shown(graph, run, step)).collect();
    let (summary, stored) = target.write(|mut out| perfetto::write(trace, &path, &mut out))?;
    Ok((Shown { slices: summary.slices, arrows: summary.arrows, critical_path: summary.steps }, stored))
}

fn shown(graph: &Graph, run: &Run, step: &etlink_replay::Step) -> Step {
    let [cause, delay_cause] = step.causes(graph).map(etlink_replay::Cause::name);
    let node = step.node as usize;
    let (start, duration) = (run.start[node], run.duration[node]);
    Step { node: step.node, start, duration, delay: DurationNs(step.latency_ns), cause, delay_cause, via: step.via.name() }
}
