//! Questions about threads: what they launch, fetch and wait for.

use crate::detect::names::is_input_name;
use etlink_link::{EdgeKind, LinkedTrace, NodeKind, launches_graph};
use etlink_model::{CallIdx, DurationNs, NodeIdx, OpIdx, ThreadIdx, TimeNs};
use etlink_replay::GraphEdits;
use regex::Regex;
use std::ops::Range;

/// Work between two launches that is longer belongs to no stretch of launches: data, logging.
const LONGEST_LAUNCH: DurationNs = DurationNs(200_000);

/// What a thread does, and what of it launches.
struct ThreadNodes {
    /// In order of time.
    nodes: Vec<NodeIdx>,
    /// Places of nodes that launch, with their calls.
    launches: Vec<(usize, CallIdx)>,
}

/// The nodes of threads that launch.
fn launching_threads(trace: &LinkedTrace) -> Vec<ThreadNodes> {
    let mut launching = vec![false; trace.device.calls.name.len()];
    for call in trace.row_call.iter().filter_map(|call| call.get()) {
        launching[call.index()] = true;
    }
    let mut threads: Vec<ThreadNodes> = vec![];
    let threads_count = trace.device.threads.len();
    threads.resize_with(threads_count, || ThreadNodes {
        nodes: vec![],
        launches: vec![],
    });
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let Some(thread) = node.thread() else {
            continue;
        };
        let thread = &mut threads[thread.index()];
        if node.kind == NodeKind::Runtime && launching[node.source as usize] {
            let call = CallIdx(node.source);
            // A call that waited in between is two nodes: the last of them launches.
            match thread.launches.last_mut() {
                Some((place, other)) if *other == call => *place = thread.nodes.len(),
                _ => thread.launches.push((thread.nodes.len(), call)),
            }
        }
        thread.nodes.push(index);
    }
    threads.retain(|thread| !thread.launches.is_empty());
    threads
}

impl ThreadNodes {
    /// From one launch to the next: the nodes behind the first, up to the second.
    fn between(&self, launch: usize) -> Range<usize> {
        self.launches[launch].0..self.launches[launch + 1].0
    }

    /// Whether a thread does nothing from one launch to the next but to prepare the next.
    fn is_launching(&self, trace: &LinkedTrace, launch: usize) -> bool {
        let names = [launch, launch + 1].map(|launch| call_name(trace, self.launches[launch].1));
        if names.iter().any(|name| launches_graph(name)) {
            return false;
        }
        let (mut worked, launch_node) = (DurationNs::ZERO, self.launches[launch + 1].0);
        for place in self.between(launch).skip(1) {
            let node = self.nodes[place];
            worked += trace.nodes.duration[node.index()];
            // A full queue is no reason not to launch: a graph needs one place of it.
            if place != launch_node && waits_for_others(trace, node) {
                return false;
            }
        }
        worked <= LONGEST_LAUNCH
    }

    /// From one launch to the next nothing takes time.
    fn skip_launch(&self, trace: &LinkedTrace, launch: usize, edits: &mut GraphEdits) {
        for place in self.between(launch) {
            edits.scaled.push((self.nodes[place], 0.0));
        }
        free_node(trace, self.nodes[self.launches[launch + 1].0], edits);
    }
}

fn call_name(trace: &LinkedTrace, call: CallIdx) -> &str {
    trace.device_name(trace.device.calls.name[call.index()])
}

/// Whether a thread stood still before a node.
fn waits_for_others(trace: &LinkedTrace, node: NodeIdx) -> bool {
    let mut deps = trace.edges.deps(node).iter();
    deps.any(|edge| matches!(edge.kind, EdgeKind::HostWait | EdgeKind::Handoff))
}

fn free_node(trace: &LinkedTrace, node: NodeIdx, edits: &mut GraphEdits) {
    for kind in [EdgeKind::HostWait, EdgeKind::Handoff, EdgeKind::Tensor] {
        let mut deps = trace.edges.deps(node).iter();
        if deps.any(|edge| edge.kind == kind) {
            edits.freed.push((node, kind));
        }
    }
}

/// Launches of a stretch become one: that of the last.
pub(super) fn capture_graphs(trace: &LinkedTrace) -> Result<GraphEdits, String> {
    let mut edits = GraphEdits::default();
    for thread in launching_threads(trace) {
        for launch in 0..thread.launches.len() - 1 {
            if thread.is_launching(trace, launch) {
                thread.skip_launch(trace, launch, &mut edits);
            }
        }
    }
    if edits.is_empty() {
        return Err("no thread launches several kernels one after the other".to_owned());
    }
    Ok(edits)
}

