//! Sorts the ids of nodes for a file in another order.

use crate::error::FeederError;
use crate::storage::{ScratchError, Storage};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Ids in ascending order, with their places in the file.
#[derive(Debug)]
pub(crate) struct SortedIds<S: Storage> {
    pub(crate) ids: S::Column<u64>,
    pub(crate) places: S::Column<u32>,
}

impl<S: Storage> SortedIds<S> {
    /// Sorts runs of as many ids as fit into memory, then merges the runs until one is left.
    ///
    /// # Errors
    /// Two nodes share an id, or the scratch file failed.
    pub(crate) fn of(ids: &S::Column<u64>, storage: &mut S) -> Result<SortedIds<S>, FeederError> {
        let run_length = storage.sorted_at_once();
        let mut sorted = sort_runs(ids, run_length, storage)?;
        let mut length = run_length;
        while length < S::len(ids) {
            let merged_at_once = storage.merged_at_once();
            let merged = sorted.merge(length, merged_at_once, storage)?;
            storage.free(sorted.ids);
            storage.free(sorted.places);
            sorted = merged;
            length = length.saturating_mul(merged_at_once);
        }
        sorted.check(storage)?;
        Ok(sorted)
    }

    fn empty(count: usize, storage: &mut S) -> SortedIds<S> {
        SortedIds {
            ids: storage.with_room(count),
            places: storage.with_room(count),
        }
    }

    fn push(&mut self, id: u64, place: u32, storage: &mut S) -> Result<(), ScratchError> {
        storage.push(&mut self.ids, id)?;
        storage.push(&mut self.places, place)
    }

    /// Merges groups of `at_once` runs of `length` ids into longer runs.
    fn merge(
        &self,
        length: usize,
        at_once: usize,
        storage: &mut S,
    ) -> Result<SortedIds<S>, ScratchError> {
        let count = S::len(&self.ids);
        let mut merged = SortedIds::empty(count, storage);
        let mut begin = 0;
        while begin < count {
            let end = begin
                .saturating_add(length.saturating_mul(at_once))
                .min(count);
            // the position in each run, ordered by its next id
            let mut next = BinaryHeap::new();
            for at in (begin..end).step_by(length) {
                next.push(Reverse((storage.get(&self.ids, at)?, at)));
            }
            while let Some(Reverse((id, at))) = next.pop() {
                let place = storage.get(&self.places, at)?;
                merged.push(id, place, storage)?;
                let after = at + 1;
                if after < end && (after - begin) % length != 0 {
                    next.push(Reverse((storage.get(&self.ids, after)?, after)));
                }
            }
            begin = end;
        }
        Ok(merged)
    }

    /// Checks that no id occurs twice.
    fn check(&self, storage: &mut S) -> Result<(), FeederError> {
        let mut last = None;
        for at in 0..S::len(&self.ids) {
            let id = storage.get(&self.ids, at)?;
            if last == Some(id) {
                return Err(FeederError::RepeatedId { id });
            }
            last = Some(id);
        }
        Ok(())
    }
}

/// Sorts each run of `length` ids in ascending order.
fn sort_runs<S: Storage>(
    ids: &S::Column<u64>,
    length: usize,
    storage: &mut S,
) -> Result<SortedIds<S>, ScratchError> {
    let count = S::len(ids);
    let mut sorted = SortedIds::empty(count, storage);
    let mut run = Vec::with_capacity(length.min(count));
    for begin in (0..count).step_by(length) {
        run.clear();
        for at in begin..begin.saturating_add(length).min(count) {
            run.push((storage.get(ids, at)?, at as u32));
        }
        run.sort_unstable();
        for (id, place) in &run {
            sorted.push(*id, *place, storage)?;
        }
    }
    Ok(sorted)
}
