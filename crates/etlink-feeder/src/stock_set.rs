//! The order in which a set of numbers of GCC's standard library gives its elements.
//!
//! Chakra's feeder keeps nodes in `std::unordered_set<uint64_t>` and issues the one that comes
//! first. So which one that is follows from how libstdc++ makes such a set: one list of all
//! elements, in which those of a bucket stand side by side. It is `bits/hashtable.h` of GCC 12
//! (`_M_insert_bucket_begin`, `_M_rehash_aux`, `_M_erase`) and `_Prime_rehash_policy` of
//! `src/c++11/hashtable_c++0x.cc`, the same since GCC 4.9.

/// Sizes of sets that grow by one element at a time: each is the first prime of the library's list
/// that is at least twice the one before.
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

/// No node.
const NONE: u32 = u32::MAX;
/// What stands before the first element of the list.
const BEFORE_FIRST: u32 = u32::MAX - 1;

/// Places of nodes (`u32`), in the order of a set of their ids, which each call is given.
///
/// A node has its place in the list by its own number, and knows the one before it. So nothing is
/// searched for: all calls take constant time, whatever the ids are.
#[derive(Clone, Debug, Default)]
pub(crate) struct StockSet {
    /// Of each bucket the element before its first one.
    buckets: Vec<u32>,
    /// Index in `BUCKETS` of the next size.
    sizes_used: usize,
    first: Option<u32>,
    /// By place the next element.
    next: Vec<u32>,
    /// By place the element before; `NONE` of one that is not in the set.
    previous: Vec<u32>,
    len: usize,
}

impl StockSet {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Empty, as newly made; what was allocated stays.
    pub(crate) fn clear(&mut self) {
        while let Some(place) = self.first {
            self.set_first(self.next[place as usize]);
            self.previous[place as usize] = NONE;
        }
        self.buckets.clear();
        self.sizes_used = 0;
        self.len = 0;
    }

    /// The element that comes first.
    pub(crate) fn first(&self) -> Option<u32> {
        self.first
    }

