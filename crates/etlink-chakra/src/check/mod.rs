//! Says what is wrong with a trace before a simulator does, or does not.
//!
//! The rules are those of stock ASTRA-sim (measured, each by a probe file), of
//! `chakra_converter` and of et_replay's loader. ASTRA-sim aborts on some faults, hangs on
//! others, and takes cycles, cut files and invalid strings in silence while nodes never run.
//! O(nodes + deps); no recursion.

mod comm;
mod deps;
mod ranks;
mod rows;

#[cfg(test)]
mod tests;

pub use ranks::{RankNodes, check_ranks};

use crate::finding::{Example, Finding, FindingKind, Findings};
use crate::proto::NodeType;
use crate::read::{FileKind, Graph};

/// All that is wrong with a file: what its reader met and what the graph shows. Errors first.
pub fn check(graph: &Graph) -> Vec<Finding> {
    let mut findings = graph.findings.clone();
    if graph.is_empty() && findings.count(FindingKind::EmptyFile) == 0 {
        findings.note(FindingKind::NoNodes, Example::default);
    }
    deps::check(graph, &mut findings);
    if !graph.format.is_tree() {
        types(graph, &mut findings);
        comm::check(graph, &mut findings);
        if graph.format == FileKind::ChakraEt || graph.format == FileKind::ChakraJson {
            time_order(graph, &mut findings);
        }
    }
    findings.into_sorted()
}

fn example(graph: &Graph, index: usize, detail: impl Into<String>) -> Example {
    Example {
        id: Some(graph.id[index]),
        name: graph.name_of(index).to_owned(),
        offset: None,
        detail: detail.into(),
    }
}

fn types(graph: &Graph, findings: &mut Findings) {
    for (index, node_type) in graph.node_type.iter().enumerate() {
        let kind = match node_type {
            NodeType::MetadataNode => FindingKind::MetadataNode,
            NodeType::InvalidNode => FindingKind::InvalidNode,
            _ => continue,
        };
        findings.note(kind, || example(graph, index, ""));
    }
}

/// Whether starts ascend with ids. Nodes that do not say when they began are left out.
fn time_order(graph: &Graph, findings: &mut Findings) {
    let mut order: Vec<usize> = (0..graph.len())
        .filter(|&index| graph.start_ns[index].is_some())
        .collect();
    order.sort_by_key(|&index| graph.id[index]);
    for pair in order.windows(2) {
        if graph.start_ns[pair[1]] < graph.start_ns[pair[0]] {
            let detail = || format!("starts before node {}", graph.id[pair[0]]);
            findings.note(FindingKind::IdsNotInTimeOrder, || {
                example(graph, pair[1], detail())
            });
        }
    }
}
