//! Says what is wrong with a trace before a simulator does, or does not.
//!
//! The rules are those of stock ASTRA-sim (measured, each by a probe file), of
//! `chakra_converter` and of et_replay's loader. ASTRA-sim aborts on some faults, hangs on
//! others, and takes cycles, cut files and invalid strings in silence while nodes never run.
//! O(nodes + deps); no recursion.

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

/// All that is wrong with a file: what its reader met and what the graph shows. Errors first.
pub fn check(graph: &ChakraGraph) -> Vec<Finding> {
    let mut findings = graph.findings.clone();
    if graph.is_empty() && findings.count(FindingKind::EmptyFile) == 0 {
        findings.note(FindingKind::NoNodes, FindingExample::default);
    }
    let deps = deps::check(graph, &mut findings);
    // ET+ is no file for simulators: types and communications are the converter's to make.
    if !graph.format.is_tree() {
        types(graph, &mut findings);
        comm::check(graph, &mut findings);
        gloo_as_compute(graph, &mut findings);
        // Only these have ids that a feeder orders by.
        if graph.format == FileKind::ChakraEt || graph.format == FileKind::ChakraJson {
            order::check(graph, &deps, &mut findings);
        }
    }
    findings.into_sorted()
}

/// Per node, the number of the cycle that it is on; most are on none. A node that waits for itself
/// alone is on none either. O(nodes + deps).
pub fn cycle_of_nodes(graph: &ChakraGraph) -> Vec<Option<u32>> {
    let numbers = NodeNumbers::new(graph);
    let mut edges: Vec<(u32, u32)> = vec![];
    for (node, at) in (0u32..).zip(0..graph.len()) {
        let (control, data) = (graph.ctrl_deps.list(at), graph.data_deps.list(at));
        let deps = control.iter().chain(data);
        edges.extend(deps.filter_map(|id| Some((numbers.find(*id)?, node))));
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

/// Gloo's own ranges in a file without a communication: its ranks run without each other.
fn gloo_as_compute(graph: &ChakraGraph, findings: &mut Findings) {
    let is_compute = |kind: &NodeType| *kind == NodeType::CompNode;
    if !graph.node_type.iter().all(is_compute) {
        return;
    }
    for index in 0..graph.len() {
        if graph.name_of(index).starts_with("gloo:") {
            findings.note(FindingKind::GlooAsCompute, || example(graph, index, ""));
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
