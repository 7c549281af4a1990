//! Feeds a graph, and reads its nodes on request.

use crate::columns::{Column, ScratchError, ScratchFile, Storage};
use crate::error::FeederError;
use crate::id_heap::IdHeap;
use crate::index::{GraphIndex, Messages, SMALL_BLOCK_BYTES};
use crate::stock_set::StockSet;
use etlink_chakra::proto::{GlobalMetadata, Node};
use prost::Message;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

/// Cache of the last nodes looked up, with one entry per slot: simulators request a node several
/// times while it is issued.
const KEPT_NODES: usize = 4096;
/// Number of cached nodes if memory is scarce.
const FEW_KEPT_NODES: usize = 64;
/// Maximum size of a cached node if memory is scarce, bytes; larger ones are read on each request.
const MOST_KEPT_BYTES: usize = 4096;
/// Maximum bytes of columns per byte of a graph: a node has at least three bytes, a dependency one.
const MOST_COLUMN_BYTES: u64 = 64;

/// Order among several nodes that may be issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IssueOrder {
    /// The order of Chakra's own feeder (`src/feeder_v3`) built with GCC, which is the order of
    /// `std::unordered_set`.
    #[default]
    Stock,
    /// Lowest id first, as ASTRA-sim issues nodes.
    ById,
}

/// In `left`: an issued node.
const ISSUED: u32 = u32::MAX;
/// In `left`: an issued node that is still in the heap of ready nodes.
const ISSUED_IN_HEAP: u32 = u32::MAX - 1;
/// In `left`: an ended node.
const ENDED: u32 = u32::MAX - 2;

/// Feeds a simulator with the nodes of a graph. `source` is the file that contains the graph.
///
/// Time: [`Self::issue_next`] and [`Self::end`] take constant time per node and dependency, on
/// average, and logarithmic time with [`IssueOrder::ById`]. Memory: some 40 bytes per node and 4
/// per dependency, plus the last nodes looked up; with [`Self::with_scratch`], the memory you
/// grant.
#[derive(Debug)]
pub struct Feeder<R> {
    source: R,
    storage: Storage,
    index: GraphIndex,
    /// Number of nodes that each node still waits for, or its state.
    left: Column<u32>,
    nodes: ReadyNodes,
    /// Numbers of nodes.
    ready: usize,
    issued: usize,
    ended: usize,
    /// Reusable set of a node's children.
    children: StockSet,
    kept: Vec<Option<(u32, Arc<Node>)>>,
    /// Maximum size of a cached node, bytes.
    most_kept_bytes: usize,
}

/// Nodes that may be issued.
#[derive(Debug)]
enum ReadyNodes {
    Stock(StockSet),
    /// Also contains nodes that were issued since they became the first.
    ById(IdHeap),
}

impl<R: Read + Seek> Feeder<R> {
    /// Reads the graph once. Later reads concern only the requested nodes.
    ///
    /// # Errors
    /// The graph cannot be read, is truncated, or contains nodes that can never be issued.
    pub fn new(source: R, order: IssueOrder) -> Result<Feeder<R>, FeederError> {
        let feeder = Feeder::read(source, order, Storage::MEMORY)?;
        Ok(Feeder {
            kept: vec![None; KEPT_NODES],
            most_kept_bytes: usize::MAX,
            ..feeder
        })
    }

    /// Reads a graph of any size in `memory_bytes` of memory: the index is in a scratch file, and
    /// the most recently used pages are in memory. The issue order is the same as with
    /// [`Self::new`].
    ///
    /// `scratch` is read and written at any offset, and grows to some 50 bytes per node and 12 per
    /// dependency. Its previous contents are lost. Besides `memory_bytes` the feeder takes about
    /// one MB and the largest node. At least one page is in memory.
    ///
    /// ```
    /// # use etlink_feeder::{Feeder, FeederError, IssueOrder};
    /// # use std::io::Cursor;
    /// # fn feed(graph: &[u8]) -> Result<(), FeederError> {
    /// // for large graphs a file: `tempfile::tempfile()?`
    /// let scratch = Cursor::new(vec![]);
    /// let graph = Cursor::new(graph);
    /// let mut feeder = Feeder::with_scratch(graph, IssueOrder::Stock, scratch, 16 << 20)?;
    /// while let Some(id) = feeder.issue_next()? {
    ///     feeder.end(id)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`Self::new`], or the scratch file cannot be read or written. After such a failure
    /// the feeder does not advance, and each call reports it.
    pub fn with_scratch(
        mut source: R,
        order: IssueOrder,
        scratch: impl ScratchFile + 'static,
        memory_bytes: usize,
    ) -> Result<Feeder<R>, FeederError> {
        let source_bytes = source.seek(SeekFrom::End(0))?;
        let most_bytes = source_bytes.saturating_mul(MOST_COLUMN_BYTES);
        let storage = Storage::with_scratch(scratch, memory_bytes, most_bytes);
        Feeder::read(source, order, storage)
    }

