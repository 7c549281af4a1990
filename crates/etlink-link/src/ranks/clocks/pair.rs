//! One rank's clock against another's, from their common collectives.

use super::RankClock;
use super::drift::{self, moved};
use crate::ranks::Communication;

/// What one collective says of the offset of the other rank's clock against the reference's. Times are by the other's clock, from
/// the middle of its window on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// When the row began on the other rank; then the offset was no more than `upper`.
    pub(super) start: i64,
    /// When it ended; then the offset was no less than `lower`.
    pub(super) end: i64,
    pub(super) lower: i64,
    pub(super) upper: i64,
    /// The difference of the ends.
    pub(super) ends: i64,
}

impl Point {
    fn new(reference: &Communication, other: &Communication, at_ns: i64) -> Point {
        Point {
            start: other.start_ns.saturating_sub(at_ns),
            end: other.end_ns.saturating_sub(at_ns),
            lower: reference.start_ns.saturating_sub(other.end_ns),
            upper: reference.end_ns.saturating_sub(other.start_ns),
            ends: reference.end_ns.saturating_sub(other.end_ns),
        }
    }
}

/// The least and the greatest offset at time 0 that all collectives allow at this drift; the least is greater where there is none.
pub(super) fn bounds(points: &[Point], ppb: i64) -> (i64, i64) {
    points
        .iter()
        .fold((i64::MIN, i64::MAX), |(lower, upper), point| {
            (
                lower.max(point.lower.saturating_sub(moved(ppb, point.end))),
                upper.min(point.upper.saturating_sub(moved(ppb, point.start))),
            )
        })
}

/// The clock that fits the common collectives of two ranks; `at_ns` is the middle of the other's window.
pub(super) fn fit<'c>(
    sides: impl Iterator<Item = (&'c Communication, &'c Communication)>,
    at_ns: i64,
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
    let support = points.len() as u64;
    Some(RankClock {
        offset_ns,
        uncertainty_ns: Some(uncertainty),
        support,
        contradicted,
        drift,
        at_ns,
        ..RankClock::default()
    })
}
