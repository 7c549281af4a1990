//! What stays of a graph in memory: ids, places in the file, and which node waits for which.

use crate::error::FeederError;
use crate::stock_set::StockSet;
use etlink_chakra::proto::GlobalMetadata;
use etlink_chakra::proto::attribute_proto::Value;
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};

/// Field numbers of `Node` in Chakra's schema.
const ID: u32 = 1;
const CTRL_DEPS: u32 = 4;
const DATA_DEPS: u32 = 5;
/// What etlink says in the metadata of how many nodes follow.
const NODE_COUNT: &str = "node_count";

/// A number of more bytes is none of 64 bits.
const MAX_VARINT_BYTES: usize = 10;
/// How much is read at once.
const BLOCK_BYTES: usize = 1 << 18;
/// The same for one node, of which most are smaller.
const SMALL_BLOCK_BYTES: usize = 1 << 10;
/// Each dependency and each node is counted by 32 bits, of which two values are not used.
const MAX_COUNT: usize = u32::MAX as usize - 1;

/// Which program packed a file that begins so.
fn packing_tool(magic: &[u8]) -> Option<&'static str> {
    match magic {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd] => Some("zstd"),
        _ => None,
    }
}

/// A graph without what its nodes do: 24 bytes a node, and 4 a dependency.
#[derive(Clone, Debug, Default)]
pub struct GraphIndex {
    metadata: GlobalMetadata,
    /// In the order of the file.
    ids: Vec<u64>,
    /// Where the message of each node begins: its length, then its bytes.
    offsets: Vec<u64>,
    /// Places of nodes by their ids, where the file has them in another order.
    by_id: Option<Vec<u32>>,
    /// How many nodes each waits for.
    parents: Vec<u32>,
    /// Where the children of each node begin in `children`.
    first_child: Vec<u32>,
    /// Nodes that wait for another one, in the order of the file.
    children: Vec<u32>,
    /// Nodes that wait for none, in the order in which Chakra's feeder finds them.
    roots: Vec<u32>,
}

impl GraphIndex {
    /// Reads a graph once, from its beginning to its end.
    ///
    /// # Errors
    /// It cannot be read, is cut, or is no graph whose nodes can all be issued.
    pub fn read(mut source: impl Read) -> Result<GraphIndex, FeederError> {
        let mut magic = vec![];
        source.by_ref().take(4).read_to_end(&mut magic)?;
        if let Some(tool) = packing_tool(&magic) {
            return Err(FeederError::Packed { tool });
        }
        let mut messages = Messages::new(Cursor::new(magic).chain(source));
        let metadata = messages.next(|_, bytes| {
            // protobuf would take a node for metadata with unknown fields
            GlobalMetadata::decode(bytes).ok()
        })?;
        let mut index = GraphIndex {
            metadata: metadata.ok_or(FeederError::NoNodes)?,
            ..GraphIndex::default()
        };
        let mut deps = Dependencies::default();
        while messages
            .next(|offset, bytes| index.add(offset, bytes, &mut deps))?
            .is_some()
        {
            index.check_last()?;
        }
        index.check_count()?;
        index.order_ids()?;
        index.connect(deps)?;
        Ok(index)
    }

