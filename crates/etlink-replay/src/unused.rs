//! Explains why a what-if rule matches nothing, with suggestions: a misspelled name would otherwise
//! look like a change without effect.

use crate::graph::{EdgeKind, ReplayGraph};
use crate::labels::{LabelSource, split_rank};
use etlink_model::{GlobalRank, NodeIdx};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Number of names, kinds or ranks listed.
const LISTED: usize = 8;
/// Number of similar names suggested.
const SIMILAR: usize = 3;
/// Number of leading characters compared: kernel names have hundreds.
const COMPARED_CHARS: usize = 64;

/// Reason why a rule matches no node or no edge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusedRule {
    /// No node belongs to the rank.
    #[error("no rank {rank}{}", list_text("; ranks: ", ranks))]
    NoRank {
        /// Rank named by the rule.
        rank: GlobalRank,
        /// Ranks of the graph; empty for the graph of a single rank.
        ranks: Vec<GlobalRank>,
    },
    /// No node has the name.
    #[error("no node has that name{}", list_text("; similar names: ", similar))]
    NoName {
        /// Similar names of nodes.
        similar: Vec<String>,
    },
    /// No node has the kind.
    #[error("no node of that kind{}", list_text("; kinds: ", kinds))]
    NoNodeKind {
        /// Kinds of the graph's nodes.
        kinds: Vec<&'static str>,
    },
    /// No edge has the kind.
    #[error("no edge of that kind{}", list_text("; kinds: ", kinds))]
    NoEdgeKind {
        /// Kinds of the graph's edges.
        kinds: Vec<&'static str>,
    },
}

pub(crate) fn list_text(before: &str, values: &[impl ToString]) -> String {
    if values.is_empty() {
        return String::new();
    }
    let listed = values.iter().take(LISTED).map(ToString::to_string);
    let rest = if values.len() > LISTED { ", …" } else { "" };
    format!("{before}{}{rest}", listed.collect::<Vec<_>>().join(", "))
}

/// Refuses a rank without nodes.
pub(crate) fn check_rank(graph: &ReplayGraph, rank: Option<GlobalRank>) -> Result<(), UnusedRule> {
    let Some(rank) = rank else { return Ok(()) };
    let ranks: BTreeSet<GlobalRank> = graph
        .resources
        .iter()
        .filter_map(|place| place.rank)
        .collect();
    if ranks.contains(&rank) {
        return Ok(());
    }
    Err(UnusedRule::NoRank {
        rank,
        ranks: ranks.into_iter().collect(),
    })
}

/// Checks that there are edges of a kind.
///
/// # Errors
/// There are none; the error lists the existing kinds.
pub fn check_edge_kind(graph: &ReplayGraph, kind: EdgeKind) -> Result<(), UnusedRule> {
    let mut has_kind = EdgeKind::ALL.map(|_| false);
    for node in graph.indices() {
        for dep in graph.deps(node) {
            has_kind[dep.kind as usize] = true;
        }
    }
    if has_kind[kind as usize] {
        return Ok(());
    }
    let kinds = EdgeKind::ALL
        .into_iter()
        .filter(|kind| has_kind[*kind as usize]);
    Err(UnusedRule::NoEdgeKind {
        kinds: kinds.map(EdgeKind::name).collect(),
    })
}

/// Explains why [`find_node`](crate::find_node) found nothing, with suggestions. O(nodes).
pub fn explain_missing_name(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    wanted: &str,
) -> UnusedRule {
    let (rank, wanted) = split_rank(wanted);
    match check_rank(graph, rank) {
        Ok(()) => missing_name(graph, labels, rank, wanted),
        Err(unused) => unused,
    }
}

/// Reports that no node has a name, on the given rank if there is one.
pub(crate) fn missing_name(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    rank: Option<GlobalRank>,
    wanted: &str,
) -> UnusedRule {
    UnusedRule::NoName {
        similar: similar_names(graph, labels, rank, wanted),
    }
}

/// Returns the node names most similar to `wanted`, the best first.
fn similar_names(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    rank: Option<GlobalRank>,
    wanted: &str,
) -> Vec<String> {
    let is_of_rank = |node: &NodeIdx| rank.is_none() || graph.rank(*node) == rank;
    let nodes = graph.indices().filter(is_of_rank);
    // few names for many nodes
    let names: BTreeSet<&str> = nodes.map(|node| labels.name(node)).collect();
    let wanted = comparable(wanted);
    let mut rated: Vec<(u64, &str)> = vec![];
    for name in names {
        let score = similarity(&wanted, &comparable(name));
        // a name with nothing in common is no suggestion
        if score > 0 && !name.is_empty() {
            rated.push((score, name));
        }
    }
    rated.sort_by_key(|(score, name)| (Reverse(*score), *name));
    let best = rated.into_iter().take(SIMILAR);
    best.map(|(_, name)| shortened(name)).collect()
}

/// Normalizes a name for comparison: removes wildcards, ignores case.
fn comparable(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|letter| !"*?".contains(*letter));
    letters
        .take(COMPARED_CHARS)
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns the share of character pairs that two names have in common, in thousandths (Dice's
/// coefficient).
// not the edit distance: `addmm` should find `aten::addmm`, which is many edits away
fn similarity(a: &[char], b: &[char]) -> u64 {
    let mut rest: Vec<&[char]> = b.windows(2).collect();
    let all = a.len().saturating_sub(1) + rest.len();
    let mut shared = 0;
    for pair in a.windows(2) {
        if let Some(at) = rest.iter().position(|other| *other == pair) {
            rest.swap_remove(at);
            shared += 2;
        }
    }
    (shared * 1000 / all.max(1)) as u64
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(COMPARED_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
