//! What a run assumes about waits that the recording leaves open.

use crate::graph::EdgeKind;
use etlink_model::{DurationNs, EdgeIdx, NodeIdx};

/// A wait that the times allow and that no edge states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PossibleWait {
    pub(crate) to: NodeIdx,
    pub(crate) from: NodeIdx,
    pub(crate) kind: EdgeKind,
    pub(crate) latency: DurationNs,
}

/// Which edges do not count, and which waits do beside the edges.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Assumed<'d> {
    /// Edges that do not count, ascending.
    pub(crate) without: &'d [EdgeIdx],
    /// Waits beside the edges, by the node that waits.
    pub(crate) with: &'d [PossibleWait],
}

impl Assumed<'_> {
    /// Whether an edge counts.
    pub(crate) fn keeps(&self, edge: EdgeIdx) -> bool {
        self.without.binary_search(&edge).is_err()
    }

    /// What a node waits for beside its edges.
    pub(crate) fn waits_of(&self, node: NodeIdx) -> &[PossibleWait] {
        let first = self.with.partition_point(|wait| wait.to < node);
        let count = self.with[first..].partition_point(|wait| wait.to == node);
        &self.with[first..first + count]
    }
}
