//! Steps of a trace in a changed run.
//!
//! Without changes, steps have their measured lengths ([`RankSteps`]). With changes, a step ends as
//! much later, or earlier, as the last of its nodes does: those of its thread and of its device
//! work. Together they are longer by the part of the host's lead that they use up ([`HostLead`]).

use crate::cross_step::SplitSteps;
use crate::graph::{ReplayGraph, ReplayKind};
use crate::lead::HostLead;
use crate::run::ReplayRun;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::LinkedTrace;
use etlink_link::ranks::{RankSteps, StepSpan};
use etlink_model::{NodeIdx, ResourceIdx, TimeNs, UnixNs};
use std::collections::BTreeMap;

/// A step with its first and last nodes.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct StepBounds {
    /// The measured step.
    pub span: StepSpan,
    /// First node of the thread whose ranges are the steps; [`NodeIdx::NONE`] without one.
    pub first: NodeIdx,
    /// Last nodes of that thread and of each stream in the step, and its last communications.
    pub last: Vec<NodeIdx>,
    /// Last node of that thread.
    pub last_on_host: NodeIdx,
}

/// Returns the steps of a trace, in order; empty for a trace without steps. `graph` must be the
/// graph of `trace`. O(nodes log steps).
pub fn step_bounds(trace: &LinkedTrace, graph: &ReplayGraph) -> Vec<StepBounds> {
    let spans = RankSteps::of_trace(trace).into_iter();
    let mut bounds: Vec<StepBounds> = spans
        .map(|span| StepBounds {
            span,
            first: NodeIdx::NONE,
            last: vec![],
            last_on_host: NodeIdx::NONE,
        })
        .collect();
    let Some(split) = SplitSteps::new(trace, graph) else {
        return bounds;
    };
    for step in &split.steps {
        let is_main = |node: &NodeIdx| graph.resource[node.index()] == split.main;
        let main = step.nodes.iter().copied().filter(is_main);
        let span = &bounds[step.step.index()].span;
        let is_row =
            |node: &NodeIdx| graph.resources[graph.resource[node.index()].index()].on_device;
        let begin = trace.device.header.trace_time(span.begin_ns);
        let after_earlier = |node: &NodeIdx| graph.start[node.index()] >= begin;
        let rows = step
            .nodes
            .iter()
            .copied()
            .filter(is_row)
            .filter(after_earlier);
        let first = if span.begin_ns > span.start_ns && rows.clone().next().is_some() {
            // It begins when devices have ended earlier work, as its first row does.
            rows.min_by_key(|node| graph.start[node.index()])
        } else {
            main.min_by_key(|node| graph.start[node.index()])
        };
        // Nodes of a thread or stream follow each other, so the last to end stays the last.
        let mut last: BTreeMap<ResourceIdx, NodeIdx> = BTreeMap::new();
        // Communication of other threads ends with the step even if nothing waits for it any more.
        let done = trace.device.header.trace_time(span.done_ns);
        let transfers = step.nodes.iter().filter(|node| {
            graph.kind[node.index()] == ReplayKind::Collective && graph.end(**node) <= done
        });
        for &node in step.last_nodes.iter().chain(transfers) {
            let known = last.entry(graph.resource[node.index()]).or_insert(node);
            if graph.end(node) > graph.end(*known) {
                *known = node;
            }
        }
        let bounds = &mut bounds[step.step.index()];
        bounds.last_on_host = last.get(&split.main).copied().unwrap_or(NodeIdx::NONE);
        bounds.first = first.unwrap_or(NodeIdx::NONE);
        bounds.last = last.into_values().collect();
    }
    bounds
}

/// Returns the steps as they are in the run `changed`, relative to the run without changes.
/// `first_node` is the number of the trace's first node in the graph that ran: zero for a graph of
/// one trace. O(steps).
pub fn changed_steps(
    bounds: &[StepBounds],
    first_node: NodeIdx,
    plain: &ReplayRun,
    changed: &ReplayRun,
) -> Vec<StepSpan> {
    let in_run = |node: NodeIdx| NodeIdx(first_node.0 + node.0);
    let mut steps: Vec<StepSpan> = vec![];
    for (place, step) in bounds.iter().enumerate() {
        let start = |run: &ReplayRun| Some(run.start[in_run(step.first.get()?).index()]);
        let end = |run: &ReplayRun| step.last.iter().map(|node| run.end(in_run(*node))).max();
        let (start_ns, end_ns) = (
            delay_ns(start, plain, changed),
            delay_ns(end, plain, changed),
        );
        let before = place.checked_sub(1).map(|before| &bounds[before].span);
        let begin_ns = match (before, steps.last()) {
            // it begins when the step before it ends
            (Some(measured), Some(before)) if measured.done_ns == step.span.begin_ns => {
                before.done_ns
            }
            (_, before) => {
                // What runs before the steps counts as far as it moves their end: otherwise less
                // of it would make a step longer.
                let start_ns = start_ns.clamp(end_ns.min(0), end_ns.max(0));
                let own = later(step.span.begin_ns, start_ns);
                before.map_or(own, |before| before.done_ns.max(own))
            }
        };
        steps.push(StepSpan {
            begin_ns,
            done_ns: later(step.span.done_ns, end_ns).max(begin_ns),
            ..step.span.clone()
        });
    }
    let used_ns = used_lead_ns(bounds, &steps, |node| {
        delay_ns(|run| Some(run.end(in_run(node.get()?))), plain, changed)
    });
    lengthen(&mut steps, used_ns);
    steps
}

