//! Estimates the drift between two ranks' clocks.
//!
//! There are two sources. The bounds of all collectives admit only some drifts at which one offset
//! fits them all: those are certain. The second source is the differences of the ends early and
//! late in the window: a line through the medians of the first and the last third (Tukey's
//! resistant line), which outliers do not bend. Its error follows from order statistics, whatever
//! the distribution: a median of n is between the values √n places below and above it (two standard
//! deviations of the binomial distribution).
//!
//! A drift is applied if both sources together exclude zero, and if it changes the offset within
//! the window by a microsecond, the resolution of times in many traces.

use super::points::{Point, bounds, moved};
use crate::limits::{DRIFT_MATTERS, LEAST_FOR_DRIFT, MAX_DRIFT_PPB};
use crate::search::{last_fit, least_at};
use serde::Serialize;

/// Rate at which an offset grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockDrift {
    /// Growth of the offset, ns per second of the rank's own clock (parts per billion; 1000 are 1
    /// ppm).
    pub ppb: i64,
    /// Maximum error of the drift, as far as the collectives show.
    pub uncertainty_ppb: i64,
    /// True if the drift exceeds its uncertainty and matters in this window: times have been
    /// corrected by it.
    pub applied: bool,
}

impl ClockDrift {
    /// Drift of a clock relative to itself.
    pub(super) const NONE: ClockDrift = ClockDrift {
        ppb: 0,
        uncertainty_ppb: 0,
        applied: false,
    };

    /// Composes the drifts of two steps. A drift that is not applied counts as none; an unknown
    /// drift may be any that clocks have, and is most likely none.
    pub(super) fn sum(one: Option<ClockDrift>, other: Option<ClockDrift>) -> Option<ClockDrift> {
        const UNKNOWN: ClockDrift = ClockDrift {
            ppb: 0,
            uncertainty_ppb: MAX_DRIFT_PPB,
            applied: false,
        };
        let known =
            one.is_some() && other.is_some() || one.or(other).is_some_and(|drift| drift.applied);
        if !known {
            return None;
        }
        let (one, other) = (one.unwrap_or(UNKNOWN), other.unwrap_or(UNKNOWN));
        let ppb =
            |drift: ClockDrift, alone: bool| if drift.applied || alone { drift.ppb } else { 0 };
        let neither = !one.applied && !other.applied;
        Some(ClockDrift {
            ppb: ppb(one, neither).saturating_add(ppb(other, neither)),
            uncertainty_ppb: one.uncertainty_ppb.saturating_add(other.uncertainty_ppb),
            applied: !neither,
        })
    }

    /// Drift of the other clock relative to this one.
    pub(super) fn inverse(self) -> ClockDrift {
        ClockDrift {
            ppb: self.ppb.saturating_neg(),
            ..self
        }
    }
}

/// Estimates the drift from collectives in order of time.
pub(super) fn of(points: &[Point]) -> Option<ClockDrift> {
    let (first, last) = (points.first()?, points.last()?);
    let window = last.end.saturating_sub(first.end);
    let line = line(points);
    let (least, most) = sure(points, line.map_or(0, |line| line.ppb))?;
    if line.is_none() && (least, most) == (-MAX_DRIFT_PPB, MAX_DRIFT_PPB) {
        return None;
    }
    let (low, high) = line.map_or((least, most), |line| {
        (
            least.max(line.ppb - line.within),
            most.min(line.ppb + line.within),
        )
    });
    // the line may be outside the certain range, which then decides
    let (low, high) = if low <= high {
        (low, high)
    } else {
        (least, most)
    };
    let ppb = line
        .map_or(low.midpoint(high), |line| line.ppb)
        .clamp(low, high);
    let beyond = low > 0 || high < 0;
    Some(ClockDrift {
        ppb,
        uncertainty_ppb: (ppb - low).max(high - ppb),
        applied: beyond && moved(ppb, window).abs() >= DRIFT_MATTERS.0,
    })
}

/// A drift with its maximum error.
#[derive(Clone, Copy)]
struct ResistantLine {
    ppb: i64,
    within: i64,
}

/// Fits the line through early and late ends.
fn line(points: &[Point]) -> Option<ResistantLine> {
    // Thirds rather than halves: the middle third says little about the slope.
    let third = points.len() / 3;
    let (early, late) = (points.get(..third)?, points.get(points.len() - third..)?);
    let time = median(late, |point| point.end)?
        .0
        .saturating_sub(median(early, |point| point.end)?.0);
    if points.len() < LEAST_FOR_DRIFT || time <= 0 {
        return None;
    }
    let per_second = |ns: i64| {
        (i128::from(ns) * 1_000_000_000 / i128::from(time)).clamp(
            -i128::from(2 * MAX_DRIFT_PPB),
            i128::from(2 * MAX_DRIFT_PPB),
        ) as i64
    };
    let (mut ppb, mut within) = (0i64, 0);
    // each round removes the drift within the thirds
    for _ in 0..3 {
        let rest = |point: &Point| point.ends.saturating_sub(moved(ppb, point.end));
        let (early, late) = (median(early, rest)?, median(late, rest)?);
        ppb = (ppb + per_second(late.0.saturating_sub(early.0)))
            .clamp(-2 * MAX_DRIFT_PPB, 2 * MAX_DRIFT_PPB);
        // One more, since the division rounds down.
        within = per_second(early.1.saturating_add(late.1)).saturating_add(1);
    }
    Some(ResistantLine { ppb, within })
}

/// Returns the median and its maximum error.
fn median(points: &[Point], of: impl Fn(&Point) -> i64) -> Option<(i64, i64)> {
    let mut all: Vec<i64> = points.iter().map(of).collect();
    all.sort_unstable();
    let (middle, places) = (all.len() / 2, all.len().isqrt() + 1);
    let median = *all.get(middle)?;
    let (low, high) = (
        all.get(middle.saturating_sub(places))?,
        all.get((middle + places).min(all.len() - 1))?,
    );
    Some((
        median,
        median.saturating_sub(*low).max(high.saturating_sub(median)),
    ))
}

/// Returns the smallest and the largest drift at which some offset fits all collectives; `None` if
/// there is no such drift.
///
/// The gap between the bounds is a convex function of the drift: ternary search finds its minimum,
/// binary search on both sides its zeros. O(points · log of the range).
fn sure(points: &[Point], guess: i64) -> Option<(i64, i64)> {
    let missed = |ppb: i64| {
        let (lower, upper) = bounds(points, ppb);
        i128::from(lower) - i128::from(upper)
    };
    let guess = guess.clamp(-MAX_DRIFT_PPB, MAX_DRIFT_PPB);
    // The line's drift fits nearly always, which avoids the search.
    let fits = if missed(guess) <= 0 {
        guess
    } else {
        least_at(missed, -MAX_DRIFT_PPB, MAX_DRIFT_PPB)
    };
    // At no possible drift do the bounds meet: some row is misleading.
    if missed(fits) > 0 {
        return None;
    }
    Some((
        last_fit(missed, fits, -MAX_DRIFT_PPB),
        last_fit(missed, fits, MAX_DRIFT_PPB),
    ))
}
