//! What nodes are called: names and numbers stay where they are.

use crate::graph::Graph;
use serde::Serialize;
use wildmatch::WildMatch;

/// What the trace knows of its nodes besides times.
pub trait Labels {
    /// Name.
    fn name(&self, node: u32) -> &str;

    /// Its number in the file; its place in the graph unless the file has its own.
    fn id(&self, node: u32) -> u64 {
        u64::from(node)
    }

    /// The number that a runtime call and the device work that it caused share.
    fn correlation(&self, node: u32) -> Option<i64>;
}

/// A node as reports name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeLabel {
    /// Number.
    pub node: u64,
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: crate::Kind,
    /// Thread or stream.
    pub place: String,
}

impl NodeLabel {
    /// How `node` is named.
    pub fn of(graph: &Graph, labels: &dyn Labels, node: u32) -> NodeLabel {
        let at = node as usize;
        NodeLabel { node: labels.id(node), name: labels.name(node).to_owned(), kind: graph.kind[at], place: graph.place(at).to_owned() }
    }
}

/// The node of this number, else the first of this name, else the first that this pattern (`*`, `?`) matches. O(nodes).
pub fn find(graph: &Graph, labels: &dyn Labels, wanted: &str) -> Option<u32> {
    let mut nodes = 0..graph.len() as u32;
    if let Ok(id) = wanted.parse::<u64>()
        && let Some(node) = nodes.clone().find(|node| labels.id(*node) == id)
    {
        return Some(node);
    }
    let pattern = WildMatch::new(wanted);
    nodes.clone().find(|node| labels.name(*node) == wanted).or_else(|| nodes.find(|node| pattern.matches(labels.name(*node))))
}