/// Kernels that follow each other become one.
pub(super) fn fuse_kernels(trace: &LinkedTrace, pattern: &Regex) -> Result<GraphEdits, String> {
    let mut edits = GraphEdits::default();
    let rows = &trace.device.rows;
    let mut row_of_call = vec![None; trace.device.calls.name.len()];
    for (row, call) in trace.row_call.iter().enumerate() {
        if let Some(call) = call.get() {
            row_of_call[call.index()] = Some(row);
        }
    }
    let is_meant = |row: usize| pattern.is_match(trace.device_name(rows.name[row]));
    let mut found = false;
    let mut fused = vec![false; rows.name.len()];
    for thread in launching_threads(trace) {
        for launch in 0..thread.launches.len() - 1 {
            let pair = [launch, launch + 1].map(|launch| thread.launches[launch].1);
            let [Some(one), Some(next)] = pair.map(|call| row_of_call[call.index()]) else {
                continue;
            };
            found |= is_meant(one);
            // A kernel of another stream cannot be a part of the same one.
            let is_one = is_meant(one) && is_meant(next) && rows.queue[one] == rows.queue[next];
            if is_one && thread.is_launching(trace, launch) {
                thread.skip_launch(trace, launch, &mut edits);
                fused[next] = true;
            }
        }
    }
    for index in trace.nodes.indices() {
        let row = trace.row_of(&trace.nodes.get(index));
        if row.is_some_and(|row| fused[row.index()]) {
            edits.at_once.push(index);
        }
    }
    match (edits.is_empty(), found) {
        (false, _) => Ok(edits),
        (true, true) => Err(format!(
            "no two kernels that `{pattern}` matches follow each other"
        )),
        (true, false) => Err(format!("`{pattern}` matches no kernel")),
    }
}

/// Ranges that fetch input take no time.
pub(super) fn remove_input(trace: &LinkedTrace) -> Result<GraphEdits, String> {
    let ops = &trace.device.ops;
    let mut spans: Vec<(ThreadIdx, TimeNs, TimeNs)> = vec![];
    for op in (0..ops.name.len()).map(OpIdx::new) {
        let index = op.index();
        if is_input_name(trace.device_name(ops.name[index])) {
            let start = ops.start[index];
            spans.push((ops.thread[index], start, start + ops.duration[index]));
        }
    }
    // A thread that launches nothing can load ahead of those that do. Without a device every
    // thread does work of its own.
    let launching = launching_threads(trace);
    let mut launches = vec![launching.is_empty(); trace.device.threads.len()];
    for thread in &launching {
        let node = thread.nodes.first().map(|node| trace.nodes.get(*node));
        if let Some(own) = node.and_then(|node| node.thread()) {
            launches[own.index()] = true;
        }
    }
    spans.retain(|(thread, _, _)| launches[thread.index()]);
    spans.sort_unstable();
    let mut edits = GraphEdits::default();
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let Some(thread) = node.thread() else {
            continue;
        };
        let begun = spans.partition_point(|span| (span.0, span.1) <= (thread, node.start));
        // Ranges nest: the one around can have begun before others that are over.
        let before = spans[..begun].iter().rev().take(MOST_NESTED);
        let mut around = before.take_while(|span| span.0 == thread);
        if around.any(|(_, _, end)| node.start < *end) {
            edits.removed.push(index);
            free_node(trace, index, &mut edits);
        }
    }
    if edits.is_empty() {
        return Err("no range of a data loader is on a thread that launches".to_owned());
    }
    Ok(edits)
}

/// Loaders' ranges nest this deep at most.
const MOST_NESTED: usize = 16;

/// No thread waits for a device.
pub(super) fn remove_syncs(trace: &LinkedTrace) -> Result<GraphEdits, String> {
    let mut edits = GraphEdits::default();
    let mut launching = vec![false; trace.device.calls.name.len()];
    for call in trace.row_call.iter().filter_map(|call| call.get()) {
        launching[call.index()] = true;
    }
    let mut waiting = vec![false; launching.len()];
    for index in trace.nodes.indices() {
        let mut deps = trace.edges.deps(index).iter();
        if trace.nodes.on_device[index.index()] || !deps.any(|dep| dep.kind == EdgeKind::HostWait) {
            continue;
        }
        let node = trace.nodes.get(index);
        let call = (node.kind == NodeKind::Runtime).then_some(node.source as usize);
        // A launch into a full queue waits for room, not for a result.
        let is_launch = call.is_some_and(|call| launching[call] && !copies(trace, call));
        if !is_launch {
            edits.freed.push((index, EdgeKind::HostWait));
            if let Some(call) = call {
                waiting[call] = !launching[call];
            }
        }
    }
    // What else a call does is to ask for the wait and to return from it.
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        if node.kind == NodeKind::Runtime && waiting[node.source as usize] {
            edits.removed.push(index);
        }
    }
    if edits.is_empty() {
        return Err("no thread waits for a device".to_owned());
    }
    Ok(edits)
}

fn copies(trace: &LinkedTrace, call: usize) -> bool {
    call_name(trace, CallIdx::new(call)).contains("emcpy")
}
