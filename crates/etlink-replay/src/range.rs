//! Between which changes the truth of an answer lies, by all that the recording leaves open.
//!
//! Two more runs take each open question to its least and to its greatest effect: which waits that
//! held nothing up are for something ([`Doubts`]), how long waits without a cause become, and what a
//! thread does when it is woken. What edges take that decide only in the changed run is known by
//! others of their class: the spread of these over the path widens the range on both sides.

use crate::assumed::Assumed;
use crate::doubts::Doubts;
use crate::graph::{EdgeKind, ReplayGraph, ReplayKind};
use crate::labels::LabelSource;
use crate::path::work_makespan;
use crate::run::{ReplayRun, ReplaySettings, run_assuming};
use crate::spread::assumed_latency_error;
use crate::trust::{PathTrust, path_trust};
use etlink_model::{DurationNs, NodeIdx};
use serde::Serialize;

/// Between which changes the truth lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerRange {
    /// The least change, ns: waits that held nothing up are for nothing.
    pub least_change_ns: i64,
    /// The greatest change, ns: each of them is for all that was launched before it, as far as the
    /// times allow.
    pub most_change_ns: i64,
    /// Inferred waits that held nothing up: each may be none.
    pub doubtful_waits: u64,
    /// Waits that the times allow and no edge states: calls wait, and nothing says for what.
    pub possible_waits: u64,
    /// What the changed run's path rests on.
    #[serde(flatten)]
    pub trust: PathTrust,
}

/// Asks twice more, with the least and with the greatest effect of what is open. `plain` is the run
/// without changes, `run` that with them. O(n log n + edges).
pub fn answer_range(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    settings: &ReplaySettings,
    (plain, run): (&ReplayRun, &ReplayRun),
) -> AnswerRange {
    let before = work_makespan(graph, plain).0;
    let change = work_makespan(graph, run).0 - before;
    let doubts = Doubts::new(graph, labels, plain);
    let returns = Returns::new(graph, (plain, run));
    let ask = |extreme: Extreme| {
        let mut duration = run.duration.clone();
        returns.apply_to_durations(extreme, &mut duration);
        let factor = settings.factor_of_causes(extreme == Extreme::Most);
        apply_to_causes(graph, extreme, factor, &mut duration);
        let assumed = match extreme {
            Extreme::Least => Assumed {
                without: &doubts.doubtful,
                with: &[],
            },
            Extreme::Most => Assumed {
                without: &[],
                with: &doubts.possible,
            },
        };
        let run = run_assuming(graph, settings, duration, assumed);
        let error = assumed_latency_error(graph, (plain, &run));
        let change = work_makespan(graph, &run).0 - before;
        match extreme {
            Extreme::Least => change - error.0,
            Extreme::Most => change + error.0,
        }
    };
    AnswerRange {
        least_change_ns: ask(Extreme::Least).min(change),
        most_change_ns: ask(Extreme::Most).max(change),
        doubtful_waits: doubts.doubtful.len() as u64,
        possible_waits: doubts.possible.len() as u64,
        trust: path_trust(graph, run),
    }
}

/// An end of a range.
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

/// A wait without a cause may be for what is changed by `factor`, and a thread's time in no op just
/// before and after a handoff may be that of waking the other thread, which no factor on work changes.
fn apply_to_causes(
    graph: &ReplayGraph,
    extreme: Extreme,
    factor: f64,
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
                    *duration = extreme.of(graph.duration[gap.index()], *duration);
                }
            }
        }
    }
}

/// Whether a call has something to wait for on a device.
fn can_wait(graph: &ReplayGraph, call: NodeIdx) -> bool {
    let mut deps = graph.deps(call);
    deps.any(|dep| dep.kind == EdgeKind::HostWait)
}

/// Calls that wait in one of the two runs and not in the other. What a call takes once its wait is
/// over holds its thread's waking if it has waited.
struct Returns {
    /// They waited in the recording, and no more.
    released: Vec<NodeIdx>,
    /// They did not, and do now.
    held_up: Vec<NodeIdx>,
    /// What calls take, in the changed run, once their wait is over: the usual one.
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
