//! Why a what-if rule concerns nothing, and what was perhaps meant: a misspelled name would pass
//! for a change without effect.

use crate::graph::{EdgeKind, ReplayGraph};
use crate::labels::{LabelSource, split_rank};
use etlink_model::{GlobalRank, NodeIdx};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// So many names, kinds or ranks are listed.
const LISTED: usize = 8;
/// So many similar names are proposed.
const SIMILAR: usize = 3;
/// Names are compared by so many of their first characters: those of kernels have hundreds.
const COMPARED_CHARS: usize = 64;

/// Why a rule concerns no node or no edge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusedRule {
    /// No node is of its rank.
    #[error("there is no rank {rank}{}", list_text("; ranks are ", ranks))]
    NoRank {
        /// The rank that it names.
        rank: GlobalRank,
        /// Those of the graph; none in the graph of a single rank.
        ranks: Vec<GlobalRank>,
    },
    /// No node has its name.
    #[error("no node has that name{}", list_text("; similar names are ", similar))]
    NoName {
        /// Names that nodes have.
        similar: Vec<String>,
    },
    /// No node is of its kind.
    #[error("no node is of that kind{}", list_text("; kinds are ", kinds))]
    NoNodeKind {
        /// Those of the graph's nodes.
        kinds: Vec<&'static str>,
    },
    /// No edge is of its kind.
    #[error("no edge is of that kind{}", list_text("; kinds are ", kinds))]
    NoEdgeKind {
        /// Those of the graph's edges.
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

/// Refuses a rank that no node is of.
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

/// Whether there are edges of a kind.
///
/// # Errors
/// There are none; the error has the kinds that there are.
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

/// Why [`find_node`](crate::find_node) found nothing, and what there is instead. O(nodes).
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

/// No node has a name; on that rank, if one is given.
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

/// The names of nodes that are most like `wanted`, the most similar first.
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
        // what has nothing in common is no proposal
        if score > 0 && !name.is_empty() {
            rated.push((score, name));
        }
    }
    rated.sort_by_key(|(score, name)| (Reverse(*score), *name));
    let best = rated.into_iter().take(SIMILAR);
    best.map(|(_, name)| shortened(name)).collect()
}

/// What two names are compared by: neither case nor wildcards.
fn comparable(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|letter| !"*?".contains(*letter));
    letters
        .take(COMPARED_CHARS)
        .flat_map(char::to_lowercase)
        .collect()
}

/// How many of a thousand pairs of neighbouring characters two names share (Dice's coefficient).
// no edit distance: `addmm` shall find `aten::addmm`, from which it is far by edits
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
