//! Index of a graph: ids, offsets in the file, and dependencies.

use crate::columns::{Column, ScratchError, Storage};
use crate::error::FeederError;
use crate::sorted_ids::SortedIds;
use crate::stock_set::StockSet;
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::proto::{AttributeProto, GlobalMetadata};
use prost::Message;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};
use std::ops::Range;

/// Metadata attribute in which etlink states the number of nodes that follow.
const NODE_COUNT: &str = "node_count";

/// Maximum bytes of a varint of 64 bits.
const MAX_VARINT_BYTES: usize = 10;
/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 18;
/// Bytes read at once for a single node; most nodes are smaller.
pub(crate) const SMALL_BLOCK_BYTES: usize = 1 << 10;
/// Maximum number of nodes, and of dependencies: 32 bits, minus the values in `NodeCount`.
const MAX_COUNT: usize = u32::MAX as usize - 3;

/// Returns the program that compressed a file with this head.
fn packing_tool(magic: &[u8]) -> Option<&'static str> {
    match magic {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd] => Some("zstd"),
        _ => None,
    }
}

/// A graph without the work of its nodes: 20 bytes per node, and 4 per dependency.
#[derive(Debug, Default)]
pub(crate) struct GraphIndex {
    metadata: GlobalMetadata,
    /// Ids of the nodes, in file order.
    ids: Column<u64>,
    /// Offset of each node's message, which starts with its length.
    offsets: Column<u64>,
    /// Sorted ids; `None` if the file is already ordered by id.
    by_id: Option<SortedIds>,
    /// Start of each node's children in `children`.
    first_child: Column<u32>,
    /// Waiting nodes, grouped by the node that they wait for, each group in file order.
    children: Column<u32>,
}

impl GraphIndex {
    /// Reads a graph once, from start to end. Also returns the number of nodes that each node waits
    /// for, by place, and the nodes without dependencies, in the order in which Chakra's feeder finds
    /// them.
    ///
    /// # Errors
    /// The graph cannot be read, is truncated, or contains nodes that can never be issued.
    pub(crate) fn read(
        mut source: impl Read,
        storage: &mut Storage,
    ) -> Result<(GraphIndex, [Column<u32>; 2]), FeederError> {
        let mut magic = vec![];
        source.by_ref().take(4).read_to_end(&mut magic)?;
        if let Some(tool) = packing_tool(&magic) {
            return Err(FeederError::Packed { tool });
        }
        let mut messages = Messages::new(Cursor::new(magic).chain(source), 0, BLOCK_BYTES);
        let metadata = messages.next(|_, bytes| {
            // protobuf would accept a node as metadata with unknown fields
            GlobalMetadata::decode(bytes).ok()
        })?;
        let mut index = GraphIndex {
            metadata: metadata.ok_or(FeederError::NoNodes)?,
            ..GraphIndex::default()
        };
        let (deps, is_sorted) = index.read_nodes(&mut messages, storage)?;
        drop(messages);
        index.check_count()?;
        if !is_sorted {
            index.by_id = Some(SortedIds::of(&index.ids, storage)?);
        }
        let deps = index.resolve(deps, storage)?;
        let roots = index.find_roots(&deps, storage)?;
        let parents = index.connect(&deps, storage)?;
        storage.free(deps.parents);
        storage.free(deps.ends);
        // a cycle needs a node that comes before one of its dependencies
        if deps.has_forward {
            index.check_cycles(&parents, &roots, storage)?;
        }
        Ok((index, [parents, roots]))
    }

