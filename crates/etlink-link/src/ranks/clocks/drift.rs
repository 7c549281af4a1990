//! How fast a rank's clock runs away from another's.
//!
//! Two things tell. The bounds of all collectives leave only some drifts at which one offset fits
//! them all: those are sure. And the differences of the ends, early in the window and late in it: a
//! line through the medians of the first and the last third (Tukey's resistant line), which
//! outliers do not bend. How far that can be off is told by order statistics, whatever the
//! distribution is: a median of n lies between the values √n places below and above it (two
//! standard deviations of the binomial distribution).
//!
//! A drift is applied where both together exclude that there is none and where it moves the offset
//! by a microsecond, the resolution of times in many traces, within the window.

use super::points::{Point, bounds, moved};
use crate::limits::{DRIFT_MATTERS, LEAST_FOR_DRIFT, MAX_DRIFT_PPB};
use crate::search::{last_fit, least_at};
use serde::Serialize;

/// How fast an offset grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockDrift {
    /// Growth of the offset, ns per second of the rank's own clock (parts per billion; 1000 are 1
    /// ppm).
    pub ppb: i64,
    /// The drift is not further off than this, as far as the collectives tell.
    pub uncertainty_ppb: i64,
    /// It is beyond its uncertainty and matters in this window: times have been corrected by it.
    pub applied: bool,
}

impl ClockDrift {
    /// Of a clock against itself.
    pub(super) const NONE: ClockDrift = ClockDrift {
        ppb: 0,
        uncertainty_ppb: 0,
        applied: false,
    };

    /// Of a third clock against the first, over a second. What is not applied is taken for none;
    /// what is not known can be any that clocks have, and is most likely none.
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

    /// Of the other clock against this one.
    pub(super) fn inverse(self) -> ClockDrift {
        ClockDrift {
            ppb: self.ppb.saturating_neg(),
            ..self
        }
    }
}

/// The drift that collectives in order of time tell.
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
    // the line can lie beside what is sure, which then decides
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

/// A drift and how far it can be off.
#[derive(Clone, Copy)]
struct ResistantLine {
    ppb: i64,
    within: i64,
}

/// The line through the ends early and late.
fn line(points: &[Point]) -> Option<ResistantLine> {
    // Thirds and not halves: the middle third says little about the slope.
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
    // each round takes the drift within the thirds out
    for _ in 0..3 {
        let rest = |point: &Point| point.ends.saturating_sub(moved(ppb, point.end));
        let (early, late) = (median(early, rest)?, median(late, rest)?);
        ppb = (ppb + per_second(late.0.saturating_sub(early.0)))
            .clamp(-2 * MAX_DRIFT_PPB, 2 * MAX_DRIFT_PPB);
        // One more, as the division rounds down.
        within = per_second(early.1.saturating_add(late.1)).saturating_add(1);
    }
    Some(ResistantLine { ppb, within })
}

/// The median and how far it can be off.
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

/// The least and the greatest drift at which some offset fits all collectives; `None` if there is
/// no such drift.
///
/// By how much the bounds miss each other is a convex function of the drift: a search in thirds
/// finds where they miss least, a search in halves on both sides where they meet. O(points · log of
/// the range).
fn sure(points: &[Point], guess: i64) -> Option<(i64, i64)> {
    let missed = |ppb: i64| {
        let (lower, upper) = bounds(points, ppb);
        i128::from(lower) - i128::from(upper)
    };
    let guess = guess.clamp(-MAX_DRIFT_PPB, MAX_DRIFT_PPB);
    // The line's drift fits nearly always, which saves the search.
    let fits = if missed(guess) <= 0 {
        guess
    } else {
        least_at(missed, -MAX_DRIFT_PPB, MAX_DRIFT_PPB)
    };
    // No drift that a clock can have makes the bounds meet: some row is not what it seems.
    if missed(fits) > 0 {
        return None;
    }
    Some((
        last_fit(missed, fits, -MAX_DRIFT_PPB),
        last_fit(missed, fits, MAX_DRIFT_PPB),
    ))
}
