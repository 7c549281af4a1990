//! Sorts the ids of nodes for a file in another order.

use crate::columns::{Column, ScratchError, Storage};
use crate::error::FeederError;
use std::ops::Range;

/// Number of ids sorted in a list of their own, half a megabyte.
const SORTED_AT_ONCE: usize = 1 << 15;

/// Ids in ascending order, with their places in the file.
#[derive(Debug)]
pub(crate) struct SortedIds {
    pub(crate) ids: Column<u64>,
    pub(crate) places: Column<u32>,
}

impl SortedIds {
    /// Divides the ids by their highest bit, the parts by the next bit, and so on, until a part
    /// fits into a list.
    ///
    /// # Errors
    /// Two nodes share an id, or the scratch file failed.
    pub(crate) fn of(ids: &Column<u64>, storage: &mut Storage) -> Result<SortedIds, FeederError> {
        let mut sorted = SortedIds {
            ids: storage.copy(ids)?,
            places: Column::default(),
        };
        let mut used_bits = 0;
        for place in 0..ids.len() {
            storage.push(&mut sorted.places, place as u32)?;
            used_bits |= storage.get(ids, place)?;
        }
        let bits = u64::BITS - used_bits.leading_zeros();
        let mut parts = vec![(0..ids.len(), bits)];
        while let Some((part, bits)) = parts.pop() {
            if part.len() <= SORTED_AT_ONCE {
                sorted.sort(part, storage)?;
            } else if let Some(bit) = bits.checked_sub(1) {
                let middle = sorted.divide(part.clone(), bit, storage)?;
                parts.extend([(part.start..middle, bit), (middle..part.end, bit)]);
            } else {
                // all bits are equal
                let id = storage.get(&sorted.ids, part.start)?;
                return Err(FeederError::RepeatedId { id });
            }
        }
        sorted.check(storage)?;
        Ok(sorted)
    }

    /// Moves ids without a bit before ids with it; returns the place of the first one with it.
    fn divide(
        &mut self,
        part: Range<usize>,
        bit: u32,
        storage: &mut Storage,
    ) -> Result<usize, ScratchError> {
        let (mut low, mut high) = (part.start, part.end);
        while low < high {
            let id = storage.get(&self.ids, low)?;
            if id >> bit & 1 == 0 {
                low += 1;
                continue;
            }
            high -= 1;
            let other = storage.get(&self.ids, high)?;
            storage.set(&mut self.ids, low, other)?;
            storage.set(&mut self.ids, high, id)?;
            let place = storage.get(&self.places, low)?;
            let other = storage.get(&self.places, high)?;
            storage.set(&mut self.places, low, other)?;
            storage.set(&mut self.places, high, place)?;
        }
        Ok(low)
    }

    fn sort(&mut self, part: Range<usize>, storage: &mut Storage) -> Result<(), ScratchError> {
        let mut list = vec![];
        for at in part.clone() {
            list.push((storage.get(&self.ids, at)?, storage.get(&self.places, at)?));
        }
        list.sort_unstable();
        for (at, (id, place)) in part.zip(list) {
            storage.set(&mut self.ids, at, id)?;
            storage.set(&mut self.places, at, place)?;
        }
        Ok(())
    }

    /// Checks that no id occurs twice.
    fn check(&self, storage: &mut Storage) -> Result<(), FeederError> {
        let mut last = None;
        for at in 0..self.ids.len() {
            let id = storage.get(&self.ids, at)?;
            if last == Some(id) {
                return Err(FeederError::RepeatedId { id });
            }
            last = Some(id);
        }
        Ok(())
    }
}