    /// Returns the metadata of the file.
    pub(crate) fn metadata(&self) -> &GlobalMetadata {
        &self.metadata
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns the ids of all nodes, in file order.
    pub(crate) fn ids(&self) -> &Column<u64> {
        &self.ids
    }

    /// Returns the id of the node at a place in the file.
    pub(crate) fn id(&self, place: u32, storage: &mut Storage) -> Result<u64, ScratchError> {
        storage.get(&self.ids, place as usize)
    }

    /// Returns the offset of a node's message, bytes.
    pub(crate) fn offset(&self, place: u32, storage: &mut Storage) -> Result<u64, ScratchError> {
        storage.get(&self.offsets, place as usize)
    }

    /// Returns the range of a node's children in `children()`.
    pub(crate) fn child_range(
        &self,
        place: u32,
        storage: &mut Storage,
    ) -> Result<Range<usize>, ScratchError> {
        let place = place as usize;
        let begin = storage.get(&self.first_child, place)? as usize;
        let end = storage.get(&self.first_child, place + 1)? as usize;
        Ok(begin..end)
    }

    /// Returns the waiting nodes, grouped by the node that they wait for.
    pub(crate) fn children(&self) -> &Column<u32> {
        &self.children
    }

    /// Returns the place of a node. O(1) for most files; a binary search if ids have gaps.
    pub(crate) fn place(
        &self,
        id: u64,
        storage: &mut Storage,
    ) -> Result<Option<u32>, ScratchError> {
        match &self.by_id {
            None => Ok(find(&self.ids, id, storage)?.map(|place| place as u32)),
            Some(sorted) => match find(&sorted.ids, id, storage)? {
                Some(position) => storage.get(&sorted.places, position).map(Some),
                None => Ok(None),
            },
        }
    }

    /// Reads the dependencies of all nodes; also returns true if the ids ascend.
    fn read_nodes(
        &mut self,
        messages: &mut Messages<impl Read>,
        storage: &mut Storage,
    ) -> Result<(Dependencies, bool), FeederError> {
        let mut deps = Dependencies {
            ids: Column::default(),
            ends: Column::default(),
        };
        let mut own = IndexedNode::default();
        let (mut last, mut is_sorted) = (None, true);
        while let Some((offset, id)) = messages.next(|offset, bytes| {
            // Its lists keep their memory.
            own.clear();
            own.merge(bytes).ok()?;
            Some((offset, own.id))
        })? {
            // a file of zeros has a node 0 at each byte: reading stops at the second one
            if last == Some(id) {
                return Err(FeederError::RepeatedId { id });
            }
            is_sorted &= last < Some(id);
            last = Some(id);
            storage.push(&mut self.ids, id)?;
            storage.push(&mut self.offsets, offset)?;
            deps.add(&mut own, storage)?;
        }
        Ok((deps, is_sorted))
    }

    /// Checks the stated number of nodes: to protobuf, a file truncated between two nodes is
    /// complete.
    fn check_count(&self) -> Result<(), FeederError> {
        let found = self.len() as u64;
        if found == 0 {
            return Err(FeederError::NoNodes);
        }
        if self.len() > MAX_COUNT {
            return Err(FeederError::TooLarge);
        }
        let stated = AttributeProto::find(&self.metadata.attr, NODE_COUNT);
        let stated = stated.and_then(Value::whole_number);
        let stated = stated.and_then(|count| u64::try_from(count).ok());
        match stated {
            Some(stated) if stated != found => Err(FeederError::OtherCount { stated, found }),
            _ => Ok(()),
        }
    }

    /// Translates ids of dependencies to places of nodes.
    fn resolve(&self, deps: Dependencies, storage: &mut Storage) -> Result<Parents, FeederError> {
        let count = deps.ids.len();
        if count > MAX_COUNT {
            return Err(FeederError::TooLarge);
        }
        let mut parents = Column::default();
        let (mut has_forward, mut begin) = (false, 0);
        for place in 0..self.len() {
            let end = storage.get(&deps.ends, place)? as usize;
            for at in begin..end {
                let missing = storage.get(&deps.ids, at)?;
                let Some(parent) = self.place(missing, storage)? else {
                    let node = self.id(place as u32, storage)?;
                    return Err(FeederError::MissingNode { node, missing });
                };
                has_forward |= parent as usize >= place;
                storage.push(&mut parents, parent)?;
            }
            begin = end;
        }
        storage.free(deps.ids);
        Ok(Parents {
            parents,
            ends: deps.ends,
            has_forward,
        })
    }

    /// Finds nodes without dependencies in the order of Chakra's feeder. It enters each node into a
    /// map, followed by those dependencies that are not in the map yet
    /// (`_DependancyLayer::add_node`). Then it searches the map for nodes without dependencies.
    fn find_roots(
        &self,
        deps: &Parents,
        storage: &mut Storage,
    ) -> Result<Column<u32>, ScratchError> {
        let mut all = StockSet::default();
        let mut own = StockSet::default();
        let mut parents = vec![];
        let mut begin = 0;
        for place in 0..self.len() as u32 {
            all.insert(place, &self.ids, storage)?;
            let end = storage.get(&deps.ends, place as usize)? as usize;
            storage.read(&deps.parents, begin..end, &mut parents)?;
            begin = end;
            // in most files a node follows all of its dependencies
            if parents.iter().any(|parent| *parent > place) {
                own.clear(storage)?;
                for parent in &parents {
                    own.insert(*parent, &self.ids, storage)?;
                }
                let mut next = own.first();
                while let Some(parent) = next {
                    all.insert(parent, &self.ids, storage)?;
                    next = own.after(parent, storage)?;
                }
            }
        }
        own.free(storage);
        let mut roots = Column::default();
        let mut next = all.first();
        while let Some(place) = next {
            if !deps.waits(place, storage)? {
                storage.push(&mut roots, place)?;
            }
            next = all.after(place, storage)?;
        }
        all.free(storage);
        Ok(roots)
    }

    /// Inverts dependencies into children; returns the number of nodes that each node waits for.
    fn connect(
        &mut self,
        deps: &Parents,
        storage: &mut Storage,
    ) -> Result<Column<u32>, ScratchError> {
        let count = self.len();
        let mut parents = Column::default();
        // number of children, stored two places after the node
        let mut first_child = Column::default();
        storage.extend(&mut first_child, count + 2, 0)?;
        let mut edges = 0;
        deps.each_node(storage, |_, own, storage| {
            storage.push(&mut parents, own.len() as u32)?;
            edges += own.len();
            for parent in own {
                storage.add(&mut first_child, *parent as usize + 2, 1)?;
            }
            Ok(())
        })?;
        // start of the children, stored one place after the node
        let mut sum = 0;
        for place in 0..count + 2 {
            sum = storage.add(&mut first_child, place, sum)?;
        }
        let mut children = Column::default();
        storage.extend(&mut children, edges, 0)?;
        // end of the children, so that each node's own place ends up with its start
        deps.each_node(storage, |child, own, storage| {
            for parent in own {
                let slot = storage.add(&mut first_child, *parent as usize + 1, 1)? - 1;
                storage.set(&mut children, slot as usize, child)?;
            }
            Ok(())
        })?;
        storage.truncate(&mut first_child, count + 1);
        self.first_child = first_child;
        self.children = children;
        Ok(parents)
    }

    /// Checks that all nodes can be issued.
    fn check_cycles(
        &self,
        parents: &Column<u32>,
        roots: &Column<u32>,
        storage: &mut Storage,
    ) -> Result<(), FeederError> {
        let mut left = storage.copy(parents)?;
        let mut ready = storage.copy(roots)?;
        let mut issued = 0;
        while let Some(place) = storage.pop(&mut ready)? {
            issued += 1;
            for at in self.child_range(place, storage)? {
                let child = storage.get(&self.children, at)?;
                if storage.add(&mut left, child as usize, u32::MAX)? == 0 {
                    storage.push(&mut ready, child)?;
                }
            }
        }
        storage.free(ready);
        let nodes = self.len() - issued;
        for place in 0..self.len() {
            if nodes > 0 && storage.get(&left, place)? > 0 {
                let id = storage.get(&self.ids, place)?;
                return Err(FeederError::Cycle { id, nodes });
            }
        }
        storage.free(left);
        Ok(())
    }
}

/// Returns the place of an id in an ascending column: directly if there are no gaps, otherwise by a
/// binary search.
fn find(ids: &Column<u64>, id: u64, storage: &mut Storage) -> Result<Option<usize>, ScratchError> {
    let count = ids.len();
    if count == 0 {
        return Ok(None);
    }
    let first = storage.get(ids, 0)?;
    let Some(guess) = id.checked_sub(first) else {
        return Ok(None);
    };
    if let Ok(guess) = usize::try_from(guess)
        && guess < count
        && storage.get(ids, guess)? == id
    {
        return Ok(Some(guess));
    }
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        let found = storage.get(ids, middle)?;
        if found == id {
            return Ok(Some(middle));
        }
        if found < id {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(None)
}

/// Dependencies of all nodes, grouped by node.
struct Dependencies {
    /// Ids of dependencies; data dependencies come first, as in Chakra's feeder.
    ids: Column<u64>,
    /// End of each node's dependencies.
    ends: Column<u32>,
}

impl Dependencies {
    /// Appends the dependencies of the next node, and empties `own`.
    fn add(&mut self, own: &mut IndexedNode, storage: &mut Storage) -> Result<(), ScratchError> {
        for id in own.data_deps.drain(..).chain(own.ctrl_deps.drain(..)) {
            storage.push(&mut self.ids, id)?;
        }
        // a number beyond 32 bits is rejected once everything is read
        let end = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        storage.push(&mut self.ends, end)
    }
}

/// Places of the nodes that each node waits for, grouped by node.
struct Parents {
    parents: Column<u32>,
    /// End of each node's group.
    ends: Column<u32>,
    /// True if a node precedes one of its dependencies, or waits for itself.
    has_forward: bool,
}

impl Parents {
    fn waits(&self, place: u32, storage: &mut Storage) -> Result<bool, ScratchError> {
        let place = place as usize;
        let begin = match place {
            0 => 0,
            _ => storage.get(&self.ends, place - 1)?,
        };
        Ok(begin < storage.get(&self.ends, place)?)
    }

    /// Calls `take` with each node and the nodes it waits for. A dependency that is listed twice,
    /// as data and as control, counts once.
    fn each_node(
        &self,
        storage: &mut Storage,
        mut take: impl FnMut(u32, &[u32], &mut Storage) -> Result<(), ScratchError>,
    ) -> Result<(), ScratchError> {
        let mut own = vec![];
        let mut begin = 0;
        for place in 0..self.ends.len() {
            let end = storage.get(&self.ends, place)? as usize;
            storage.read(&self.parents, begin..end, &mut own)?;
            own.sort_unstable();
            own.dedup();
            take(place as u32, &own, storage)?;
            begin = end;
        }
        Ok(())
    }
}

/// The fields of a node that the index needs.
#[derive(Clone, PartialEq, Message)]
struct IndexedNode {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, repeated, tag = "4")]
    ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    data_deps: Vec<u64>,
}

