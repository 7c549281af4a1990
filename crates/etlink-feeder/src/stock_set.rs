//! Emulates the iteration order of a set of numbers in GCC's standard library.
//!
//! Chakra's feeder keeps nodes in `std::unordered_set<uint64_t>` and issues the first one. The
//! order follows from the implementation in libstdc++: one list of all elements, in which the
//! elements of a bucket are adjacent. See `bits/hashtable.h` of GCC 12 (`_M_insert_bucket_begin`,
//! `_M_rehash_aux`, `_M_erase`) and `_Prime_rehash_policy` of `src/c++11/hashtable_c++0x.cc`,
//! unchanged since GCC 4.9.

use crate::columns::{Column, ScratchError, Storage};

/// Bucket counts of sets that grow by one element at a time: each is the first prime in the
/// library's list that is at least twice the previous one.
const BUCKETS: [u64; 28] = [
    13,
    29,
    59,
    127,
    257,
    541,
    1_109,
    2_357,
    5_087,
    10_273,
    20_753,
    42_043,
    85_229,
    172_933,
    351_061,
    712_697,
    1_447_153,
    2_938_679,
    5_967_347,
    12_117_689,
    24_607_243,
    49_969_847,
    101_473_717,
    206_062_531,
    418_451_333,
    849_749_479,
    1_725_587_117,
    3_504_151_727,
];

/// Marks a missing node.
const NONE: u32 = u32::MAX;
/// Position before the first element of the list.
const BEFORE_FIRST: u32 = u32::MAX - 1;

/// Set of nodes' places (`u32`), in the order of a set of their ids, which are passed to each call.
///
/// A node's entry in the list is indexed by its place, and links to the previous element. So
/// nothing is searched: all calls take constant time, whatever the ids are.
#[derive(Debug, Default)]
pub(crate) struct StockSet {
    /// For each bucket: the element before its first one.
    buckets: Column<u32>,
    /// Index in `BUCKETS` of the next size.
    sizes_used: usize,
    first: Option<u32>,
    /// Next element, by place.
    next: Column<u32>,
    /// Previous element, by place; `NONE` if the place is not in the set.
    previous: Column<u32>,
    len: usize,
}

impl StockSet {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Empties the set, but keeps its allocations.
    pub(crate) fn clear(&mut self, storage: &mut Storage) -> Result<(), ScratchError> {
        while let Some(place) = self.first {
            self.first = self.after(place, storage)?;
            storage.set(&mut self.previous, place as usize, NONE)?;
        }
        storage.truncate(&mut self.buckets, 0);
        self.sizes_used = 0;
        self.len = 0;
        Ok(())
    }

    /// Frees the columns of the set.
    pub(crate) fn free(self, storage: &mut Storage) {
        storage.free(self.buckets);
        storage.free(self.next);
        storage.free(self.previous);
    }

    /// Returns the first element.
    pub(crate) fn first(&self) -> Option<u32> {
        self.first
    }

    /// Returns the element after another one.
    pub(crate) fn after(
        &self,
        place: u32,
        storage: &mut Storage,
    ) -> Result<Option<u32>, ScratchError> {
        let next = storage.get(&self.next, place as usize)?;
        Ok((next != NONE).then_some(next))
    }

    /// Adds an element, unless it is present.
    pub(crate) fn insert(
        &mut self,
        place: u32,
        ids: &Column<u64>,
        storage: &mut Storage,
    ) -> Result<(), ScratchError> {
        let slot = place as usize;
        storage.extend(&mut self.previous, slot + 1, NONE)?;
        storage.extend(&mut self.next, slot + 1, NONE)?;
        if storage.get(&self.previous, slot)? != NONE {
            return Ok(());
        }
        // at most one element per bucket, on average
        if self.len == self.buckets.len() {
            self.grow(ids, storage)?;
        }
        self.link(place, ids, storage)?;
        self.len += 1;
        Ok(())
    }

    /// Removes an element, if it is present.
    pub(crate) fn remove(
        &mut self,
        place: u32,
        ids: &Column<u64>,
        storage: &mut Storage,
    ) -> Result<(), ScratchError> {
        let slot = place as usize;
        if slot >= self.previous.len() {
            return Ok(());
        }
        let before = storage.get(&self.previous, slot)?;
        if before == NONE {
            return Ok(());
        }
        let next = storage.get(&self.next, slot)?;
        let bucket = self.bucket(place, ids, storage)?;
        let next_bucket = match next {
            NONE => None,
            next => Some(self.bucket(next, ids, storage)?),
        };
        let was_first_of_bucket = storage.get(&self.buckets, bucket)? == before;
        if next_bucket != Some(bucket) {
            if let Some(next_bucket) = next_bucket {
                storage.set(&mut self.buckets, next_bucket, before)?;
            }
            if was_first_of_bucket {
                storage.set(&mut self.buckets, bucket, NONE)?;
            }
        }
        self.set_after(before, next, storage)?;
        storage.set(&mut self.previous, slot, NONE)?;
        self.len -= 1;
        Ok(())
    }

    fn bucket(
        &self,
        place: u32,
        ids: &Column<u64>,
        storage: &mut Storage,
    ) -> Result<usize, ScratchError> {
        // a number is its own hash
        let id = storage.get(ids, place as usize)?;
        Ok((id % self.buckets.len() as u64) as usize)
    }

