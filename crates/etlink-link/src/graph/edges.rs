//! Edges of the graph, grouped by the waiting node.

use crate::graph::kinds::EdgeKind;
use etlink_model::NodeIdx;

/// A reason for node `to` to wait for the end of node `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Waiting node.
    pub to: NodeIdx,
    /// Evidence for the wait.
    pub kind: EdgeKind,
    /// Awaited node; a lower number than `to`.
    pub from: NodeIdx,
    /// True if the edge was found by a rule, not recorded.
    pub inferred: bool,
}

/// Edges by `to`, `kind`, `from`: compressed rows, with a column for each part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    kind: Vec<EdgeKind>,
    from: Vec<NodeIdx>,
    inferred: Vec<bool>,
    /// `first[n]..first[n + 1]` are the edges to node `n`.
    first: Vec<u32>,
}

/// Awaited nodes of one node, by kind and number.
#[derive(Clone, Copy, Debug)]
pub struct NodeDeps<'e> {
    to: NodeIdx,
    kind: &'e [EdgeKind],
    from: &'e [NodeIdx],
    inferred: &'e [bool],
}

impl Edges {
    /// Sorts `all` into rows for `nodes` nodes, and drops duplicates. O(n log n).
    pub fn new(all: Vec<Edge>, nodes: usize) -> Self {
        Edges::chained(std::iter::repeat_n(NodeIdx::NONE, nodes), all)
    }

    /// Builds one node per entry of `previous`, with an edge of program order from that entry
    /// unless it is [`NodeIdx::NONE`], and adds the edges `others`.
    pub(crate) fn chained(
        previous: impl ExactSizeIterator<Item = NodeIdx>,
        mut others: Vec<Edge>,
    ) -> Self {
        // built from sorted runs, which a merge sort exploits
        others.sort();
        // Stated edges sort before inferred ones, so the stated one of a pair is kept.
        others.dedup_by_key(|edge| (edge.to, edge.kind, edge.from));
        let (nodes, most) = (previous.len(), previous.len() + others.len());
        let mut edges = Edges {
            kind: Vec::with_capacity(most),
            from: Vec::with_capacity(most),
            inferred: Vec::with_capacity(most),
            first: Vec::with_capacity(nodes + 1),
        };
        edges.first.push(0);
        let mut others = others.into_iter();
        let mut next = others.next();
        for (previous, to) in previous.zip((0..).map(NodeIdx)) {
            // Program order is the first kind, so pushing it first keeps each row sorted by kind.
            if let Some(previous) = previous.get() {
                edges.push(EdgeKind::ProgramOrder, previous, false);
            }
            while let Some(edge) = next.filter(|edge| edge.to == to) {
                edges.push(edge.kind, edge.from, edge.inferred);
                next = others.next();
            }
            edges.first.push(edges.from.len() as u32);
        }
        edges
    }

    fn push(&mut self, kind: EdgeKind, from: NodeIdx, inferred: bool) {
        self.kind.push(kind);
        self.from.push(from);
        self.inferred.push(inferred);
    }

    /// Number of edges.
    pub fn len(&self) -> usize {
        self.from.len()
    }

    /// True if the graph has no edges.
    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    /// Kind of each edge.
    pub fn kinds(&self) -> &[EdgeKind] {
        &self.kind
    }

    /// Returns the edges to node `to`.
    pub fn deps(&self, to: NodeIdx) -> NodeDeps<'_> {
        let range = self.first[to.index()] as usize..self.first[to.index() + 1] as usize;
        NodeDeps {
            to,
            kind: &self.kind[range.clone()],
            from: &self.from[range.clone()],
            inferred: &self.inferred[range],
        }
    }

    /// Index of the first edge to node `to` in [`iter`](Edges::iter).
    pub fn first_place(&self, to: NodeIdx) -> usize {
        self.first[to.index()] as usize
    }

    /// Iterates over all edges, by `to`.
    pub fn iter(&self) -> impl Iterator<Item = Edge> {
        let nodes = self.first.len().saturating_sub(1);
        (0..nodes).flat_map(|to| self.deps(NodeIdx::new(to)).iter())
    }
}

impl<'e> NodeDeps<'e> {
    /// Number of edges to the node.
    pub fn len(&self) -> usize {
        self.from.len()
    }

    /// True if the node waits for nothing.
    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    /// Iterates over the edges, by kind and awaited node.
    pub fn iter(self) -> impl Iterator<Item = Edge> + 'e {
        let parts = self.kind.iter().zip(self.from).zip(self.inferred);
        parts.map(move |((&kind, &from), &inferred)| Edge {
            to: self.to,
            kind,
            from,
            inferred,
        })
    }

    /// True if an edge of this kind comes from node `from`. O(log n).
    pub fn contains(&self, kind: EdgeKind, from: NodeIdx) -> bool {
        let begin = self.kind.partition_point(|other| *other < kind);
        let end = self.kind.partition_point(|other| *other <= kind);
        self.from[begin..end].binary_search(&from).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(kind: EdgeKind, from: u32, inferred: bool) -> Edge {
        Edge {
            to: NodeIdx(2),
            kind,
            from: NodeIdx(from),
            inferred,
        }
    }

    #[test]
    fn of_an_edge_that_is_stated_and_inferred_the_stated_one_stays() {
        let stated = edge(EdgeKind::Launch, 0, false);
        let edges = Edges::new(vec![edge(EdgeKind::Launch, 0, true), stated, stated], 3);
        assert_eq!(edges.iter().collect::<Vec<Edge>>(), [stated]);
    }

    #[test]
    fn deps_are_found_by_kind_and_node() {
        let all = vec![
            edge(EdgeKind::Launch, 0, false),
            edge(EdgeKind::StreamOrder, 1, false),
        ];
        let edges = Edges::new(all, 3);
        let deps = edges.deps(NodeIdx(2));
        let has = |kind| [0, 1].map(|from| deps.contains(kind, NodeIdx(from)));
        assert_eq!(has(EdgeKind::Launch), [true, false]);
        assert_eq!(has(EdgeKind::StreamOrder), [false, true]);
        assert_eq!(has(EdgeKind::EventWait), [false, false]);
    }
}