    /// Reads the graph, for a cache of few nodes.
    fn read(
        mut source: R,
        order: IssueOrder,
        mut storage: Storage,
    ) -> Result<Feeder<R>, FeederError> {
        source.seek(SeekFrom::Start(0))?;
        let (index, [left, roots]) = GraphIndex::read(&mut source, &mut storage)?;
        let mut feeder = Feeder {
            source,
            storage,
            index,
            left,
            nodes: match order {
                IssueOrder::Stock => ReadyNodes::Stock(StockSet::default()),
                IssueOrder::ById => ReadyNodes::ById(IdHeap::default()),
            },
            ready: 0,
            issued: 0,
            ended: 0,
            children: StockSet::default(),
            kept: vec![None; FEW_KEPT_NODES],
            most_kept_bytes: MOST_KEPT_BYTES,
        };
        for at in 0..roots.len() {
            let root = feeder.storage.get(&roots, at)?;
            feeder.add_ready(root)?;
        }
        feeder.storage.free(roots);
        Ok(feeder)
    }

    /// Returns the metadata of the file.
    pub fn metadata(&self) -> &GlobalMetadata {
        self.index.metadata()
    }

    /// Returns the number of nodes in the graph.
    pub fn nodes(&self) -> usize {
        self.index.len()
    }

    /// Returns the number of nodes that may be issued now.
    pub fn ready(&self) -> usize {
        self.ready
    }

    /// Returns the number of nodes that were issued and have not ended.
    pub fn issued(&self) -> usize {
        self.issued
    }

    /// Returns the number of nodes that have ended.
    pub fn ended(&self) -> usize {
        self.ended
    }

    /// Returns the id of the node that is next, if one may be issued, without issuing it.
    ///
    /// # Errors
    /// The scratch file failed. Without a scratch file this cannot fail.
    pub fn first_ready(&mut self) -> Result<Option<u64>, FeederError> {
        match self.first_place()? {
            Some(place) => Ok(Some(self.index.id(place, &mut self.storage)?)),
            None => Ok(None),
        }
    }

    /// Issues the next node and returns its id; `None` if none may be issued now.
    ///
    /// # Errors
    /// The scratch file failed. Without a scratch file this cannot fail.
    pub fn issue_next(&mut self) -> Result<Option<u64>, FeederError> {
        let Some(place) = self.first_place()? else {
            return Ok(None);
        };
        self.mark_issued(place)?;
        Ok(Some(self.index.id(place, &mut self.storage)?))
    }

    /// Issues a node.
    ///
    /// # Errors
    /// The node may not be issued now, or the scratch file failed.
    pub fn issue(&mut self, id: u64) -> Result<(), FeederError> {
        let place = self.place(id)?;
        match self.storage.get(&self.left, place as usize)? {
            0 => Ok(self.mark_issued(place)?),
            _ => Err(FeederError::NotReady { id }),
        }
    }

    /// Takes back an issued node, which may then be issued again.
    ///
    /// # Errors
    /// The node was not issued, or the scratch file failed.
    pub fn push_back(&mut self, id: u64) -> Result<(), FeederError> {
        match self.take_issued(id, 0)? {
            (_, ISSUED_IN_HEAP) => self.ready += 1,
            (place, _) => self.add_ready(place)?,
        }
        Ok(())
    }

    /// Ends an issued node: nodes that waited only for it may then be issued.
    ///
    /// # Errors
    /// The node was not issued, or the scratch file failed.
    pub fn end(&mut self, id: u64) -> Result<(), FeederError> {
        let (place, _) = self.take_issued(id, ENDED)?;
        self.ended += 1;
        let children = self.index.child_range(place, &mut self.storage)?;
        // a single child needs no order
        if children.len() < 2 || matches!(self.nodes, ReadyNodes::ById(_)) {
            for at in children {
                let child = self.storage.get(self.index.children(), at)?;
                self.free_child(child)?;
            }
            return Ok(());
        }
        self.children.clear(&mut self.storage)?;
        for at in children {
            let child = self.storage.get(self.index.children(), at)?;
            self.children
                .insert(child, self.index.ids(), &mut self.storage)?;
        }
        let mut next = self.children.first();
        while let Some(child) = next {
            self.free_child(child)?;
            next = self.children.after(child, &mut self.storage)?;
        }
        Ok(())
    }

    /// Returns the complete node with an id.
    ///
    /// # Errors
    /// No node has this id, the file cannot be read or has changed, or the scratch file failed.
    pub fn node(&mut self, id: u64) -> Result<Arc<Node>, FeederError> {
        let place = self.place(id)?;
        let slot = place as usize % self.kept.len();
        if let Some((kept, node)) = &self.kept[slot]
            && *kept == place
        {
            return Ok(Arc::clone(node));
        }
        let offset = self.index.offset(place, &mut self.storage)?;
        let (node, bytes) = self.read_node(offset, id)?;
        let node = Arc::new(node);
        if bytes <= self.most_kept_bytes {
            self.kept[slot] = Some((place, Arc::clone(&node)));
        }
        Ok(node)
    }

