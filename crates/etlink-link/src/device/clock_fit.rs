//! Finds the shift of a device's clock that agrees with the evidence from calls and rows.
//!
//! Each observation bounds, from one side, the time by which the clock is ahead of the host's:
//!
//! ```text
//! host      cudaDeviceSynchronize --|       the call cannot return before its row has ended:
//! device        ==row==================|    ahead by at least  end - return
//! host         cudaLaunchKernel --
//! device    ==row==                         the row cannot start before its launch call does:
//!                                           ahead by at most  start - call
//!
//! violated  ####........                    by calls that waited, decreasing with the shift
//!           ........##########              by launches, increasing with it
//!           ----------|------|----> shift   in between nothing is violated
//! ```
//! **Sweep.** The number of violated bounds changes only at the bounds themselves. Both kinds are
//! sorted, and one pass over all bounds, and 0, counts the violated ones at each. The shares of the
//! two kinds are added, so that a thousand launches do not outvote the one call that waited for
//! them. Taken is the smallest shift, ahead or behind, that violates at most one in
//! [`CLOCK_OUTLIERS`] above the minimum, and that costs the other kind at most one in
//! [`CLOCK_PRICE`]. The shift is 0 if that violates no more, and shifts within [`CLOCK_TOLERANCE`]
//! are dropped: a trace whose bounds hold stays as recorded.
//!
//! **Drift.** If every shift misses by more than the tolerance, the clock may run faster or slower
//! than the host's. Without outliers, the gap between the two kinds would be a convex function of
//! the drift. With outliers it is nearly convex: the search may miss a drift that fits, but takes
//! none that does not fit.
//!
//! O(n log n) for n bounds, and O(n log range) more for a drift.

use crate::limits::{
    CLOCK_OUTLIERS, CLOCK_PRICE, CLOCK_TOLERANCE, LAUNCH_LATENCY, LEAST_BOUNDS,
    LEAST_FOR_CLOCK_DRIFT, MAX_DRIFT_PPB,
};
use crate::search::{last_fit, least_at};
use etlink_model::TimeNs;

/// A one-sided bound on the time by which a clock is ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockBound {
    /// Time of the observation, by the device's clock.
    pub(crate) at: TimeNs,
    pub(crate) ahead_ns: i64,
}

/// Bounds on one device's clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockBounds {
    /// Bounds from calls that waited: ahead by at least this.
    pub(crate) least: Vec<ClockBound>,
    /// Lower bounds from calls that may have waited for something else.
    pub(crate) guessed: Vec<ClockBound>,
    /// Bounds from launches: ahead by at most this.
    pub(crate) most: Vec<ClockBound>,
}

/// Shift and drift of a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockFit {
    /// Time by which the clock is ahead at `at`; negative if it is behind.
    pub(crate) ahead_ns: i64,
    /// The shift furthest from 0 that agrees equally well; `None` if nothing bounds it.
    pub(crate) furthest_ns: Option<i64>,
    /// Increase of `ahead_ns`, parts per billion of the clock's own time.
    pub(crate) drift_ppb: i64,
    pub(crate) at: TimeNs,
}

/// Unit of drifts: one billion parts.
const PPB: i128 = 1_000_000_000;

/// Shift caused by a drift in this time, ns.
pub(crate) fn moved(ppb: i64, ns: i64) -> i64 {
    clamped(i128::from(ppb) * i128::from(ns) / PPB)
}

