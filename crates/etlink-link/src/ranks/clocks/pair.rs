//! Clock of one rank relative to another's, from their common collectives.

use super::RankClock;
use super::drift;
use super::points::{Point, bounds, moved};
use crate::ranks::Communication;
use etlink_model::UnixNs;

/// Fits a clock to the common collectives of two ranks; `at_ns` is the middle of the other's
/// window.
pub(super) fn fit<'c>(
    sides: impl Iterator<Item = (&'c Communication, &'c Communication)>,
    at_ns: UnixNs,
) -> Option<RankClock> {
    let mut points: Vec<Point> = sides
        .map(|(reference, other)| Point::new(reference, other, at_ns))
        .collect();
    points.sort_by_key(|point| (point.end, point.start));
    if points.is_empty() {
        return None;
    }
    let drift = drift::of(&points);
    let ppb = drift
        .filter(|drift| drift.applied)
        .map_or(0, |drift| drift.ppb);
    let (lower, upper) = bounds(&points, ppb);
    let mut ends: Vec<i64> = points
        .iter()
        .map(|point| point.ends.saturating_sub(moved(ppb, point.end)))
        .collect();
    let middle = ends.len() / 2;
    // A collective ends at nearly the same instant on all ranks, but a descheduled rank sees it
    // late: a median tolerates that.
    let median = *ends.select_nth_unstable(middle).1;
    let contradicted = lower > upper;
    let offset_ns = if contradicted {
        median
    } else {
        median.clamp(lower, upper)
    };
    let uncertainty = if contradicted {
        lower.saturating_sub(upper)
    } else {
        offset_ns
            .saturating_sub(lower)
            .max(upper.saturating_sub(offset_ns))
    };
    let may_be_one = lower <= 0 && upper >= 0;
    let likely_error = if contradicted {
        uncertainty
    } else {
        let apart = if may_be_one { offset_ns } else { 0 };
        let spread = spread(&mut ends, offset_ns);
        spread
            .saturating_add(apart.saturating_abs())
            .min(uncertainty)
    };
    let support = points.len() as u64;
    Some(RankClock {
        offset_ns,
        uncertainty_ns: Some(uncertainty),
        likely_error_ns: likely_error,
        support,
        contradicted,
        drift,
        at_ns,
        ..RankClock::default()
    })
}

/// Returns the median distance of values from `middle`.
fn spread(values: &mut [i64], middle: i64) -> i64 {
    for value in values.iter_mut() {
        *value = value.saturating_sub(middle).saturating_abs();
    }
    let half = values.len() / 2;
    *values.select_nth_unstable(half).1
}
