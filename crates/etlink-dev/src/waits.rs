//! How well waits are inferred: link a trace with its `cuda_sync` rows and without, and compare.
//!
//! A wait is right when the other graph has it too, directly or through other nodes.

use anyhow::{Context, Result, ensure};
use etlink_link::{EdgeKind, LinkOptions, LinkedTrace, NodeKind};
use etlink_model::{DeviceTrace, SyncRows};
use std::io::Read;
use std::path::{Path, PathBuf};

pub fn run(files: &[PathBuf]) -> Result<()> {
    println!(
        "{:40} {:>8} {:>7} {:>9} {:>8} {:>7} {:>9}",
        "trace", "waits of", "stated", "recall", "inferred", "", "precision"
    );
    for file in files {
        let device = read(file).with_context(|| file.display().to_string())?;
        ensure!(
            !device.syncs.is_empty(),
            "{} has no cuda_sync rows to compare with",
            file.display()
        );
        let without = DeviceTrace {
            syncs: SyncRows::default(),
            ..device.clone()
        };
        let (stated, inferred) = (link(device)?, link(without)?);
        for (kind, name) in [
            (EdgeKind::EventWait, "streams"),
            (EdgeKind::HostWait, "calls"),
        ] {
            let (truth, found) = (waits(&stated, kind, false), waits(&inferred, kind, true));
            let right = |waits: &[Wait], graph: &LinkedTrace| {
                waits.iter().filter(|wait| reaches(graph, wait)).count()
            };
            let (recalled, right) = (right(&truth, &inferred), right(&found, &stated));
            let share = |part: usize, of: usize| {
                if of == 0 {
                    "-".to_owned()
                } else {
                    format!("{:.3}", part as f64 / of as f64)
                }
            };
            println!(
                "{:40} {name:>8} {:>7} {:>9} {:>8} {:>7} {:>9}",
                file.file_name().unwrap_or_default().display(),
                truth.len(),
                share(recalled, truth.len()),
                found.len(),
                "",
                share(right, found.len())
            );
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<DeviceTrace> {
    let mut bytes = std::fs::read(file)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let packed = std::mem::take(&mut bytes);
        flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut bytes)?;
    }
    Ok(etlink_kineto::read(
        &bytes[..],
        etlink_kineto::KinetoReadOptions::default(),
    )?)
}

fn link(device: DeviceTrace) -> Result<LinkedTrace> {
    Ok(etlink_link::link(None, device, LinkOptions::default())?)
}

/// Kind and source of two nodes: the one that waits and the row waited for.
type Wait = [(NodeKind, u32); 2];

fn key(trace: &LinkedTrace, node: u32) -> (NodeKind, u32) {
    let node = trace.nodes.get(node as usize);
    // a delay stands for the row that it delays
    let kind = match node.kind {
        NodeKind::UnexplainedWait | NodeKind::Boundary if node.on_device => NodeKind::DeviceOp,
        NodeKind::Collective if node.on_device => NodeKind::DeviceOp,
        kind => kind,
    };
    (kind, node.source)
}

fn waits(trace: &LinkedTrace, kind: EdgeKind, inferred: bool) -> Vec<Wait> {
    let edges = trace
        .edges
        .iter()
        .filter(|edge| edge.kind == kind && edge.inferred == inferred);
    edges
        .map(|edge| [key(trace, edge.to), key(trace, edge.from)])
        .collect()
}

/// Whether a graph has a path between the last nodes of that kind and source.
fn reaches(trace: &LinkedTrace, [to, from]: &Wait) -> bool {
    let last = |wanted| {
        (0..trace.nodes.len() as u32)
            .rev()
            .find(|node| key(trace, *node) == wanted)
    };
    let (Some(to), Some(from)) = (last(*to), last(*from)) else {
        return false;
    };
    let mut seen = vec![false; trace.nodes.len()];
    let mut open = vec![to];
    while let Some(node) = open.pop() {
        if node == from {
            return true;
        }
        for edge in trace
            .edges
            .deps(node as usize)
            .iter()
            .filter(|edge| edge.from >= from)
        {
            if !std::mem::replace(&mut seen[edge.from as usize], true) {
                open.push(edge.from);
            }
        }
    }
    false
}
