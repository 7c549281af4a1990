//! Which tensors the nodes of a host trace use.

use crate::columns::columns;
use serde::{Deserialize, Serialize};
use std::ops::Range;

columns! {
    /// Uses of tensors by nodes.
    table TensorRefs;
    /// What of a storage a tensor covers.
    row TensorRef {
        /// Id of the storage, 0 = no storage. It comes back after a free.
        storage: u64,
        /// First byte in the storage.
        start: u64,
        /// Behind the last byte; `start` of a tensor without elements.
        end: u64,
    }
}

/// Uses of tensors, in the order of the nodes; of each node inputs first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TensorUses {
    /// The uses.
    pub refs: TensorRefs,
    /// Per node, where its inputs and where its outputs end.
    ends: Vec<[usize; 2]>,
}

impl TensorUses {
    /// Ends the inputs and the outputs of the next node; `inputs` is where its inputs end.
    pub fn end_node(&mut self, inputs: usize) {
        // Two ends are enough: a node's uses begin where those of the node before end.
        self.ends.push([inputs, self.refs.len()]);
    }

    /// Appends the uses of the nodes that follow.
    pub fn append(&mut self, mut later: TensorUses) {
        let before = self.refs.len();
        self.refs.append(&mut later.refs);
        self.ends
            .extend(later.ends.iter().map(|ends| ends.map(|end| end + before)));
    }

    /// Rows of [`TensorUses::refs`] that node `row` reads, nested lists included.
    pub fn inputs(&self, row: usize) -> Range<usize> {
        // Inputs begin where the outputs of the node before end.
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before][1]);
        start..self.ends[row][0]
    }

    /// Rows of [`TensorUses::refs`] that node `row` gives out.
    pub fn outputs(&self, row: usize) -> Range<usize> {
        let [start, end] = self.ends[row];
        start..end
    }
}
