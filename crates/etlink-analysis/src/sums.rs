//! Sums of records of several ranks.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use std::hash::Hash;

/// Sums the records of each key, in order of their first ones.
pub(crate) fn sum_by_key<'a, T: Clone, K: Eq + Hash>(
    all: impl Iterator<Item = &'a T>,
    key: fn(&'a T) -> K,
    add: fn(&mut T, &T),
) -> Vec<T> {
    let mut sums: IndexMap<K, T, FxBuildHasher> = IndexMap::default();
    for one in all {
        let sum = sums.entry(key(one)).and_modify(|sum| add(sum, one));
        sum.or_insert_with(|| one.clone());
    }
    sums.into_values().collect()
}
