//! Checks ids and references to them.

use super::cycles;
use super::example;
use crate::finding::{FindingExample, FindingKind, Findings};
use crate::read::ChakraGraph;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Reports faults of ids and deps. Returns the deps as pairs of positions, the awaited node first,
/// without deps on missing nodes and on the node itself.
pub(super) fn check(graph: &ChakraGraph, findings: &mut Findings) -> Vec<(u32, u32)> {
    let index = index_of_ids(graph, findings);
    let mut missing: BTreeMap<u64, MissingId> = BTreeMap::new();
    let mut edges: Vec<(u32, u32)> = vec![];
    for node in 0..graph.len() {
        for (is_control, dep) in graph.deps(node) {
            let parent = is_control && graph.format.is_tree();
            match index.get(&dep) {
                // `ctrl_deps` of ET+ is the parent, and et_replay expects the process root to be
                // its own parent.
                Some(_) if dep == graph.id[node] => itself(graph, node, parent, findings),
                Some(&from) => edges.push((from, position(node))),
                None => {
                    let missing = missing.entry(dep).or_insert(MissingId {
                        first: node,
                        parents: 0,
                        deps: 0,
                    });
                    missing.parents += u64::from(parent);
                    missing.deps += u64::from(!parent);
                }
            }
        }
    }
    note_dangling(graph, &missing, findings);
    note_cycles(graph, &edges, findings);
    edges
}

fn index_of_ids(graph: &ChakraGraph, findings: &mut Findings) -> FxHashMap<u64, u32> {
    let mut index = FxHashMap::default();
    index.reserve(graph.len());
    for (node, &id) in graph.id.iter().enumerate() {
        if index.insert(id, position(node)).is_some() {
            findings.note(FindingKind::DuplicateId, || example(graph, node, ""));
        }
    }
    index
}

/// Reports a node that waits for itself. The root of the op tree is its own parent; no other node
/// may wait for itself.
fn itself(graph: &ChakraGraph, node: usize, parent: bool, findings: &mut Findings) {
    let root = parent && graph.name_of(node).ends_with("|process]");
    if !root {
        findings.note(FindingKind::SelfDep, || example(graph, node, ""));
    }
}

/// An id that deps name but no node has.
struct MissingId {
    first: usize,
    parents: u64,
    deps: u64,
}

fn note_dangling(graph: &ChakraGraph, missing: &BTreeMap<u64, MissingId>, findings: &mut Findings) {
    // One finding per missing id, not per dep: `chakra_converter` drops the process root, which
    // thousands of nodes name.
    for (&id, at) in missing {
        for (kind, count) in [
            (FindingKind::MissingParent, at.parents),
            (FindingKind::DanglingDep, at.deps),
        ] {
            let first = (graph.id[at.first], graph.name_of(at.first));
            findings.add(kind, count, || FindingExample {
                id: Some(id),
                detail: format!("references: {count}, first: node {} ({})", first.0, first.1),
                ..FindingExample::default()
            });
        }
    }
}

/// Maximum number of nodes named per cycle.
const NODES_OF_CYCLE: usize = 1_000;

fn note_cycles(graph: &ChakraGraph, edges: &[(u32, u32)], findings: &mut Findings) {
    for cycle in cycles::cycles(graph.len(), edges) {
        let Some(&first) = cycle.circle.first() else {
            continue;
        };
        let nodes = cycle.nodes().take(NODES_OF_CYCLE);
        let nodes = nodes.map(|node| graph.id[node as usize]).collect();
        let order = match cycle.others.len() {
            0 => "each waits for the next, and the last waits for the first".to_owned(),
            _ => format!(
                "each of the first {} waits for the next",
                cycle.circle.len()
            ),
        };
        let listed = if cycle.len() > NODES_OF_CYCLE {
            format!(" (the first {NODES_OF_CYCLE} are listed)")
        } else {
            String::new()
        };
        findings.add(FindingKind::Cycle, cycle.len() as u64, || FindingExample {
            nodes,
            ..example(
                graph,
                first as usize,
                format!("{} nodes, {order}{listed}", cycle.len()),
            )
        });
    }
}

fn position(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
