//! Determines where the nodes of a file run, and maps ids to positions in its columns.

use crate::read::{ChakraGraph, NodePlacement};
use etlink_model::RowKind;

/// Index of nodes by id. If several nodes share an id, the first counts.
#[derive(Clone, Debug)]
pub struct NodeNumbers {
    /// Ids and positions in the columns, by id.
    sorted: Vec<(u64, u32)>,
    /// Number of nodes whose id an earlier node has.
    pub(super) duplicates: u64,
}

impl NodeNumbers {
    /// Builds the index of a file. O(n log n).
    pub fn new(file: &ChakraGraph) -> NodeNumbers {
        let mut sorted: Vec<(u64, u32)> = file.id.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        // Sorted by id and position, so the first node of an id stays.
        sorted.dedup_by_key(|(id, _)| *id);
        NodeNumbers {
            duplicates: (file.len() - sorted.len()) as u64,
            sorted,
        }
    }

    /// Returns the position of the node with this id. O(log n).
    pub fn find(&self, id: u64) -> Option<u32> {
        let place = self.sorted.binary_search_by_key(&id, |(id, _)| *id);
        Some(self.sorted[place.ok()?].1)
    }

    /// Returns the number of nodes whose id an earlier node has.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Returns the nodes that a node waits for, without those that are not in the file.
    pub(crate) fn deps<'f>(
        &'f self,
        file: &'f ChakraGraph,
        index: usize,
    ) -> impl Iterator<Item = usize> + 'f {
        let ids = file.deps(index).map(|(_, id)| id);
        ids.filter_map(|id| self.find(id)).map(|dep| dep as usize)
    }
}

/// Returns true if a node runs on a device.
///
/// `chakra_converter` gives every node a thread and a stream; `is_cpu_op` then decides, and counts
/// as false if absent, as in ASTRA-sim (`Workload.cc`).
pub fn runs_on_device(file: &ChakraGraph, index: usize, place: NodePlacement) -> bool {
    // Etlink's own files state a kind; other writers' files state a thread, a stream or both, and
    // `is_cpu_op`.
    let is_cpu_op = file.is_cpu_op[index];
    match (file.kind_of(index), place.stream, place.tid) {
        ("device_op", ..) => true,
        ("host_op" | "runtime" | "host_gap" | "host" | "compute", ..) => false,
        (_, Some(_), None) => true,
        // A file with kinds states for each node if it is a device node.
        (kind, None, Some(_)) => is_cpu_op == Some(false) && kind.is_empty(),
        _ => is_cpu_op != Some(true),
    }
}

/// Returns the kind of a device row by its name: Kineto gives these names to copies and memsets, and
/// to no kernel.
pub(crate) fn row_kind(name: &str) -> RowKind {
    match name {
        _ if name.starts_with("Memcpy") => RowKind::Memcpy,
        _ if name.starts_with("Memset") => RowKind::Memset,
        _ => RowKind::Kernel,
    }
}
