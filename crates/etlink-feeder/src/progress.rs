//! State of a feeder: tracks which nodes may be issued, in any storage.

use crate::error::FeederError;
use crate::id_order_set::IdOrderSet;
use crate::index::GraphIndex;
use crate::stock_set::StockSet;
use crate::storage::{ScratchError, Storage, Value};
use std::io::Read;

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

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeState {
    /// Waits for its dependencies, or to be issued.
    Waiting,
    /// Issued, but not ended.
    Issued,
    /// Ended.
    Ended,
}

impl Value for NodeState {
    const BYTES: usize = 1;

    fn from_page(bytes: &[u8]) -> NodeState {
        match bytes[0] {
            0 => NodeState::Waiting,
            1 => NodeState::Issued,
            _ => NodeState::Ended,
        }
    }

    fn to_page(self, bytes: &mut [u8]) {
        bytes[0] = self as u8;
    }
}

/// A graph with its progress.
#[derive(Debug)]
pub(crate) struct Progress<S: Storage> {
    storage: S,
    index: GraphIndex<S>,
    /// Number of nodes that each node still waits for.
    left: S::Column<u32>,
    state: S::Column<NodeState>,
    ready: ReadyNodes<S>,
    issued: usize,
    ended: usize,
    /// Reusable set of a node's children.
    children: StockSet<S>,
}

/// Nodes that may be issued.
#[derive(Debug)]
enum ReadyNodes<S: Storage> {
    Stock(StockSet<S>),
    ById(IdOrderSet<S>),
}

impl<S: Storage> ReadyNodes<S> {
    fn insert(
        &mut self,
        place: u32,
        index: &GraphIndex<S>,
        storage: &mut S,
    ) -> Result<(), ScratchError> {
        match self {
            ReadyNodes::Stock(set) => set.insert(place, index.ids(), storage),
            ReadyNodes::ById(set) => set.insert(index.position(place, storage)?, storage),
        }
    }

    fn remove(
        &mut self,
        place: u32,
        index: &GraphIndex<S>,
        storage: &mut S,
    ) -> Result<(), ScratchError> {
        match self {
            ReadyNodes::Stock(set) => set.remove(place, index.ids(), storage),
            ReadyNodes::ById(set) => set.remove(index.position(place, storage)?, storage),
        }
    }

    fn first(&self, index: &GraphIndex<S>, storage: &mut S) -> Result<Option<u32>, ScratchError> {
        match self {
            ReadyNodes::Stock(set) => Ok(set.first()),
            ReadyNodes::ById(set) => match set.first(storage)? {
                Some(position) => index.at_position(position, storage).map(Some),
                None => Ok(None),
            },
        }
    }

    fn len(&self) -> usize {
        match self {
            ReadyNodes::Stock(set) => set.len(),
            ReadyNodes::ById(set) => set.len(),
        }
    }
}

impl<S: Storage> Progress<S> {
    /// Reads a graph, with no node issued.
    ///
    /// # Errors
    /// Same as [`GraphIndex::read`].
    pub(crate) fn read(
        source: impl Read,
        order: IssueOrder,
        mut storage: S,
    ) -> Result<Progress<S>, FeederError> {
        let (index, begin) = GraphIndex::read(source, &mut storage)?;
        let mut ready = match order {
            IssueOrder::Stock => ReadyNodes::Stock(StockSet::default()),
            IssueOrder::ById => ReadyNodes::ById(IdOrderSet::new(index.len(), &mut storage)?),
        };
        for at in 0..S::len(&begin.roots) {
            let root = storage.get(&begin.roots, at)?;
            ready.insert(root, &index, &mut storage)?;
        }
        storage.free(begin.roots);
        let mut state = S::Column::default();
        storage.resize(&mut state, index.len(), NodeState::Waiting)?;
        Ok(Progress {
            storage,
            index,
            left: begin.parents,
            state,
            ready,
            issued: 0,
            ended: 0,
            children: StockSet::default(),
        })
    }

    pub(crate) fn index(&self) -> &GraphIndex<S> {
        &self.index
    }

    #[cfg(test)]
    pub(crate) fn storage(&self) -> &S {
        &self.storage
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn issued(&self) -> usize {
        self.issued
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended
    }

    pub(crate) fn first_ready(&mut self) -> Result<Option<u64>, FeederError> {
        self.storage.check()?;
        match self.ready.first(&self.index, &mut self.storage)? {
            Some(place) => Ok(Some(self.index.id(place, &mut self.storage)?)),
            None => Ok(None),
        }
    }

    pub(crate) fn issue_next(&mut self) -> Result<Option<u64>, FeederError> {
        self.storage.check()?;
        let Some(place) = self.ready.first(&self.index, &mut self.storage)? else {
            return Ok(None);
        };
        self.mark_issued(place)?;
        Ok(Some(self.index.id(place, &mut self.storage)?))
    }

    pub(crate) fn issue(&mut self, id: u64) -> Result<(), FeederError> {
        let place = self.place(id)?;
        let is_ready = self.storage.get(&self.left, place as usize)? == 0;
        let state = self.storage.get(&self.state, place as usize)?;
        if !is_ready || state != NodeState::Waiting {
            return Err(FeederError::NotReady { id });
        }
        Ok(self.mark_issued(place)?)
    }

    pub(crate) fn push_back(&mut self, id: u64) -> Result<(), FeederError> {
        let place = self.issued_place(id)?;
        self.set_state(place, NodeState::Waiting)?;
        self.issued -= 1;
        self.ready.insert(place, &self.index, &mut self.storage)?;
        Ok(())
    }

    pub(crate) fn end(&mut self, id: u64) -> Result<(), FeederError> {
        let place = self.issued_place(id)?;
        self.set_state(place, NodeState::Ended)?;
        self.issued -= 1;
        self.ended += 1;
        let children = self.index.child_range(place, &mut self.storage)?;
        // a single child needs no order
        if children.len() < 2 || matches!(self.ready, ReadyNodes::ById(_)) {
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

    /// Returns the place of a node, and the offset of its message, bytes.
    pub(crate) fn message(&mut self, id: u64) -> Result<(u32, u64), FeederError> {
        let place = self.place(id)?;
        Ok((place, self.index.offset(place, &mut self.storage)?))
    }

    fn place(&mut self, id: u64) -> Result<u32, FeederError> {
        self.storage.check()?;
        let place = self.index.place(id, &mut self.storage)?;
        place.ok_or(FeederError::UnknownNode { id })
    }

    fn issued_place(&mut self, id: u64) -> Result<u32, FeederError> {
        let place = self.place(id)?;
        match self.storage.get(&self.state, place as usize)? {
            NodeState::Issued => Ok(place),
            NodeState::Waiting | NodeState::Ended => Err(FeederError::NotIssued { id }),
        }
    }

    fn set_state(&mut self, place: u32, state: NodeState) -> Result<(), ScratchError> {
        self.storage.set(&mut self.state, place as usize, state)
    }

    fn mark_issued(&mut self, place: u32) -> Result<(), ScratchError> {
        self.ready.remove(place, &self.index, &mut self.storage)?;
        self.set_state(place, NodeState::Issued)?;
        self.issued += 1;
        Ok(())
    }

    /// Notes that a node which the child waited for has ended.
    fn free_child(&mut self, child: u32) -> Result<(), ScratchError> {
        // decrement by wrapping around
        let left = self.storage.add(&mut self.left, child as usize, u32::MAX)?;
        if left == 0 {
            self.ready.insert(child, &self.index, &mut self.storage)?;
        }
        Ok(())
    }
}
