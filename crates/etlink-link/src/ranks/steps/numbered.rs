//! Selects the numbered ranges that are steps.
//!
//! A program marks its steps (`step 7`), a model its layers (`model.layers.3`), an exporter its ops
//! (`Identity_7`). Steps follow each other, no number recurs after another, and most work of the
//! devices is launched in them.

use super::{Range, covered_time};
use crate::limits::{STEP_FILL_SHARE, STEP_WORK_SHARE};
use etlink_model::{Correlation, DeviceTrace, TimeNs};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the ranges that are steps, with the part of their names before the number. Of several
/// candidates, the one that covers most time wins; of equals, the first by name. O(ranges log
/// ranges + calls + rows).
pub(super) fn numbered_steps<'d>(
    device: &DeviceTrace,
    numbered: BTreeMap<&'d str, Vec<Range>>,
) -> Option<(&'d str, Vec<Range>)> {
    let mut candidates: Vec<(&str, Vec<Range>)> = vec![];
    for (name, mut ranges) in numbered {
        ranges.sort_by_key(|range| (range.start, range.op));
        if !is_module_path(name) && follow_each_other(&ranges) {
            candidates.push((name, ranges));
        }
    }
    if candidates.is_empty() {
        return None;
    }
    let work = LaunchedWork::of_trace(device);
    let steps = candidates
        .into_iter()
        .filter(|(_, ranges)| work.is_mostly_in(ranges));
    // summed once per name: the one with most ranges may have a million
    let covered = steps.map(|(name, ranges)| (covered_time(&ranges), name, ranges));
    let most = covered.reduce(|most, next| if next.0 > most.0 { next } else { most });
    most.map(|(_, name, ranges)| (name, ranges))
}

/// Returns true if `name` is the path of a module with numbered children: `model.layers.`.
fn is_module_path(name: &str) -> bool {
    name.ends_with('.')
}

/// Returns true if `ranges`, sorted by start, begin one after the other without long pauses, and no
/// number recurs after another: layers recur in each pass.
fn follow_each_other(ranges: &[Range]) -> bool {
    let [first, .., last] = ranges else {
        return false;
    };
    let (mut seen, mut before, mut free) = (BTreeSet::new(), None, first.start);
    for range in ranges {
        let is_new = seen.insert(range.number) || before == Some(range.number);
        if !is_new || range.start < free {
            return false;
        }
        (before, free) = (Some(range.number), range.end);
    }
    let whole = last.end.since(first.start);
    seen.len() > 1 && covered_time(ranges).0 as f64 >= STEP_FILL_SHARE * whole as f64
}

/// Launch times and durations of work: device rows, or ops if the trace has no rows.
struct LaunchedWork {
    /// Launch times, ascending, with the sum of all earlier durations.
    launches: Vec<(TimeNs, i64)>,
    total: i64,
}

impl LaunchedWork {
    fn of_trace(device: &DeviceTrace) -> LaunchedWork {
        let (ops, calls, rows) = (&device.ops, &device.calls, &device.rows);
        let mut all: Vec<(TimeNs, i64)> = vec![];
        if rows.start.is_empty() {
            for op in (0..ops.start.len()).filter(|op| !ops.annotation[*op]) {
                all.push((ops.start[op], ops.duration[op].0));
            }
        } else {
            let known = calls.correlation.iter().zip(&calls.start);
            let known = known.filter(|(correlation, _)| **correlation != Correlation::NONE);
            let started: FxHashMap<Correlation, TimeNs> = known
                .map(|(correlation, start)| (*correlation, *start))
                .collect();
            for row in 0..rows.start.len() {
                let call = started.get(&rows.correlation[row]);
                let at = call.copied().unwrap_or(rows.start[row]);
                all.push((at, rows.duration[row].0));
            }
        }
        all.sort_unstable();
        let mut total = 0i64;
        for (_, length) in &mut all {
            let before = total;
            total = total.saturating_add(*length);
            *length = before;
        }
        LaunchedWork {
            launches: all,
            total,
        }
    }

    fn before(&self, time: TimeNs) -> i64 {
        let next = self.launches.partition_point(|(at, _)| *at < time);
        self.launches.get(next).map_or(self.total, |(_, sum)| *sum)
    }

    /// Returns true if enough work is launched in `ranges`, which do not overlap. Without any work
    /// in the trace, all ranges qualify.
    fn is_mostly_in(&self, ranges: &[Range]) -> bool {
        let inside = ranges.iter().fold(0i64, |sum, range| {
            let own = self.before(range.end) - self.before(range.start);
            sum.saturating_add(own)
        });
        inside as f64 >= STEP_WORK_SHARE * self.total as f64
    }
}