    /// Links `next` after `before`.
    fn set_after(
        &mut self,
        before: u32,
        next: u32,
        storage: &mut Storage,
    ) -> Result<(), ScratchError> {
        match before {
            BEFORE_FIRST => self.first = (next != NONE).then_some(next),
            before => storage.set(&mut self.next, before as usize, next)?,
        }
        if next != NONE {
            storage.set(&mut self.previous, next as usize, before)?;
        }
        Ok(())
    }

    /// Links an element at the start of its bucket; at the start of the list if the bucket is
    /// empty.
    fn link(
        &mut self,
        place: u32,
        ids: &Column<u64>,
        storage: &mut Storage,
    ) -> Result<(), ScratchError> {
        let bucket = self.bucket(place, ids, storage)?;
        let own = storage.get(&self.buckets, bucket)?;
        let before = match own {
            NONE => BEFORE_FIRST,
            before => before,
        };
        let second = match before {
            BEFORE_FIRST => self.first.unwrap_or(NONE),
            before => storage.get(&self.next, before as usize)?,
        };
        self.set_after(place, second, storage)?;
        self.set_after(before, place, storage)?;
        if own == NONE {
            if second != NONE {
                let bucket_of_second = self.bucket(second, ids, storage)?;
                storage.set(&mut self.buckets, bucket_of_second, place)?;
            }
            storage.set(&mut self.buckets, bucket, BEFORE_FIRST)?;
        }
        Ok(())
    }

    /// Grows the number of buckets; relinks all elements in their current order.
    fn grow(&mut self, ids: &Column<u64>, storage: &mut Storage) -> Result<(), ScratchError> {
        let size = BUCKETS[self.sizes_used.min(BUCKETS.len() - 1)];
        self.sizes_used += 1;
        storage.truncate(&mut self.buckets, 0);
        storage.extend(&mut self.buckets, size as usize, NONE)?;
        let mut place = self.first.take();
        while let Some(element) = place {
            place = self.after(element, storage)?;
            self.link(element, ids, storage)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Storage = Storage::MEMORY;

    /// A set in memory with its ids, so that no call fails.
    struct TestSet {
        set: StockSet,
        ids: Column<u64>,
    }

    impl TestSet {
        fn new(ids: impl Iterator<Item = u64>) -> TestSet {
            let mut set = TestSet {
                set: StockSet::default(),
                ids: Column::default(),
            };
            for id in ids {
                let pushed = { MEMORY }.push(&mut set.ids, id);
                pushed.expect("memory does not fail");
            }
            set
        }

        fn insert(&mut self, place: u32) {
            let inserted = self.set.insert(place, &self.ids, &mut { MEMORY });
            inserted.expect("memory does not fail");
        }

        fn remove(&mut self, place: u32) {
            let removed = self.set.remove(place, &self.ids, &mut { MEMORY });
            removed.expect("memory does not fail");
        }

        fn order(&self) -> Vec<u32> {
            let after = |place: &u32| self.set.after(*place, &mut { MEMORY });
            std::iter::successors(self.set.first(), |place| {
                after(place).expect("memory does not fail")
            })
            .collect()
        }
    }

    /// Expected order from `std::unordered_set<uint64_t>` of GCC 12, by a program that inserts and
    /// erases the same numbers.
    #[test]
    fn elements_come_in_the_order_of_the_library() {
        let mut set = TestSet::new(0..60);
        for place in 0..20 {
            set.insert(place);
        }
        let twenty = [
            19, 18, 17, 16, 15, 14, 13, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
        ];
        assert_eq!(set.order(), twenty);
        for place in [19, 0, 7] {
            set.remove(place);
        }
        set.insert(42);
        set.insert(7);
        let changed = [
            7, 18, 17, 16, 15, 14, 42, 13, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12,
        ];
        assert_eq!(set.order(), changed);
        assert_eq!(set.set.first(), Some(7));
        assert_eq!(set.set.len(), 19);
    }

    /// The same program with 200,000 numbers from xorshift; an FNV digest of every tenth order.
    #[test]
    fn it_stays_in_that_order_as_it_grows_and_shrinks() {
        let mut set = TestSet::new(0..60_000);
        let (mut drawn, mut digest) = (88_172_645_463_325_252_u64, 1_469_598_103_934_665_603_u64);
        for round in 0..200_000 {
            drawn ^= drawn << 13;
            drawn ^= drawn >> 7;
            drawn ^= drawn << 17;
            let place = ((drawn >> 20) % 60_000) as u32;
            if drawn & 3 != 0 {
                set.insert(place);
            } else {
                set.remove(place);
            }
            if round % 20_000 == 0 {
                for place in set.order() {
                    digest = (digest ^ u64::from(place)).wrapping_mul(1_099_511_628_211);
                }
            }
        }
        assert_eq!(
            (set.set.len(), digest),
            (43_512, 17_052_399_314_745_545_118)
        );
    }

    #[test]
    fn it_is_a_set() {
        let mut draw = fastrand::Rng::with_seed(3);
        let mut set = TestSet::new((0..400).map(|id| id * 29));
        let mut known = std::collections::BTreeSet::new();
        for _ in 0..5_000 {
            let place = draw.u32(0..400);
            if draw.bool() {
                set.insert(place);
                known.insert(place);
            } else {
                set.remove(place);
                known.remove(&place);
            }
            assert_eq!(set.set.len(), known.len());
        }
        let mut found = set.order();
        found.sort_unstable();
        assert_eq!(found, Vec::from_iter(known));
        set.set
            .clear(&mut { MEMORY })
            .expect("memory does not fail");
        assert_eq!((set.set.first(), set.set.len()), (None, 0));
    }
}
