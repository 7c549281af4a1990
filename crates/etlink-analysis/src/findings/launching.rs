//! Stretches in which threads launch one kernel after another, which a graph could replace.

use crate::findings::detect::names::is_input_name;
use crate::findings::limits::{
    LEAST_USUAL_LAUNCHES, LONGEST_LAUNCH_NS, SLOW_FACTOR, SLOWEST_LAUNCH_NS,
};
use etlink_link::{EdgeKind, LinkedTrace, NodeKind, launches_graph};
use etlink_model::{CallIdx, DurationNs, NodeIdx, OpIdx, ThreadIdx, TimeNs};
use etlink_replay::GraphEdits;
use std::ops::Range;

/// Maximum nesting depth of data loaders' ranges.
const MOST_NESTED: usize = 16;

/// Nodes of a thread, and those that launch.
pub(crate) struct ThreadNodes {
    /// Thread of the nodes.
    pub(crate) thread: ThreadIdx,
    /// Nodes in order of time.
    nodes: Vec<NodeIdx>,
    /// Indices of launching nodes, with their calls.
    pub(crate) launches: Vec<(usize, CallIdx)>,
    /// Longest work between two launches that counts as preparing the second, in ns.
    pub(crate) longest_launch_ns: i64,
}

/// Returns the nodes of threads that launch.
pub(crate) fn launching_threads(trace: &LinkedTrace) -> Vec<ThreadNodes> {
    let mut launching = vec![false; trace.device.calls.name.len()];
    for call in trace.row_call.iter().filter_map(|call| call.get()) {
        launching[call.index()] = true;
    }
    let all = (0..trace.device.threads.len()).map(ThreadIdx::new);
    let mut threads: Vec<ThreadNodes> = all
        .map(|thread| ThreadNodes {
            thread,
            nodes: vec![],
            launches: vec![],
            longest_launch_ns: LONGEST_LAUNCH_NS,
        })
        .collect();
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let Some(thread) = node.thread() else {
            continue;
        };
        let thread = &mut threads[thread.index()];
        if node.kind == NodeKind::Runtime && launching[node.source as usize] {
            let call = CallIdx(node.source);
            // A call that waited in between has two nodes: the last one launches.
            match thread.launches.last_mut() {
                Some((place, other)) if *other == call => *place = thread.nodes.len(),
                _ => thread.launches.push((thread.nodes.len(), call)),
            }
        }
        thread.nodes.push(index);
    }
    threads.retain(|thread| !thread.launches.is_empty());
    for thread in &mut threads {
        let launches = 0..thread.launches.len() - 1;
        let worked = launches.filter_map(|launch| thread.worked_ns(trace, launch));
        thread.longest_launch_ns = longest_launch_ns(worked.collect());
    }
    threads
}

impl ThreadNodes {
    /// Returns the range from one launch to the next: its nodes start with the first launch's and
    /// end before the second's.
    fn between(&self, launch: usize) -> Range<usize> {
        self.launches[launch].0..self.launches[launch + 1].0
    }

    /// Returns the time that the thread works between one launch and the next, in ns; `None` if it
    /// waits or launches a graph.
    fn worked_ns(&self, trace: &LinkedTrace, launch: usize) -> Option<i64> {
        let names = [launch, launch + 1].map(|launch| call_name(trace, self.launches[launch].1));
        if names.iter().any(|name| launches_graph(name)) {
            return None;
        }
        // A full queue does not prevent the launch, since a graph needs one slot.
        let launch_node = self.nodes[self.launches[launch + 1].0];
        let mut waits = waits_for_own_row(trace, launch_node);
        let mut worked = DurationNs::ZERO;
        for place in self.between(launch).skip(1) {
            let node = self.nodes[place];
            worked += trace.nodes.duration[node.index()];
            waits |= waits_for_others(trace, node);
        }
        (!waits).then_some(worked.0)
    }

    /// Returns true if the thread only prepares the next launch between one launch and the next.
    pub(crate) fn is_launching(&self, trace: &LinkedTrace, launch: usize) -> bool {
        let worked_ns = self.worked_ns(trace, launch);
        worked_ns.is_some_and(|ns| ns <= self.longest_launch_ns)
    }

