//! Start and duration of rows.

use crate::sqlite::RowCells;
use etlink_model::{Anomalies, AnomalyKind, DeviceTrace, DurationNs, TimeNs};

/// Returns start and duration of a row whose first two columns are `start` and `end`. Drops a row
/// without a start; a row that ends before it starts has duration 0. Times before the session are
/// negative.
pub(crate) fn row_times(
    cells: &RowCells<'_, '_>,
    table: &str,
    anomalies: &mut Anomalies,
) -> Option<(TimeNs, DurationNs)> {
    let Some(start) = cells.int(0) else {
        anomalies.note(AnomalyKind::NoTime, || table.to_owned());
        return None;
    };
    // Sums of such times would overflow.
    let is_out = |time: i64| !TimeNs(time).is_in_range();
    if is_out(start) || cells.int(1).is_some_and(is_out) {
        anomalies.note(AnomalyKind::TimeOutOfRange, || table.to_owned());
        return None;
    }
    let Some(end) = cells.int(1) else {
        anomalies.note(AnomalyKind::BadNumber, || format!("{table}.end"));
        return Some((TimeNs(start), DurationNs::ZERO));
    };
    if end < start {
        anomalies.note(AnomalyKind::NegativeDuration, || {
            format!("{table}, start {start}")
        });
    }
    Some((TimeNs(start), TimeNs(end) - TimeNs(start)))
}

/// Returns the start of a row without an end.
pub(crate) fn time_in_range(cells: &RowCells<'_, '_>, anomalies: &mut Anomalies) -> Option<TimeNs> {
    let start = cells.int(0).map(TimeNs).filter(|start| start.is_in_range());
    if start.is_none() {
        anomalies.note(AnomalyKind::TimeOutOfRange, String::new);
    }
    start
}

/// Extends ranges that were open when recording stopped to the last event.
pub(crate) fn close_open_ranges(trace: &mut DeviceTrace) {
    let Some((_, end)) = trace.window() else {
        return;
    };
    for op in 0..trace.ops.len() {
        if trace.ops.unfinished[op] {
            trace.ops.duration[op] = end - trace.ops.start[op];
        }
    }
}
