//! What reads a tensor that another thread wrote.
//!
//! The host trace says which bytes of which storage each op reads and writes. Its order is that in
//! which ops began. Storage ids come back after a free, but what allocates writes all of the
//! storage, so that the writers of an earlier life are forgotten. On one thread program order says
//! the same, so only what crosses threads counts. O(uses log uses).

use etlink_model::{HostIdx, HostTrace, OpIdx, TensorRef};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Which dependencies through tensors become edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TensorEdges {
    /// Read after write.
    #[default]
    Raw,
    /// Also write after read and write after write.
    All,
    /// None.
    None,
}

/// The same pairs as ops; those of nodes that no op matches are left out.
pub(crate) fn between_ops(pairs: Vec<(u32, u32)>, op_host: &[HostIdx]) -> Vec<(OpIdx, OpIdx)> {
    if pairs.is_empty() {
        return vec![];
    }
    let ops: FxHashMap<HostIdx, OpIdx> = op_host
        .iter()
        .zip(0..)
        .filter_map(|(node, op)| Some((node.get()?, OpIdx(op))))
        .collect();
    let op = |node| ops.get(&HostIdx(node)).copied();
    pairs
        .into_iter()
        .filter_map(|(to, from)| Some((op(to)?, op(from)?)))
        .collect()
}