    /// What the file says of itself.
    pub fn metadata(&self) -> &GlobalMetadata {
        &self.metadata
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none; a graph that was read has some.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Ids of all nodes, in the order of the file.
    pub(crate) fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// The id of the node at a place in the file.
    pub(crate) fn id(&self, place: u32) -> u64 {
        self.ids[place as usize]
    }

    /// Where its message begins, bytes.
    pub(crate) fn offset(&self, place: u32) -> u64 {
        self.offsets[place as usize]
    }

    /// How many nodes each waits for, by their places.
    pub(crate) fn parent_counts(&self) -> &[u32] {
        &self.parents
    }

    /// Nodes that wait for this one.
    pub(crate) fn children(&self, place: u32) -> &[u32] {
        let place = place as usize;
        let begin = self.first_child[place] as usize;
        let end = self.first_child[place + 1] as usize;
        &self.children[begin..end]
    }

    /// Nodes that wait for none.
    pub(crate) fn roots(&self) -> &[u32] {
        &self.roots
    }

    /// The place of a node. Takes a step in most files, and a search in those with gaps in their ids.
    pub(crate) fn place(&self, id: u64) -> Option<u32> {
        if let Some(by_id) = &self.by_id {
            let found = by_id.binary_search_by_key(&id, |place| self.id(*place));
            return found.ok().map(|rank| by_id[rank]);
        }
        let first = *self.ids.first()?;
        let guess = usize::try_from(id.checked_sub(first)?).ok()?;
        if self.ids.get(guess) == Some(&id) {
            return Some(guess as u32);
        }
        self.ids.binary_search(&id).ok().map(|place| place as u32)
    }

    /// Takes a node in; `None` if it is none.
    fn add(&mut self, offset: u64, bytes: &[u8], deps: &mut Dependencies) -> Option<()> {
        let id = scan_node(bytes, deps)?;
        self.ids.push(id);
        self.offsets.push(offset);
        deps.close();
        Some(())
    }

    /// A file of zeros is a node 0 at each byte: it is not read to its end.
    fn check_last(&self) -> Result<(), FeederError> {
        match self.ids[..] {
            [.., last, id] if last == id => Err(FeederError::RepeatedId { id }),
            _ => Ok(()),
        }
    }

    /// A file that was cut between two nodes is whole to protobuf.
    fn check_count(&self) -> Result<(), FeederError> {
        let found = self.ids.len() as u64;
        if found == 0 {
            return Err(FeederError::NoNodes);
        }
        if self.ids.len() > MAX_COUNT {
            return Err(FeederError::TooLarge);
        }
        let stated = self.metadata.attr.iter().find_map(|attr| {
            let value = attr.value.as_ref().filter(|_| attr.name == NODE_COUNT)?;
            match value {
                Value::Uint64Val(count) => Some(*count),
                Value::Int64Val(count) => u64::try_from(*count).ok(),
                _ => None,
            }
        });
        match stated {
            Some(stated) if stated != found => Err(FeederError::OtherCount { stated, found }),
            _ => Ok(()),
        }
    }

    fn order_ids(&mut self) -> Result<(), FeederError> {
        if self.ids.is_sorted_by(|id, next| id < next) {
            return Ok(());
        }
        let mut by_id: Vec<u32> = (0..self.ids.len() as u32).collect();
        by_id.sort_unstable_by_key(|place| self.id(*place));
        let mut pairs = by_id.windows(2);
        if let Some(pair) = pairs.find(|pair| self.id(pair[0]) == self.id(pair[1])) {
            let id = self.id(pair[0]);
            return Err(FeederError::RepeatedId { id });
        }
        self.by_id = Some(by_id);
        Ok(())
    }

    /// From each node's dependencies to each node's children.
    fn connect(&mut self, deps: Dependencies) -> Result<(), FeederError> {
        let mut parents = self.resolve(&deps)?;
        let ends = deps.ends;
        self.find_roots(&parents, &ends);
        // of a node that depends on another twice, by data and by control, one counts
        let count = self.ids.len();
        self.parents = vec![0; count];
        let mut child_counts = vec![0_u32; count + 1];
        let mut begin = 0;
        for (place, end) in ends.iter().enumerate() {
            let own = &mut parents[begin..*end as usize];
            own.sort_unstable();
            let mut last = None;
            for parent in own {
                if last != Some(*parent) {
                    last = Some(*parent);
                    self.parents[place] += 1;
                    child_counts[*parent as usize + 1] += 1;
                } else {
                    *parent = u32::MAX;
                }
            }
            begin = *end as usize;
        }
        for place in 1..child_counts.len() {
            child_counts[place] += child_counts[place - 1];
        }
        let mut children = vec![0; child_counts[count] as usize];
        let mut next = child_counts.clone();
        let mut begin = 0;
        for (child, end) in ends.iter().enumerate() {
            let own = &parents[begin..*end as usize];
            for parent in own.iter().filter(|parent| **parent != u32::MAX) {
                let slot = &mut next[*parent as usize];
                children[*slot as usize] = child as u32;
                *slot += 1;
            }
            begin = *end as usize;
        }
        self.first_child = child_counts;
        self.children = children;
        self.check_cycles()
    }

    /// All nodes can be issued.
    fn check_cycles(&self) -> Result<(), FeederError> {
        let mut left = self.parents.clone();
        let mut ready = self.roots.clone();
        let mut issued = 0;
        while let Some(place) = ready.pop() {
            issued += 1;
            for child in self.children(place) {
                let left = &mut left[*child as usize];
                *left -= 1;
                if *left == 0 {
                    ready.push(*child);
                }
            }
        }
        match left.iter().position(|left| *left > 0) {
            Some(place) => Err(FeederError::Cycle {
                id: self.ids[place],
                nodes: self.ids.len() - issued,
            }),
            None => Ok(()),
        }
    }

    /// Ids of dependencies as places of nodes.
    fn resolve(&self, deps: &Dependencies) -> Result<Vec<u32>, FeederError> {
        if deps.ids.len() > MAX_COUNT {
            return Err(FeederError::TooLarge);
        }
        let mut places = Vec::with_capacity(deps.ids.len());
        let mut begin = 0;
        for (place, end) in deps.ends.iter().enumerate() {
            for id in &deps.ids[begin..*end as usize] {
                let parent = self.place(*id).ok_or(FeederError::MissingNode {
                    node: self.ids[place],
                    missing: *id,
                })?;
                places.push(parent);
            }
            begin = *end as usize;
        }
        Ok(places)
    }

    /// Chakra's feeder enters each node into a map, and behind it those of its dependencies that are
    /// not in it yet (`_DependancyLayer::add_node`). Then it goes through that map for nodes without
    /// dependencies.
    fn find_roots(&mut self, parents: &[u32], ends: &[u32]) {
        let mut all = StockSet::default();
        let mut own = StockSet::default();
        let mut begin = 0;
        for (place, end) in ends.iter().enumerate() {
            let place = place as u32;
            all.insert(place, &self.ids);
            let deps = &parents[begin..*end as usize];
            // most files have a node behind all that it depends on
            if deps.iter().any(|parent| *parent > place) {
                own.clear();
                for parent in deps {
                    own.insert(*parent, &self.ids);
                }
                for parent in own.iter() {
                    all.insert(parent, &self.ids);
                }
            }
            begin = *end as usize;
        }
        let waits = |place: u32| {
            let place = place as usize;
            let begin = if place == 0 { 0 } else { ends[place - 1] };
            begin < ends[place]
        };
        self.roots = all.iter().filter(|place| !waits(*place)).collect();
    }
}

/// Dependencies of all nodes, one node's after the other's.
#[derive(Default)]
struct Dependencies {
    /// Those by data first, as Chakra's feeder takes them.
    ids: Vec<u64>,
    /// Where those of each node end.
    ends: Vec<u32>,
    /// Those by control of the node that is read.
    ctrl: Vec<u64>,
}

impl Dependencies {
    /// The node is read.
    fn close(&mut self) {
        self.ids.append(&mut self.ctrl);
        // more than 32 bits can count is refused when all is read
        self.ends
            .push(u32::try_from(self.ids.len()).unwrap_or(u32::MAX));
    }
}

/// The id of a node; its dependencies are added. `None`: it is no node.
fn scan_node(mut bytes: &[u8], deps: &mut Dependencies) -> Option<u64> {
    let mut id = 0;
    while !bytes.is_empty() {
        let (field, wire_type) = decode_key(&mut bytes).ok()?;
        match wire_type {
            WireType::Varint => {
                let value = decode_varint(&mut bytes).ok()?;
                match field {
                    ID => id = value,
                    CTRL_DEPS => deps.ctrl.push(value),
                    DATA_DEPS => deps.ids.push(value),
                    _ => {}
                }
            }
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut bytes).ok()?).ok()?;
                let (mut block, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                let list = match field {
                    CTRL_DEPS => &mut deps.ctrl,
                    DATA_DEPS => &mut deps.ids,
                    _ => continue,
                };
                while !block.is_empty() {
                    list.push(decode_varint(&mut block).ok()?);
                }
            }
            WireType::ThirtyTwoBit => bytes = bytes.get(4..)?,
            WireType::SixtyFourBit => bytes = bytes.get(8..)?,
            // Chakra's schema has none
            WireType::StartGroup | WireType::EndGroup => return None,
        }
    }
    Some(id)
}

