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

/// No slot.
const NONE: u32 = u32::MAX;
/// What stands before the first element of the list.
const BEFORE_FIRST: u32 = u32::MAX - 1;

/// Places of nodes (`u32`), in the order of a set of their ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct StockSet {
    /// Of each bucket the slot before its first element.
    buckets: Vec<u32>,
    /// Index in `BUCKETS` of the next size.
    sizes_used: usize,
    /// The slot of the first element.
    first: u32,
    /// Of each slot the slot of the next element.
    next: Vec<u32>,
    /// Of each slot what it has.
    place: Vec<u32>,
    /// Of each slot the id, which is the hash.
    id: Vec<u64>,
    /// Slots whose elements were removed.
    unused: Vec<u32>,
    len: usize,
}

impl StockSet {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Empty, as newly made; what was allocated stays.
    pub(crate) fn clear(&mut self) {
        self.buckets.clear();
        self.sizes_used = 0;
        self.first = NONE;
        self.next.clear();
        self.place.clear();
        self.id.clear();
        self.unused.clear();
        self.len = 0;
    }

    /// The element that comes first.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.len > 0).then(|| self.place[self.first as usize])
    }

    /// All elements, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let mut slot = if self.len > 0 { self.first } else { NONE };
        std::iter::from_fn(move || {
            let place = *self.place.get(slot as usize)?;
            slot = self.next[slot as usize];
            Some(place)
        })
    }

    /// Adds an element, unless it is there.
    pub(crate) fn insert(&mut self, place: u32, id: u64) {
        if self.buckets.is_empty() {
            self.first = NONE;
            self.grow();
        }
        if self.slot_before(id).is_some() {
            return;
        }
        // at most one element a bucket, on average
        if self.len == self.buckets.len() {
            self.grow();
        }
        let slot = self.new_slot(place, id);
        let bucket = self.bucket(id);
        self.link(slot, bucket);
        self.len += 1;
    }

    /// Removes an element, if it is there.
    pub(crate) fn remove(&mut self, id: u64) {
        let Some(before) = self.slot_before(id) else {
            return;
        };
        let slot = self.after(before);
        let next = self.next[slot as usize];
        let bucket = self.bucket(id);
        let next_bucket = (next != NONE).then(|| self.bucket(self.id[next as usize]));
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
        self.unused.push(slot);
        self.len -= 1;
    }

    fn bucket(&self, id: u64) -> usize {
        // the hash of a number is the number
        (id % self.buckets.len() as u64) as usize
    }

    /// The slot before that of an element.
    fn slot_before(&self, id: u64) -> Option<u32> {
        if self.buckets.is_empty() {
            return None;
        }
        let bucket = self.bucket(id);
        let mut before = self.buckets[bucket];
        if before == NONE {
            return None;
        }
        loop {
            let slot = self.after(before);
            let found = *self.id.get(slot as usize)?;
            if found == id {
                return Some(before);
            }
            if self.bucket(found) != bucket {
                return None;
            }
            before = slot;
        }
    }

    fn after(&self, slot: u32) -> u32 {
        match slot {
            BEFORE_FIRST => self.first,
            slot => self.next[slot as usize],
        }
    }

    fn set_after(&mut self, slot: u32, next: u32) {
        match slot {
            BEFORE_FIRST => self.first = next,
            slot => self.next[slot as usize] = next,
        }
    }

    fn new_slot(&mut self, place: u32, id: u64) -> u32 {
        if let Some(slot) = self.unused.pop() {
            self.place[slot as usize] = place;
            self.id[slot as usize] = id;
            return slot;
        }
        self.place.push(place);
        self.id.push(id);
        self.next.push(NONE);
        (self.place.len() - 1) as u32
    }

    /// Puts an element at the beginning of its bucket, which is that of the list if it has none yet.
    fn link(&mut self, slot: u32, bucket: usize) {
        let before = self.buckets[bucket];
        if before != NONE {
            self.next[slot as usize] = self.after(before);
            self.set_after(before, slot);
            return;
        }
        let second = self.first;
        self.next[slot as usize] = second;
        self.first = slot;
        if second != NONE {
            let bucket_of_second = self.bucket(self.id[second as usize]);
            self.buckets[bucket_of_second] = slot;
        }
        self.buckets[bucket] = BEFORE_FIRST;
    }

    /// More buckets; all elements are linked anew, in the order in which they were.
    fn grow(&mut self) {
        let size = BUCKETS[self.sizes_used.min(BUCKETS.len() - 1)];
        self.sizes_used += 1;
        self.buckets.clear();
        self.buckets.resize(size as usize, NONE);
        let mut slot = std::mem::replace(&mut self.first, NONE);
        while slot != NONE {
            let next = self.next[slot as usize];
            let bucket = self.bucket(self.id[slot as usize]);
            self.link(slot, bucket);
            slot = next;
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
        let mut set = StockSet::default();
        for id in 0..20 {
            set.insert(id, u64::from(id));
        }
        let twenty = [
            19, 18, 17, 16, 15, 14, 13, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
        ];
        assert_eq!(order(&set), twenty);
        for id in [19, 0, 7] {
            set.remove(id);
        }
        set.insert(42, 42);
        set.insert(7, 7);
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
        let mut set = StockSet::default();
        let (mut drawn, mut digest) = (88_172_645_463_325_252_u64, 1_469_598_103_934_665_603_u64);
        for round in 0..200_000 {
            drawn ^= drawn << 13;
            drawn ^= drawn >> 7;
            drawn ^= drawn << 17;
            let id = (drawn >> 20) % 60_000;
            if drawn & 3 != 0 {
                set.insert(id as u32, id);
            } else {
                set.remove(id);
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
        let mut set = StockSet::default();
        let mut known = std::collections::BTreeSet::new();
        for _ in 0..5_000 {
            let id = draw.u32(0..400) * 29;
            if draw.bool() {
                set.insert(id, u64::from(id));
                known.insert(id);
            } else {
                set.remove(u64::from(id));
                known.remove(&id);
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
