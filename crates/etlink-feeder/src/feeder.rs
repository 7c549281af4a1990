//! Which nodes may be issued, and what they are.

use crate::error::FeederError;
use crate::index::{GraphIndex, Messages};
use crate::stock_set::StockSet;
use etlink_chakra::proto::Node;
use prost::Message;
use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

/// Nodes that were looked up last, of which each place has one: simulators ask for a node several
/// times while it is issued.
const KEPT_NODES: usize = 4096;

/// Which of several nodes that may be issued comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IssueOrder {
    /// As Chakra's own feeder (`src/feeder_v3`) gives them where it is built with GCC: that of
    /// `std::unordered_set`.
    #[default]
    Stock,
    /// The one with the lowest id, as ASTRA-sim issues them.
    ById,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeState {
    /// Its dependencies have not ended, or it was not issued yet.
    Waiting,
    /// It was issued.
    Issued,
    /// It has ended.
    Ended,
}

/// Feeds a simulator with the nodes of a graph. `source` is the file that the index was read from.
///
/// Time: [`Self::issue_next`] and [`Self::end`] take constant time for each node and dependency, on
/// average. Memory: up to 22 bytes a node beside the index, and the latest nodes that were looked up.
#[derive(Debug)]
pub struct Feeder<R> {
    index: GraphIndex,
    source: R,
    /// How many nodes each still waits for.
    left: Vec<u32>,
    state: Vec<NodeState>,
    ready: ReadyNodes,
    issued: usize,
    ended: usize,
    /// The set of a node's children.
    children: StockSet,
    kept: Vec<Option<(u32, Arc<Node>)>>,
}

/// Nodes that may be issued.
#[derive(Debug)]
enum ReadyNodes {
    Stock(StockSet),
    ById(BTreeSet<(u64, u32)>),
}

impl ReadyNodes {
    fn insert(&mut self, place: u32, index: &GraphIndex) {
        match self {
            ReadyNodes::Stock(set) => set.insert(place, index.ids()),
            ReadyNodes::ById(set) => drop(set.insert((index.id(place), place))),
        }
    }

    fn remove(&mut self, place: u32, index: &GraphIndex) {
        match self {
            ReadyNodes::Stock(set) => set.remove(place, index.ids()),
            ReadyNodes::ById(set) => drop(set.remove(&(index.id(place), place))),
        }
    }

    fn first(&self) -> Option<u32> {
        match self {
            ReadyNodes::Stock(set) => set.first(),
            ReadyNodes::ById(set) => set.first().map(|(_, place)| *place),
        }
    }

    fn len(&self) -> usize {
        match self {
            ReadyNodes::Stock(set) => set.len(),
            ReadyNodes::ById(set) => set.len(),
        }
    }
}

impl<R: Read + Seek> Feeder<R> {
    /// Reads the graph once. Later only nodes that are looked up are read.
    ///
    /// # Errors
    /// Those of [`GraphIndex::read`].
    pub fn new(mut source: R, order: IssueOrder) -> Result<Feeder<R>, FeederError> {
        source.seek(SeekFrom::Start(0))?;
        let index = GraphIndex::read(&mut source)?;
        let mut feeder = Feeder {
            left: index.parent_counts().to_vec(),
            state: vec![NodeState::Waiting; index.len()],
            ready: match order {
                IssueOrder::Stock => ReadyNodes::Stock(StockSet::default()),
                IssueOrder::ById => ReadyNodes::ById(BTreeSet::new()),
            },
            issued: 0,
            ended: 0,
            children: StockSet::default(),
            kept: vec![None; KEPT_NODES],
            index,
            source,
        };
        for root in feeder.index.roots() {
            feeder.ready.insert(*root, &feeder.index);
        }
        Ok(feeder)
    }

    /// What is known of the graph as a whole.
    pub fn index(&self) -> &GraphIndex {
        &self.index
    }

    /// How many nodes may be issued now.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many nodes were issued and have not ended.
    pub fn issued(&self) -> usize {
        self.issued
    }

    /// How many nodes have ended.
    pub fn ended(&self) -> usize {
        self.ended
    }

