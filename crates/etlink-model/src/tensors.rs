//! Tensors used by the nodes of a host trace.

use crate::columns::columns;
use borsh::{BorshDeserialize, BorshSerialize};
use std::ops::Range;

columns! {
    /// Uses of tensors by nodes.
    table TensorRefs;
    /// Byte range of a storage that a tensor covers.
    row TensorRef {
        /// Storage id; 0 = no storage. Ids are reused after a free.
        storage: u64,
        /// First byte in the storage.
        start: u64,
        /// First byte after the tensor; equals `start` if the tensor has no elements.
        end: u64,
    }
}

/// Uses of tensors in node order, inputs before outputs.
#[derive(Clone, Debug, Default, BorshSerialize, BorshDeserialize)]
pub struct TensorUses {
    /// Uses of all nodes.
    pub refs: TensorRefs,
    /// Ends of the inputs and the outputs in `refs`, per node.
    ends: Vec<[usize; 2]>,
}

impl TensorUses {
    /// Ends the inputs and the outputs of the next node; its inputs end at `inputs`.
    pub fn end_node(&mut self, inputs: usize) {
        // Two ends suffice: a node's uses begin at the end of the previous node's.
        self.ends.push([inputs, self.refs.len()]);
    }

    /// Appends the uses of the following nodes.
    pub fn append(&mut self, mut later: TensorUses) {
        let before = self.refs.len();
        self.refs.append(&mut later.refs);
        self.ends
            .extend(later.ends.iter().map(|ends| ends.map(|end| end + before)));
    }

    /// Returns the rows of [`TensorUses::refs`] that node `row` reads, nested lists included.
    pub fn inputs(&self, row: usize) -> Range<usize> {
        // Inputs begin at the end of the previous node's outputs.
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before][1]);
        start..self.ends[row][0]
    }

    /// Returns the rows of [`TensorUses::refs`] that node `row` outputs.
    pub fn outputs(&self, row: usize) -> Range<usize> {
        let [start, end] = self.ends[row];
        start..end
    }
}
