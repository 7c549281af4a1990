//! Where the nodes of a file run, and how ids become places in its columns.

use crate::read::{ChakraGraph, NodePlacement};

/// Nodes by id. Of several nodes with one id the first is meant.
#[derive(Clone, Debug)]
pub struct NodeNumbers {
    /// Ids and places in the columns, by id.
    sorted: Vec<(u64, u32)>,
    /// Nodes whose id an earlier node has.
    pub(super) duplicates: u64,
}

impl NodeNumbers {
    /// O(n log n).
    pub fn new(file: &ChakraGraph) -> NodeNumbers {
        let mut sorted: Vec<(u64, u32)> = file.id.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        // Sorted by id and place, so that the first node of an id stays.
        sorted.dedup_by_key(|(id, _)| *id);
        NodeNumbers {
            duplicates: (file.len() - sorted.len()) as u64,
            sorted,
        }
    }

    /// The place of the node with this id. O(log n).
    pub fn find(&self, id: u64) -> Option<u32> {
        let place = self.sorted.binary_search_by_key(&id, |(id, _)| *id);
        Some(self.sorted[place.ok()?].1)
    }

    /// Nodes whose id an earlier node has.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// The nodes that a node waits for; those that are not in the file are left out.
    pub(crate) fn deps<'f>(
        &'f self,
        file: &'f ChakraGraph,
        index: usize,
    ) -> impl Iterator<Item = usize> + 'f {
        let ids = file.ctrl_deps.list(index).iter();
        let ids = ids.chain(file.data_deps.list(index));
        ids.filter_map(|id| self.find(*id)).map(|dep| dep as usize)
    }
}

/// Whether a node runs on a device.
///
/// `chakra_converter` gives every node a thread and a stream; then `is_cpu_op` decides, which
/// ASTRA-sim takes as false where it is absent (`Workload.cc`).
pub fn runs_on_device(file: &ChakraGraph, index: usize, place: NodePlacement) -> bool {
    // Our own files state a kind; those of others state a thread, a stream or both, and
    // `is_cpu_op`.
    let is_cpu_op = file.is_cpu_op[index];
    match (file.kind_of(index), place.stream, place.tid) {
        ("device_op", ..) => true,
        ("host_op" | "runtime" | "host_gap" | "host" | "compute", ..) => false,
        (_, Some(_), None) => true,
        // a file with kinds states of each node whether it is a device's
        (kind, None, Some(_)) => is_cpu_op == Some(false) && kind.is_empty(),
        _ => is_cpu_op != Some(true),
    }
}