    /// Lets the time from one launch to the next vanish.
    pub(crate) fn skip_launch(&self, trace: &LinkedTrace, launch: usize, edits: &mut GraphEdits) {
        for place in self.between(launch) {
            edits.scaled.push((self.nodes[place], 0.0));
        }
        free_node(trace, self.nodes[self.launches[launch + 1].0], edits);
    }
}

pub(crate) fn call_name(trace: &LinkedTrace, call: CallIdx) -> &str {
    trace.device_name(trace.device.calls.name[call.index()])
}

/// Returns true if a thread was blocked before a node.
fn waits_for_others(trace: &LinkedTrace, node: NodeIdx) -> bool {
    let mut deps = trace.edges.deps(node).iter();
    deps.any(|edge| matches!(edge.kind, EdgeKind::HostWait | EdgeKind::Handoff))
}

/// Returns true if a call returns only after its own device row has run, as a blocking copy does.
fn waits_for_own_row(trace: &LinkedTrace, node: NodeIdx) -> bool {
    let own_call = CallIdx(trace.nodes.get(node).source);
    let mut waits = trace.edges.deps(node).iter();
    waits.any(|edge| {
        let row = trace.row_of(&trace.nodes.get(edge.from));
        edge.kind == EdgeKind::HostWait
            && row.is_some_and(|row| trace.row_call[row.index()] == own_call)
    })
}

pub(crate) fn free_node(trace: &LinkedTrace, node: NodeIdx, edits: &mut GraphEdits) {
    for kind in [EdgeKind::HostWait, EdgeKind::Handoff, EdgeKind::Tensor] {
        let mut deps = trace.edges.deps(node).iter();
        if deps.any(|edge| edge.kind == kind) {
            edits.freed.push((node, kind));
        }
    }
}

/// Returns edits that merge each stretch of launches into one: threads take no time between
/// launches, except to fetch input. O(n log n).
pub(crate) fn skip_launches(trace: &LinkedTrace) -> GraphEdits {
    let mut edits = GraphEdits::default();
    let is_input = input_nodes(trace);
    for thread in launching_threads(trace) {
        for launch in 0..thread.launches.len() - 1 {
            let nodes = &thread.nodes[thread.between(launch)];
            let fetches = nodes.iter().any(|node| is_input[node.index()]);
            if !fetches && thread.is_launching(trace, launch) {
                thread.skip_launch(trace, launch, &mut edits);
            }
        }
    }
    edits
}

/// Returns the longest time that counts as launching on a thread, in ns, from its times between
/// launches. O(n log n).
fn longest_launch_ns(mut worked: Vec<i64>) -> i64 {
    if worked.len() < LEAST_USUAL_LAUNCHES {
        return LONGEST_LAUNCH_NS;
    }
    worked.sort_unstable();
    let usual = worked.get(worked.len() * 3 / 4).copied().unwrap_or(0);
    let longest = usual.saturating_mul(SLOW_FACTOR);
    longest.clamp(LONGEST_LAUNCH_NS, SLOWEST_LAUNCH_NS)
}

/// Returns, for each node, true if it is in a range that fetches input. O(n log n).
pub(crate) fn input_nodes(trace: &LinkedTrace) -> Vec<bool> {
    let ops = &trace.device.ops;
    let mut spans: Vec<(ThreadIdx, TimeNs, TimeNs)> = vec![];
    for op in (0..ops.name.len()).map(OpIdx::new) {
        let index = op.index();
        if is_input_name(trace.device_name(ops.name[index])) {
            let start = ops.start[index];
            spans.push((ops.thread[index], start, start + ops.duration[index]));
        }
    }
    spans.sort_unstable();
    let is_inside = |index: NodeIdx| {
        let node = trace.nodes.get(index);
        let Some(thread) = node.thread() else {
            return false;
        };
        let begun = spans.partition_point(|span| (span.0, span.1) <= (thread, node.start));
        // Ranges nest: an enclosing range may have begun before others that are over.
        let before = spans[..begun].iter().rev().take(MOST_NESTED);
        let mut around = before.take_while(|span| span.0 == thread);
        around.any(|(_, _, end)| node.start < *end)
    };
    trace.nodes.indices().map(is_inside).collect()
}
