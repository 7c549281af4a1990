//! Single nodes that are different in a run: what a program would take without one of its causes.
//!
//! ```text
//! measured   launch ......==A==          A started 5 us after its launch, 400 us after B
//!            ==B==
//! edited     launch==A==                 B takes 500 us longer: what now decides is the stream
//!            ==B===========              order, and A starts after B by what *that* takes
//! ```
//! A run without edits gives the times of the plain run back, to the nanosecond.

use crate::graph::{EdgeKind, ReplayGraph};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{DurationNs, NodeIdx};

/// What is changed about single nodes.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct GraphEdits {
    /// These take no time, and neither does what keeps them from starting once all that they wait
    /// for has ended. A stream's wait for what came before the recording is over at the begin.
    pub removed: Vec<NodeIdx>,
    /// These start as soon as all that they wait for has ended, as parts of one kernel do.
    pub at_once: Vec<NodeIdx>,
    /// Factors on durations; of a node that stands here twice both count.
    pub scaled: Vec<(NodeIdx, f64)>,
    /// These wait no more for what edges of this kind bring.
    pub freed: Vec<(NodeIdx, EdgeKind)>,
}

impl GraphEdits {
    /// Number of changes.
    pub fn len(&self) -> usize {
        self.removed.len() + self.at_once.len() + self.scaled.len() + self.freed.len()
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds those of a graph whose first node has this number in another graph.
    pub fn extend_shifted(&mut self, other: &GraphEdits, first: NodeIdx) {
        let shift = |node: &NodeIdx| NodeIdx(first.0.saturating_add(node.0));
        self.removed.extend(other.removed.iter().map(shift));
        self.at_once.extend(other.at_once.iter().map(shift));
        let scaled = other.scaled.iter();
        self.scaled
            .extend(scaled.map(|(node, by)| (shift(node), *by)));
        let freed = other.freed.iter();
        self.freed
            .extend(freed.map(|(node, kind)| (shift(node), *kind)));
    }

    /// Adds those of the same graph.
    pub fn extend(&mut self, other: &GraphEdits) {
        self.extend_shifted(other, NodeIdx(0));
    }

    /// Changes the durations of nodes. O(edits).
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

/// Edits by node, for a run. Empty columns where there are none.
pub(crate) struct NodeEdits {
    at_once: Vec<bool>,
    freed: Vec<u16>,
}

impl NodeEdits {
    pub(crate) fn new(graph: &ReplayGraph, edits: &GraphEdits) -> NodeEdits {
        // Most runs have none: a million nodes need no columns for that.
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
    // Edits of another graph name nodes that this one does not have, and change nothing.
    if let Some(mark) = marks.get_mut(node.index()) {
        *mark = true;
    }
}

fn kind_bit(kind: EdgeKind) -> u16 {
    1 << kind as u16
}
