//! Assumptions of a run about waits that the recording leaves open.

use crate::graph::EdgeKind;
use etlink_model::{DurationNs, EdgeIdx, NodeIdx};

/// A wait that the times allow but no edge states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PossibleWait {
    pub(crate) to: NodeIdx,
    pub(crate) from: NodeIdx,
    pub(crate) kind: EdgeKind,
    pub(crate) latency: DurationNs,
}

/// Edges to ignore, and additional waits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Assumed<'d> {
    /// Edges to ignore, ascending.
    pub(crate) without: &'d [EdgeIdx],
    /// Additional waits, by the node that waits.
    pub(crate) with: &'d [PossibleWait],
}

impl Assumed<'_> {
    /// Returns true if an edge counts.
    pub(crate) fn keeps(&self, edge: EdgeIdx) -> bool {
        self.without.binary_search(&edge).is_err()
    }

    /// Returns the additional waits of a node.
    pub(crate) fn waits_of(&self, node: NodeIdx) -> &[PossibleWait] {
        let first = self.with.partition_point(|wait| wait.to < node);
        let count = self.with[first..].partition_point(|wait| wait.to == node);
        &self.with[first..first + count]
    }
}
