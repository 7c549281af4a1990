//! Numbers for threads and queues, in the order in which they come.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// So many of the latest are looked at before the map is: most traces have no more.
const LATEST: usize = 8;

/// Where each thread or queue of a list stands.
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
    /// The place of `wanted` in `all`, appended if it is not there. `all` has nothing that did not
    /// come so. O(1).
    pub fn place_of(&mut self, all: &mut Vec<T>, wanted: T) -> usize {
        // Events of one thread or stream stand together
        // in the file, so the search begins at the end.
        let latest = all.len().saturating_sub(LATEST);
        if let Some(at) = all[latest..].iter().rposition(|known| *known == wanted) {
            return latest + at;
        }
        *self.known.entry(wanted).or_insert_with(|| {
            all.push(wanted);
            all.len() - 1
        })
    }

    /// Forgets all, as the list was emptied.
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
