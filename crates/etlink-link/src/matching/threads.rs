//! Pairs threads of the host trace with threads of the device trace, by the names that both run.
//!
//! Threads with most names in common are paired first. Threads that run the same ops are
//! distinguished by their order of first use, which both traces have.
//!
//! Common names are counted for each pair if that takes at most [`MAX_PAIRING_STEPS`]: T threads
//! make T² pairs. Beyond that, threads that run exactly the same names are paired in order, and of
//! the rest only threads that share one of their rarest names are compared. That takes O(ops log
//! ops).

use crate::limits::MAX_PAIRING_STEPS;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Number of a thread's rarest names that are looked up, and number of threads compared per name.
const RAREST: usize = 4;
const CANDIDATES: usize = 16;

/// Distinct names of a thread with their number of uses, sorted by name.
type NameCounts = Vec<(u32, u32)>;

/// A host thread and a device thread, by index, with the number of names in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadPair {
    common: u64,
    host: usize,
    device: usize,
}

/// Pairs threads one to one. `host` and `device` list the names that each thread runs, with threads
/// in order of first use. Pairs with most names in common come first.
pub(crate) fn pair_threads(host: &[Vec<u32>], device: &[Vec<u32>]) -> Vec<(usize, usize)> {
    let host: Vec<NameCounts> = host.iter().map(|names| name_counts(names)).collect();
    let device: Vec<NameCounts> = device.iter().map(|names| name_counts(names)).collect();
    pair_counts(&host, &device, MAX_PAIRING_STEPS)
}

fn pair_counts(
    host: &[NameCounts],
    device: &[NameCounts],
    most_steps: usize,
) -> Vec<(usize, usize)> {
    let host_names: usize = host.iter().map(Vec::len).sum();
    let device_names: usize = device.iter().map(Vec::len).sum();
    // cost of merging every list with every other
    let steps = host_names * device.len() + device_names * host.len();
    let mut pairing = Pairing {
        host_free: vec![true; host.len()],
        device_free: vec![true; device.len()],
        pairs: vec![],
    };
    // A trace can have thousands of short-lived threads, and their pairs grow with the square.
    if steps <= most_steps {
        pairing.take(all_candidates(host, device));
    } else {
        pairing.take(equal_threads(host, device));
        pairing.take(rare_candidates(host, device, &pairing));
    }
    let mut pairs = pairing.pairs;
    pairs.sort_unstable_by_key(|pair| (Reverse(pair.common), pair.host, pair.device));
    pairs.iter().map(|pair| (pair.host, pair.device)).collect()
}

/// Threads that are paired, and threads that are still free.
struct Pairing {
    host_free: Vec<bool>,
    device_free: Vec<bool>,
    pairs: Vec<ThreadPair>,
}

impl Pairing {
    /// Pairs free threads, taking candidates with most names in common first.
    fn take(&mut self, mut candidates: Vec<ThreadPair>) {
        candidates.sort_unstable_by_key(|one| (Reverse(one.common), one.host, one.device));
        for candidate in candidates {
            let ThreadPair { host, device, .. } = candidate;
            if self.host_free[host] && self.device_free[device] {
                (self.host_free[host], self.device_free[device]) = (false, false);
                self.pairs.push(candidate);
            }
        }
    }
}

/// Returns all pairs with a name in common. O(threads · names).
fn all_candidates(host: &[NameCounts], device: &[NameCounts]) -> Vec<ThreadPair> {
    let mut candidates = vec![];
    for (at_host, names) in host.iter().enumerate() {
        for (at_device, others) in device.iter().enumerate() {
            candidates.extend(candidate(names, others, at_host, at_device));
        }
    }
    candidates
}

fn candidate(
    names: &NameCounts,
    others: &NameCounts,
    host: usize,
    device: usize,
) -> Option<ThreadPair> {
    let common = common(names, others);
    (common > 0).then_some(ThreadPair {
        common,
        host,
        device,
    })
}

