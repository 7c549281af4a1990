//! Bounds on the true change of an answer, given everything that the recording leaves open.
//!
//! Two more runs take each open question to its smallest and its largest effect: the causes of
//! waits that held nothing up ([`Doubts`]), the new length of waits without a cause, and the work
//! of a thread after it wakes. Some edges decide only in the changed run, so their latency is
//! inferred from others of their class: the spread of these along the path widens the range on both
//! sides. If recording slowed the host down, the runs are repeated with the least and the greatest
//! overhead that it may have, the same one without the change: a change of nothing changes nothing.

use crate::assumed::Assumed;
use crate::doubts::Doubts;
use crate::edits::GraphEdits;
use crate::graph::{EdgeKind, ReplayGraph, ReplayKind};
use crate::labels::LabelSource;
use crate::path::work_makespan;
use crate::run::{ReplayRun, ReplaySettings, run_assuming};
use crate::spread::assumed_latency_error;
use crate::trust::{PathTrust, path_trust};
use etlink_model::{DurationNs, NodeIdx};
use serde::Serialize;

/// Bounds on the true change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerRange {
    /// Smallest change in ns: waits that held nothing up have no cause.
    pub least_change_ns: i64,
    /// Largest change in ns: each such wait is for all work launched before, as far as the times
    /// allow.
    pub most_change_ns: i64,
    /// Bounds on the mean step; `None` without steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepRange>,
    /// Number of inferred waits that held nothing up; each may be none.
    pub doubtful_waits: u64,
    /// Number of waits that the times allow but no edge states: calls wait for an unknown cause.
    pub possible_waits: u64,
    /// Uncertainties of the changed run's path.
    #[serde(flatten)]
    pub trust: PathTrust,
}

/// Bounds on the true mean step with the changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepRange {
    /// Shortest step in ns.
    pub least_ns: DurationNs,
    /// Longest step in ns.
    pub most_ns: DurationNs,
    /// Smallest change, relative to the step without the changes.
    pub least_change: f64,
    /// Largest relative change.
    pub most_change: f64,
}

impl StepRange {
    /// Extends a range by the mean steps of two runs.
    fn extend(range: &mut Option<StepRange>, steps: (Option<DurationNs>, Option<DurationNs>)) {
        let (Some(before), Some(after)) = steps else {
            return;
        };
        let change = (after.0 - before.0) as f64 / before.0.max(1) as f64;
        let range = range.get_or_insert(StepRange {
            least_ns: after,
            most_ns: after,
            least_change: change,
            most_change: change,
        });
        range.least_ns = range.least_ns.min(after);
        range.most_ns = range.most_ns.max(after);
        range.least_change = range.least_change.min(change);
        range.most_change = range.most_change.max(change);
    }
}

/// Runs twice more, with the smallest and the largest effect of all open questions, and with and
/// without the changes for each overhead that the recording may have. `plain` is the run without changes, `run` the run with
/// them; `mean_step` is the mean step of a run. O(n log n + edges).
pub fn answer_range(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    settings: &ReplaySettings,
    (plain, run): (&ReplayRun, &ReplayRun),
    mean_step: &dyn Fn(&ReplayRun) -> Option<DurationNs>,
) -> AnswerRange {
    let change = work_makespan(graph, run).0 - work_makespan(graph, plain).0;
    let doubts = Doubts::new(graph, labels, plain);
    let returns = Returns::new(graph, (plain, run));
    let mut range = AnswerRange {
        least_change_ns: change,
        most_change_ns: change,
        step: None,
        doubtful_waits: doubts.doubtful.len() as u64,
        possible_waits: doubts.possible.len() as u64,
        trust: path_trust(graph, run),
    };
    StepRange::extend(&mut range.step, (mean_step(plain), mean_step(run)));
    let unchanged = ReplaySettings {
        resources: settings.resources,
        ..ReplaySettings::default()
    };
    let as_given = [GraphEdits::default()];
    for overhead in as_given.iter().chain(&settings.overhead_doubt) {
        let with_overhead = |run: &ReplayRun| {
            let mut duration = run.duration.clone();
            overhead.apply_to_durations(&mut duration);
            duration
        };
        for extreme in [Extreme::Least, Extreme::Most] {
            let (without, with) = match extreme {
                Extreme::Least => (&doubts.doubtful[..], &[][..]),
                Extreme::Most => (&[][..], &doubts.possible[..]),
            };
            let assumed = Assumed { without, with };
            // The run without the changes has the same overhead and the same waits.
            let rerun;
            let plain = if overhead.is_empty() {
                plain
            } else {
                rerun = run_assuming(graph, &unchanged, with_overhead(plain), assumed);
                &rerun
            };
            let mut duration = with_overhead(run);
            returns.apply_to_durations(extreme, &mut duration);
            apply_errors(extreme, &settings.edits.errors, &mut duration);
            let factor = settings.factor_of_causes(extreme == Extreme::Most);
            apply_to_causes(graph, (extreme, factor), plain, &mut duration);
            let run = run_assuming(graph, settings, duration, assumed);
            let error = assumed_latency_error(graph, (plain, &run)).0;
            let change = work_makespan(graph, &run).0 - work_makespan(graph, plain).0;
            range.least_change_ns = range.least_change_ns.min(change - error);
            range.most_change_ns = range.most_change_ns.max(change + error);
            StepRange::extend(&mut range.step, (mean_step(plain), mean_step(&run)));
        }
    }
    range
}

