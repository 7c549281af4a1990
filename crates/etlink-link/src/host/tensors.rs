//! Dependencies through tensors that another thread wrote.
//!
//! The host trace states which bytes of which storage each op reads and writes. Its order is the
//! order in which ops began. Storage ids come back after a free, but an allocating op writes all of
//! the storage, so writers from an earlier life are forgotten. On one thread, program order implies
//! these dependencies, so only those across threads count. O(uses log uses): a reader of very many
//! pieces joins them, see [`Bytes`].

use etlink_model::{DeviceTrace, HostIdx, HostTrace, OpIdx, RfId, TensorRef, TensorUses};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// Thread number of the host trace: 1, 2, … in order of first use. The device trace has the OS's
/// ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostTid(pub(crate) u32);

/// Dependencies through tensors that become edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TensorEdges {
    /// Read after write.
    #[default]
    Raw,
    /// Also write after read and write after write.
    All,
    /// No edges.
    None,
}

/// Users of tensors that another thread wrote.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TensorDeps {
    /// Pairs of host nodes on two threads, the later node first; sorted by it.
    pub(crate) pairs: Vec<(HostIdx, HostIdx)>,
    /// Number of users forgotten when pieces were joined, see [`MOST_THREADS`].
    pub(crate) dropped: u64,
    /// Host node of the first forgotten user.
    pub(crate) first_dropped: Option<HostIdx>,
}

/// Converts pairs of nodes to pairs of ops; pairs with an unmatched node are left out.
pub(crate) fn between_ops(
    pairs: Vec<(HostIdx, HostIdx)>,
    op_host: &[HostIdx],
) -> Vec<(OpIdx, OpIdx)> {
    if pairs.is_empty() {
        return vec![];
    }
    let ops: FxHashMap<HostIdx, OpIdx> = op_host
        .iter()
        .zip(0..)
        .filter_map(|(node, op)| Some((node.get()?, OpIdx(op))))
        .collect();
    pairs
        .into_iter()
        .filter_map(|(to, from)| Some((*ops.get(&to)?, *ops.get(&from)?)))
        .collect()
}