/// The messages of a file, each after its length.
pub(crate) struct Messages<R> {
    source: BufReader<R>,
    /// Where the next one begins, bytes.
    offset: u64,
    /// One that is larger than what was read at once.
    large: Vec<u8>,
}

impl<R: Read> Messages<R> {
    pub(crate) fn new(source: R) -> Messages<R> {
        Messages {
            source: BufReader::with_capacity(BLOCK_BYTES, source),
            offset: 0,
            large: vec![],
        }
    }

    /// One message, of which the source is at the beginning: `offset`.
    pub(crate) fn small(source: R, offset: u64) -> Messages<R> {
        Messages {
            source: BufReader::with_capacity(SMALL_BLOCK_BYTES, source),
            offset,
            large: vec![],
        }
    }

    /// What `parse` makes of the next message and of where it begins; `None` at the end.
    pub(crate) fn next<T>(
        &mut self,
        parse: impl FnOnce(u64, &[u8]) -> Option<T>,
    ) -> Result<Option<T>, FeederError> {
        let offset = self.offset;
        let Some((length, head)) = self.read_length()? else {
            return Ok(None);
        };
        // one that would end behind all files is cut
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
                // takes as much memory as there is, whatever the length says
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

    /// The length of the next message, and how many bytes say it; `None` at the end.
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
