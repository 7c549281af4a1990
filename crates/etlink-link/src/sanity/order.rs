//! Finds rows at times at which they cannot have run.
//!
//! A stream runs its rows in the order of their launches. Rows that agree with it form the longest
//! increasing run of starts (patience sorting, O(n log n)); a row outside it by more than clocks
//! and threads explain has a wrong time. This needs no common clock of host and device. A single
//! row, or one without a known call, is compared with the recording.

use super::launches::LaunchCalls;
use super::rows_where;
use crate::limits::{EARLY_START, RECORDING_MARGIN};
use crate::search::Groups;
use etlink_model::QueueIdx;
use etlink_model::{DeviceTrace, RowIdx, TableIdx, TimeNs};

/// Returns the rows with an impossible start, ascending.
pub(super) fn misplaced_rows(device: &DeviceTrace, calls: &LaunchCalls) -> Vec<RowIdx> {
    let mut is_wrong = vec![false; device.rows.len()];
    mark_outside(device, &mut is_wrong);
    let by_queue: Groups<QueueIdx, RowIdx> = Groups::new(&device.rows.queue, device.queues.len());
    for queue in 0..device.queues.len() {
        let mut launched: Vec<(TimeNs, TimeNs, RowIdx)> = vec![];
        for row in by_queue.rows(QueueIdx::from_index(queue)) {
            let call = calls.call_of(device.rows.correlation[row.index()]);
            if !is_wrong[row.index()]
                && let Some(call) = call
            {
                let called = device.calls.start[call.index()];
                launched.push((called, device.rows.start[row.index()], *row));
            }
        }
        launched.sort_unstable();
        let starts: Vec<TimeNs> = launched.iter().map(|(_, start, _)| *start).collect();
        for place in out_of_order(&starts) {
            is_wrong[launched[place].2.index()] = true;
        }
    }
    rows_where(device.rows.len(), |row| is_wrong[row])
}

/// Returns the indexes of starts that are out of order by more than [`EARLY_START`].
fn out_of_order(starts: &[TimeNs]) -> Vec<usize> {
    if starts.is_sorted() {
        return vec![];
    }
    let in_order = longest_run(starts);
    let mut out = vec![];
    let (mut before, mut next) = (TimeNs(i64::MIN), 0);
    for (place, start) in starts.iter().enumerate() {
        if in_order.get(next) == Some(&place) {
            before = *start;
            next += 1;
            continue;
        }
        let after = in_order
            .get(next)
            .map_or(TimeNs(i64::MAX), |place| starts[*place]);
        if before.since(*start).max(start.since(after)) > EARLY_START.0 {
            out.push(place);
        }
    }
    out
}

/// Returns the indexes of the longest increasing subsequence. A frequent wrong time forms none.
fn longest_run(starts: &[TimeNs]) -> Vec<usize> {
    let mut last_of_length: Vec<usize> = vec![];
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(starts.len());
    for (place, start) in starts.iter().enumerate() {
        let length = last_of_length.partition_point(|last| starts[*last] < *start);
        previous.push(length.checked_sub(1).map(|shorter| last_of_length[shorter]));
        match last_of_length.get_mut(length) {
            Some(last) => *last = place,
            None => last_of_length.push(place),
        }
    }
    let mut run: Vec<usize> =
        std::iter::successors(last_of_length.last().copied(), |place| previous[*place]).collect();
    run.reverse();
    run
}

/// Marks rows that start further from the recording than its length. The recording covers the times
/// of calls and of the middle half of the rows' starts.
fn mark_outside(device: &DeviceTrace, is_wrong: &mut [bool]) {
    let starts = &device.rows.start;
    // fewer rows have no middle half
    if starts.len() < 4 {
        return;
    }
    let (mut first, mut last) = (
        starts[starts.len() / 4],
        starts[(starts.len() * 3).div_ceil(4) - 1],
    );
    let calls = &device.calls;
    for (start, duration) in calls.start.iter().zip(&calls.duration) {
        first = first.min(*start);
        last = last.max(*start + *duration);
    }
    let margin = last.since(first).max(RECORDING_MARGIN.0);
    for (row, start) in starts.iter().enumerate() {
        is_wrong[row] |= first.since(*start) > margin || start.since(last) > margin;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_wrong_starts_are_told_from_many_right_ones() {
        let ms = |times: &[i64]| -> Vec<TimeNs> {
            times.iter().map(|ms| TimeNs(ms * 1_000_000)).collect()
        };
        for (starts, wrong) in [
            (&[10, 20, 30, 40][..], &[][..]),
            (&[10, 900, 30, 40], &[1]),
            (&[10, 20, 0, 30, 0, 0, 50], &[2, 4, 5]),
            (&[10, 20, 30, -5], &[3]),
            // by 1 ms, which threads that launch concurrently may cause
            (&[10, 12, 11, 13], &[]),
        ] {
            assert_eq!(out_of_order(&ms(starts)), wrong, "{starts:?}");
        }
    }
}
