//! Evidence of single collectives about a clock.

use crate::ranks::Communication;
use etlink_model::UnixNs;

/// Change of an offset by a drift in this time, ns.
pub(super) fn moved(ppb: i64, ns: i64) -> i64 {
    let moved = i128::from(ppb) * i128::from(ns) / 1_000_000_000;
    moved.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// Evidence of one collective about the offset of the other rank's clock to the reference's. Times
/// use the other's clock, from the middle of its window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Start of the row on the other rank: the offset was then at most `upper`.
    pub(super) start: i64,
    /// End of the row: the offset was then at least `lower`.
    pub(super) end: i64,
    pub(super) lower: i64,
    pub(super) upper: i64,
    /// Difference of the ends.
    pub(super) ends: i64,
}

impl Point {
    pub(super) fn new(reference: &Communication, other: &Communication, at_ns: UnixNs) -> Point {
        let (reference, other) = (reference.span(), other.span());
        Point {
            start: other.0.since(at_ns),
            end: other.1.since(at_ns),
            lower: difference(reference.0, other.1),
            upper: difference(reference.1, other.0),
            ends: difference(reference.1, other.1),
        }
    }
}

/// Difference of two clocks that show these times at one instant, ns.
fn difference(reference: UnixNs, other: UnixNs) -> i64 {
    reference.since(other)
}

/// Returns the minimum and the maximum offset at time 0 that all collectives allow at this drift;
/// the minimum is greater if there is none.
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