fn clamped(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

impl ClockFit {
    /// Time by which the clock is ahead at a time of its own, ns.
    pub(crate) fn ahead_at(&self, time: TimeNs) -> i64 {
        let since = time.0.saturating_sub(self.at.0);
        self.ahead_ns.saturating_add(moved(self.drift_ppb, since))
    }

    /// Inverse of [`ClockFit::ahead_at`]: the time by which the clock is ahead at a time of the
    /// host's clock, ns; accurate to 1 ns.
    pub(crate) fn ahead_by_host(&self, time: TimeNs) -> i64 {
        let since = i128::from(time.shifted(self.ahead_ns).since(self.at));
        let drift = i128::from(self.drift_ppb);
        let moved = clamped(since * drift / (PPB - drift).max(1));
        self.ahead_ns.saturating_add(moved)
    }
}

impl ClockBounds {
    /// Number of bounds that a fit violates by more than the tolerance, and the largest violation,
    /// ns.
    pub(crate) fn violated_by(&self, fit: &ClockFit) -> (u64, i64) {
        let late = self.least.iter();
        let late = late.map(|bound| bound.ahead_ns.saturating_sub(fit.ahead_at(bound.at)));
        let early = self.most.iter();
        let early = early.map(|bound| fit.ahead_at(bound.at).saturating_sub(bound.ahead_ns));
        let (mut count, mut worst) = (0, 0);
        for ns in late.chain(early).filter(|ns| *ns > CLOCK_TOLERANCE.0) {
            count += 1;
            worst = ns.max(worst);
        }
        (count, worst)
    }
}

/// Finds the clock's shift and drift. `None` if it needs none, or if the bounds contradict each
/// other so that no shift is better than another.
pub(crate) fn fit(bounds: &ClockBounds) -> Option<ClockFit> {
    let without_drift = quantiles(bounds, TimeNs(0), 0);
    let drifting = if without_drift.missed() > CLOCK_TOLERANCE.0 {
        fit_drift(bounds)
    } else {
        None
    };
    drifting.or_else(|| fit_shift(bounds))
}

/// Finds the smallest shift with the smallest share of violated bounds.
fn fit_shift(bounds: &ClockBounds) -> Option<ClockFit> {
    let sorted = |all: &[ClockBound]| {
        let mut ahead: Vec<i64> = all.iter().map(|bound| bound.ahead_ns).collect();
        ahead.sort_unstable();
        ahead
    };
    let (mut least, most) = (sorted(&bounds.least), sorted(&bounds.most));
    let guessed = sorted(&bounds.guessed);
    // A single guess is not enough to move a clock, and neither is a row that starts so early that
    // its id may be another call's.
    let is_early = |ahead: &&i64| **ahead < -CLOCK_TOLERANCE.0;
    let is_near = |ahead: &i64| (-LAUNCH_LATENCY.0..-CLOCK_TOLERANCE.0).contains(ahead);
    let is_late = |ahead: &&i64| **ahead > CLOCK_TOLERANCE.0;
    let is_ahead = least.iter().any(|ahead| is_late(&ahead))
        || guessed.iter().filter(is_late).count() >= LEAST_BOUNDS;
    let is_behind =
        most.iter().any(is_near) || most.iter().filter(is_early).count() >= LEAST_BOUNDS;
    if !is_ahead && !is_behind {
        return None;
    }
    least.extend(guessed);
    least.sort_unstable();
    let mut sweep = Sweep::new(&least, &most);
    let (mut best, mut all) = (u128::MAX, vec![]);
    for ahead in shifts(&least, &most) {
        let violated = sweep.at(ahead);
        let is_wanted = match ahead {
            ..0 => is_behind && violated.least * CLOCK_PRICE <= least.len() as u64,
            0 => true,
            _ => is_ahead && violated.most * CLOCK_PRICE <= most.len() as u64,
        };
        if is_wanted {
            let share = sweep.share(violated);
            best = share.min(best);
            all.push((ahead, share));
        }
    }
    let enough = best.saturating_add(sweep.whole() / u128::from(CLOCK_OUTLIERS));
    all.retain(|(_, share)| *share <= enough);
    let (ahead, _) = *all.iter().min_by_key(|(ahead, _)| ahead.unsigned_abs())?;
    if ahead.abs() <= CLOCK_TOLERANCE.0 {
        return None;
    }
    // The last equally good shift in this direction is the other end of the range, if there is a
    // bound of the other kind.
    let furthest = if ahead > 0 {
        all.last().filter(|(end, _)| most.last() >= Some(end))
    } else {
        all.first()
            .filter(|(end, _)| least.first().is_some_and(|least| least <= end))
    };
    // A clock that is behind by more than launches take also shows in calls that waited. Without
    // any such call, rows of other calls are more likely.
    if furthest.is_none() && ahead < -LAUNCH_LATENCY.0 {
        return None;
    }
    Some(ClockFit {
        ahead_ns: ahead,
        furthest_ns: furthest.map(|(end, _)| *end),
        ..ClockFit::default()
    })
}

/// Returns all shifts at which the number of violated bounds can change, and 0, sorted.
fn shifts(least: &[i64], most: &[i64]) -> Vec<i64> {
    let mut all = [least, most, &[0]].concat();
    all.sort_unstable();
    all.dedup();
    all
}

/// Number of bounds that a shift violates.
#[derive(Clone, Copy)]
struct Violated {
    least: u64,
    most: u64,
}

/// Counts the violated bounds at ascending shifts.
struct Sweep<'b> {
    least: &'b [i64],
    most: &'b [i64],
    /// Number of bounds of each kind below the shift; for `least`, also at the shift.
    below: (usize, usize),
}

