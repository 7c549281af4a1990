//! Percentiles and the worst of many.

use etlink_model::NodeIdx;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How many of the worst are named.
pub(crate) const WORST: usize = 10;

/// A distribution, ns. Percentiles are values that occur: the smallest that so many are not above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Half are not above.
    pub p50_ns: i64,
    /// Nine of ten are not above.
    pub p90_ns: i64,
    /// 99 of 100 are not above.
    pub p99_ns: i64,
    /// Largest.
    pub max_ns: i64,
}

impl Percentiles {
    /// Of these values, in any order. O(n).
    pub(crate) fn from_values(mut values: Vec<i64>) -> Percentiles {
        let mut at = |percent: usize| {
            // Nearest rank, without interpolation: a percentile is a value that occurred.
            let rank = (values.len() * percent).div_ceil(100).saturating_sub(1);
            if values.is_empty() {
                0
            } else {
                *values.select_nth_unstable(rank).1
            }
        };
        Percentiles {
            p50_ns: at(50),
            p90_ns: at(90),
            p99_ns: at(99),
            max_ns: at(100),
        }
    }
}

/// The largest, of equal ones those of the lowest nodes. O(n log WORST).
pub(crate) fn worst(values: impl Iterator<Item = (i64, NodeIdx)>) -> Vec<(i64, NodeIdx)> {
    let mut heap = BinaryHeap::with_capacity(WORST + 1);
    for (value, node) in values {
        heap.push((Reverse(value), node));
        // The heap's greatest is the least value kept (`Reverse`), so it goes first.
        if heap.len() > WORST {
            heap.pop();
        }
    }
    heap.into_sorted_vec()
        .into_iter()
        .map(|(Reverse(value), node)| (value, node))
        .collect()
}

/// `part` of `whole`; 0 of nothing.
pub(crate) fn share(part: i64, whole: i64) -> f64 {
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
        let spread = Percentiles::from_values((1..=200).rev().collect());
        assert_eq!(
            spread,
            Percentiles {
                p50_ns: 100,
                p90_ns: 180,
                p99_ns: 198,
                max_ns: 200
            }
        );
        assert_eq!(
            Percentiles::from_values(vec![7]),
            Percentiles {
                p50_ns: 7,
                p90_ns: 7,
                p99_ns: 7,
                max_ns: 7
            }
        );
        assert_eq!(Percentiles::from_values(vec![]), Percentiles::default());
    }

    #[test]
    fn the_worst_come_first() {
        let worst = worst((0..100).map(|node| (i64::from(node % 50), NodeIdx(node))));
        let want = [(49, 49), (49, 99), (48, 48)].map(|(value, node)| (value, NodeIdx(node)));
        assert_eq!(worst[..3], want);
        assert_eq!(worst.len(), WORST);
    }
}
