//! Percentiles and worst values.

use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{DurationNs, NodeIdx};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of worst nodes listed.
pub(crate) const WORST: usize = 10;

/// A distribution in ns. Percentiles are values that occur (nearest rank).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentiles {
    /// Median.
    pub p50_ns: DurationNs,
    /// 90th percentile.
    pub p90_ns: DurationNs,
    /// 99th percentile.
    pub p99_ns: DurationNs,
    /// Largest value.
    pub max_ns: DurationNs,
}

impl Percentiles {
    /// Computes the percentiles of values in any order. O(n).
    pub(crate) fn from_values(mut values: Vec<DurationNs>) -> Percentiles {
        // Without values there are no percentiles; reports show 0.
        if values.is_empty() {
            return Percentiles::default();
        }
        Percentiles {
            p50_ns: percentile(&mut values, 50),
            p90_ns: percentile(&mut values, 90),
            p99_ns: percentile(&mut values, 99),
            max_ns: percentile(&mut values, 100),
        }
    }
}

/// Returns the smallest value that is not below `percent` percent of the values, which must not be
/// empty.
fn percentile(values: &mut [DurationNs], percent: usize) -> DurationNs {
    // Nearest rank, without interpolation: a percentile is a value that occurred.
    let rank = (values.len() * percent).div_ceil(100);
    let (_, value, _) = values.select_nth_unstable(rank - 1);
    *value
}

/// Returns the largest values; among equals, those with the lowest nodes. O(n log WORST).
pub(crate) fn worst_nodes(
    values: impl Iterator<Item = (DurationNs, NodeIdx)>,
) -> Vec<(DurationNs, NodeIdx)> {
    let mut heap = BinaryHeap::with_capacity(WORST + 1);
    for (value, node) in values {
        heap.push((Reverse(value), node));
        // The heap's greatest is the smallest value kept (`Reverse`), so it goes first.
        if heap.len() > WORST {
            heap.pop();
        }
    }
    heap.into_sorted_vec()
        .into_iter()
        .map(|(Reverse(value), node)| (value, node))
        .collect()
}

/// Returns `part` as a share of `whole`; 0 if `whole` is 0.
pub(crate) fn time_share(part: DurationNs, whole: DurationNs) -> f64 {
    if whole == DurationNs::ZERO {
        0.0
    } else {
        part.0 as f64 / whole.0 as f64
    }
}

/// Returns `part` as a share of `whole`; 0 if `whole` is 0.
pub(crate) fn count_share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occur() {
        let spread = Percentiles::from_values((1..=200).rev().map(DurationNs).collect());
        assert_eq!(
            spread,
            Percentiles {
                p50_ns: DurationNs(100),
                p90_ns: DurationNs(180),
                p99_ns: DurationNs(198),
                max_ns: DurationNs(200)
            }
        );
        assert_eq!(
            Percentiles::from_values(vec![DurationNs(7)]),
            Percentiles {
                p50_ns: DurationNs(7),
                p90_ns: DurationNs(7),
                p99_ns: DurationNs(7),
                max_ns: DurationNs(7)
            }
        );
        assert_eq!(Percentiles::from_values(vec![]), Percentiles::default());
    }

    #[test]
    fn the_worst_come_first() {
        let values = (0..100).map(|node| (DurationNs(i64::from(node % 50)), NodeIdx(node)));
        let worst = worst_nodes(values);
        let want = [(49, 49), (49, 99), (48, 48)];
        let want = want.map(|(value, node)| (DurationNs(value), NodeIdx(node)));
        assert_eq!(worst[..3], want);
        assert_eq!(worst.len(), WORST);
    }
}