    /// Returns the node that is next.
    fn first_place(&mut self) -> Result<Option<u32>, ScratchError> {
        self.storage.check()?;
        let heap = match &mut self.nodes {
            ReadyNodes::Stock(set) => return Ok(set.first()),
            ReadyNodes::ById(heap) => heap,
        };
        while let Some(place) = heap.first(&mut self.storage)? {
            match self.storage.get(&self.left, place as usize)? {
                0 => return Ok(Some(place)),
                ISSUED_IN_HEAP => {
                    self.storage.set(&mut self.left, place as usize, ISSUED)?;
                }
                _ => {}
            }
            heap.pop(self.index.ids(), &mut self.storage)?;
        }
        Ok(None)
    }

    fn place(&mut self, id: u64) -> Result<u32, FeederError> {
        self.storage.check()?;
        let place = self.index.place(id, &mut self.storage)?;
        place.ok_or(FeederError::UnknownNode { id })
    }

    fn mark_issued(&mut self, place: u32) -> Result<(), ScratchError> {
        let state = match &mut self.nodes {
            ReadyNodes::Stock(set) => {
                set.remove(place, self.index.ids(), &mut self.storage)?;
                ISSUED
            }
            ReadyNodes::ById(_) => ISSUED_IN_HEAP,
        };
        self.storage.set(&mut self.left, place as usize, state)?;
        self.ready -= 1;
        self.issued += 1;
        Ok(())
    }

    /// Sets the state of an issued node. Returns its place and its state before.
    fn take_issued(&mut self, id: u64, state: u32) -> Result<(u32, u32), FeederError> {
        let place = self.place(id)?;
        let before = self.storage.get(&self.left, place as usize)?;
        if !matches!(before, ISSUED | ISSUED_IN_HEAP) {
            return Err(FeederError::NotIssued { id });
        }
        self.storage.set(&mut self.left, place as usize, state)?;
        self.issued -= 1;
        Ok((place, before))
    }

    fn add_ready(&mut self, place: u32) -> Result<(), ScratchError> {
        self.ready += 1;
        let ids = self.index.ids();
        match &mut self.nodes {
            ReadyNodes::Stock(set) => set.insert(place, ids, &mut self.storage),
            ReadyNodes::ById(heap) => heap.push(place, ids, &mut self.storage),
        }
    }

    /// Notes that a node which the child waited for has ended.
    fn free_child(&mut self, child: u32) -> Result<(), ScratchError> {
        // decrement by wrapping around
        let left = self.storage.add(&mut self.left, child as usize, u32::MAX)?;
        if left == 0 {
            self.add_ready(child)?;
        }
        Ok(())
    }

    /// Reads the node of a message; also returns the message's length in bytes.
    fn read_node(&mut self, offset: u64, id: u64) -> Result<(Node, usize), FeederError> {
        self.source.seek(SeekFrom::Start(offset))?;
        let mut messages = Messages::new(&mut self.source, offset, SMALL_BLOCK_BYTES);
        let node = messages.next(|_, bytes| Some((Node::decode(bytes).ok()?, bytes.len())))?;
        // another program may have written to the file
        node.filter(|(node, _)| node.id == id)
            .ok_or(FeederError::NoMessage { offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_chakra::messages::{ChakraMessage, write_et};
    use std::io::Cursor;

    /// Builds a graph of nodes that each wait for the previous one.
    fn chain(count: u64) -> Vec<u8> {
        let mut bytes = vec![];
        let metadata = ChakraMessage::Metadata(GlobalMetadata::default());
        write_et(&metadata, &mut bytes).expect("memory takes it");
        // written last to first, so that ids are sorted
        for id in (0..count).rev() {
            let node = Node {
                id,
                data_deps: id.checked_sub(1).into_iter().collect(),
                ..Node::default()
            };
            write_et(&ChakraMessage::Node(Box::new(node)), &mut bytes).expect("memory takes it");
        }
        bytes
    }

    #[test]
    fn pages_take_no_more_memory_than_they_may() {
        let bytes = chain(6_000);
        for (memory_bytes, most_pages) in [(0, 1), (4_096, 1), (100_000, 24), (200_000, 48)] {
            let graph = Cursor::new(&bytes[..]);
            let scratch = Cursor::new(vec![]);
            let feeder = Feeder::with_scratch(graph, IssueOrder::Stock, scratch, memory_bytes);
            let mut feeder = feeder.expect("a graph");
            let mut issued = 0;
            while let Some(id) = feeder.issue_next().expect("room in memory") {
                assert_eq!(id, issued);
                feeder.node(id).expect("it is there");
                feeder.end(id).expect("it was issued");
                issued += 1;
                let pages = feeder.storage.pages_in_memory();
                assert!(pages > 0 && pages <= most_pages, "{pages} pages");
                assert!(feeder.kept.iter().flatten().count() <= FEW_KEPT_NODES);
            }
            assert_eq!(issued, 6_000);
        }
    }
}
