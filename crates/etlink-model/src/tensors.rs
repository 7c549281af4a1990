//! Which tensors the nodes of a host trace use.

use crate::columns::columns;
use crate::{NameId, Names};
use serde::{Deserialize, Serialize};
use std::ops::Range;

columns! {
    /// Uses of tensors by nodes.
    table TensorRefs;
    /// `[tensor_id, storage_id, offset, num_elem, elem_bytes, device]`. Ids are keyed by
    /// address and come back after a free.
    row TensorRef {
        /// Id of the tensor (a view has its own).
        tensor: u64,
        /// Id of the storage, 0 = no storage.
        storage: u64,
        /// First element in the storage, elements.
        offset: u64,
        /// Number of elements.
        elements: u64,
        /// Size of one element, bytes.
        element_bytes: u64,
        /// `cuda:0`, `cpu`, or empty; in [`TensorUses::devices`].
        device: NameId,
    }
}

/// Uses of tensors, in the order of the nodes; of each node inputs first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TensorUses {
    /// The uses.
    pub refs: TensorRefs,
    /// Names of devices.
    pub devices: Names,
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
    pub fn append(&mut self, later: TensorUses) {
        // Pieces are made on several threads, each with device names of its own.
        let (before, mut known) = (self.refs.len(), vec![]);
        self.devices.absorb(&later.devices, &mut known);
        for row in 0..later.refs.len() {
            let tensor = later.refs.row(row);
            self.refs.push(TensorRef {
                device: known[tensor.device.index()],
                ..tensor
            });
        }
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
