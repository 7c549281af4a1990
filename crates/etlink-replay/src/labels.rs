//! Labels of nodes; names and numbers stay in their trace.

use crate::graph::ReplayGraph;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{Correlation, GlobalRank, NodeIdx};
use serde::Serialize;
use wildmatch::WildMatch;

/// Source of names and numbers of nodes.
pub trait LabelSource {
    /// Returns the name of a node; empty if there is none.
    fn name(&self, node: NodeIdx) -> &str;

    /// Returns the number of a node in the file, or its place in the graph if the file has no
    /// numbers.
    fn id(&self, node: NodeIdx) -> u64 {
        u64::from(node.0)
    }

    /// Returns the program's name for the node's CUDA graph node; empty if there is none.
    fn annotation(&self, _node: NodeIdx) -> &str {
        ""
    }

    /// Returns the number shared by a runtime call and the device work that it caused.
    fn correlation(&self, node: NodeIdx) -> Option<Correlation>;
}

/// Empty labels, for runs without name rules.
pub(crate) struct NoLabels;

impl LabelSource for NoLabels {
    fn name(&self, _: NodeIdx) -> &str {
        ""
    }

    fn correlation(&self, _: NodeIdx) -> Option<Correlation> {
        None
    }
}

/// Label of a node in reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeLabel {
    /// Rank of the node, if there are several ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<GlobalRank>,
    /// Number of the node from [`LabelSource::id`].
    pub node: u64,
    /// Name of the node from [`LabelSource::name`].
    pub name: String,
    /// Name that the program gave to the CUDA graph node during capture.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub annotation: String,
    /// Kind of work or delay.
    pub kind: crate::ReplayKind,
    /// Name of the thread or stream.
    pub place: String,
}

impl NodeLabel {
    /// Returns the label of `node`.
    pub fn from_node(graph: &ReplayGraph, labels: &dyn LabelSource, node: NodeIdx) -> NodeLabel {
        NodeLabel {
            rank: graph.rank(node),
            node: labels.id(node),
            name: labels.name(node).to_owned(),
            annotation: labels.annotation(node).to_owned(),
            kind: graph.kind[node.index()],
            place: graph.place(node).to_owned(),
        }
    }
}

/// Finds a node by number, else by name, else by a pattern with `*` and `?`; the first match wins.
/// A prefix `rank=N/` limits the search to that rank. O(nodes).
pub fn find_node(graph: &ReplayGraph, labels: &dyn LabelSource, wanted: &str) -> Option<NodeIdx> {
    let (rank, wanted) = split_rank(wanted);
    let mut nodes = graph
        .indices()
        .filter(|node| rank.is_none() || graph.rank(*node) == rank);
    if let Ok(id) = wanted.parse::<u64>()
        && let Some(node) = nodes.clone().find(|node| labels.id(*node) == id)
    {
        return Some(node);
    }
    let pattern = WildMatch::new(wanted);
    nodes
        .clone()
        .find(|node| labels.name(*node) == wanted)
        .or_else(|| nodes.find(|node| pattern.matches(labels.name(*node))))
}

/// Splits a text into the rank in a prefix `rank=N/`, and the rest.
pub(crate) fn split_rank(text: &str) -> (Option<GlobalRank>, &str) {
    let parts = text
        .strip_prefix("rank=")
        .and_then(|text| text.split_once('/'));
    let numbered = parts.and_then(|(rank, rest)| Some((rank.parse().ok()?, rest)));
    // A name of the program can begin with `rank=`: without a number it is not a rank.
    numbered.map_or((None, text), |(rank, rest)| (Some(GlobalRank(rank)), rest))
}