/// An end of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extreme {
    Least,
    Most,
}

impl Extreme {
    fn of(self, one: DurationNs, other: DurationNs) -> DurationNs {
        match self {
            Extreme::Least => one.min(other),
            Extreme::Most => one.max(other),
        }
    }
}

/// Shortens or lengthens all predicted durations by their errors: with an error of 100 %, they are
/// half or twice as long.
fn apply_errors(extreme: Extreme, errors: &[(NodeIdx, f64)], durations: &mut [DurationNs]) {
    for (node, error) in errors {
        let Some(duration) = durations.get_mut(node.index()) else {
            continue;
        };
        let factor = match extreme {
            Extreme::Least => 1.0 / (1.0 + error),
            Extreme::Most => 1.0 + error,
        };
        *duration = DurationNs((duration.0 as f64 * factor).round() as i64);
    }
}

/// Adjusts durations that may depend on their cause. A wait without a cause may be for work changed
/// by `factor`. A thread's time outside ops next to a handoff may be the time to wake the other
/// thread, which no factor on work changes.
fn apply_to_causes(
    graph: &ReplayGraph,
    (extreme, factor): (Extreme, f64),
    plain: &ReplayRun,
    durations: &mut [DurationNs],
) {
    for node in graph.indices() {
        if graph.kind[node.index()] == ReplayKind::UnexplainedWait {
            let duration = &mut durations[node.index()];
            let scaled = DurationNs((duration.0 as f64 * factor).round() as i64);
            *duration = extreme.of(scaled, *duration);
        }
        for dep in graph.deps(node).filter(|dep| dep.kind == EdgeKind::Handoff) {
            for gap in [node, dep.from] {
                if graph.kind[gap.index()] == ReplayKind::HostGap {
                    let duration = &mut durations[gap.index()];
                    *duration = extreme.of(plain.duration[gap.index()], *duration);
                }
            }
        }
    }
}

/// Returns true if a call has device work to wait for.
fn can_wait(graph: &ReplayGraph, call: NodeIdx) -> bool {
    let mut deps = graph.deps(call);
    deps.any(|dep| dep.kind == EdgeKind::HostWait)
}

/// Calls that wait in only one of the two runs. The duration of a call after its wait includes
/// waking its thread only if the call waited.
struct Returns {
    /// Calls that waited in the recording but no longer do.
    released: Vec<NodeIdx>,
    /// Calls that did not wait in the recording but now do.
    held_up: Vec<NodeIdx>,
    /// Usual duration of calls after their wait, in the changed run.
    usual: DurationNs,
}

impl Returns {
    fn new(graph: &ReplayGraph, (plain, run): (&ReplayRun, &ReplayRun)) -> Returns {
        let waits = |run: &ReplayRun, node: NodeIdx| {
            let edge = run.deciding_edge(node);
            edge.is_some_and(|edge| graph.dep(edge).kind == EdgeKind::HostWait)
        };
        let (mut released, mut held_up, mut times) = (vec![], vec![], vec![]);
        for node in graph.indices() {
            if !can_wait(graph, node) {
                continue;
            }
            let waited = waits(plain, node);
            if waited {
                times.push(run.duration[node.index()]);
            }
            match (waited, waits(run, node)) {
                (true, false) => released.push(node),
                (false, true) => held_up.push(node),
                _ => {}
            }
        }
        times.sort_unstable();
        let usual = times.get(times.len() / 2).copied();
        Returns {
            released,
            held_up,
            usual: usual.unwrap_or(etlink_link::limits::USUAL_WAKE),
        }
    }

    fn apply_to_durations(&self, extreme: Extreme, durations: &mut [DurationNs]) {
        for node in &self.released {
            let duration = &mut durations[node.index()];
            *duration = extreme.of(DurationNs::ZERO, *duration);
        }
        for node in &self.held_up {
            let duration = &mut durations[node.index()];
            *duration = extreme.of(self.usual, *duration);
        }
    }
}
