//! A set of ranks (how many nodes have a lower id) whose lowest one is found at once.

use crate::storage::{ScratchError, Storage};

/// A bit for each rank, and above 64 words a bit each for those that have any: seven levels are
/// enough for all nodes that there can be.
#[derive(Debug)]
pub(crate) struct RankSet<S: Storage> {
    /// From the bits of the ranks to a single word.
    levels: Vec<S::Column<u64>>,
    len: usize,
}

impl<S: Storage> RankSet<S> {
    /// No rank, of `count` that there are.
    pub(crate) fn new(count: usize, storage: &mut S) -> Result<RankSet<S>, ScratchError> {
        let mut levels = vec![];
        let mut words = count;
        loop {
            words = words.div_ceil(64).max(1);
            let mut level = S::Column::default();
            storage.resize(&mut level, words, 0)?;
            levels.push(level);
            if words == 1 {
                return Ok(RankSet { levels, len: 0 });
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a rank, unless it is there.
    pub(crate) fn insert(&mut self, rank: usize, storage: &mut S) -> Result<(), ScratchError> {
        let mut at = rank;
        for (height, level) in self.levels.iter_mut().enumerate() {
            let word = storage.get(level, at / 64)?;
            let with = word | 1 << (at % 64);
            if height == 0 && with != word {
                self.len += 1;
            }
            storage.set(level, at / 64, with)?;
            // those above know of the others
            if word != 0 {
                break;
            }
            at /= 64;
        }
        Ok(())
    }

    /// Removes a rank, if it is there.
    pub(crate) fn remove(&mut self, rank: usize, storage: &mut S) -> Result<(), ScratchError> {
        let mut at = rank;
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

    /// The lowest rank.
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
            let set = RankSet::new(count, &mut Memory);
            let mut set = set.expect("memory does not fail");
            let mut known = BTreeSet::new();
            for _ in 0..3_000 {
                let rank = draw.usize(0..count);
                if draw.bool() {
                    set.insert(rank, &mut Memory).expect("memory does not fail");
                    known.insert(rank);
                } else {
                    let rank = known.first().copied().filter(|_| draw.bool());
                    let rank = rank.unwrap_or(draw.usize(0..count));
                    set.remove(rank, &mut Memory).expect("memory does not fail");
                    known.remove(&rank);
                }
                assert_eq!(set.len(), known.len());
                let first = set.first(&mut Memory).expect("memory does not fail");
                assert_eq!(first, known.first().copied());
            }
        }
    }
}