/// Reads the messages of a file, each preceded by its length.
pub(crate) struct Messages<R> {
    source: BufReader<R>,
    /// Offset of the next message, bytes.
    offset: u64,
    /// Buffer for a message that exceeds one block.
    large: Vec<u8>,
}

impl<R: Read> Messages<R> {
    /// Creates a reader of the messages from `offset` on, where the source already is.
    pub(crate) fn new(source: R, offset: u64, block_bytes: usize) -> Messages<R> {
        Messages {
            source: BufReader::with_capacity(block_bytes, source),
            offset,
            large: vec![],
        }
    }

    /// Passes the next message and its offset to `parse`, and returns the result; `None` at the
    /// end.
    pub(crate) fn next<T>(
        &mut self,
        parse: impl FnOnce(u64, &[u8]) -> Option<T>,
    ) -> Result<Option<T>, FeederError> {
        let offset = self.offset;
        let Some((length, head)) = self.read_length()? else {
            return Ok(None);
        };
        // a message that would end beyond any file counts as truncated
        self.offset = offset.saturating_add(head).saturating_add(length);
        let cut = FeederError::Cut {
            offset,
            bytes: length,
        };
        let Ok(size) = usize::try_from(length) else {
            return Err(cut);
        };
        let buffered = self.source.buffer();
        let parsed = match buffered.get(..size) {
            Some(bytes) => {
                let parsed = parse(offset, bytes);
                self.source.consume(size);
                parsed
            }
            None => {
                self.large.clear();
                // memory grows with the bytes present, whatever length is claimed
                (&mut self.source)
                    .take(length)
                    .read_to_end(&mut self.large)?;
                if self.large.len() < size {
                    return Err(cut);
                }
                parse(offset, &self.large)
            }
        };
        parsed.map(Some).ok_or(FeederError::NoMessage { offset })
    }

    /// Returns the length of the next message, and the bytes that encode it; `None` at the end.
    fn read_length(&mut self) -> Result<Option<(u64, u64)>, FeederError> {
        let (mut length, mut bytes) = (0_u64, 0);
        loop {
            let mut byte = [0];
            match self.source.read_exact(&mut byte) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && bytes == 0 => {
                    return Ok(None);
                }
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(FeederError::CutLength {
                        offset: self.offset,
                    });
                }
                Err(error) => return Err(error.into()),
            }
            length |= u64::from(byte[0] & 0x7f) << (7 * bytes);
            bytes += 1;
            if byte[0] & 0x80 == 0 {
                return Ok(Some((length, bytes)));
            }
            if bytes as usize == MAX_VARINT_BYTES {
                let offset = self.offset;
                return Err(FeederError::NoMessage { offset });
            }
        }
    }
}