    /// The id of the node that comes first, if one may be issued. It stays where it is.
    pub fn first_ready(&self) -> Option<u64> {
        self.ready.first().map(|place| self.index.id(place))
    }

    /// Issues the node that comes first; its id, or `None` if none may be issued now.
    pub fn issue_next(&mut self) -> Option<u64> {
        let place = self.ready.first()?;
        self.mark_issued(place);
        Some(self.index.id(place))
    }

    /// Issues a node.
    ///
    /// # Errors
    /// It may not be issued now.
    pub fn issue(&mut self, id: u64) -> Result<(), FeederError> {
        let place = self.place(id)?;
        let is_ready = self.left[place as usize] == 0;
        if !is_ready || self.state[place as usize] != NodeState::Waiting {
            return Err(FeederError::NotReady { id });
        }
        self.mark_issued(place);
        Ok(())
    }

    /// Takes a node back that was issued: it may be issued again.
    ///
    /// # Errors
    /// It was not issued.
    pub fn push_back(&mut self, id: u64) -> Result<(), FeederError> {
        let place = self.issued_place(id)?;
        self.state[place as usize] = NodeState::Waiting;
        self.issued -= 1;
        self.ready.insert(place, &self.index);
        Ok(())
    }

    /// A node that was issued has ended: those that waited for it alone may be issued.
    ///
    /// # Errors
    /// It was not issued.
    pub fn end(&mut self, id: u64) -> Result<(), FeederError> {
        let place = self.issued_place(id)?;
        self.state[place as usize] = NodeState::Ended;
        self.issued -= 1;
        self.ended += 1;
        let children = self.index.children(place);
        // one child has one order
        if children.len() < 2 || matches!(self.ready, ReadyNodes::ById(_)) {
            for child in children {
                free_child(*child, &self.index, &mut self.left, &mut self.ready);
            }
            return Ok(());
        }
        self.children.clear();
        for child in children {
            self.children.insert(*child, self.index.ids());
        }
        for child in self.children.iter() {
            free_child(child, &self.index, &mut self.left, &mut self.ready);
        }
        Ok(())
    }

    /// All of a node.
    ///
    /// # Errors
    /// There is none of this id, or the file cannot be read or has changed.
    pub fn node(&mut self, id: u64) -> Result<Arc<Node>, FeederError> {
        let place = self.place(id)?;
        let slot = place as usize % KEPT_NODES;
        if let Some((kept, node)) = &self.kept[slot]
            && *kept == place
        {
            return Ok(Arc::clone(node));
        }
        let offset = self.index.offset(place);
        let node = Arc::new(self.read_node(offset, id)?);
        self.kept[slot] = Some((place, Arc::clone(&node)));
        Ok(node)
    }

    fn read_node(&mut self, offset: u64, id: u64) -> Result<Node, FeederError> {
        self.source.seek(SeekFrom::Start(offset))?;
        let mut messages = Messages::small(&mut self.source, offset);
        let node = messages.next(|_, bytes| Node::decode(bytes).ok())?;
        // somebody may have written to the file
        node.filter(|node| node.id == id)
            .ok_or(FeederError::NoMessage { offset })
    }

    fn place(&self, id: u64) -> Result<u32, FeederError> {
        self.index.place(id).ok_or(FeederError::UnknownNode { id })
    }

    fn issued_place(&self, id: u64) -> Result<u32, FeederError> {
        let place = self.place(id)?;
        match self.state[place as usize] {
            NodeState::Issued => Ok(place),
            NodeState::Waiting | NodeState::Ended => Err(FeederError::NotIssued { id }),
        }
    }

    fn mark_issued(&mut self, place: u32) {
        self.ready.remove(place, &self.index);
        self.state[place as usize] = NodeState::Issued;
        self.issued += 1;
    }
}

/// A node that it waited for has ended.
fn free_child(child: u32, index: &GraphIndex, left: &mut [u32], ready: &mut ReadyNodes) {
    let left = &mut left[child as usize];
    *left -= 1;
    if *left == 0 {
        ready.insert(child, index);
    }
}
