//! Instants and durations.
//!
//! A run has three clocks, each with its own type. Mistaking one for another gives an error of
//! decades, or of the offset between two machines.
//!
//! ```text
//! TimeNs    + DeviceHeader::base_ns   -> UnixNs     what Kineto subtracts before it writes times
//! UnixNs    + offset of a rank's clock -> CommonNs   what a join of several ranks finds
//! ```

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

// Kineto writes Unix microseconds with a fraction. A float resolves these to a quarter of a
// microsecond, so two kernels 100 ns apart would appear to begin together.
/// Declares a kind of instant, whose arithmetic stays within the kind.
macro_rules! instant {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, BorshSerialize, BorshDeserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl $name {
            /// Returns the time from `other` to `self` in ns, negative if `other` is later.
            /// Saturates.
            pub fn since(self, other: $name) -> i64 {
                self.0.saturating_sub(other.0)
            }

            /// Returns the instant `ns` nanoseconds later, or earlier if `ns` is negative.
            /// Saturates.
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
                // A damaged trace may hold any number, so times saturate instead of wrapping.
                $name(self.0.saturating_add(duration.0))
            }
        }

        impl Sub for $name {
            type Output = DurationNs;
            /// Returns the time from `earlier` to `self`; zero if `earlier` is not earlier.
            fn sub(self, earlier: $name) -> DurationNs {
                // Devices and hosts have separate clocks: events in the wrong order count as
                // simultaneous.
                DurationNs(self.0.saturating_sub(earlier.0).max(0))
            }
        }
    };
}

instant! {
    /// Trace time: nanoseconds since the origin of its device trace (`baseTimeNanoseconds`, or the
    /// Unix epoch if the trace has none).
    TimeNs
}
instant! {
    /// Unix time: nanoseconds since the epoch, by the clock of the recording machine. Machines
    /// disagree by microseconds under PTP, by milliseconds under NTP.
    UnixNs
}
instant! {
    /// Common time: nanoseconds since the epoch by the clock of a run's first rank, to which the
    /// times of all other ranks are shifted. Comparable across ranks.
    CommonNs
}

impl TimeNs {
    /// Returns true if the instant is less than 2^62 ns (146 years) from the origin. Differences of
    /// such instants fit in 64 bits, so readers drop events outside the range.
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
    BorshSerialize,
    BorshDeserialize,
    Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct DurationNs(pub i64);

impl DurationNs {
    /// Duration of zero.
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
        // Saturates like instants, as durations may be damaged.
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
        // Not the sum of the numbers, which one damaged duration could overflow.
        let mut total = DurationNs::default();
        all.for_each(|d| total += d);
        total
    }
}
/// Returns a time in a suitable unit.
pub fn time_text(ns: i64) -> String {
    match ns.unsigned_abs() {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.3} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.3} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}
