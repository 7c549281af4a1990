//! Finds rows for which the recorder had no time.

use super::rows_where;
use crate::limits::{EARLY_START, LEAST_NO_LENGTH, NO_LENGTH_PART, NO_ROUNDING, ROUNDING};
use etlink_model::{AnomalyKind, DeviceTrace, DurationNs, RowIdx, RowKind, TimeNs};

/// Returns rows with start and duration 0, and kernels of duration 0 that rounding does not
/// explain: others of their name are long, times have nanoseconds, or too many kernels are of names
/// that always have duration 0. O(rows log rows).
pub(super) fn rows_without_time(device: &DeviceTrace) -> Vec<RowIdx> {
    let rows = &device.rows;
    let is_instant = |row: usize| rows.duration[row] == DurationNs::ZERO;
    if !(0..rows.len()).any(is_instant) {
        return vec![];
    }
    let is_zero = |row: usize| {
        is_instant(row)
            && (rows.start[row] == TimeNs(0) || device.header.unix_time(rows.start[row]).0 == 0)
    };
    // A trace may begin at 0: then the other rows are near.
    let others = (0..rows.len()).filter(|row| !is_zero(*row));
    let others = others.map(|row| rows.start[row]).min();
    let first = others
        .into_iter()
        .chain(device.calls.start.first().copied())
        .min();
    let is_far = first.is_some_and(|first| first.0.saturating_abs() > EARLY_START.0);
    let usual = usual_durations(device);
    let is_kernel = |row: &usize| rows.kind[*row] == RowKind::Kernel;
    let kernels = (0..rows.len()).filter(is_kernel).count() as u64;
    let has_length = names_with_length(device);
    let of_no_length = (0..rows.len())
        .filter(|row| is_kernel(row) && is_instant(*row) && !has_length[rows.name[*row].index()]);
    let of_no_length = of_no_length.count() as u64;
    let is_much = of_no_length >= LEAST_NO_LENGTH && of_no_length * NO_LENGTH_PART >= kernels;
    let is_rounded = !is_much && rows.duration.iter().all(|ns| ns.0 % ROUNDING.0 == 0);
    // The readers read negative durations, and text that is no number, as 0.
    let negative = [AnomalyKind::NegativeDuration, AnomalyKind::BadNumber];
    let negative: u64 = negative
        .iter()
        .map(|kind| device.anomalies.count(*kind))
        .sum();
    let is_work =
        |row: usize| rows.kind[row] != RowKind::GraphNode && rows.correlation[row].get().is_some();
    let instants = (0..rows.len())
        .filter(|row| is_instant(*row) && is_work(*row))
        .count() as u64;
    rows_where(rows.len(), |row| {
        if !is_instant(row) || !is_work(row) {
            return false;
        }
        // A copy's duration depends on its bytes, which may be few.
        let usual = usual[rows.name[row].index()];
        let is_short = is_kernel(&row) && (usual >= NO_ROUNDING || !is_rounded);
        is_far && is_zero(row) || is_short || instants <= negative
    })
}

/// Returns, per name, true if one of its rows has a duration above 0.
fn names_with_length(device: &DeviceTrace) -> Vec<bool> {
    let rows = &device.rows;
    let mut has_length = vec![false; device.names.count()];
    for (name, duration) in rows.name.iter().zip(&rows.duration) {
        has_length[name.index()] |= *duration > DurationNs::ZERO;
    }
    has_length
}

/// Returns, per name, the median of its nonzero durations.
fn usual_durations(device: &DeviceTrace) -> Vec<DurationNs> {
    let rows = &device.rows;
    let mut usual = vec![DurationNs::ZERO; device.names.count()];
    for (name, durations) in super::overlong::durations_by_name(&rows.name, &rows.duration) {
        let timed = durations.partition_point(|ns| *ns == DurationNs::ZERO);
        let timed = &durations[timed..];
        // fewer rows have no usual duration
        if timed.len() > 2 {
            usual[name.index()] = timed[timed.len() / 2];
        }
    }
    usual
}
