//! Measures how well waits are inferred: links a trace with and without its `cuda_sync` rows, and
//! compares.
//!
//! A wait is correct if the other graph has it too, directly or through other nodes.

use crate::support::read_trace_text;
use anyhow::{Context, Result, ensure};
use etlink_link::{EdgeKind, LinkOptions, LinkedTrace, NodeKind};
use etlink_model::{DeviceTrace, NodeIdx, SyncRows};
use std::path::{Path, PathBuf};

pub fn compare_waits(files: &[PathBuf]) -> Result<()> {
    println!(
        "{:40} {:>8} {:>7} {:>9} {:>8} {:>7} {:>9}",
        "trace", "waits of", "stated", "recall", "inferred", "", "precision"
    );
    for file in files {
        let device = read_trace(file).with_context(|| file.display().to_string())?;
        ensure!(
            !device.syncs.is_empty(),
            "{} has no cuda_sync rows to compare with",
            file.display()
        );
        // As if recorded without sync events: all waits of this graph are inferred.
        let without = DeviceTrace {
            syncs: SyncRows::default(),
            ..device.clone()
        };
        let (stated, inferred) = (link_device(device)?, link_device(without)?);
        for (kind, name) in [
            (EdgeKind::EventWait, "streams"),
            (EdgeKind::HostWait, "calls"),
        ] {
            let (truth, found) = (
                waits_of_kind(&stated, kind, false),
                waits_of_kind(&inferred, kind, true),
            );
            let recalled = count_waits(&truth, &inferred);
            // Precision asks the reverse: how many inferred waits are also stated.
            let right = count_waits(&found, &stated);
            println!(
                "{:40} {name:>8} {:>7} {:>9} {:>8} {:>7} {:>9}",
                file.file_name().unwrap_or_default().display(),
                truth.len(),
                share_text(recalled, truth.len()),
                found.len(),
                "",
                share_text(right, found.len())
            );
        }
    }
    Ok(())
}

fn read_trace(file: &Path) -> Result<DeviceTrace> {
    let options = etlink_formats::kineto::KinetoReadOptions::default();
    Ok(etlink_formats::kineto::read(
        &read_trace_text(file)?[..],
        options,
    )?)
}

/// Returns how many of these waits a graph has.
fn count_waits(waits: &[Wait], graph: &LinkedTrace) -> usize {
    waits.iter().filter(|wait| has_path(graph, wait)).count()
}

fn share_text(part: usize, whole: usize) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.3}", part as f64 / whole as f64)
}

fn link_device(device: DeviceTrace) -> Result<LinkedTrace> {
    Ok(etlink_link::link(None, device, LinkOptions::default())?)
}

/// Kind and source of two nodes: the waiting one and the row it waited for.
type Wait = [(NodeKind, u32); 2];

fn node_key(trace: &LinkedTrace, node: NodeIdx) -> (NodeKind, u32) {
    let node = trace.nodes.get(node);
    // a delay counts as the row that it delays
    let kind = match node.kind {
        NodeKind::UnexplainedWait | NodeKind::Boundary if node.on_device => NodeKind::DeviceOp,
        NodeKind::Collective if node.on_device => NodeKind::DeviceOp,
        kind => kind,
    };
    (kind, node.source)
}

fn waits_of_kind(trace: &LinkedTrace, kind: EdgeKind, inferred: bool) -> Vec<Wait> {
    let edges = trace
        .edges
        .iter()
        .filter(|edge| edge.kind == kind && edge.inferred == inferred);
    edges
        .map(|edge| [node_key(trace, edge.to), node_key(trace, edge.from)])
        .collect()
}

/// Returns true if a graph has a path between the last nodes with these kinds and sources.
fn has_path(trace: &LinkedTrace, [to, from]: &Wait) -> bool {
    let (Some(to), Some(from)) = (last_node(trace, *to), last_node(trace, *from)) else {
        return false;
    };
    let mut seen = vec![false; trace.nodes.len()];
    let mut open = vec![to];
    while let Some(node) = open.pop() {
        if node == from {
            return true;
        }
        let deps = trace.edges.deps(node).iter();
        // Edges lead to higher numbers, so nodes below `from` cannot come after it.
        for edge in deps.filter(|edge| edge.from >= from) {
            if !std::mem::replace(&mut seen[edge.from.index()], true) {
                open.push(edge.from);
            }
        }
    }
    false
}

fn last_node(trace: &LinkedTrace, wanted: (NodeKind, u32)) -> Option<NodeIdx> {
    // An op or call may have several nodes; it ends with its last one.
    let mut nodes = trace.nodes.indices();
    nodes.rfind(|node| node_key(trace, *node) == wanted)
}
