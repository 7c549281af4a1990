//! Numbers threads and queues in order of first use.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Number of latest entries searched before the map is consulted; most traces have no more.
const LATEST: usize = 8;

/// Index from a thread or queue to its place in a list.
#[derive(Debug)]
pub struct IndexByValue<T> {
    known: FxHashMap<T, usize>,
}

impl<T> Default for IndexByValue<T> {
    fn default() -> Self {
        IndexByValue {
            known: FxHashMap::default(),
        }
    }
}

impl<T: Copy + Eq + Hash> IndexByValue<T> {
    /// Returns the place of `wanted` in `all`, appending it if absent. `all` must have been filled
    /// by this method alone. O(1).
    pub fn place_of(&mut self, all: &mut Vec<T>, wanted: T) -> usize {
        // Events of one thread or stream are adjacent in the file, so the search begins at the end.
        let latest = all.len().saturating_sub(LATEST);
        if let Some(at) = all[latest..].iter().rposition(|known| *known == wanted) {
            return latest + at;
        }
        *self.known.entry(wanted).or_insert_with(|| {
            all.push(wanted);
            all.len() - 1
        })
    }

    /// Forgets all entries, to match a list that was cleared.
    pub fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_one_place() {
        let (mut places, mut all) = (IndexByValue::default(), vec![]);
        let found: Vec<usize> = (0..40)
            .chain([3, 39, 0])
            .map(|wanted| places.place_of(&mut all, wanted))
            .collect();
        assert_eq!(found[40..], [3, 39, 0]);
        assert_eq!(all, (0..40).collect::<Vec<_>>());
    }
}
