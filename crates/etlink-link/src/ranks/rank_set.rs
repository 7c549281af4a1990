//! Sets of ranks that take little memory if the ranks are evenly spaced.

use borsh::{BorshDeserialize, BorshSerialize};
use std::iter::FusedIterator;

/// Global ranks, ascending and distinct.
///
/// Each of thousands of ranks knows the ranks of its groups, and a group of all ranks would be a
/// list of that length on each. Ranks of a group are mostly evenly spaced, and are stored as such.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
pub struct RankSet {
    /// Longest runs, in order: equal sets have equal runs.
    runs: Box<[EvenRun]>,
}

/// An arithmetic sequence: `start`, `start + stride`, …, with `count` entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
struct EvenRun {
    start: u64,
    /// Distance between ranks; 1 in a run of one rank.
    stride: u64,
    count: u64,
}

impl EvenRun {
    fn last(self) -> u64 {
        self.start + self.stride * (self.count - 1)
    }

    /// Appends a higher rank if it continues the run. Returns true if it was appended.
    fn extend(&mut self, rank: u64) -> bool {
        let stride = rank - self.last();
        let fits = self.count == 1 || stride == self.stride;
        if fits {
            self.stride = stride;
            self.count += 1;
        }
        fits
    }
}

impl RankSet {
    /// Number of ranks. O(runs).
    pub fn len(&self) -> usize {
        let ranks: u64 = self.runs.iter().map(|run| run.count).sum();
        ranks as usize
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Iterates over the ranks, ascending.
    pub fn iter(&self) -> impl FusedIterator<Item = u64> + Clone + '_ {
        self.runs
            .iter()
            .flat_map(|run| (0..run.count).map(move |place| run.start + run.stride * place))
    }
}

/// Collects ranks in any order, ignoring duplicates. O(ranks log ranks).
impl FromIterator<u64> for RankSet {
    fn from_iter<I: IntoIterator<Item = u64>>(ranks: I) -> RankSet {
        let mut ranks: Vec<u64> = ranks.into_iter().collect();
        ranks.sort_unstable();
        ranks.dedup();
        let mut runs: Vec<EvenRun> = vec![];
        for rank in ranks {
            if !runs.last_mut().is_some_and(|run| run.extend(rank)) {
                runs.push(EvenRun {
                    start: rank,
                    stride: 1,
                    count: 1,
                });
            }
        }
        RankSet { runs: runs.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn even_ranks_take_one_run() {
        for ranks in [
            Vec::from_iter(0..4096),
            vec![1, 5, 9],
            vec![7],
            vec![3, u64::MAX],
            vec![],
        ] {
            let set = RankSet::from_iter(ranks.clone());
            assert_eq!(set.runs.len(), usize::from(!ranks.is_empty()));
            assert_eq!(Vec::from_iter(set.iter()), ranks);
        }
    }

    proptest! {
        #[test]
        fn any_ranks_come_back(ranks in prop::collection::vec(0u64..40, 0..30)) {
            let set = RankSet::from_iter(ranks.iter().copied());
            let sorted = BTreeSet::from_iter(ranks.iter().copied());
            prop_assert_eq!(set.len(), sorted.len());
            prop_assert_eq!(BTreeSet::from_iter(set.iter()), sorted.clone());
            let again = RankSet::from_iter(sorted.into_iter().rev());
            prop_assert_eq!(set, again);
        }
    }
}