/// Returns the pairs of ops that the device trace itself records, in the same order. O(ops + pairs
/// log pairs).
pub(crate) fn recorded_producers(device: &DeviceTrace) -> Vec<(OpIdx, OpIdx)> {
    let recorded = &device.op_producers;
    if recorded.is_empty() {
        return vec![];
    }
    let mut op_of: FxHashMap<RfId, Option<OpIdx>> = FxHashMap::default();
    for handle in recorded.reader.iter().chain(&recorded.producer) {
        op_of.insert(*handle, None);
    }
    for (handle, op) in device.ops.rf_id.iter().zip(0..) {
        if let Some(place) = op_of.get_mut(handle) {
            place.get_or_insert(OpIdx(op));
        }
    }
    let mut pairs = vec![];
    for (reader, producer) in recorded.reader.iter().zip(&recorded.producer) {
        if let (Some(reader), Some(producer)) = (op_of[reader], op_of[producer]) {
            pairs.push((reader, producer));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Finds the dependencies between threads that `which` selects.
pub(crate) fn tensor_deps(host: &HostTrace, which: TensorEdges) -> TensorDeps {
    let mut users = TensorUsers::new(which);
    let nodes = 0..host.nodes.len();
    let pairs = users.add_nodes(host, nodes.map(HostIdx::new));
    let (dropped, first_dropped) = users.dropped();
    TensorDeps {
        pairs,
        dropped,
        first_dropped,
    }
}

/// Last users of each tensor among the nodes so far. A node is numbered by its index among them.
#[derive(Default)]
pub(crate) struct TensorUsers {
    which: TensorEdges,
    written: Bytes,
    read: Bytes,
    /// Thread of each node so far.
    threads: Vec<HostTid>,
}

impl TensorUsers {
    pub(crate) fn new(which: TensorEdges) -> TensorUsers {
        TensorUsers {
            which,
            ..TensorUsers::default()
        }
    }

    /// Number of forgotten users, and the first of them.
    pub(crate) fn dropped(&self) -> (u64, Option<HostIdx>) {
        let (written, read) = (&self.written, &self.read);
        let first = written.first_dropped.or(read.first_dropped);
        (written.dropped + read.dropped, first)
    }

    /// Adds the next nodes, rows of `host`. Returns pairs of these and earlier nodes on another
    /// thread, the later node first; sorted by it.
    pub(crate) fn add_nodes(
        &mut self,
        host: &HostTrace,
        nodes: impl Iterator<Item = HostIdx>,
    ) -> Vec<(HostIdx, HostIdx)> {
        if self.which == TensorEdges::None {
            return vec![];
        }
        let Some(uses) = host.tensors.as_ref() else {
            return vec![];
        };
        let TensorUsers {
            which,
            written,
            read,
            threads,
        } = self;
        let mut found: Vec<(HostIdx, HostIdx)> = vec![];
        for row in nodes {
            let node = HostIdx::new(threads.len());
            threads.push(HostTid(host.nodes.tid[row.index()]));
            let tid = |node: HostIdx| threads[node.index()];
            let mut after = |from: HostIdx| {
                if tid(from) != tid(node) {
                    found.push((node, from));
                }
            };
            for tensor in stored_tensors(uses, uses.inputs(row.index())) {
                written.last_users(&tensor, &tid, &mut after);
                if *which == TensorEdges::All {
                    read.put_user(&tensor, node);
                }
            }
            for tensor in stored_tensors(uses, uses.outputs(row.index())) {
                if *which == TensorEdges::All {
                    written.last_users(&tensor, &tid, &mut after);
                    read.last_users(&tensor, &tid, &mut after);
                }
                // After the look-up: a node that writes in place must see the previous writer.
                written.put_user(&tensor, node);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Iterates over the tensors of these rows that have bytes.
fn stored_tensors(uses: &TensorUses, rows: Range<usize>) -> impl Iterator<Item = TensorRef> {
    rows.map(|row| uses.refs.row(row))
        // Storage 0 is no storage (an undefined tensor, a tensor of another backend).
        .filter(|tensor| tensor.storage != 0 && tensor.end > tensor.start)
}

/// Last users of bytes: ranges without overlaps, by storage.
///
/// A tensor that is written in many pieces, such as a flat buffer of gradients, may be read as
/// often. So the first reader of more than [`MOST_PIECES`] of them joins them to one range, with
/// the last user of each thread. Program order puts that thread's earlier users before it.
#[derive(Default)]
struct Bytes {
    storages: FxHashMap<u64, StorageRanges>,
    /// Number of forgotten users.
    dropped: u64,
    first_dropped: Option<HostIdx>,
}

/// Number of pieces that stay separate, however often they are read.
const MOST_PIECES: usize = 16;
/// Number of threads whose last users are kept for joined pieces: those that began last. With all
/// of them, each reader would have an edge from each thread. The others are counted.
const MOST_THREADS: usize = 16;

/// Ranges of a storage.
enum StorageRanges {
    /// A single range: nearly all storages are used as a whole.
    One { bytes: Range<u64>, last: HostIdx },
    /// Several ranges, by first byte.
    Many(BTreeMap<u64, UsedRange>),
}

#[derive(Clone)]
struct UsedRange {
    end: u64,
    last: LastUsers,
}

#[derive(Clone)]
enum LastUsers {
    One(HostIdx),
    /// Last users of joined pieces, one per thread.
    Joined(Box<[HostIdx]>),
}

impl LastUsers {
    fn nodes(&self) -> &[HostIdx] {
        match self {
            LastUsers::One(node) => std::slice::from_ref(node),
            LastUsers::Joined(nodes) => nodes,
        }
    }
}

impl Bytes {
    /// Calls `user` for the last users of any byte of a tensor.
    fn last_users(
        &mut self,
        tensor: &TensorRef,
        thread: &impl Fn(HostIdx) -> HostTid,
        user: &mut impl FnMut(HostIdx),
    ) {
        let (start, end) = (tensor.start, tensor.end);
        let ranges = match self.storages.get_mut(&tensor.storage) {
            None => return,
            Some(StorageRanges::One { bytes, last }) => {
                if bytes.start < end && start < bytes.end {
                    user(*last);
                }
                return;
            }
            Some(StorageRanges::Many(ranges)) => ranges,
        };
        // Ranges do not overlap, so only the nearest one that begins before can extend into the
        // tensor.
        let before = ranges.range(..start).next_back();
        if let Some((_, range)) = before.filter(|(_, range)| range.end > start) {
            range.last.nodes().iter().for_each(|node| user(*node));
        }
        let mut pieces = 0;
        for (_, range) in ranges.range(start..end) {
            range.last.nodes().iter().for_each(|node| user(*node));
            pieces += 1;
        }
        if pieces > MOST_PIECES
            && let Some(nodes) = join_pieces(ranges, start..end, thread)
        {
            self.dropped += nodes.len() as u64;
            self.first_dropped = self.first_dropped.or(nodes.first().copied());
        }
    }

    /// Makes `node` the last user of a tensor's bytes.
    fn put_user(&mut self, tensor: &TensorRef, node: HostIdx) {
        let own = StorageRanges::One {
            bytes: tensor.start..tensor.end,
            last: node,
        };
        let ranges = match self.storages.entry(tensor.storage) {
            Entry::Vacant(place) => {
                place.insert(own);
                return;
            }
            Entry::Occupied(place) => place.into_mut(),
        };
        if let StorageRanges::One { bytes, last } = ranges {
            if tensor.start <= bytes.start && bytes.end <= tensor.end {
                *ranges = own;
                return;
            }
            let first = UsedRange {
                end: bytes.end,
                last: LastUsers::One(*last),
            };
            *ranges = StorageRanges::Many(BTreeMap::from([(bytes.start, first)]));
        }
        if let StorageRanges::Many(ranges) = ranges {
            put_among(ranges, tensor.start..tensor.end, node);
        }
    }
}

/// Joins the ranges within `bytes`, and the unused bytes between them, to one range. Returns the
/// forgotten users.
fn join_pieces(
    ranges: &mut BTreeMap<u64, UsedRange>,
    bytes: Range<u64>,
    thread: &impl Fn(HostIdx) -> HostTid,
) -> Option<Vec<HostIdx>> {
    let mut joined: Option<Range<u64>> = None;
    let mut nodes = vec![];
    for (at, range) in ranges.range(bytes.clone()) {
        // the last one may extend beyond, and others may read only that part
        if range.end <= bytes.end {
            let first = joined.map_or(*at, |joined| joined.start);
            joined = Some(first..range.end);
            nodes.extend_from_slice(range.last.nodes());
        }
    }
    let joined = joined?;
    while let Some((&at, _)) = ranges.range(joined.clone()).next() {
        ranges.remove(&at);
    }
    nodes.sort_unstable_by_key(|node| Reverse((thread(*node), *node)));
    nodes.dedup_by_key(|node| thread(*node));
    nodes.sort_unstable_by_key(|node| Reverse(*node));
    let forgotten = nodes.split_off(MOST_THREADS.min(nodes.len()));
    let range = UsedRange {
        end: joined.end,
        last: LastUsers::Joined(nodes.into()),
    };
    ranges.insert(joined.start, range);
    Some(forgotten)
}

/// Makes `node` the last user of these bytes.
fn put_among(ranges: &mut BTreeMap<u64, UsedRange>, bytes: Range<u64>, node: HostIdx) {
    let before = ranges.range_mut(..bytes.start).next_back();
    if let Some((_, range)) = before.filter(|(_, range)| range.end > bytes.start) {
        let rest = range.clone();
        range.end = bytes.start;
        // The range extends beyond the tensor: the part after it keeps its other user.
        if rest.end > bytes.end {
            ranges.insert(bytes.end, rest);
        }
    }
    while let Some((&at, _)) = ranges.range(bytes.clone()).next() {
        let range = ranges.remove(&at);
        if let Some(range) = range.filter(|range| range.end > bytes.end) {
            ranges.insert(bytes.end, range);
        }
    }
    let last = LastUsers::One(node);
    let end = bytes.end;
    ranges.insert(bytes.start, UsedRange { end, last });
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_model::HostNode;
    use proptest::prelude::*;

    fn tensor(storage: u64, offset: u64, elements: u64) -> TensorRef {
        TensorRef {
            storage,
            start: 4 * offset,
            end: 4 * (offset + elements),
        }
    }

    /// Dependencies of nodes, given as (thread, storages read, storages written).
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
        let pairs = tensor_deps(&host, which).pairs;
        pairs.into_iter().map(|(to, from)| (to.0, from.0)).collect()
    }

    #[test]
    fn the_last_writer_before_a_reader_of_another_thread() {
        // thread 1 writes storage 5 twice, thread 2 reads it and writes 6, thread 1 reads 6, and
        // frees and reallocates 5
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
        // node 3 also overwrites what node 2 has read
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

    #[test]
    fn many_pieces_are_joined_by_who_reads_all_of_them() {
        let mut bytes = Bytes::default();
        let pieces = MOST_PIECES as u32 + 1;
        for piece in 0..pieces {
            bytes.put_user(&tensor(5, 8 * u64::from(piece), 8), HostIdx(piece));
        }
        let thread = |node: HostIdx| HostTid(node.0 % 3);
        let mut readers = |offset, elements| {
            let mut nodes = vec![];
            let read = tensor(5, offset, elements);
            bytes.last_users(&read, &thread, &mut |node| nodes.push(node.0));
            nodes
        };
        let all: Vec<u32> = (0..pieces).collect();
        assert_eq!(readers(0, 1_000), all, "the first sees each of them");
        let last = [pieces - 1, pieces - 2, pieces - 3];
        assert_eq!(
            readers(0, 1_000),
            last,
            "later ones the last of each thread"
        );
        assert_eq!(readers(8, 8), last, "of any piece");
        bytes.put_user(&tensor(5, 8, 8), HostIdx(100));
        let mut nodes = vec![];
        bytes.last_users(&tensor(5, 0, 24), &thread, &mut |node| nodes.push(node.0));
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes, [pieces - 3, pieces - 2, pieces - 1, 100]);
    }

    #[test]
    fn users_of_too_many_threads_are_counted() {
        let mut bytes = Bytes::default();
        let threads = MOST_THREADS as u32 + 4;
        for thread in 0..threads {
            bytes.put_user(&tensor(5, 8 * u64::from(thread), 8), HostIdx(thread));
        }
        let all = tensor(5, 0, 1_000);
        let own_thread = |node: HostIdx| HostTid(node.0);
        bytes.last_users(&all, &own_thread, &mut |_| {});
        assert_eq!((bytes.dropped, bytes.first_dropped), (4, Some(HostIdx(3))));
        let mut nodes = vec![];
        bytes.last_users(&all, &own_thread, &mut |node| nodes.push(node.0));
        assert_eq!(nodes.len(), MOST_THREADS);
        assert_eq!(bytes.dropped, 4, "each is counted once");
    }

    proptest! {
        #[test]
        fn the_last_user_of_each_byte(
            puts in prop::collection::vec((0u64..2, 0u64..20, 1u64..12), 1..40),
            read in (0u64..2, 0u64..20, 1u64..12),
        ) {
            let (mut bytes, mut model) = (Bytes::default(), BTreeMap::new());
            for ((storage, offset, elements), node) in puts.iter().copied().zip(0u32..) {
                bytes.put_user(&tensor(storage, offset, elements), HostIdx(node));
                model.extend((offset..offset + elements).map(|element| ((storage, element), node)));
            }
            let mut found = vec![];
            bytes.last_users(&tensor(read.0, read.1, read.2), &|_| HostTid(0), &mut |node| {
                found.push(node.0)
            });
            found.sort_unstable();
            found.dedup();
            let mut want: Vec<u32> = (read.1..read.1 + read.2)
                .filter_map(|element| model.get(&(read.0, element)).copied())
                .collect();
            want.sort_unstable();
            want.dedup();
            prop_assert_eq!(found, want);
        }
    }
}
