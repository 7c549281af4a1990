//! Changes of single nodes in a run, to remove one cause from a program.
//!
//! ```text
//! measured   launch ......==A==          A started 5 us after its launch, 400 us after B
//!            ==B==
//! edited     launch==A==                 B takes 500 us longer: what now decides is the stream
//!            ==B===========              order, and A starts after B by what *that* takes
//! ```
//! A run without edits reproduces the times of the plain run to the nanosecond.

use crate::graph::{EdgeKind, ReplayGraph};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{DurationNs, NodeIdx};

/// Changes of single nodes.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct GraphEdits {
    /// Nodes that take no time and start as soon as their causes have ended. A stream's wait for
    /// events before the recording ends at the start.
    pub removed: Vec<NodeIdx>,
    /// Nodes that start as soon as their causes have ended, like parts of one kernel.
    pub at_once: Vec<NodeIdx>,
    /// Factors on durations; repeated entries of a node multiply.
    pub scaled: Vec<(NodeIdx, f64)>,
    /// Relative errors of predicted durations, for the range of an answer: of the duration with
    /// its factor.
    pub errors: Vec<(NodeIdx, f64)>,
    /// Nodes that no longer wait for edges of this kind.
    pub freed: Vec<(NodeIdx, EdgeKind)>,
}

impl GraphEdits {
    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.removed.len() + self.at_once.len() + self.scaled.len() + self.freed.len()
    }

    /// Returns true if nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the edits of a graph whose first node has number `first` in this graph.
    pub fn extend_shifted(&mut self, other: &GraphEdits, first: NodeIdx) {
        let shift = |node: &NodeIdx| NodeIdx(first.0.saturating_add(node.0));
        self.removed.extend(other.removed.iter().map(shift));
        self.at_once.extend(other.at_once.iter().map(shift));
        let scaled = other.scaled.iter();
        self.scaled
            .extend(scaled.map(|(node, by)| (shift(node), *by)));
        let errors = other.errors.iter();
        self.errors
            .extend(errors.map(|(node, error)| (shift(node), *error)));
        let freed = other.freed.iter();
        self.freed
            .extend(freed.map(|(node, kind)| (shift(node), *kind)));
    }

    /// Adds edits of the same graph.
    pub fn extend(&mut self, other: &GraphEdits) {
        self.extend_shifted(other, NodeIdx(0));
    }

    /// Applies the changes to the durations of nodes. O(edits).
    pub(crate) fn apply_to_durations(&self, durations: &mut [DurationNs]) {
        for (node, factor) in &self.scaled {
            if let Some(duration) = durations.get_mut(node.index()) {
                *duration = DurationNs((duration.0 as f64 * factor).round() as i64);
            }
        }
        for node in &self.removed {
            if let Some(duration) = durations.get_mut(node.index()) {
                *duration = DurationNs::ZERO;
            }
        }
    }
}

/// Edits by node, for a run. Columns without edits are empty.
pub(crate) struct NodeEdits {
    at_once: Vec<bool>,
    freed: Vec<u16>,
}

impl NodeEdits {
    pub(crate) fn new(graph: &ReplayGraph, edits: &GraphEdits) -> NodeEdits {
        // Most runs have no edits and need no columns for a million nodes.
        let size = |is_empty: bool| if is_empty { 0 } else { graph.len() };
        let mut at_once = vec![false; size(edits.removed.is_empty() && edits.at_once.is_empty())];
        for node in edits.removed.iter().chain(&edits.at_once) {
            mark_node(&mut at_once, *node);
        }
        let mut freed = vec![0u16; size(edits.freed.is_empty())];
        for (node, kind) in &edits.freed {
            if let Some(kinds) = freed.get_mut(node.index()) {
                *kinds |= kind_bit(*kind);
            }
        }
        NodeEdits { at_once, freed }
    }

    pub(crate) fn starts_at_once(&self, node: NodeIdx) -> bool {
        self.at_once.get(node.index()).is_some_and(|mark| *mark)
    }

    pub(crate) fn is_freed(&self, node: NodeIdx, kind: EdgeKind) -> bool {
        let kinds = self.freed.get(node.index());
        kinds.is_some_and(|kinds| kinds & kind_bit(kind) != 0)
    }
}

fn mark_node(marks: &mut [bool], node: NodeIdx) {
    // Edits of another graph may name nodes that this one lacks, and change nothing.
    if let Some(mark) = marks.get_mut(node.index()) {
        *mark = true;
    }
}

fn kind_bit(kind: EdgeKind) -> u16 {
    1 << kind as u16
}