impl<'b> Sweep<'b> {
    /// Starts a sweep over sorted bounds.
    fn new(least: &'b [i64], most: &'b [i64]) -> Sweep<'b> {
        Sweep {
            least,
            most,
            below: (0, 0),
        }
    }

    fn at(&mut self, ahead: i64) -> Violated {
        let (least, most) = &mut self.below;
        while self.least.get(*least).is_some_and(|bound| *bound <= ahead) {
            *least += 1;
        }
        while self.most.get(*most).is_some_and(|bound| *bound < ahead) {
            *most += 1;
        }
        Violated {
            least: (self.least.len() - *least) as u64,
            most: *most as u64,
        }
    }

    /// Sum of the violated shares of both kinds, in parts of [`Sweep::whole`].
    fn share(&self, violated: Violated) -> u128 {
        let [least, most] = self.sizes();
        u128::from(violated.least) * most + u128::from(violated.most) * least
    }

    fn whole(&self) -> u128 {
        let [least, most] = self.sizes();
        least * most
    }

    fn sizes(&self) -> [u128; 2] {
        [self.least, self.most].map(|bounds| bounds.len().max(1) as u128)
    }
}

/// Minimum and maximum time by which a clock is ahead at an instant.
#[derive(Clone, Copy)]
struct AheadRange {
    least: Option<i64>,
    most: Option<i64>,
}

impl AheadRange {
    /// Gap between the two; at most 0 if a shift fits.
    fn missed(self) -> i64 {
        match (self.least, self.most) {
            (Some(least), Some(most)) => least.saturating_sub(most),
            _ => 0,
        }
    }

    /// Returns the fitting shift closest to 0.
    fn nearest(self) -> i64 {
        let least = self.least.unwrap_or(i64::MIN);
        let most = self.most.unwrap_or(i64::MAX);
        0.clamp(least.min(most), most)
    }
}

/// Finds the drift at which a shift fits.
fn fit_drift(bounds: &ClockBounds) -> Option<ClockFit> {
    if bounds.least.len().min(bounds.most.len()) < LEAST_FOR_CLOCK_DRIFT {
        return None;
    }
    let first = bounds.most.iter().map(|bound| bound.at).min()?;
    let last = bounds.most.iter().map(|bound| bound.at).max()?;
    let at = TimeNs(first.0.midpoint(last.0));
    let missed = |ppb: i64| i128::from(quantiles(bounds, at, ppb).missed());
    let fits = least_at(missed, -MAX_DRIFT_PPB, MAX_DRIFT_PPB);
    if missed(fits) > 0 {
        return None;
    }
    let least = last_fit(missed, fits, -MAX_DRIFT_PPB);
    let most = last_fit(missed, fits, MAX_DRIFT_PPB);
    let drift_ppb = least.midpoint(most);
    Some(ClockFit {
        ahead_ns: quantiles(bounds, at, drift_ppb).nearest(),
        furthest_ns: None,
        drift_ppb,
        at,
    })
}

