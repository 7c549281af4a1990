//! Nodes, the lowest id first.

use crate::columns::{Column, ScratchError, Storage};

/// Binary heap of nodes' places, ordered by their ids, which are passed to each call.
#[derive(Debug, Default)]
pub(crate) struct IdHeap {
    places: Column<u32>,
}

impl IdHeap {
    /// Returns the node with the lowest id.
    pub(crate) fn first(&self, storage: &mut Storage) -> Result<Option<u32>, ScratchError> {
        match self.places.len() {
            0 => Ok(None),
            _ => storage.get(&self.places, 0).map(Some),
        }
    }

    /// Adds a node.
    pub(crate) fn push(
        &mut self,
        place: u32,
        ids: &Column<u64>,
        storage: &mut Storage,
    ) -> Result<(), ScratchError> {
        let id = storage.get(ids, place as usize)?;
        let mut at = self.places.len();
        storage.push(&mut self.places, place)?;
        while at > 0 {
            let parent = (at - 1) / 2;
            let above = storage.get(&self.places, parent)?;
            if storage.get(ids, above as usize)? <= id {
                break;
            }
            storage.set(&mut self.places, at, above)?;
            at = parent;
        }
        storage.set(&mut self.places, at, place)
    }

    /// Removes the node with the lowest id.
    pub(crate) fn pop(
        &mut self,
        ids: &Column<u64>,
        storage: &mut Storage,
    ) -> Result<(), ScratchError> {
        let Some(last) = storage.pop(&mut self.places)? else {
            return Ok(());
        };
        let id = storage.get(ids, last as usize)?;
        let len = self.places.len();
        let mut at = 0;
        while 2 * at + 1 < len {
            let mut child = 2 * at + 1;
            let mut below = storage.get(&self.places, child)?;
            let mut lowest = storage.get(ids, below as usize)?;
            if child + 1 < len {
                let right = storage.get(&self.places, child + 1)?;
                let right_id = storage.get(ids, right as usize)?;
                if right_id < lowest {
                    (child, below, lowest) = (child + 1, right, right_id);
                }
            }
            if id <= lowest {
                break;
            }
            storage.set(&mut self.places, at, below)?;
            at = child;
        }
        if at < len {
            storage.set(&mut self.places, at, last)?;
        }
        Ok(())
    }
}
