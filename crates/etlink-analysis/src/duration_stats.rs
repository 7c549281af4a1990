//! Count, sum, extremes and spread of durations, exact and in any order.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Serialize, Serializer};
#[cfg(feature = "schema")]
use std::borrow::Cow;

/// Statistics of a set of durations. Merging is exact, so results do not depend on the order of
/// ranks or threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct DurationStats {
    /// Number of durations.
    pub count: u64,
    /// Sum, ns.
    pub sum_ns: i64,
    /// Shortest duration, ns; 0 if there are none.
    pub min_ns: i64,
    /// Longest duration, ns; 0 if there are none.
    pub max_ns: i64,
    /// Part of the sum that the mean and the deviation leave out, ns.
    pub left_out_ns: i64,
    /// Sum of squares, ns².
    squares: u128,
}

impl DurationStats {
    /// Adds one duration.
    pub fn add(&mut self, ns: i64) {
        let square = u128::from(ns.unsigned_abs()).pow(2);
        self.merge(&DurationStats {
            count: 1,
            sum_ns: ns,
            min_ns: ns,
            max_ns: ns,
            left_out_ns: 0,
            squares: square,
        });
    }

    /// Leaves a part of one of the durations out of the mean and the deviation.
    pub fn leave_out(&mut self, duration_ns: i64, part_ns: i64) {
        let part_ns = part_ns.clamp(0, duration_ns.max(0));
        let square = |ns: i64| u128::from(ns.unsigned_abs()).pow(2);
        let less = square(duration_ns) - square(duration_ns - part_ns);
        self.squares = self.squares.saturating_sub(less);
        self.left_out_ns = self.left_out_ns.saturating_add(part_ns);
    }

    /// Adds all durations of `other`.
    pub fn merge(&mut self, other: &DurationStats) {
        if other.count == 0 {
            return;
        }
        (self.min_ns, self.max_ns) = match self.count {
            0 => (other.min_ns, other.max_ns),
            _ => (self.min_ns.min(other.min_ns), self.max_ns.max(other.max_ns)),
        };
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.left_out_ns = self.left_out_ns.saturating_add(other.left_out_ns);
        self.squares = self.squares.saturating_add(other.squares);
    }

    /// Mean duration, ns; 0 if there are none.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            (self.sum_ns - self.left_out_ns) as f64 / self.count as f64
        }
    }

    /// Standard deviation of the sample (divided by count - 1), ns; `None` for fewer than two
    /// durations.
    pub fn stddev_ns(&self) -> Option<f64> {
        // Integer sums are exact; a mean updated step by step would depend on the order.
        let (n, sum) = (
            u128::from(self.count),
            u128::from((self.sum_ns - self.left_out_ns).unsigned_abs()),
        );
        // n·Σx² - (Σx)², exactly
        let spread = n
            .checked_mul(self.squares)?
            .checked_sub(sum.checked_mul(sum)?)?;
        (n > 1).then(|| (spread as f64 / (n as f64 * (n as f64 - 1.0))).sqrt())
    }
}

/// Statistics as printed.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct DurationRecord {
    /// Number of durations.
    count: u64,
    /// Sum, ns.
    sum_ns: i64,
    /// Mean, ns.
    mean_ns: f64,
    /// Shortest, ns.
    min_ns: i64,
    /// Longest, ns.
    max_ns: i64,
    /// Standard deviation, ns; null for fewer than two durations.
    stddev_ns: Option<f64>,
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for DurationStats {
    fn schema_name() -> Cow<'static, str> {
        "DurationStats".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        DurationRecord::json_schema(generator)
    }
}

impl Serialize for DurationStats {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let record = DurationRecord {
            count: self.count,
            sum_ns: self.sum_ns,
            mean_ns: self.mean_ns(),
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            stddev_ns: self.stddev_ns(),
        };
        record.serialize(to)
    }
}

/// Returns the median; for an even number of values, the mean of the two in the middle; 0 if there
/// are none. O(n log n).
pub fn median_ns(values: &mut [i64]) -> i64 {
    values.sort_unstable();
    let upper = values.get(values.len() / 2).copied().unwrap_or(0);
    if values.len() % 2 == 1 || values.is_empty() {
        return upper;
    }
    i64::midpoint(values[values.len() / 2 - 1], upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_the_whole() {
        let of = |values: &[i64]| {
            let mut all = DurationStats::default();
            values.iter().for_each(|value| all.add(*value));
            all
        };
        let (mut left, right) = (of(&[2, 4, 4]), of(&[4, 5, 5, 7, 9]));
        left.merge(&right);
        left.merge(&DurationStats::default());
        assert_eq!(left, of(&[2, 4, 4, 4, 5, 5, 7, 9]));
        assert_eq!(
            (
                left.count,
                left.sum_ns,
                left.min_ns,
                left.max_ns,
                left.mean_ns()
            ),
            (8, 40, 2, 9, 5.0)
        );
        let stddev = left.stddev_ns().expect("of eight");
        assert!((stddev - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(of(&[3]).stddev_ns(), None);
    }
}
