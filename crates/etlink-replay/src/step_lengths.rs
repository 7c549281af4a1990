//! Length of each step, as measured and in a run.
//!
//! ```text
//! stepping thread   |==1==|===2===|==3==|
//! device                 =1==|=====2=====|====3=|
//!                   |--- 1 --|---- 2 ----|-- 3 -|      lengths
//! ```
//! A step ends when both its thread and its device work have ended. It begins at the end of the
//! previous step: a program does not wait for a thread that runs ahead of its device, and if the
//! thread is behind, its end comes last. This is the time of a loop per step.

use crate::cross_step::SplitSteps;
use crate::graph::ReplayGraph;
use crate::run::ReplayRun;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::LinkedTrace;
use etlink_model::{DurationNs, NodeIdx, ResourceIdx, TimeNs};
use serde::Serialize;
use std::collections::BTreeMap;

/// First and last nodes of a step.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct StepBounds {
    /// Name of the step: `ProfilerStep#7`.
    pub step: String,
    /// First node of the thread whose ranges are the steps.
    pub first: NodeIdx,
    /// Last nodes of that thread and of each stream in it.
    pub last: Vec<NodeIdx>,
}

/// Length of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepLength {
    /// Name of the step.
    pub step: String,
    /// Length in ns without changes.
    pub unchanged_ns: DurationNs,
    /// Length in ns in the run with changes; equals `unchanged_ns` without changes.
    pub ns: DurationNs,
}

/// Returns the steps of a trace, in order; empty for a trace without steps. `graph` must be the
/// graph of `trace`. O(nodes log steps).
pub fn step_bounds(trace: &LinkedTrace, graph: &ReplayGraph) -> Vec<StepBounds> {
    let Some(split) = SplitSteps::new(trace, graph) else {
        return vec![];
    };
    let mut bounds = vec![];
    for step in &split.steps {
        let is_main = |node: &NodeIdx| graph.resource[node.index()] == split.main;
        let main = step.nodes.iter().copied().filter(is_main);
        let first = main.min_by_key(|node| graph.start[node.index()]);
        // Nodes of a thread or stream follow each other, so the last to end stays the last.
        let mut last: BTreeMap<ResourceIdx, NodeIdx> = BTreeMap::new();
        for &node in &step.last_nodes {
            let known = last.entry(graph.resource[node.index()]).or_insert(node);
            if graph.end(node) > graph.end(*known) {
                *known = node;
            }
        }
        bounds.extend(first.map(|first| StepBounds {
            step: step.name.clone(),
            first,
            last: last.into_values().collect(),
        }));
    }
    bounds
}

/// Returns the length of each step, from the end of the previous step; the first step starts at its
/// own first node. `first_node` is the number of the trace's first node in the graph that ran: zero
/// for a graph of one trace. O(steps).
pub fn step_lengths(
    bounds: &[StepBounds],
    first_node: NodeIdx,
    plain: &ReplayRun,
    changed: &ReplayRun,
) -> Vec<StepLength> {
    let [before, after] = [plain, changed].map(|run| lengths_in_run(bounds, first_node, run));
    let steps = bounds.iter().zip(before.into_iter().zip(after));
    steps
        .map(|(bounds, (unchanged_ns, ns))| StepLength {
            step: bounds.step.clone(),
            unchanged_ns,
            ns,
        })
        .collect()
}

fn lengths_in_run(bounds: &[StepBounds], first_node: NodeIdx, run: &ReplayRun) -> Vec<DurationNs> {
    let node_in_run = |node: NodeIdx| NodeIdx(first_node.0 + node.0);
    let mut lengths = vec![];
    let mut begin = None;
    for step in bounds {
        let own_start = run.start[node_in_run(step.first).index()];
        let start = begin.unwrap_or(own_start);
        let ends = step.last.iter().map(|node| run.end(node_in_run(*node)));
        // A step that runs next to a longer one before it has length zero.
        let end = ends.fold(start, TimeNs::max);
        lengths.push(end - start);
        begin = Some(end);
    }
    lengths
}

/// Returns a rank's median step length without and with changes; `None` without steps. O(n log n).
pub fn median_step(steps: &[StepLength]) -> Option<(DurationNs, DurationNs)> {
    let before = steps.iter().map(|step| step.unchanged_ns).collect();
    let after = steps.iter().map(|step| step.ns).collect();
    median(before).zip(median(after))
}

/// Returns the median; for an even number, the mean of the two middle values.
fn median(mut lengths: Vec<DurationNs>) -> Option<DurationNs> {
    lengths.sort_unstable();
    let upper = *lengths.get(lengths.len() / 2)?;
    let lower = lengths[(lengths.len() - 1) / 2];
    Some(DurationNs((lower.0 + upper.0) / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(step: &str, first: u32, last: &[u32]) -> StepBounds {
        StepBounds {
            step: step.to_owned(),
            first: NodeIdx(first),
            last: last.iter().copied().map(NodeIdx).collect(),
        }
    }

    fn run(nodes: &[(i64, i64)]) -> ReplayRun {
        ReplayRun {
            start: nodes.iter().map(|node| TimeNs(node.0)).collect(),
            duration: nodes.iter().map(|node| DurationNs(node.1)).collect(),
            ..ReplayRun::default()
        }
    }

    /// A rank's nodes follow those of the previous rank.
    #[test]
    fn a_step_lasts_from_the_end_of_the_one_before() {
        let steps = [
            bounds("1", 0, &[1]),
            bounds("2", 1, &[2, 0]),
            bounds("3", 3, &[3]),
        ];
        let plain = run(&[(0, 99), (10, 5), (20, 20), (50, 10), (70, 5)]);
        let changed = run(&[(0, 99), (10, 5), (20, 30), (60, 10), (85, 5)]);
        let lengths = step_lengths(&steps, NodeIdx(1), &plain, &changed);
        let told: Vec<_> = lengths
            .iter()
            .map(|step| (&step.step[..], step.unchanged_ns.0, step.ns.0))
            .collect();
        assert_eq!(told, [("1", 30, 40), ("2", 20, 20), ("3", 15, 20)]);
        let medians = median_step(&lengths);
        assert_eq!(medians, Some((DurationNs(20), DurationNs(20))));
        assert_eq!(median_step(&[]), None);
    }
}