/// Pairs threads that run exactly the same names, in order. No other thread can have more in
/// common.
fn equal_threads(host: &[NameCounts], device: &[NameCounts]) -> Vec<ThreadPair> {
    let mut by_names: FxHashMap<&NameCounts, Vec<usize>> = FxHashMap::default();
    // Backwards, so that `pop` returns the first thread first.
    for (at, names) in device.iter().enumerate().rev() {
        by_names.entry(names).or_default().push(at);
    }
    let mut equal = vec![];
    for (at, names) in host.iter().enumerate() {
        if let Some(other) = by_names.get_mut(names).and_then(Vec::pop) {
            equal.extend(candidate(names, &device[other], at, other));
        }
    }
    equal
}

/// Returns pairs of free threads that share a rare name.
fn rare_candidates(
    host: &[NameCounts],
    device: &[NameCounts],
    pairing: &Pairing,
) -> Vec<ThreadPair> {
    let mut having: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
    for (at, names) in device.iter().enumerate() {
        if pairing.device_free[at] {
            for (name, _) in names {
                having.entry(*name).or_default().push(at);
            }
        }
    }
    let free = (0..host.len()).filter(|at| pairing.host_free[*at]);
    let mut candidates = vec![];
    for (turn, at) in free.enumerate() {
        let mut rarest: Vec<(usize, u32)> = vec![];
        for (name, _) in &host[at] {
            if let Some(threads) = having.get(name) {
                rarest.push((threads.len(), *name));
            }
        }
        // A name that few threads run identifies a thread best.
        rarest.sort_unstable();
        rarest.truncate(RAREST);
        let mut tried: Vec<usize> = vec![];
        for (count, name) in rarest {
            // for a name of many threads, those at a similar position in the order of first use
            let from = turn.min(count.saturating_sub(CANDIDATES));
            tried.extend(having[&name].iter().skip(from).take(CANDIDATES));
        }
        tried.sort_unstable();
        tried.dedup();
        for other in tried {
            candidates.extend(candidate(&host[at], &device[other], at, other));
        }
    }
    candidates
}

fn name_counts(names: &[u32]) -> NameCounts {
    let mut names = names.to_vec();
    names.sort_unstable();
    let equal = names.chunk_by(|a, b| a == b);
    equal.map(|names| (names[0], names.len() as u32)).collect()
}

/// Counts the names that two threads share, including repetitions.
fn common(names: &NameCounts, others: &NameCounts) -> u64 {
    let (mut at, mut at_other, mut count) = (0, 0, 0);
    while let (Some((name, times)), Some((other, other_times))) =
        (names.get(at), others.get(at_other))
    {
        if name == other {
            count += u64::from(*times.min(other_times));
        }
        at += usize::from(name <= other);
        at_other += usize::from(other <= name);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(threads: &[&[u32]]) -> Vec<NameCounts> {
        threads.iter().map(|names| name_counts(names)).collect()
    }

    #[test]
    fn most_in_common_first_then_the_order_of_first_use() {
        let host = counts(&[&[1, 2, 2, 3], &[7, 7], &[7, 7], &[9]]);
        let device = counts(&[&[7, 7], &[1, 2, 2, 4], &[7, 7]]);
        for most_steps in [usize::MAX, 0] {
            let pairs = pair_counts(&host, &device, most_steps);
            assert_eq!(pairs, [(0, 1), (1, 0), (2, 2)], "{most_steps} steps");
        }
    }

    proptest! {
        /// Threads that have lost some of their names are still found, without comparing all with
        /// all.
        #[test]
        fn few_candidates_find_what_all_find(
            seeds in prop::collection::vec(0u32..1000, 1..40),
            lost in 0usize..3,
        ) {
            let threads: Vec<Vec<u32>> = seeds
                .iter()
                .zip(0u32..)
                .map(|(seed, at)| {
                    (0..20)
                        .map(|op| (seed + op) % 30)
                        .chain([1000 + at])
                        .collect()
                })
                .collect();
            let host: Vec<NameCounts> = threads.iter().map(|names| name_counts(names)).collect();
            let cut = threads.iter().map(|names| name_counts(&names[lost..]));
            let device: Vec<NameCounts> = cut.collect();
            let mut pairs = pair_counts(&host, &device, 0);
            pairs.sort_unstable();
            let own: Vec<(usize, usize)> = (0..threads.len()).map(|at| (at, at)).collect();
            prop_assert_eq!(pairs, own);
        }
    }
}