/// Pairs of host nodes on two threads, the later first; by that.
pub(crate) fn tensor_deps(host: &HostTrace, which: TensorEdges) -> Vec<(u32, u32)> {
    let Some(uses) = host.tensors.as_ref().filter(|_| which != TensorEdges::None) else {
        return vec![];
    };
    let tid = |node: u32| host.nodes.tid[node as usize];
    let (mut written, mut read) = (Bytes::default(), Bytes::default());
    let mut found: Vec<(u32, u32)> = vec![];
    for node in 0..host.nodes.len() as u32 {
        let mut after = |from: u32| {
            if tid(from) != tid(node) {
                found.push((node, from));
            }
        };
        let of = |rows: std::ops::Range<usize>| {
            rows.map(|row| uses.refs.row(row))
                // Storage 0 is no storage (an undefined tensor, a tensor of another backend).
                .filter(|tensor| tensor.storage != 0 && tensor.elements > 0)
        };
        for tensor in of(uses.inputs(node as usize)) {
            written.last_users(&tensor, &mut after);
            if which == TensorEdges::All {
                read.put(&tensor, node);
            }
        }
        for tensor in of(uses.outputs(node as usize)) {
            if which == TensorEdges::All {
                written.last_users(&tensor, &mut after);
                read.last_users(&tensor, &mut after);
            }
            // After the look-up: a node that writes in place must see the writer before it.
            written.put(&tensor, node);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Who used which bytes last: ranges by storage and first byte, without overlaps.
#[derive(Default)]
struct Bytes {
    ranges: BTreeMap<(u64, u64), (u64, u32)>,
}

fn span(tensor: &TensorRef) -> (u64, u64) {
    let start = tensor.offset.saturating_mul(tensor.element_bytes);
    (
        start,
        start.saturating_add(tensor.elements.saturating_mul(tensor.element_bytes)),
    )
}

impl Bytes {
    /// Calls `user` for the last users of any byte of a tensor.
    fn last_users(&self, tensor: &TensorRef, user: &mut impl FnMut(u32)) {
        let (start, end) = span(tensor);
        // Ranges do not overlap, so only the nearest one that begins before can reach into the
        // tensor.
        let before = self.ranges.range(..(tensor.storage, start)).next_back();
        let reaches =
            |found: &(&(u64, u64), &(u64, u32))| found.0.0 == tensor.storage && found.1.0 > start;
        before
            .filter(reaches)
            .into_iter()
            .for_each(|(_, (_, node))| user(*node));
        self.ranges
            .range((tensor.storage, start)..(tensor.storage, end))
            .for_each(|(_, (_, node))| user(*node));
    }

    /// `node` is the last user of a tensor's bytes now.
    fn put(&mut self, tensor: &TensorRef, node: u32) {
        let (storage, (start, end)) = (tensor.storage, span(tensor));
        if let Some((&(of, begin), &(until, user))) = self
            .ranges
            .range(..(storage, start))
            .next_back()
            .filter(|(at, (until, _))| at.0 == storage && *until > start)
        {
            self.ranges.insert((of, begin), (start, user));
            // The range reaches beyond the tensor: its rest behind that stays with the other user.
            if until > end {
                self.ranges.insert((storage, end), (until, user));
            }
        }
        while let Some((&at, &(until, user))) =
            self.ranges.range((storage, start)..(storage, end)).next()
        {
            self.ranges.remove(&at);
            if until > end {
                self.ranges.insert((storage, end), (until, user));
            }
        }
        self.ranges.insert((storage, start), (end, node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_model::{HostNode, TensorUses};
    use proptest::prelude::*;

    fn tensor(storage: u64, offset: u64, elements: u64) -> TensorRef {
        TensorRef {
            storage,
            offset,
            elements,
            element_bytes: 4,
            ..TensorRef::default()
        }
    }

    /// Nodes as (thread, storages read, storages written).
    fn deps(nodes: &[(u32, &[u64], &[u64])], which: TensorEdges) -> Vec<(u32, u32)> {
        let (mut host, mut uses) = (HostTrace::default(), TensorUses::default());
        for &(tid, reads, writes) in nodes {
            host.nodes.push(HostNode {
                tid,
                ..HostNode::default()
            });
            reads
                .iter()
                .for_each(|storage| uses.refs.push(tensor(*storage, 0, 8)));
            let inputs = uses.refs.len();
            writes
                .iter()
                .for_each(|storage| uses.refs.push(tensor(*storage, 0, 8)));
            uses.end_node(inputs);
        }
        host.tensors = Some(uses);
        tensor_deps(&host, which)
    }

    #[test]
    fn the_last_writer_before_a_reader_of_another_thread() {
        // thread 1 writes storage 5 twice, thread 2 reads it and writes 6, thread 1 reads 6 and
        // frees and allocates 5 anew
        let nodes: [(u32, &[u64], &[u64]); 6] = [
            (1, &[], &[5]),
            (1, &[5], &[5]),
            (2, &[5], &[6]),
            (1, &[6], &[5]),
            (1, &[5], &[7]),
            (2, &[5, 9], &[]),
        ];
        assert_eq!(deps(&nodes, TensorEdges::Raw), [(2, 1), (3, 2), (5, 3)]);
        assert_eq!(deps(&nodes, TensorEdges::None), []);
        // 3 also writes over what 2 has read
        let nodes: [(u32, &[u64], &[u64]); 4] = [
            (1, &[], &[5]),
            (2, &[5], &[]),
            (3, &[], &[5]),
            (1, &[], &[5]),
        ];
        assert_eq!(
            deps(&nodes, TensorEdges::All),
            [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2)]
        );
    }

    proptest! {
        #[test]
        fn the_last_user_of_each_byte(puts in prop::collection::vec((0u64..2, 0u64..20, 1u64..12), 1..40), read in (0u64..2, 0u64..20, 1u64..12)) {
            let (mut bytes, mut model) = (Bytes::default(), BTreeMap::new());
            for ((storage, offset, elements), node) in puts.iter().copied().zip(0u32..) {
                bytes.put(&tensor(storage, offset, elements), node);
                model.extend((offset..offset + elements).map(|element| ((storage, element), node)));
            }
            let mut found = vec![];
            bytes.last_users(&tensor(read.0, read.1, read.2), &mut |node| found.push(node));
            found.sort_unstable();
            found.dedup();
            let mut want: Vec<u32> = (read.1..read.1 + read.2).filter_map(|element| model.get(&(read.0, element)).copied()).collect();
            want.sort_unstable();
            want.dedup();
            prop_assert_eq!(found, want);
        }
    }
}
