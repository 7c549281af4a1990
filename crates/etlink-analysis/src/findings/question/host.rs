//! Questions about threads: their launches, input, and waits.

use crate::findings::launching::{
    call_name, free_node, input_nodes, launching_threads, skip_launches,
};
use etlink_link::{EdgeKind, LinkedTrace, NodeKind};
use etlink_model::{CallIdx, NodeIdx};
use etlink_replay::GraphEdits;
use regex::Regex;

/// Merges the launches of a stretch into the last one.
pub(super) fn capture_graphs(trace: &LinkedTrace) -> Result<GraphEdits, String> {
    let edits = skip_launches(trace);
    if edits.is_empty() {
        return Err("no thread launches several kernels in a row".to_owned());
    }
    Ok(edits)
}

/// Merges consecutive kernels into one.
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
            // A kernel on another stream cannot be part of the fused kernel.
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
        (true, true) => Err(format!("no two consecutive kernels match `{pattern}`")),
        (true, false) => Err(format!("`{pattern}` matches no kernel")),
    }
}

/// Lets ranges that fetch input take no time.
pub(super) fn remove_input(trace: &LinkedTrace) -> Result<GraphEdits, String> {
    // A thread that launches nothing can load ahead of those that do. Without a device, every
    // thread does work of its own.
    let launching = launching_threads(trace);
    let launches = |node: NodeIdx| {
        let thread = trace.nodes.get(node).thread();
        launching.is_empty() || launching.iter().any(|own| Some(own.thread) == thread)
    };
    let mut edits = GraphEdits::default();
    for (index, is_input) in trace.nodes.indices().zip(input_nodes(trace)) {
        if is_input && launches(index) {
            edits.removed.push(index);
            free_node(trace, index, &mut edits);
        }
    }
    if edits.is_empty() {
        return Err("no range of a data loader on a thread that launches kernels".to_owned());
    }
    Ok(edits)
}

/// Removes all waits of threads for a device.
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
        // A launch into a full queue waits for a slot, not for a result.
        let is_launch = call.is_some_and(|call| launching[call] && !copies(trace, call));
        if !is_launch {
            edits.freed.push((index, EdgeKind::HostWait));
            if let Some(call) = call {
                waiting[call] = !launching[call];
            }
        }
    }
    // The rest of such a call only requests the wait and returns from it.
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