/// Range of the time by which a clock with this drift is ahead at `at`, by all bounds except
/// outliers.
fn quantiles(bounds: &ClockBounds, at: TimeNs, ppb: i64) -> AheadRange {
    let without_drift = |bound: &ClockBound| {
        let since = bound.at.0.saturating_sub(at.0);
        bound.ahead_ns.saturating_sub(moved(ppb, since))
    };
    let mut least: Vec<i64> = bounds.least.iter().map(without_drift).collect();
    let mut most: Vec<i64> = bounds.most.iter().map(without_drift).collect();
    let outliers = |all: usize| all / CLOCK_OUTLIERS as usize;
    AheadRange {
        least: match least.len() {
            calls if calls < LEAST_BOUNDS => None,
            calls => {
                let place = calls - outliers(calls) - 1;
                Some(*least.select_nth_unstable(place).1)
            }
        },
        most: match most.len() {
            rows if rows < LEAST_BOUNDS => None,
            rows => {
                let place = outliers(rows).max(LEAST_BOUNDS - 1);
                Some(*most.select_nth_unstable(place).1)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: i64 = 1_000;

    /// Bounds in us, all at one instant.
    fn bounds(least: &[i64], guessed: &[i64], most: &[i64]) -> ClockBounds {
        let list = |all: &[i64]| {
            let bound = |ahead: &i64| ClockBound {
                at: TimeNs(0),
                ahead_ns: ahead * US,
            };
            all.iter().map(bound).collect()
        };
        ClockBounds {
            least: list(least),
            guessed: list(guessed),
            most: list(most),
        }
    }

    fn shift(bounds: &ClockBounds) -> Option<i64> {
        fit(bounds).map(|fit| fit.ahead_ns / US)
    }

    #[test]
    fn the_least_shift_that_most_bounds_allow() {
        for (least, guessed, most, want) in [
            // bounds that hold stay, and so do those missed within the tolerance
            (&[-4][..], &[][..], &[5, 9][..], None),
            (&[2], &[], &[5, 9], None),
            (&[], &[], &[-2, -2, -2], None),
            // one call that waited is enough, one that may have waited is not
            (&[8], &[], &[18, 20], Some(8)),
            (&[], &[8, 8], &[18, 20], None),
            (&[], &[6, 7, 8], &[18, 20], Some(8)),
            // one early row is enough too, unless it may belong to another call
            (&[], &[], &[-15, 4, 4], Some(-15)),
            (&[-30], &[], &[-15, -9, -3, 4], Some(-15)),
            (&[-500], &[], &[-150, 4, 4], None),
            (&[-500], &[], &[-150, -150, -150, 4], Some(-150)),
            // a clock is not taken to be that far behind if no call shows it
            (&[], &[], &[-150, -150, -150, -120], None),
            (&[-200], &[], &[-150, -150, -150, -120], Some(-150)),
            // a call that did not wait is ignored if the launches exclude it
            (&[80, 1, 1, 1], &[], &[6, 7, 8], None),
            (&[80, 9, 9, 9], &[], &[16, 17, 18], Some(9)),
        ] {
            let found = shift(&bounds(least, guessed, most));
            assert_eq!(found, want, "{least:?} {guessed:?} {most:?}");
        }
    }

    #[test]
    fn few_launches_are_given_up_for_a_call_that_waited_and_not_many() {
        for (early, want) in [(0, Some(300)), (4, Some(300)), (5, None)] {
            let mut most = vec![98; early];
            most.resize(40, 1_000);
            let found = shift(&bounds(&[300], &[], &most));
            assert_eq!(found, want, "{early} of 40 rows");
        }
    }

    #[test]
    fn what_contradicts_a_fit_is_counted() {
        let bounds = bounds(&[300], &[], &[98, 1_000, 1_000]);
        let at = |ahead_ns: i64| ClockFit {
            ahead_ns,
            ..ClockFit::default()
        };
        for (ahead, count, residual) in [(0, 1, 300), (98, 1, 202), (300, 1, 202), (299, 1, 201)] {
            let found = bounds.violated_by(&at(ahead * US));
            assert_eq!(found, (count, residual * US), "{ahead}");
        }
    }

    proptest! {
        /// If one shift satisfies all bounds, the shift found satisfies them within the tolerance,
        /// and is no larger than needed.
        #[test]
        fn bounds_that_agree_are_all_satisfied(
            late in prop::collection::vec(0i64..500, 1..40),
            early in prop::collection::vec(0i64..500, 1..40),
            ahead in -80i64..400,
        ) {
            let least: Vec<i64> = late.iter().map(|slack| ahead - slack).collect();
            let most: Vec<i64> = early.iter().map(|slack| ahead + slack).collect();
            let all = bounds(&least, &[], &most);
            let holds = least.iter().all(|bound| *bound <= 0) && most.iter().all(|bound| *bound >= 0);
            match fit(&all) {
                None => {
                    let off = all.violated_by(&ClockFit::default());
                    prop_assert_eq!(off.0, 0);
                }
                Some(fit) => {
                    prop_assert!(!holds);
                    let off = all.violated_by(&fit);
                    prop_assert_eq!(off.0, 0);
                    prop_assert!(fit.ahead_ns.abs() <= ahead.abs() * US);
                }
            }
        }
    }
}