/// Makes the steps that count longer by a time in all, each by as much, and ends the last where it ended.
fn lengthen(steps: &mut [StepSpan], all_ns: i64) {
    let mut counted: Vec<&mut StepSpan> = steps
        .iter_mut()
        .filter(|step| step.excluded.is_none())
        .collect();
    let number = counted.len() as i64;
    for (left, step) in (1..).zip(counted.iter_mut().rev()) {
        let earlier = |steps: i64| -all_ns.saturating_mul(steps) / number;
        step.begin_ns = later(step.begin_ns, earlier(left));
        step.done_ns = later(step.done_ns, earlier(left - 1));
    }
}

/// Returns the part of the host's lead that changed steps use up, ns. `delay_ns` is the delay of a
/// node's end.
fn used_lead_ns(
    bounds: &[StepBounds],
    changed: &[StepSpan],
    delay_ns: impl Fn(NodeIdx) -> i64,
) -> i64 {
    let counted = bounds.iter().zip(changed);
    let mut counted = counted.filter(|(step, _)| step.span.excluded.is_none());
    let (Some((first, first_changed)), Some((last, last_changed))) =
        (counted.next(), counted.next_back())
    else {
        return 0;
    };
    let lead = |begin_ns: UnixNs, done_ns: UnixNs, host_end_ns: UnixNs| HostLead {
        begin_ns: begin_ns.since(first.span.start_ns),
        end_ns: done_ns.since(host_end_ns),
    };
    let end_ns = last.span.end_ns;
    let plain = lead(first.span.begin_ns, last.span.done_ns, end_ns);
    let changed_end_ns = later(end_ns, delay_ns(last.last_on_host));
    let changed = lead(first_changed.begin_ns, last_changed.done_ns, changed_end_ns);
    let plain_ns = last.span.done_ns.since(first.span.begin_ns);
    let changed_ns = last_changed.done_ns.since(first_changed.begin_ns);
    plain.used_ns(changed, plain_ns, changed_ns)
}

fn later(time: UnixNs, delay_ns: i64) -> UnixNs {
    UnixNs(time.0.saturating_add(delay_ns))
}

/// Returns the delay of an instant by the changes, in ns; 0 if the step lacks it.
fn delay_ns(
    instant: impl Fn(&ReplayRun) -> Option<TimeNs>,
    plain: &ReplayRun,
    changed: &ReplayRun,
) -> i64 {
    let times = instant(changed).zip(instant(plain));
    times.map_or(0, |(changed, plain)| changed.since(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_model::DurationNs;

    fn bounds(begin: i64, done: i64, first: u32, last: &[u32]) -> StepBounds {
        let span = (UnixNs(begin), UnixNs(done));
        StepBounds {
            span: StepSpan::on_host(String::new(), span),
            first: NodeIdx(first),
            last: last.iter().copied().map(NodeIdx).collect(),
            last_on_host: NodeIdx::NONE,
        }
    }

    fn run(nodes: &[(i64, i64)]) -> ReplayRun {
        ReplayRun {
            start: nodes.iter().map(|node| TimeNs(node.0)).collect(),
            duration: nodes.iter().map(|node| DurationNs(node.1)).collect(),
            ..ReplayRun::default()
        }
    }

    /// The host is 30 ahead of devices that take 20 a step, and takes 15 itself.
    #[test]
    fn quicker_steps_take_as_long_as_those_of_the_host() {
        let step = |number: i64, last: u32| {
            let mut step = bounds(100 + 20 * number, 120 + 20 * number, 0, &[last]);
            step.span.start_ns = UnixNs(70 + 15 * number);
            step.span.end_ns = UnixNs(85 + 15 * number);
            step.last_on_host = NodeIdx(4);
            step
        };
        let steps = [step(0, 1), step(1, 2), step(2, 3)];
        let plain = run(&[(100, 0), (100, 20), (120, 20), (140, 20), (70, 45)]);
        // 5 a step: the last one ends when the host has launched it
        let changed = run(&[(100, 0), (100, 5), (105, 5), (115, 5), (70, 45)]);
        let steps = changed_steps(&steps, NodeIdx(0), &plain, &changed);
        let lengths = Vec::from_iter(steps.iter().map(StepSpan::length_ns));
        // 45 of the host and the 5 by which the last step ends after it, less the lead of 5 that is left
        assert_eq!(lengths, [14, 13, 18]);
        assert_eq!(steps[2].done_ns, UnixNs(120));
    }

    /// A rank's nodes follow those of the previous rank.
    #[test]
    fn a_step_ends_as_much_later_as_its_last_node() {
        let steps = [
            bounds(1_010, 1_040, 0, &[1]),
            bounds(1_040, 1_060, 1, &[2, 0]),
            // the program does something else before it
            bounds(1_070, 1_075, 3, &[3]),
        ];
        let plain = run(&[(0, 99), (10, 5), (20, 20), (50, 10), (70, 5)]);
        let changed = run(&[(0, 99), (10, 5), (20, 30), (60, 10), (85, 5)]);
        let lengths = |changed: &ReplayRun| {
            let steps = changed_steps(&steps, NodeIdx(1), &plain, changed);
            Vec::from_iter(steps.iter().map(StepSpan::length_ns))
        };
        assert_eq!(lengths(&plain), [30, 20, 5]);
        assert_eq!(lengths(&changed), [40, 20, 5]);
        // The first step begins earlier, and ends as before.
        let less_before = run(&[(0, 99), (4, 5), (20, 20), (50, 10), (70, 5)]);
        assert_eq!(lengths(&less_before), [30, 20, 5]);
    }
}
