//! Reports faults of a trace before simulators do, or silently ignore them.
//!
//! The rules come from stock ASTRA-sim (measured, each with a probe file), `chakra_converter`
//! and et_replay's loader. ASTRA-sim aborts on some faults and hangs on others. It silently
//! accepts cycles, truncated files and invalid strings, although some nodes never run. O(nodes +
//! deps); no recursion.

mod comm;
mod cycles;
mod deps;
mod order;
mod ranks;
mod rules;

#[cfg(test)]
mod tests;

pub use ranks::{RankNodes, check_ranks};
pub use rules::{CheckRule, RULES};

use crate::convert::NodeNumbers;
use crate::finding::{Finding, FindingExample, FindingKind, Findings};
use crate::proto::NodeType;
use crate::read::{ChakraGraph, FileKind};

/// Returns all faults of a file: those that its reader found and those that the graph shows. Errors
/// come first.
pub fn check(graph: &ChakraGraph) -> Vec<Finding> {
    let mut findings = graph.findings.clone();
    if graph.is_empty() && findings.count(FindingKind::EmptyFile) == 0 {
        findings.note(FindingKind::NoNodes, FindingExample::default);
    }
    let deps = deps::check(graph, &mut findings);
    // ET+ is not a file for simulators: the converter determines types and communications.
    if !graph.format.is_tree() {
        types(graph, &mut findings);
        comm::check(graph, &mut findings);
        collectives_as_compute(graph, &mut findings);
        // Only these formats have ids that a feeder orders by.
        if graph.format == FileKind::ChakraEt || graph.format == FileKind::ChakraJson {
            order::check(graph, &deps, &mut findings);
        }
    }
    findings.into_sorted()
}

/// Returns the number of each node's cycle; `None` for nodes on no cycle, including nodes that only
/// wait for themselves. O(nodes + deps).
pub fn cycle_of_nodes(graph: &ChakraGraph) -> Vec<Option<u32>> {
    let numbers = NodeNumbers::new(graph);
    let mut edges: Vec<(u32, u32)> = vec![];
    for (node, at) in (0u32..).zip(0..graph.len()) {
        let deps = graph.deps(at);
        edges.extend(deps.filter_map(|(_, id)| Some((numbers.find(id)?, node))));
    }
    let mut of = vec![None; graph.len()];
    for (number, cycle) in (0..).zip(cycles::cycles(graph.len(), &edges)) {
        for node in cycle.nodes() {
            of[node as usize] = Some(number);
        }
    }
    of
}

fn example(graph: &ChakraGraph, index: usize, detail: impl Into<String>) -> FindingExample {
    FindingExample {
        id: Some(graph.id[index]),
        name: graph.name_of(index).to_owned(),
        detail: detail.into(),
        ..FindingExample::default()
    }
}

/// Reports collectives that are computation, in a file without communications: its ranks run
/// independently.
fn collectives_as_compute(graph: &ChakraGraph, findings: &mut Findings) {
    let is_compute = |kind: &NodeType| *kind == NodeType::CompNode;
    if !graph.node_type.iter().all(is_compute) {
        return;
    }
    // in files of etlink, only the first slice of a range has this kind
    let is_range = |index: usize| graph.kind_of(index) == "collective";
    let states_ranges = (0..graph.len()).any(is_range);
    for index in 0..graph.len() {
        let is_gloo = graph.name_of(index).starts_with("gloo:");
        if is_gloo && is_range(index) == states_ranges {
            findings.note(FindingKind::GlooAsCompute, || example(graph, index, ""));
        } else if !is_gloo && is_range(index) {
            findings.note(FindingKind::CollectiveAsCompute, || {
                example(graph, index, "")
            });
        }
    }
}

fn types(graph: &ChakraGraph, findings: &mut Findings) {
    for (index, node_type) in graph.node_type.iter().enumerate() {
        let kind = match node_type {
            NodeType::MetadataNode => FindingKind::MetadataNode,
            NodeType::InvalidNode => FindingKind::InvalidNode,
            _ => continue,
        };
        findings.note(kind, || example(graph, index, ""));
    }
}
