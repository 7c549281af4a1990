//! Rounds nanoseconds to whole microseconds without losing time.
//!
//! Chakra durations are whole microseconds. Rounding each one separately would turn a stream of
//! short kernels into nothing. Here the error of a duration is carried over to the next one on the
//! same thread or queue, so the sum of any run of durations is correct to half a microsecond.

use etlink_model::{DurationNs, TrackIdx};

const NS_PER_US: i64 = 1000;

/// Rounding remainder so far, per thread or queue.
#[derive(Debug, Default)]
pub(crate) struct Rounding {
    carry_ns: Vec<i64>,
}

impl Rounding {
    /// Creates remainders for this many threads or queues; higher numbers share one more.
    pub(crate) fn new(resources: usize) -> Self {
        Rounding {
            carry_ns: vec![0; resources + 1],
        }
    }

    /// Rounds the next duration on a thread or queue to microseconds.
    pub(crate) fn micros(&mut self, track: TrackIdx, duration: DurationNs) -> u64 {
        let last = self.carry_ns.len() - 1;
        // A number beyond the table comes from damage; all of these share one remainder.
        let carry = &mut self.carry_ns[track.index().min(last)];
        let due = duration.0.max(0).saturating_add(*carry);
        let micros = due.saturating_add(NS_PER_US / 2).div_euclid(NS_PER_US);
        // The remainder is between -500 and 499 ns, and is added to the next duration.
        *carry = due - micros * NS_PER_US;
        u64::try_from(micros).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_sum_is_right_to_half_a_microsecond(
            all in prop::collection::vec((0u32..3, 0i64..5_000), 0..300)
        ) {
            let mut rounding = Rounding::new(3);
            let (mut ns, mut us) = ([0i64; 3], [0i64; 3]);
            for (track, duration) in all {
                let at = track as usize;
                ns[at] += duration;
                let micros = rounding.micros(TrackIdx(track), DurationNs(duration));
                us[at] += i64::try_from(micros).expect("fits");
                prop_assert!((us[at] * 1000 - ns[at]).abs() <= 500);
            }
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut rounding = Rounding::new(0);
        assert_eq!(
            rounding.micros(TrackIdx(7), DurationNs(i64::MAX)),
            9_223_372_036_854_775
        );
        assert_eq!(rounding.micros(TrackIdx::NONE, DurationNs(-5)), 1);
        assert_eq!(
            rounding.micros(TrackIdx(0), DurationNs(i64::MAX)),
            9_223_372_036_854_775
        );
    }
}
