//! What single collectives say of a clock.

use crate::ranks::Communication;
use etlink_model::UnixNs;

/// By how much a drift moves an offset in this time.
pub(super) fn moved(ppb: i64, ns: i64) -> i64 {
    let moved = i128::from(ppb) * i128::from(ns) / 1_000_000_000;
    moved.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// What one collective says of the offset of the other rank's clock against the reference's. Times
/// are by the other's clock, from the middle of its window on.
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

/// By how much two clocks differ if they show these times at one instant, ns.
fn difference(reference: UnixNs, other: UnixNs) -> i64 {
    reference.since(other)
}

/// The least and the greatest offset at time 0 that all collectives allow at this drift; the least
/// is greater where there is none.
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