    /// All elements, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        std::iter::successors(self.first, |place| {
            Some(self.next[*place as usize]).filter(|next| *next != NONE)
        })
    }

    /// Adds an element, unless it is there.
    pub(crate) fn insert(&mut self, place: u32, ids: &[u64]) {
        let slot = place as usize;
        if self.previous.len() <= slot {
            self.previous.resize(slot + 1, NONE);
            self.next.resize(slot + 1, NONE);
        }
        if self.previous[slot] != NONE {
            return;
        }
        // at most one element a bucket, on average
        if self.len == self.buckets.len() {
            self.grow(ids);
        }
        self.link(place, ids);
        self.len += 1;
    }

    /// Removes an element, if it is there.
    pub(crate) fn remove(&mut self, place: u32, ids: &[u64]) {
        let slot = place as usize;
        let before = match self.previous.get(slot) {
            Some(before) if *before != NONE => *before,
            _ => return,
        };
        let next = self.next[slot];
        let bucket = self.bucket(place, ids);
        let next_bucket = (next != NONE).then(|| self.bucket(next, ids));
        let was_first_of_bucket = self.buckets[bucket] == before;
        if next_bucket != Some(bucket) {
            if let Some(next_bucket) = next_bucket {
                self.buckets[next_bucket] = before;
            }
            if was_first_of_bucket {
                self.buckets[bucket] = NONE;
            }
        }
        self.set_after(before, next);
        self.previous[slot] = NONE;
        self.len -= 1;
    }

    fn bucket(&self, place: u32, ids: &[u64]) -> usize {
        // the hash of a number is the number
        (ids[place as usize] % self.buckets.len() as u64) as usize
    }

    fn set_first(&mut self, place: u32) {
        self.first = (place != NONE).then_some(place);
    }

    /// `next` comes behind `before`.
    fn set_after(&mut self, before: u32, next: u32) {
        match before {
            BEFORE_FIRST => self.set_first(next),
            before => self.next[before as usize] = next,
        }
        if next != NONE {
            self.previous[next as usize] = before;
        }
    }

    /// Puts an element at the beginning of its bucket, which is that of the list if it has none yet.
    fn link(&mut self, place: u32, ids: &[u64]) {
        let bucket = self.bucket(place, ids);
        let before = match self.buckets[bucket] {
            NONE => BEFORE_FIRST,
            before => before,
        };
        let second = match before {
            BEFORE_FIRST => self.first.unwrap_or(NONE),
            before => self.next[before as usize],
        };
        self.set_after(place, second);
        self.set_after(before, place);
        if self.buckets[bucket] == NONE {
            if second != NONE {
                let bucket_of_second = self.bucket(second, ids);
                self.buckets[bucket_of_second] = place;
            }
            self.buckets[bucket] = BEFORE_FIRST;
        }
    }

    /// More buckets; all elements are linked anew, in the order in which they were.
    fn grow(&mut self, ids: &[u64]) {
        let size = BUCKETS[self.sizes_used.min(BUCKETS.len() - 1)];
        self.sizes_used += 1;
        self.buckets.clear();
        self.buckets.resize(size as usize, NONE);
        let mut place = self.first.take();
        while let Some(element) = place {
            place = Some(self.next[element as usize]).filter(|next| *next != NONE);
            self.link(element, ids);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(set: &StockSet) -> Vec<u32> {
        set.iter().collect()
    }

    /// What `std::unordered_set<uint64_t>` of GCC 12 gives, by a program that inserts and erases the
    /// same numbers.
    #[test]
    fn elements_come_in_the_order_of_the_library() {
        let ids = Vec::from_iter(0..60);
        let mut set = StockSet::default();
        for place in 0..20 {
            set.insert(place, &ids);
        }
        let twenty = [
            19, 18, 17, 16, 15, 14, 13, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
        ];
        assert_eq!(order(&set), twenty);
        for place in [19, 0, 7] {
            set.remove(place, &ids);
        }
        set.insert(42, &ids);
        set.insert(7, &ids);
        let changed = [
            7, 18, 17, 16, 15, 14, 42, 13, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12,
        ];
        assert_eq!(order(&set), changed);
        assert_eq!(set.first(), Some(7));
        assert_eq!(set.len(), 19);
    }

    /// The same program, with 200,000 numbers that xorshift draws; an FNV digest of each tenth order.
    #[test]
    fn it_stays_in_that_order_as_it_grows_and_shrinks() {
        let ids = Vec::from_iter(0..60_000);
        let mut set = StockSet::default();
        let (mut drawn, mut digest) = (88_172_645_463_325_252_u64, 1_469_598_103_934_665_603_u64);
        for round in 0..200_000 {
            drawn ^= drawn << 13;
            drawn ^= drawn >> 7;
            drawn ^= drawn << 17;
            let place = ((drawn >> 20) % 60_000) as u32;
            if drawn & 3 != 0 {
                set.insert(place, &ids);
            } else {
                set.remove(place, &ids);
            }
            if round % 20_000 == 0 {
                for place in set.iter() {
                    digest = (digest ^ u64::from(place)).wrapping_mul(1_099_511_628_211);
                }
            }
        }
        assert_eq!((set.len(), digest), (43_512, 17_052_399_314_745_545_118));
    }

    #[test]
    fn it_is_a_set() {
        let mut draw = fastrand::Rng::with_seed(3);
        let ids = Vec::from_iter((0..400).map(|id| id * 29));
        let mut set = StockSet::default();
        let mut known = std::collections::BTreeSet::new();
        for _ in 0..5_000 {
            let place = draw.u32(0..400);
            if draw.bool() {
                set.insert(place, &ids);
                known.insert(place);
            } else {
                set.remove(place, &ids);
                known.remove(&place);
            }
            assert_eq!(set.len(), known.len());
        }
        let mut found = order(&set);
        found.sort_unstable();
        assert_eq!(found, Vec::from_iter(known));
        set.clear();
        assert_eq!((set.first(), set.len()), (None, 0));
    }
}
