//! What nodes are called: names and numbers stay where they are.

use crate::graph::ReplayGraph;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{Correlation, GlobalRank, NodeIdx};
use serde::Serialize;
use wildmatch::WildMatch;

/// What the trace knows of its nodes besides times.
pub trait LabelSource {
    /// The name of a node; empty where it has none.
    fn name(&self, node: NodeIdx) -> &str;

    /// Its number in the file; its place in the graph unless the file has its own.
    fn id(&self, node: NodeIdx) -> u64 {
        u64::from(node.0)
    }

    /// What the program called the node of a CUDA graph that it is; empty where it did not.
    fn annotation(&self, _node: NodeIdx) -> &str {
        ""
    }

    /// The number that a runtime call and the device work that it caused share.
    fn correlation(&self, node: NodeIdx) -> Option<Correlation>;
}

/// For runs that no name matters to.
pub(crate) struct NoLabels;

impl LabelSource for NoLabels {
    fn name(&self, _: NodeIdx) -> &str {
        ""
    }

    fn correlation(&self, _: NodeIdx) -> Option<Correlation> {
        None
    }
}

/// A node as reports name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeLabel {
    /// Whose node it is, among several ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<GlobalRank>,
    /// The number that [`LabelSource::id`] has for it.
    pub node: u64,
    /// Name, as [`LabelSource::name`] has it.
    pub name: String,
    /// What the program called it when it captured the CUDA graph that it is a node of.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub annotation: String,
    /// What runs, or why nothing does.
    pub kind: crate::ReplayKind,
    /// Thread or stream.
    pub place: String,
}

impl NodeLabel {
    /// How `node` is named.
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

/// The node of this number, else the first of this name, else the first that this pattern (`*`,
/// `?`) matches; behind `rank=N/` of that rank alone. O(nodes).
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

/// `rank=N/` and what stands behind it.
pub(crate) fn split_rank(text: &str) -> (Option<GlobalRank>, &str) {
    let parts = text
        .strip_prefix("rank=")
        .and_then(|text| text.split_once('/'));
    let numbered = parts.and_then(|(rank, rest)| Some((rank.parse().ok()?, rest)));
    // A name of the program's own can begin with `rank=`: without a number it is no rank.
    numbered.map_or((None, text), |(rank, rest)| (Some(GlobalRank(rank)), rest))
}
