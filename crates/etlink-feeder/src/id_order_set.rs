//! A set of positions (numbers of nodes with a lower id) that finds the lowest one at once.

use crate::storage::{ScratchError, Storage};

/// Hierarchical bit set: a bit per position, and above each 64 words one word with a bit per
/// nonzero word. Seven levels suffice for any number of nodes.
#[derive(Debug)]
pub(crate) struct IdOrderSet<S: Storage> {
    /// Levels from the bits of the positions up to a single word.
    levels: Vec<S::Column<u64>>,
    len: usize,
}

impl<S: Storage> IdOrderSet<S> {
    /// Creates an empty set for `count` positions.
    pub(crate) fn new(count: usize, storage: &mut S) -> Result<IdOrderSet<S>, ScratchError> {
        let mut levels = vec![];
        let mut words = count;
        loop {
            words = words.div_ceil(64).max(1);
            let mut level = S::Column::default();
            storage.resize(&mut level, words, 0)?;
            levels.push(level);
            if words == 1 {
                return Ok(IdOrderSet { levels, len: 0 });
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a position, unless it is present.
    pub(crate) fn insert(&mut self, position: usize, storage: &mut S) -> Result<(), ScratchError> {
        let mut at = position;
        for (height, level) in self.levels.iter_mut().enumerate() {
            let word = storage.get(level, at / 64)?;
            let with = word | 1 << (at % 64);
            if height == 0 && with != word {
                self.len += 1;
            }
            storage.set(level, at / 64, with)?;
            // the levels above already have their bits
            if word != 0 {
                break;
            }
            at /= 64;
        }
        Ok(())
    }

    /// Removes a position, if it is present.
    pub(crate) fn remove(&mut self, position: usize, storage: &mut S) -> Result<(), ScratchError> {
        let mut at = position;
        for (height, level) in self.levels.iter_mut().enumerate() {
            let word = storage.get(level, at / 64)?;
            let without = word & !(1 << (at % 64));
            if height == 0 {
                if without == word {
                    break;
                }
                self.len -= 1;
            }
            storage.set(level, at / 64, without)?;
            if without != 0 {
                break;
            }
            at /= 64;
        }
        Ok(())
    }

    /// Returns the lowest position; `None` if the set is empty.
    pub(crate) fn first(&self, storage: &mut S) -> Result<Option<usize>, ScratchError> {
        if self.len == 0 {
            return Ok(None);
        }
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let word = storage.get(level, at)?;
            at = at * 64 + word.trailing_zeros() as usize;
        }
        Ok(Some(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Memory;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_set_whose_lowest_is_known() {
        let mut draw = fastrand::Rng::with_seed(7);
        for count in [1, 64, 65, 4_096, 300_000] {
            let set = IdOrderSet::new(count, &mut Memory);
            let mut set = set.expect("memory does not fail");
            let mut known = BTreeSet::new();
            for _ in 0..3_000 {
                let position = draw.usize(0..count);
                if draw.bool() {
                    set.insert(position, &mut Memory)
                        .expect("memory does not fail");
                    known.insert(position);
                } else {
                    let position = if draw.bool() {
                        known.first().copied()
                    } else {
                        None
                    };
                    let position = position.unwrap_or(draw.usize(0..count));
                    set.remove(position, &mut Memory)
                        .expect("memory does not fail");
                    known.remove(&position);
                }
                assert_eq!(set.len(), known.len());
                let first = set.first(&mut Memory).expect("memory does not fail");
                assert_eq!(first, known.first().copied());
            }
        }
    }
}
