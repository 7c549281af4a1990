//! Instants and durations.
//!
//! A run has three clocks, each with a type of its own: a number of one is wrong by decades, or by
//! the offset between two machines, when it is read as another.
//!
//! ```text
//! TimeNs    + DeviceHeader::base_ns   -> UnixNs     what Kineto subtracts before it writes times
//! UnixNs    + offset of a rank's clock -> CommonNs   what a join of several ranks finds
//! ```

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

// Kineto writes Unix microseconds with a fraction. A float resolves those to a quarter of one, so
// that two kernels 100 ns apart would begin at once.
/// Declares a kind of instant, whose arithmetic stays within the kind.
macro_rules! instant {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, BorshSerialize, BorshDeserialize,
        )]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl $name {
            /// The time from `other` to `self`, ns, negative when `other` is later. Like all times
            /// it ends at the largest number.
            pub fn since(self, other: $name) -> i64 {
                self.0.saturating_sub(other.0)
            }

            /// The instant that is `ns` nanoseconds later, or earlier where `ns` is negative.
            pub fn shifted(self, ns: i64) -> $name {
                $name(self.0.saturating_add(ns))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Add<DurationNs> for $name {
            type Output = $name;
            fn add(self, duration: DurationNs) -> $name {
                // A damaged trace may hold any number. Times stop
                // at the last one instead of wrapping to the first.
                $name(self.0.saturating_add(duration.0))
            }
        }

        impl Sub for $name {
            type Output = DurationNs;
            /// The time from `earlier` to `self`; zero when `earlier` is not earlier.
            fn sub(self, earlier: $name) -> DurationNs {
                // Devices and hosts have clocks of their own: what these show in the wrong order
                // took no time.
                DurationNs(self.0.saturating_sub(earlier.0).max(0))
            }
        }
    };
}

instant! {
    /// Trace time: nanoseconds since the origin of its device trace
    /// (`baseTimeNanoseconds`, or the Unix epoch where a trace has none).
    TimeNs
}
instant! {
    /// Unix time: nanoseconds since the epoch by the clock of the machine that recorded it.
    /// Machines disagree by microseconds under PTP, by milliseconds under NTP.
    UnixNs
}
instant! {
    /// Common time: nanoseconds since the epoch by the clock of a run's first rank, to which the
    /// other ranks' times have been moved. Ranks can be compared by it.
    CommonNs
}

impl TimeNs {
    /// Whether it is less than 2^62 ns (146 years) from the origin. What two such times are apart is
    /// a number that there is: readers leave out what starts or ends elsewhere.
    pub fn is_in_range(self) -> bool {
        self.0.unsigned_abs() < 1 << 62
    }
}

/// A length of time in nanoseconds, never negative.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct DurationNs(pub i64);

impl DurationNs {
    /// No time.
    pub const ZERO: DurationNs = DurationNs(0);
}

impl fmt::Display for DurationNs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Add for DurationNs {
    type Output = DurationNs;
    fn add(self, other: DurationNs) -> DurationNs {
        // As of instants: the sum of damaged durations stops at the largest one.
        DurationNs(self.0.saturating_add(other.0))
    }
}

impl AddAssign for DurationNs {
    fn add_assign(&mut self, other: DurationNs) {
        *self = *self + other;
    }
}

impl std::iter::Sum for DurationNs {
    fn sum<I: Iterator<Item = DurationNs>>(all: I) -> DurationNs {
        // Not the sum of the numbers: one damaged duration would make that overflow.
        let mut total = DurationNs::default();
        all.for_each(|d| total += d);
        total
    }
}
