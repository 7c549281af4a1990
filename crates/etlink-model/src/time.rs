//! Instants and durations.

use std::ops::{Add, AddAssign, Sub};

/// An instant: nanoseconds since the origin of its device trace
/// (`baseTimeNanoseconds`, or the Unix epoch where a trace has none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeNs(pub i64);

/// A length of time in nanoseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DurationNs(pub i64);

impl TimeNs {
    /// The time from `other` to `self`, ns, negative when `other` is later. Like all times it ends
    /// at the largest number.
    pub fn since(self, other: TimeNs) -> i64 {
        self.0.saturating_sub(other.0)
    }
}

impl Add<DurationNs> for TimeNs {
    type Output = TimeNs;
    fn add(self, duration: DurationNs) -> TimeNs {
        // A damaged trace may hold any number. Times stop
        // at the last one instead of wrapping to the first.
        TimeNs(self.0.saturating_add(duration.0))
    }
}

impl Sub for TimeNs {
    type Output = DurationNs;
    /// The time from `earlier` to `self`; zero when `earlier` is not earlier.
    fn sub(self, earlier: TimeNs) -> DurationNs {
        DurationNs(self.0.saturating_sub(earlier.0).max(0))
    }
}

impl AddAssign for DurationNs {
    fn add_assign(&mut self, other: DurationNs) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl std::iter::Sum for DurationNs {
    fn sum<I: Iterator<Item = DurationNs>>(all: I) -> DurationNs {
        let mut total = DurationNs::default();
        all.for_each(|d| total += d);
        total
    }
}
